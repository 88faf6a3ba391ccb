"""Which arm is next while the outcomes of some allocations are pending, and why.

Pending pulls count as made; their outcomes are averaged over, or drawn where the policy draws.
Replays compare the sentences: they must not change for decisions that are on record.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..policies import IndexPolicy, Policy
from ..problem import (
    DEFAULT_TIES,
    ArmModel,
    Problem,
    State,
    States,
    Stats,
    TieRule,
    ahead_of,
    break_tie,
    tie_tolerance,
    tied_arms,
)
from ..support import Floats, InvalidArgument
from .allocations import kinds_of

MAX_STATES_AHEAD = 100_000  # states of one arm after its pending outcomes


@dataclass(frozen=True)
class PendingState:
    """Recorded outcomes and pending pulls of every arm, (arms,) each."""

    known: State
    open: tuple[int, ...]
    stage: int  # from 0: slots in use // pulls per stage
    taken: tuple[int, ...] = ()  # arms already allocated in the stage that is being decided
    spent: float = 0.0  # of a budget, pending pulls included

    def __post_init__(self) -> None:
        for counts in ("open", "taken"):
            object.__setattr__(self, counts, tuple(map(operator.index, getattr(self, counts))))
        if len(self.known.rows) != len(self.open):
            raise InvalidArgument(
                "pending state: needs one count of good, bad and open for each arm"
            )
        if min((*self.known.good, *self.known.bad, *self.open), default=0) < 0:
            raise InvalidArgument("pending state: counts cannot be negative")

    @property
    def pulls(self) -> tuple[int, ...]:
        """Pulls of each arm, pending ones included."""
        return tuple(map(operator.add, self.known.pulls, self.open))

    @property
    def stats(self) -> list[Stats]:
        """Sufficient statistics of each arm, in the form of its model."""
        return list(self.known.rows)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if the problem has no such state."""
        arms, m = problem.n_arms, problem.pulls_per_stage
        if len(self.open) != arms:
            raise InvalidArgument(f"pending state: {len(self.open)} arms; the problem has {arms}")
        if not 0 <= self.stage <= problem.horizon:
            raise InvalidArgument(f"pending state: stage must be 0..{problem.horizon}")
        if not all(0 <= arm < arms for arm in self.taken):
            raise InvalidArgument(f"pending state: taken arms must be at positions 0..{arms - 1}")
        if len(self.taken) >= m or (self.taken and self.stage == problem.horizon):
            raise InvalidArgument(
                "pending state: more arms are taken than the stage under way can have"
            )
        missing = self.stage * m - sum(self.pulls)
        if missing < 0 or (missing and problem.budget is None):
            raise InvalidArgument(
                f"pending state: must have {m} pulls for each stage that is complete"
            )


def posterior_means(problem: Problem, pending: PendingState) -> Floats:
    """Return the expected value of the next outcome of every arm, (arms,).

    Pending outcomes change it only for Markov arms; otherwise the mean is a martingale.
    """
    stats, means = pending.stats, np.empty(problem.n_arms)
    for group in problem.groups:
        members = list(group.members)
        means[members] = group.model.mean(np.array([stats[arm] for arm in members], dtype=float))
        for arm in members if group.model.ordered else ():
            ahead = ahead_of(group.model, stats[arm], pending.open[arm], MAX_STATES_AHEAD)
            if ahead is not None:
                means[arm] = ahead[0] @ group.model.mean(ahead[1])
    return means


def expected_rewards(problem: Problem, pending: PendingState) -> Floats:
    """Return the expected reward of a pull of every arm now, (arms,)."""
    stage, groups = pending.stage, problem.arm_groups
    base, factor = np.array(
        [[rewards[stage] for rewards in group.played_rewards] for group in groups]
    ).T
    return np.asarray(base + factor * posterior_means(problem, pending))


def drawn_state(problem: Problem, pending: PendingState, rng: np.random.Generator | None) -> State:
    """Return the state with the pending outcomes drawn; without any, nothing is drawn."""
    stats = pending.stats
    for arm, model in enumerate(kinds_of(problem)):
        if pending.open[arm]:
            _, later = drawn_ahead(model, stats[arm], pending.open[arm], rng, 1)
            stats[arm] = tuple(later[0].tolist())
    return State.of_stats(problem, stats)


def drawn_ahead(
    model: ArmModel, stats: Stats, count: int, rng: np.random.Generator | None, draws: int
) -> tuple[Floats, Floats]:
    """Draw the statistics of an arm after `count` more outcomes, with equal weights."""
    if rng is None:
        raise InvalidArgument("pending outcomes are drawn: pass a random generator as rng")
    before = np.array(stats, dtype=float)
    before = before if draws == 1 else np.tile(before, (draws, 1))
    later = model.sample_total(model.sample(before, rng), before, count, rng)
    return np.full(draws, 1.0 / draws), np.atleast_2d(later)


def states_after_pending(
    problem: Problem, pending: PendingState, rng: np.random.Generator | None, limit: int
) -> tuple[list[tuple[State, float]], bool]:
    """Return states after the pending outcomes with probabilities, and whether they were drawn.

    All states up to `limit`; beyond, as many draws.
    """
    arms, number = list[list[tuple[float, Stats]]](), 1
    for model, stats, count in zip(kinds_of(problem), pending.stats, pending.open, strict=True):
        ahead = ahead_of(model, stats, count, limit)
        number *= limit + 1 if ahead is None else len(ahead[0])
        if ahead is None or number > limit:
            drawn = Counter(drawn_state(problem, pending, rng) for _ in range(limit))
            return [(state, n / limit) for state, n in drawn.items()], True
        arms.append(list(zip(ahead[0].tolist(), map(tuple, ahead[1].tolist()), strict=True)))
    return [
        (State.of_stats(problem, [stats for _, stats in joint]), math.prod(p for p, _ in joint))
        for joint in itertools.product(*arms)
    ], False


@dataclass(frozen=True)
class Decision:
    """Pulls of every arm at the next stage, with the numbers of each arm.

    Numbers are averages over pending outcomes.
    """

    pulls: tuple[int, ...]
    stage: int
    price: float | None  # of a pull at this stage, as first solved; None: the dual was not solved
    expected_reward: tuple[float, ...]
    index: tuple[float, ...] | None  # or the value of the best choice with the arm
    value_of_information: tuple[float, ...] | None  # only DeCo's index has this part
    reason: str
    # of every arm by the rules of the design, which chose or drew the arm; None: its policy did
    probabilities: tuple[float, ...] | None = None
    probability: float | None = None  # with which the arm of a single pull was chosen

    @property
    def by_rules(self) -> bool:
        """Whether the rules of the design chose or drew the arm, not its index."""
        return self.probabilities is not None

    def by_name(self, problem: Problem) -> dict[str, int]:
        return {arm.name: n for arm, n in zip(problem.arms, self.pulls, strict=True) if n}

    @property
    def arm(self) -> int:
        """Position of the first arm that is pulled."""
        return next(arm for arm, n in enumerate(self.pulls) if n)


PROBABILITY = "probability"  # quantity by which an arm was drawn


@dataclass(frozen=True)
class _Choice:
    arm: int
    values: Floats | None = None  # by arm; this arm has the largest. None: the arm was drawn
    quantity: str = "index"  # name of the values
    tied: tuple[int, ...] = ()  # arms with an equal value, this one included
    ties: TieRule = DEFAULT_TIES
    draws: int = 0  # of pending outcomes, where there were too many combinations


@dataclass(frozen=True)
class _Inputs:
    """A pending state with what every policy needs to decide."""

    policy: Policy
    pending: PendingState
    rng: np.random.Generator | None
    rewards: Floats  # expected reward of every arm
    allowed: tuple[int, ...]

    @classmethod
    def of(cls, policy: Policy, pending: PendingState, rng: np.random.Generator | None) -> _Inputs:
        able = policy.problem.available_at(pending.stage)
        allowed = tuple(arm for arm in np.flatnonzero(able).tolist() if arm not in pending.taken)
        return cls(policy, pending, rng, expected_rewards(policy.problem, pending), allowed)

    def largest(self, values: Floats, *, draws: int = 0) -> _Choice:
        """Choose the allowed arm with the largest value; the policy's rule breaks ties."""
        ties = self.policy.ties
        tied = tied_arms(values, self.allowed, tie_tolerance(self.policy.problem))
        arm = break_tie(tied, self.pending.pulls, ties, self.rng)
        return _Choice(arm, values, tied=tuple(tied.tolist()), ties=ties, draws=draws)


def decide(
    policy: Policy,
    pending: PendingState,
    prices: Floats | None,
    *,
    rng: np.random.Generator | None = None,
    drawn: int | None = None,
) -> Decision:
    """Choose the arm to pull next; `rng` is for draws and for random ties.

    `drawn`: the arm, where it was drawn by its probability.
    """
    pending.check(policy.problem)
    if pending.stage >= policy.problem.horizon:
        raise InvalidArgument(
            f"pending state: stage must be 0..{policy.problem.horizon - 1} for a pull"
        )
    inputs = _Inputs.of(policy, pending, rng)
    choice = _choice(inputs) if drawn is None else _Choice(drawn, quantity=PROBABILITY)
    played = float(policy.problem.survival[pending.stage])  # numbers are those of a stage that is
    values = None if choice.values is None else choice.values / played
    price = None if prices is None else float(prices[pending.stage]) / played
    information = None
    if policy.splits_index and values is not None:
        information = values - inputs.rewards
    return Decision(
        pulls=one_pull(policy.problem, choice.arm),
        stage=pending.stage,
        price=price,
        expected_reward=tuple(inputs.rewards.tolist()),
        index=None if values is None else tuple(values.tolist()),
        value_of_information=None if information is None else tuple(information.tolist()),
        reason=_reason(inputs, replace(choice, values=values), information, price),
    )


def one_pull(problem: Problem, arm: int) -> tuple[int, ...]:
    """Return the pulls by arm of a single pull."""
    return tuple(int(k == arm) for k in range(problem.n_arms))


def beyond_plan(problem: Problem, pending: PendingState, allowed: Sequence[bool]) -> Decision:
    """Decide for a visitor of a segment that got more than its share made plausible.

    No later visitor is planned for, so the arms of the largest expected reward are pulled.
    """
    rewards = expected_rewards(problem, replace(pending, stage=problem.horizon - 1))
    left, chosen = [k for k in range(problem.n_arms) if allowed[k]], list[int]()
    for _ in range(problem.pulls_per_stage):
        tied = tied_arms(rewards, tuple(left), tie_tolerance(problem))
        chosen.append(break_tie(tied, pending.pulls, DEFAULT_TIES))
        left.remove(chosen[-1])
    terms = (
        f"{problem.arms[k].name}: expected reward {_number(rewards[k])}, the largest"
        for k in chosen
    )
    return Decision(
        pulls=tuple(int(k in chosen) for k in range(problem.n_arms)),
        stage=pending.stage,
        price=None,
        expected_reward=tuple(rewards.tolist()),
        index=None,
        value_of_information=None,
        reason=f"{' | '.join(terms)}; the segment has more visitors than its share made plausible",
    )


def deployment(
    policy: Policy, pending: PendingState, *, rng: np.random.Generator | None = None
) -> tuple[int, ...]:
    """Choose the arms to deploy after all stages, the best first."""
    problem = policy.problem
    pending.check(problem)
    if problem.terminal is None:
        raise InvalidArgument("the problem deploys no arm at the end: terminal.deploy is 0")
    if pending.stage != problem.horizon:
        raise InvalidArgument(f"pending state: stage must be {problem.horizon} for the deployment")
    inputs, chosen = _Inputs.of(policy, pending, rng), list[int]()
    while len(chosen) < problem.deployed:
        left = tuple(arm for arm in inputs.allowed if arm not in chosen)
        chosen.append(_choice(replace(inputs, allowed=left)).arm)
    return tuple(chosen)


def _choice(inputs: _Inputs) -> _Choice:
    policy, pending, rng = inputs.policy, inputs.pending, inputs.rng
    problem = policy.problem
    if policy.has_own_index:
        values, draws = _average_indices(policy, pending, rng)
        return inputs.largest(values, draws=draws)
    at_deployment = pending.stage >= problem.horizon
    if problem.repeat and at_deployment:
        return inputs.largest(inputs.rewards)
    if policy.randomised and at_deployment:
        tied = tied_arms(inputs.rewards, inputs.allowed, tie_tolerance(problem))
        arm = break_tie(tied, pending.pulls, DEFAULT_TIES)
        return _Choice(arm, inputs.rewards, "expected reward", tied=tuple(tied.tolist()))
    if not policy.randomised:
        states, drawn = states_after_pending(problem, pending, rng, policy.most_ways)
        weighed = policy.weigh(pending.stage, states, pending.taken)
        draws = policy.most_ways * drawn
        if weighed is not None and weighed.arm is None:
            return inputs.largest(weighed.values, draws=draws)
        if weighed is not None and weighed.arm is not None:
            about = (weighed.values, weighed.what, weighed.tied)
            return _Choice(weighed.arm, *about, draws=draws)
    arms = policy.select(pending.stage, drawn_state(problem, pending, rng), rng)
    return _Choice(next(arm for arm in arms if arm not in pending.taken))


def _average_indices(
    policy: Policy, pending: PendingState, rng: np.random.Generator | None
) -> tuple[Floats, int]:
    """Average each arm's index over its pending outcomes; return the number of draws, too."""
    problem = policy.problem
    states = zip(problem.group_of_arm.tolist(), pending.stats, pending.open, strict=True)
    index, draws = np.empty(problem.n_arms), 0
    computed: dict[tuple[int, Stats, int], float] = {}  # once for equal arms in equal states
    for arm, state in enumerate(states):
        if state not in computed:
            group, stats, waiting = state
            model = problem.groups[group].model
            ahead = ahead_of(model, stats, waiting, MAX_STATES_AHEAD)
            if ahead is None:
                draws = policy.most_ways
                ahead = drawn_ahead(model, stats, waiting, rng, draws)
            computed[state] = float(ahead[0] @ policy.indices_of(pending.stage, arm, ahead[1]))
        index[arm] = computed[state]
    return index, draws


def allot(
    policy: Policy,
    pending: PendingState,
    prices: Floats | None,
    *,
    draws: Callable[[], np.random.Generator],
) -> Decision:
    """Decide the next stage; `draws` returns the stage's random generator, fresh each time."""
    problem = policy.problem
    pending.check(problem)
    if problem.budget is not None:
        return _within_budget(policy, pending, prices, draws())
    if not problem.repeat:
        return one_by_one(
            lambda state: decide(policy, state, prices, rng=draws()), problem, pending
        )
    rng = draws()
    states, weights, drawn = weighted_states(policy, pending, rng)
    if policy.randomised:
        counts = policy.allocation(pending.stage, states.state(0), rng)
    else:
        mean = weights @ policy.allocate_many(pending.stage, states, rng)
        units = whole_units(mean / problem.unit, problem.units)
        counts = tuple(problem.unit * n for n in units)
    at_price = prices is not None and policy.at_fixed_prices
    price = float(prices[pending.stage]) / problem.unit if prices is not None else 0.0
    reason = sentence(
        batch_clause(problem, counts, policy.name),
        f"drawn at random{_after_draws(pending)}"
        if policy.randomised
        else average_clause(pending, drawn),
        f"the price is {_number(price)}" if at_price else "",
    )
    return batch_decision(problem, pending, prices, counts, reason)


def _within_budget(
    policy: Policy, pending: PendingState, prices: Floats | None, rng: np.random.Generator
) -> Decision:
    """Decide the next stage by indices averaged over pending outcomes, and money that is left."""
    assert isinstance(policy, IndexPolicy)  # others are refused when a trial is made
    problem, stage = policy.problem, pending.stage
    states, weights, drawn = weighted_states(policy, pending, rng)
    states = replace(states, spent=np.full(len(weights), pending.spent)).at(stage)
    order, worth = policy.unit_worths(stage, states, rng)
    index = np.tensordot(weights, order, axes=1)
    allowed, left = states.allowed, states.left[:1]
    assert allowed is not None
    able = np.where(allowed[0][:, None], np.tensordot(weights, worth, axes=1), -1.0)
    (units,) = policy.fitting_units(stage, index[None], able[None], left, states.pulls[:1]).tolist()
    counts = tuple(problem.unit * n for n in units)
    played = float(problem.survival[stage])
    if not any(counts):
        choice = "no pull: no arm that the budget pays is worth its cost"
    elif problem.pulls_per_stage > 1:
        choice = batch_clause(problem, counts, policy.name)
    else:
        arm = counts.index(1)
        value = _number(index[arm, 0] / played)
        by = ", the largest per cost" if policy.per_cost else " after its cost, the largest"
        drawn_by = f"drawn at random by {policy.name}{_after_draws(pending)}"
        indexed = f"index {value}{by} that the budget pays"
        choice = f"{problem.arms[arm].name}: {drawn_by if policy.randomised else indexed}"
    reason = sentence(
        choice,
        "" if policy.randomised else average_clause(pending, drawn),
        f"{_number(float(left[0]))} left of the budget of {_number(float(problem.budget or 0.0))}",
    )
    decision = batch_decision(problem, pending, prices, counts, reason)
    if problem.repeat or policy.randomised:
        return decision
    return replace(decision, index=tuple((index[:, 0] / played).tolist()))


def batch_decision(
    problem: Problem,
    pending: PendingState,
    prices: Floats | None,
    counts: tuple[int, ...],
    reason: str,
    probabilities: tuple[float, ...] | None = None,
) -> Decision:
    """Return the decision to make these pulls of a shared batch; its arms have no index."""
    rewards = tuple(expected_rewards(problem, pending).tolist())
    price = None if prices is None else float(prices[pending.stage]) / problem.unit
    return Decision(counts, pending.stage, price, rewards, None, None, reason, probabilities)


def one_by_one(
    next_arm: Callable[[PendingState], Decision], problem: Problem, pending: PendingState
) -> Decision:
    """Decide different arms of a stage, each after those before."""
    decisions = list[Decision]()
    for _ in range(problem.pulls_per_stage):
        decisions.append(next_arm(pending))
        pending = replace(pending, taken=(*pending.taken, decisions[-1].arm))
    return replace(
        decisions[0],
        pulls=tuple(map(sum, zip(*(one.pulls for one in decisions), strict=True))),
        reason=" | ".join(one.reason for one in decisions),
    )


def weighted_states(
    policy: Policy, pending: PendingState, rng: np.random.Generator
) -> tuple[States, Floats, int]:
    """Return states after pending outcomes, their probabilities, and the draws they come from.

    0 draws where they are all states; one drawn state for a randomised policy.
    """
    problem = policy.problem
    if policy.randomised:
        states, drawn = [(drawn_state(problem, pending, rng), 1.0)], False
    else:
        states, drawn = states_after_pending(problem, pending, rng, policy.most_ways)
    weights = np.array([weight for _, weight in states])
    return States.of(problem, [state for state, _ in states]), weights, policy.most_ways * drawn


def whole_units(mean: Floats, total: int) -> list[int]:
    """Round to integers that sum to `total`: the largest remainders are rounded up."""
    floor = np.floor(mean + 1e-9).astype(int)
    order = np.argsort(-np.round(mean - floor, 9), kind="stable")  # of equal ones the first
    floor[order[: total - int(floor.sum())]] += 1
    return [int(n) for n in floor]


MAX_NAMED_TIES = 3
MAX_NAMED_IN_BATCH = 5
TIE_CLAUSES: dict[TieRule, str] = {
    "least-pulled": "the least pulled is taken, then the first",
    "most-pulled": "the most pulled is taken, then the first",
    "first": "the first is taken",
    "last": "the last is taken",
    "random": "one of them is drawn at random",
}


def _reason(
    inputs: _Inputs, choice: _Choice, information: Floats | None, price: float | None
) -> str:
    names = [arm.name for arm in inputs.policy.problem.arms]
    name = names[choice.arm]
    if choice.values is None:
        after = "" if choice.quantity == PROBABILITY else _after_draws(inputs.pending)
        return f"{name}: drawn at random by {inputs.policy.name}{after}"
    terms = ""
    if information is not None:
        reward, value = _number(inputs.rewards[choice.arm]), _number(information[choice.arm])
        terms = f"expected reward {reward} + value of information {value} = "
    left = " of the arms left in this stage" * (len(inputs.allowed) < len(names))
    value = _number(choice.values[choice.arm])
    return sentence(
        f"{name}: {terms}{choice.quantity} {value}, the largest{left}",
        _tie_clause([names[arm] for arm in choice.tied if arm != choice.arm], choice.ties),
        average_clause(inputs.pending, choice.draws),
        f"the price is {_number(price)}" if terms and price is not None else "",
    )


def sentence(*clauses: str) -> str:
    """Join the clauses that are not empty."""
    return "; ".join(filter(None, clauses))


def _number(value: float) -> str:
    """Format four digits; what rounding leaves of a zero is 0."""
    return f"{round(value, 12) + 0.0:.4g}"


def _tie_clause(rivals: Sequence[str], rule: TieRule) -> str:
    if not rivals:
        return ""
    if len(rivals) > MAX_NAMED_TIES:
        names = f"{len(rivals)} other arms"
    else:
        names = " and ".join(filter(None, [", ".join(rivals[:-1]), rivals[-1]]))
    return f"tied with {names}: {TIE_CLAUSES[rule]}"


def batch_clause(problem: Problem, counts: Sequence[int], policy: str) -> str:
    """Name the arms with the most pulls, the largest first."""
    pulled = [(n, arm.name) for arm, n in zip(problem.arms, counts, strict=True) if n]
    pulled.sort(key=lambda one: -one[0])
    names = ", ".join(f"{name} {n}" for n, name in pulled[:MAX_NAMED_IN_BATCH])
    unnamed = pulled[MAX_NAMED_IN_BATCH:]
    arms = "1 other arm" if len(unnamed) == 1 else f"{len(unnamed)} other arms"
    rest = f", {arms} {sum(n for n, _ in unnamed)}" if unnamed else ""
    return f"{policy}: {names}{rest} of {sum(counts)} pulls"


def average_clause(pending: PendingState, draws: int) -> str:
    """Describe the average over pending outcomes; `draws` is 0 where it is exact."""
    draws_of = f"{draws} draws of " if draws else ""
    return f"averaged over {draws_of}{_open_outcomes(pending)}" if sum(pending.open) else ""


def _after_draws(pending: PendingState) -> str:
    return f", after {_open_outcomes(pending)} had been drawn" if sum(pending.open) else ""


def _open_outcomes(pending: PendingState) -> str:
    count = sum(pending.open)
    return f"{count} pending outcome{'s' * (count > 1)}"
