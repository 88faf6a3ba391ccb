"""Where decisions are made: a plan's policy and tables, kept between asks."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np

from ..nearby import Nearby
from .decisions import Decision, decide, deployment
from .ledger import Ledger
from .plans import Plan
from .situations import Situation, open_chances, posteriors

QUICK_SECONDS = 0.02
KEPT_DESKS = 8  # tables of one plan take up to hundreds of megabytes


class Desk:
    """Decides for every trial whose plan differs in its seed at most."""

    def __init__(self, plan: Plan, *, near: bool = True) -> None:
        """near: DeCo's terms come from `Nearby`; otherwise from the policy's own tables."""
        self.plan = plan
        self.policy = plan.make_policy()
        self.nearby = Nearby(plan.problem, plan.solution.prices)
        self._near = self.nearby if near else None
        self._seconds = math.inf  # of the last decision
        self._lock = Lock()  # policies fill their tables as they are asked

    @property
    def quick(self) -> bool:
        """Whether the last decision was so fast that others may wait for the next."""
        return self._seconds < QUICK_SECONDS and not self.slow

    @property
    def slow(self) -> bool:
        """Whether every decision takes long, whatever was decided before."""
        return self.plan.policy == "rolling-deco"

    def decide(self, ledger: Ledger) -> Decision:
        """The next arm; depends on the ledger's counts alone, and on the seed.

        Draws are those of the stage: pulls of one stage come from one draw, and whoever cancels an
        allocation and asks again gets the same arm.
        """
        rng = np.random.default_rng([ledger.plan.seed, ledger.stage])
        with self._lock:
            began = time.perf_counter()
            found = decide(
                self.policy,
                situation_of(ledger),
                self.plan.solution.prices,
                nearby=self._near,
                rng=rng,
            )
            self._seconds = time.perf_counter() - began
            return found

    def deployment(self, ledger: Ledger) -> int:
        """The arm to keep, when all slots are told."""
        rng = np.random.default_rng([ledger.plan.seed, ledger.stage])
        with self._lock:
            return deployment(self.policy, situation_of(ledger), nearby=self._near, rng=rng)

    def value_of_deployment(self, situation: Situation) -> float:
        """What the best arm is worth when all pulls are told; with nothing to deploy, nothing."""
        problem = self.plan.problem
        if problem.terminal is None:  # tables of last rewards, if any
            return sum(
                self._value(arm, problem.stages, good, bad)
                for arm, (good, bad) in enumerate(zip(situation.good, situation.bad, strict=True))
            )
        means = [a / (a + b) for a, b in posteriors(problem, situation)]
        return problem.terminal.deploy * max(means)

    def value_of_arms(self, situation: Situation) -> float:
        """Sum over the arms of V from the stage under way on, averaged over open outcomes."""
        problem = self.plan.problem
        total = 0.0
        for arm, (a, b) in enumerate(posteriors(problem, situation)):
            good, bad, waiting = situation.good[arm], situation.bad[arm], situation.open[arm]
            for j, chance in enumerate(open_chances(a, b, waiting)):
                V = self._value(arm, situation.stage, good + j, bad + waiting - j)
                total += float(chance) * V
        return total

    def _value(self, arm: int, stage: int, good: int, bad: int) -> float:
        """V of one arm; one with more pulls than stages waits until there have been as many."""
        problem = self.plan.problem
        if good + bad > problem.stages:
            return 0.0  # there are not: cancellations of others gave it more than its share
        group = int(problem.group_of_arm[arm])
        return self.nearby.value(max(stage, good + bad), group, good, bad)


def situation_of(ledger: Ledger) -> Situation:
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
    return Situation(tuple(good), tuple(bad), tuple(waiting), ledger.stage, tuple(taken))


def decision_record(decision: Decision, situation: Situation, plan: Plan) -> dict[str, Any]:
    """What an `asked` event keeps of a decision: all it was made from, and all that came out."""
    return {
        "stage": decision.stage,
        "state": {
            "good": list(situation.good),
            "bad": list(situation.bad),
            "open": list(situation.open),
            "taken": list(situation.taken),
        },
        "policy": plan.policy,
        "multipliers_hash": plan.multipliers_hash,
        "seed": plan.seed,
        "price": decision.price,
        "expected_reward": list(decision.expected_reward),
        "value_of_information": _listed(decision.value_of_information),
        "index": _listed(decision.index),
    }


def _listed(values: tuple[float, ...] | None) -> list[float] | None:
    return None if values is None else list(values)


class _Desks:
    """The desks used last, by the hash of their tables."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Desk] = OrderedDict()
        self._lock = Lock()
        self._making: dict[str, Lock] = {}

    def __call__(self, plan: Plan) -> Desk:
        with self._lock:
            making = self._making.setdefault(plan.tables_hash, Lock())
        with making:  # the same tables are not made twice side by side
            with self._lock:
                desk = self._kept.get(plan.tables_hash)
            if desk is None:
                desk = Desk(plan)
            with self._lock:
                self._kept[plan.tables_hash] = desk
                self._kept.move_to_end(plan.tables_hash)
                while len(self._kept) > KEPT_DESKS:
                    dropped, _ = self._kept.popitem(last=False)
                    self._making.pop(dropped, None)
        return desk


_DESKS = _Desks()


def desk_of(plan: Plan) -> Desk:
    """The desk of a plan, made when it is first needed."""
    return _DESKS(plan)
