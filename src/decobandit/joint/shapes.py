"""Bellman's equation over the joint states of all arms, for every outcome model and batch size.

    V_t(s) = max over allotments of  reward + E[V_{t+1}]

A shape is how many units every arm has had; its states are an array with an axis per arm, over the
layer of its pulls (`arm_states.py`). The expectation is a product with one matrix per arm that is
pulled. Exchangeable arms may be swapped: only shapes whose units descend within a group are stored.
Single pulls are batches of which an arm takes one unit at most. Arms that move at rest have one
shape: all their states, whatever was pulled.

Notations
    shape (arms,)       units of every arm so far
    given (arms,)       units of every arm at a stage
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import comb, inf, log10

import numpy as np

from ..problem import Problem, States, is_paid
from ..support import Floats, InvalidArgument, Progress, Report, Unsupported
from .arm_states import ArmStates, states_of_arms

Shape = tuple[int, ...]
Values = dict[Shape, Floats]
Ends = Callable[[int, int], Floats]  # group, pulls -> (J, states): values of an arm by its state
MAX_AXES = 32  # arms whose joint states are one array
MOST_COUNTED = 1e150  # states; more are counted as this, so that products are finite
MAX_COUNTING_WORK = 5e7  # additions; a problem that needs more has too many states anyway


# -- sizes ----------------------------------------------------------------------------------------


def reachable(problem: Problem) -> tuple[Problem, float]:
    """Return the problem without equal arms that no pull can reach, and their last rewards."""
    spent = round(problem.pulls.sum())
    if problem.is_restless or all(group.count <= spent for group in problem.groups):
        return problem, 0.0
    arms = sorted(arm for group in problem.groups for arm in group.members[:spent])
    rest = sum(
        max(group.count - spent, 0) * float(group.terminal[0])
        for group in problem.groups
        if group.terminal is not None
    )
    return problem.model_copy(update={"arms": [problem.arms[arm] for arm in arms]}), rest


def number_of_allotments(problem: Problem) -> int:
    """Return the number of ways to share the units of a stage among the arms."""
    arms, units = problem.n_arms, problem.units
    every = range(units + 1) if problem.may_wait else (units,)
    return sum(comb(n + arms - 1, n) if problem.repeat else comb(arms, n) for n in every)


def stored_states(problem: Problem, stages: int | None = None) -> list[float]:
    """Bound the number of joint states stored before stages 0 .. `stages`."""
    stages = problem.horizon if stages is None else stages
    models, counts = zip(*((group.model, group.count) for group in problem.groups), strict=True)
    units = problem.units * stages
    if problem.n_arms > MAX_AXES or not all(model.finite for model in models):
        return [inf] * (stages + 1)
    if problem.is_restless:
        sizes = np.array([model.states(problem.horizon) for model in models])
        with np.errstate(over="ignore"):
            return [float(np.prod(sizes ** np.array(counts)))] * (stages + 1)

    def ways(k: int, r: int, i: int) -> float:
        size = models[k].states(r * problem.unit)
        return size**i if i * log10(size) < log10(MOST_COUNTED) else MOST_COUNTED

    if problem.may_wait:
        by_units = np.cumsum(states_by_units(counts, units, problem.most_units * stages, ways))
        return [float(by_units[problem.units * t]) for t in range(stages + 1)]
    if problem.most_units == problem.units:  # no arm is limited by the number of stages
        return [float(x) for x in states_by_units(counts, units, units, ways)[:: problem.units]]
    return [
        float(states_by_units(counts, problem.units * t, t, ways)[-1]) for t in range(stages + 1)
    ]


def states_by_units(
    counts: Sequence[int], units: int, most: int, ways: Callable[[int, int, int], float]
) -> Floats:
    """Count joint states by units in all, 0 .. units, where no arm has had more than `most`.

    counts: arms of each group; ways(k, r, i): states of i arms of group k with r units each. Not
    finite where counting would be slow. f[j, n]: states of j arms of a group that share n units.
    """
    together = np.eye(1, units + 1)[0]
    if sum(counts) * units**2 > MAX_COUNTING_WORK:
        return np.full(units + 1, inf)
    for k, count in enumerate(counts):
        f = np.zeros((count + 1, units + 1))
        f[0, 0] = 1.0
        for r in range(most + 1):
            later = f.copy()
            for i in range(1, min(count, units // r if r else count) + 1):
                later[i:, i * r :] += ways(k, r, i) * f[: count + 1 - i, : units + 1 - i * r]
            f = np.minimum(later, MOST_COUNTED)
        together = np.minimum(np.convolve(together, f[count])[: units + 1], MOST_COUNTED)
    return np.asarray(together)


# -- shapes ---------------------------------------------------------------------------------------


def allotments(problem: Problem) -> tuple[Shape, ...]:
    """Return all ways to share the units of a stage among the arms."""
    every = range(problem.units + 1) if problem.may_wait else (problem.units,)
    return tuple(given for units in every for given in _shared(problem, units))


def _shared(problem: Problem, units: int) -> Iterator[Shape]:
    arms = problem.n_arms
    if not problem.repeat:
        for chosen in itertools.combinations(range(arms), units):
            yield tuple(int(arm in chosen) for arm in range(arms))
        return
    for own in itertools.combinations(range(units + arms - 1), arms - 1):
        ends = (-1, *own, units + arms - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


def sorted_shapes(problem: Problem, stage: int) -> Iterator[Shape]:
    """Yield shapes before a stage, descending within each group and within any budget."""
    if problem.is_restless:
        yield (0,) * problem.n_arms
        return
    most = problem.most_units * stage

    def fill(groups: Sequence[int], left: int) -> Iterator[tuple[Shape, ...]]:
        if not groups:
            if left == 0:
                yield ()
            return
        count, *rest = groups
        for units in range(left + 1) if rest else (left,):
            for part in _descending(units, count, min(units, most)):
                for tail in fill(rest, left - units):
                    yield (part, *tail)

    last = problem.units * stage
    every = range(last + 1) if problem.may_wait else (last,)
    counts = [group.count for group in problem.groups]
    for parts in (parts for units in every for parts in fill(counts, units)):
        shape = [0] * problem.n_arms
        for group, part in zip(problem.groups, parts, strict=True):
            for arm, units in zip(group.members, part, strict=True):
                shape[arm] = units
        if affords(problem, shape):
            yield tuple(shape)


def affords(problem: Problem, shape: Sequence[int]) -> bool:
    """Whether the budget, if there is one, pays for a shape; costs are the same at all stages."""
    if problem.budget is None:
        return True
    return bool(is_paid(problem.unit * float(problem.costs[0] @ np.array(shape)), problem.budget))


def _descending(total: int, places: int, most: int) -> Iterator[Shape]:
    if places == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(total, most), -1, -1):
        if first * places < total:
            return
        for rest in _descending(total - first, places - 1, first):
            yield (first, *rest)


# -- values ---------------------------------------------------------------------------------------


class ShapeProgram:
    """Bellman's equation, backward over the stages of a problem.

    share: probability that pulls can be made at a stage, and then they are; for visitors of one
    segment among all, in a problem that allows stages without pulls (`may_wait`).
    """

    def __init__(self, problem: Problem, share: float = 1.0) -> None:
        costs = problem.costs[: problem.horizon]
        if np.any(costs != costs[0]):
            raise Unsupported(
                "exact values need costs that are the same at all stages: else what is spent does "
                "not follow from the pulls; use 'deco solve' for a bound",
                field="cost",
            )
        self.problem, self.share = problem, share
        self.arms: list[ArmStates] = states_of_arms(problem)
        ways = allotments(problem)
        self.allotments = (
            ways if share == 1.0 else tuple(w for w in ways if sum(w) == problem.units)
        )
        pulls = problem.unit * np.array(self.allotments)
        self._within = [  # the resources of each stage
            list(itertools.compress(self.allotments, ~problem.overdrawn(stage, pulls)))
            for stage in range(problem.horizon)
        ]

    def optimum(self, report: Report, *, keep: bool = False) -> list[Values]:
        """Return values of all states by stage; without `keep` those of the first stage only."""
        return self._swept(self.problem.horizon, self._ended, report, keep)

    def start(self, stage: int, fixed: Floats, ends: Ends, report: Report) -> float:
        """Return the value up to a stage and, by the least of J tables of the arms, after it.

        fixed (J,): what does not depend on the state.
        """

        def ended(shape: Shape) -> Floats:
            total = fixed.reshape(-1, *(1,) * len(shape))
            for arm, units in enumerate(shape):
                end_values = ends(int(self.problem.group_of_arm[arm]), units * self.problem.unit)
                total = total + np.stack([self._on_axis(arm, row) for row in end_values])
            return np.asarray(total.min(axis=0))

        return self.first_value(self._swept(stage, ended, report, False))

    def first_value(self, levels: list[Values]) -> float:
        """Return the value before the first stage, over the states that arms begin in."""
        (values,) = levels[0].values()
        for arm in reversed(self.arms):
            chances, stats = arm.model.first_states()
            values = values[..., arm.number(0, stats)] @ chances
        return float(values)

    def _swept(
        self, stages: int, ended: Callable[[Shape], Floats], report: Report, keep: bool
    ) -> list[Values]:
        problem = self.problem
        levels = [{shape: ended(shape) for shape in sorted_shapes(problem, stages)}]
        for t in range(stages - 1, -1, -1):
            now = {shape: self._best(t, shape, levels[0]) for shape in sorted_shapes(problem, t)}
            levels = [now, *levels] if keep else [now]
            report(Progress("optimum", stages - t, stages))
        return levels

    def _ended(self, shape: Shape) -> Floats:
        """Return last rewards, by tables or of the best deployment."""
        problem, unit = self.problem, self.problem.unit
        values = np.zeros([arm.size(n * unit) for arm, n in zip(self.arms, shape, strict=True)])
        deployed = []
        for k, (arm, units) in enumerate(zip(self.arms, shape, strict=True)):
            values += self._on_axis(k, arm.group.last_rewards(arm.layer(units * unit)))
            if problem.terminal is not None:
                reward = self._reward(problem.horizon, k, units * unit, 1)
                deployed.append(np.broadcast_to(reward, values.shape))
        if not deployed:
            return values
        worst = len(deployed) - problem.deployed
        return np.asarray(values + np.sort(deployed, axis=0)[worst:].sum(axis=0))

    def _best(self, stage: int, shape: Shape, after: Values) -> Floats:
        tried = (self.worth(stage, shape, way, after) for way in self._tried(stage, shape))
        best = reduce(np.maximum, tried)
        if self.share == 1.0:
            return best
        return self.share * best + (1.0 - self.share) * _unsorted(self.problem, shape, after)

    def _tried(self, stage: int, shape: Shape) -> Iterator[Shape]:
        """Yield allotments; among exchangeable arms without pulls the first ones get most."""
        able = self._within[stage]
        if self.problem.is_restless:  # arms without pulls may be in different states
            yield from able
            return
        fresh = [[arm for arm in group.members if shape[arm] == 0] for group in self.problem.groups]
        for allotment in able:
            first = all(
                allotment[a] >= allotment[b] for arms in fresh for a, b in itertools.pairwise(arms)
            )
            if first and affords(self.problem, np.add(shape, allotment).tolist()):
                yield allotment

    def worth(self, stage: int, shape: Shape, allotment: Shape, after: Values) -> Floats:
        """Return what an allotment is worth in the states of a shape, then the best ones."""
        unit, is_restless = self.problem.unit, self.problem.is_restless
        to = shape if is_restless else tuple(np.add(shape, allotment).tolist())
        values = _unsorted(self.problem, to, after)
        reward: Floats | float = 0.0
        for arm, units in enumerate(allotment):
            if units or is_restless:
                had, pulls = shape[arm] * unit, units * unit
                values = _applied(self.arms[arm].ways(had, pulls).chance, values, arm)
                reward = reward + self._reward(stage, arm, had, pulls)
        return np.asarray(values + reward)

    def _reward(self, stage: int, arm: int, had: int, pulls: int) -> Floats:
        group = self.arms[arm].group
        value = (
            self.arms[arm].expected(had, pulls)
            if stage < self.problem.horizon
            else self.arms[arm].mean(had)
        )
        earned = pulls * group.reward_base[stage] + group.reward_factor[stage] * value
        return self._on_axis(arm, earned)

    def _on_axis(self, arm: int, values: Floats) -> Floats:
        """Reshape values by the state of one arm, to broadcast them over joint states."""
        return values.reshape([-1 if k == arm else 1 for k in range(self.problem.n_arms)])


class ShapeValues:
    """Values of all joint states, which define an optimal policy."""

    def __init__(self, program: ShapeProgram, levels: list[Values]) -> None:
        self._program, self._levels, self.problem = program, levels, program.problem
        self.allotments = program.allotments

    def worths(self, stage: int, states: States) -> Floats:
        """Return the worth of each allotment before a stage, then the best ones, (E, A)."""
        problem, arms = self.problem, self._program.arms
        pulls, m = states.pulls, problem.pulls_per_stage
        if np.any(pulls.sum(axis=1) != stage * m) or np.any(pulls % problem.unit):
            raise InvalidArgument(f"state before stage {stage}: no pulls lead to it", field="state")
        units = np.zeros_like(pulls) if problem.is_restless else pulls // problem.unit
        shapes, place = np.unique(units, axis=0, return_inverse=True)
        worths = np.empty((len(pulls), len(self.allotments)))
        for number, shape in enumerate(shapes.tolist()):
            rows = np.flatnonzero(place.reshape(-1) == number)
            where = tuple(
                arm.number(units * problem.unit, states.stats[rows, k, : arm.model.width])
                for k, (arm, units) in enumerate(zip(arms, shape, strict=True))
            )
            for a, allotment in enumerate(self.allotments):
                worth = self._program.worth(stage, tuple(shape), allotment, self._levels[stage + 1])
                worths[rows, a] = worth[where]
        return worths


def _applied(matrix: object, values: Floats, axis: int) -> Floats:
    """Return the matrix (before, after) applied to an axis that is after pulls."""
    front = np.moveaxis(values, axis, 0)
    product = matrix @ front.reshape(front.shape[0], -1)  # type: ignore[operator]
    return np.moveaxis(product.reshape(product.shape[0], *front.shape[1:]), 0, axis)


def _unsorted(problem: Problem, shape: Shape, values: Values) -> Floats:
    """Return the values of a shape, from those of its sorted form."""
    axis_of = list(range(problem.n_arms))  # of each arm, in the sorted form
    stored = list(shape)
    for group in problem.groups:
        ranked = sorted(group.members, key=lambda arm: -shape[arm])
        for place, arm in zip(group.members, ranked, strict=True):
            axis_of[arm] = place
            stored[place] = shape[arm]
    return values[tuple(stored)].transpose(axis_of)
