"""One arm alone at given prices: values, index, calibrated index, Gittins tables.

Imports `problem` and what is below it.

Single pulls: `relaxation.py`. Batches: states `batch_states.py`, values `batch_relaxation.py`; on a
grid of states `batch_sizes.py` (when), `batch_grids.py` (which, and why bounds hold). Other kinds
of outcomes: states in rows `kinds/rows.py`, made by `kinds/makers.py`, one pull
of normal arms `kernels/laws.py`. Calibrated indices:
`calibration.py`, with ticks `tick_calibration.py`, against the paths of `price_paths.py`; long
horizons `gittins_knots.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .batch_grids import Grid as Grid
    from .batch_relaxation import BatchRelaxation as BatchRelaxation
    from .batch_relaxation import Earnings as Earnings
    from .batch_relaxation import final_values as final_values
    from .batch_sizes import check_points as check_points
    from .batch_sizes import exact_bytes as exact_bytes
    from .batch_sizes import grid_of as grid_of
    from .batch_states import UnitStates as UnitStates
    from .batch_states import unit_states as unit_states
    from .calibration import EXACT_STAGES as EXACT_STAGES
    from .calibration import FLAT_STAGES as FLAT_STAGES
    from .calibration import Calibration as Calibration
    from .cones import Cones as Cones
    from .gittins_knots import KnotCalibration as KnotCalibration
    from .kinds.gittins import RowGittins as RowGittins
    from .kinds.makers import arm_rows as arm_rows
    from .kinds.normal_gittins import normal_indices as normal_indices
    from .kinds.relaxation import RowRelaxation as RowRelaxation
    from .kinds.rewards import RowRewards as RowRewards
    from .kinds.rows import COARSEST as COARSEST
    from .kinds.rows import FINEST as FINEST
    from .kinds.rows import POINTS as POINTS
    from .kinds.rows import ArmRows as ArmRows
    from .kinds.unit_relaxation import UnitRelaxation as UnitRelaxation
    from .price_checks import check_prices as check_prices
    from .price_checks import price_array as price_array
    from .price_paths import PricePath as PricePath
    from .price_paths import is_steady as is_steady
    from .relaxation import Relaxation as Relaxation
    from .relaxation import Terms as Terms
    from .tick_calibration import TickCalibration as TickCalibration
    from .tick_calibration import calibrated as calibrated

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
