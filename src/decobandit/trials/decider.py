"""Makes the decisions of trials: their policy and its tables, kept between requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from ..arm import Cones
from ..policies import Cost
from ..support import Cache, TooLargeError
from .decisions import Decision, decide, deployment
from .errors import OutOfMemory
from .ledger import Ledger
from .pending import PendingState, pending_probabilities, posteriors
from .settings import TrialSettings

MAX_DECIDERS = 8  # the tables of one take up to hundreds of megabytes
# of a policy whose tables are there, a decision takes no longer than the write of an event
SHORT_DECISIONS: tuple[Cost, ...] = ("light", "tables")


class Decider:
    """Decides for all trials with the same settings; seeds may differ."""

    def __init__(self, settings: TrialSettings, *, use_cones: bool = True) -> None:
        """`use_cones`: DeCo's terms come from `Cones`; otherwise from the policy's own tables."""
        self.settings = settings
        self.cones = Cones(settings.problem, settings.solution.prices)
        policy = settings.make_policy()
        self.policy = policy.live(self.cones) if use_cones else policy
        self._prepared_from = math.inf  # tables are made backwards, from the last stage
        self._lock = Lock()  # policies fill their tables as they are asked

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
        return self.cost in SHORT_DECISIONS and stage >= self._prepared_from

    def decide(self, ledger: Ledger) -> Decision:
        """The next arm; depends on the ledger's counts alone, and on the seed.

        Draws are those of the stage: pulls of one stage come from one draw, and whoever cancels an
        allocation and asks again gets the same arm.
        """
        rng = np.random.default_rng([ledger.settings.seed, ledger.stage])
        pending = pending_state(ledger)
        with self._lock, _memory():
            found = decide(self.policy, pending, self.settings.solution.prices, rng=rng)
            self._prepared_from = min(self._prepared_from, ledger.stage)
            return found

    def deployment(self, ledger: Ledger) -> int:
        """The arm to deploy, when all slots have outcomes."""
        rng = np.random.default_rng([ledger.settings.seed, ledger.stage])
        with self._lock:
            return deployment(self.policy, pending_state(ledger), rng=rng)

    def value_of_deployment(self, pending: PendingState) -> float:
        """Value of deploying the best arm after all outcomes; 0 without a deployment."""
        problem = self.settings.problem
        if problem.terminal is None:  # tables of last rewards, if any
            return sum(
                self._value(arm, problem.stages, good, bad)
                for arm, (good, bad) in enumerate(zip(pending.good, pending.bad, strict=True))
            )
        means = [a / (a + b) for a, b in posteriors(problem, pending)]
        return problem.terminal.deploy * max(means)

    def value_of_arms(self, pending: PendingState) -> float:
        """Sum over the arms of V from the stage under way on, averaged over pending outcomes."""
        problem = self.settings.problem
        total = 0.0
        for arm, (a, b) in enumerate(posteriors(problem, pending)):
            good, bad, waiting = pending.good[arm], pending.bad[arm], pending.open[arm]
            for j, chance in enumerate(pending_probabilities(a, b, waiting)):
                V = self._value(arm, pending.stage, good + j, bad + waiting - j)
                total += float(chance) * V
        return total

    def _value(self, arm: int, stage: int, good: int, bad: int) -> float:
        """V of one arm; one with more pulls than stages waits until there have been as many."""
        problem = self.settings.problem
        if good + bad > problem.stages:
            return 0.0  # there are not: cancellations of others gave it more than its share
        group = int(problem.group_of_arm[arm])
        return self.cones.value(max(stage, good + bad), group, good, bad)


@contextmanager
def _memory() -> Iterator[None]:
    """Tables that were small enough when the trial was made may not be any more."""
    try:
        yield
    except TooLargeError as error:  # its text tells blinded people how long the trial is
        raise OutOfMemory(
            "no decision can be made now: the tables of the policy need more memory than there is"
        ) from error


def pending_state(ledger: Ledger) -> PendingState:
    """What is known for the next ask.

    Pulls of one stage are decided on the same knowledge: those of the stage under way are left out.
    """
    good, bad, waiting = list(ledger.good), list(ledger.bad), list(ledger.open)
    taken = []
    for slot in ledger.under_way():
        arm = ledger.position(slot.arm)
        taken.append(arm)
        counts = waiting if slot.state == "open" else good if slot.outcome else bad
        counts[arm] -= 1
    return PendingState(tuple(good), tuple(bad), tuple(waiting), ledger.stage, tuple(taken))


def decision_record(
    decision: Decision, pending: PendingState, settings: TrialSettings
) -> dict[str, Any]:
    """What an `asked` event keeps of a decision: all it was made from, and all that came out."""
    return {
        "stage": decision.stage,
        "state": {
            "good": list(pending.good),
            "bad": list(pending.bad),
            "open": list(pending.open),
            "taken": list(pending.taken),
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
