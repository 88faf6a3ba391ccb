"""Policies by name. To add one: write its file in policies/, then add a line to POLICIES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from .dual import DualSolution, solve
from .kernels.layout import slab_size
from .path_search import DEFAULT_PREMIUM, MOST_STATES, ChosenPath, choose_path, premium_path
from .policies.base import DEFAULT_TIES, TIE_RULES, Policy, TieRule
from .policies.bayes_ucb import BayesUcbPolicy
from .policies.calibrated import CalibratedPolicy, fh_gittins
from .policies.deco import DecoPolicy, deco
from .policies.equal import EqualPolicy
from .policies.explore_then_commit import ExploreThenCommitPolicy
from .policies.greedy import GreedyPolicy
from .policies.ids import IdsPolicy
from .policies.kl_ucb import KlUcbPolicy
from .policies.knowledge_gradient import KnowledgeGradientPolicy
from .policies.moss import MossPolicy
from .policies.ogi import OgiPolicy
from .policies.optimal import OptimalPolicy
from .policies.replanned import ReplannedDecoPolicy
from .policies.rolling import RollingDecoPolicy
from .policies.table import TablePolicy
from .policies.thompson import ThompsonPolicy
from .policies.ucb1 import Ucb1Policy
from .policies.ucb_tuned import UcbTunedPolicy
from .policies.v_ids import VarianceIdsPolicy
from .problem import Problem
from .worlds import true_problem


class Workbench:
    """What policies of one problem are made from; the dual is solved once, when first needed."""

    def __init__(
        self,
        problem: Problem,
        *,
        tol: float = 1e-4,
        ties: TieRule = DEFAULT_TIES,
        path_states: int = MOST_STATES,
        solution: DualSolution | None = None,
    ) -> None:
        """`path_states`: reached by a policy, up to which price paths are compared exactly.

        `solution`: where the dual has been solved already.
        """
        self.problem = problem
        self.tol = tol
        self.ties: TieRule = ties
        self._path_states = path_states
        self._solved = solution

    @cached_property
    def solution(self) -> DualSolution:
        return self._solved or solve(self.problem, tol=self.tol)

    @cached_property
    def path(self) -> ChosenPath:
        prices, limit = self.solution.prices, self._path_states
        return choose_path(self.problem, prices, ties=self.ties, limit_states=limit)

    def check(self, names: Sequence[str]) -> None:
        """Refuse a name that no policy has, before any work is done."""
        for name in names:
            if name not in POLICIES:
                raise ValueError(f"no policy is called {name!r}; known: {', '.join(POLICIES)}")

    def policy(self, name: str) -> Policy:
        """The policy of that name for this problem."""
        self.check([name])
        return POLICIES[name](self)

    def afterwards(self, name: str, true_horizon: int) -> Policy:
        """The policy that takes over after the planned horizon, up to a later true one.

        DeCo solves its dual again, for the stages left and from the posteriors of that moment; the
        calibrated index lets its premium fade over the stages left. All others are those of the
        problem with the true horizon, which they learn at the planned end.
        """
        self.check([name])
        actual = true_problem(self.problem, None, true_horizon)
        later = Workbench(actual, tol=self.tol, ties=self.ties)
        planned = self.problem.horizon
        if name == "deco":
            return ReplannedDecoPolicy(later.problem, planned, ties=self.ties)
        if name == "deco-calibrated":
            path = premium_path(DEFAULT_PREMIUM, true_horizon - planned)
            return CalibratedPolicy(later.problem, path, start=planned, ties=self.ties)
        return later.policy(name)


def tie_rule(text: str) -> TieRule:
    """The rule of that name."""
    for rule in TIE_RULES:
        if rule == text:
            return rule
    raise ValueError(f"ties: {text!r} is not a rule; choose one of {', '.join(TIE_RULES)}")


def _calibrated(bench: Workbench) -> Policy:
    prices = bench.solution.prices
    return CalibratedPolicy(bench.problem, bench.path.path, prices, ties=bench.ties)


POLICIES: dict[str, Callable[[Workbench], Policy]] = {
    "deco": lambda bench: deco(bench.solution, ties=bench.ties),
    "deco-calibrated": _calibrated,
    "rolling-deco": lambda bench: RollingDecoPolicy(bench.solution, tol=bench.tol, ties=bench.ties),
    "fh-gittins": lambda bench: fh_gittins(bench.problem, ties=bench.ties),
    "optimal": lambda bench: OptimalPolicy(bench.problem),
    "greedy": lambda bench: GreedyPolicy(bench.problem, ties=bench.ties),
    "equal": lambda bench: EqualPolicy(bench.problem, ties=bench.ties),
    "explore-then-commit": lambda bench: ExploreThenCommitPolicy(bench.problem, ties=bench.ties),
    "ucb1": lambda bench: Ucb1Policy(bench.problem, ties=bench.ties),
    "ucb-tuned": lambda bench: UcbTunedPolicy(bench.problem, ties=bench.ties),
    "moss": lambda bench: MossPolicy(bench.problem, ties=bench.ties),
    "kl-ucb": lambda bench: KlUcbPolicy(bench.problem, ties=bench.ties),
    "bayes-ucb": lambda bench: BayesUcbPolicy(bench.problem, ties=bench.ties),
    "ogi": lambda bench: OgiPolicy(bench.problem, ties=bench.ties),
    "thompson": lambda bench: ThompsonPolicy(bench.problem),
    "ids": lambda bench: IdsPolicy(bench.problem),
    "v-ids": lambda bench: VarianceIdsPolicy(bench.problem),
    "knowledge-gradient": lambda bench: KnowledgeGradientPolicy(bench.problem, ties=bench.ties),
}
# decide on all arms together
NO_INDEX = ("optimal", "rolling-deco", "thompson", "ids", "v-ids", "knowledge-gradient")


def arm_position(problem: Problem, name: str | None) -> int:
    """Where an arm stands; the first one where no name is given."""
    names = [arm.name for arm in problem.arms]
    if name is not None and name not in names:
        raise ValueError(f"no arm is called {name!r}; the first are {', '.join(names[:8])}")
    return 0 if name is None else names.index(name)


def check_state(problem: Problem, stage: int, good: int, bad: int) -> None:
    """Refuse what one arm cannot be in at a stage."""
    if not 0 <= stage < problem.stages:
        raise ValueError(f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}")
    if good < 0 or bad < 0 or good + bad > stage:
        raise ValueError(
            f"good {good}, bad {bad}: must not be negative, nor more than {stage} pulls at stage "
            f"{stage}"
        )


def arm_index(
    bench: Workbench, name: str, arm: int, stage: int, good: int, bad: int
) -> dict[str, Any]:
    """The index of one arm in one state, as exactly as it can be had, with its terms."""
    problem = bench.problem
    check_state(problem, stage, good, bad)
    group = int(problem.group_of_arm[arm])
    result: dict[str, Any] = {
        "policy": name, "arm": problem.arms[arm].name, "stage": stage, "good": good, "bad": bad,
    }  # fmt: skip
    if name in NO_INDEX:
        raise ValueError(f"policy {name!r} has no index of a single arm: it looks at all of them")
    policy = bench.policy(name)
    if isinstance(policy, DecoPolicy):
        terms = policy.relaxation.terms(stage, group, good, bad)
        return result | {
            "index": terms.index,
            "expected_reward": terms.expected_reward,
            "value_of_information": terms.value_of_information,
            "price": float(policy.prices[stage]),
        }
    if isinstance(policy, CalibratedPolicy):
        single, crossings = policy.calibration.crossings(stage, group, good, bad)
        return result | {"index": crossings[-1], "indexable": single, "path": str(policy.path)}
    assert isinstance(policy, TablePolicy), name
    table = policy.stage_index(stage)
    return result | {"index": float(table[group, slab_size(good + bad - 1) + good])}
