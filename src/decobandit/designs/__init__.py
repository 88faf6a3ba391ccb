"""What to expect of a design before it starts.

Imports `bounds` and what is below it.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .forecasts import EXACT_STATES as EXACT_STATES
    from .forecasts import STEPS as STEPS
    from .forecasts import Forecast as Forecast
    from .forecasts import Plan as Plan
    from .forecasts import as_python as as_python
    from .forecasts import as_toml as as_toml
    from .forecasts import forecast as forecast
    from .forecasts import plan as plan
    from .forecasts import too_slow as too_slow

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
