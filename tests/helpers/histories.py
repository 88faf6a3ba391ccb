"""Every history of a problem, one by one, from the words of its file: nothing of the package's.

Arms have finitely many outcomes; single pulls, several arms per stage, and batches.
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from decobandit import make_policy
from decobandit.policies import Policy
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    MarkovArm,
    Problem,
    Reward,
    State,
    Terminal,
)

Seen = tuple[tuple[Any, ...], ...]  # outcomes of every arm

MACHINE = MarkovArm(
    first="new",
    states={
        "new": {"mean": 1.2, "next": {"fine": (0.75, "new"), "worn": (0.25, "old")}},
        "old": {"mean": 0.25, "next": {"fine": (0.5, "old"), "mended": (0.5, "new")}},
    },
)
GRADES = Arm(name="grades", prior=DirichletCategorical([1, 2, 1]), reward=Reward(values=[0, 1, 3]))
OTHER = Arm(name="other", prior=DirichletCategorical([2, 1]), reward=Reward(values=[0.5, 2]))
CURE = Arm(name="cure", prior=BetaBernoulli(1.5, 1), reward=Reward(good=2, bad=-0.5))
OWN = Arm(name="machine", prior=MACHINE)
MIXED = Problem(arms=[GRADES, CURE, OWN], horizon=4)
DEPLOYED = Problem(arms=[GRADES, OTHER], horizon=3, terminal=Terminal(deploy=4))
SEVERAL = Problem(arms=[GRADES, CURE, OTHER], horizon=3, pulls_per_stage=2)
EQUAL = Problem(arms=[GRADES, GRADES.model_copy(update={"name": "b"}), CURE], horizon=4)
# groups alternate, and all arms have a mean of 1 at first
APART = Problem(
    arms=[
        Arm(name="a", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 2])),
        Arm(name="b", prior=DirichletCategorical([2, 2]), reward=Reward(values=[0, 2])),
        Arm(name="c", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 2])),
        Arm(name="d", prior=DirichletCategorical([2, 2]), reward=Reward(values=[0, 2])),
    ],
    horizon=4,
)
BATCHES = Problem(arms=[GRADES, CURE, OWN], horizon=2, pulls_per_stage=2, repeat=True)
UNITS = Problem(
    arms=[OWN, OTHER, OTHER.model_copy(update={"name": "b"})],
    horizon=2,
    pulls_per_stage=4,
    unit=2,
    repeat=True,
    terminal=Terminal(deploy=4),
)
PROBLEMS = {
    "mixed": MIXED,
    "deployed": DEPLOYED,
    "several": SEVERAL,
    "equal": EQUAL,
    "batches": BATCHES,
    "units": UNITS,
}
SMALL = {  # whose optimum over all histories takes no time
    "mixed": MIXED.model_copy(update={"horizon": 3}),
    "deployed": DEPLOYED,
    "several": SEVERAL.model_copy(update={"horizon": 2}),
    "equal": EQUAL.model_copy(update={"horizon": 3}),
    "batches": BATCHES,
    "units": UNITS,
}
TRUTH: list[Any] = [[0.2, 0.5, 0.3], 0.4, "-"]


def chances_of(problem: Problem, arm: int, seen: tuple[Any, ...], truth: Any) -> list[Any]:
    """Outcomes with chances and rewards, from the file's own words; nothing of the package's."""
    own = problem.arms[arm]
    if isinstance(own.prior, MarkovArm):
        state = own.prior.first
        for name in seen:
            state = own.prior.states[state].next[name][1]
        found = own.prior.states[state]
        return [(p, name, found.mean) for name, (p, _) in found.next.items()]
    if isinstance(own.prior, BetaBernoulli):
        p = (own.prior.good + sum(seen)) / (own.prior.good + own.prior.bad + len(seen))
        p = p if truth is None else truth
        assert isinstance(own.reward, Reward)
        return [(1 - p, 0, own.reward.bad), (p, 1, own.reward.good)]
    assert isinstance(own.prior, DirichletCategorical)
    assert isinstance(own.reward, Reward)
    assert own.reward.values is not None
    weights = [a + seen.count(j) for j, a in enumerate(own.prior.counts)]
    shares = truth if truth is not None else [w / sum(weights) for w in weights]
    return [(p, j, own.reward.values[j]) for j, p in enumerate(shares)]


def mean_of(problem: Problem, arm: int, seen: tuple[Any, ...], truth: Any) -> float:
    return sum(p * reward for p, _, reward in chances_of(problem, arm, seen, truth))


def state_of(problem: Problem, seen: tuple[tuple[Any, ...], ...]) -> State:
    words = []
    for arm, own in zip(problem.arms, seen, strict=True):
        if isinstance(arm.prior, DirichletCategorical):
            words.append("+".join(str(own.count(j)) for j in range(len(arm.prior.counts))))
        elif isinstance(arm.prior, BetaBernoulli):
            words.append(f"{sum(own)}/{len(own)}")
        else:
            assert isinstance(arm.prior, MarkovArm)
            state = arm.prior.first
            for name in own:
                state = arm.prior.states[state].next[name][1]
            words.append(f"{state}/{len(own)}")
    return State.parse(",".join(words), problem)


def allotments(problem: Problem) -> list[tuple[int, ...]]:
    """Pulls of every arm that a stage allows."""
    m, unit, most = problem.pulls_per_stage, problem.unit, problem.units if problem.repeat else 1
    ways = product(range(most + 1), repeat=problem.n_arms)
    return [tuple(n * unit for n in way) for way in ways if sum(way) * unit == m]


def outcomes_of(
    problem: Problem, seen: Seen, pulls: tuple[int, ...], truth: list[Any]
) -> Iterator[tuple[float, float, Seen]]:
    """Chance and reward of all outcomes of these pulls, and all outcomes after them."""
    ways = [(1.0, 0.0, seen)]
    for arm, number in enumerate(pulls):
        for _ in range(number):
            ways = [
                (p * q, earned + reward, (*now[:arm], (*now[arm], outcome), *now[arm + 1 :]))
                for p, earned, now in ways
                for q, outcome, reward in chances_of(problem, arm, now[arm], truth[arm])
            ]
    yield from ways


def by_histories(
    problem: Problem, policy: str | Policy, truth: list[Any] | None = None
) -> tuple[float, float]:
    """Mean and second moment of the reward of a policy over all histories."""
    made, known = make_policy(problem, policy), truth or [None] * problem.n_arms
    known = [None if own == "-" else own for own in known]

    def after(t: int, seen: Seen, reward: float) -> tuple[float, float]:
        if t == problem.horizon and problem.terminal is None:
            return reward, reward**2
        pulls = made.allocation(t, state_of(problem, seen))
        if t == problem.horizon:
            assert problem.terminal is not None
            arm = pulls.index(1)
            total = reward + problem.terminal.deploy * mean_of(problem, arm, seen[arm], known[arm])
            return total, total**2
        first, second = 0.0, 0.0
        for chance, earned, later in outcomes_of(problem, seen, pulls, known):
            own = after(t + 1, later, reward + earned)
            first, second = first + chance * own[0], second + chance * own[1]
        return first, second

    return after(0, ((),) * problem.n_arms, 0.0)


def best_by_histories(
    problem: Problem, stages: int | None = None, ended: Callable[[Seen], float] | None = None
) -> float:
    """The largest expected reward of the first stages and of `ended` after them."""
    stages, unknown = problem.horizon if stages is None else stages, [None] * problem.n_arms

    def last(seen: Seen) -> float:
        if problem.terminal is None:
            return 0.0
        means = [mean_of(problem, k, own, None) for k, own in enumerate(seen)]
        return problem.terminal.deploy * max(means)

    def best(t: int, seen: Seen) -> float:
        if t == stages:
            return (ended or last)(seen)
        return max(
            math.fsum(
                chance * (earned + best(t + 1, later))
                for chance, earned, later in outcomes_of(problem, seen, pulls, unknown)
            )
            for pulls in allotments(problem)
        )

    return best(0, ((),) * problem.n_arms)
