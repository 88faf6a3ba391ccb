"""Many joint states at once: the same statistics as one state at a time, padded and grouped."""

from __future__ import annotations

import numpy as np
import pytest

from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    MarkovState,
    NormalNormal,
    Problem,
    Reward,
    State,
    States,
)
from helpers.refusals import refused

MACHINE = MarkovArm(first="on", states={"on": MarkovState(mean=1.0, next={"ok": (1.0, "on")})})
BINARY = Problem.uniform(arms=3, horizon=9)
MIXED = Problem(
    horizon=9,
    arms=[
        Arm(name="beta-1", prior=BetaBernoulli(2, 3)),
        Arm(name="classes", prior=DirichletCategorical([1, 1, 2]), reward=Reward(values=[0, 1, 3])),
        Arm(name="beta-2", prior=BetaBernoulli(2, 3)),
        Arm(name="normal", prior=NormalNormal(0, 1), noise_sd=2),
        Arm(name="counts", prior=GammaPoisson(2, 1)),
        Arm(name="own", prior=MACHINE),
    ],
)
TEXTS = {
    "binary": (BINARY, ["3/5,0/0,1/2", "0/1,1/1,2/2", "0/0,0/0,0/0"]),
    "mixed": (MIXED, ["1/2,2+0+1,0/1,1.25/2,4/1,on/2", "0/0,0+0+0,0/0,0/0,0/0,on/0"]),
}


@pytest.fixture(params=TEXTS)
def stacked(request: pytest.FixtureRequest) -> tuple[Problem, list[State], States]:
    problem, texts = TEXTS[request.param]
    states = [State.parse(text, problem) for text in texts]
    return problem, states, States.of(problem, states)


def test_rows_are_the_states_that_were_stacked(stacked) -> None:
    _, states, many = stacked
    assert len(many) == len(states)
    assert [many.state(e) for e in range(len(many))] == states
    assert [str(many.state(e)) for e in range(len(many))] == [str(state) for state in states]
    assert many.pulls.tolist() == [list(state.pulls) for state in states]
    assert many.pulls.dtype == np.int64
    assert many.pending is None
    assert many.allowed is None


def test_statistics_are_padded_with_zeros(stacked) -> None:
    problem, states, many = stacked
    width = max(group.model.width for group in problem.groups)
    assert many.stats.shape == (len(states), problem.n_arms, width)
    for e, state in enumerate(states):
        for k, stats in enumerate(state.stats):
            assert many.stats[e, k, : stats.size].tolist() == stats.tolist()
            assert not many.stats[e, k, stats.size :].any()


def test_groups_have_the_statistics_of_their_members(stacked) -> None:
    problem, states, many = stacked
    for k, group in enumerate(problem.groups):
        own = many.of_group(k)
        assert own.shape == (len(states), group.count, group.model.width)
        assert np.array_equal(own, many.stats[:, list(group.members), : group.model.width])


def test_neighbours_of_a_group_are_a_view() -> None:
    states = States.initial(BINARY, 4)
    assert np.shares_memory(states.of_group(0), states.stats)
    assert states.of_group(0).flags.c_contiguous


def test_initial_states_have_no_pulls(stacked) -> None:
    problem, _, _ = stacked
    states = States.initial(problem, 3)
    assert len(states) == 3
    assert not states.pulls.any()
    assert states.state(2) == State.before(problem)


def test_rows_select_pending_and_allowed_too(stacked) -> None:
    problem, _, many = stacked
    pending = np.arange(many.pulls.size).reshape(many.pulls.shape)
    full = States(problem, many.stats, pending, pending % 2 == 0)
    for index in ([1, 0, 1], slice(1, None), np.arange(len(many)) == 1):
        some = full.rows(index)
        assert np.array_equal(some.stats, full.stats[index])
        assert np.array_equal(some.pulls, full.pulls[index])
        assert some.pending is not None
        assert some.allowed is not None
        assert np.array_equal(some.pending, pending[index])
        assert np.array_equal(some.allowed, (pending % 2 == 0)[index])


def test_counts_are_for_binary_problems() -> None:
    pulls, good = np.array([[5, 0, 2], [1, 1, 2]]), np.array([[3, 0, 1], [0, 1, 2]])
    states = States.of_counts(BINARY, pulls, good)
    assert states.pulls.tolist() == pulls.tolist()
    assert states.good.tolist() == good.tolist()
    assert str(states.state(0)) == "3/5,0/0,1/2"
    with refused("invalid_argument", "good"):
        _ = States.initial(MIXED, 1).good


def test_wrong_shapes_are_refused() -> None:
    with refused("invalid_argument", "stats"):
        States(BINARY, np.zeros((2, 2)))
