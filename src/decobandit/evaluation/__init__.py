"""The exact value of a policy.

Any policy is followed by `forward.py`; compiled loops serve single good/bad pulls: index policies
`index_forward.py`.

Imports `policies` and what is below it.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .exact_value import Evaluation as Evaluation
    from .exact_value import Occupied as Occupied
    from .exact_value import evaluate as evaluate
    from .index_forward import TwoArmStates as TwoArmStates
    from .index_forward import states_ahead as states_ahead
    from .index_forward import states_of_two_arms as states_of_two_arms

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
