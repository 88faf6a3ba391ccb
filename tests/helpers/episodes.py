"""Problems and episodes to play randomised policies in."""

import numpy as np
import numpy.typing as npt

from decobandit.policies.kernels.episodes import NO_ACTION, Episodes
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State

Floats = npt.NDArray[np.float64]


def mixed(horizon: int, *, good: float = 1.0, bad: float = 0.0) -> Problem:
    """Arms of different priors, two of them alike and one below 1, and one reward for all."""
    pairs = [(1.0, 1.0), (0.5, 3.7), (2.5, 1.1), (1.0, 1.0)]
    arms = tuple(
        Arm(name=f"arm-{i}", prior=BetaBernoulli(good=a, bad=b), reward=Reward(good=good, bad=bad))
        for i, (a, b) in enumerate(pairs)
    )
    return Problem(arms=arms, horizon=horizon)


def episodes_of(
    problem: Problem, states: list[State], *, stages: int, seed: int, p: Floats | None = None
) -> Episodes:
    """Episodes that are in given states; success probabilities from the prior unless given."""
    rng = np.random.default_rng(seed)
    shape = len(states), problem.n_arms
    prior = np.array([(arm.beta.good, arm.beta.bad) for arm in problem.arms])
    return Episodes(
        p=rng.beta(prior[:, 0], prior[:, 1], shape) if p is None else p,
        keys=rng.integers(0, 2**64, shape, dtype=np.uint64),
        pulls=np.array([state.pulls for state in states], np.int32),
        good=np.array([state.good for state in states], np.int32),
        actions=np.full((len(states), stages, problem.pulls_per_stage), NO_ACTION, np.int32),
        per_draw=1,
    )
