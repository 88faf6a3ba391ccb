"""The dual: market rounds, the smoothed dual, the master problem, solutions and their files.

Imports `arm` and what is below it.

The search and what it asks of a market: `search.py`. Markets: `stage_market.py` with its
`traders.py` for every model and batch size, `band_market.py` faster for single pulls with good and
bad outcomes; a stage's price there: `kernels/bands.py`. Ties: `descent.py`, and for the last digits
the master problem. What DeCo plays: `canonical.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .canonical import at_canonical_prices as at_canonical_prices
    from .demand_by_stage import Demand as Demand
    from .demand_by_stage import demand as demand
    from .dual import DualValue as DualValue
    from .dual import MoneyPlan as MoneyPlan
    from .dual import dual_value as dual_value
    from .dual import is_quick as is_quick
    from .dual import money_plans as money_plans
    from .dual import whole_solution as whole_solution
    from .limits import joined_prices as joined_prices
    from .rounding import proved_above as proved_above
    from .segments import by_segment as by_segment
    from .segments import solve as solve
    from .solution import DualSolution as DualSolution
    from .solution import SolutionRecord as SolutionRecord
    from .solution import check_solution as check_solution
    from .solution import is_solution as is_solution
    from .solution import load_solution as load_solution
    from .solution import read_solution as read_solution
    from .solution import save_solution as save_solution
    from .stage_market import relaxed_solution as relaxed_solution

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
