"""Policies in batches: what they give to arms, against enumeration and hand-made cases."""

from functools import partial

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Problem,
    Reward,
    State,
    Terminal,
    make_policy,
    recommend,
    solve,
)
from decobandit.policies import POLICIES, Policy, serving
from decobandit.policies.deco import values_of_arms
from decobandit.problem import States
from helpers.batch_oracles import allocations, random_problem, unit_values
from helpers.best_of_betas import best_probabilities
from helpers.program import deco as run_deco
from helpers.refusals import refused

BATCH = Problem.uniform(
    arms=4, horizon=3, pulls_per_stage=20, unit=2, repeat=True, terminal=Terminal(deploy=100)
)
IN_BATCHES = [name for name in serving(BATCH, POLICIES) if name != "optimal"]  # too many states
NOT_IN_BATCHES = sorted(set(POLICIES) - {*IN_BATCHES, "optimal"})
DEPLOYED = BATCH.model_copy(
    update={"arms": [Arm(name=str(k), reward=Reward(good=0.0)) for k in range(4)]}
)


def random_states(
    problem: Problem, stage: int, number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pulls and good outcomes of states that whole stages may lead to, each (number, arms)."""
    shares = rng.dirichlet(np.ones(problem.n_arms), size=number)
    units = np.array([rng.multinomial(problem.units * stage, share) for share in shares])
    pulls = problem.unit * units
    return pulls, rng.binomial(pulls, rng.random(pulls.shape))


def as_state(pulls: np.ndarray, good: np.ndarray) -> State:
    return State.of_counts(tuple(good.tolist()), tuple((pulls - good).tolist()))


@pytest.mark.parametrize("problem", [BATCH, DEPLOYED], ids=["rewards", "deployment only"])
@pytest.mark.parametrize("name", IN_BATCHES)
def test_gives_whole_units_that_make_up_the_batch(name: str, problem: Problem) -> None:
    policy = make_policy(problem, name)
    assert policy.name == name
    rng = np.random.default_rng(1)
    for stage in range(problem.stages):
        pulls, good = random_states(problem, min(stage, 3), 12, rng)
        given = policy.allocate_many(stage, States.of_counts(problem, pulls, good), rng)
        wanted, unit = (20, 2) if stage < 3 else (1, 1)
        assert np.all(given.sum(axis=1) == wanted)
        assert np.all(given >= 0)
        assert np.all(given % unit == 0)


@pytest.mark.parametrize("name", IN_BATCHES)
def test_deploys_the_largest_posterior_mean(name: str) -> None:
    policy = make_policy(BATCH, name)
    assert policy.allocate(State.parse("30/46,4/4,1/10,0/0")) == (0, 1, 0, 0)
    assert policy.choose(State.parse("30/46,4/4,1/10,0/0")) == (1,)


@pytest.mark.parametrize("name", [n for n in IN_BATCHES if not make_policy(BATCH, n).draws_arms])
def test_many_states_at_once_are_as_one_by_one(name: str) -> None:
    policy = make_policy(BATCH, name)
    pulls, good = random_states(BATCH, 2, 20, np.random.default_rng(2))
    together = policy.allocate_many(2, States.of_counts(BATCH, pulls, good))
    for n, g, given in zip(pulls, good, together, strict=True):
        assert policy.allocate(as_state(n, g)) == tuple(given.tolist())


def total(problem: Problem, worth: list[list[float]], given: tuple[int, ...]) -> float:
    return sum(own[a // problem.unit] for own, a in zip(worth, given, strict=True))


@pytest.mark.parametrize("kind", ["plain", "deployment", "tables"])
def test_deco_maximises_what_units_are_worth(kind: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(6):
        problem = random_problem(rng, kind)
        solution = solve(problem)
        policy = make_policy(problem, "deco", solution=solution)
        stage = int(rng.integers(problem.horizon))
        pulls, good = random_states(problem, stage, 3, rng)
        for n, g in zip(pulls, good, strict=True):
            worth = [
                unit_values(problem, arm, policy.prices, stage, int(a), int(b))
                for arm, a, b in zip(problem.arms, n, g, strict=True)
            ]

            best = max(total(problem, worth, given) for given in allocations(problem))
            found = policy.allocation(stage, as_state(n, g))
            assert total(problem, worth, found) == pytest.approx(best, abs=1e-9)


def test_equal_evens_out_the_pulls() -> None:
    policy = make_policy(BATCH, "equal")
    assert policy.allocate(State.parse("3/6,4/4,1/10,0/0")) == (4, 6, 0, 10)


def test_greedy_gives_all_to_the_largest_mean_and_splits_ties() -> None:
    policy = make_policy(BATCH, "greedy")
    assert policy.allocate(State.parse("3/6,4/4,1/10,0/0")) == (0, 20, 0, 0)
    assert policy.allocate(State.fresh(4)) == (6, 6, 4, 4)


def test_bounds_shrink_within_a_batch() -> None:
    # one unit of each arm never pulled; then, by hand, 0.9 + sqrt(2 log 10 / 10) is the largest
    problem = Problem.uniform(arms=3, horizon=3, pulls_per_stage=10, repeat=True)
    given = make_policy(problem, "ucb1").allocate(State.parse("9/10,0/0,0/0"))
    assert min(given) >= 1
    assert make_policy(problem, "greedy").allocate(State.parse("9/10,0/0,0/0")) == (10, 0, 0)


def test_thompson_gives_by_the_chance_of_being_best() -> None:
    policy = make_policy(BATCH, "thompson")
    pulls, good = np.array([[6, 4, 10, 0]]), np.array([[3, 3, 4, 0]])
    a, b = 1.0 + good[0], 1.0 + pulls[0] - good[0]
    wanted = best_probabilities(a, b, np.zeros(4), np.ones(4))
    many = policy.allocate_many(
        1, States.of_counts(BATCH, pulls, good).rows([0] * 4000), np.random.default_rng(3)
    )
    shares = many.mean(axis=0) / 20
    errors = np.sqrt(wanted * (1 - wanted) / (4000 * 10))
    assert np.all(np.abs(shares - wanted) < 4.5 * errors)


@pytest.mark.parametrize("name", NOT_IN_BATCHES)
def test_others_are_refused_with_those_that_serve(name: str) -> None:
    with refused("unsupported", "policy") as refusal:
        make_policy(BATCH, name)
    assert "\n" not in str(refusal.value)


# -- single pulls by the same protocol ----------------------------------------------------------

SINGLE = Problem(
    horizon=6,
    pulls_per_stage=2,
    arms=[Arm(name=name, prior=BetaBernoulli(2.0 if name == "b" else 1.0, 2.0)) for name in "abcd"],
)


@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled", "first", "last"])
@pytest.mark.parametrize("name", ["deco", "greedy", "ucb1", "equal", "bayes-ucb"])
def test_single_pulls_of_many_states(name: str, ties: str) -> None:
    policy = make_policy(SINGLE, name, ties=ties)  # type: ignore[arg-type]
    rng = np.random.default_rng(4)
    pulls = np.array([np.bincount(rng.permutation(4)[:2], minlength=4) for _ in range(30)])
    pulls += np.array([np.bincount(rng.permutation(4)[:2], minlength=4) for _ in range(30)])
    good = rng.binomial(pulls, 0.5)
    given = policy.allocate_many(2, States.of_counts(SINGLE, pulls, good))
    for n, g, own in zip(pulls, good, given, strict=True):
        assert sorted(policy.choose(as_state(n, g))) == np.flatnonzero(own).tolist()


def test_random_ties_of_many_states_are_uniform() -> None:
    policy = make_policy(SINGLE, "equal", ties="random")
    given = policy.allocate_many(0, States.initial(SINGLE, 6000), np.random.default_rng(6))
    assert np.all(given.sum(axis=1) == 2)
    assert np.all(np.abs(given.mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(6000))


def test_a_policy_of_ones_own_is_asked_state_by_state() -> None:
    class Two(Policy):
        name = "two"
        problem = SINGLE

        def select(self, stage, state, rng=None):  # type: ignore[no-untyped-def]
            return (0, 1 + state.good[0])

    given = Two().allocate_many(1, States.of_counts(SINGLE, [[1, 0, 0, 1]] * 3, [[1, 0, 0, 0]] * 3))
    assert given.tolist() == [[1, 0, 1, 0]] * 3


# -- what people see ----------------------------------------------------------------------------


def test_recommendation_has_pulls_and_shares() -> None:
    found = recommend(BATCH, "3/6,4/4,1/10,0/0", "equal")
    assert found.pulls == (4, 6, 0, 10)
    assert found.chosen == ("arm-4", "arm-2", "arm-1")
    assert [arm.share for arm in found.arms] == [0.2, 0.3, 0.0, 0.5]
    run = run_deco(
        "recommend",
        "--arms",
        4,
        "--horizon",
        3,
        "--batch",
        20,
        "--unit",
        2,
        "--deploy",
        100,
        "--state",
        "3/6,4/4,1/10,0/0",
        "--policy",
        "equal",
        "--json",
    )
    assert run.json == found.to_dict() | {"interrupted": False}


def test_problem_options_describe_batches() -> None:
    options = ("--arms", 3, "--horizon", 4, "--batch", 20, "--unit", 5, "--deploy", 100)
    run = run_deco(
        "solve", *options, "--reward-good", 2, "--reward-bad", -1, "--prior-good", 3, "--json"
    )
    problem = Problem.uniform(
        arms=3,
        horizon=4,
        pulls_per_stage=20,
        repeat=True,
        unit=5,
        prior=BetaBernoulli(3, 1),
        terminal=Terminal(deploy=100),
        reward=Reward(good=2.0, bad=-1.0),
    )
    assert run.json["upper_bound"] == solve(problem).upper_bound


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--batch", 10, "--unit", 3), "--unit: 3 is not allowed; must divide"),
        (("--unit", 3), "--unit: says how a batch is shared; give --batch too"),
        (("--batch", 0), "--batch: 0 is not allowed"),
        (("--deploy", -1), "--deploy: -1.0 is not allowed"),
        (("--reward-good", "nan"), "--reward-good: nan is not allowed"),
        (("--prior-good", 0), "--prior-good: 0.0 is not allowed; must be a positive number\n"),
    ],
)
def test_wrong_options_are_refused_by_name(options: tuple[object, ...], said: str) -> None:
    run = run_deco("solve", "--arms", 3, "--horizon", 4, *options)
    assert run.code == 2
    assert said in run.err


def test_pending_outcomes_of_a_unit_are_averaged_over() -> None:
    policy = make_policy(BATCH, "deco", solution=solve(BATCH))
    alone = policy.allocate_many(1, States.of_counts(BATCH, [[9, 0, 0, 0]], [[4, 0, 0, 0]]))
    assert alone.sum() == 20
    # one pull of Beta(5, 6) is missing: its outcome is good with probability 5 / 11
    full = [
        policy.relaxation.unit_values(1, 0, np.array([good, 10 - good]))  # type: ignore[attr-defined]
        for good in (4, 5)
    ]
    wanted = (6 * full[0] + 5 * full[1]) / 11
    own = np.array([[4.0, 5.0]])
    found = values_of_arms(BATCH, [own], partial(policy.relaxation.unit_values, 1))  # type: ignore[attr-defined]
    assert found[0] == pytest.approx(wanted)


@pytest.mark.parametrize("name", IN_BATCHES)
def test_no_states_have_no_pulls(name: str) -> None:
    none = States(BATCH, np.zeros((0, BATCH.n_arms, 2)))
    pulls = make_policy(BATCH, name).allocate_many(1, none, np.random.default_rng(0))
    assert pulls.shape == (0, BATCH.n_arms)
