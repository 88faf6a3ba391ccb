"""The value of policies by simulation on common draws.

Imports `policies` and what is below it; not `evaluation`.

`simulating.py` is the verb. What is drawn: `worlds.py`. Episodes: `playing.py`; their sums:
`accounts.py`. Standard errors: `estimators.py`. Records, and policies side by side: `results.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .accounts import GapTerms as GapTerms
    from .accounts import no_terms as no_terms
    from .estimators import FOLDS as FOLDS
    from .estimators import MIN_DRAWS as MIN_DRAWS
    from .estimators import Estimate as Estimate
    from .estimators import Missed as Missed
    from .estimators import Moments as Moments
    from .estimators import check_draws as check_draws
    from .estimators import estimate as estimate
    from .estimators import mean_estimate as mean_estimate
    from .estimators import regression as regression
    from .estimators import term_errors as term_errors
    from .playing import play as play
    from .results import Compared as Compared
    from .results import PolicyResult as PolicyResult
    from .results import Simulation as Simulation
    from .results import policy_grid as policy_grid
    from .simulating import Sampling as Sampling
    from .simulating import Sizes as Sizes
    from .simulating import check_sampling as check_sampling
    from .simulating import check_sizes as check_sizes
    from .simulating import simulate as simulate
    from .worlds import CHUNK as CHUNK
    from .worlds import Chunk as Chunk
    from .worlds import World as World
    from .worlds import outcomes_of as outcomes_of

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
