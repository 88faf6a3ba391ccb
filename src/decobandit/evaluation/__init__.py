"""The exact value of a policy.

States are enumerated in `forward.py`, of two arms in `two_arms.py`, in batches in
`batch_forward.py`.

Imports `policies` and what is below it.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .exact_value import Evaluation as Evaluation
    from .exact_value import Occupied as Occupied
    from .exact_value import TooManyStates as TooManyStates
    from .exact_value import evaluate as evaluate
    from .kind_forward import KindLevel as KindLevel
    from .kind_forward import watched_arms as watched_arms
    from .two_arms import TwoArmStates as TwoArmStates
    from .two_arms import states_ahead as states_ahead
    from .two_arms import states_of_two_arms as states_of_two_arms

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
