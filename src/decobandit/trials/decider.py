"""The decisions of trials: the policy, its tables and the rules of the design.

Rules decide by the counts of a ledger and its looks alone, as replays need it. Sentences name no
outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import RLock
from typing import Any

import numpy as np

from ..arm import Cones, OneArmValues
from ..designs.final_tests import final_test
from ..designs.playing import Endings
from ..policies import REASONS, Cost, Policy, RuledPolicy, ThompsonPolicy
from ..policies.allocation import Allowed, drawn_arms
from ..problem import EXACT_TESTS, Rules, State, States, ahead_of
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, Once, TooLarge, code_environment
from ..support.records import doc, record_class
from .allocations import kinds_of, known_of, parts_by_arm
from .decisions import (
    MAX_STATES_AHEAD,
    Decision,
    PendingState,
    allot,
    average_clause,
    batch_clause,
    batch_decision,
    beyond_plan,
    decide,
    deployment,
    one_by_one,
    one_pull,
    posterior_means,
    sentence,
    states_after_pending,
    weighted_states,
)
from .errors import Conflict, OutOfMemory, Stopped
from .ledger import Ledger
from .settings import TrialSettings

MAX_DECISIONS = 1000  # remembered by the state that they are for
LOCK_SECONDS = 0.005  # that a transaction waits for another thread that asks the same policy
MAX_DECIDERS = 8  # the tables of one need up to hundreds of megabytes
MAX_LOOK_RESULTS = 100  # remembered by the states at the looks
# once tables exist, a decision of such a policy is as quick as writing an event
SHORT_DECISIONS: tuple[Cost, ...] = ("light", "tables")
Draws = Callable[[], np.random.Generator]


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
        if stage >= self.settings.problem.horizon:
            return True
        prepared = self.prepared and stage >= self._prepared_from
        return prepared and self.policy.has_tables(stage)

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
        """Decide the next stage, by the ledger's counts and the seed alone.

        The random numbers belong to the stage: cancelling an allocation and asking again repeats
        the decision.
        """
        seed, pending = ledger.settings.seed, pending_state(ledger)
        key = (seed, pending, ledger.looks)
        decision = self._decisions.get(key)
        if decision is None:
            with self._lock, _memory():
                decision = self._decide(ledger, pending)
                probability = self._probability(pending, decision)
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
        if self._draws_by_probability:
            shares = self._best_probabilities(pending)
            arm = int((np.cumsum(shares[:-1]) <= uniform_number(*seed) * shares.sum()).sum())
            return decide(self.policy, pending, prices, drawn=arm)
        return allot(self.policy, pending, prices, draws=draws)

    def allowed(self, ledger: Ledger) -> frozenset[str]:
        """Return the arms that may be allocated now: none after the rules stopped the trial."""
        arms, result = self.settings.problem.arms, self.ruled.result(ledger.looks)
        left = () if result.stopped else np.flatnonzero(result.allowed[0])
        return frozenset(arms[k].name for k in left)

    @property
    def _draws_by_probability(self) -> bool:
        """Whether single pulls are drawn so that a reader of the log can draw them again."""
        return isinstance(self.policy, ThompsonPolicy) and self.policy.has_probabilities

    def _best_probabilities(self, pending: PendingState) -> Floats:
        """Return the probability of every arm to be best, given the recorded outcomes.

        Draws after pending outcomes, themselves drawn, are draws from the posterior of now.
        """
        states = States.of(self.policy.problem, [pending.known]).at(pending.stage)
        return np.asarray(self.policy.probabilities(pending.stage, states)[0])

    def _probability(self, pending: PendingState, decision: Decision) -> float | None:
        """Return the probability of the arm of a single pull, given the recorded outcomes.

        None for other numbers of pulls, and where a policy draws by more pending outcomes than it
        averages over.
        """
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
        ways, drawn = states_after_pending(
            policy.problem, pending, np.random.default_rng(0), policy.most_ways
        )
        if drawn:
            return None
        states = States.of(policy.problem, [state for state, _ in ways]).at(stage)
        by_state = policy.probabilities(stage, states)[:, decision.arm]
        return float(by_state @ np.array([weight for _, weight in ways]))

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
        """Sum V over the arms from the stage under way on, averaged over pending outcomes.

        None without prices, or where tables of batches would need too much memory.
        """
        problem = self.settings.problem
        tables, stats = self.tables(), pending.stats
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


@contextmanager
def _memory() -> Iterator[None]:
    """Refuse a decision whose tables no longer fit; the message hides the length of the trial."""
    try:
        yield
    except TooLarge as error:
        raise OutOfMemory(
            "no decision can be made now: the tables of the policy need more memory than there is"
        ) from error


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

    def numbers(values: tuple[float, ...] | None) -> list[float] | None:
        return None if values is None else list(values)

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
        "value_of_information": numbers(decision.value_of_information),
        "index": numbers(decision.index),
        "probabilities": numbers(decision.probabilities),
        "probability": decision.probability,
        "environment": code_environment(),
    }


_DECIDERS = Cache[str, Decider](MAX_DECIDERS)  # by the hash of their tables


def decider_of(settings: TrialSettings) -> Decider:
    """Return the decider of these settings, made when it is first needed."""
    return _DECIDERS.get_or_make(settings.tables_hash, lambda: Decider(settings))


@dataclass(frozen=True)
class LookState:
    """Result of all interim looks so far."""

    allowed: Allowed  # (1, arms) not dropped
    declared: Allowed  # (1, arms) better than control, or best
    reason: int = 0  # to stop: code of REASONS; 0: the trial continues
    outcomes: int = 0  # recorded at the look that stopped the trial

    @property
    def stopped(self) -> str:
        """Reason to stop; empty if the trial continues."""
        return REASONS[self.reason]


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
        for state in looks[begin:] if not result.reason else ():
            verdict = self.look(replace(States.of(self.problem, [state]), allowed=result.allowed))
            if reason := int(verdict.reason[0]):
                result = LookState(verdict.allowed, verdict.declared, reason, state.total)
                break
            result = LookState(verdict.allowed, verdict.declared)
        self._results.put(looks, result)
        return result

    def dropped(self, result: LookState) -> tuple[str, ...]:
        arms = zip(self.problem.arms, result.allowed[0], strict=True)
        return tuple(arm.name for arm, left in arms if not left)

    def states(self, result: LookState, pending: PendingState) -> States:
        """Return the recorded outcomes with pending pulls and the arms not dropped."""
        states = States.of(self.problem, [pending.known])
        return replace(states, pending=np.array([pending.open]), allowed=result.allowed)

    def decide(
        self, result: LookState, pending: PendingState, prices: Floats | None, draws: Draws
    ) -> Decision:
        """Decide the next stage under the rules."""
        problem = self.problem
        pending.check(problem)
        if not problem.repeat:
            return one_by_one(
                lambda state: self._decide_one(result, state, prices, draws()), problem, pending
            )
        if self.unruled(self.states(result, pending))[0]:
            return allot(self.inner, pending, prices, draws=draws)
        rng = draws()
        states, weights, drawn = weighted_states(self.inner, pending, rng)
        allowed = np.repeat(result.allowed, len(weights), axis=0)
        by_state = self.probabilities(pending.stage, replace(states, allowed=allowed), rng)
        probabilities = (weights @ by_state)[None]
        counts = tuple(self.in_units(probabilities, rng)[0].tolist())
        reason = sentence(
            batch_clause(problem, counts, self.name),
            self._clause(result, pending, probabilities[0]),
            average_clause(pending, drawn),
        )
        shares = tuple(probabilities[0].tolist())
        return batch_decision(problem, pending, prices, counts, reason, shares)

    def _decide_one(
        self,
        result: LookState,
        pending: PendingState,
        prices: Floats | None,
        rng: np.random.Generator,
    ) -> Decision:
        states = self.states(result, pending)
        decision = decide(self.inner, pending, prices, rng=rng)
        if self.unruled(states)[0]:
            return decision
        try:
            probabilities = self.probabilities(pending.stage, states, rng)
        except ValueError:  # its message has the number of pending outcomes
            raise Conflict(
                "no arm can be allocated now: too many outcomes of one are pending; record some "
                "first"
            ) from None
        probabilities[:, list(pending.taken)] = 0.0
        arm = int(drawn_arms(probabilities, 1, rng).argmax())
        clause = self._clause(result, pending, probabilities[0])
        reason = f"{self.problem.arms[arm].name}: {clause}"
        pulls, shares = one_pull(self.problem, arm), tuple(probabilities[0].tolist())
        return replace(decision, pulls=pulls, reason=reason, probabilities=shares)

    def _clause(self, result: LookState, pending: PendingState, probabilities: Floats) -> str:
        """Name the rule that applied: the burn-in, or shares changed by the rules."""
        if self.settled(self.states(result, pending)).any():
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


def stopped_and_dropped(ledger: Ledger, ruled: LiveRules) -> tuple[str | None, tuple[str, ...]]:
    """Return why looks stopped the trial, and the arms they dropped."""
    result = ruled.result(ledger.looks)
    return result.stopped or None, ruled.dropped(result)


def look_results(ledger: Ledger, ruled: LiveRules) -> tuple[LookResult, ...]:
    """Return all looks in order, up to the one that stopped the trial; none without stopping."""
    if not ruled.rules.stop.any:
        return ()
    results, names = [], [arm.name for arm in ledger.problem.arms]
    for number, state in enumerate(ledger.looks):
        before, after = (ruled.result(ledger.looks[:n]) for n in (number, number + 1))
        states = States.of(ledger.problem, [state])
        (statistic,) = ruled.statistic(replace(states, allowed=before.allowed))
        compared = before.allowed[0].copy()
        if ruled.control is not None:
            compared[ruled.control] = False
        gone = ruled.dropped(before)
        results.append(
            LookResult(
                state.total,
                {names[k]: float(statistic[k]) for k in np.flatnonzero(compared)},
                tuple(name for name in ruled.dropped(after) if name not in gone),
                after.stopped or None,
            )
        )
        if after.reason:
            break
    return tuple(results)


def _concurrent_controls(ledger: Ledger, live: LiveRules) -> Floats | None:
    """Return statistics of control at stages at which each arm is available, (1, arms, W)."""
    problem, control = ledger.problem, live.control
    if live.rules.controls == "all" or control is None or not problem.has_windows:
        return None
    parts = parts_by_arm(ledger.allocations.values()).get(problem.arms[control].name, [])
    kind, stats = kinds_of(problem)[control], States.of(problem, [ledger.known]).stats[0]
    controls = np.zeros_like(stats)
    for k in range(problem.n_arms):
        there = [(slot, part) for slot, part in parts if problem.available[slot.stage, k]]
        controls[k, : kind.width] = known_of(kind, there)
    return np.asarray(controls[None])


def declared_arms(ledger: Ledger, live: LiveRules) -> tuple[str, ...] | None:
    """Return the arms that the final test declares, as in `designs`; None before the end."""
    if ledger.settings.rules is None:
        return None
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
        controls=_concurrent_controls(ledger, live),
    )
    declared = final_test(ruled, ruled.rules.final_test, ending).declared[0]
    return tuple(ledger.problem.arms[k].name for k in np.flatnonzero(declared))
