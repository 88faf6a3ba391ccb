"""Problems of batches: their fields, their files, what refuses them, and the best arm in them."""

from pathlib import Path

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Problem,
    ProblemError,
    Reward,
    State,
    Terminal,
    bound,
    load_problem,
    save_problem,
    solve,
)
from decobandit.problem import best_mean_reward, problem_to_dict, remaining_problem
from helpers.refusals import refused

BATCH = Problem.uniform(
    arms=3,
    horizon=4,
    pulls_per_stage=20,
    repeat=True,
    unit=5,
    terminal=Terminal(deploy=2),
    reward=Reward(good=[1.0, 0.5, 0.5, 0.0]),
)


def test_units_are_what_a_stage_has_to_give() -> None:
    assert (BATCH.units, BATCH.most_pulls, BATCH.stages) == (4, 80, 5)
    assert BATCH.pulls.tolist() == [4, 4, 4, 4, 1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pulls_per_stage": 20, "repeat": True, "unit": 3}, "unit: 3 .* must divide .* 20"),
        ({"unit": 2}, "unit: 2 .* unless repeat"),
        ({"pulls_per_stage": 9}, "at most the number of arms, 3, unless repeat"),
        ({"repeat": 1}, "repeat: 1 .* true or false"),
        ({"repeat": True, "horizon": 10_000, "pulls_per_stage": 1000}, "1000000 pulls of an arm"),
    ],
)
def test_batches_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        Problem.uniform(**{"arms": 3, **settings})  # type: ignore[arg-type]


def test_a_file_has_what_is_said_of_batches_only_where_there_are_some(tmp_path: Path) -> None:
    for name in ("problem.toml", "problem.json"):
        save_problem(BATCH, tmp_path / name)
        assert load_problem(tmp_path / name) == BATCH
    assert {"repeat", "unit"} <= problem_to_dict(BATCH).keys()
    assert not {"repeat", "unit"} & problem_to_dict(Problem.uniform(arms=2)).keys()


def test_a_state_may_have_many_pulls_of_one_arm() -> None:
    State.parse("30/40,0/0,0/0").check(BATCH)
    with refused("invalid_argument"):
        State.parse("40/81,0/0,0/0").check(BATCH)
    left = remaining_problem(BATCH, 2, State.parse("30/40,0/0,0/0"))
    assert (left.horizon, left.units, left.arms[0].prior) == (2, 4, BetaBernoulli(31, 11))


def test_the_best_arm_takes_the_whole_batch() -> None:
    truth = (0.2, 0.7, 0.4)
    assert best_mean_reward(BATCH, truth) == pytest.approx(20 * 0.7 * (1 + 0.5 + 0.5) + 2 * 0.7)
    draws = np.random.default_rng(3).random((200_000, 3)).max(axis=1).mean()
    assert best_mean_reward(BATCH) == pytest.approx((20 * 2 + 2) * draws, rel=5e-3)
    assert draws == pytest.approx(0.75, abs=2e-3)


def test_the_dual_bounds_batches() -> None:
    solution = solve(BATCH)
    best = bound(BATCH, solution=solution)[0]
    assert solution.converged
    assert best.value <= solution.upper_bound
    one = Problem(arms=[Arm(name="a")], horizon=3, pulls_per_stage=6, repeat=True, unit=2)
    assert solve(one).upper_bound == pytest.approx(9.0)  # nothing to choose: 18 pulls of mean 1/2
