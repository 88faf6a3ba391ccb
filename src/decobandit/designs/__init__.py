"""Designs before they start: forecasts and operating characteristics.

Imports `bounds` and what is below it.

`designing.py` follows a design exactly or simulates it (`playing.py`), and calibrates; `results.py`
computes from the ends of trials, `final_tests.py` tests, `sizing.py` finds horizons,
`inference.py` estimates after adaptation. For a report, with other priors: `reporting.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .designing import POLICIES as POLICIES
    from .designing import characteristics_in as characteristics_in
    from .designing import check_asked as check_asked
    from .designing import load_design as load_design
    from .designing import operating_characteristics as operating_characteristics
    from .forecasts import EXACT_STATES as EXACT_STATES
    from .forecasts import STEPS as STEPS
    from .forecasts import Forecast as Forecast
    from .forecasts import forecast as forecast
    from .forecasts import too_slow as too_slow
    from .results import Calibrated as Calibrated
    from .results import Characteristics as Characteristics
    from .results import DesignResult as DesignResult
    from .results import ScenarioResult as ScenarioResult
    from .sizing import SampleSize as SampleSize
    from .sizing import sample_size as sample_size

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
