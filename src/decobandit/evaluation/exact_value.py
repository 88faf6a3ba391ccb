"""Exact value of a policy, computed forward over the joint states that it reaches.

Stage by stage, equal states are merged and carry their probability; at given true success
probabilities also the first two moments of the reward so far (`forward.py`).

A state is the multiset of the outcomes of exchangeable arms, if the policy has a table of indices
or declares that it is `symmetric`, as long as ties do not depend on the order of these arms, which
asking with these arms in the opposite order detects; then more states are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from ..joint import refuse_infinite
from ..policies import DEFAULT_POLICY, Policy, check_subject, make_policy
from ..prices import DualSolution, by_segment
from ..problem import (
    DEFAULT_TIES,
    KindTruth,
    Problem,
    TieRule,
    best_mean_reward,
    check_kind_truth,
    plain_truth,
    true_means,
)
from ..support import (
    Card,
    Columns,
    Floats,
    Report,
    Stopwatch,
    Tables,
    Tabular,
    Unsupported,
    columns_of,
    obeys_workers,
    tells_progress,
)
from ..support.records import doc, record_class
from .forward import Forward, Occupied, Watch
from .two_arms import follow_two_arms, serves_two_arms

__all__ = ["Evaluation", "Occupied", "Watch", "evaluate"]
LIMIT_STATES = 50_000_000


@record_class(eq=False)
class Evaluation(Tabular):
    """Exact value of a policy, over the prior or at known parameters.

    Fields from `truth` on are None where the truth is not given. Tables of `to_frame`: `policies`,
    one row; `stages`, expected rewards; `arms`, expected pulls where the truth is given.

    Examples
    --------
    >>> from decobandit import Problem, evaluate
    >>> result = evaluate(Problem.uniform(arms=2, horizon=4), "greedy", truth=[0.9, 0.1])
    >>> round(result.value, 4), round(result.regret, 4)
    (3.4176, 0.1824)
    """

    policy: str = doc("Name of the policy.")
    value: float = doc("Expected total reward, deployment and last rewards included.")
    regret: float | None = doc(
        "Regret against pulling the arms of largest mean; None where the problem has "
        "tables of last rewards."
    )
    stage_rewards: Floats = doc("(stages,) expected reward by stage.")
    last_reward: float = doc("Expected sum of the arms' last rewards.")
    group_pulls: tuple[float, ...] = doc(
        "(groups,) expected pulls of a group's arms, deployment apart."
    )
    states: int = doc("Distinct states in which the policy decides.")
    probability: float = doc("Total probability at the last stage: 1 up to rounding.")
    merged: bool = doc("Whether exchangeable arms were merged.")
    seconds: float = doc("Duration of the evaluation, without compilation.")
    truth: tuple[Any, ...] | None = doc("True parameter of every arm, if given.", default=None)
    variance: float | None = doc(
        "Variance of the total reward; a random end adds to it.", default=None
    )
    arm_pulls: tuple[float, ...] | None = doc("(arms,) expected pulls.", default=None)
    best_arm_probability: float | None = doc(
        "Probability that the largest final posterior mean is a best arm's. Where all are equal "
        "that is certain and says nothing (`null`): plain values have None then.",
        default=None,
    )

    @property
    def null(self) -> bool:
        """Whether the truth is that all arms are equal."""
        return self.truth is not None and len({*self.truth}) == 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that need a truth if none is given."""
        fields = {k: v for k, v in self.__dict__.items() if v is not None or k == "regret"}
        tree = {
            k: np.asarray(v).tolist() if isinstance(v, tuple | np.ndarray) and k != "truth" else v
            for k, v in fields.items()
        }
        if self.truth is not None:
            tree["truth"] = [list(x) if isinstance(x, tuple) else x for x in self.truth]
        if self.null:
            tree["best_arm_probability"] = None
        return tree

    def row(self) -> dict[str, Any]:
        items = self.to_dict().items()
        return {key: value for key, value in items if not isinstance(value, list)}

    def stages(self) -> list[dict[str, Any]]:
        rewards = enumerate(self.stage_rewards.tolist())
        return [{"policy": self.policy, "stage": t, "reward": reward} for t, reward in rewards]

    def _card(self) -> Card:
        row = self.row()
        names = ("policy", "value", "regret", "states", "variance", "best_arm_probability")
        at = self._at or "over the prior"
        return Card("Evaluation", {"exact": at}, {k: [row[k]] for k in names if k in row})

    def tables(self) -> Tables:
        tables: dict[str, Callable[[], Columns]] = {
            "policies": lambda: columns_of([self.row()]),
            "stages": lambda: columns_of(self.stages()),
        }
        truth, pulls = self.truth, self.arm_pulls
        if truth is not None and pulls is not None:
            tables["arms"] = lambda: {
                "policy": [self.policy] * len(pulls),
                "arm": range(len(pulls)),
                "truth": truth,
                "pulls": pulls,
            }
        return tables

    @property
    def _at(self) -> str:
        """Describe the truth: '-' for an arm without parameters."""
        entries = ("-" if entry is None else str(entry) for entry in self.truth or ())
        return f"at {', '.join(entries)}" if self.truth is not None else ""

    def __repr__(self) -> str:
        at = f" {self._at}" if self._at else ""
        regret = "" if self.regret is None else f", regret {self.regret:.6f}"
        return (
            f"Evaluation({self.policy}{at}: value {self.value:.6f}{regret}, exact over "
            f"{self.states} states, {self.seconds:.2f} s)"
        )


@by_segment
@obeys_workers
@tells_progress
def evaluate(
    problem: Problem,
    policy: Policy | str = DEFAULT_POLICY,
    *,
    truth: Sequence[Any] | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    solution: DualSolution | None = None,
    limit_states: int = LIMIT_STATES,
    workers: int | None = None,
    progress: Report | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Return the exact value of a policy.

    The policy decides in each state, with its probabilities if it has them. Without a truth, a
    `symmetric` policy sees the arms of each group sorted, most pulled first, then most good.

    Parameters
    ----------
    problem : Problem
        What is played.
    policy : Policy or str
        A policy made for this problem, or a name (`make_policy`).
    truth : sequence, optional
        True success probability or class probabilities of every arm, "-" for a Markov arm;
        over the prior where it is not given.
    tol, ties, solution
        As in `make_policy`, where the policy is given by its name.
    limit_states : int
        States that may be reached, over all stages.
    workers : int, optional
        Threads that make the policy's tables; all processors by default.
    progress : callable, optional
        Called with the progress of the evaluation.
    watch : callable, optional
        `watch(stage, occupied)` receives the states that single arms are in, and in which they are
        pulled. A policy whose ties ask for arms that are not merged is followed a second time from
        stage 0.

    Returns
    -------
    Evaluation

    Raises
    ------
    TooLarge
        If more states than `limit_states` are reached.
    ValueError
        If the policy draws its arms and does not tell their probabilities, or a setting is not
        allowed.
    TypeError
        If the problem is not a `Problem`, or the policy neither a name nor a `Policy`.

    Examples
    --------
    >>> from decobandit import Problem, evaluate
    >>> round(evaluate(Problem.uniform(arms=2, horizon=4), "optimal").value, 6)
    2.277778
    """
    problem = check_subject(problem, policy)
    clock = Stopwatch()
    refuse_infinite(problem, "exact evaluation")
    parameters = None if truth is None else check_kind_truth(truth, problem)
    player = make_policy(problem, policy, tol=tol, ties=ties, solution=solution)
    if not player.has_probabilities:
        raise Unsupported(
            f"{player.name!r} draws arms at random and does not give their probabilities: "
            "it cannot be evaluated exactly; simulate it",
            field="policy",
        )
    if watch is None and serves_two_arms(player, limit_states):
        rates = None if parameters is None else tuple(p for (p,) in parameters)
        total = follow_two_arms(player, rates, progress)
    else:
        total = Forward(player, parameters, limit_states, progress, watch).run()
    value = float(total.rewards.sum()) + total.last_reward
    best = _best_reward(problem, parameters)
    rewards = total.rewards.copy()
    rewards.flags.writeable = False
    arm_pulls = tuple(total.pulls.tolist())
    return Evaluation(
        policy=player.name,
        value=value,
        regret=None if best is None else best - value,
        stage_rewards=rewards,
        last_reward=total.last_reward,
        group_pulls=tuple(sum(arm_pulls[a] for a in g.members) for g in problem.groups),
        states=total.states,
        probability=total.probability,
        merged=total.merged,
        seconds=clock.seconds(),
        truth=None if parameters is None else tuple(map(_hashable, plain_truth(parameters))),
        variance=total.variance,
        arm_pulls=None if parameters is None else arm_pulls,
        best_arm_probability=total.best_arm,
    )


def _hashable(entry: Any) -> Any:
    return tuple(entry) if isinstance(entry, list) else entry


def _best_reward(problem: Problem, truth: KindTruth | None) -> float | None:
    if truth is None:
        return best_mean_reward(problem)
    means = true_means(problem, truth)
    return None if means is None else best_mean_reward(problem, means)


def states_ahead(problem: Problem) -> float:
    """Bound the number of joint states of all stages if no arms are merged, as at a truth."""
    if not all(group.model.finite for group in problem.groups):
        return inf
    most = (problem.horizon - 1) * problem.pulls_per_stage
    together = np.ones(1)  # joint states of the arms so far, by their pulls
    for arm in problem.group_of_arm:
        states = [problem.groups[arm].model.states(n) for n in range(most + 1)]
        together = np.convolve(together, states)[: most + 1]
    return float(together[:: problem.pulls_per_stage].sum())
