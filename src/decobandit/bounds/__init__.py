"""Upper bounds on every policy; the gap of a policy, by stage; one episode with indices and prices.

Imports `evaluation`, `simulation` and what is below them.

The least bound and its errors: `best_bounds.py`; the information bound and its scenarios:
`information_bounds.py`; the joint bound: `joint_bounds.py`; policies compared with a bound:
`comparisons.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .best_bounds import BestBound as BestBound
    from .best_bounds import best_bound as best_bound
    from .best_bounds import check_bound_draws as check_bound_draws
    from .bound_kinds import MEANINGS as MEANINGS
    from .bound_kinds import BoundKind as BoundKind
    from .bound_results import InformationBound as InformationBound
    from .comparisons import ComparedEpisode as ComparedEpisode
    from .comparisons import ExactComparison as ExactComparison
    from .comparisons import SimulatedComparison as SimulatedComparison
    from .comparisons import bounds_at_prices as bounds_at_prices
    from .comparisons import compare_by_simulation as compare_by_simulation
    from .comparisons import compare_exactly as compare_exactly
    from .comparisons import compare_gaps as compare_gaps
    from .comparisons import follow_by_name as follow_by_name
    from .episode_record import Episode as Episode
    from .episodes import follow as follow
    from .episodes import retrace as retrace
    from .gap_record import Gap as Gap
    from .gaps import check_method as check_method
    from .gaps import gap as gap
    from .information_bounds import check_settings as check_settings
    from .information_bounds import information_bound as information_bound

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
