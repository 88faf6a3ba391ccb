"""A policy followed forward in batches: probabilities of joint states, shape by shape.

States of a shape are arrays, an axis per arm (`joint/batch_states.py`). At a stage the policy is
asked in all states of a shape at once; those with the same allotment move on together, by one
product with a matrix per arm that is pulled. At a given truth they carry the first two moments of
the reward so far too: with r(x) what x good outcomes among those of an arm's batch earn, less
`middle` for each pull,

    w' = C w        m' = C m + C_r w        q' = C q + 2 C_r m + C_rr w

C the chances of x, C_r and C_rr the same times r(x) and r(x)^2.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ..joint import Batches, Shape
from ..policies import Policy
from ..problem import State, States, Truth, share_of_best
from ..support import Floats, Ints, Progress, Report
from .forward import Total, middle, too_many_states

Moments = Floats  # (columns, axes of the arms): probability; at a truth, first and second moment


class BatchForward:
    """One evaluation."""

    def __init__(
        self, policy: Policy, truth: Truth | None, limit_states: int, progress: Report | None
    ) -> None:
        self.policy, self.problem = policy, policy.problem
        self.truth, self.limit, self.progress = truth, limit_states, progress
        self.batches = Batches(self.problem, truth)
        self.total = Total(False, np.zeros(self.problem.stages), np.zeros(self.problem.n_arms))

    def run(self) -> Total:
        """All stages, the deployment and last rewards."""
        problem, total = self.problem, self.total
        arms = problem.n_arms
        columns = 1 if self.truth is None else 3
        start = np.zeros((columns, *(1,) * arms))
        start[0] = 1.0
        now: dict[Shape, Moments] = {(0,) * arms: start}
        for t in range(problem.horizon):
            after: dict[Shape, Moments] = {}
            for shape, moments in now.items():
                for given, part in self._answers(t, shape, moments):
                    self._book(t, shape, given, part)
                    target = tuple(np.add(shape, given).tolist())
                    if prod(n * problem.unit + 1 for n in target) > self.limit:  # before memory is
                        raise too_many_states(self.limit, t, problem.stages)
                    moved = self._moved(t, shape, given, part)
                    after[target] = moved if target not in after else after[target] + moved
                self._count(t, moments, after)
            now = after
        for shape, moments in now.items():
            self._close(shape, moments)
        total.probability = float(sum(moments[0].sum() for moments in now.values()))
        self._conclude(now)
        return total

    # -- what the policy does -----------------------------------------------------------------

    def _states(self, shape: Shape, moments: Moments) -> tuple[Ints, Ints]:
        """Pulls and good outcomes of the states that are reached, each (states, arms)."""
        good = np.argwhere(moments[0] > 0.0)
        return np.tile(np.multiply(shape, self.problem.unit), (len(good), 1)), good

    def _answers(
        self, stage: int, shape: Shape, moments: Moments
    ) -> Iterator[tuple[Shape, Moments]]:
        """Units of every arm, and the states in which they are given."""
        pulls, good = self._states(shape, moments)
        given = self.policy.allocate_many(stage, States.of_counts(self.problem, pulls, good))
        self._check(stage, given)
        for units in np.unique(given // self.problem.unit, axis=0):
            own = good[np.all(given == units * self.problem.unit, axis=1)]
            where = (slice(None), *own.T)
            part = np.zeros_like(moments)
            part[where] = moments[where]
            yield tuple(units.tolist()), part

    def _check(self, stage: int, given: Ints) -> None:
        m, unit = self.problem.pulls_per_stage, self.problem.unit
        if np.any(given.sum(axis=1) != m) or np.any((given < 0) | (given % unit > 0)):
            raise ValueError(
                f"the policy does not allot {m} pulls in units of {unit} at stage {stage}"
            )

    def _count(self, stage: int, moments: Moments, after: dict[Shape, Moments]) -> None:
        self.total.states += int(np.count_nonzero(moments[0]))
        stored = sum(prod(each.shape[1:]) for each in after.values())
        if stored > self.limit:
            raise too_many_states(self.limit, stage, self.problem.stages)
        if self.progress is not None:
            name, stages, arms = self.policy.name, self.problem.stages, self.problem.n_arms
            note = f"stage {stage} of {stages}, {self.total.states:,} states"
            self.progress(Progress.of_growing_stages(name, stage, stages, arms, note))

    # -- what comes of it ---------------------------------------------------------------------

    def _book(self, stage: int, shape: Shape, given: Shape, part: Moments) -> None:
        chance = part[0]
        reward = self.batches.reward(stage, shape, given)
        self.total.rewards[stage] += float((chance * reward).sum())
        self.total.pulls += float(chance.sum()) * self.problem.unit * np.array(given)

    def _moved(self, stage: int, shape: Shape, given: Shape, part: Moments) -> Moments:
        for arm, units in enumerate(given):
            if units:
                part = self._moved_arm(stage, arm, shape[arm], units, part)
        return part

    def _moved_arm(self, stage: int, arm: int, had: int, units: int, part: Moments) -> Moments:
        chances = self.batches.chances(arm, had, units)
        if self.truth is None:
            return _applied(chances, part, arm)
        group = self.problem.groups[self.problem.group_of_arm[arm]]
        pulls = units * self.problem.unit
        x = np.arange(chances.shape[1]) - np.arange(chances.shape[0])[:, None]
        less = middle(self.problem, stage)
        low, high = group.reward_bad[stage] - less, group.reward_good[stage] - less
        r = pulls * low + (high - low) * x
        w, m, q = part[:1], part[1:2], part[2:]
        with_r, with_rr = chances * r, chances * r * r
        return np.concatenate(
            [
                _applied(chances, w, arm),
                _applied(chances, m, arm) + _applied(with_r, w, arm),
                _applied(chances, q, arm) + 2.0 * _applied(with_r, m, arm)
                + _applied(with_rr, w, arm),
            ]
        )  # fmt: skip

    def _close(self, shape: Shape, moments: Moments) -> None:
        """The deployment, and last rewards, which are known by the state."""
        problem, last = self.problem, self.batches.last(shape)
        self.total.last_reward += float((moments[0] * last).sum())
        earned = np.array(last)
        if problem.terminal is not None:
            deployed = problem.terminal.deploy * self._deployed(shape, moments)
            self.total.states += int(np.count_nonzero(moments[0]))
            self.total.rewards[-1] += float((moments[0] * deployed).sum())
            earned = earned + deployed
        if self.truth is not None:
            w, m, q = moments
            moments[2] = q + 2.0 * earned * m + earned**2 * w
            moments[1] = m + earned * w

    def _deployed(self, shape: Shape, moments: Moments) -> Floats:
        """Expected success probability of the arm that is deployed, by state."""
        problem, found = self.problem, np.zeros(moments.shape[1:])
        arms = range(problem.n_arms)
        means = [
            np.broadcast_to(
                self.batches.mean(k, shape[k]) if self.truth is None else self.truth[k], found.shape
            )
            for k in arms
        ]
        for good in np.argwhere(moments[0] > 0.0):
            bad = np.multiply(shape, problem.unit) - good
            state = State(tuple(good.tolist()), tuple(bad.tolist()))
            found[tuple(good)] = sum(
                share * means[k][tuple(good)]
                for given, share in self.policy.allotments(problem.horizon, state)
                for k in np.flatnonzero(given)
            )
        return found

    def _conclude(self, now: dict[Shape, Moments]) -> None:
        """At a truth: variance of the reward, and how likely the best arm looks best."""
        if self.truth is None:
            return
        first = sum(float(moments[1].sum()) for moments in now.values())
        second = sum(float(moments[2].sum()) for moments in now.values())
        self.total.variance = max(0.0, second - first**2)
        self.total.best_arm = sum(
            float((moments[0] * self._best_looks_best(shape, moments[0].shape)).sum())
            for shape, moments in now.items()
        )

    def _best_looks_best(self, shape: Shape, axes: tuple[int, ...]) -> Floats:
        assert self.truth is not None
        return share_of_best(
            [
                (np.broadcast_to(self.batches.mean(k, shape[k]), axes), self.truth[k], 1)
                for k in range(self.problem.n_arms)
            ]
        )


def _applied(matrix: Floats, moments: Moments, arm: int) -> Moments:
    """The matrix (before, after) applied to the axis of an arm, behind the columns."""
    return np.moveaxis(np.tensordot(matrix, moments, axes=(0, arm + 1)), 0, arm + 1)


def evaluate_batches(
    policy: Policy, truth: Truth | None, limit: int, progress: Report | None
) -> Total:
    """What a policy earns in batches, exactly."""
    if policy.randomised or policy.ties == "random":
        raise ValueError(
            f"{policy.name!r} draws pulls, or ties, at random: in batches it cannot be evaluated "
            "exactly; simulate it"
        )
    return BatchForward(policy, truth, limit, progress).run()
