"""The state: observed good and bad outcomes of each arm."""

import operator
import re
from dataclasses import dataclass
from typing import Self

from ..support import shown
from .model import Problem
from .problem_argument import check_problem

_GOOD_OF_PULLS = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")


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

    def __post_init__(self) -> None:
        for counts in ("good", "bad"):
            object.__setattr__(self, counts, _whole_numbers(counts, getattr(self, counts)))
        if len(self.good) != len(self.bad) or not self.good:
            raise ValueError(
                f"{len(self.good)} good and {len(self.bad)} bad counts; "
                "must be one of each per arm, for at least one arm"
            )

    @classmethod
    def fresh(cls, arms: int) -> Self:
        """Nothing observed yet."""
        return cls(good=(0,) * arms, bad=(0,) * arms)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read good/pulls per arm, as in "3/5,2/2,0/0"; `str` writes it."""
        if not isinstance(text, str):
            raise TypeError(f"state: {shown(text)} is not text; must be good/pulls of every arm")
        good: list[int] = []
        bad: list[int] = []
        for number, item in enumerate(text.split(","), start=1):
            match = _GOOD_OF_PULLS.fullmatch(item)
            if match is None:
                raise ValueError(f"arm {number}: {item!r}; must be good/pulls, for example 3/5")
            successes, pulls = map(int, match.groups())
            good.append(successes)
            bad.append(pulls - successes)
        state = cls(good=tuple(good), bad=tuple(bad))
        state._check_counts()
        return state

    def __str__(self) -> str:
        return ",".join(f"{g}/{n}" for g, n in zip(self.good, self.pulls, strict=True))

    @property
    def pulls(self) -> tuple[int, ...]:
        """Pulls of each arm."""
        return tuple(map(operator.add, self.good, self.bad))

    @property
    def total(self) -> int:
        """Pulls of all arms."""
        return sum(self.good) + sum(self.bad)

    def after(self, arm: int, good: bool) -> Self:
        """The state after one more outcome of one arm."""
        if not 0 <= arm < len(self.good):
            raise ValueError(f"no arm at position {arm}; must be 0 to {len(self.good) - 1}")
        observed = list(self.good if good else self.bad)
        observed[arm] += 1
        counts = tuple(observed)
        return type(self)(counts, self.bad) if good else type(self)(self.good, counts)

    def stage(self, pulls_per_stage: int) -> int:
        """Number of stages completed; a ValueError in the middle of a stage."""
        if pulls_per_stage < 1:
            raise ValueError(f"{pulls_per_stage} pulls per stage; must be at least 1")
        stage, rest = divmod(self.total, pulls_per_stage)
        if rest:
            raise ValueError(
                f"{self.total} pulls in all; must be a multiple of {pulls_per_stage}, "
                "the pulls per stage"
            )
        return stage

    def check(self, problem: Problem) -> None:
        """Raise a ValueError unless this state can occur in `problem`."""
        check_problem(problem)
        arms, m = problem.number_of_arms, problem.pulls_per_stage
        if len(self.good) != arms:
            raise ValueError(f"{len(self.good)} arms; must be {arms}, as in the problem")
        self._check_counts()
        if self.total > problem.horizon * m:
            raise ValueError(
                f"{self.total} pulls in all; must be at most {problem.horizon * m}: "
                f"{problem.horizon} stages of {m}"
            )
        if problem.repeat:
            return
        stage = -(-self.total // m)  # a stage under way counts: its pulls are among those observed
        for number, pulls in enumerate(self.pulls, start=1):
            if pulls > stage:
                raise ValueError(
                    f"arm {number}: {pulls} pulls in {stage} stages; "
                    "an arm is pulled at most once per stage"
                )

    def _check_counts(self) -> None:
        outcomes = zip(self.good, self.pulls, strict=True)
        for number, (good, pulls) in enumerate(outcomes, start=1):
            if good < 0 or pulls < 0:
                raise ValueError(
                    f"arm {number}: {good} good of {pulls} pulls; counts cannot be negative"
                )
            if good > pulls:
                raise ValueError(
                    f"arm {number}: {good} good of {pulls} pulls; good cannot exceed pulls"
                )


def _whole_numbers(name: str, counts: object) -> tuple[int, ...]:
    """Lists and numpy integers are welcome, fractions and text are not."""
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
    """Where an arm stands; the first one where no name is given."""
    names = [arm.name for arm in problem.arms]
    if name is not None and name not in names:
        raise ValueError(f"no arm is called {name!r}; the first are {', '.join(names[:8])}")
    return 0 if name is None else names.index(name)


def check_state(problem: Problem, stage: int, good: int, bad: int) -> None:
    """Refuse what one arm cannot be in at a stage."""
    if not 0 <= stage < problem.stages:
        raise ValueError(f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}")
    most = stage * (problem.pulls_per_stage if problem.repeat else 1)
    if good < 0 or bad < 0 or good + bad > most:
        raise ValueError(
            f"good {good}, bad {bad}: must not be negative, nor more than {most} pulls at stage "
            f"{stage}"
        )
