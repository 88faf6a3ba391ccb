"""The price path of the calibrated index, chosen by the value of its policy.

Imports `evaluation`, `simulation` and what is below them.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .path_search import MOST_STATES as MOST_STATES
    from .path_search import ChosenPath as ChosenPath
    from .path_search import choose_path as choose_path
    from .tuned import TunedPolicy as TunedPolicy
    from .workbench import Workbench as Workbench

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
