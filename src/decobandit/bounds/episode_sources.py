"""What an episode is made of, by the outcomes of its arms: draws, states, terms of the index.

Good and bad outcomes are counted; other kinds have statistics of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..arm import Terms
from ..problem import Problem, State
from ..problem.models.base import ArmModel, Outcome
from ..simulation import CHUNK, World, outcomes_of

Pair = tuple[list[float], list[float]]


class TermsOf(Protocol):
    """Tables that know what a pull of an arm is worth."""

    problem: Problem

    def terms(self, stage: int, group: int, stats: Sequence[float]) -> Terms: ...


class Source(Protocol):
    """Where the outcomes of an episode come from."""

    rng: np.random.Generator  # of the policy
    truth: tuple[float, ...] | None  # success probabilities, or means

    def outcome(self, arm: int, state: State) -> Outcome:
        """Of one more pull of an arm."""


class DrawnOutcomes:
    """Outcomes as in the first episode of a simulation."""

    def __init__(self, problem: Problem, seed: int, truth: Any) -> None:
        # a whole chunk, though one draw is used: outcomes are drawn after all its parameters
        world = World(problem, draws=CHUNK, per_draw=1, seed=seed, truth=truth, weighted=False)
        chunk = world.chunk(0)
        self.problem, self.rng, self._outcomes = problem, chunk.rng(), outcomes_of(problem, chunk)
        means = tuple(chunk.means[0].tolist())
        self.truth = None if np.isnan(means).any() else means

    def outcome(self, arm: int, state: State) -> Outcome:
        k = int(self.problem.group_of_arm[arm])
        group, stats = self.problem.groups[k], state.stats(self.problem)[arm]
        member, n = np.array([group.members.index(arm)]), np.array([state.pulls[arm]])
        found = float(self._outcomes[k].one(np.zeros(1, np.int64), member, n, stats[None])[0])
        if group.model.counts_good:
            return bool(found)
        return group.model.format.recorded(found, tuple(stats.tolist()))


def drawn_outcomes(problem: Problem, seed: int, truth: Any) -> Source:
    """The outcomes of a seed, at a truth as `truth_of` has it, or drawn from the priors."""
    return DrawnOutcomes(problem, seed, truth)


def kind_of(problem: Problem, arm: int) -> ArmModel:
    """What the outcomes of an arm are."""
    return problem.groups[int(problem.group_of_arm[arm])].model


def observed(problem: Problem, state: State, arm: int, outcome: Outcome) -> State:
    """The state after one more outcome of an arm."""
    if problem.is_binary:
        return state.after(arm, bool(outcome))
    kind, stats = kind_of(problem, arm), state.stats(problem)
    own = tuple(stats[arm].tolist())
    stats[arm] = kind.update(stats[arm], np.asarray(kind.format.read_outcome(outcome, own)))
    return State.of_stats(problem, [tuple(each.tolist()) for each in stats])


def is_favourable(problem: Problem, state: State, arm: int, outcome: Outcome) -> bool:
    """Whether an outcome is good, or counts at least what was expected of it."""
    kind, stats = kind_of(problem, arm), state.stats(problem)[arm]
    number = np.asarray(kind.format.read_outcome(outcome, tuple(stats.tolist())))
    if kind.counts_good:
        return bool(number)
    return bool(kind.value(stats, number) >= kind.mean(stats))


def terms_at(tables: TermsOf, stage: int, state: State) -> Pair:
    """Expected rewards and values of information of every arm; equal arms are computed once."""
    problem = tables.problem
    stats = [tuple(own.tolist()) for own in state.stats(problem)]
    keys = list(zip(problem.group_of_arm.tolist(), stats, strict=True))
    terms = {key: tables.terms(stage, *key) for key in set(keys)}
    return (
        [terms[key].expected_reward for key in keys],
        [terms[key].value_of_information for key in keys],
    )
