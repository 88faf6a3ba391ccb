"""Allocations of a stage: what policies answer, and how answers are formed in many states at once.

While outcomes are pending, values are averaged over them, or states are as if they had come as
expected.

Notations
    E, K               joint states, as many as `States` has; arms
    probabilities      (E, K) share of a stage's pulls that an arm gets on average; rows sum to 1
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..joint import distinct_rows
from ..problem import TIE_SIGNS, ArmModel, Problem, State, States, TieRule
from ..support import Floats, Ints, InvalidArgument, Unsupported, pool, shown, worker_count
from .kernels.index_play import pull_largest

Random = np.random.Generator | None  # None: nothing is drawn
Counts = npt.NDArray[np.integer]  # of outcomes: whole numbers of any width
Allowed = npt.NDArray[np.bool_]
Allotments = tuple[Ints, Ints, Floats]  # rows of states (A,), pulls (A, K), probabilities (A,)
Ways = Sequence[tuple[State, float]]  # states that may hold, probability
EPISODES_PER_THREAD = 64  # of searches in every state: fewer are not worth a thread
MAX_POSSIBILITIES = 20_000  # of one arm after its pending outcomes
CHUNK_NUMBERS = 2_000_000  # numbers at a time

# Cost of a policy, besides solving for the prices that it may need:
#   light     next to nothing
#   tables    tables that grow with the cube of the stages, once
#   decision  a search at every decision
#   solve     a dual at every decision
Cost = Literal["light", "tables", "decision", "solve"]


@dataclass(frozen=True)
class ArmIndex:
    """The index of one arm in one state, with the parts that a policy can tell of it.

    From `policy` on: what it is the index of; good and bad of binary outcomes only.
    """

    index: float
    expected_reward: float | None = None
    value_of_information: float | None = None
    price: float | None = None
    indexable: bool | None = None  # whether a calibrated index is the only crossing
    path: str | None = None  # that it is calibrated against
    policy: str | None = None
    arm: str | None = None
    stage: int | None = None
    good: int | None = None
    bad: int | None = None
    state: str | None = None  # as the outcome model writes it

    def to_dict(self) -> dict[str, float | bool | str]:
        keys = list(vars(self))
        place = keys.index("policy")
        items = [(key, getattr(self, key)) for key in keys[place:] + keys[:place]]
        return {key: value for key, value in items if value is not None}


@dataclass(frozen=True)
class Weighed:
    """Values of the arms, (arms,), averaged over pending outcomes."""

    values: Floats
    arm: int | None = None  # the one to pull; None: the largest value, by the policy's tie rule
    what: str = "index"  # the values are
    tied: tuple[int, ...] = ()  # arms of as large a value as `arm`, this one included


# -- states --------------------------------------------------------------------------------------


def stage_after(state: object, problem: Problem) -> int:
    """Return the stage to play after a state; refuse what is none, and one of the last stage."""
    if not isinstance(state, State):
        raise TypeError(f"state: {shown(state)} is not a decobandit.State; State.parse reads text")
    state.check(problem)
    stage = state.stage(problem.pulls_per_stage)
    if stage >= problem.stages:
        raise InvalidArgument(
            f"all {problem.horizon} stages have been played; nothing is left to pull"
        )
    return stage


def check_turn(problem: Problem, stage: int, state: State) -> None:
    """Refuse unless a policy can choose the arms of this stage in this state."""
    if not 0 <= stage < problem.stages:
        raise InvalidArgument(
            f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}", field="stage"
        )
    if len(state.pulls) != problem.n_arms:
        raise InvalidArgument(
            f"state: {len(state.pulls)} arms; the problem has {problem.n_arms}", field="state"
        )
    most = stage * problem.most_units * problem.unit
    if max(state.pulls) > most:
        raise InvalidArgument(
            f"state: {max(state.pulls)} pulls of one arm by stage {stage}", field="state"
        )


def allowed_in(states: States) -> Allowed:
    """Arms that may be pulled, (E, K); all of them where `states` does not restrict them."""
    allowed = states.allowed
    return np.ones(states.stats.shape[:2], np.bool_) if allowed is None else allowed


def pending_in(states: States) -> Ints:
    """Return pulls whose outcomes are pending, (E, K)."""
    pending = states.pending
    return np.zeros(states.stats.shape[:2], np.int64) if pending is None else pending


def pulls_made(states: States) -> Ints:
    """Return pulls of every arm, recorded and pending, (E, K)."""
    return states.pulls if states.pending is None else states.pulls + states.pending


def of_allowed(values: Floats, states: States) -> Floats:
    """Values of arms that may be pulled, (E, K); minus infinity for the others."""
    return values if states.allowed is None else np.where(states.allowed, values, -np.inf)


def in_parts(size: int, per_thread: int, work: Callable[[int, int], None]) -> None:
    """work(first, last) over all of `size`, by threads that are worth it."""
    number = worker_count(None, most=1 + size // per_thread)
    edges = np.linspace(0, size, number + 1).astype(int).tolist()
    with pool(number) as threads:
        threads.map(lambda part: work(*part), pairwise(edges))


# -- pulls and probabilities ---------------------------------------------------------------------


def largest_arms(
    values: Floats,
    pulls: Counts,
    number: int,
    tolerance: float,
    ties: TieRule,
    rng: Random,
) -> Ints:
    """One pull of each of the `number` arms of largest value in every row; ties by the rule."""
    left, units = np.array(values, order="C"), np.zeros(values.shape, dtype=np.int64)
    if ties != "random":
        pull_largest(left, pulls, number, tolerance, *TIE_SIGNS[ties], units)
        return units
    if rng is None:
        raise InvalidArgument("ties are broken at random: pass a random generator as rng")
    rows = np.arange(len(values))
    for _ in range(number):
        tied = left >= left.max(axis=1, keepdims=True) - tolerance
        arm = np.where(tied, rng.random(values.shape), np.inf).argmin(axis=1)
        units[rows, arm] = 1
        left[rows, arm] = -np.inf
    return units


def distinct_states(states: States) -> tuple[States, Ints]:
    """Different joint states, and where each of `states` is among them, (E,)."""
    flat = states.stats.reshape(len(states), -1)
    _, first, place = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return States(states.problem, states.stats[first]), place.reshape(-1)


def distinct_arms(states: States) -> tuple[list[Floats], Ints]:
    """Distinct statistics of the arms of each group; where every arm's are among all, (E, K)."""
    parts, first = list[Floats](), 0
    where = np.empty(states.stats.shape[:2], dtype=np.int64)
    for k, group in enumerate(states.problem.groups):
        stats = states.of_group(k)
        rows = stats.reshape(-1, stats.shape[-1])
        if group.model.finite:  # whole numbers
            at, place = distinct_rows(rows)
        else:
            _, at, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        where[:, group.members] = first + place.reshape(stats.shape[:2])
        parts.append(rows[at])
        first += len(at)
    return parts, where


def restricted(probabilities: Floats, allowed: Allowed | None) -> Floats:
    """Return probabilities of the allowed arms, scaled to sum 1; equal where all are 0."""
    if allowed is None:
        return probabilities
    shares = np.where(allowed, probabilities, 0.0)
    total = shares.sum(axis=1, keepdims=True)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), even))


def drawn_arms(probabilities: Floats, units: int, rng: np.random.Generator) -> Ints:
    """Units of every arm, (E, K): on average `units` times its probability, and within 1 of it."""
    edges = np.cumsum(probabilities, axis=1)
    if units > 1:  # each edge is moved by the same fraction of a unit, then rounded down
        steps = np.floor(units * edges / edges[:, -1:] + rng.random((len(edges), 1)))
        steps[:, -1] = units
        return np.asarray(np.diff(steps, axis=1, prepend=0.0), dtype=np.int64)
    arm = (rng.random(len(probabilities))[:, None] * edges[:, -1:] >= edges[:, :-1]).sum(axis=1)
    return np.asarray(arm[:, None] == np.arange(probabilities.shape[1]), dtype=np.int64)


def rounded_units(shares: Floats, units: int) -> Ints:
    """Round to whole units by largest remainders, (E, K); ties go to the first arms."""
    exact = units * shares
    floor = np.floor(exact + 1e-9).astype(np.int64)
    left = units - floor.sum(axis=1)
    left_over = np.round(exact - floor, 9)  # equal ones may differ by rounding
    order = np.argsort(-left_over, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(shares.shape[1])[None, :], axis=1)
    return np.asarray(floor + (rank < left[:, None]), dtype=np.int64)


def drawn_units(shares: Floats, units: int, rng: np.random.Generator) -> Ints:
    """Units drawn multinomially with these shares, (E, K)."""
    positive = np.maximum(shares, 0.0)  # without rounding errors that `multinomial` would refuse
    proper = positive / positive.sum(axis=1, keepdims=True) * (1.0 - 1e-12)
    return np.asarray(rng.multinomial(units, proper), dtype=np.int64)


def check_pulls(policy: str, problem: Problem, stage: int, pulls: Ints) -> None:
    """Refuse pulls (E, K) that a stage of the problem does not allow."""
    deployed = stage == problem.horizon
    wanted, unit, most = problem.pulls_per_stage, problem.unit, problem.most_units * problem.unit
    if deployed:
        wanted, unit, most = problem.deployed, 1, 1
    total = pulls.sum(axis=1)
    missed = total > wanted if problem.may_wait and not deployed else total != wanted
    if not deployed:
        missed |= problem.overdrawn(stage, pulls)
    wrong = missed | np.any((pulls < 0) | (pulls > most), axis=1)
    wrong |= np.any(pulls % unit > 0, axis=1)
    if problem.has_windows:
        wrong |= np.any(pulls[:, ~problem.available_at(stage)] > 0, axis=1)
    if wrong.any():
        rule = f"{wanted} different arms"
        if most > 1:
            rule = f"{wanted} pulls in all, in units of {unit}"
        if problem.resources is not None:
            rule = f"at most {rule}, within the resources of the stage"
        raise InvalidArgument(
            f"policy {policy!r} allots {tuple(pulls[wrong][0].tolist())} at stage {stage}; "
            f"must be {rule}",
            field="policy",
        )


# -- pending outcomes ---------------------------------------------------------------------------


def mean_values(
    model: ArmModel, values: Callable[[Floats], Floats], stats: Floats, pending: Counts
) -> Floats:
    """Average `values` (..., width) -> (..., columns) over all pending outcomes (E,), (E, columns).

    There may be no axis of columns.
    """
    if not len(stats):
        return values(stats)
    both = np.column_stack([pending, stats])
    rows, place = np.unique(both, axis=0, return_inverse=True)
    counts, parts, order = rows[:, 1:], list[Floats](), list[Ints]()
    for count in np.unique(rows[:, 0]).astype(int).tolist():
        rows_of_count = np.flatnonzero(rows[:, 0] == count)
        ways = comb(count + model.width - 1, count) if model.finite else 100  # about
        if ways > MAX_POSSIBILITIES:
            raise Unsupported(
                f"{model.word} arms: {count} pending outcomes may be {ways:,} things, more than "
                f"{MAX_POSSIBILITIES:,}; a shorter delay, or fewer classes"
            )
        # states of an arm's own are merged by `ahead` if they are asked for one by one
        size = 1 if model.ordered else max(1, CHUNK_NUMBERS // (model.width * ways))
        size = size if count else len(rows)
        for begin in range(0, len(rows_of_count), size):
            order.append(rows_of_count[begin : begin + size])
            if count == 0:
                parts.append(values(counts[order[-1]]))
                continue
            most = MAX_POSSIBILITIES if model.finite else sys.maxsize
            law = model.ahead(counts[order[-1]], count, most)
            assert law is not None  # refused above
            parts.append(np.einsum("ej,ej...->e...", law[0], values(law[1])))
    means = np.concatenate(parts)[np.argsort(np.concatenate(order))]
    return np.asarray(means[place.reshape(-1)])


def as_expected(states: States) -> States:
    """Replace pending outcomes by their expectation, in whole numbers; nothing stays pending."""
    if states.pending is None:
        return states
    stats, problem = states.stats.copy(), states.problem
    for arm, group in enumerate(problem.group_of_arm):
        model = problem.groups[group].model
        statistics = stats[:, arm, : model.width]
        statistics[:] = model.expected(statistics, states.pending[:, arm])
    return States(problem, stats, allowed=states.allowed, spent=states.spent)
