"""Which arm is next while the outcomes of some allocations are pending.

The pulls of pending allocations count as made: they have used their slots, and count in the stage
and in ties by pulls. Their outcomes are averaged over, given the recorded ones:

    an arm's own index   policies with an index of single arms: each index is averaged over the
                         arm's pending outcomes, sum_j P(j of o good) I_t(good + j, bad + o - j)
    all arms together    policies that weigh all arms at once (`Policy.weigh`): the same average
                         over the pending outcomes of all arms, exact up to 256 combinations, else
                         over as many draws (16 where each combination takes a dual)
    drawn arms           policies that draw: the pending outcomes are drawn, then the arm, so that
                         its probability is the average of its probabilities

and the largest average is taken. With nothing pending this is what the policy chooses.

Several different arms per stage are decided one by one, all on what was known when the stage
began: each is the best arm that is not taken yet; the optimal policy weighs whole sets with the
arms taken.

A decision depends on the pending state and the random generator alone: on counts, not on the order
in which outcomes were recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..policies import Policy
from ..problem import (
    DEFAULT_TIES,
    Problem,
    States,
    Stats,
    TieRule,
    ahead_of,
    break_tie,
    tie_tolerance,
    tied_arms,
)
from ..support import Floats
from . import explanation
from .pending import (
    MOST_AHEAD,
    PendingState,
    drawn_ahead,
    drawn_state,
    expected_rewards,
    ways,
)

__all__ = ["Decision", "PendingState", "decide", "deployment"]


@dataclass(frozen=True)
class Decision:
    """Pulls of every arm at the next stage, and the numbers of each arm, averaged over pending
    outcomes."""

    pulls: tuple[int, ...]
    stage: int
    price: float | None  # of a pull at this stage, as first solved; None: no dual was
    expected_reward: tuple[float, ...]
    index: tuple[float, ...] | None  # or the value of the best choice with the arm
    value_of_information: tuple[float, ...] | None  # only DeCo's index has this part
    reason: str
    by_rules: bool = False  # the rules of the design chose or drew the arm, not its index

    @property
    def arm(self) -> int:
        """Position of the first arm that is pulled."""
        return next(arm for arm, n in enumerate(self.pulls) if n)


@dataclass(frozen=True)
class _Choice:
    arm: int
    values: Floats | None = None  # of every arm; this one has the largest. None: it was drawn
    what: str = "index"  # the values are
    tied: tuple[int, ...] = ()  # arms of as large a value, this one included
    ties: TieRule = DEFAULT_TIES
    draws: int = 0  # of pending outcomes, where there were too many combinations


@dataclass(frozen=True)
class _Inputs:
    """A pending state, and what every policy needs of it."""

    problem: Problem
    pending: PendingState
    rewards: Floats  # expected reward of every arm
    allowed: tuple[int, ...]
    rng: np.random.Generator | None

    @property
    def stage(self) -> int:
        return self.pending.stage


def decide(
    policy: Policy,
    pending: PendingState,
    prices: Floats | None,
    *,
    rng: np.random.Generator | None = None,
) -> Decision:
    """The arm to pull next.

    rng: for draws, and for ties at random.
    """
    pending.check(policy.problem)
    if pending.stage >= policy.problem.horizon:
        raise ValueError(f"pending state: stage must be 0..{policy.problem.horizon - 1} for a pull")
    inputs = _inputs(policy.problem, pending, rng)
    choice = _choice(policy, inputs)
    price = None if prices is None else float(prices[pending.stage])
    return Decision(
        pulls=one_pull(policy.problem, choice.arm),
        stage=pending.stage,
        price=price,
        expected_reward=tuple(inputs.rewards.tolist()),
        index=_listed(choice.values),
        value_of_information=_listed(_information(policy, inputs, choice)),
        reason=_reason(policy, inputs, choice, price),
    )


def one_pull(problem: Problem, arm: int) -> tuple[int, ...]:
    """One pull of an arm, and none of the others."""
    return tuple(int(k == arm) for k in range(problem.n_arms))


def deployment(
    policy: Policy,
    pending: PendingState,
    *,
    rng: np.random.Generator | None = None,
) -> int:
    """The arm to deploy after all stages, for a problem that deploys one."""
    problem = policy.problem
    pending.check(problem)
    if problem.terminal is None:
        raise ValueError("the problem deploys no arm at the end: terminal.deploy is 0")
    if pending.stage != problem.horizon:
        raise ValueError(f"pending state: stage must be {problem.horizon} for the deployment")
    return _choice(policy, _inputs(problem, pending, rng)).arm


def _inputs(problem: Problem, pending: PendingState, rng: np.random.Generator | None) -> _Inputs:
    allowed = tuple(arm for arm in range(problem.n_arms) if arm not in pending.taken)
    return _Inputs(problem, pending, expected_rewards(problem, pending), allowed, rng)


def _choice(policy: Policy, inputs: _Inputs) -> _Choice:
    if policy.has_own_index:
        values, draws = _averages(policy, inputs)
        return _largest(policy, inputs, values, draws=draws)
    at_deployment = inputs.stage >= inputs.problem.horizon
    if inputs.problem.repeat and at_deployment:
        return _largest(policy, inputs, inputs.rewards)
    if policy.randomised and at_deployment:
        return _most_rewarding(inputs)
    if policy.randomised:
        return _drawn(policy, inputs)
    states, drawn = ways(inputs.problem, inputs.pending, inputs.rng, policy.most_ways)
    weighed = policy.weigh(inputs.stage, states, inputs.pending.taken)
    if weighed is None:
        return _drawn(policy, inputs)
    draws = policy.most_ways * drawn
    if weighed.arm is None:
        return _largest(policy, inputs, weighed.values, draws=draws)
    return _Choice(weighed.arm, weighed.values, weighed.what, tied=weighed.tied, draws=draws)


def _drawn(policy: Policy, inputs: _Inputs) -> _Choice:
    """Draw the pending outcomes, then ask the policy."""
    state = drawn_state(inputs.problem, inputs.pending, inputs.rng)
    arms = policy.select(inputs.stage, state, inputs.rng)
    return _Choice(next(arm for arm in arms if arm not in inputs.pending.taken))


# -- an arm's own index -------------------------------------------------------------------------


def _averages(policy: Policy, inputs: _Inputs) -> tuple[Floats, int]:
    """Each arm's index averaged over its own pending outcomes, (arms,), or over so many draws."""
    problem, known = inputs.problem, inputs.pending
    states = zip(problem.group_of_arm.tolist(), known.stats, known.open, strict=True)
    index, draws = np.empty(problem.n_arms), 0
    found: dict[tuple[int, Stats, int], float] = {}  # equal arms in equal states: once
    for arm, state in enumerate(states):
        if state not in found:
            group, stats, waiting = state
            kind = problem.groups[group].model
            ahead = ahead_of(kind, stats, waiting, MOST_AHEAD)
            if ahead is None:
                draws = policy.most_ways
                ahead = drawn_ahead(kind, stats, waiting, inputs.rng, draws)
            each = policy.indices_of(inputs.stage, arm, ahead[1])
            found[state] = float(ahead[0] @ each)
        index[arm] = found[state]
    return index, draws


# -- the largest value --------------------------------------------------------------------------


def _largest(policy: Policy, inputs: _Inputs, values: Floats, *, draws: int = 0) -> _Choice:
    """Of the arms allowed; ties by the policy's rule."""
    tied = tied_arms(values, inputs.allowed, tie_tolerance(inputs.problem))
    arm = break_tie(tied, inputs.pending.pulls, policy.ties, inputs.rng)
    return _Choice(arm, values, tied=tuple(tied.tolist()), ties=policy.ties, draws=draws)


def _most_rewarding(inputs: _Inputs) -> _Choice:
    """By expected reward; ties as in policies that draw their arms."""
    tied = tied_arms(inputs.rewards, inputs.allowed, tie_tolerance(inputs.problem))
    arm = break_tie(tied, inputs.pending.pulls, DEFAULT_TIES)
    near = tuple(tied.tolist())
    return _Choice(arm, inputs.rewards, "expected reward", tied=near)


# -- the explanation ----------------------------------------------------------------------------


def _listed(values: Floats | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values.tolist())


def _information(policy: Policy, inputs: _Inputs, choice: _Choice) -> Floats | None:
    """What indices have beyond the expected reward, where that is the value of information."""
    if not policy.splits_index or choice.values is None:
        return None
    return choice.values - inputs.rewards


def _reason(policy: Policy, inputs: _Inputs, choice: _Choice, price: float | None) -> str:
    names = [arm.name for arm in inputs.problem.arms]
    name, waiting = names[choice.arm], sum(inputs.pending.open)
    if choice.values is None:
        return explanation.drawn(name, policy.name, waiting)
    information = _information(policy, inputs, choice)
    own = None if information is None else (inputs.rewards[choice.arm], information[choice.arm])
    left = len(inputs.allowed) < len(names)
    return explanation.sentence(
        explanation.largest(name, choice.what, choice.values[choice.arm], own, left=left),
        explanation.tie([names[arm] for arm in choice.tied if arm != choice.arm], choice.ties),
        explanation.averaged(waiting, choice.draws),
        explanation.compared(price) if own and price is not None else "",
    )


# -- how the pulls of a stage are shared among arms, while outcomes may be pending -----------------


def allot(
    policy: Policy,
    pending: PendingState,
    prices: Floats | None,
    *,
    draws: Callable[[], np.random.Generator],
) -> Decision:
    """The next stage. `draws` gives the random numbers of the stage, anew each time."""
    problem = policy.problem
    pending.check(problem)
    if not problem.repeat:
        return one_by_one(
            lambda state: decide(policy, state, prices, rng=draws()), problem, pending
        )
    counts, drawn = _shared(policy, pending, draws())
    price = _price(problem, pending, prices)
    names = [arm.name for arm in problem.arms]
    said = explanation.sentence(
        explanation.shared(dict(zip(names, counts, strict=True)), policy.name),
        explanation.drawn_first(sum(pending.open))
        if policy.randomised
        else explanation.averaged(sum(pending.open), drawn),
        explanation.compared(price) if price is not None and policy.at_fixed_prices else "",
    )
    return shared_decision(problem, pending, prices, counts, said)


def shared_decision(
    problem: Problem,
    pending: PendingState,
    prices: Floats | None,
    counts: tuple[int, ...],
    reason: str,
) -> Decision:
    """These pulls of a shared batch, with the numbers of the stage; arms have no index there."""
    rewards = tuple(expected_rewards(problem, pending).tolist())
    price = _price(problem, pending, prices)
    return Decision(counts, pending.stage, price, rewards, None, None, reason)


def _price(problem: Problem, pending: PendingState, prices: Floats | None) -> float | None:
    return None if prices is None else float(prices[pending.stage]) / problem.unit


def one_by_one(
    decided: Callable[[PendingState], Decision], problem: Problem, pending: PendingState
) -> Decision:
    """Different arms, each decided after those before."""
    decisions = list[Decision]()
    for _ in range(problem.pulls_per_stage):
        decisions.append(decided(pending))
        pending = replace(pending, taken=(*pending.taken, decisions[-1].arm))
    return replace(
        decisions[0],
        pulls=tuple(map(sum, zip(*(one.pulls for one in decisions), strict=True))),
        reason=" | ".join(one.reason for one in decisions),
        by_rules=any(one.by_rules for one in decisions),
    )


def _shared(
    policy: Policy, pending: PendingState, rng: np.random.Generator
) -> tuple[tuple[int, ...], int]:
    """Pulls of every arm, and how many draws of pending outcomes they are the mean of."""
    problem, stage = policy.problem, pending.stage
    if policy.randomised:
        state = drawn_state(problem, pending, rng)
        return policy.allocation(stage, state, rng), 0
    asked, chances, drawn = states_to_ask(policy, pending, rng)
    own = policy.allocate_many(stage, asked, rng)
    units = whole_units(chances @ own / problem.unit, problem.units)
    return tuple(problem.unit * n for n in units), drawn


def states_to_ask(
    policy: Policy, pending: PendingState, rng: np.random.Generator
) -> tuple[States, Floats, int]:
    """The states that pending outcomes lead to; their probabilities; and how many draws they come
    from, 0 where they are all.

    Of a policy that draws, one state.
    """
    problem = policy.problem
    if policy.randomised:
        states, drawn = [(drawn_state(problem, pending, rng), 1.0)], False
    else:
        states, drawn = ways(problem, pending, rng, policy.most_ways)
    asked = States.of(problem, [state for state, _ in states])
    return asked, np.array([chance for _, chance in states]), policy.most_ways * drawn


def whole_units(mean: Floats, total: int) -> list[int]:
    """Whole numbers that sum to `total`, next to these: the largest remainders are rounded up."""
    floor = np.floor(mean + 1e-9).astype(int)
    order = np.argsort(-np.round(mean - floor, 9), kind="stable")  # of equal ones the first
    floor[order[: total - int(floor.sum())]] += 1
    return [int(n) for n in floor]
