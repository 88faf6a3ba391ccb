"""Rules around any policy, one class each: their effect on allocation probabilities and looks.

A rule says in which states it alone decides (`decides`), which arms the policy chooses among
(`restrict`), what becomes of the policy's probabilities (`adjust`) and the result of a look
(`look`). Simulated designs, exact designs and live trials obey the same objects (`RuledPolicy`).

To add a rule: its setting and what refuses it in `problem/design_model.py`, a class here, its name
in RULES: rules are obeyed in this order.

Everything is a function of statistics, pending pulls, and the arms that are not dropped.

Shares of a batch are given in whole units: rounded up or down at random, so that they hold on
average, and in every batch to within one unit. Arms that have been dropped are left out of the
policy's choice. Looks compare arms by the expected reward of a pull, or by the outcome where
`compare` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..problem import Problem, Rules, State, States, Stop
from ..problem.states import SLACK
from ..support import Floats, Ints, Unsupported
from .allocation import (
    Allowed,
    Random,
    allowed_in,
    as_expected,
    check_turn,
    drawn_arms,
    pending_in,
    pulls_made,
)
from .base import Policy
from .comparison import Comparison
from .names import BASELINE_POLICY

# why a trial stops; codes of `Verdict.reason`
REASONS = ("", "superiority", "inferiority", "futility", "equivalence")
SUPERIORITY, INFERIORITY, FUTILITY, EQUIVALENCE = range(1, 5)
# probabilities closer than this are equal: with small counts many of them are round numbers, and
# the last digits of a quadrature must not decide whether a threshold is met
SAME = 1e-9


def at_least(values: Floats, level: float) -> Allowed:
    """Whether probabilities reach a threshold."""
    return np.asarray(values >= level - SAME)


def at_most(values: Floats, level: float) -> Allowed:
    """Whether probabilities do not exceed a threshold."""
    return np.asarray(values <= level + SAME)


@dataclass(eq=False)
class Verdict:
    """Result of a look in many states; each rule may change the result of earlier rules."""

    reason: npt.NDArray[np.int8]  # (E,) code; 0: go on
    allowed: Allowed  # (E, K) arms not dropped
    declared: Allowed  # (E, K) arms declared better than control, or best
    statistic: Floats  # (E, K) P(better than control by the margin), or P(best)
    posteriors: Comparison
    control: int | None

    @property
    def rivals(self) -> Allowed:
        """Arms that may be declared, (E, K)."""
        rivals = self.allowed.copy()
        if self.control is not None:
            rivals[:, self.control] = False
        return rivals


@dataclass(frozen=True)
class Rule:
    """One rule with its settings; by default it leaves everything as it is."""

    shares: ClassVar[bool] = False  # whether it changes the probabilities of a policy that decides
    setting: ClassVar[str]  # that asks for it, among the rules or their `stop`
    stops: ClassVar[str] = ""  # what happens at the threshold of `stop`, in reports
    rules: Rules
    problem: Problem
    equal: bool = False  # whether the policy is equal allocation

    @classmethod
    def of(cls, rules: Rules, problem: Problem, equal: bool = False) -> Self | None:
        """Return the rule, or None where it is not asked for."""
        place = cls._settings(rules)
        unset = type(place).model_fields[cls.setting].default
        return None if getattr(place, cls.setting) == unset else cls(rules, problem, equal)

    @classmethod
    def _settings(cls, rules: Rules) -> Rules | Stop:
        return rules.stop if cls.setting in Stop.model_fields else rules

    @property
    def level(self) -> float:
        return float(getattr(self._settings(self.rules), self.setting))

    @staticmethod
    def fact(rules: Rules) -> tuple[str, str] | None:
        """Return its line in reports: name and value."""
        return None

    @property
    def fixed(self) -> int | None:
        """The arm whose probability no other rule changes: control with a share of its own."""
        share = self.rules.control_share
        return None if share is None else self.rules.control_of(self.problem)

    def free(self, states: States) -> Allowed:
        """Arms whose probabilities may change, (E, K)."""
        free = allowed_in(states).copy()
        if self.fixed is not None:
            free[:, self.fixed] = False
        return free

    def decides(self, states: States) -> npt.NDArray[np.bool_]:
        """Whether it alone decides, (E,)."""
        return np.zeros(len(states), np.bool_)

    def restrict(self, states: States) -> States:
        """Return the states with the arms that the policy chooses among."""
        return states

    def adjust(self, probabilities: Floats, states: States) -> Floats:
        """Return what becomes of allocation probabilities, (E, K)."""
        return probabilities

    def look(self, states: States, verdict: Verdict) -> None:
        """Change the result of a look."""


# -- allocation -----------------------------------------------------------------------------------


class ControlShare(Rule):
    """Control is pulled with this probability; else the policy chooses among the others."""

    shares, setting = True, "control_share"

    @staticmethod
    def fact(rules: Rules) -> tuple[str, str] | None:
        share = rules.control_share
        return None if share is None else ("Share of control", f"{share:g}")

    def restrict(self, states: States) -> States:
        return replace(states, allowed=self.free(states))

    def adjust(self, probabilities: Floats, states: States) -> Floats:
        adjusted = (1.0 - self.level) * probabilities
        adjusted[:, self.fixed] = self.level
        if self.problem.may_wait:  # control may be too dear: nothing is pulled instead
            adjusted = np.where(allowed_in(states), adjusted, 0.0)
        return adjusted


class Floor(Rule):
    """Least probability f of every arm that may be pulled.

    With n such arms, the policy's probabilities w among them, and 1 - R the share of control:

        additive    f + (R - n f) w
        clip        R w, but those below f raised to it, the others scaled down; until none is below

    A deterministic policy gives f to n - 1 arms and the rest to one by either. Only the additive
    floor keeps the policy's order of the arms, and is linear in w.
    """

    shares, setting = True, "floor"

    @staticmethod
    def fact(rules: Rules) -> tuple[str, str] | None:
        kind = f", {rules.floor_kind}" if rules.floor else ""
        return "Least probability of an arm", f"{rules.floor:g}{kind}"

    def adjust(self, probabilities: Floats, states: States) -> Floats:
        free, floor = self.free(states), self.level
        if self.rules.floor_kind == "clip":
            return _bounded(probabilities, free, np.full((len(states), 1), floor), np.less)
        total = np.where(free, probabilities, 0.0).sum(axis=1, keepdims=True)
        reserved = floor * free.sum(axis=1, keepdims=True)
        rest = np.maximum(total - reserved, 0.0) / np.where(total > 0.0, total, 1.0)
        return np.where(free, floor + rest * probabilities, probabilities)


class Cap(Rule):
    """Cuts probabilities above the cap to it; the others share the excess in proportion.

    They share it evenly if they have no probability. If too few arms are left to keep the cap, all
    of them share evenly.
    """

    shares, setting = True, "max_probability"

    @staticmethod
    def fact(rules: Rules) -> tuple[str, str] | None:
        most = rules.max_probability
        return None if most is None else ("Largest probability of an arm", f"{most:g}")

    def adjust(self, probabilities: Floats, states: States) -> Floats:
        free = self.free(states)
        room = np.where(free, probabilities, 0.0).sum(axis=1, keepdims=True)
        even = room / np.maximum(free.sum(axis=1, keepdims=True), 1)
        cap = np.maximum(self.level, even)
        return _bounded(probabilities, free, cap, np.greater)


def _bounded(chances: Floats, free: Allowed, bound: Floats, beyond: np.ufunc) -> Floats:
    """Move probabilities beyond a bound (E, 1) to it and scale the others, until none is beyond."""
    total = np.where(free, chances, 0.0).sum(axis=1, keepdims=True)
    clipped, result = np.zeros(chances.shape, np.bool_), chances
    for _ in range(chances.shape[1]):
        more = free & ~clipped & beyond(result, bound)
        if not more.any():
            break
        clipped |= more
        unclipped = free & ~clipped
        left = total - bound * clipped.sum(axis=1, keepdims=True)
        rest = np.where(unclipped, chances, 0.0)
        mass = rest.sum(axis=1, keepdims=True)
        even = unclipped / np.maximum(unclipped.sum(axis=1, keepdims=True), 1)
        scaled = left * np.where(mass > 0.0, rest / np.where(mass > 0.0, mass, 1.0), even)
        result = np.where(clipped, bound, np.where(unclipped, scaled, chances))
    return result


class BurnIn(Rule):
    """Equal allocation while an arm has fewer pulls; with blocks, as long as the policy is equal.

    Single pulls are drawn: with n pulls of an arm so far, Q the smallest number of pulls that the
    blocks end at above the least n of all arms, its probability is in proportion to Q - n. Without
    blocks Q is one more than the least: the arms with the fewest pulls have equal probabilities.
    """

    setting = "burn_in"

    @classmethod
    def of(cls, rules: Rules, problem: Problem, equal: bool = False) -> Self | None:
        if rules.block is None or rules.burn_in or equal:
            return super().of(rules, problem, equal) or (
                None if rules.block is None else cls(rules, problem, equal)
            )
        raise Unsupported(
            "permuted blocks are of equal allocation: the policy equal, or a burn_in",
            field="design.block",
        )

    @staticmethod
    def fact(rules: Rules) -> tuple[str, str] | None:
        pulls = "1 pull" if rules.burn_in == 1 else f"{rules.burn_in} pulls"
        sizes = " or ".join(map(str, rules.block_sizes()))
        blocks = f", in permuted blocks of {sizes}" if sizes else ""
        return "Burn-in", f"{pulls} of every arm{blocks}"

    @cached_property
    def ends(self) -> Ints:
        """Pulls of every arm at the end of each block, ascending; past the horizon."""
        sizes = np.array(self.rules.block_sizes()) // self.problem.n_arms
        number = self.problem.horizon // int(sizes.min()) + 1
        drawn = np.random.default_rng(self.rules.block_seed or 0).choice(sizes, number)
        return np.asarray(np.cumsum(drawn))

    def decides(self, states: States) -> npt.NDArray[np.bool_]:
        if self.equal and self.rules.block is not None:
            return np.ones(len(states), np.bool_)
        lacking = allowed_in(states) & (pulls_made(states) < self.level)
        return np.asarray(lacking.any(axis=1))

    def adjust(self, probabilities: Floats, states: States) -> Floats:
        burning = self.decides(states)
        if not burning.any():
            return probabilities
        adjusted, single = probabilities.copy(), self.problem.pulls_per_stage == 1
        adjusted[burning] = (self._drawn if single else self._evenly)(states.rows(burning))
        return adjusted

    def _drawn(self, states: States) -> Floats:
        """Return the pulls that arms lack to the end of their block, as probabilities."""
        pulls, allowed = pulls_made(states), allowed_in(states)
        least = np.where(allowed, pulls, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        if self.rules.block is None:
            end = least + 1
        else:
            end = self.ends[np.searchsorted(self.ends, least, side="right")]
        lacking = np.where(allowed, np.maximum(end - pulls, 0), 0)
        return np.asarray(lacking / lacking.sum(axis=1, keepdims=True))

    def _evenly(self, states: States) -> Floats:
        """Give unit after unit to the arm with the fewest pulls, first arms first."""
        most = np.iinfo(np.int64).max // 2
        held = np.where(allowed_in(states), pulls_made(states), most)
        rows, place = np.unique(held, axis=0, return_inverse=True)
        more = self.problem.unit if self.problem.most_units > 1 else most  # else each arm once
        shares, every = np.zeros(rows.shape), np.arange(len(rows))
        for _ in range(self.problem.units):
            fewest = rows.argmin(axis=1)
            rows[every, fewest] += more
            shares[every, fewest] += 1.0
        return np.asarray(shares[place.reshape(-1)] / self.problem.units)


# -- looks: with a control arm by P(better than control by the margin); without by P(best) ---------


class Superiority(Rule):
    """An arm that reaches the threshold is declared, and the trial stops."""

    setting = "superiority"
    stops = "at least: the trial stops, the arm is declared"

    def look(self, states: States, verdict: Verdict) -> None:
        verdict.declared = verdict.rivals & at_least(verdict.statistic, self.level)
        verdict.reason[verdict.declared.any(axis=1)] = SUPERIORITY


class Inferiority(Rule):
    """Arms below the threshold are dropped; where one is left, the trial is over."""

    setting = "inferiority"
    stops = "at most: the arm is dropped"

    def look(self, states: States, verdict: Verdict) -> None:
        going = (verdict.reason == 0)[:, None]
        low = at_most(verdict.statistic, self.level)
        verdict.allowed = verdict.allowed & ~(verdict.rivals & low & going)
        if verdict.control is not None:
            over = (verdict.reason == 0) & ~verdict.rivals.any(axis=1)
            verdict.reason[over] = INFERIORITY
            return
        alone = (verdict.reason == 0) & (verdict.allowed.sum(axis=1) == 1)
        verdict.reason[alone] = SUPERIORITY
        verdict.declared[alone] = verdict.allowed[alone]


class Futility(Rule):
    """The trial stops where no arm is above the threshold."""

    setting = "futility"
    stops = "at most for every arm: the trial stops"

    def look(self, states: States, verdict: Verdict) -> None:
        low = at_most(verdict.statistic, self.level)
        hopeless = ~(verdict.rivals & ~low).any(axis=1)
        verdict.reason[(verdict.reason == 0) & hopeless] = FUTILITY


class Equivalence(Rule):
    """The trial stops where arms differ by less than the margin with this probability."""

    setting = "equivalence"
    stops = "at least, that the arms differ by less than the margin: the trial stops"

    def look(self, states: States, verdict: Verdict) -> None:
        left = np.flatnonzero(verdict.reason == 0)
        alike = verdict.posteriors.alike(replace(states, allowed=verdict.allowed).rows(left))
        verdict.reason[left[at_least(alike, self.level)]] = EQUIVALENCE


RULES: tuple[type[Rule], ...] = (
    ControlShare,
    Floor,
    Cap,
    BurnIn,
    Superiority,
    Inferiority,
    Futility,
    Equivalence,
)


def rules_of(rules: Rules, problem: Problem, equal: bool = False) -> tuple[Rule, ...]:
    """Return the rules that settings ask for, in order; equal: whether the policy is `equal`."""
    parts = (rule.of(rules, problem, equal) for rule in RULES)
    return tuple(rule for rule in parts if rule is not None)


# -- a policy that obeys them ---------------------------------------------------------------------


class RuledPolicy(Policy):
    """A policy that obeys rules, and decides where they leave a choice.

    Examples
    --------
    >>> from decobandit import Problem, State, make_policy
    >>> from decobandit.policies import RuledPolicy
    >>> from decobandit.problem import Rules, States
    >>> problem = Problem.uniform(arms=2, horizon=10)
    >>> ruled = RuledPolicy(make_policy(problem, "greedy"), Rules(burn_in=1, floor=0.2))
    >>> ruled.probabilities(1, States.of(problem, [State.parse("1/1,0/0")])).tolist()
    [[0.0, 1.0]]
    >>> ruled.probabilities(2, States.of(problem, [State.parse("1/1,0/1")])).tolist()
    [[0.8, 0.2]]
    """

    def __init__(self, policy: Policy, rules: Rules) -> None:
        rules = rules.of_policy(policy.name)
        rules.check_possible(policy.problem)
        self.inner, self.rules = policy, rules
        self.name, self.problem, self.ties = policy.name, policy.problem, policy.ties
        self.cost = policy.cost
        self.control = rules.control_of(policy.problem)
        self.obeyed = rules_of(rules, policy.problem, policy.name == BASELINE_POLICY)
        self.batches = policy.problem.repeat
        self.shared = any(rule.shares for rule in self.obeyed)
        self.randomised = policy.randomised or self.shared
        self.may_stop = rules.stop.any or rules.delay > 0

    # -- allocation ---------------------------------------------------------------------------

    @property
    def has_probabilities(self) -> bool:
        is_exact = self.inner.has_probabilities or not self.inner.randomised
        return is_exact and self.problem.pulls_per_stage == 1

    def select(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        check_turn(self.problem, stage, state)
        return tuple(np.flatnonzero(self.allocation(stage, state, rng)).tolist())

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        states = states.at(stage)
        if self.settled(states).all():
            probabilities = np.zeros(states.pulls.shape)
        else:
            rows = states
            for rule in self.obeyed:
                rows = rule.restrict(rows)
            probabilities = self.inner.probabilities(stage, rows, rng)
        for rule in self.obeyed:
            probabilities = rule.adjust(probabilities, states)
        return probabilities

    def allocate_many(self, stage: int, states: States, rng: Random = None) -> Ints:
        """Return pulls of every arm, (E, K), with pending outcomes and dropped arms."""
        several, waits = self.problem.pulls_per_stage > 1, self.problem.may_wait
        if not several and not waits:
            return self.in_units(self.probabilities(stage, states, rng), rng)
        if several and not self.inner.randomised and pending_in(states).any():
            states = as_expected(states)  # else arms that wait would be given more
        if waits and (self.batches or not several):
            return self._affordable(stage, states, self._drawn_or_none(stage, states, rng))
        units, free = np.empty(states.pulls.shape, np.int64), self.unruled(states)
        states = states.at(stage)
        for rows, allot in ((free, self._allot_freely), (~free, self._allot_by_rules)):
            if rows.any():
                units[rows] = allot(stage, states.rows(rows), rng)
        return self._affordable(stage, states, units) if waits else units

    def _drawn_or_none(self, stage: int, states: States, rng: Random) -> Ints:
        """Return pulls by the probabilities; where they add up to less than 1, perhaps none."""
        probabilities = self.probabilities(stage, states, rng)
        rest = np.maximum(1.0 - probabilities.sum(axis=1, keepdims=True), 0.0)
        return self.in_units(np.hstack([probabilities, rest]), rng)[:, :-1]

    def _affordable(self, stage: int, states: States, units: Ints) -> Ints:
        """Reduce pulls to those that money and resources left pay; fewest pulls so far first."""
        problem, rows = self.problem, np.arange(len(units))
        left = np.tile(problem.supply[stage], (len(units), 1))
        costs = problem.unit * problem.uses
        if problem.budget is not None:
            left = np.column_stack([left, states.left])
            costs = np.column_stack([costs, problem.unit * problem.costs[stage]])
        for arm in np.argsort(pulls_made(states), axis=1, kind="stable").T:
            cost = costs[arm]
            room = (left * (1.0 + SLACK) + SLACK) / np.where(cost > 0.0, cost, 1.0)
            most = np.floor(np.where(cost > 0.0, room, np.inf).min(axis=1)).clip(min=0.0)
            made = np.minimum(units[rows, arm] // problem.unit, most).astype(np.int64)
            units[rows, arm] = problem.unit * made
            left -= made[:, None] * cost
        return units

    def _allot_freely(self, stage: int, states: States, rng: Random) -> Ints:
        free = States(states.problem, states.stats, spent=states.spent)
        return self.inner.allocate_many(stage, free, rng)

    def _allot_by_rules(self, stage: int, states: States, rng: Random) -> Ints:
        if self.batches:
            return self.in_units(self.probabilities(stage, states, rng), rng)
        # where a stage pulls several different arms, only rules that decide alone change it
        shares = np.zeros(states.pulls.shape)
        for rule in self.obeyed:
            shares = rule.adjust(shares, states)
        return np.rint(shares * self.problem.pulls_per_stage).astype(np.int64)

    def in_units(self, probabilities: Floats, rng: Random = None) -> Ints:
        """Share the pulls of a stage by these probabilities, (E, K)."""
        units = self.problem.most_units
        exact = probabilities * units
        if np.abs(exact - np.rint(exact)).max(initial=0.0) < 1e-9:
            nearest: Ints = np.rint(exact).astype(np.int64)
        elif rng is None:
            raise self.no_generator()
        else:
            nearest = drawn_arms(probabilities, units, rng)
        return nearest * self.problem.unit

    def unruled(self, states: States) -> npt.NDArray[np.bool_]:
        """Whether the rules leave the choice to the policy, in each of these states, (E,)."""
        if self.shared:
            return np.zeros(len(states), np.bool_)
        return allowed_in(states).all(axis=1) & ~self.settled(states)

    def settled(self, states: States) -> npt.NDArray[np.bool_]:
        """Whether a rule alone decides, in each of these states, (E,)."""
        settled = np.zeros(len(states), np.bool_)
        for rule in self.obeyed:
            settled |= rule.decides(states)
        return settled

    # -- looks --------------------------------------------------------------------------------

    @cached_property
    def posteriors(self) -> Comparison:
        return self.inner.posteriors_by(self.rules)

    def statistic(self, states: States) -> Floats:
        """P(better than control by the margin), or without a control arm P(best); (E, K)."""
        if self.control is None:
            return self.posteriors.best(states)
        return self.posteriors.better(states, self.control)

    def look(self, states: States) -> Verdict:
        """Stop, drop arms, or go on; arms that have not arrived yet are neither judged nor lost."""
        allowed = allowed_in(states)
        waiting = allowed & self._to_come(states)
        if waiting.any():
            allowed = allowed & ~waiting
            states = replace(states, allowed=allowed)
        verdict = Verdict(
            reason=np.zeros(len(states), np.int8),
            allowed=allowed,
            declared=np.zeros(allowed.shape, np.bool_),
            statistic=self.statistic(states),
            posteriors=self.posteriors,
            control=self.control,
        )
        for rule in self.obeyed:
            rule.look(states, verdict)
        if waiting.any():
            early = waiting.any(axis=1) & (verdict.allowed.sum(axis=1) < 2)  # a rival is to come
            verdict.reason[early], verdict.declared[early] = 0, False
            verdict.allowed = verdict.allowed | waiting
        return verdict

    def _to_come(self, states: States) -> npt.NDArray[np.bool_]:
        """Whether the first window of an arm begins after the pulls so far, (E, K)."""
        if not self.problem.has_windows:
            return np.zeros(states.pulls.shape, np.bool_)
        first = self.problem.available.argmax(axis=0) * self.problem.pulls_per_stage
        return np.asarray((first >= states.pulls.sum(axis=1, keepdims=True)) & (first > 0))
