"""Makes the decisions of trials: their policy and its tables, kept between requests."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np

from ..arm import Cones, OneArmValues
from ..policies import Cost
from ..problem import ahead_of
from ..problem.kernels.layout import slab_size
from ..support import Cache, Once, TooLarge
from .allocations import kinds_of
from .decisions import Decision, allot, deployment
from .errors import OutOfMemory
from .ledger import Ledger
from .pending import MOST_AHEAD, PendingState, posterior_means
from .rules import LiveRules, decide_by_rules
from .settings import TrialSettings

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
        """The next stage; depends on the ledger's counts alone, and on the seed.

        Draws are those of the stage: whoever cancels an allocation and asks again gets the same.
        """
        seed, pending = ledger.settings.seed, pending_state(ledger)
        key = (seed, pending, ledger.looks)
        decision = self._decided.get(key)
        if decision is None:
            with self._lock, _memory():
                decision = self._decide(ledger, pending)
                self._decided.put(key, decision)
                self._prepared_from = min(self._prepared_from, ledger.stage)
        return decision

    def _decide(self, ledger: Ledger, pending: PendingState) -> Decision:
        prices = self.settings.prices

        def draws() -> np.random.Generator:
            return np.random.default_rng([ledger.settings.seed, ledger.stage])

        if self.ruled is None:
            return allot(self.policy, pending, prices, draws=draws)
        return decide_by_rules(self.ruled, ledger, pending, prices, draws)

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

        None where there are no prices, or tables of batches would take too much memory.
        """
        problem = self.settings.problem
        tables, stats = self.tables(), pending.stats
        if tables is None:
            return None
        total = 0.0
        for arm, kind in enumerate(kinds_of(problem)):
            ahead = ahead_of(kind, stats[arm], pending.open[arm], MOST_AHEAD)
            if ahead is None:
                return None
            group = int(problem.group_of_arm[arm])
            total += float(ahead[0] @ tables.values_of(pending.stage, group, ahead[1]))
        return total


@contextmanager
def _memory() -> Iterator[None]:
    """Tables that were small enough when the trial was made may not be any more."""
    try:
        yield
    except TooLarge as error:  # its text tells blinded people how long the trial is
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

    Lost pulls are pending for ever: they have used their stage.
    """
    waiting = tuple(map(sum, zip(ledger.open, ledger.lost, strict=True)))
    known = (tuple(ledger.good), tuple(ledger.bad), waiting, ledger.stage)
    return PendingState(*known, others=ledger.others())


def decision_record(
    decision: Decision, pending: PendingState, settings: TrialSettings
) -> dict[str, Any]:
    """What the event of an ask keeps of a decision: all it was made from, and all that came out."""
    return {
        "stage": decision.stage,
        "state": {
            "good": list(pending.good),
            "bad": list(pending.bad),
            "open": list(pending.open),
            "seen": [None if other is None else other.text for other in pending.others],
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
