"""An arm with named states, and the chances of going from one to another by a pull."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ...support import Floats, InvalidArgument, is_count, refuse, shown
from ..fields import Chance, FirstErrorOfTable, Number, Word
from ..model_base import Frozen
from .base import ArmModel, Outcome, OutcomeFormat, PriorTable, Stats, no_outcome
from .categorical import SUM_TOLERANCE

MOST_OWN_STATES = 10_000


class MarkovState(Frozen):
    """A state of an arm of your own: what a pull earns, and where it leads.

    Parameters
    ----------
    mean : float
        Expected reward of a pull.
    next : mapping
        By the name of an outcome: its chance, and the state that follows. Chances sum to 1.

    Examples
    --------
    >>> from decobandit import MarkovState
    >>> MarkovState(mean=0.5, next={"hit": (0.5, "up"), "miss": (0.5, "down")}).mean
    0.5
    """

    mean: Number = Field(description="Expected reward of a pull.")
    next: Annotated[dict[Word, tuple[Chance, Word]], FirstErrorOfTable] = Field(
        description="By outcome: its chance, and the state that follows."
    )

    @model_validator(mode="after")
    def _check_chances(self) -> Self:
        total = math.fsum(chance for chance, _ in self.next.values())
        if abs(total - 1.0) > SUM_TOLERANCE:
            refuse("must have chances that sum to 1", found=total, at=("next",))
        return self


class MarkovArm(PriorTable):
    """An arm of your own: named states, and the chances of going from one to another by a pull.

    Parameters
    ----------
    first : str
        The state of an arm that has not been pulled.
    states : mapping
        By name, an `MarkovState` or a table of `mean` and `next`.

    Examples
    --------
    >>> from decobandit import MarkovArm
    >>> arm = MarkovArm(
    ...     first="new",
    ...     states={
    ...         "new": {"mean": 0.5, "next": {"hit": (0.5, "good"), "miss": (0.5, "bad")}},
    ...         "good": {"mean": 0.8, "next": {"any": (1.0, "good")}},
    ...         "bad": {"mean": 0.2, "next": {"any": (1.0, "bad")}},
    ...     },
    ... )
    >>> sorted(arm.states)
    ['bad', 'good', 'new']
    """

    kind: Literal["states"] = "states"
    first: Word = Field(description="State of an arm that has not been pulled.")
    states: Annotated[dict[Word, MarkovState], FirstErrorOfTable] = Field(
        description="The states by name."
    )

    def __hash__(self) -> int:
        return hash((self.first, tuple(self.states)))

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if len(self.states) > MOST_OWN_STATES:
            rule = f"must be at most {MOST_OWN_STATES} states"
            refuse(rule, found=len(self.states), at=("states",))
        _check_name(self.first, self.states, ("first",))
        for name, state in self.states.items():
            for outcome, (_, to) in state.next.items():
                _check_name(to, self.states, ("states", name, "next", outcome, 1))
        return self

    def arm_model(self, arm: Any) -> MarkovModel:
        return MarkovModel(self)


def _check_name(name: str, states: Mapping[str, MarkovState], at: tuple[int | str, ...]) -> None:
    if name not in states:
        refuse(f"must be one of the states: {', '.join(list(states)[:8])}", found=name, at=at)


@dataclass(frozen=True)
class MarkovModel(ArmModel):
    """Statistics: pulls, position of the state. An outcome: its position in the state's `next`."""

    table: MarkovArm

    word = "own"
    finite = True
    ordered = True
    has_law = False
    width = 2

    @cached_property
    def format(self) -> MarkovFormat:
        return MarkovFormat(self)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The states."""
        return tuple(self.table.states)

    def states(self, pulls: int) -> float:
        return float(len(self.names))

    @cached_property
    def means(self) -> Floats:
        """Expected reward of a pull by state."""
        return np.array([state.mean for state in self.table.states.values()])

    @property
    def usual(self) -> tuple[float, float]:
        return float(self.means.min()), float(self.means.max())

    @cached_property
    def _chances(self) -> Floats:
        return self._by_outcome(lambda link: link[0])

    @cached_property
    def _below(self) -> Floats:
        """Return cumulative probabilities of outcomes, exactly 1 from a state's last one on."""
        last = [len(state.next) - 1 for state in self.table.states.values()]
        outcomes = np.arange(self._chances.shape[1])
        sure = outcomes >= np.array(last)[:, None]
        return np.where(sure, 1.0, np.cumsum(self._chances, axis=1))[:, :-1]

    @cached_property
    def _next(self) -> Floats:
        return self._by_outcome(lambda link: float(self.names.index(link[1])))

    def _by_outcome(self, part: Callable[[tuple[float, str]], float]) -> Floats:
        rows = [list(map(part, state.next.values())) for state in self.table.states.values()]
        widest = max(map(len, rows))
        return np.array([row + [0.0] * (widest - len(row)) for row in rows])

    def links(self, state: int) -> list[tuple[float, int]]:
        """Chances of the outcomes of a pull in a state, and the states that follow."""
        following = self.table.states[self.names[state]].next.values()
        return [(chance, self.names.index(to)) for chance, to in following]

    def initial(self) -> Stats:
        return (0, self.names.index(self.table.first))

    def pulls(self, stats: Floats) -> Floats:
        return stats[..., 0]

    def mean(self, stats: Floats) -> Floats:
        return self.means[stats[..., 1].astype(np.int64)]

    def sd(self, stats: Floats) -> Floats:
        raise InvalidArgument("own arms: their states say nothing of how sure a mean is")

    def excess(self, stats: Floats, c: Floats) -> Floats:
        state = stats[..., 1].astype(np.int64)
        following = self.means[self._next[state].astype(np.int64)]
        beyond = np.maximum(following - np.asarray(c)[..., None], 0.0)
        return np.asarray((self._chances[state] * beyond).sum(axis=-1))

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        state = stats[..., 1].astype(np.int64)
        return np.stack([stats[..., 0] + 1.0, self._next[state, outcome.astype(np.int64)]], axis=-1)

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.zeros((*stats.shape[:-1], 0))  # nothing is unknown but what happens

    def mean_at(self, parameters: Floats) -> Floats:
        raise InvalidArgument("own arms: they have states and no parameters")

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return self.from_stream(rng.random(stats.shape[:-1]), stats)

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return self.mean(stats)

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        """States with fewer outcomes than others have ones of probability 0."""
        state = stats[..., 1].astype(np.int64)
        following = self._next[state]
        pulls = np.broadcast_to(stats[..., :1] + 1.0, following.shape)
        return self._chances[state], np.stack([pulls, following], axis=-1)

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        return rng.random((len(parameters), pulls))

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        below = self._below[stats[..., 1].astype(np.int64)]
        return np.asarray((drawn[..., None] >= below).sum(axis=-1), dtype=float)


class MarkovFormat(OutcomeFormat[MarkovModel]):
    """Statistics are written state/pulls; a tally is the outcomes in the order of the pulls."""

    outcomes = "own"
    no_tally: Stats = ()

    @cached_property
    def choices(self) -> tuple[str, ...]:
        states = self.model.table.states.values()
        return tuple(dict.fromkeys(name for state in states for name in state.next))

    def _outcomes(self, stats: Stats) -> list[str]:
        return list(self.model.table.states[self.describe(stats)].next)

    def describe(self, stats: Stats) -> str:
        return self.model.names[int(stats[1])]

    def write(self, stats: Stats) -> str:
        return f"{self.describe(stats)}/{int(stats[0])}"

    def read(self, text: str) -> Stats:
        names = self.model.names
        name, slash, pulls = text.strip().partition("/")
        if not slash or not is_count(pulls) or name not in names:
            raise InvalidArgument(f"{text!r}; must be state/pulls, for example {names[0]}/0")
        return (int(pulls), names.index(name))

    def check(self, stats: Stats) -> None:
        if stats[0] < 0 or not 0 <= stats[1] < len(self.model.names):
            raise InvalidArgument(f"{stats}; must be pulls, and the position of a state")

    def read_truth(self, value: object) -> Stats:
        if value not in ("-", None):
            raise InvalidArgument(
                f'{shown(value)} is not allowed; must be "-": own states have no parameters'
            )
        return ()

    def read_outcome(self, text: object, stats: Stats) -> float:
        names = self._outcomes(stats)
        if text not in names:
            raise no_outcome(text, f"{' or '.join(names)} in state {self.describe(stats)}")
        return float(names.index(str(text)))

    def plain(self, value: object) -> Outcome:
        if value not in self.choices:
            raise no_outcome(value, " or ".join(self.choices))
        return str(value)

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return self._outcomes(stats)[int(outcome)]

    def typed(self, text: str) -> Outcome:
        return self.plain(text)

    # a tally: positions of the outcomes among the choices

    def tally(self, outcomes: Sequence[Outcome]) -> Stats:
        return tuple(float(self.choices.index(str(self.plain(outcome)))) for outcome in outcomes)

    def tally_pulls(self, tally: Stats) -> int:
        return len(tally)

    def sole(self, tally: Stats) -> Outcome:
        return self.choices[int(tally[0])]

    def joined(self, tally: Stats, more: Stats) -> Stats:
        return tally + more

    def after_tally(self, stats: Stats, tally: Stats) -> Stats:
        return self._walk(stats, tally)[-1]

    def tally_value(self, stats: Stats, tally: Stats) -> float:
        before = np.array(self._walk(stats, tally)[:-1], dtype=float).reshape(-1, 2)
        return float(self.model.mean(before).sum())

    def read_tally(self, text: str) -> Stats:
        return self.tally([part.strip() for part in text.split("+")] if text.strip() else [])

    def write_tally(self, tally: Stats) -> str:
        return "+".join(self.choices[int(place)] for place in tally)

    @property
    def tally_form(self) -> tuple[str, str]:
        example = "+".join((self.choices * 2)[:2])
        return f"outcomes in the order of the pulls, such as {example}", "+"

    def _walk(self, stats: Stats, tally: Stats) -> list[Stats]:
        """Statistics before each outcome and after all; a ValueError where one cannot follow."""
        states = [stats]
        for position in tally:
            outcome = np.array(self.read_outcome(self.choices[int(position)], states[-1]))
            after = self.model.update(np.array(states[-1], dtype=float), outcome)
            states.append(tuple(after.tolist()))
        return states
