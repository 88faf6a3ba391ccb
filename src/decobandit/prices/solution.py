"""A solution of the dual, and its form as plain values: the one that files and logs keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ..problem import Problem, ProblemError, problem_from_dict, problem_to_dict
from ..support import Card, Floats, Tables, Tabular, columns_of, shown
from .search import HistoryLine, relative_gap

Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class DualSolution(Tabular):
    """Prices with certified bounds on the minimum of the dual function.

    Tables of `to_frame`: `stages`, the prices; `history`, the bounds after each round.

    Attributes
    ----------
    problem : Problem
        What was relaxed.
    multipliers : array
        (horizon,) price of a pull at each stage.
    deployment_price : float or None
        Price of the final choice, where the problem has one.
    upper_bound : float
        No policy earns more.
    lower_bound : float or None
        No prices give a smaller upper bound. None where counts are followed on too coarse a grid
        to tell.
    tol : float
        Relative gap that was asked for.
    grid : int
        States per row of a grid on which arms were followed; 0 where every state was. Both bounds
        hold either way; what the grid cannot resolve is part of their gap.
    oracle_calls : int
        Backward passes, those on coarser problems included.
    seconds : float
        That the search took, without compiling kernels.
    interrupted : bool
        Whether it was ended from the keyboard.
    search_gap : float or None
        On a grid, the relative gap at which the search ended there: the rest of `relative_gap` is
        due to the grid. None without one.
    history : tuple of HistoryLine
        The bounds after each round; with a grid the lower ones are on the minimum of its chords.
    stopped : str or None
        Why the search ended before it reached `tol`, and what to do; None where it did. Not kept in
        files.

    Examples
    --------
    >>> from decobandit import Problem, solve
    >>> solution = solve(Problem.uniform(arms=3, horizon=10))
    >>> solution.lower_bound <= solution.upper_bound
    True
    >>> solution.prices.shape
    (10,)
    """

    problem: Problem
    multipliers: Floats
    deployment_price: float | None
    upper_bound: float
    lower_bound: float | None
    tol: float
    oracle_calls: int
    seconds: float
    interrupted: bool
    history: tuple[HistoryLine, ...]
    grid: int = 0
    search_gap: float | None = None
    stopped: str | None = None

    @property
    def relative_gap(self) -> float | None:
        """Upper minus lower bound, relative to the larger one in size; None without a lower one."""
        if self.lower_bound is None:
            return None
        return relative_gap(self.upper_bound, self.lower_bound)

    @property
    def converged(self) -> bool:
        """Whether the search ended at a relative gap of at most `tol`: on its grid, if any."""
        gap = self.relative_gap if self.search_gap is None else self.search_gap
        return gap is not None and gap <= self.tol

    @property
    def prices(self) -> Floats:
        """The multipliers, then the deployment price if there is one, (stages,)."""
        if self.deployment_price is None:
            return self.multipliers
        return np.append(self.multipliers, self.deployment_price)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco solve --json` prints them."""
        kept = SolutionRecord.of(self).to_dict()
        said = {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "pulls_per_stage": self.problem.pulls_per_stage,
            "relative_gap": self.relative_gap,
            "converged": self.converged,
            "stopped": self.stopped,
            **kept,
        }
        absent = {"deployment_price"} if self.deployment_price is None else set()
        return {name: said[name] for name in _PRINTED if name in said and name not in absent}

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
            {"stage": range(len(self.prices)), "price": self.prices},
        )

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return {
            "stages": lambda: {
                "stage": range(len(self.prices)),
                "pulls": self.problem.pulls,
                "price": self.prices,
            },
            "history": lambda: columns_of(
                (vars(line) | {"relative_gap": line.relative_gap} for line in self.history),
                [each.name for each in fields(HistoryLine)],
            ),
        }

    @property
    def _bounds(self) -> str:
        if self.lower_bound is None:
            return f"minimum <= {self.upper_bound:.6f}"
        said = f"{self.lower_bound:.6f} <= minimum <= {self.upper_bound:.6f}"
        return f"{said}, relative gap {self.relative_gap:.1e}"

    def __repr__(self) -> str:
        return (
            f"DualSolution({self.problem.n_arms} arms, horizon {self.problem.horizon}: "
            f"{self._bounds}, {self.oracle_calls} oracle calls, "
            f"{self.seconds:.2f} s)"
        )


def check_solution(solution: object, problem: Problem) -> DualSolution:
    """The solution; an error where it is something else, or of another problem."""
    if not isinstance(solution, DualSolution):
        raise TypeError(
            f"solution: {shown(solution)} is not a decobandit.DualSolution; solve(problem) makes "
            "one"
        )
    if solution.problem != problem:
        raise ValueError("solution: not one of the problem that is given with it")
    return solution


class SolutionRecord(BaseModel):
    """All of a solution but its history, as plain values.

    What the search took is left out where only what was found matters, as in the log of a trial.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    problem: dict[str, Any]  # as in a problem file
    multipliers: list[Finite]
    deployment_price: Finite | None = None
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
        """The record of a solution."""
        return cls.model_construct(
            problem=problem_to_dict(solution.problem),
            multipliers=solution.multipliers.tolist(),
            deployment_price=solution.deployment_price,
            upper_bound=solution.upper_bound,
            lower_bound=solution.lower_bound,
            tol=solution.tol,
            oracle_calls=solution.oracle_calls,
            seconds=solution.seconds,
            interrupted=solution.interrupted,
            grid=solution.grid,
            search_gap=solution.search_gap,
        )

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> SolutionRecord:
        """Read what `to_dict` wrote, beside which others may have put keys of their own.

        A ValueError where a key is missing or a value is wrong.
        """
        return cls.model_validate({name: tree[name] for name in cls.model_fields if name in tree})

    def to_dict(self, *, search: bool = True) -> dict[str, Any]:
        """Plain values by name; `search`: with what the search took."""
        return {
            name: getattr(self, name)
            for name in SolutionRecord.model_fields
            if (search or name not in _OF_THE_SEARCH) and (name not in _OF_A_GRID or self.grid)
        }

    def solution(self, source: str) -> DualSolution:
        """The solution; `source`, where the record comes from, stands in front of refusals."""
        problem = problem_from_dict(self.problem, source=f"{source}: problem")
        if len(self.multipliers) != problem.horizon:
            raise ProblemError(
                f"{source}: multipliers: {len(self.multipliers)} numbers; must have one per stage, "
                f"{problem.horizon}"
            )
        if (self.deployment_price is None) != (problem.stages == problem.horizon):
            raise ProblemError(f"{source}: deployment_price: must be there exactly when deploy is")
        return DualSolution(
            problem=problem,
            multipliers=np.array(self.multipliers, dtype=float),
            deployment_price=self.deployment_price,
            upper_bound=self.upper_bound,
            lower_bound=self.lower_bound,
            tol=self.tol,
            oracle_calls=self.oracle_calls,
            seconds=self.seconds,
            interrupted=self.interrupted,
            history=(),
            grid=self.grid,
            search_gap=self.search_gap,
        )


_OF_THE_SEARCH = {"oracle_calls", "seconds", "interrupted"}
_OF_A_GRID = {"grid", "search_gap"}
_PRINTED = (
    "arms",
    "horizon",
    "pulls_per_stage",
    "upper_bound",
    "lower_bound",
    "relative_gap",
    "tol",
    "grid",
    "search_gap",
    "converged",
    "stopped",
    "interrupted",
    "multipliers",
    "oracle_calls",
    "seconds",
    "deployment_price",
)
