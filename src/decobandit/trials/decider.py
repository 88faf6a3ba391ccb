"""Makes the decisions of trials: their policy and its tables, kept between requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from ..arm import Cones, OneArmValues
from ..policies import Cost
from ..problem.kernels.layout import slab_size
from ..support import Cache, Once, TooLargeError
from .allotments import Allotment, allot
from .decisions import Decision, decide, deployment
from .errors import OutOfMemory
from .kind_records import kinds_of, written
from .ledger import Ledger
from .pending import MOST_AHEAD, PendingState, posterior_means
from .ruled_decisions import LiveRules, allot_by_rules, decide_by_rules
from .settings import TrialSettings

D = TypeVar("D")
MAX_DECIDED = 1000  # decisions that are remembered by the state that they are for
LOCK_SECONDS = 0.005  # that a transaction waits for another thread that asks the same policy
MAX_DECIDERS = 8  # the tables of one take up to hundreds of megabytes
# of a policy whose tables are there, a decision takes no longer than the write of an event
SHORT_DECISIONS: tuple[Cost, ...] = ("light", "tables")


class Decider:
    """Decides for all trials with the same settings; seeds may differ."""

    def __init__(self, settings: TrialSettings, *, use_cones: bool = True) -> None:
        """`use_cones`: DeCo's terms come from `Cones`; otherwise from the policy's own tables."""
        self.settings = settings
        prices, policy = settings.prices, settings.make_policy()
        problem = settings.problem
        served = prices is not None and not problem.repeat and problem.is_binary
        cones = Cones(problem, prices) if served else None  # type: ignore[arg-type]
        self.cones = cones  # None: no prices, those of units, or other outcomes than good or bad
        self.tables = Once(lambda: cones or _tables(settings))
        self.policy = policy if cones is None or not use_cones else policy.live(cones)
        rules = settings.rules
        self.ruled = None if rules is None else LiveRules(self.policy, rules)
        self._prepared_from = math.inf  # tables are made backwards, from the last stage
        self._lock = RLock()  # policies fill their tables as they are asked
        self._decided = Cache[Hashable, Decision](MAX_DECIDED)  # by seed, state and looks
        self._allotted = Cache[Hashable, Allotment](MAX_DECIDED)

    @property
    def cost(self) -> Cost:
        """What the policy says of the time that its decisions take."""
        return self.policy.cost

    @property
    def prepared(self) -> bool:
        """Whether decisions at some stages are short; `is_short` tells at which."""
        return self.cost in SHORT_DECISIONS and self._prepared_from < math.inf

    def is_short(self, stage: int) -> bool:
        """Whether other writers may wait for a decision: no search, and no table left to make."""
        prepared = self.cost in SHORT_DECISIONS and stage >= self._prepared_from
        return prepared and self.policy.has_tables(stage)

    @contextmanager
    def at_once(self, stage: int) -> Iterator[bool]:
        """Whether a decision is short and no other thread holds the policy; it is held then."""
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            yield False
            return
        try:
            yield self.is_short(stage)
        finally:
            self._lock.release()

    def decide(self, ledger: Ledger) -> Decision:
        """The next arm; depends on the ledger's counts alone, and on the seed.

        Draws are those of the stage: pulls of one stage come from one draw, and whoever cancels an
        allocation and asks again gets the same arm.
        """
        pending, prices = pending_state(ledger), self.settings.prices

        def make() -> Decision:
            rng = np.random.default_rng([ledger.settings.seed, ledger.stage])
            if self.ruled is None:
                return decide(self.policy, pending, prices, rng=rng)
            return decide_by_rules(self.ruled, ledger, pending, prices, rng)

        return self._kept(self._decided, ledger, pending, make)

    def allot(self, ledger: Ledger) -> Allotment:
        """The whole next stage; depends on the ledger's counts alone, and on the seed."""
        seed = [ledger.settings.seed, ledger.stage]
        pending, prices = pending_state(ledger), self.settings.prices

        def draws() -> np.random.Generator:
            return np.random.default_rng(seed)

        def make() -> Allotment:
            if self.ruled is None:
                return allot(self.policy, pending, prices, draws=draws)
            return allot_by_rules(self.ruled, ledger, pending, prices, draws)

        return self._kept(self._allotted, ledger, pending, make)

    def _kept(
        self, kept: Cache[Hashable, D], ledger: Ledger, pending: PendingState, make: Callable[[], D]
    ) -> D:
        """The decision in a state, made unless it was before."""
        key = (ledger.settings.seed, pending, ledger.looks)
        decision = kept.get(key)
        if decision is None:
            with self._lock, _memory():
                decision = make()
                kept.put(key, decision)
                self._prepared_from = min(self._prepared_from, ledger.stage)
        return decision

    def deployment(self, ledger: Ledger) -> int:
        """The arm to deploy, when all slots have outcomes."""
        rng = np.random.default_rng([ledger.settings.seed, ledger.stage])
        with self._lock:
            return deployment(self.policy, pending_state(ledger), rng=rng)

    def value_of_deployment(self, pending: PendingState) -> float:
        """Value of deploying the best arm after all outcomes; 0 without a deployment."""
        problem = self.settings.problem
        if problem.terminal is None:  # tables of last rewards, if any
            groups = [problem.groups[k].terminal for k in problem.group_of_arm]
            own = zip(groups, pending.good, pending.bad, strict=True)
            return sum(
                float(table[slab_size(good + bad - 1) + good])
                for table, good, bad in own
                if table is not None and good + bad <= problem.most_pulls
            )
        return problem.terminal.deploy * float(posterior_means(problem, pending).max())

    def value_of_arms(self, pending: PendingState) -> float | None:
        """Sum over the arms of V from the stage under way on, averaged over pending outcomes.

        None where there are no prices, or tables of batches would take too much memory. An arm with
        more pulls than stages waits until there have been as many.
        """
        problem = self.settings.problem
        tables, stats = self.tables(), pending.stats
        if tables is None:
            return None
        total = 0.0
        for arm, kind in enumerate(kinds_of(problem)):
            ahead = kind.ahead(stats[arm], pending.open[arm], MOST_AHEAD)
            if ahead is None:
                return None
            group, most = int(problem.group_of_arm[arm]), problem.most_pulls
            stage = pending.stage if problem.repeat else max(pending.stage, pending.pulls[arm])
            if pending.pulls[arm] <= (most if problem.repeat else problem.stages):
                # more pulls than stages: cancellations of others gave it more than its share
                total += float(ahead[0] @ tables.values_of(stage, group, ahead[1]))
        return total


@contextmanager
def _memory() -> Iterator[None]:
    """Tables that were small enough when the trial was made may not be any more."""
    try:
        yield
    except TooLargeError as error:  # its text tells blinded people how long the trial is
        raise OutOfMemory(
            "no decision can be made now: the tables of the policy need more memory than there is"
        ) from error


def _tables(settings: TrialSettings) -> OneArmValues | None:
    """At the prices of the solution; None where there are none, or more memory than there is."""
    solution, problem = settings.solution, settings.problem
    if solution is None:
        return None
    grid = solution.grid if problem.repeat else None
    try:
        return OneArmValues(problem, solution.prices, grid=grid)
    except ValueError:
        if not problem.repeat:
            raise
        return None


def pending_state(ledger: Ledger) -> PendingState:
    """What is known for the next ask.

    Pulls of one stage are decided on the same knowledge: those of the stage under way are left out.
    Lost pulls of batches are pending for ever: they have used their stage.
    """
    good, bad = list(ledger.good), list(ledger.bad)
    waiting = [open_ + lost for open_, lost in zip(ledger.open, ledger.lost, strict=True)]
    under_way, taken = ledger.under_way(), []
    for slot in under_way:
        arm = ledger.position(slot.arm)
        taken.append(arm)
        if slot.state == "open":
            waiting[arm] -= 1
        elif ledger.kind(slot.arm).counts_good:
            (good if slot.outcome else bad)[arm] -= 1
    others = ledger.others(under_way)
    return PendingState(tuple(good), tuple(bad), tuple(waiting), ledger.stage, tuple(taken), others)


def decision_record(
    decision: Decision | Allotment, pending: PendingState, settings: TrialSettings
) -> dict[str, Any]:
    """What the event of an ask keeps of a decision: all it was made from, and all that came out."""
    return {
        "stage": decision.stage,
        "state": {
            "good": list(pending.good),
            "bad": list(pending.bad),
            "open": list(pending.open),
            "taken": list(pending.taken),
            **({"seen": written(pending.others)} if pending.others else {}),
        },
        "policy": settings.policy,
        "multipliers_hash": settings.multipliers_hash,
        "seed": settings.seed,
        "price": decision.price,
        "expected_reward": list(decision.expected_reward),
        "value_of_information": _listed(decision.value_of_information),
        "index": _listed(decision.index),
    }


def _listed(values: tuple[float, ...] | None) -> list[float] | None:
    return None if values is None else list(values)


_DECIDERS = Cache[str, Decider](MAX_DECIDERS)  # by the hash of their tables


def decider_of(settings: TrialSettings) -> Decider:
    """The decider of these settings, made when it is first needed."""
    return _DECIDERS.get_or_make(settings.tables_hash, lambda: Decider(settings))
