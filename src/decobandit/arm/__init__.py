"""One arm alone at given prices: values, index, calibrated index, Gittins tables.

Imports `problem` and what is below it.

Values, indices and what units are worth: `one_arm_values.py`, for every model and batch size. The
states behind them: `graph.py` (arrays, exact states), `grids.py` (grids, and why bounds hold),
`arm_states.py` (which of them a problem has); what a step does to them `kernels/graph.py`, a stage
`kernels/units.py`, single pulls of good and bad outcomes `kernels/backward.py`. Arms that move at
rest: `chains.py`. Calibrated indices:
`calibration.py`; Gittins indices by knots, discounted and of
normal arms `gittins.py`; of other models `row_gittins.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .arm_states import EXACT as EXACT
    from .arm_states import Grid as Grid
    from .arm_states import Rewards as Rewards
    from .arm_states import arm_graph as arm_graph
    from .arm_states import exact_bytes as exact_bytes
    from .arm_states import graph_of as graph_of
    from .arm_states import grid_of as grid_of
    from .calibration import EXACT_STAGES as EXACT_STAGES
    from .calibration import FLAT_STAGES as FLAT_STAGES
    from .calibration import Calibration as Calibration
    from .calibration import PricePath as PricePath
    from .calibration import TickCalibration as TickCalibration
    from .calibration import is_steady as is_steady
    from .chains import GRID_STATES as GRID_STATES
    from .chains import ChainStates as ChainStates
    from .chains import long_run_chain as long_run_chain
    from .chains import refuse_large_chains as refuse_large_chains
    from .chains import stage_factors as stage_factors
    from .gittins import KnotCalibration as KnotCalibration
    from .gittins import calibrated as calibrated
    from .gittins import normal_indices as normal_indices
    from .graph import ArmGraph as ArmGraph
    from .grids import COARSEST as COARSEST
    from .grids import POINTS as POINTS
    from .one_arm_values import Cones as Cones
    from .one_arm_values import OneArmValues as OneArmValues
    from .one_arm_values import Terms as Terms
    from .one_arm_values import price_array as price_array
    from .row_gittins import RowGittins as RowGittins

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
