"""Rolling DeCo: at every stage, solve the dual again from the current posteriors.

The problem that is left at stage t is a problem of its own: posteriors as priors, the remaining
stages as horizon. Its dual is solved anew, starting from the prices of the first solution, and the
arm of largest index at its first stage is pulled. So the prices take the outcomes so far into
account.
"""

from __future__ import annotations

from ..prices import DualSolution, whole_solution
from ..problem import DEFAULT_TIES, Problem, State, TieRule, remaining_problem
from ..support import Floats
from .context import Context
from .deco import DecoPolicy
from .index_policy import IndexPolicy
from .refusals import batch_refusal, binary_refusal


class RollingDecoPolicy(IndexPolicy):
    """DeCo with the dual solved again at every decision.

    Parameters
    ----------
    solution : DualSolution
        Of the whole problem: prices of the first stage, and where later searches start.
    tol : float
        Relative gap of the later ones.
    ties : TieRule
        How ties are broken.

    Examples
    --------
    >>> from decobandit import Problem, RollingDecoPolicy, State, solve
    >>> policy = RollingDecoPolicy(solve(Problem.uniform(arms=3, horizon=10)))
    >>> policy.choose(State.parse("0/1,0/0,1/1"))
    (2,)
    """

    name = "deco-rolling"
    symmetric = True
    cost = "solve"
    most_ways = 16
    splits_index = True

    def __init__(
        self, solution: DualSolution, *, tol: float = 1e-4, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(solution.problem, ties=ties)
        self._first = DecoPolicy(solution.problem, solution.prices, ties=ties)
        self._tol = tol

    @classmethod
    def make(cls, context: Context) -> RollingDecoPolicy:
        return cls(context.solution, tol=context.tol, ties=context.ties)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        return batch_refusal(problem, cls.name) or binary_refusal(problem, cls.name)

    def indices(self, stage: int, state: State) -> Floats | None:
        # the deployment has no stage after it to price: there the index is the expected reward
        if stage == 0 or stage >= self.problem.horizon:
            return self._first.indices(stage, state)
        left = remaining_problem(self.problem, stage, state)
        solution = whole_solution(left, tol=self._tol, start=self._first.prices[stage:], workers=1)
        return DecoPolicy(left, solution.prices).indices(0, State.fresh(left.n_arms))
