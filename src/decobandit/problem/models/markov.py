"""Arms with states, and probabilities of moves between them by a pull, and perhaps at rest.

`MarkovArm` has named states and outcomes, `Chain` two transition matrices. An arm that also moves,
or earns, where it is not pulled is *restless*: all arms of its problem then move at every stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...support import Floats, Ints, InvalidArgument, is_count, refuse
from ..fields import (
    Chance,
    Checked,
    FirstErrorOfTable,
    Frozen,
    Number,
    Word,
    finite_array,
    plain_init,
)
from .base import ArmModel, Outcome, OutcomesInOrder, PriorTable, Stats, no_outcome
from .categorical import SUM_TOLERANCE

MOST_OWN_STATES = 10_000
MOST_CHAIN_STATES = 1_000  # whose matrices are dense


class Moves(NamedTuple):
    """Moves from every state, J each; some may have probability 0."""

    probabilities: Floats  # (S, J)
    after: Ints  # (S, J) next states
    below: Floats  # (S, J - 1) probability of a move or one before it

    @classmethod
    def of(cls, probabilities: Floats, after: Ints) -> Self:
        """Return moves; they are certain from the last possible one on, in spite of rounding."""
        last = probabilities.shape[1] - 1 - (probabilities[:, ::-1] > 0.0).argmax(axis=1)
        certain = np.arange(probabilities.shape[1]) >= last[:, None]
        below = np.where(certain, 1.0, np.cumsum(probabilities, axis=1))[:, :-1]
        return cls(probabilities, after, below)

    def drawn(self, u: Floats, state: Ints) -> Ints:
        """Return the positions of moves decided by uniform numbers, (...)."""
        return np.asarray((u[..., None] >= self.below[state]).sum(axis=-1))


class StateArrays(NamedTuple):
    """An arm given by states and moves between them, S states."""

    names: tuple[str, ...]
    first: Floats  # (S,) probabilities of the first state
    rest_reward: Floats  # (S,) expected reward of a stage without a pull
    reward: Floats  # (S,) expected reward of a pull
    rest: Moves
    pull: Moves
    outcomes: Sequence[Sequence[str]]  # of a pull in every state, by name


class MarkovState(Frozen):
    """A state of a Markov arm: the expected reward of a pull, and the next states.

    Examples
    --------
    >>> from decobandit import MarkovState
    >>> MarkovState(mean=0.5, next={"hit": (0.5, "up"), "miss": (0.5, "down")}).mean
    0.5
    """

    mean: Number = Field(description="Expected reward of a pull.")
    next: Annotated[dict[Word, tuple[Chance, Word]], FirstErrorOfTable] = Field(
        description="Probability and next state of every outcome; the probabilities sum to 1."
    )
    rest: Annotated[dict[Word, Chance], FirstErrorOfTable] | None = Field(
        default=None,
        description="Probabilities of the next states without a pull; it stays by default.",
    )
    rest_reward: Number = Field(default=0.0, description="Expected reward if it is not pulled.")

    @model_validator(mode="after")
    def _check_chances(self) -> Self:
        sums = {"next": math.fsum(probability for probability, _ in self.next.values())}
        if self.rest is not None:
            sums["rest"] = math.fsum(self.rest.values())
        for key, total in sums.items():
            if abs(total - 1.0) > SUM_TOLERANCE:
                refuse("must have probabilities that sum to 1", found=total, at=(key,))
        return self

    @model_serializer(mode="wrap")
    def _leave_out_rest(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        table = handler(self)
        if self.rest is None and self.rest_reward == 0.0:
            return {key: table[key] for key in ("mean", "next")}
        return {key: value for key, value in table.items() if value is not None}


class MarkovArm(PriorTable):
    """A Markov arm: named states, and the probabilities of moving between them.

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
        description="The states by name, each a MarkovState or a table of mean and next."
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
            for to in state.rest or ():
                _check_name(to, self.states, ("states", name, "rest", to))
        return self

    @property
    def restless(self) -> bool:
        states = self.states.values()
        return any(state.rest is not None or state.rest_reward for state in states)

    def arm_model(self, arm: Any) -> MarkovModel:
        return MarkovModel(self)

    def arrays(self) -> StateArrays:
        """Return states and moves as arrays."""
        states, place = self.states.values(), {name: k for k, name in enumerate(self.states)}

        def moves(rows: list[list[tuple[float, str]]]) -> Moves:
            probabilities = np.zeros((len(rows), max(map(len, rows))))
            after = np.zeros(probabilities.shape, np.int64)
            for k, row in enumerate(rows):
                probabilities[k, : len(row)] = [probability for probability, _ in row]
                after[k, : len(row)] = [place[to] for _, to in row]
            return Moves.of(probabilities, after)

        rests = [{name: 1.0} if s.rest is None else s.rest for name, s in self.states.items()]
        return StateArrays(
            names=tuple(self.states),
            first=np.array([float(name == self.first) for name in self.states]),
            rest_reward=np.array([state.rest_reward for state in states]),
            reward=np.array([state.mean for state in states]),
            rest=moves([[(probability, to) for to, probability in law.items()] for law in rests]),
            pull=moves([list(state.next.values()) for state in states]),
            outcomes=[list(state.next) for state in states],
        )


def _check_name(name: str, states: Mapping[str, MarkovState], at: tuple[int | str, ...]) -> None:
    if name not in states:
        refuse(f"must be one of the states: {', '.join(list(states)[:8])}", found=name, at=at)


def _check_matrix(value: object) -> tuple[tuple[float, ...], ...]:
    rule = "must be a square matrix of probabilities: rows of numbers, zero or more, that sum to 1"
    matrix = finite_array(value.toarray() if hasattr(value, "toarray") else value, 2, rule)
    if matrix.shape[0] != matrix.shape[1] or not 1 <= len(matrix) <= MOST_CHAIN_STATES:
        refuse(f"{rule}; at most {MOST_CHAIN_STATES} states", found=matrix.shape)
    sums = matrix.sum(axis=1)
    for row in np.flatnonzero((matrix < 0.0).any(axis=1)):
        refuse("must be zero or more", found=float(matrix[row].min()), at=(int(row),))
    for row in np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE):
        refuse("must have probabilities that sum to 1", found=float(sums[row]), at=(int(row),))
    return tuple(map(tuple, matrix.tolist()))


def _check_vector(value: object) -> tuple[float, ...]:
    return tuple(finite_array(value, 1, "must be a list of numbers, one per state").tolist())


def _check_first(value: object) -> int | tuple[float, ...]:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    rule = "must be the number of a state, or a list of probabilities that sum to 1"
    law = finite_array(value, 1, rule)
    if abs(law.sum() - 1.0) > SUM_TOLERANCE or (law < 0.0).any():
        refuse(rule, found=law.tolist())
    return tuple(law.tolist())


_NUMBERS = {"type": "array", "items": {"type": "number"}}
_CHANCES = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}}
Matrix = Annotated[
    tuple[tuple[float, ...], ...], Checked(_check_matrix, {"type": "array", "items": _CHANCES})
]
Vector = Annotated[tuple[float, ...], Checked(_check_vector, _NUMBERS)]
FirstState = Annotated[
    int | tuple[float, ...],
    Checked(_check_first, {"anyOf": [{"type": "integer", "minimum": 0}, _CHANCES]}),
]


class Chain(PriorTable):
    """A restless arm: a Markov chain that moves by one matrix at rest and by another when pulled.

    Its states, numbered from 0, are observed. Matrices are lists of rows, arrays or sparse
    matrices.

    Examples
    --------
    >>> from decobandit import Chain, Problem
    >>> wear = Chain([[0.9, 0.1], [0, 1]], [[1, 0], [1, 0]], [1, 0.2], [0.5, 0.5])
    >>> Problem.uniform(arms=3, horizon=10, prior=wear).groups[0].model.restless
    True
    """

    kind: Literal["chain"] = "chain"
    rest: Matrix = Field(description="Transition probabilities of an arm that is not pulled.")
    pull: Matrix = Field(description="Transition probabilities of an arm that is pulled.")
    rest_reward: Vector = Field(description="Expected reward at rest, by state.")
    reward: Vector = Field(description="Expected reward of a pull, by state.")
    first: FirstState = Field(
        default=0,
        description="First state, or probabilities of all states; observed before the first "
        "decision.",
    )

    @property
    def restless(self) -> bool:
        return True

    @plain_init
    def __init__(
        self, rest: Any, pull: Any, rest_reward: Any, reward: Any, first: Any = 0, **kind: Any
    ) -> None:
        rewards = {"rest_reward": rest_reward, "reward": reward}
        super().__init__(rest=rest, pull=pull, **rewards, first=first, **kind)

    def __hash__(self) -> int:  # equal arms mostly share one object: matrices are rarely compared
        return hash((self.rest_reward, self.reward, self.first))

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        states = len(self.rest)
        for key in ("pull", "rest_reward", "reward", "first"):
            value = getattr(self, key)
            if isinstance(value, tuple) and len(value) != states:
                refuse(f"must be of {states} states, as rest", found=len(value), at=(key,))
        if isinstance(self.first, int) and not 0 <= self.first < states:
            refuse(f"must be 0 to {states - 1}", found=self.first, at=("first",))
        return self

    def arm_model(self, arm: Any) -> MarkovModel:
        return MarkovModel(self)

    def arrays(self) -> StateArrays:
        """Return states and moves as arrays."""
        number = len(self.rest)
        names = tuple(map(str, range(number)))
        after = np.broadcast_to(np.arange(number), (number, number))
        first = np.eye(number)[self.first] if isinstance(self.first, int) else np.array(self.first)
        return StateArrays(
            names=names,
            first=first,
            rest_reward=np.array(self.rest_reward),
            reward=np.array(self.reward),
            rest=Moves.of(np.array(self.rest), after),
            pull=Moves.of(np.array(self.pull), after),
            outcomes=[names] * number,
        )


class MarkovFormat(OutcomesInOrder[Any]):
    """Statistics are written state/pulls; a tally is the outcomes in the order of the pulls."""

    outcomes = "own"
    truths = None
    truth_rule = 'must be "-": Markov arms have no parameters'

    def __init__(self, model: MarkovModel) -> None:
        super().__init__(model)
        if model.restless:
            self.choices = model.arrays.names
            self.tally_form = f"the state after the stage, such as {self.choices[0]}", "+"
        else:
            every = (name for names in model.arrays.outcomes for name in names)
            self.choices = tuple(dict.fromkeys(every))
            example = "+".join((self.choices * 2)[:2])
            self.tally_form = f"outcomes in the order of the pulls, such as {example}", "+"

    def _outcomes(self, stats: Stats) -> dict[str, int]:
        """Positions of the outcomes that are possible in a state, by name."""
        arrays, state = self.model.arrays, int(stats[1])
        possible = arrays.pull.probabilities[state] > 0.0
        return {name: k for k, name in enumerate(arrays.outcomes[state]) if possible[k]}

    def describe(self, stats: Stats) -> str:
        return str(self.model.arrays.names[int(stats[1])])

    def write(self, stats: Stats) -> str:
        return f"{self.describe(stats)}/{int(stats[0])}"

    def read(self, text: str) -> Stats:
        names = self.model.arrays.names
        name, slash, pulls = text.strip().partition("/")
        if not slash or not is_count(pulls) or name not in names:
            raise InvalidArgument(f"{text!r}; must be state/pulls, for example {names[0]}/0")
        return (int(pulls), names.index(name))

    def check(self, stats: Stats) -> None:
        if stats[0] < 0 or not 0 <= stats[1] < len(self.model.arrays.names):
            raise InvalidArgument(f"{stats}; must be pulls, and the position of a state")

    def read_outcome(self, text: object, stats: Stats) -> float:
        names = self._outcomes(stats)
        if text not in names:
            raise no_outcome(text, f"{' or '.join(names)} in state {self.describe(stats)}")
        return float(names[str(text)])

    def plain(self, value: object) -> Outcome:
        if value not in self.choices:
            raise no_outcome(value, " or ".join(self.choices))
        return str(value)

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return str(self.model.arrays.outcomes[int(stats[1])][int(outcome)])

    def typed(self, text: str) -> Outcome:
        return self.plain(text)

    # a tally: positions of the outcomes among the choices

    def tally(self, outcomes: Sequence[Outcome]) -> Stats:
        return tuple(float(self.choices.index(str(self.plain(outcome)))) for outcome in outcomes)

    def sole(self, tally: Stats) -> Outcome:
        return self.choices[int(tally[0])]

    def after_tally(self, stats: Stats, tally: Stats) -> Stats:
        return self._walk(stats, tally)[-1]

    def tally_value(self, stats: Stats, tally: Stats) -> float:
        before = np.array(self._walk(stats, tally)[:-1], dtype=float).reshape(-1, 2)
        return float(self.model.mean(before).sum())

    def write_tally(self, tally: Stats) -> str:
        return "+".join(self.choices[int(place)] for place in tally)

    def _walk(self, stats: Stats, tally: Stats) -> list[Stats]:
        """Statistics before each outcome and after all; a ValueError where one cannot follow."""
        states = [stats]
        for position in tally:
            if self.model.restless:
                states.append(self.model.following(states[-1], position, pulled=True))
                continue
            outcome = np.array(self.read_outcome(self.choices[int(position)], states[-1]))
            after = self.model.update(np.array(states[-1], dtype=float), outcome)
            states.append(tuple(after.tolist()))
        return states


@dataclass(frozen=True)
class MarkovModel(ArmModel):
    """Statistics: pulls, position of the state. An outcome: its position in the state's outcomes.

    A restless arm that is not pulled changes its state, and not its pulls.
    """

    table: MarkovArm | Chain

    word = "own"
    format_class = MarkovFormat
    finite = True
    ordered = True
    has_law = False
    width = 2

    @cached_property
    def arrays(self) -> StateArrays:
        """States and moves as arrays."""
        return self.table.arrays()

    @cached_property
    def restless(self) -> bool:
        return self.table.restless

    @property
    def rests_observed(self) -> bool:
        return self.restless

    def states(self, pulls: int) -> float:
        return float(len(self.arrays.names))

    def reached(self, stages: int) -> Floats:
        return np.arange(float(len(self.arrays.names)))

    @property
    def usual(self) -> tuple[float, float]:
        rewards = self.arrays.reward
        if self.restless:
            rewards = np.concatenate([rewards, self.arrays.rest_reward])
        return float(rewards.min()), float(rewards.max())

    def links(self, state: int) -> list[tuple[float, int]]:
        """Return probabilities of the outcomes of a pull in a state, and the states that follow."""
        pull = self.arrays.pull
        pairs = zip(pull.probabilities[state].tolist(), pull.after[state].tolist(), strict=True)
        return [(probability, to) for probability, to in pairs if probability > 0.0]

    def initial(self) -> Stats:
        return (0, int(self.arrays.first.argmax()))

    def first_states(self) -> tuple[Floats, Floats]:
        possible = np.flatnonzero(self.arrays.first)
        stats = np.stack([np.zeros(possible.size), possible.astype(float)], axis=-1)
        return self.arrays.first[possible], stats

    def mean(self, stats: Floats) -> Floats:
        return self.arrays.reward[_state(stats)]

    def rest_mean(self, stats: Floats) -> Floats:
        return self.arrays.rest_reward[_state(stats)]

    def sd(self, stats: Floats) -> Floats:
        raise InvalidArgument("Markov arms: the mean of a state is known, it has no deviation")

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        after = self.arrays.pull.after[_state(stats), outcome.astype(np.int64)]
        return np.stack([stats[..., 0] + 1.0, after], axis=-1)

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.zeros((*stats.shape[:-1], 0))  # nothing is unknown but what happens

    def mean_at(self, parameters: Floats) -> Floats:
        raise InvalidArgument("Markov arms: they have states and no parameters")

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return self.from_stream(rng.random(stats.shape[:-1]), stats)

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return self.mean(stats)

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        """States with fewer outcomes than others have ones of probability 0."""
        return self._moved(self.arrays.pull, stats, 1.0)

    def rest_transitions(self, stats: Floats) -> tuple[Floats, Floats]:
        return self._moved(self.arrays.rest, stats, 0.0)

    @staticmethod
    def _moved(moves: Moves, stats: Floats, pulls: float) -> tuple[Floats, Floats]:
        """Return probabilities (..., J) and statistics (..., J, 2) after a move."""
        state = _state(stats)
        after = np.asarray(moves.after[state], dtype=float)
        taken = np.broadcast_to(stats[..., :1] + pulls, after.shape)
        return moves.probabilities[state], np.stack([taken, after], axis=-1)

    def following(self, stats: Stats, state: float, *, pulled: bool) -> Stats:
        """Return the statistics after a stage that ended in a state; refuse impossible ones."""
        moves = self.transitions if pulled else self.rest_transitions
        probabilities, after = moves(np.array(stats, dtype=float))
        if not probabilities[after[:, 1] == state].any():
            before, name = (self.arrays.names[int(x)] for x in (stats[1], state))
            way = "by a pull" if pulled else "at rest"
            raise InvalidArgument(f"{name} does not follow {before} {way}")
        return (stats[0] + pulled, state)

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        return rng.random((len(parameters), pulls))

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        return self.arrays.pull.drawn(drawn, _state(stats)).astype(float)

    def rested(self, drawn: Floats, stats: Floats) -> Floats:
        rest, state = self.arrays.rest, _state(stats)
        return np.stack([stats[..., 0], rest.after[state, rest.drawn(drawn, state)]], axis=-1)


def _state(stats: Floats) -> Ints:
    return stats[..., 1].astype(np.int64)
