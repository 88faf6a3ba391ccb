"""An arm of the user's own: named states, and where a pull leads from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...support import Floats, is_count, shown
from ..priors import OwnStates
from .base import ArmModel, Outcome, Stats


@dataclass(frozen=True)
class Own(ArmModel):
    """Statistics: pulls, position of the state. An outcome: its position in the state's `next`."""

    table: OwnStates

    word = "own"
    finite = True
    ordered = True
    has_law = False
    width = 2

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
        return self._by_outcome(lambda link: link[0], 0.0)

    @cached_property
    def _below(self) -> Floats:
        """Chance of an outcome or one before it: sure from a state's last one on, in spite of
        rounding.
        """
        last = [len(state.next) - 1 for state in self.table.states.values()]
        outcomes = np.arange(self._chances.shape[1])
        sure = outcomes >= np.array(last)[:, None]
        return np.where(sure, 1.0, np.cumsum(self._chances, axis=1))[:, :-1]

    @cached_property
    def _next(self) -> Floats:
        return self._by_outcome(lambda link: float(self.names.index(link[1])), 0.0)

    def _by_outcome(self, part: Callable[[tuple[float, str]], float], empty: float) -> Floats:
        rows = [list(map(part, state.next.values())) for state in self.table.states.values()]
        widest = max(map(len, rows))
        return np.array([row + [empty] * (widest - len(row)) for row in rows])

    def links(self, state: int) -> list[tuple[float, int]]:
        """Chances of the outcomes of a pull in a state, and the states that follow."""
        found = self.table.states[self.names[state]].next.values()
        return [(chance, self.names.index(to)) for chance, to in found]

    def initial(self) -> Stats:
        return (0, self.names.index(self.table.first))

    def pulls(self, stats: Floats) -> Floats:
        return stats[..., 0]

    def mean(self, stats: Floats) -> Floats:
        return self.means[stats[..., 1].astype(np.int64)]

    def sd(self, stats: Floats) -> Floats:
        raise ValueError("own arms: their states say nothing of how sure a mean is")

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
        raise ValueError("own arms: they have states and no parameters")

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return self.from_stream(rng.random(stats.shape[:-1]), stats)

    def read_truth(self, given: object) -> Stats:
        if given not in ("-", None):
            raise ValueError(
                f'{shown(given)} is not allowed; must be "-": own states have no parameters'
            )
        return ()

    def following(self, stats: Stats, parameters: Stats | None = None) -> list[tuple[float, Stats]]:
        return [(chance, (stats[0] + 1, to)) for chance, to in self.links(int(stats[1]))]

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        return rng.random((len(parameters), pulls))

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        below = self._below[stats[..., 1].astype(np.int64)]
        return np.asarray((drawn[..., None] >= below).sum(axis=-1), dtype=float)

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return self.mean(stats)

    def describe(self, stats: Stats) -> str:
        return self.names[int(stats[1])]

    def write(self, stats: Stats) -> str:
        return f"{self.names[int(stats[1])]}/{int(stats[0])}"

    def read(self, text: str) -> Stats:
        name, slash, pulls = text.strip().partition("/")
        if not slash or not is_count(pulls) or name not in self.names:
            raise ValueError(f"{text!r}; must be state/pulls, for example {self.names[0]}/0")
        return (int(pulls), self.names.index(name))

    def check(self, stats: Stats) -> None:
        if stats[0] < 0 or not 0 <= stats[1] < len(self.names):
            raise ValueError(f"{stats}; must be pulls, and the position of a state")

    def read_outcome(self, text: object, stats: Stats) -> float:
        names = list(self.table.states[self.names[int(stats[1])]].next)
        if text not in names:
            said = f"must be {' or '.join(names)} in state {self.names[int(stats[1])]}"
            raise ValueError(f"outcome {shown(text)}; {said}")
        return float(names.index(str(text)))

    def plain(self, given: object) -> Outcome:
        if given not in self.choices:
            raise ValueError(f"outcome {shown(given)}; must be {' or '.join(self.choices)}")
        return str(given)

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return list(self.table.states[self.names[int(stats[1])]].next)[int(outcome)]

    def typed(self, text: str) -> Outcome:
        return self.plain(text)

    @property
    def choices(self) -> tuple[str, ...]:
        names = {name: None for state in self.table.states.values() for name in state.next}
        return tuple(names)

    # -- a tally: positions of the outcomes among the choices, in the order of the pulls --------

    def tally(self, outcomes: Sequence[Outcome]) -> Stats:
        return tuple(float(self.choices.index(str(self.plain(each)))) for each in outcomes)

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
        return float(self.mean(before).sum())

    def read_tally(self, text: str) -> Stats:
        return self.tally([part.strip() for part in text.split("+")] if text.strip() else [])

    def write_tally(self, tally: Stats) -> str:
        return "+".join(self.choices[int(each)] for each in tally)

    @property
    def tally_form(self) -> tuple[str, str]:
        example = "+".join((self.choices * 2)[:2])
        return f"outcomes in the order of the pulls, such as {example}", "+"

    @property
    def no_tally(self) -> Stats:
        return ()

    def _walk(self, stats: Stats, tally: Stats) -> list[Stats]:
        """Statistics before each outcome and after all; a ValueError where one cannot follow."""
        found = [stats]
        for each in tally:
            outcome = np.array(self.read_outcome(self.choices[int(each)], found[-1]))
            after = self.update(np.array(found[-1], dtype=float), outcome)
            found.append(tuple(after.tolist()))
        return found
