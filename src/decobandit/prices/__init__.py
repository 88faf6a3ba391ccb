"""The dual: market rounds, the smoothed dual, the master problem, solutions and their files.

Imports `arm` and what is below it.

The search: `search.py`, over a market (`market.py`): of every model and batch size
`graph_market.py`, faster for single pulls of good and bad outcomes `band_market.py`. A stage's
price: `kernels/rounds.py`, by `kernels/selection.py`, with threads `in_step.py`. Where prices tie:
`smoothing.py`, by `descent.py`, and for the last digits `master.py`. What DeCo plays:
`canonical.py`. Searches of other kinds start from fewer stages: `problem/thinning.py`. Whether a
search is short: `effort.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .canonical import at_canonical_prices as at_canonical_prices
    from .demand_by_stage import Demand as Demand
    from .demand_by_stage import demand as demand
    from .dual import DualValue as DualValue
    from .dual import dual_value as dual_value
    from .dual import solve as solve
    from .dual import whole_solution as whole_solution
    from .effort import is_quick as is_quick
    from .solution import DualSolution as DualSolution
    from .solution import SolutionRecord as SolutionRecord
    from .solution import check_solution as check_solution
    from .solution_files import is_solution as is_solution
    from .solution_files import load_solution as load_solution
    from .solution_files import read_solution as read_solution
    from .solution_files import save_solution as save_solution

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
