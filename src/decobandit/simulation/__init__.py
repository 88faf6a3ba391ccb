"""The value of policies by simulation on common draws.

Imports `policies` and what is below it; not `evaluation`.

Draws: `draws.py`, weighted where priors are nearly certain `proposals.py`. Batches:
`batch_playing.py`; other kinds `kind_playing.py`; sums over episodes `played.py`. Standard errors:
`estimators.py`. Policies side by side, averaged over seeds: `policy_grids.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .batch_playing import play_batches as play_batches
    from .draws import CHUNK as CHUNK
    from .draws import World as World
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
    from .kind_playing import KindWorld as KindWorld
    from .kind_playing import play_kinds as play_kinds
    from .played import Dual as Dual
    from .played import Played as Played
    from .playing import Player as Player
    from .playing import play as play
    from .policy_grids import Compared as Compared
    from .policy_grids import policy_grid as policy_grid
    from .results import PolicyResult as PolicyResult
    from .results import Simulation as Simulation
    from .sampling import Sampling as Sampling
    from .sampling import Sizes as Sizes
    from .sampling import check_sampling as check_sampling
    from .sampling import check_sizes as check_sizes
    from .simulating import simulate as simulate

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
