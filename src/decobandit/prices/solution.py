"""Solutions of the dual, their records as plain values, and solution files.

A file holds a problem, its multipliers, what was certified about them, and a policy's tie rule, as
JSON. Tables are recomputed on load: the file is small and readable, and decides exactly as the
policy it was written for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .._version import __version__
from ..problem import (
    DEFAULT_TIES,
    Problem,
    ProblemError,
    TieRule,
    problem_from_dict,
    problem_to_dict,
    read_tree,
)
from ..support import (
    Card,
    Floats,
    InvalidArgument,
    Tables,
    Tabular,
    columns_of,
    dotted,
    one_line,
    shown,
    write_whole,
)
from ..support.records import doc, record_class
from .rounding import dual_rounding, flow_rounding
from .search import ROUNDING, HistoryLine, relative_gap

Finite = Annotated[float, Field(allow_inf_nan=False)]
FORMAT = "decobandit-solution-1"


@record_class(eq=False)  # arrays have no single truth value
class DualSolution(Tabular):
    """Prices with certified bounds on the minimum of the dual function.

    Tables of `to_frame`: `stages`, the prices; `history`, the bounds after each round.

    Examples
    --------
    >>> from decobandit import Problem, solve
    >>> solution = solve(Problem.uniform(arms=3, horizon=10))
    >>> solution.lower_bound <= solution.upper_bound
    True
    >>> solution.prices.shape
    (10,)
    """

    problem: Problem = doc("Problem that was relaxed.")
    multipliers: Floats = doc("(horizon,) price of a pull at each stage.")
    deployment_price: float | None = doc("Price of the final choice, where the problem has one.")
    upper_bound: float = doc("No policy earns more.")
    lower_bound: float | None = doc(
        "No prices give a smaller upper bound. None where counts are followed on too coarse a grid "
        "to tell."
    )
    tol: float = doc("Relative gap to reach, as requested.")
    oracle_calls: int = doc("Backward passes, those on coarser problems included.")
    seconds: float = doc("Duration of the search, without compiling kernels.")
    interrupted: bool = doc("Whether it was ended from the keyboard.")
    history: tuple[HistoryLine, ...] = doc(
        "The bounds after each round, without an allowance for rounding; with a grid the lower "
        "ones are on the minimum of its chords."
    )
    grid: int = doc(
        "States per row of a grid on which arms were followed; 0 where every state was. Both "
        "bounds hold either way; what the grid cannot resolve is part of their gap.",
        default=0,
    )
    search_gap: float | None = doc(
        "On a grid, the relative gap at which the search ended there: the rest of `relative_gap` "
        "is due to the grid. None without one.",
        default=None,
    )
    stopped: str | None = doc(
        "Why the search ended before it reached `tol`, and what to do; None where it did. Not kept "
        "in files.",
        default=None,
    )
    budget_price: float | None = doc(
        "Price of money, where the problem has a budget.", default=None
    )
    resource_prices: Floats | None = doc(
        "(horizon, resources) price of each resource at each stage, where the problem has some.",
        default=None,
    )

    @property
    def relative_gap(self) -> float | None:
        """Upper minus lower bound, relative to the larger in size; None without a lower bound."""
        if self.lower_bound is None:
            return None
        return relative_gap(self.upper_bound, self.lower_bound)

    @property
    def converged(self) -> bool:
        """Whether the search reached a relative gap of `tol`; on a grid, the gap on that grid.

        Bounds that differ by rounding alone have met.
        """
        if self.search_gap is not None or self.lower_bound is None:
            return self.search_gap is not None and self.search_gap <= self.tol
        size = max(abs(self.upper_bound), abs(self.lower_bound))
        charged = (self.budget_price or 0.0, self.resource_prices)
        errors = dual_rounding(self.problem, self.prices, *charged) + flow_rounding(self.problem)
        largest = max(group.largest_reward for group in self.problem.groups)
        rounding = 2.0 * errors + ROUNDING * largest * float(self.problem.pulls.sum())
        return self.upper_bound - self.lower_bound <= max(self.tol * size, rounding)

    @property
    def prices(self) -> Floats:
        """Price of a pull at each stage, then of the deployment if there is one, (stages,)."""
        if self.deployment_price is None:
            return self.multipliers
        return np.append(self.multipliers, self.deployment_price)

    @property
    def priced(self) -> Problem:
        """The problem whose pulls pay the prices of money and resources, if it has some."""
        return self.problem.charged(self.budget_price or 0.0, self.resource_prices)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `deco solve --json` prints them."""
        grid = {"grid": self.grid, "search_gap": self.search_gap} if self.grid else {}
        further = {
            "deployment_price": self.deployment_price,
            "budget_price": self.budget_price,
            "resource_prices": _by_name(self.problem, self.resource_prices) or None,
        }
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "pulls_per_stage": self.problem.pulls_per_stage,
            "upper_bound": self.upper_bound,
            "lower_bound": self.lower_bound,
            "relative_gap": self.relative_gap,
            "tol": self.tol,
            **grid,
            "converged": self.converged,
            "stopped": self.stopped,
            "interrupted": self.interrupted,
            "multipliers": self.multipliers.tolist(),
            "oracle_calls": self.oracle_calls,
            "seconds": self.seconds,
            **{name: price for name, price in further.items() if price is not None},
        }

    def _card(self) -> Card:
        return Card(
            f"Dual solution: {self.problem.described()}",
            {
                "no policy earns more than": self.upper_bound,
                "dual minimum at least": self.lower_bound,
                "relative gap": self.relative_gap,
                "oracle calls": self.oracle_calls,
                "seconds": round(self.seconds, 2),
            },
            {"stage": range(len(self.prices)), **self._price_columns()},
        )

    def _price_columns(self) -> dict[str, Any]:
        """Prices of a pull and of every resource, (stages,); a deployment uses no resource."""
        rest = np.zeros(self.problem.stages - self.problem.horizon)
        named = _by_name(self.problem, self.resource_prices)
        resources = {f"price of {name}": np.append(x, rest) for name, x in named.items()}
        return {"price": self.prices, **resources}

    def tables(self) -> Tables:
        """Return columns by table name."""
        return {
            "stages": lambda: {
                "stage": range(len(self.prices)),
                "pulls": self.problem.pulls,
                **self._price_columns(),
            },
            "history": lambda: columns_of(
                (vars(line) | {"relative_gap": line.relative_gap} for line in self.history),
                [field.name for field in fields(HistoryLine)],
            ),
        }

    def __repr__(self) -> str:
        bounds = f"minimum <= {self.upper_bound:.6f}"
        if self.lower_bound is not None:
            bounds = f"{self.lower_bound:.6f} <= {bounds}, relative gap {self.relative_gap:.1e}"
        size = f"{self.problem.n_arms} arms, horizon {self.problem.horizon}"
        calls = f"{self.oracle_calls} oracle calls, {self.seconds:.2f} s"
        return f"DualSolution({size}: {bounds}, {calls})"


def check_solution(solution: object, problem: Problem) -> DualSolution:
    """Return the solution; raise if it is something else, or belongs to another problem."""
    if not isinstance(solution, DualSolution):
        raise TypeError(
            f"solution: {shown(solution)} is not a decobandit.DualSolution; solve(problem) makes "
            "one"
        )
    if solution.problem != problem:
        raise InvalidArgument(
            "solution: belongs to another problem; solve this one", field="solution"
        )
    return solution


class SolutionRecord(BaseModel):
    """A solution as plain values, without its history.

    The cost of the search is left out where only the result matters, as in the log of a trial.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    problem: dict[str, Any]  # as in a problem file
    multipliers: list[Finite]
    deployment_price: Finite | None = None
    budget_price: Annotated[Finite, Field(ge=0)] | None = None
    resource_prices: dict[str, list[Annotated[Finite, Field(ge=0)]]] | None = None
    upper_bound: Finite
    lower_bound: Finite | None
    tol: Annotated[Finite, Field(ge=0)]
    oracle_calls: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[Finite, Field(ge=0)] = 0.0
    interrupted: bool = False
    grid: Annotated[int, Field(ge=0)] = 0  # written only where there is one, as is the next
    search_gap: Annotated[Finite, Field(ge=0)] | None = None

    @classmethod
    def of(cls, solution: DualSolution) -> SolutionRecord:
        """Make the record of a solution."""
        return cls.model_construct(
            problem=problem_to_dict(solution.problem),
            multipliers=solution.multipliers.tolist(),
            resource_prices=_by_name(solution.problem, solution.resource_prices) or None,
            **{name: getattr(solution, name) for name in _SAME},
        )

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> SolutionRecord:
        """Read what `to_dict` wrote; unrelated keys are ignored."""
        return cls.model_validate({name: tree[name] for name in cls.model_fields if name in tree})

    def to_dict(self, *, search: bool = True) -> dict[str, Any]:
        """Return plain values by name; `search`: with the cost of the search."""
        absent = {name for name in _LIMIT_PRICES if getattr(self, name) is None}
        absent |= set() if self.grid else _GRID_KEYS
        absent |= set() if search else _SEARCH_COST
        names = SolutionRecord.model_fields.keys()
        return {name: getattr(self, name) for name in names if name not in absent}

    def solution(self, source: str) -> DualSolution:
        """Return the solution; `source` names the record in error messages."""
        problem = problem_from_dict(self.problem, source=f"{source}: problem")
        T, named = problem.horizon, self.resource_prices or {}
        fault = None
        if len(self.multipliers) != T:
            fault = f"multipliers: {len(self.multipliers)} numbers; must have one per stage, {T}"
        elif (self.deployment_price is None) != (problem.stages == T):
            fault = "deployment_price: must be there exactly when deploy is"
        elif (self.budget_price is None) != (problem.budget is None):
            fault = "budget_price: must be there exactly when budget is"
        elif list(named) != list(problem.resources or ()) or {*map(len, named.values())} - {T}:
            fault = "resource_prices: must have one number per stage for each resource"
        if fault is not None:
            raise ProblemError(f"{source}: {fault}")
        return DualSolution(
            problem=problem,
            multipliers=np.array(self.multipliers, dtype=float),
            resource_prices=np.array(list(named.values())).T if named else None,
            history=(),
            **{name: getattr(self, name) for name in _SAME},
        )


def _by_name(problem: Problem, prices: Floats | None) -> dict[str, list[float]]:
    """Return prices (horizon, resources) by the names of the resources."""
    if prices is None or problem.resources is None:
        return {}
    return dict(zip(problem.resources, prices.T.tolist(), strict=True))


_LIMIT_PRICES = {"budget_price", "resource_prices"}
_SEARCH_COST = {"oracle_calls", "seconds", "interrupted"}
_GRID_KEYS = {"grid", "search_gap"}
_SAME = [  # fields of a record as they are in the solution
    name
    for name in SolutionRecord.model_fields
    if name not in {"problem", "multipliers", "resource_prices"}
]


class _SolutionFile(SolutionRecord):
    """A record with a head, the tie rule and the cost of the search."""

    format: Literal["decobandit-solution-1"]
    version: str
    oracle_calls: Annotated[int, Field(ge=0)]
    seconds: Annotated[Finite, Field(ge=0)]
    interrupted: bool
    ties: TieRule = DEFAULT_TIES


def save_solution(
    solution: DualSolution, path: str | Path, *, ties: TieRule = DEFAULT_TIES
) -> None:
    """Write a solution to a JSON file, atomically.

    Parameters
    ----------
    solution : DualSolution
        Problem, prices and bounds to write.
    path : str or Path
        File name ending in .json.
    ties : TieRule
        Tie rule of policies made from the file.

    Raises
    ------
    ProblemError
        If the name does not end in .json.

    Examples
    --------
    >>> from decobandit import Problem, load_solution, save_solution, solve
    >>> solution = solve(Problem.uniform(arms=3, horizon=10))
    >>> save_solution(solution, "solution.json")
    >>> load_solution("solution.json").upper_bound == solution.upper_bound
    True
    """
    if not isinstance(solution, DualSolution):
        raise TypeError(f"solution: {shown(solution)} is not a decobandit.DualSolution")
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise ProblemError(f"{path}: solutions are JSON files; the name must end in .json")
    head = {"format": FORMAT, "version": __version__}
    tree = {**head, **SolutionRecord.of(solution).to_dict(), "ties": ties}
    write_whole(target, json.dumps(tree, indent=1, allow_nan=False) + "\n")


def load_solution(path: str | Path) -> DualSolution:
    """Read a solution written by `save_solution`.

    Parameters
    ----------
    path : str or Path
        The JSON file.

    Returns
    -------
    DualSolution
        Without its history.

    Raises
    ------
    ProblemError
        If the file cannot be read or is not a solution; names the file and the key.

    Examples
    --------
    >>> from decobandit import Problem, load_solution, save_solution, solve
    >>> save_solution(solve(Problem.uniform(arms=3, horizon=10)), "a.json")
    >>> load_solution("a.json").problem.horizon
    10
    """
    return read_solution(path)[0]


def is_solution(tree: object) -> bool:
    """Whether parsed JSON claims to be a solution file (as against a problem file)."""
    return isinstance(tree, dict) and "multipliers" in tree


def read_solution(path: str | Path) -> tuple[DualSolution, TieRule]:
    """Read a solution and the tie rule in its file."""
    source = str(path)
    try:
        file = _SolutionFile.model_validate(read_tree(path))
    except ValidationError as error:
        # a wrong format is reported before missing keys
        errors = sorted(error.errors(include_url=False), key=lambda one: one["loc"] != ("format",))
        raise ProblemError(f"{source}: {one_line(errors, _SolutionFile, where=dotted)}") from None
    solution = file.solution(source)
    if file.lower_bound is not None and file.lower_bound > file.upper_bound:
        raise ProblemError(f"{source}: lower_bound: must not exceed upper_bound")
    return solution, file.ties
