"""Which arm is next while the outcomes of some allocations are pending, and why.

Pending pulls count as made; their outcomes are averaged over, or drawn where the policy draws.
Replays compare the sentences: they must not change for recorded decisions.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import RLock
from typing import Any

import numpy as np

from ..arm import Cones, OneArmValues
from ..designs.final_tests import final_test
from ..designs.playing import Endings
from ..policies import REASONS, Cost, IndexPolicy, Policy, RuledPolicy, ThompsonPolicy
from ..policies.allocation import Allowed, drawn_arms
from ..problem import (
    DEFAULT_TIES,
    EXACT_TESTS,
    ArmModel,
    Problem,
    Rules,
    State,
    States,
    Stats,
    TieRule,
    ahead_of,
    break_tie,
    tie_tolerance,
    tied_arms,
)
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, InvalidArgument, Once, TooLarge, code_environment
from ..support.records import doc, record_class
from .allocations import kinds_of, known_of, parts_by_arm
from .errors import Conflict, OutOfMemory, Stopped
from .ledger import Ledger
from .settings import TrialSettings

MAX_STATES_AHEAD = 100_000  # states of one arm after its pending outcomes
Draws = Callable[[], np.random.Generator]  # the random generator of a stage, fresh each time


@dataclass(frozen=True)
class PendingState:
    """Recorded outcomes and pending pulls of every arm."""

    known: State
    open: tuple[int, ...]  # pending pulls, (arms,)
    stage: int  # from 0: slots in use // pulls per stage
    taken: tuple[int, ...] = ()  # arms already allocated in the stage that is being decided
    spent: float = 0.0  # of a budget, pending pulls included

    @property
    def pulls(self) -> tuple[int, ...]:
        """Pulls of each arm, pending ones included."""
        return tuple(map(operator.add, self.known.pulls, self.open))


def posterior_means(problem: Problem, pending: PendingState) -> Floats:
    """Return the expected value of the next outcome of every arm, (arms,).

    Pending outcomes change it only for Markov arms; otherwise the mean is a martingale.
    """
    stats, means = pending.known.rows, np.empty(problem.n_arms)
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
    groups = problem.arm_groups
    base, factor = np.array(
        [[rewards[pending.stage] for rewards in group.played_rewards] for group in groups]
    ).T
    return np.asarray(base + factor * posterior_means(problem, pending))


def drawn_state(problem: Problem, pending: PendingState, rng: np.random.Generator | None) -> State:
    """Return the state with the pending outcomes drawn; without any, nothing is drawn."""
    stats = list(pending.known.rows)
    for arm, model in enumerate(kinds_of(problem)):
        if pending.open[arm]:
            _, later = _drawn_ahead(model, stats[arm], pending.open[arm], rng, 1)
            stats[arm] = tuple(later[0].tolist())
    return State.of_stats(problem, stats)


def _drawn_ahead(
    model: ArmModel, stats: Stats, count: int, rng: np.random.Generator | None, draws: int
) -> tuple[Floats, Floats]:
    """Draw the statistics of an arm after `count` more outcomes, with equal weights."""
    if rng is None:
        raise InvalidArgument("pending outcomes are drawn: pass a random generator as rng")
    before = np.array(stats, dtype=float)
    before = before if draws == 1 else np.tile(before, (draws, 1))
    later = model.sample_total(model.sample(before, rng), before, count, rng)
    return np.full(draws, 1.0 / draws), np.atleast_2d(later)


Ahead = tuple[list[tuple[State, float]], int]


def states_after_pending(
    policy: Policy, pending: PendingState, rng: np.random.Generator | None
) -> Ahead:
    """Return states after pending outcomes, with probabilities; and draws, 0 if they are all."""
    problem, limit = policy.problem, policy.most_ways
    arms, size = list[list[tuple[float, Stats]]](), 1
    rows = zip(kinds_of(problem), pending.known.rows, pending.open, strict=True)
    for model, stats, count in rows:
        ahead = ahead_of(model, stats, count, limit)
        size *= limit + 1 if ahead is None else len(ahead[0])
        if ahead is None or size > limit:
            drawn = Counter(drawn_state(problem, pending, rng) for _ in range(limit))
            return [(state, n / limit) for state, n in drawn.items()], limit
        arms.append(list(zip(ahead[0].tolist(), map(tuple, ahead[1].tolist()), strict=True)))
    return [
        (State.of_stats(problem, [stats for _, stats in joint]), math.prod(p for p, _ in joint))
        for joint in itertools.product(*arms)
    ], 0


def weighted_states(
    policy: Policy, pending: PendingState, rng: np.random.Generator
) -> tuple[States, Floats, int]:
    """Return `states_after_pending` as arrays; one drawn state for a randomised policy."""
    if policy.randomised:
        ways, draws = [(drawn_state(policy.problem, pending, rng), 1.0)], 0
    else:
        ways, draws = states_after_pending(policy, pending, rng)
    return *stacked(policy.problem, ways), draws


def stacked(problem: Problem, ways: Sequence[tuple[State, float]]) -> tuple[States, Floats]:
    """Return states and their probabilities as arrays."""
    states = States.of(problem, [state for state, _ in ways])
    return states, np.array([weight for _, weight in ways])


@dataclass(frozen=True)
class Decision:
    """Pulls at the next stage; numbers of every arm are averages over pending outcomes."""

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

    def by_name(self, problem: Problem) -> dict[str, int]:
        return {arm.name: n for arm, n in zip(problem.arms, self.pulls, strict=True) if n}

    @property
    def arm(self) -> int:
        """Position of the first arm that is pulled."""
        return next(arm for arm, n in enumerate(self.pulls) if n)


@dataclass(frozen=True)
class _Choice:
    arm: int
    values: Floats | None = None  # by arm; this arm has the largest. None: the arm was drawn
    quantity: str = "index"  # name of the values
    tied: Sequence[int] = ()  # arms with an equal value, this one included
    ties: TieRule = DEFAULT_TIES
    draws: int = 0  # of pending outcomes, where there were too many combinations


def _choice(
    policy: Policy, pending: PendingState, left: Sequence[int], rng: np.random.Generator | None
) -> _Choice:
    """Choose one of the arms that are left; the policy's rule breaks ties."""
    problem, stage, ties = policy.problem, pending.stage, policy.ties
    values, quantity, draws = None, "index", 0
    if policy.has_own_index:
        values, draws = _average_indices(policy, pending, rng)
    elif stage >= problem.horizon and (problem.repeat or policy.randomised):  # a deployment
        values = expected_rewards(problem, pending)
        quantity, ties = ("index", ties) if problem.repeat else ("expected reward", DEFAULT_TIES)
    elif not policy.randomised:
        states, draws = states_after_pending(policy, pending, rng)
        weighed = policy.weigh(stage, states, pending.taken)
        if weighed is not None and weighed.arm is not None:
            about = (weighed.values, weighed.what, weighed.tied)
            return _Choice(weighed.arm, *about, draws=draws)
        values = None if weighed is None else weighed.values
    if values is None:
        arms = policy.select(stage, drawn_state(problem, pending, rng), rng)
        return _Choice(next(arm for arm in arms if arm not in pending.taken))
    tied = tied_arms(values, tuple(left), tie_tolerance(problem))
    arm = break_tie(tied, pending.pulls, ties, rng)
    return _Choice(arm, values, quantity, tied.tolist(), ties, draws)


def _average_indices(
    policy: Policy, pending: PendingState, rng: np.random.Generator | None
) -> tuple[Floats, int]:
    """Average each arm's index over its pending outcomes; return the number of draws, too."""
    problem = policy.problem
    states = zip(problem.group_of_arm.tolist(), pending.known.rows, pending.open, strict=True)
    index, draws = np.empty(problem.n_arms), 0
    computed: dict[tuple[int, Stats, int], float] = {}  # once for equal arms in equal states
    for arm, state in enumerate(states):
        if state not in computed:
            group, stats, waiting = state
            model = problem.groups[group].model
            ahead = ahead_of(model, stats, waiting, MAX_STATES_AHEAD)
            if ahead is None:
                draws = policy.most_ways
                ahead = _drawn_ahead(model, stats, waiting, rng, draws)
            computed[state] = float(ahead[0] @ policy.indices_of(pending.stage, arm, ahead[1]))
        index[arm] = computed[state]
    return index, draws


def _left(problem: Problem, pending: PendingState) -> list[int]:
    able = np.flatnonzero(problem.available_at(pending.stage)).tolist()
    return [arm for arm in able if arm not in pending.taken]


def deployment(
    policy: Policy, pending: PendingState, *, rng: np.random.Generator | None = None
) -> tuple[int, ...]:
    """Choose the arms to deploy after all stages, the best first."""
    left, chosen = _left(policy.problem, pending), list[int]()
    while len(chosen) < policy.problem.deployed:
        chosen.append(_choice(policy, pending, left, rng).arm)
        left.remove(chosen[-1])
    return tuple(chosen)


def decide(
    policy: Policy,
    pending: PendingState,
    prices: Floats | None,
    *,
    rng: np.random.Generator | None = None,
    drawn: int | None = None,
) -> Decision:
    """Choose the arm to pull next; `drawn`: the arm, where it was drawn by its probability."""
    problem, stage = policy.problem, pending.stage
    left = _left(problem, pending)
    choice = _choice(policy, pending, left, rng) if drawn is None else _Choice(drawn)
    rewards = expected_rewards(problem, pending)
    played = float(problem.survival[stage])  # numbers are those of a stage that is
    values = None if choice.values is None else choice.values / played
    price = None if prices is None else float(prices[stage]) / played
    information = values - rewards if policy.splits_index and values is not None else None
    names = [arm.name for arm in problem.arms]
    if values is None:
        after = "" if drawn is not None else _after_draws(pending)
        reason = f"{names[choice.arm]}: drawn at random by {policy.name}{after}"
    else:
        terms = ""
        if information is not None:
            reward, gain = number(rewards[choice.arm]), number(information[choice.arm])
            terms = f"expected reward {reward} + value of information {gain} = "
        some = " of the arms left in this stage" * (len(left) < len(names))
        largest = f"{terms}{choice.quantity} {number(values[choice.arm])}, the largest{some}"
        reason = sentence(
            f"{names[choice.arm]}: {largest}",
            _tie_clause([names[arm] for arm in choice.tied if arm != choice.arm], choice.ties),
            average_clause(pending, choice.draws),
            f"the price is {number(price)}" if terms and price is not None else "",
        )
    return Decision(
        pulls=one_pull(problem, choice.arm),
        stage=stage,
        price=price,
        expected_reward=tuple(rewards.tolist()),
        index=None if values is None else tuple(values.tolist()),
        value_of_information=None if information is None else tuple(information.tolist()),
        reason=reason,
    )


def one_pull(problem: Problem, arm: int) -> tuple[int, ...]:
    """Return the pulls by arm of a single pull."""
    return tuple(int(k == arm) for k in range(problem.n_arms))


def beyond_plan(problem: Problem, pending: PendingState, allowed: Sequence[bool]) -> Decision:
    """Decide greedily for a visitor of a segment beyond those that its share made plausible."""
    rewards = expected_rewards(problem, replace(pending, stage=problem.horizon - 1))
    left, chosen = [k for k in range(problem.n_arms) if allowed[k]], list[int]()
    for _ in range(problem.pulls_per_stage):
        tied = tied_arms(rewards, tuple(left), tie_tolerance(problem))
        chosen.append(break_tie(tied, pending.pulls, DEFAULT_TIES))
        left.remove(chosen[-1])
    pulls, names = tuple(int(k in chosen) for k in range(problem.n_arms)), problem.arms
    terms = (f"{names[k].name}: expected reward {number(rewards[k])}, the largest" for k in chosen)
    reason = f"{' | '.join(terms)}; the segment has more visitors than its share made plausible"
    return Decision(pulls, pending.stage, None, tuple(rewards.tolist()), None, None, reason)


def allot(
    policy: Policy, pending: PendingState, prices: Floats | None, *, draws: Draws
) -> Decision:
    """Decide the next stage."""
    problem = policy.problem
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
        clause = f"drawn at random{_after_draws(pending)}"
    else:
        mean = weights @ policy.allocate_many(pending.stage, states, rng)
        units = whole_units(mean / problem.unit, problem.units)
        counts = tuple(problem.unit * n for n in units)
        clause = average_clause(pending, drawn)
    price = ""
    if prices is not None and policy.at_fixed_prices:
        price = f"the price is {number(float(prices[pending.stage]) / problem.unit)}"
    reason = sentence(batch_clause(problem, counts, policy.name), clause, price)
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
    index = index[:, 0] / float(problem.survival[stage])
    if not any(counts):
        choice = "no pull: no arm that the budget pays is worth its cost"
    elif problem.pulls_per_stage > 1:
        choice = batch_clause(problem, counts, policy.name)
    else:
        arm = counts.index(1)
        by = ", the largest per cost" if policy.per_cost else " after its cost, the largest"
        how = f"index {number(index[arm])}{by} that the budget pays"
        if policy.randomised:
            how = f"drawn at random by {policy.name}{_after_draws(pending)}"
        choice = f"{problem.arms[arm].name}: {how}"
    reason = sentence(
        choice,
        "" if policy.randomised else average_clause(pending, drawn),
        f"{number(float(left[0]))} left of the budget of {number(float(problem.budget or 0.0))}",
    )
    decision = batch_decision(problem, pending, prices, counts, reason)
    if problem.repeat or policy.randomised:
        return decision
    return replace(decision, index=tuple(index.tolist()))


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


def whole_units(mean: Floats, total: int) -> list[int]:
    """Round to integers that sum to `total`: the largest remainders are rounded up."""
    floor = np.floor(mean + 1e-9).astype(int)
    order = np.argsort(-np.round(mean - floor, 9), kind="stable")  # of equal ones the first
    floor[order[: total - int(floor.sum())]] += 1
    return [int(n) for n in floor]


# -- sentences ------------------------------------------------------------------------------------

MAX_NAMED_TIES = 3
MAX_NAMED_IN_BATCH = 5
TIE_CLAUSES: dict[TieRule, str] = {
    "least-pulled": "the least pulled is taken, then the first",
    "most-pulled": "the most pulled is taken, then the first",
    "first": "the first is taken",
    "last": "the last is taken",
    "random": "one of them is drawn at random",
}


def sentence(*clauses: str) -> str:
    """Join the clauses that are not empty."""
    return "; ".join(filter(None, clauses))


def number(value: float) -> str:
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


# -- the decisions of trials with the same settings: policy, tables and rules of the design ------
# Rules decide by the counts of a ledger and its looks alone, as replays need it.

MAX_DECISIONS = 1000  # remembered by the state that they are for
LOCK_SECONDS = 0.005  # that a transaction waits for another thread that asks the same policy
MAX_DECIDERS = 8  # the tables of one need up to hundreds of megabytes
MAX_LOOK_RESULTS = 100  # remembered by the states at the looks
# once tables exist, a decision of such a policy is as quick as writing an event
SHORT_DECISIONS: tuple[Cost, ...] = ("light", "tables")


class Decider:
    """Decisions of all trials with the same settings; seeds may differ."""

    def __init__(self, settings: TrialSettings, *, use_cones: bool = True) -> None:
        """`use_cones`: take DeCo's terms from `Cones`, not from the policy's own tables."""
        self.settings = settings
        prices, policy = settings.prices, settings.make_policy()
        problem = settings.problem
        served = prices is not None and problem.single_binary and problem.budget is None
        cones = Cones(problem, prices) if served else None  # type: ignore[arg-type]
        self.cones = cones  # None: no prices, prices of units, or non-binary outcomes
        self.tables = Once(lambda: cones or _tables(settings))
        self.policy = policy if cones is None or not use_cones else policy.live(cones)
        self.ruled = LiveRules(self.policy, settings.rules or Rules())
        self._prepared_from = math.inf  # tables are made backwards, from the last stage
        self._lock = RLock()  # policies fill their tables as they are asked
        self._decisions = Cache[Hashable, Decision](MAX_DECISIONS)  # by seed, state and looks

    @property
    def prepared(self) -> bool:
        """Whether decisions at some stages are short; `is_short` tells at which."""
        return self.policy.cost in SHORT_DECISIONS and self._prepared_from < math.inf

    def is_short(self, stage: int) -> bool:
        """Tell whether writers may wait for a decision: no search, and no table left to make."""
        prepared = self.prepared and stage >= self._prepared_from
        over = stage >= self.settings.problem.horizon
        return over or (prepared and self.policy.has_tables(stage))

    @contextmanager
    def at_once(self, stage: int) -> Iterator[bool]:
        """Hold the policy if no other thread does; yield whether a decision is short."""
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            yield False
            return
        try:
            yield self.is_short(stage)
        finally:
            self._lock.release()

    def decide(self, ledger: Ledger) -> Decision:
        """Decide the next stage by the ledger's counts and the seed of the stage alone."""
        seed, pending = ledger.settings.seed, pending_state(ledger)
        key = (seed, pending, ledger.looks)
        decision = self._decisions.get(key)
        if decision is None:
            with self._lock:
                try:
                    decision = self._decide(ledger, pending)
                    probability = self._probability(pending, decision)
                except TooLarge as error:  # the message hides the length of the trial
                    raise OutOfMemory(
                        "no decision can be made now: the tables of the policy need more memory "
                        "than there is"
                    ) from error
                decision = replace(decision, probability=probability)
                self._decisions.put(key, decision)
                self._prepared_from = min(self._prepared_from, ledger.stage)
        return decision

    def _decide(self, ledger: Ledger, pending: PendingState) -> Decision:
        prices, seed = self.settings.prices, [ledger.settings.seed, ledger.stage]

        def draws() -> np.random.Generator:
            return np.random.default_rng(seed)

        problem, result = self.settings.problem, self.ruled.result(ledger.looks)
        if result.stopped:
            what = "the trial" if ledger.segment is None else f"segment {ledger.segment}"
            raise Stopped(
                f"{what} was stopped by its rules ({result.stopped}) at the look after "
                f"{result.outcomes} outcomes: no more arms are allocated"
            )
        if pending.stage >= problem.horizon:  # of a segment
            return beyond_plan(problem, pending, result.allowed[0].tolist())
        if self.settings.rules is not None:
            return self.ruled.decide(result, pending, prices, draws)
        if isinstance(self.policy, ThompsonPolicy) and self.policy.has_probabilities:
            # single pulls are drawn so that a reader of the log can draw them again
            shares = self._best_probabilities(pending)
            arm = int((np.cumsum(shares[:-1]) <= uniform_number(*seed) * shares.sum()).sum())
            return decide(self.policy, pending, prices, drawn=arm)
        return allot(self.policy, pending, prices, draws=draws)

    def allowed(self, ledger: Ledger) -> frozenset[str]:
        """Return the arms that may be allocated now: none after the rules stopped the trial."""
        arms, result = self.settings.problem.arms, self.ruled.result(ledger.looks)
        left = () if result.stopped else np.flatnonzero(result.allowed[0])
        return frozenset(arms[k].name for k in left)

    def _best_probabilities(self, pending: PendingState) -> Floats:
        """Return the posterior probability of every arm to be best: that of draws, too."""
        states = States.of(self.policy.problem, [pending.known]).at(pending.stage)
        return np.asarray(self.policy.probabilities(pending.stage, states)[0])

    def _probability(self, pending: PendingState, decision: Decision) -> float | None:
        """Return the probability of the arm of a single pull; None where it is not computed."""
        if sum(decision.pulls) != 1 or self.settings.problem.is_restless:
            return None
        if decision.probabilities is not None:
            return decision.probabilities[decision.arm]
        policy, stage = self.policy, decision.stage
        if not policy.randomised and policy.ties != "random":
            return 1.0
        if policy.problem.budget is not None or stage >= policy.problem.horizon:
            return None
        if isinstance(policy, ThompsonPolicy) or not any(pending.open):
            return float(self._best_probabilities(pending)[decision.arm])
        ways, draws = states_after_pending(policy, pending, np.random.default_rng(0))
        if draws:
            return None
        states, weights = stacked(policy.problem, ways)
        return float(weights @ policy.probabilities(stage, states.at(stage))[:, decision.arm])

    def deployment(self, ledger: Ledger) -> tuple[int, ...]:
        rng = np.random.default_rng([ledger.settings.seed, ledger.stage])
        # money may be spent before the last stage
        pending = replace(pending_state(ledger), stage=ledger.problem.horizon)
        with self._lock:
            return deployment(self.policy, pending, rng=rng)

    def value_of_deployment(self, pending: PendingState) -> float:
        """Return the value of deploying the best arm after all outcomes; 0 without a deployment."""
        problem = self.settings.problem
        if problem.terminal is None:  # tables of last rewards, if any
            groups = [problem.groups[k].terminal for k in problem.group_of_arm]
            arms = zip(groups, pending.known.good, pending.known.bad, strict=True)
            return sum(
                float(table[slab_size(good + bad - 1) + good])
                for table, good, bad in arms
                if table is not None and good + bad <= problem.most_pulls
            )
        means = np.sort(posterior_means(problem, pending))
        return problem.terminal.deploy * float(means[-problem.deployed :].sum())

    def value_of_arms(self, pending: PendingState) -> float | None:
        """Sum V over the arms from now on, averaged over pending outcomes; None without tables."""
        problem = self.settings.problem
        tables, stats = self.tables(), pending.known.rows
        if tables is None:
            return None
        total = 0.0
        for arm, model in enumerate(kinds_of(problem)):
            ahead = ahead_of(model, stats[arm], pending.open[arm], MAX_STATES_AHEAD)
            if ahead is None:
                return None
            group = int(problem.group_of_arm[arm])
            total += float(ahead[0] @ tables.values_of(pending.stage, group, ahead[1]))
        return total


def _tables(settings: TrialSettings) -> OneArmValues | None:
    """Return the values at the trial's prices; None without prices or memory for batches."""
    solution, problem = settings.solution, settings.problem
    if solution is None:
        return None
    try:
        grid = solution.grid if problem.repeat else None
        return OneArmValues(solution.priced, solution.prices, grid=grid)
    except ValueError:
        if not problem.repeat:
            raise
        return None


def pending_state(ledger: Ledger) -> PendingState:
    """Return the state for the next ask; lost pulls count as pending: they have used a stage."""
    waiting = tuple(map(sum, zip(ledger.open, ledger.lost, strict=True)))
    return PendingState(ledger.known, waiting, ledger.stage, spent=ledger.spent)


def uniform_number(seed: int, stage: int) -> float:
    """Return the number in [0, 1) that draws the arm of a stage: the first 53 bits of a SHA-256."""
    return (int(sha256(f"{seed} {stage}".encode()).hexdigest()[:14], 16) >> 3) / 2.0**53


def decision_record(decision: Decision, ledger: Ledger) -> dict[str, Any]:
    """Return the inputs and the numbers of a decision, as the event of an ask keeps them."""
    pending, settings = pending_state(ledger), ledger.settings
    known = pending.known
    pairs = zip(known.models, known.texts, strict=True)
    texts = [None if model.counts_good else text for model, text in pairs]
    numbers = {
        name: None if values is None else list(values)
        for name in ("value_of_information", "index", "probabilities")
        for values in [getattr(decision, name)]
    }
    return {
        "stage": decision.stage,
        **({} if settings.problem.budget is None else {"spent": pending.spent}),
        "state": {
            "good": list(known.good),
            "bad": list(known.bad),
            "open": list(pending.open),
            "seen": texts if any(texts) else [],
        },
        "policy": settings.policy,
        "multipliers_hash": settings.multipliers_hash,
        "seed": settings.seed,
        "price": decision.price,
        "expected_reward": list(decision.expected_reward),
        **numbers,
        "probability": decision.probability,
        "environment": code_environment(),
    }


_DECIDERS = Cache[str, Decider](MAX_DECIDERS)  # by the hash of their tables


def decider_of(settings: TrialSettings) -> Decider:
    """Return the decider of these settings, made when it is first needed."""
    if settings.decider is None:
        decider = _DECIDERS.get_or_make(settings.tables_hash, lambda: Decider(settings))
        object.__setattr__(settings, "decider", decider)
    known: Decider = settings.decider
    return known


@dataclass(frozen=True)
class LookState:
    """Result of all interim looks so far."""

    allowed: Allowed  # (1, arms) not dropped
    declared: Allowed  # (1, arms) better than control, or best
    reason: int = 0  # to stop: code of REASONS; 0: the trial continues
    outcomes: int = 0  # recorded at the look that stopped the trial

    @property
    def stopped(self) -> str | None:
        """Reason to stop; None if the trial continues."""
        return REASONS[self.reason] or None


class LiveRules(RuledPolicy):
    """Rules of trials with the same settings; remembers the results of looks."""

    def __init__(self, policy: Policy, rules: Rules) -> None:
        super().__init__(policy, rules)
        self._results = Cache[tuple[State, ...], LookState](MAX_LOOK_RESULTS)

    def result(self, looks: tuple[State, ...]) -> LookState:
        """Return the result of all looks; a stopped trial stays as it is."""
        begin = next((n for n in (len(looks), len(looks) - 1) if looks[:n] in self._results), 0)
        result = self._results.get(looks[:begin])
        if result is None:  # no arm is dropped or declared
            every = np.ones((1, self.problem.n_arms), np.bool_)
            result = LookState(every, np.zeros_like(every))
        for state in looks[begin:]:
            if result.reason:
                break
            verdict = self.look(replace(States.of(self.problem, [state]), allowed=result.allowed))
            about = (verdict.allowed, verdict.declared, int(verdict.reason[0]))
            result = LookState(*about, state.total)
        self._results.put(looks, result)
        return result

    def dropped(self, result: LookState) -> tuple[str, ...]:
        arms = zip(self.problem.arms, result.allowed[0], strict=True)
        return tuple(arm.name for arm, left in arms if not left)

    def decide(
        self, result: LookState, pending: PendingState, prices: Floats | None, draws: Draws
    ) -> Decision:
        """Decide the next stage under the rules."""
        problem = self.problem
        if not problem.repeat:
            return one_by_one(
                lambda state: self._decide_one(result, state, prices, draws()), problem, pending
            )
        now = self._states(result, pending)
        if self.unruled(now)[0]:
            return allot(self.inner, pending, prices, draws=draws)
        rng = draws()
        states, weights, drawn = weighted_states(self.inner, pending, rng)
        allowed = np.repeat(result.allowed, len(weights), axis=0)
        by_state = self.probabilities(pending.stage, replace(states, allowed=allowed), rng)
        shares = weights @ by_state
        counts = tuple(self.in_units(shares[None], rng)[0].tolist())
        reason = sentence(
            batch_clause(problem, counts, self.name),
            self._clause(result, now, shares),
            average_clause(pending, drawn),
        )
        return batch_decision(problem, pending, prices, counts, reason, tuple(shares.tolist()))

    def _states(self, result: LookState, pending: PendingState) -> States:
        """Return the recorded outcomes with pending pulls and the arms not dropped."""
        states = States.of(self.problem, [pending.known])
        return replace(states, pending=np.array([pending.open]), allowed=result.allowed)

    def _decide_one(
        self,
        result: LookState,
        pending: PendingState,
        prices: Floats | None,
        rng: np.random.Generator,
    ) -> Decision:
        states = self._states(result, pending)
        decision = decide(self.inner, pending, prices, rng=rng)
        if self.unruled(states)[0]:
            return decision
        try:
            probabilities = self.probabilities(pending.stage, states, rng)
        except ValueError:  # its message has the number of pending outcomes
            rule = "too many outcomes of one arm are pending; record some first"
            raise Conflict(f"no arm can be allocated now: {rule}") from None
        probabilities[:, list(pending.taken)] = 0.0
        arm = int(drawn_arms(probabilities, 1, rng).argmax())
        clause = self._clause(result, states, probabilities[0])
        reason = f"{self.problem.arms[arm].name}: {clause}"
        pulls, shares = one_pull(self.problem, arm), tuple(probabilities[0].tolist())
        return replace(decision, pulls=pulls, reason=reason, probabilities=shares)

    def _clause(self, result: LookState, states: States, probabilities: Floats) -> str:
        """Name the rule that applied: the burn-in, or shares changed by the rules."""
        if self.settled(states).any():
            if self.rules.block is not None:
                return "drawn in a permuted block"
            return f"burn-in, {self.rules.burn_in} pulls of every arm first"
        arms = zip(self.problem.arms, probabilities, strict=True)
        shares = ", ".join(f"{arm.name} {p:.3f}" for arm, p in arms)
        dropped = self.dropped(result)
        more = f"; dropped: {', '.join(dropped)}" if dropped else ""
        return f"drawn by {self.name} and the rules ({shares}){more}"


@record_class()
class LookResult:
    """Result of an interim look."""

    outcomes: int = doc("Recorded outcomes at the look.")
    probabilities: dict[str, float] = doc(
        "P(better than control by the margin) of every arm but control and those that were dropped "
        "before; without a control arm P(best)."
    )
    dropped: tuple[str, ...] = doc("Arms that this look dropped.")
    stopped: str | None = doc("Why this look stopped the trial.")


def stopped_and_dropped(ledger: Ledger) -> tuple[str | None, tuple[str, ...]]:
    """Return why looks stopped the trial, and the arms they dropped."""
    ruled = decider_of(ledger.settings).ruled
    result = ruled.result(ledger.looks)
    return result.stopped, ruled.dropped(result)


def look_results(ledger: Ledger) -> tuple[LookResult, ...]:
    """Return all looks in order, up to the one that stopped the trial; none without stopping."""
    ruled = decider_of(ledger.settings).ruled
    if not ruled.rules.stop.any:
        return ()
    results, names = [], [arm.name for arm in ledger.problem.arms]
    before = ruled.result(())
    for number, state in enumerate(ledger.looks, start=1):
        after = ruled.result(ledger.looks[:number])
        states = replace(States.of(ledger.problem, [state]), allowed=before.allowed)
        (statistic,) = ruled.statistic(states)
        compared = before.allowed[0].copy()
        if ruled.control is not None:
            compared[ruled.control] = False
        shares = {names[k]: float(statistic[k]) for k in np.flatnonzero(compared)}
        gone = ruled.dropped(before)
        dropped = tuple(name for name in ruled.dropped(after) if name not in gone)
        results.append(LookResult(state.total, shares, dropped, after.stopped))
        if after.reason:
            break
        before = after
    return tuple(results)


def _concurrent_controls(ledger: Ledger, ruled: RuledPolicy) -> Floats | None:
    """Return statistics of control at stages at which each arm is available, (1, arms, W)."""
    problem, control = ledger.problem, ruled.control
    if ruled.rules.controls == "all" or control is None or not problem.has_windows:
        return None
    parts = parts_by_arm(ledger.allocations.values()).get(problem.arms[control].name, [])
    kind, stats = kinds_of(problem)[control], States.of(problem, [ledger.known]).stats[0]
    controls = np.zeros_like(stats)
    for k in range(problem.n_arms):
        there = [(slot, part) for slot, part in parts if problem.available[slot.stage, k]]
        controls[k, : kind.width] = known_of(kind, there)
    return np.asarray(controls[None])


def declared_arms(ledger: Ledger) -> tuple[str, ...] | None:
    """Return the arms that the final test declares, as in `designs`; None before the end."""
    if ledger.settings.rules is None:
        return None
    live = decider_of(ledger.settings).ruled
    ruled: RuledPolicy = live
    result = live.result(ledger.looks)
    if sum(ledger.open) or not (ledger.finished or result.reason):
        return None
    if ruled.rules.final_test.kind in EXACT_TESTS:  # follows all states: by tables of its own
        ruled = RuledPolicy(ledger.settings.make_policy(), ruled.rules)
    states = States.of(ledger.problem, [ledger.known])
    ending = Endings(
        pulls=states.pulls,
        stats=states.stats,
        allowed=result.allowed,
        declared=result.declared,
        reason=np.array([result.reason], np.int8),
        weight=np.ones(1),
        controls=_concurrent_controls(ledger, ruled),
    )
    declared = final_test(ruled, ruled.rules.final_test, ending).declared[0]
    return tuple(ledger.problem.arms[k].name for k in np.flatnonzero(declared))
