"""Arms with states, and the chances of going from one to another by a pull, and perhaps at rest.

`MarkovArm` has named states and outcomes, `Chain` two transition matrices. An arm that also moves,
or earns, where it is not pulled is *restless*: all arms of its problem then move at every stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ...support import Floats, Ints, InvalidArgument, is_count, refuse, shown
from ..fields import Chance, Checked, FirstErrorOfTable, Number, Word, finite_array
from ..model_base import Frozen, plain_init
from .base import ArmModel, Outcome, OutcomeFormat, PriorTable, Stats, no_outcome
from .categorical import SUM_TOLERANCE

MOST_OWN_STATES = 10_000
MOST_CHAIN_STATES = 1_000  # whose matrices are dense


class MarkovState(Frozen):
    """A state of a Markov arm: the expected reward of a pull, and the next states.

    Parameters
    ----------
    mean : float
        Expected reward of a pull.
    next : mapping
        For each outcome, by name: its probability and the next state. Probabilities sum to 1.
    rest : mapping, optional
        Probabilities of the next states, by name, if the arm is not pulled; they sum to 1. It
        stays by default.
    rest_reward : float
        Expected reward of a stage at which the arm is not pulled.

    Examples
    --------
    >>> from decobandit import MarkovState
    >>> MarkovState(mean=0.5, next={"hit": (0.5, "up"), "miss": (0.5, "down")}).mean
    0.5
    """

    mean: Number = Field(description="Expected reward of a pull.")
    next: Annotated[dict[Word, tuple[Chance, Word]], FirstErrorOfTable] = Field(
        description="By outcome: its probability, and the next state."
    )
    rest: Annotated[dict[Word, Chance], FirstErrorOfTable] | None = Field(
        default=None, description="Where the arm goes if it is not pulled: probabilities by state."
    )
    rest_reward: Number = Field(default=0.0, description="Expected reward if it is not pulled.")

    @model_validator(mode="after")
    def _check_chances(self) -> Self:
        sums = {"next": math.fsum(chance for chance, _ in self.next.values())}
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

    Parameters
    ----------
    first : str
        The state of an arm that has not been pulled.
    states : mapping
        For each name, a `MarkovState` or a table of `mean` and `next`.

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
            for to in state.rest or ():
                _check_name(to, self.states, ("states", name, "rest", to))
        return self

    @property
    def restless(self) -> bool:
        states = self.states.values()
        return any(state.rest is not None or state.rest_reward for state in states)

    def arm_model(self, arm: Any) -> MarkovModel:
        return MarkovModel(self)

    # -- what the model asks for --------------------------------------------------------------

    def rewards(self) -> tuple[Floats, Floats]:
        """Return the expected rewards of a stage at rest and of a pull, by state."""
        states = self.states.values()
        rest = np.array([state.rest_reward for state in states])
        return rest, np.array([state.mean for state in states])

    def pull_moves(self) -> tuple[Floats, Ints]:
        """Probabilities of the outcomes of a pull, (S, J), and the next states."""
        states = self.states.values()
        return self._moves([list(state.next.values()) for state in states])

    def rest_moves(self) -> tuple[Floats, Ints]:
        """Probabilities of the moves of an arm at rest, (S, J), and the next states."""
        rows = []
        for name, state in self.states.items():
            law = {name: 1.0} if state.rest is None else state.rest
            rows.append([(chance, to) for to, chance in law.items()])
        return self._moves(rows)

    def _moves(self, rows: list[list[tuple[float, str]]]) -> tuple[Floats, Ints]:
        place = {name: number for number, name in enumerate(self.states)}
        chances = np.zeros((len(rows), max(map(len, rows))))
        after = np.zeros(chances.shape, np.int64)
        for number, row in enumerate(rows):
            chances[number, : len(row)] = [chance for chance, _ in row]
            after[number, : len(row)] = [place[to] for _, to in row]
        return chances, after

    def first_law(self) -> Floats:
        """Probabilities of the first state of an arm, (S,)."""
        return np.array([float(name == self.first) for name in self.states])

    def state_names(self) -> tuple[str, ...]:
        """Names of the states."""
        return tuple(self.states)

    def outcome_names(self, state: int) -> list[str]:
        """Names of the outcomes of a pull in a state, in the order of the file."""
        return list(self.states[self.state_names()[state]].next)


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

    Parameters
    ----------
    rest, pull : matrix
        (S, S) transition probabilities of an arm that is not pulled, and of one that is.
    rest_reward, reward : sequence of float
        (S,) expected reward of a stage by state, without and with a pull.
    first : int or sequence of float
        State of an arm before the first stage, or probabilities of all states; observed before the
        first decision.

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
    first: FirstState = Field(default=0, description="First state, or probabilities of all states.")

    @property
    def restless(self) -> bool:
        return True

    @plain_init
    def __init__(
        self,
        rest: Any,
        pull: Any,
        rest_reward: Any,
        reward: Any,
        first: Any = 0,
        *,
        kind: Any = "chain",
    ) -> None:
        rewards = {"rest_reward": rest_reward, "reward": reward}
        super().__init__(kind=kind, rest=rest, pull=pull, **rewards, first=first)

    def __hash__(self) -> int:  # equal arms mostly share one object: matrices are rarely compared
        return hash((self.rest_reward, self.reward, self.first))

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        states = len(self.rest)
        for key in ("pull", "rest_reward", "reward"):
            if len(getattr(self, key)) != states:
                rule = f"must be of {states} states, as rest"
                refuse(rule, found=len(getattr(self, key)), at=(key,))
        if isinstance(self.first, int):
            if not 0 <= self.first < states:
                refuse(f"must be 0 to {states - 1}", found=self.first, at=("first",))
        elif len(self.first) != states:
            refuse(f"must be of {states} states, as rest", found=len(self.first), at=("first",))
        return self

    def arm_model(self, arm: Any) -> MarkovModel:
        return MarkovModel(self)

    def rewards(self) -> tuple[Floats, Floats]:
        """Return the expected rewards of a stage at rest and of a pull, by state."""
        return np.array(self.rest_reward), np.array(self.reward)

    def pull_moves(self) -> tuple[Floats, Ints]:
        """Probabilities of the next states after a pull, (S, S), and their numbers."""
        return self._moves(self.pull)

    def rest_moves(self) -> tuple[Floats, Ints]:
        """Probabilities of the next states at rest, (S, S), and their numbers."""
        return self._moves(self.rest)

    @staticmethod
    def _moves(matrix: tuple[tuple[float, ...], ...]) -> tuple[Floats, Ints]:
        chances = np.array(matrix)
        return chances, np.broadcast_to(np.arange(len(chances)), chances.shape)

    def first_law(self) -> Floats:
        """Probabilities of the first states, (S,)."""
        if isinstance(self.first, int):
            return np.asarray(np.eye(len(self.rest))[self.first])
        return np.array(self.first)

    def state_names(self) -> tuple[str, ...]:
        """Names of the states: their numbers."""
        return tuple(map(str, range(len(self.rest))))

    def outcome_names(self, state: int) -> tuple[str, ...]:
        """Names of the outcomes of a pull: the states that follow."""
        return self.state_names()


@dataclass(frozen=True)
class MarkovModel(ArmModel):
    """Statistics: pulls, position of the state. An outcome: its position in the state's outcomes.

    A restless arm that is not pulled changes its state, and not its pulls.
    """

    table: MarkovArm | Chain

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
        """Names of the states, in order."""
        return self.table.state_names()

    @cached_property
    def restless(self) -> bool:
        return self.table.restless

    def states(self, pulls: int) -> float:
        return float(len(self.names))

    def reached(self, stages: int) -> Floats:
        return np.arange(float(len(self.names)))

    @cached_property
    def rewards(self) -> tuple[Floats, Floats]:
        """Expected rewards of a stage at rest, and of a pull, by state."""
        return self.table.rewards()

    @property
    def means(self) -> Floats:
        """Expected reward of a pull by state."""
        return self.rewards[1]

    @property
    def usual(self) -> tuple[float, float]:
        rewards = np.concatenate(self.rewards) if self.restless else self.means
        return float(rewards.min()), float(rewards.max())

    @cached_property
    def _moves(self) -> tuple[Floats, Ints]:
        return self.table.pull_moves()

    @cached_property
    def _rest_moves(self) -> tuple[Floats, Ints]:
        return self.table.rest_moves()

    @cached_property
    def _below(self) -> Floats:
        return _cumulated(self._moves[0])

    @cached_property
    def _rest_below(self) -> Floats:
        return _cumulated(self._rest_moves[0])

    @cached_property
    def first_law(self) -> Floats:
        """Probabilities of the first states, (S,)."""
        return self.table.first_law()

    def links(self, state: int) -> list[tuple[float, int]]:
        """Chances of the outcomes of a pull in a state, and the states that follow."""
        pairs = zip(*(part[state].tolist() for part in self._moves), strict=True)
        return [(chance, to) for chance, to in pairs if chance > 0.0]

    def moves(self, pulled: bool) -> tuple[Ints, Ints, Floats]:
        """Return the transitions of states: their number (S,), next states and probabilities."""
        chances, after = self._moves if pulled else self._rest_moves
        possible = chances > 0.0
        return possible.sum(axis=1), after[possible], chances[possible]

    def initial(self) -> Stats:
        return (0, int(self.first_law.argmax()))

    def first_states(self) -> tuple[Floats, Floats]:
        possible = np.flatnonzero(self.first_law)
        stats = np.stack([np.zeros(possible.size), possible.astype(float)], axis=-1)
        return self.first_law[possible], stats

    def pulls(self, stats: Floats) -> Floats:
        return stats[..., 0]

    def mean(self, stats: Floats) -> Floats:
        return self.means[stats[..., 1].astype(np.int64)]

    def rest_mean(self, stats: Floats) -> Floats:
        return self.rewards[0][stats[..., 1].astype(np.int64)]

    def sd(self, stats: Floats) -> Floats:
        raise InvalidArgument("own arms: their states say nothing of how sure a mean is")

    def excess(self, stats: Floats, c: Floats) -> Floats:
        state = stats[..., 1].astype(np.int64)
        chances, after = self._moves
        beyond = np.maximum(self.means[after[state]] - np.asarray(c)[..., None], 0.0)
        return np.asarray((chances[state] * beyond).sum(axis=-1))

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        state = stats[..., 1].astype(np.int64)
        after = self._moves[1][state, outcome.astype(np.int64)]
        return np.stack([stats[..., 0] + 1.0, after], axis=-1)

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
        return self._led(self._moves, stats, 1.0)

    def rest_transitions(self, stats: Floats) -> tuple[Floats, Floats]:
        return self._led(self._rest_moves, stats, 0.0)

    @staticmethod
    def _led(moves: tuple[Floats, Ints], stats: Floats, pulls: float) -> tuple[Floats, Floats]:
        """Chances and statistics after a move of several pulls, (..., J) and (..., J, 2)."""
        state = stats[..., 1].astype(np.int64)
        after = np.asarray(moves[1][state], dtype=float)
        had = np.broadcast_to(stats[..., :1] + pulls, after.shape)
        return np.asarray(moves[0][state]), np.stack([had, after], axis=-1)

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        return rng.random((len(parameters), pulls))

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        below = self._below[stats[..., 1].astype(np.int64)]
        return np.asarray((drawn[..., None] >= below).sum(axis=-1), dtype=float)

    def rested(self, drawn: Floats, stats: Floats) -> Floats:
        state = stats[..., 1].astype(np.int64)
        way = (drawn[..., None] >= self._rest_below[state]).sum(axis=-1)
        return np.stack([stats[..., 0], self._rest_moves[1][state, way]], axis=-1)

    def begun(self, drawn: Floats) -> Floats:
        state = (drawn[..., None] >= _cumulated(self.first_law[None])[0]).sum(axis=-1)
        return np.stack([np.zeros(drawn.shape), state], axis=-1)


def _cumulated(chances: Floats) -> Floats:
    """Return the chances of an outcome or one before it, (S, J - 1).

    They are sure from the last possible one on, in spite of rounding.
    """
    last = chances.shape[1] - 1 - (chances[:, ::-1] > 0.0).argmax(axis=1)
    sure = np.arange(chances.shape[1]) >= last[:, None]
    return np.where(sure, 1.0, np.cumsum(chances, axis=1))[:, :-1]


class MarkovFormat(OutcomeFormat[MarkovModel]):
    """Statistics are written state/pulls; a tally is the outcomes in the order of the pulls."""

    outcomes = "own"
    no_tally: Stats = ()

    @cached_property
    def choices(self) -> tuple[str, ...]:
        if self.model.restless:  # told of are the states after a stage, pulled or not
            return self.model.names
        table, states = self.model.table, range(len(self.model.names))
        return tuple(dict.fromkeys(name for state in states for name in table.outcome_names(state)))

    def _outcomes(self, stats: Stats) -> dict[str, int]:
        """Positions of the outcomes that are possible in a state, by name."""
        state = int(stats[1])
        chances = self.model.transitions(np.array(stats, dtype=float))[0]
        names = enumerate(self.model.table.outcome_names(state))
        return {name: place for place, name in names if chances[place] > 0.0}

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
        return float(names[str(text)])

    def plain(self, value: object) -> Outcome:
        if value not in self.choices:
            raise no_outcome(value, " or ".join(self.choices))
        return str(value)

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return self.model.table.outcome_names(int(stats[1]))[int(outcome)]

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
        if self.model.restless:
            return f"the state after the stage, such as {self.choices[0]}", "+"
        example = "+".join((self.choices * 2)[:2])
        return f"outcomes in the order of the pulls, such as {example}", "+"

    def following(self, stats: Stats, state: float, *, pulled: bool) -> Stats:
        """Return the statistics after a stage that ended in a state; refuse impossible ones."""
        moves = self.model.transitions if pulled else self.model.rest_transitions
        chances, after = moves(np.array(stats, dtype=float))
        if not chances[after[:, 1] == state].any():
            way = "by a pull" if pulled else "at rest"
            name = self.model.names[int(state)]
            raise InvalidArgument(f"{name} does not follow {self.describe(stats)} {way}")
        return (stats[0] + pulled, state)

    def _walk(self, stats: Stats, tally: Stats) -> list[Stats]:
        """Statistics before each outcome and after all; a ValueError where one cannot follow."""
        states = [stats]
        for position in tally:
            if self.model.restless:
                states.append(self.following(states[-1], position, pulled=True))
                continue
            outcome = np.array(self.read_outcome(self.choices[int(position)], states[-1]))
            after = self.model.update(np.array(states[-1], dtype=float), outcome)
            states.append(tuple(after.tolist()))
        return states
