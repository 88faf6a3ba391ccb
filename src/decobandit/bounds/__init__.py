"""Upper bounds on every policy; the gap of a policy, by stage; one episode with indices and prices.

Imports `evaluation`, `simulation` and what is below them.

All bounds, one function each: `upper_bounds.py`, with the scenarios of `information_bounds.py`. The
gap, and policies compared with a bound: `gaps.py`; one episode: `episodes.py`.
Certificates: `certificates.py`, and their checker, which stands alone: `certificate_checker.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .certificates import certificate as certificate
    from .certificates import check_certifiable as check_certifiable
    from .episodes import Episode as Episode
    from .episodes import follow as follow
    from .episodes import retrace as retrace
    from .gaps import ComparedEpisode as ComparedEpisode
    from .gaps import ExactComparison as ExactComparison
    from .gaps import Gap as Gap
    from .gaps import SimulatedComparison as SimulatedComparison
    from .gaps import check_method as check_method
    from .gaps import compare_by_simulation as compare_by_simulation
    from .gaps import compare_exactly as compare_exactly
    from .gaps import compare_gaps as compare_gaps
    from .gaps import follow_by_name as follow_by_name
    from .gaps import gap as gap
    from .upper_bounds import MEANINGS as MEANINGS
    from .upper_bounds import Bounds as Bounds
    from .upper_bounds import BoundValue as BoundValue
    from .upper_bounds import bound as bound

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
