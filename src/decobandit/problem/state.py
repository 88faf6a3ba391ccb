"""The state: observed outcomes of each arm, good and bad ones or those of any other model."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..support import Floats, InvalidArgument, shown
from .groups import Group
from .model import Problem, check_problem
from .models.base import ArmModel, Stats
from .models.bernoulli import BernoulliModel

BINARY = BernoulliModel(1.0, 1.0)  # any prior: reads good/pulls where there is no problem


@dataclass(frozen=True)
class Seen:
    """Observations of an arm with non-binary outcomes."""

    pulls: int
    stats: Stats
    text: str  # in the notation of its model

    @classmethod
    def of(cls, model: ArmModel, stats: Stats) -> Self:
        """Return the observations of an arm of a model."""
        pulls = int(model.pulls(np.array(stats, dtype=float)))
        return cls(pulls, tuple(stats), model.format.write(stats))


@dataclass(frozen=True)
class State:
    """Observed outcomes, one count per arm. Methods count arms from 0, messages from 1.

    Parameters
    ----------
    good, bad : sequence of int
        Good and bad outcomes of each arm so far.

    Raises
    ------
    TypeError
        If a count is not a whole number.
    ValueError
        If there is not one count of each per arm.

    Examples
    --------
    >>> from decobandit import State
    >>> state = State.parse("3/5,2/2,0/0")
    >>> state
    State(good=(3, 2, 0), bad=(2, 0, 0))
    >>> str(state.after(2, good=True))
    '3/5,2/2,1/1'
    """

    good: tuple[int, ...]
    bad: tuple[int, ...] = ()  # as many as good; the default only serves the message
    statistics: tuple[Seen | None, ...] = field(default=(), repr=False)  # of non-binary arms
    # of the data frame that it was read from: results are given in the same
    frame_kind: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for counts in ("good", "bad"):
            object.__setattr__(self, counts, _whole_numbers(counts, getattr(self, counts)))
        if len(self.good) != len(self.bad) or not self.good:
            raise InvalidArgument(
                f"{len(self.good)} good and {len(self.bad)} bad counts; "
                "must be one of each per arm, for at least one arm"
            )

    @classmethod
    def fresh(cls, arms: int) -> Self:
        """Return the state before the first outcome, for binary arms."""
        return cls(good=(0,) * arms, bad=(0,) * arms)

    @classmethod
    def before(cls, problem: Problem) -> Self:
        """Return the state before the first outcome, for any outcome models."""
        models = _models(problem)
        return cls._of_models(models, [model.initial() for model in models])

    @classmethod
    def of_stats(cls, problem: Problem, stats: Sequence[Stats]) -> Self:
        """Return the state of arms with these statistics."""
        return cls._of_models(_models(problem), stats)

    @classmethod
    def _of_models(cls, models: Sequence[ArmModel], stats: Sequence[Stats]) -> Self:
        good, bad, extras = [], [], []
        for model, counts in zip(models, stats, strict=True):
            binary = model.counts_good
            good.append(int(counts[0]) if binary else 0)
            bad.append(int(counts[1]) if binary else 0)
            extras.append(None if binary else Seen.of(model, counts))
        return cls(tuple(good), tuple(bad), tuple(extras) if any(extras) else ())

    @property
    def rows(self) -> list[Stats]:
        """Statistics of every arm."""
        extras = self.statistics or (None,) * len(self.good)
        rows = zip(self.good, self.bad, extras, strict=True)
        return [(g, b) if o is None else o.stats for g, b, o in rows]

    def stats(self, problem: Problem) -> list[Floats]:
        """Return the statistics of every arm, in the form of its outcome model."""
        return [np.array(row, dtype=float) for row in self.rows]

    @classmethod
    def parse(cls, text: str, problem: Problem | None = None) -> Self:
        """Read good/pulls per arm, as in "3/5,2/2,0/0"; `str` writes it.

        With a problem, non-binary arms are read as well: sum/pulls of measurements
        and counts, 2+0+1 for counts of classes, state/pulls of Markov arms.
        """
        if not isinstance(text, str):
            raise TypeError(f"state: {shown(text)} is not text; must be good/pulls of every arm")
        items, stats = text.split(","), []
        models = [BINARY] * len(items) if problem is None else _models(problem)
        if len(items) != len(models):
            raise InvalidArgument(f"{len(items)} arms; must be {len(models)}, as in the problem")
        for number, (item, model) in enumerate(zip(items, models, strict=True), start=1):
            try:
                stats.append(model.format.read(item.strip()))
            except ValueError as error:
                raise InvalidArgument(f"arm {number}: {error}") from None
        return cls._of_models(models, stats)

    def __str__(self) -> str:
        extras = self.statistics or (None,) * len(self.good)
        rows = zip(self.good, self.pulls, extras, strict=True)
        return ",".join(f"{g}/{n}" if o is None else o.text for g, n, o in rows)

    @property
    def pulls(self) -> tuple[int, ...]:
        """Pulls of each arm."""
        pulls = tuple(map(operator.add, self.good, self.bad))
        if not self.statistics:
            return pulls
        both = zip(pulls, self.statistics, strict=True)
        return tuple(n if o is None else o.pulls for n, o in both)

    @property
    def total(self) -> int:
        """Pulls of all arms."""
        return sum(self.pulls) if self.statistics else sum(self.good) + sum(self.bad)

    def after(self, arm: int, good: bool) -> Self:
        """Return the state after one more outcome of one arm."""
        if not 0 <= arm < len(self.good):
            raise InvalidArgument(f"no arm at position {arm}; must be 0 to {len(self.good) - 1}")
        observed = list(self.good if good else self.bad)
        observed[arm] += 1
        counts = tuple(observed)
        return type(self)(counts, self.bad) if good else type(self)(self.good, counts)

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
        m = problem.pulls_per_stage
        if self.total > problem.horizon * m:
            raise InvalidArgument(
                f"{self.total} pulls in all; must be at most {problem.horizon * m}: "
                f"{problem.horizon} stages of {m}"
            )
        stage = -(-self.total // m)  # a stage under way counts: its pulls are among those observed
        for number, pulls in enumerate(self.pulls, start=1):
            if pulls > stage * problem.most_per_stage:
                raise InvalidArgument(
                    f"arm {number}: {pulls} pulls in {stage} stages; "
                    "an arm is pulled at most once per stage"
                )

    def check_outcomes(self, problem: Problem) -> None:
        """Raise a ValueError unless the arms of `problem` can have these outcomes; any number."""
        check_problem(problem)
        models = _models(problem)
        if len(self.good) != len(models):
            rule = f"must be {len(models)}, as in the problem"
            raise InvalidArgument(f"{len(self.good)} arms; {rule}")
        extras = self.statistics or (None,) * len(models)
        rows = zip(models, extras, self.rows, strict=True)
        for number, (model, seen, stats) in enumerate(rows, start=1):
            if model.counts_good != (seen is None):
                raise InvalidArgument(
                    f"arm {number}: its outcomes are {model.word}; "
                    "State.parse(text, problem) reads them, State.before(problem) begins with none"
                )
            try:
                model.format.check(stats)
            except ValueError as error:
                raise InvalidArgument(f"arm {number}: {error}") from None


def _models(problem: Problem) -> list[ArmModel]:
    """Return the outcome model of every arm."""
    return [group.model for group in problem.arm_groups]


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
