"""A policy that obeys rules: the ones of `rules.py`, around any policy.

Shares of a batch are given in whole units: rounded up or down at random, so that they hold on
average, and in every batch to within one unit. Arms that have been dropped are left out of the
policy's choice. Looks compare arms by the expected reward of a pull, or by the outcome where
`compare` says so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..problem import Rules, State, States
from ..problem.states import SLACK
from ..support import Floats, Ints
from .allocation import Random, allowed_in, check_turn, drawn_arms, pending_in, pulls_made
from .base import Policy
from .comparison import Comparison
from .names import BASELINE_POLICY
from .pending import as_expected
from .rules import Verdict, rules_of


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
        """Positions of the arms to pull."""
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
        """Posterior probabilities that compare arms by the rules."""
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
