"""Which arm is next when the outcomes of some allocations are still open.

The pulls of open allocations count as made: they have used their slots, so that they are in the
stage and in ties by pulls. What they will show is averaged over, given what has been told:

    an arm's own index   every policy but those below: each arm's index is averaged over its own
                         open outcomes, sum_j P(j of o good) I_t(good + j, bad + o - j)
    all arms together    `optimal`, `rolling-deco`, `knowledge-gradient`: the same average over the
                         open outcomes of all arms, exact up to 256 ways, else over 256 draws
                         (`rolling-deco`, which solves a dual for each: 16)
    drawn arms           `thompson`, `ids`, `v-ids`: the open outcomes are drawn, then the arm. So
                         its chance is the average of its chances

and the largest average is taken. With nothing open this is what the policy chooses.

Several pulls per stage are asked for one by one, all on what was known when the stage began: each
takes the best arm that is not taken yet. `optimal` weighs whole sets with the arms taken in them.

No arm is pulled twice in a stage, nor more often than there have been stages. Cancellations can
leave an arm with more pulls than that: it has to wait. Policies without an index of single arms
have no plan for it; there the largest expected reward decides, and the reason says so.

A decision depends on the situation and the random generator alone: on counts, so not on the order
in which outcomes came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..kernels.layout import slab_size
from ..nearby import Nearby
from ..policies.base import DEFAULT_TIES, TIE_TOLERANCE, IndexPolicy, Policy, TieRule, tie_tolerance
from ..policies.calibrated import CalibratedPolicy
from ..policies.deco import DecoPolicy
from ..policies.optimal import OptimalPolicy
from ..policies.randomised import RandomisedPolicy
from ..policies.rolling import RollingDecoPolicy
from ..policies.table import TablePolicy
from ..problem import Problem
from . import reasons
from .errors import Conflict
from .situations import (
    FEW_WAYS,
    MOST_WAYS,
    Floats,
    Situation,
    drawn_state,
    open_chances,
    posteriors,
    ways,
)

__all__ = ["Decision", "Situation", "decide", "deployment"]


@dataclass(frozen=True)
class Decision:
    """The next arm and what speaks for each arm, averaged over open outcomes.

    An arm that has more pulls than stages has no index now: its expected reward stands for it.
    """

    arm: int
    stage: int
    price: float  # of a pull at this stage, as first solved
    expected_reward: tuple[float, ...]
    index: tuple[float, ...] | None  # `optimal`: value of the best choice with the arm
    value_of_information: tuple[float, ...] | None  # only DeCo's index has this part
    reason: str


@dataclass(frozen=True)
class _Choice:
    arm: int
    values: Floats | None = None  # of every arm; this one has the largest. None: it was drawn
    what: str = "index"  # the values are
    tied: tuple[int, ...] = ()  # arms of as large a value, this one included
    ties: TieRule = DEFAULT_TIES
    draws: int = 0  # of open outcomes, where there were too many ways to average over
    planned: bool = True  # the values are the policy's own


@dataclass(frozen=True)
class _Turn:
    """A situation, and what every policy looks at in it."""

    problem: Problem
    situation: Situation
    rewards: Floats  # expected reward of every arm
    allowed: tuple[int, ...]
    rng: np.random.Generator | None

    @property
    def stage(self) -> int:
        return self.situation.stage


def decide(
    policy: Policy,
    situation: Situation,
    prices: Floats,
    *,
    nearby: Nearby | None = None,
    rng: np.random.Generator | None = None,
) -> Decision:
    """The arm to allocate next; `Conflict` if there is none.

    nearby: at the prices of the policy, DeCo's terms. rng: for draws, and for ties at random.
    """
    situation.check(policy.problem)
    if situation.stage >= policy.problem.horizon:
        raise ValueError(f"situation: stage must be 0..{policy.problem.horizon - 1} for a pull")
    turn = _turn(policy.problem, situation, rng)
    choice = _choice(policy, turn, nearby)
    price = float(prices[situation.stage])
    return Decision(
        arm=choice.arm,
        stage=situation.stage,
        price=price,
        expected_reward=tuple(turn.rewards.tolist()),
        index=_listed(choice.values) if choice.planned else None,
        value_of_information=_listed(_information(policy, turn, choice)),
        reason=_reason(policy, turn, choice, price),
    )


def deployment(
    policy: Policy,
    situation: Situation,
    *,
    nearby: Nearby | None = None,
    rng: np.random.Generator | None = None,
) -> int:
    """The arm to keep when all stages are over, for a problem that deploys one."""
    problem = policy.problem
    situation.check(problem)
    if problem.terminal is None:
        raise ValueError("the problem keeps no arm at the end; its terminal.deploy is 0")
    if situation.stage != problem.horizon:
        raise ValueError(f"situation: stage must be {problem.horizon} for the deployment")
    return _choice(policy, _turn(problem, situation, rng), nearby).arm


def _turn(problem: Problem, situation: Situation, rng: np.random.Generator | None) -> _Turn:
    stage, groups = situation.stage, [problem.groups[k] for k in problem.group_of_arm]
    bad = np.array([group.reward_bad[stage] for group in groups])
    spread = np.array([group.reward_good[stage] for group in groups]) - bad
    # the mean of what will be believed is what is believed now: open outcomes do not move it
    mean = np.array([a / (a + b) for a, b in posteriors(problem, situation)])
    allowed = tuple(
        arm
        for arm, pulls in enumerate(situation.pulls)
        if pulls <= stage and arm not in situation.taken
    )
    if not allowed:  # better an arm more often than there were stages than a trial that is stuck
        allowed = tuple(arm for arm in range(len(situation.pulls)) if arm not in situation.taken)
    if not allowed:
        raise Conflict("no arm can be allocated now: an arm is pulled at most once per stage")
    return _Turn(problem, situation, bad + spread * mean, allowed, rng)


def _choice(policy: Policy, turn: _Turn, nearby: Nearby | None) -> _Choice:
    if isinstance(policy, DecoPolicy):
        return _picked(policy, turn, _deco_index(policy, turn, nearby))
    if isinstance(policy, CalibratedPolicy | TablePolicy):
        return _picked(policy, turn, _table_index(policy, turn))
    if turn.situation.overdrawn or (
        isinstance(policy, RandomisedPolicy) and turn.stage >= turn.problem.horizon
    ):
        return _most_rewarding(turn)
    if isinstance(policy, IndexPolicy):
        return _joint(policy, turn)
    if isinstance(policy, OptimalPolicy):
        return _optimal(policy, turn)
    state = drawn_state(turn.problem, turn.situation, turn.rng)
    arms = policy.choose(turn.stage, state, turn.rng)
    arm = next(arm for arm in arms if arm not in turn.situation.taken)
    return _Choice(arm)


# -- an arm's own index -------------------------------------------------------------------------


def _averages(turn: _Turn, look: Callable[[int, int, int, int], Floats]) -> Floats:
    """Indices averaged over open outcomes, (arms,).

    look(group, good, bad, open): the index for each number, from 0, of good ones among the open.
    """
    problem, known = turn.problem, turn.situation
    states = zip(problem.group_of_arm.tolist(), known.good, known.bad, known.open, strict=True)
    index = turn.rewards.copy()
    found: dict[tuple[int, int, int, int], float] = {}  # equal arms in equal states: once
    for arm, state in enumerate(states):
        group, good, bad, waiting = state
        if good + bad + waiting > turn.stage:
            continue  # more pulls than stages: no table has it
        if state not in found:
            prior = problem.groups[group]
            chances = open_chances(prior.alpha + good, prior.beta + bad, waiting)
            found[state] = float(chances @ look(*state))
        index[arm] = found[state]
    return index


def _deco_index(policy: DecoPolicy, turn: _Turn, nearby: Nearby | None) -> Floats:
    source = policy.relaxation if nearby is None else nearby

    def look(group: int, good: int, bad: int, waiting: int) -> Floats:
        states = ((good + j, bad + waiting - j) for j in range(waiting + 1))
        return np.array([source.terms(turn.stage, group, *state).index for state in states])

    return _averages(turn, look)


def _table_index(policy: CalibratedPolicy | TablePolicy, turn: _Turn) -> Floats:
    table = policy.stage_index(turn.stage)

    def look(group: int, good: int, bad: int, waiting: int) -> Floats:
        first = slab_size(good + bad + waiting - 1) + good
        return table[group, first : first + waiting + 1]

    return _averages(turn, look)


def _picked(policy: IndexPolicy, turn: _Turn, index: Floats, *, draws: int = 0) -> _Choice:
    (arm,) = policy.pick(index, turn.situation.pulls, rng=turn.rng, allowed=turn.allowed)
    tied = tuple(policy.tied(index, turn.allowed).tolist())
    return _Choice(arm, index, tied=tied, ties=policy.ties, draws=draws)


# -- all arms together --------------------------------------------------------------------------


def _joint(policy: IndexPolicy, turn: _Turn) -> _Choice:
    """By an index that looks at all arms."""
    # rolling DeCo solves a dual for each way
    most = FEW_WAYS if isinstance(policy, RollingDecoPolicy) else MOST_WAYS
    states, drawn = ways(turn.problem, turn.situation, turn.rng, most)
    index = np.zeros_like(turn.rewards)
    for state, chance in states:
        index += chance * policy.indices(turn.stage, state)
    return _picked(policy, turn, index, draws=most * drawn)


def _optimal(policy: OptimalPolicy, turn: _Turn) -> _Choice:
    """By the exact value of every set of arms that has those taken in it."""
    problem, taken, pulls = turn.problem, set(turn.situation.taken), turn.situation.pulls
    m = round(problem.pulls[turn.stage])
    # in this order, the first of tied sets is the one of least pulled arms, as the policy has it
    order = sorted(range(len(pulls)), key=lambda arm: (pulls[arm], arm))
    sets = [arms for arms in combinations(order, m) if taken <= set(arms)]
    states, drawn = ways(problem, turn.situation, turn.rng)
    worth = np.array(
        [
            sum(chance * policy.value_of(arms, turn.stage, state) for state, chance in states)
            for arms in sets
        ]
    )
    least = worth.max() - max(tie_tolerance(problem), TIE_TOLERANCE * abs(worth.max()))
    best = sets[int(np.flatnonzero(worth >= least)[0])]
    values = np.full(len(pulls), -np.inf)
    for arms, value in zip(sets, worth, strict=True):
        values[list(arms)] = np.maximum(values[list(arms)], value)
    return _Choice(
        next(arm for arm in best if arm not in taken),
        values,
        "value of this pull and all that follow" if m == 1 else "value of the best set with it",
        tied=tuple(np.flatnonzero(values >= least).tolist()) if m == 1 else (),
        draws=MOST_WAYS * drawn,
    )


def _most_rewarding(turn: _Turn) -> _Choice:
    """By expected reward; ties as in policies that draw their arms."""
    own = turn.rewards[list(turn.allowed)]
    near = own >= own.max() - tie_tolerance(turn.problem)
    tied = tuple(np.array(turn.allowed)[near].tolist())
    arm = min(tied, key=lambda each: (turn.situation.pulls[each], each))
    return _Choice(arm, turn.rewards, "expected reward", tied=tied, planned=False)


# -- what is said of it -------------------------------------------------------------------------


def _listed(values: Floats | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values.tolist())


def _information(policy: Policy, turn: _Turn, choice: _Choice) -> Floats | None:
    """What indices have beyond the expected reward, where that is the value of information."""
    deco = isinstance(policy, DecoPolicy | RollingDecoPolicy) and choice.planned
    return choice.values - turn.rewards if deco and choice.values is not None else None


def _reason(policy: Policy, turn: _Turn, choice: _Choice, price: float) -> str:
    names = [arm.name for arm in turn.problem.arms]
    name, waiting = names[choice.arm], sum(turn.situation.open)
    if choice.values is None:
        return reasons.drawn(name, policy.name, waiting)
    information = _information(policy, turn, choice)
    own = None if information is None else (turn.rewards[choice.arm], information[choice.arm])
    left = len(turn.allowed) < len(names)
    return reasons.sentence(
        reasons.largest(name, choice.what, choice.values[choice.arm], own, left=left),
        reasons.tie([names[arm] for arm in choice.tied if arm != choice.arm], choice.ties),
        reasons.averaged(waiting, choice.draws),
        reasons.compared(price) if own else "",
        "" if choice.planned else f"{policy.name} has no plan after these cancellations",
    )
