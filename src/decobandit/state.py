"""What has been observed so far: the good and bad outcomes of each arm."""

import operator
import re
from dataclasses import dataclass
from typing import Self

from decobandit.problem import Problem

_GOOD_OF_PULLS = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")


@dataclass(frozen=True)
class State:
    """Observed outcomes, one count per arm. Methods count arms from 0, messages from 1."""

    good: tuple[int, ...]
    bad: tuple[int, ...]

    def __post_init__(self) -> None:
        for counts in ("good", "bad"):  # lists and numpy integers are welcome, fractions are not
            object.__setattr__(self, counts, tuple(map(operator.index, getattr(self, counts))))
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
        arms, m = problem.number_of_arms, problem.pulls_per_stage
        if len(self.good) != arms:
            raise ValueError(f"{len(self.good)} arms; must be {arms}, as in the problem")
        self._check_counts()
        if self.total > problem.horizon * m:
            raise ValueError(
                f"{self.total} pulls in all; must be at most {problem.horizon * m}: "
                f"{problem.horizon} stages of {m}"
            )
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
