"""The exact value of a policy.

Any policy is followed by `forward.py`; two arms over dense arrays: `two_arms.py`.

Imports `policies` and what is below it.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .exact_value import Evaluation as Evaluation
    from .exact_value import Occupied as Occupied
    from .exact_value import evaluate as evaluate
    from .exact_value import states_ahead as states_ahead
    from .two_arms import TwoArmStates as TwoArmStates
    from .two_arms import states_of_two_arms as states_of_two_arms

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
