"""Deployments of several arms: by joint recursion, by an LP, and published bounds of screening."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    evaluate,
    optimum,
    recommend,
    simulate,
    solve,
)
from decobandit.problem import problem_from_dict, problem_to_dict
from decobandit.trials import create_trial, open_store
from helpers.experiments import Experiment, best, relaxed
from helpers.refusals import refused
from helpers.values import information_bound

PRIORS = [(1, 1), (2, 1), (1, 3)]


def shortlist(arms: int, horizon: int = 4, deploy: float = 10.0, **settings: object) -> Problem:
    return Problem(
        horizon=horizon,
        arms=[
            Arm(name=name, prior=BetaBernoulli(*p)) for name, p in zip("abc", PRIORS, strict=True)
        ],
        terminal=Terminal(deploy=deploy, deploy_arms=arms),
        **settings,
    )


@pytest.mark.parametrize("arms", [1, 2, 3])
def test_optimum_and_dual_are_those_of_recursion_and_lp(arms: int) -> None:
    problem = shortlist(arms)
    plain = Experiment(PRIORS, 4, deploy=10.0, deploy_arms=arms)
    assert optimum(problem).value == pytest.approx(best(plain), abs=1e-12)
    assert solve(problem, tol=1e-9).upper_bound == pytest.approx(relaxed(plain), abs=1e-7)
    assert evaluate(problem, "optimal").value == pytest.approx(best(plain), abs=1e-12)
    assert evaluate(problem, "auto").value == pytest.approx(best(plain), rel=1e-3)


def test_published_case() -> None:
    assert optimum(shortlist(2)).value == pytest.approx(14.39027777777778, abs=1e-12)


@pytest.mark.parametrize(
    ("rounds", "share"), [(1, 0.14583333), (2, 0.16666667), (4, 0.18333333), (5, 0.18970588)]
)
def test_screening_of_applicants(rounds: int, share: float) -> None:
    """A quarter is screened per round and a quarter admitted: the bound per applicant."""
    for arms in (4, 12):
        problem = Problem.uniform(
            arms,
            rounds,
            pulls_per_stage=arms // 4,
            reward=Reward(good=0.0),
            terminal=Terminal(deploy=1.0, deploy_arms=arms // 4),
        )
        assert solve(problem, tol=1e-8).upper_bound / arms == pytest.approx(share, abs=2e-8)


@pytest.mark.parametrize("model", ["beta", "batches", "normal"])
def test_simulated_values_are_those_of_drawn_parameters(model: str) -> None:
    """By kept pulls: outcomes of all stages, and true means of the arms that are deployed."""
    batch = {"pulls_per_stage": 4, "unit": 2, "repeat": True} if model == "batches" else {}
    problem = shortlist(2, deploy=3.0, **batch)
    if model == "normal":
        arms = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1.0) for name in "abc"]
        problem = problem.model_copy(update={"arms": arms})
    found = simulate(problem, "greedy", draws=2000, per_draw=1, rng=4, keep_episodes=True)
    episodes, best_estimate = found.results[0].episodes, found.results[0].estimates.best
    assert episodes is not None
    last = episodes["stage"] == problem.horizon
    assert np.all(np.bincount(episodes["draw"][last]) == 2)
    totals = np.bincount(episodes["draw"], episodes["reward"])
    error = totals.std() / np.sqrt(totals.size)
    assert abs(totals.mean() - best_estimate.value) < 5 * error
    if model != "normal":
        exact = evaluate(problem, "greedy").value
        assert abs(best_estimate.value - exact) < 5 * best_estimate.value_se


def test_a_trial_deploys_the_shortlist(tmp_path: object) -> None:
    problem = shortlist(2, horizon=3)
    with open_store(f"sqlite:///{tmp_path}/t.db") as store:
        trial = create_trial(problem, policy="greedy", db=store, seed=1)
        for outcome in (True, False, True):
            trial.tell(trial.ask().id, outcome)
        status = trial.status()
        state = State.parse(",".join(f"{arm.good}/{arm.good + arm.bad}" for arm in status.arms))
        chosen = recommend(problem, state, "greedy").chosen
        assert status.deployment == ", ".join(chosen)
        assert len(chosen) == 2


def test_information_bound_after_batches_deploys_the_shortlist() -> None:
    problem = shortlist(2, 3, 5.0, pulls_per_stage=4, unit=2, repeat=True)
    solution, best = solve(problem, tol=1e-7), optimum(problem).value
    for weight in (0.0, 0.5, 1.0):
        found = information_bound(problem, solution=solution, draws=400, rng=2, weight=weight)
        assert found.information >= best - 5 * found.information_se
        if weight == 1.0:
            assert found.information <= solution.upper_bound + 1e-9


def test_files_and_refusals() -> None:
    problem = shortlist(2)
    assert problem_to_dict(problem)["terminal"] == {"deploy": 10.0, "deploy_arms": 2}
    assert problem_from_dict(problem_to_dict(problem)) == problem
    assert problem_to_dict(shortlist(1))["terminal"] == {"deploy": 10.0}
    with refused("invalid_problem", "terminal.deploy_arms"):
        shortlist(4)
    with refused("invalid_problem", "deploy_arms"):
        Terminal(deploy_arms=2)
