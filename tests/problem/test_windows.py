"""Arms that come and go: by joint recursion, by an LP, and by what policies may pull."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Design,
    NormalNormal,
    Problem,
    State,
    Terminal,
    evaluate,
    make_policy,
    operating_characteristics,
    optimum,
    policy_names,
    recommend,
    simulate,
    solve,
)
from decobandit.policies import policy_class
from decobandit.problem import problem_from_dict, problem_to_dict, remaining_problem
from helpers.experiments import Experiment, best, relaxed
from helpers.refusals import refused

PRIORS = [(2, 2), (1, 1), (3, 1.5)]
CASES = {
    "of the design": ([None, (0, 4), (3, 7)], 7),
    "two windows": ([(0, 6), ((0, 2), (4, 6)), (1, 5)], 6),
    "one arm at a time": ([(0, 2), (2, 4), (4, 6)], 6),
}


def problem_of(windows: list[object], horizon: int, **settings: object) -> Problem:
    arms = [
        Arm(name=name, prior=BetaBernoulli(*prior), available=window)
        for name, prior, window in zip("abc", PRIORS, windows, strict=True)
    ]
    return Problem(horizon=horizon, arms=arms, **settings)


class Windows(Experiment):
    """An experiment whose arms may have several windows."""

    def allowed(self, arm: int, stage: int) -> bool:
        window = self.windows[arm] if self.windows else None
        pairs = [window] if window and isinstance(window[0], int) else window
        return pairs is None or any(first <= stage < end for first, end in pairs)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("deploy", [0.0, 5.0])
def test_optimum_and_dual_are_those_of_recursion_and_lp(name: str, deploy: float) -> None:
    windows, horizon = CASES[name]
    problem = problem_of(windows, horizon, terminal=Terminal(deploy=deploy))
    plain = Windows(PRIORS, horizon, windows=windows, deploy=deploy)
    assert optimum(problem).value == pytest.approx(best(plain), abs=1e-10)
    assert solve(problem, tol=1e-9).upper_bound == pytest.approx(relaxed(plain), abs=1e-7)


def test_published_case() -> None:
    problem = problem_of(*CASES["of the design"])
    assert optimum(problem).value == pytest.approx(4.4001554001554, abs=1e-12)
    assert solve(problem, tol=1e-9).upper_bound == pytest.approx(4.482181909000091, abs=1e-9)
    assert evaluate(problem, "auto").value == pytest.approx(4.4001554001554, rel=1e-3)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("model", ["beta", "normal"])
def test_no_policy_pulls_an_arm_outside_its_windows(model: str, batch: bool) -> None:
    """Every named policy that serves the problem, in every kept pull of 30 episodes."""
    settings = {"pulls_per_stage": 4, "unit": 2, "repeat": True} if batch else {}
    problem = problem_of(*CASES["two windows"], **settings)
    if model == "normal":
        normal = {"prior": NormalNormal(0, 1), "noise_sd": 1.0}
        arms = [Arm(name=own.name, available=own.available, **normal) for own in problem.arms]
        problem = problem.model_copy(update={"arms": arms})
    served = [name for name in policy_names() if policy_class(name).refusal(problem) is None]
    assert {"deco", "greedy", "equal", "thompson"} <= set(served)
    for name in served:
        found = simulate(problem, name, draws=10, per_draw=3, keep_episodes=True, bound=False)
        episodes = found.results[0].episodes
        assert episodes is not None
        assert problem.available[episodes["stage"], episodes["arm"]].all(), name


def test_values_of_every_policy_are_those_of_simulation() -> None:
    """No penalty is left in an exact value: simulated rewards are those of outcomes alone."""
    problem = problem_of(*CASES["of the design"])
    for name in ("deco", "greedy", "equal", "thompson", "kl-ucb", "bayes-ucb"):
        found = simulate(problem, name, draws=4000, per_draw=1, rng=2, keep_episodes=True)
        episodes = found.results[0].episodes
        assert episodes is not None
        totals = np.bincount(episodes["draw"], episodes["outcome"])
        error = totals.std() / np.sqrt(totals.size)
        assert abs(totals.mean() - evaluate(problem, name).value) < 5 * error


def test_a_large_batch_does_not_buy_information_outside_a_window() -> None:
    """The first batch is for the one arm that is there; the second for the better one, by hand."""
    arms = [Arm(name="a"), Arm(name="b", available=[1, 2])]
    problem = Problem(horizon=2, arms=arms, pulls_per_stage=200, unit=50, repeat=True)
    good = np.arange(201)  # equally likely
    value = 100.0 + 200.0 * np.mean(np.maximum((1 + good) / 202, 0.5))
    assert optimum(problem).value == pytest.approx(value, abs=1e-9)
    assert solve(problem, tol=1e-6).upper_bound >= value - 1e-9
    assert evaluate(problem, "greedy").value == pytest.approx(value, abs=1e-9)


def test_equal_allocation_shares_the_stages_among_arms_that_are_there() -> None:
    """An arm that joins at stage 6 gets a third from then on, and does not catch up."""
    problem = problem_of([None, None, (6, 18)], 18)
    pulls = evaluate(problem, "equal", truth=[0.5, 0.5, 0.5]).arm_pulls
    assert pulls == pytest.approx((7.0, 7.0, 4.0))


def test_what_is_left_keeps_its_windows() -> None:
    problem = problem_of(*CASES["two windows"])
    left = remaining_problem(problem, 3, State.parse("1/2,0/1,0/0"))
    assert [arm.available for arm in left.arms] == [((0, 3),), ((1, 3),), ((0, 2),)]
    assert remaining_problem(problem, 5, State.parse("1/2,0/1,0/2")).arms[2].available == ()
    rolling = make_policy(problem, "deco-rolling")
    assert rolling.choose(State.parse("1/2,0/1,0/2"))[0] in (0, 1)


def test_recommendations_obey_windows() -> None:
    problem = problem_of(*CASES["one arm at a time"])
    for name in ("auto", "thompson", "equal", "kl-ucb"):
        found = recommend(problem, "0/1,1/2,0/0", name, rng=1)
        assert found.chosen == ("b",)
        assert [arm.expected_reward for arm in found.arms] == pytest.approx([0.4, 0.5, 2 / 3])
        assert found.arms[0].index is None


def test_a_design_with_an_arm_that_joins() -> None:
    """It is neither dropped nor a reason to stop before it has come."""
    problem = problem_of([None, None, (20, 60)], 60)
    design = Design(
        policies=["equal", "thompson"],
        burn_in=3,
        looks={"first": 10, "every": 10},
        stop={"superiority": 0.99, "inferiority": 0.02},
        scenarios=[{"name": "late", "truth": [0.2, 0.2, 0.9]}],
        draws=300,
    )
    found = operating_characteristics(problem, design, exact=False)
    for policy in found.scenarios[0].policies:
        assert policy.size > 25.0
        assert policy.pulls[2] >= 3.0
        assert policy.select_best > 0.95


def test_files_keep_windows() -> None:
    for windows, horizon in CASES.values():
        problem = problem_of(windows, horizon)
        assert problem_from_dict(problem_to_dict(problem)) == problem


@pytest.mark.parametrize(
    ("windows", "field"),
    [
        ([[0, 3], [2, 7], [5, 9]], "arms.2.available"),
        ([[0, 3], [4, 7], [5, 7]], "arms"),
        ([[3, 3], None, None], "arms.0.available"),
        ([[-1, 3], None, None], "arms.0.available"),
        ([[[0, 3], [2, 5]], None, None], "arms.0.available"),
        (["later", None, None], "arms.0.available"),
        ([[0.5, 3], None, None], "arms.0.available"),
    ],
)
def test_windows_that_are_none_are_refused(windows: list[object], field: str) -> None:
    arms = [{"name": name, "available": own} for name, own in zip("abc", windows, strict=True)]
    with refused("invalid_problem", field):
        problem_from_dict({"horizon": 7, "arms": arms})
