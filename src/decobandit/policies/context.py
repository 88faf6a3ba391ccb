"""The inputs of policies: problem, tie rule, and prices, which are solved when needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..prices import DualSolution, at_canonical_prices, check_solution, is_quick, solve
from ..problem import DEFAULT_TIES, Problem, TieRule, check_problem
from ..support import Once


@dataclass(frozen=True, eq=False)
class Context:
    """Settings of the policies of one problem. The dual is solved once, when a policy asks.

    A policy that is asked for by its name is made from it: `Policy.make(context)`.

    Parameters
    ----------
    problem : Problem
        What the policies are made for.
    tol : float
        Relative gap of the prices.
    ties : TieRule
        How ties are broken.
    parameters : mapping, optional
        What a tuned policy was tuned to before (`Policy.record`).
    path_states : int, optional
        States that a policy may reach for price paths to be compared exactly; by default the limit
        of `choose_path`.
    solver : callable
        `solver(problem, tol)` solves the dual when it is first needed.
    fixed_solution : DualSolution, optional
        Solution of the dual, if it has been solved already.
    under_rules : bool
        Whether the rules of a design will bind the policy, which may drop arms or delay outcomes.
    play_fixed : bool
        Whether DeCo plays the prices that are given, as on record in a trial, and not the canonical
        ones of the problem.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.policies import Context, DecoPolicy
    >>> context = Context(Problem.uniform(arms=3, horizon=10))
    >>> DecoPolicy.make(context).name, context.solved
    ('deco', True)
    """

    problem: Problem
    tol: float = 1e-4
    ties: TieRule = DEFAULT_TIES
    parameters: Mapping[str, float] | None = None
    path_states: int | None = None
    solver: Callable[[Problem, float], DualSolution] = lambda problem, tol: solve(problem, tol=tol)
    fixed_solution: DualSolution | None = None
    under_rules: bool = False
    play_fixed: bool = False
    _solved: Once[DualSolution] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.fixed_solution is not None:
            check_solution(self.fixed_solution, self.problem)
        object.__setattr__(self, "_solved", Once(self._solve))

    def _solve(self) -> DualSolution:
        if self.fixed_solution is not None:
            return self.fixed_solution
        solution = self.solver(check_problem(self.problem), self.tol)
        if solution.interrupted:  # as in `whole_solution`, for any solver
            raise KeyboardInterrupt
        return solution

    @property
    def solution(self) -> DualSolution:
        """Prices and bounds; the first who asks waits for the search."""
        return self._solved()

    @property
    def played(self) -> DualSolution:
        """The solution at the prices that DeCo plays: the same whatever the tolerance."""
        as_solved = self.play_fixed or self.problem.may_wait
        return self.solution if as_solved else at_canonical_prices(self.solution)

    def solution_for(self, bound: bool | None = None) -> DualSolution | None:
        """Return the solution for a bound shown with policies; None if it is absent and not needed.

        bound: whether it is to be solved for that alone; None: where that is quick.
        """
        wanted = is_quick(self.problem) if bound is None else bound
        return self.solution if self.solved or wanted else None

    @property
    def solved(self) -> bool:
        """Whether the prices are there already."""
        return self.fixed_solution is not None or self._solved.made

    @property
    def interrupted(self) -> bool:
        """Whether the prices that were given are of a search that was stopped before its end.

        One that is made here is then given up: Ctrl-C ends the whole of the work.
        """
        return self.fixed_solution is not None and self.fixed_solution.interrupted
