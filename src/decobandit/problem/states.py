"""Observed outcomes: one joint state of all arms, and many of them as arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..support import Floats, Ints, InvalidArgument, Unsupported, shown
from .groups import Group
from .model import Problem, check_problem
from .models.base import ArmModel, Stats
from .models.bernoulli import BernoulliModel

Flags = npt.NDArray[np.bool_]
SLACK = 1e-12  # part of a budget that rounding may add to what is spent
BINARY = BernoulliModel(1.0, 1.0)  # any prior: reads good/pulls where there is no problem


@dataclass(frozen=True, repr=False)
class State:
    """Observed outcomes of all arms. Methods count arms from 0, messages from 1.

    Made from text by `parse`, from numbers by `of_counts` or, of any outcome model, by `of_stats`.

    Attributes
    ----------
    rows : tuple of tuple of float
        Statistics of every arm, in the form of its outcome model.

    Examples
    --------
    >>> from decobandit import State
    >>> state = State.parse("3/5,2/2,0/0")
    >>> state.pulls
    (5, 2, 0)
    >>> str(state.after(2, good=True))
    '3/5,2/2,1/1'
    """

    rows: tuple[Stats, ...]
    models: tuple[ArmModel, ...] = field(compare=False)
    # of the data frame that it was read from: results are given in the same
    frame_kind: str | None = field(default=None, compare=False)

    @classmethod
    def of_counts(cls, good: Sequence[int], bad: Sequence[int]) -> Self:
        """Return the state of binary arms with these good and bad outcomes."""
        good, bad = _whole_numbers("good", good), _whole_numbers("bad", bad)
        if len(good) != len(bad) or not good:
            raise InvalidArgument(
                f"{len(good)} good and {len(bad)} bad counts; "
                "must be one of each per arm, for at least one arm"
            )
        return cls(tuple(zip(good, bad, strict=True)), (BINARY,) * len(good))

    @classmethod
    def fresh(cls, arms: int) -> Self:
        """Return the state before the first outcome, for binary arms."""
        return cls.of_counts((0,) * arms, (0,) * arms)

    @classmethod
    def before(cls, problem: Problem) -> Self:
        """Return the state before the first outcome, for any outcome models."""
        return cls.of_stats(problem, [group.model.initial() for group in problem.arm_groups])

    @classmethod
    def of_stats(cls, problem: Problem, stats: Sequence[Stats]) -> Self:
        """Return the state of arms with these statistics."""
        models = _models(problem)
        rows = [
            tuple(map(int, row)) if model.counts_outcomes else tuple(row)
            for model, row in zip(models, stats, strict=True)
        ]
        return cls(tuple(rows), models)

    @property
    def good(self) -> tuple[int, ...]:
        """Good outcomes of each binary arm; 0 of others."""
        return self._counts(0)

    @property
    def bad(self) -> tuple[int, ...]:
        """Bad outcomes of each binary arm; 0 of others."""
        return self._counts(1)

    def _counts(self, position: int) -> tuple[int, ...]:
        pairs = zip(self.models, self.rows, strict=True)
        return tuple(int(row[position]) if model.counts_good else 0 for model, row in pairs)

    @property
    def stats(self) -> list[Floats]:
        """Statistics of every arm as arrays."""
        return [np.array(row, dtype=float) for row in self.rows]

    @property
    def texts(self) -> list[str]:
        """Text of every arm, in the notation of its model."""
        pairs = zip(self.models, self.rows, strict=True)
        return [model.format.write(row) for model, row in pairs]

    @classmethod
    def parse(cls, text: str, problem: Problem | None = None) -> Self:
        """Read good/pulls per arm, as in "3/5,2/2,0/0"; `str` writes it.

        With a problem, non-binary arms are read as well: sum/pulls of measurements
        and counts, 2+0+1 for counts of classes, state/pulls of Markov arms.
        """
        if not isinstance(text, str):
            raise TypeError(f"state: {shown(text)} is not text; must be good/pulls of every arm")
        items, rows = text.split(","), []
        models = (BINARY,) * len(items) if problem is None else _models(problem)
        if len(items) != len(models):
            raise InvalidArgument(f"{len(items)} arms; must be {len(models)}, as in the problem")
        for number, (item, model) in enumerate(zip(items, models, strict=True), start=1):
            try:
                rows.append(model.format.read(item.strip()))
            except ValueError as error:
                raise InvalidArgument(f"arm {number}: {error}") from None
        return cls(tuple(rows), models)

    def __str__(self) -> str:
        return ",".join(self.texts)

    def __repr__(self) -> str:
        return f"State({self})"

    @property
    def pulls(self) -> tuple[int, ...]:
        """Pulls of each arm."""
        pairs = zip(self.models, self.rows, strict=True)
        return tuple(int(sum(row) if model.counts_outcomes else row[0]) for model, row in pairs)

    @property
    def total(self) -> int:
        """Pulls of all arms."""
        return sum(self.pulls)

    def after(self, arm: int, good: bool) -> Self:
        """Return the state after one more outcome of one binary arm."""
        if not 0 <= arm < len(self.rows):
            raise InvalidArgument(f"no arm at position {arm}; must be 0 to {len(self.rows) - 1}")
        rows = list(self.rows)
        rows[arm] = (rows[arm][0] + good, rows[arm][1] + (not good))
        return type(self)(tuple(rows), self.models)

    def stage(self, pulls_per_stage: int) -> int:
        """Return the number of completed stages; refuse a state in the middle of a stage."""
        if pulls_per_stage < 1:
            raise InvalidArgument(f"{pulls_per_stage} pulls per stage; must be at least 1")
        stage, rest = divmod(self.total, pulls_per_stage)
        if rest:
            raise InvalidArgument(
                f"{self.total} pulls in all; must be a multiple of {pulls_per_stage}, "
                "the pulls per stage"
            )
        return stage

    def check(self, problem: Problem) -> None:
        """Raise a ValueError unless this state can occur in `problem`."""
        self.check_outcomes(problem)
        m, total = problem.pulls_per_stage, self.total
        if total > problem.horizon * m:
            raise InvalidArgument(
                f"{total} pulls in all; must be at most {problem.horizon * m}: "
                f"{problem.horizon} stages of {m}"
            )
        stage = -(-total // m)  # a stage under way counts: its pulls are among those observed
        for number, pulls in enumerate(self.pulls, start=1):
            if pulls > stage * problem.most_per_stage:
                raise InvalidArgument(
                    f"arm {number}: {pulls} pulls in {stage} stages; "
                    "an arm is pulled at most once per stage"
                )

    def check_outcomes(self, problem: Problem) -> None:
        """Raise a ValueError unless the arms of `problem` can have these outcomes; any number."""
        models = _models(check_problem(problem))
        if len(self.rows) != len(models):
            rule = f"must be {len(models)}, as in the problem"
            raise InvalidArgument(f"{len(self.rows)} arms; {rule}")
        arms = zip(models, self.models, self.rows, strict=True)
        for number, (model, own, row) in enumerate(arms, start=1):
            if type(model) is not type(own):
                raise InvalidArgument(
                    f"arm {number}: its outcomes are {model.word}; "
                    "State.parse(text, problem) reads them, State.before(problem) begins with none"
                )
            try:
                model.format.check(row)
            except ValueError as error:
                raise InvalidArgument(f"arm {number}: {error}") from None


def _models(problem: Problem) -> tuple[ArmModel, ...]:
    """Return the outcome model of every arm."""
    return tuple(group.model for group in problem.arm_groups)


def _whole_numbers(name: str, counts: object) -> tuple[int, ...]:
    """Convert lists and numpy integers to integers; refuse fractions and text."""
    try:
        if isinstance(counts, str):
            raise TypeError
        return tuple(map(operator.index, counts))  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(
            f"{name}: {shown(counts)} is not allowed; must be whole numbers, one per arm; "
            'State.parse reads text such as "3/5,0/0"'
        ) from None


@dataclass(frozen=True, eq=False)
class States:
    """Statistics of all arms in many joint states; not to be changed in place (`pulls` is cached).

    E joint states of K arms, W numbers of the widest model: narrower ones are padded with zeros.

    Examples
    --------
    >>> from decobandit.problem import Problem, State, States
    >>> problem = Problem.uniform(arms=2, horizon=9)
    >>> states = States.of(problem, [State.parse("3/5,0/0"), State.parse("1/1,1/2")])
    >>> states.pulls.tolist(), str(states.state(1))
    ([[5, 0], [1, 2]], '1/1,1/2')
    """

    problem: Problem
    stats: Floats  # (E, K, W)
    pending: Ints | None = None  # (E, K) pulls whose outcomes are not known yet
    allowed: Flags | None = None  # (E, K) arms that may be pulled; None where all may
    spent: Floats | None = None  # (E,) of a budget; None where it follows from the pulls

    def __post_init__(self) -> None:
        expected = (self.problem.n_arms, _widest(self.problem))
        if self.stats.ndim != 3 or self.stats.shape[1:] != expected:
            shape = ", ".join(map(str, ("states", *expected)))
            raise InvalidArgument(
                f"stats: shape {self.stats.shape}; must be ({shape})", field="stats"
            )

    @classmethod
    def initial(cls, problem: Problem, number: int) -> Self:
        """Return `number` joint states in which no arm has been pulled."""
        return cls.of(problem, [State.before(problem)]).rows(np.zeros(number, np.intp))

    @classmethod
    def of(cls, problem: Problem, states: Sequence[State]) -> Self:
        """Stack states of a problem."""
        stats = np.zeros((len(states), problem.n_arms, _widest(problem)))
        rows = [state.rows for state in states]
        for group in problem.groups:
            members, width = list(group.members), group.model.width
            of_group = np.array([[row[arm] for arm in members] for row in rows], dtype=float)
            stats[:, members, :width] = of_group.reshape(len(rows), len(members), width)
        return cls(problem, stats)

    @classmethod
    def of_counts(cls, problem: Problem, pulls: npt.ArrayLike, good: npt.ArrayLike) -> Self:
        """Stack states of a binary problem from pulls and good outcomes, (E, K) each."""
        counts = np.empty((*np.shape(pulls), 2))
        counts[..., 0] = good
        counts[..., 1] = np.subtract(pulls, good)
        return cls(problem, counts)

    def __len__(self) -> int:
        return len(self.stats)

    @cached_property
    def pulls(self) -> Ints:
        """Pulls of every arm whose outcomes are known, (E, K)."""
        pulls = np.empty(self.stats.shape[:2], dtype=np.int64)
        for k, group in enumerate(self.problem.groups):
            pulls[:, _positions(group.members)] = group.model.pulls(self.of_group(k))
        return pulls

    @property
    def good(self) -> Ints:
        """Good outcomes of every arm, (E, K), in binary problems; others are refused."""
        if not self.problem.is_binary:
            raise InvalidArgument(
                "good: outcomes of this problem are not good or bad; read stats", field="good"
            )
        return np.asarray(self.stats[..., 0], dtype=np.int64)

    def of_group(self, group: int) -> Floats:
        """Return the statistics of a group's arms, (E, members, width): a view where possible."""
        arms = self.problem.groups[group]
        return self.stats[:, _positions(arms.members), : arms.model.width]

    def rows(self, index: Any) -> Self:
        """Return some of the joint states, by a slice, positions or flags."""
        pending = None if self.pending is None else self.pending[index]
        allowed = None if self.allowed is None else self.allowed[index]
        spent = None if self.spent is None else self.spent[index]
        return type(self)(self.problem, self.stats[index], pending, allowed, spent)

    @cached_property
    def left(self) -> Floats:
        """Money that is left of the budget, (E,)."""
        problem = self.problem
        if problem.budget is None:
            return np.full(len(self), np.inf)
        if self.spent is not None:
            return np.asarray(problem.budget - self.spent)
        costs = problem.costs[: problem.horizon]
        if np.any(costs != costs[0]):
            raise Unsupported(
                "costs that change over the stages: money spent does not follow from the pulls; "
                "simulate, or give it as `spent`",
                field="cost",
            )
        pulls = self.pulls if self.pending is None else self.pulls + self.pending
        return np.asarray(problem.budget - pulls @ costs[0])

    def at(self, stage: int) -> Self:
        """Return the states with the arms that can be pulled, and paid, at a stage."""
        problem = self.problem
        if not problem.has_windows and problem.budget is None:
            return self
        able = problem.available_at(stage)
        if problem.budget is not None:
            able = able & is_paid(problem.unit * problem.costs[stage], self.left[:, None])
        allowed = able if self.allowed is None else self.allowed & able
        return replace(self, allowed=np.broadcast_to(allowed, self.stats.shape[:2]))

    def state(self, row: int) -> State:
        """Return one joint state, without what is pending or allowed."""
        rows = zip(self.stats[row].tolist(), _models(self.problem), strict=True)
        return State.of_stats(self.problem, [arm[: model.width] for arm, model in rows])


def is_paid(cost: Floats | float, left: Floats | float) -> Flags:
    """Tell whether money that is left pays a cost."""
    return np.asarray(cost <= np.asarray(left) * (1.0 + SLACK) + SLACK)


def _widest(problem: Problem) -> int:
    return max(group.model.width for group in problem.groups)


def _positions(members: tuple[int, ...]) -> slice | list[int]:
    """Return the positions of a group's arms: a slice where they are side by side."""
    first, last = members[0], members[-1]
    return slice(first, last + 1) if last - first + 1 == len(members) else list(members)


def arm_position(problem: Problem, name: str | None) -> int:
    """Return the position of an arm; without a name, that of the first."""
    names = [arm.name for arm in problem.arms]
    if name is not None and name not in names:
        raise InvalidArgument(f"no arm is called {name!r}; the first are {', '.join(names[:8])}")
    return 0 if name is None else names.index(name)


def check_stats(problem: Problem, stage: int, group: Group, stats: Stats) -> None:
    """Refuse statistics that one arm of a group cannot have at a stage."""
    if not 0 <= stage < problem.stages:
        raise InvalidArgument(
            f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}", field="stage"
        )
    group.model.format.check(stats)
    most = stage * problem.most_per_stage
    pulls = float(group.model.pulls(np.array(stats, dtype=float)))
    if pulls > most:
        raise InvalidArgument(
            f"state: {pulls:.0f} pulls; must not be more than {most} pulls at stage {stage}",
            field="state",
        )
