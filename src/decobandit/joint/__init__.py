"""All arms together: joint states and the exact optimum over them.

Imports `problem` and what is below it; not `arm`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .arm_states import ArmStates as ArmStates
    from .arm_states import Ways as Ways
    from .arm_states import distinct_rows as distinct_rows
    from .arm_states import refuse_infinite as refuse_infinite
    from .arm_states import states_of_arms as states_of_arms
    from .exact_optimum import Optimum as Optimum
    from .exact_optimum import count_states as count_states
    from .exact_optimum import exact_stages as exact_stages
    from .exact_optimum import optimum as optimum
    from .exact_optimum import start_optimum as start_optimum
    from .shapes import ShapeValues as ShapeValues
    from .shapes import stored_states as stored_states

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
