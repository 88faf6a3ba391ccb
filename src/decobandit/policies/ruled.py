"""Rules around any policy: burn-in, floor, share of the control arm, looks and stopping.

    burn-in        a stage at which some arm has fewer than `burn_in` pulls shares its pulls among
                   the arms with fewest, first ones first
    control share  control is pulled with this probability; else the policy chooses among the others
    floor          probabilities below it are raised to it, the others scaled down
    batch          both are shares of the batch, in whole units: rounded up or down at random, so
                   that they hold on average, and in every batch to within one unit
    look           with a control arm: P(better than control by the margin); without: P(best). By
                   the expected reward of a pull, or by the outcome where `compare` says so

All is a function of what is known: pulls, good outcomes, pending ones, and the arms not dropped.
Arms that have been dropped are left out of the policy's choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..problem import Rules, State, States
from ..support import Floats, Ints
from .asked_states import check_turn
from .base import Policy
from .chances import Allowed, allowed_in, drawn_arms, pending_in, pulls_made, with_floor
from .kinds.pending import as_expected
from .records import Distribution
from .reward_chances import Posteriors

# why a trial stops; codes of `Verdict.reason`
REASONS = ("", "superiority", "inferiority", "futility", "equivalence")
SUPERIORITY, INFERIORITY, FUTILITY, EQUIVALENCE = range(1, 5)
# probabilities closer than this are equal: with small counts many of them are round numbers, and
# the last digits of a quadrature must not decide whether a threshold is met
SAME = 1e-9


def at_least(found: Floats, level: float) -> Allowed:
    """Whether probabilities reach a threshold."""
    return np.asarray(found >= level - SAME)


def at_most(found: Floats, level: float) -> Allowed:
    """Whether probabilities do not exceed a threshold."""
    return np.asarray(found <= level + SAME)


@dataclass(frozen=True)
class Verdict:
    """What a look at many states comes to."""

    reason: npt.NDArray[np.int8]  # (E,) code; 0: go on
    allowed: Allowed  # (E, K) arms not dropped
    declared: Allowed  # (E, K) arms declared better than control, or best


class RuledPolicy(Policy):
    """A policy that obeys rules.

    Parameters
    ----------
    policy : Policy
        Decides where the rules leave a choice.
    rules : Rules
        What is obeyed.

    Examples
    --------
    >>> from decobandit import Problem, State, make_policy
    >>> from decobandit.policies import RuledPolicy
    >>> from decobandit.problem import Rules
    >>> problem = Problem.uniform(arms=2, horizon=10)
    >>> ruled = RuledPolicy(make_policy(problem, "greedy"), Rules(burn_in=1, floor=0.2))
    >>> ruled.distribution(1, State.parse("1/1,0/0"))
    [((1,), 1.0)]
    >>> ruled.distribution(2, State.parse("1/1,0/1"))
    [((0,), 0.8), ((1,), 0.2)]
    """

    def __init__(self, policy: Policy, rules: Rules) -> None:
        rules.check_possible(policy.problem)
        self.inner, self.rules = policy, rules
        self.name, self.problem, self.ties = policy.name, policy.problem, policy.ties
        self.cost = policy.cost
        self.control = rules.control_of(policy.problem)
        self.shared = rules.floor > 0.0 or rules.control_share is not None
        self.randomised = policy.randomised or self.shared
        self.may_stop = rules.stop.any or rules.delay > 0

    # -- allocation ---------------------------------------------------------------------------

    @property
    def has_distribution(self) -> bool:
        known = self.inner.has_distribution or not self.inner.randomised
        return known and self.problem.pulls_per_stage == 1

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """Positions of the arms to pull."""
        check_turn(self.problem, stage, state)
        return tuple(np.flatnonzero(self.allocation(stage, state, rng)).tolist())

    def distribution(self, stage: int, state: State) -> Distribution:
        check_turn(self.problem, stage, state)
        (chances,) = self.probabilities(stage, States.of(self.problem, [state]))
        return [((arm,), round(float(p), 15)) for arm, p in enumerate(chances) if p > 0.0]

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        if self.rules.burn_in == 0:
            return self._chances(stage, states, rng)
        burning = self.burning(states)
        if burning.all():
            return self._shared_evenly(states)
        chances = self._chances(stage, states, rng)
        if burning.any():
            chances[burning] = self._shared_evenly(states.rows(burning))
        return chances

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        """Pulls of every arm, (E, K), where some may be pending and some arms dropped."""
        several = self.problem.pulls_per_stage > 1
        if not several:
            return self.in_units(self.probabilities(stage, states, rng), rng)
        if not self.inner.randomised and pending_in(states).any():
            states = as_expected(states)  # else arms that wait would be given more
        given, free = np.empty(states.pulls.shape, np.int64), self.unruled(states)
        for rows, allot in ((free, self._allot_freely), (~free, self._allot_by_rules)):
            if rows.any():
                given[rows] = allot(stage, states.rows(rows), rng)
        return given

    def _allot_freely(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        return self.inner.allocate_many(stage, States(states.problem, states.stats), rng)

    def _allot_by_rules(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        if self.problem.repeat:
            return self.in_units(self.probabilities(stage, states, rng), rng)
        # where a stage pulls several different arms, the burn-in alone changes the choice
        even = self._shared_evenly(states) * self.problem.pulls_per_stage
        return np.rint(even).astype(np.int64)

    def in_units(self, chances: Floats, rng: np.random.Generator | None = None) -> Ints:
        """Pulls of every arm of a stage that is shared by these chances, (E, K)."""
        units = self.problem.units if self.problem.repeat else 1
        whole = chances * units
        if np.abs(whole - np.rint(whole)).max(initial=0.0) < 1e-9:
            given: Ints = np.rint(whole).astype(np.int64)
        elif rng is None:
            raise ValueError(f"policy {self.name!r} draws arms: pass a random generator as rng")
        else:
            given = drawn_arms(chances, units, rng)
        return given * self.problem.unit

    def unruled(self, states: States) -> npt.NDArray[np.bool_]:
        """Whether the rules leave the choice to the policy, in each of these states, (E,)."""
        if self.shared:
            return np.zeros(len(states), np.bool_)
        return allowed_in(states).all(axis=1) & ~self.burning(states)

    def burning(self, states: States) -> npt.NDArray[np.bool_]:
        """Whether some arm has fewer pulls than the burn-in, (E,)."""
        lacking = allowed_in(states) & (pulls_made(states) < self.rules.burn_in)
        return np.asarray(lacking.any(axis=1))

    def _chances(self, stage: int, states: States, rng: np.random.Generator | None) -> Floats:
        share = self.rules.control_share
        if share is None:
            chances = self.inner.probabilities(stage, states, rng)
            return with_floor(chances, allowed_in(states), self.rules.floor)
        others = allowed_in(states).copy()
        others[:, self.control] = False
        chances = self.inner.probabilities(stage, replace(states, allowed=others), rng)
        room = 1.0 - share
        chances = room * with_floor(chances, others, self.rules.floor / room if room else 0.0)
        chances[:, self.control] = share
        return chances

    def _shared_evenly(self, states: States) -> Floats:
        """A stage of the burn-in: unit after unit to the arm with fewest pulls."""
        most = np.iinfo(np.int64).max // 2
        held = np.where(allowed_in(states), pulls_made(states), most)
        rows, place = np.unique(held, axis=0, return_inverse=True)
        repeat, pulls = self.problem.repeat, self.problem.pulls_per_stage
        units, more = (self.problem.units, self.problem.unit) if repeat else (pulls, most)
        given, every = np.zeros(rows.shape), np.arange(len(rows))
        for _ in range(units):
            fewest = rows.argmin(axis=1)
            rows[every, fewest] += more
            given[every, fewest] += 1.0
        return np.asarray(given[place.reshape(-1)] / units)

    # -- looks --------------------------------------------------------------------------------

    @cached_property
    def posteriors(self) -> Posteriors:
        """Posterior probabilities that compare arms by the rules."""
        return self.inner.posteriors_by(self.rules)

    def statistic(self, states: States) -> Floats:
        """P(better than control by the margin), or without a control arm P(best); (E, K)."""
        if self.control is None:
            return self.posteriors.best(states)
        return self.posteriors.better(states, self.control)

    def look(self, states: States) -> Verdict:
        """Stop, drop arms, or go on."""
        stop, control = self.rules.stop, self.control
        found, allowed = self.statistic(states), allowed_in(states)
        rivals = allowed.copy()
        if control is not None:
            rivals[:, control] = False
        reason = np.zeros(len(states), np.int8)
        declared = np.zeros(allowed.shape, np.bool_)
        if stop.superiority is not None:
            declared = rivals & at_least(found, stop.superiority)
            reason[declared.any(axis=1)] = SUPERIORITY
        kept = allowed
        if stop.inferiority is not None:
            worse = rivals & at_most(found, stop.inferiority) & (reason == 0)[:, None]
            kept, rivals = allowed & ~worse, rivals & ~worse
            self._settle(reason, declared, kept, rivals)
        if stop.futility is not None:
            hopeless = ~(rivals & ~at_most(found, stop.futility)).any(axis=1)
            reason[(reason == 0) & hopeless] = FUTILITY
        if stop.equivalence is not None:
            left = np.flatnonzero(reason == 0)
            alike = self.posteriors.alike(replace(states, allowed=kept).rows(left))
            reason[left[at_least(alike, stop.equivalence)]] = EQUIVALENCE
        return Verdict(reason, kept, declared)

    def _settle(
        self, reason: npt.NDArray[np.int8], declared: Allowed, kept: Allowed, rivals: Allowed
    ) -> None:
        """Where arms were dropped until one was left, the trial is over."""
        if self.control is not None:
            reason[(reason == 0) & ~rivals.any(axis=1)] = INFERIORITY
            return
        alone = (reason == 0) & (kept.sum(axis=1) == 1)
        reason[alone] = SUPERIORITY
        declared[alone] = kept[alone]
