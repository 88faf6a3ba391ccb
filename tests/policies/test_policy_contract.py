"""What every policy in the catalogue keeps to, whatever it does inside."""

from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest

from decobandit.policies import POLICIES, Policy, make_policy, serving
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    MarkovArm,
    Problem,
    Reward,
    State,
)
from decobandit.simulation import simulate
from helpers.examples import KINDS, random_state
from helpers.policies import NO_INDEX, SINGLE_PULLS, Bench
from helpers.program import deco as run_deco
from helpers.refusals import check_refusal, refused, unless_refused

ONE_ARM = Problem.uniform(arms=1, horizon=5)
PRIORS = Problem(
    arms=(
        Arm(name="a", prior=BetaBernoulli(good=0.5, bad=0.5)),
        Arm(name="b", prior=BetaBernoulli(good=3.7, bad=1.2)),
        Arm(name="c", prior=BetaBernoulli(good=9.0, bad=14.5)),
    ),
    horizon=7,
)
PROBLEMS = {
    "one arm": ONE_ARM,
    "other priors": PRIORS,
    **{kind: make(6) for kind, make in KINDS.items()},
}
ALWAYS = ("one arm", "other priors", "uniform")  # no policy may refuse these


@cache
def bench(kind: str) -> Bench:
    return Bench(PROBLEMS[kind])


@cache
def policy_for(name: str, kind: str) -> Policy:
    """The policy; a test that is `unless_refused` ends where it refuses the problem, as it may."""
    try:
        return bench(kind).policy(name)
    except ValueError as error:
        if kind in ALWAYS:
            raise
        raise check_refusal(name, PROBLEMS[kind], error) from None


def states_of(problem: Problem, number: int) -> list[tuple[int, State]]:
    rng = np.random.default_rng(number)
    stages = [0, problem.stages - 1, *rng.integers(problem.stages, size=6).tolist()]
    return [(t, random_state(problem, t, rng)) for t in stages]


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("name", SINGLE_PULLS)
@unless_refused
def test_chooses_as_many_different_arms_as_asked(name: str, kind: str) -> None:
    policy, problem = policy_for(name, kind), PROBLEMS[kind]
    assert policy.name == name
    assert policy.problem == problem
    for stage, state in states_of(problem, 1):
        arms = policy.select(stage, state, np.random.default_rng(stage))
        assert len(arms) == len(set(arms)) == round(problem.pulls[stage])
        assert all(type(arm) is int and 0 <= arm < problem.n_arms for arm in arms)


@pytest.mark.parametrize("kind", ["other priors", "heterogeneous", "deployed"])
@pytest.mark.parametrize("name", SINGLE_PULLS)
@unless_refused
def test_same_seed_same_choice(name: str, kind: str) -> None:
    policy = policy_for(name, kind)
    twin = Bench(PROBLEMS[kind]).policy(name)
    for stage, state in states_of(PROBLEMS[kind], 2):
        choices = [
            each.select(stage, state, np.random.default_rng(17)) for each in (policy, twin, policy)
        ]
        assert choices[0] == choices[1] == choices[2]


@pytest.mark.parametrize("name", SINGLE_PULLS)
def test_a_stage_that_does_not_exist_is_refused(name: str) -> None:
    policy = policy_for(name, "uniform")
    fresh = State.fresh(4)
    for stage in (-1, 6):
        with refused("invalid_argument", "stage"):
            policy.select(stage, fresh, np.random.default_rng(1))


def played(name: str, p: float) -> dict[str, np.ndarray]:
    """Pulls of some episodes in which every outcome is good, at success probability p."""
    problem, policy = PROBLEMS["uniform"], policy_for(name, "uniform")
    found = simulate(problem, policy, draws=20, per_draw=1, truth=[p] * 4, keep_episodes=True)
    kept = found.results[0].episodes
    assert kept is not None
    return {key: np.asarray(column) for key, column in kept.items()}


@pytest.mark.parametrize("name", SINGLE_PULLS)
def test_does_not_look_at_the_truth(name: str) -> None:
    # all outcomes are good under both, so that only a look at the truth could tell them apart
    one, other = played(name, 1.0), played(name, float(np.nextafter(1.0, 0.0)))
    assert np.all(one["outcome"] == 1)
    assert np.array_equal(one["arm"], other["arm"])
    assert np.array_equal(np.bincount(one["draw"]), np.full(20, 6))  # a pull at every stage


@pytest.mark.parametrize("kind", ["one arm", "other priors", "deployed"])
@pytest.mark.parametrize("name", SINGLE_PULLS)
@unless_refused
def test_is_simulated_whole(name: str, kind: str) -> None:
    policy, problem = policy_for(name, kind), PROBLEMS[kind]
    found = simulate(problem, [policy], draws=40, per_draw=1, solution=bench(kind).solution)
    (result,) = found.results
    assert found.upper_bound is not None
    assert result.regret is not None
    # below what could be had and what is possible, up to an error that 40 draws may have
    assert result.regret > -5 * result.value_se - 1e-9
    assert result.value < found.upper_bound + 5 * result.value_se + 1e-9


@pytest.mark.parametrize("name", sorted(set(SINGLE_PULLS) - set(NO_INDEX)))
def test_has_an_index_on_the_command_line(name: str) -> None:
    run = run_deco(
        "index",
        "--policy",
        name,
        "--arms",
        3,
        "--horizon",
        8,
        "--stage",
        4,
        "--good",
        2,
        "--bad",
        1,
        "--json",
    )
    assert np.isfinite(run.json["index"])


@pytest.mark.parametrize("name", NO_INDEX)
def test_has_no_index_and_says_so(name: str) -> None:
    run = run_deco(
        "index",
        "--policy",
        name,
        "--arms",
        3,
        "--horizon",
        8,
        "--stage",
        4,
        "--good",
        2,
        "--bad",
        1,
    )
    assert run.code == 2
    assert f"policy {name!r} has no index of a single arm" in run.err


def _own(**settings: Any) -> Problem:
    moody = MarkovArm(
        first="up",
        states={
            "up": {"mean": 1.0, "next": {"stays": (0.5, "up"), "falls": (0.5, "down")}},
            "down": {"mean": 0.0, "next": {"stays": (1.0, "down")}},
        },
    )
    return Problem.uniform(arms=2, horizon=2, prior=moody, **settings)


GRADES: dict[str, Any] = {
    "prior": DirichletCategorical([1, 1, 1]),
    "reward": Reward(values=[0, 1, 3]),
}


@pytest.mark.parametrize(
    "problem",
    [
        Problem.uniform(arms=2, horizon=2),
        Problem.uniform(arms=2, horizon=2, pulls_per_stage=2, repeat=True),
        Problem.uniform(arms=2, horizon=2, **GRADES),
        Problem.uniform(arms=2, horizon=2, pulls_per_stage=2, repeat=True, **GRADES),
        _own(),
        _own(pulls_per_stage=2, repeat=True),
    ],
    ids=["plain", "batches", "classes", "class-batches", "own", "own-batches"],
)
def test_names_know_which_policies_serve(problem: Problem) -> None:
    made = []
    for name in POLICIES:
        with suppress(ValueError):
            made.append(make_policy(problem, name).name)
    assert serving(problem, POLICIES) == tuple(made)
