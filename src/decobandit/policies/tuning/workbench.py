"""The former way to make policies by name; `make_policy` does it now."""

from __future__ import annotations

from collections.abc import Sequence

from ...prices import DualSolution
from ...problem import DEFAULT_TIES, Problem, TieRule
from ...support import Once, warn_deprecated
from ..base import Policy
from ..catalogue import check_policies, make_policies, make_successor
from ..context import Context
from .path_search import MOST_STATES, ChosenPath, choose_path


class Workbench:
    """Policies of one problem by name. Deprecated: use `make_policy(problem, name)`."""

    def __init__(
        self,
        problem: Problem,
        *,
        tol: float = 1e-4,
        ties: TieRule = DEFAULT_TIES,
        path_states: int = MOST_STATES,
        solution: DualSolution | None = None,
    ) -> None:
        warn_deprecated("Workbench(problem).policy(name)", "make_policy(problem, name)")
        self.context = Context(problem, tol=tol, ties=ties, path_states=path_states, given=solution)
        self.problem, self.tol, self.ties = problem, tol, ties
        self._path = Once(lambda: choose_path(problem, ties=ties, limit_states=path_states))

    @property
    def solution(self) -> DualSolution:
        return self.context.solution

    @property
    def path(self) -> ChosenPath:
        return self._path()

    def check(self, names: Sequence[str]) -> None:
        """Refuse a name that no policy has."""
        check_policies(names)

    def policy(self, name: str) -> Policy:
        """The policy of that name for this problem."""
        (made,) = make_policies(self.context, [name])
        return made

    def afterwards(self, name: str, true_horizon: int) -> Policy:
        """The policy that takes over after the planned horizon."""
        return make_successor(self.context, name, true_horizon)
