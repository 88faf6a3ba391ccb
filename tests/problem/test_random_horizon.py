"""Random horizons: by joint recursion, by an LP, as weighted rewards, and by drawn ends."""

import itertools

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    RandomHorizon,
    Reward,
    bound,
    evaluate,
    make_policy,
    optimum,
    recommend,
    simulate,
    solve,
)
from decobandit.arm.gittins import discounted_table
from decobandit.policies.calibrated import CalibratedPolicy
from decobandit.problem import problem_from_dict, problem_to_dict, remaining_problem
from decobandit.problem.states import State, States
from helpers.experiments import Experiment, best, relaxed
from helpers.refusals import refused

LAWS = {
    "survival": {"survival": [0.9**t for t in range(6)]},
    "geometric": {"law": "geometric", "mean": 4, "most": 7},
    "poisson": {"law": "poisson", "mean": 2.5, "most": 7},
    "uniform": {"law": "uniform", "least": 2, "most": 6},
}


def two_arms(horizon: object) -> Problem:
    return Problem(horizon=horizon, arms=[Arm(name="a"), Arm(name="b", prior=BetaBernoulli(2, 1))])


def test_laws_are_those_of_the_number_of_stages() -> None:
    """Against sums of the probabilities of single numbers, by hand."""
    geometric = [0.75**t for t in range(7)]
    assert RandomHorizon(**LAWS["geometric"]).probabilities == pytest.approx(geometric)
    chances = np.exp(-2.5) * np.cumprod([1.0, *(2.5 / n for n in range(1, 7))])
    poisson = 1.0 - np.cumsum(chances)
    assert RandomHorizon(**LAWS["poisson"]).probabilities == pytest.approx(poisson)
    uniform = [1, 1, 0.8, 0.6, 0.4, 0.2]
    assert RandomHorizon(**LAWS["uniform"]).probabilities == pytest.approx(uniform)
    unlimited = RandomHorizon(law="poisson", mean=400)
    assert sum(unlimited.probabilities) == pytest.approx(400.0, abs=1e-6)


@pytest.mark.parametrize("name", LAWS)
def test_optimum_and_dual_are_those_of_recursion_and_lp(name: str) -> None:
    problem = two_arms(LAWS[name])
    plain = Experiment([(1, 1), (2, 1)], problem.horizon, weights=problem.survival.tolist())
    assert optimum(problem).value == pytest.approx(best(plain), abs=1e-12)
    assert solve(problem, tol=1e-9).upper_bound == pytest.approx(relaxed(plain), abs=1e-8)
    values = [evaluate(problem, policy).value for policy in ("auto", "deco", "fh-gittins")]
    assert max(values) <= best(plain) + 1e-12
    assert values[0] == pytest.approx(best(plain), rel=2e-3)


def test_published_case() -> None:
    """Weights .9^t: the optimum and the dual of the design document."""
    problem = two_arms(LAWS["survival"])
    assert optimum(problem).value == pytest.approx(3.213132666666666, abs=1e-12)
    assert solve(problem, tol=1e-9).upper_bound == pytest.approx(3.256477068452381, abs=1e-8)
    known = bound(problem)
    assert known[0].value == pytest.approx(3.213132666666666, abs=1e-9)


MODELS = {
    "beta": (Arm(name="a"), Arm(name="b", prior=BetaBernoulli(2, 1), reward=Reward(good=0.9))),
    "classes": (
        Arm(name="a", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])),
        Arm(name="b", prior=DirichletCategorical([2, 1, 1]), reward=Reward(values=[0, 1, 2])),
    ),
    "normal": (
        Arm(name="a", prior=NormalNormal(0, 1), noise_sd=1.0),
        Arm(name="b", prior=NormalNormal(0.1, 0.5), noise_sd=1.0),
    ),
    "counts": (
        Arm(name="a", prior=GammaPoisson(2, 2)),
        Arm(name="b", prior=GammaPoisson(1, 1)),
    ),
}


def weighted_arm(arm: Arm, weights: np.ndarray) -> Arm:
    fields = {name: getattr(arm.reward, name) for name in arm.reward.keys}
    for name in arm.reward.per_stage:
        fields[name] = tuple((weights * fields[name]).tolist())
    return arm.model_copy(update={"reward": Reward(**fields)})


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_and_batch_is_the_problem_of_weighted_rewards(model: str, batch: int) -> None:
    """Sum_t P(N > t) E r_t, written out as rewards that fall with the stages."""
    settings = {} if batch == 1 else {"pulls_per_stage": batch, "repeat": True}
    random = Problem(horizon=LAWS["survival"], arms=MODELS[model], **settings)
    arms = [weighted_arm(arm, random.survival) for arm in MODELS[model]]
    plain = Problem(horizon=random.horizon, arms=arms, **settings)
    first, second = solve(random), solve(plain)
    assert first.upper_bound == pytest.approx(second.upper_bound, rel=1e-9)
    sizes = {"draws": 200, "per_draw": 2, "rng": 3}
    for policy in ("deco", "thompson"):
        here, there = (simulate(own, policy, **sizes).results[0] for own in (random, plain))
        assert here.estimates.best.value == pytest.approx(there.estimates.best.value, rel=1e-9)
    if model in ("beta", "classes"):
        assert optimum(random).value == pytest.approx(optimum(plain).value, rel=1e-12)
        assert evaluate(random, "deco").value == pytest.approx(
            evaluate(plain, "deco").value, rel=1e-9
        )


def test_kept_episodes_end_at_a_drawn_stage() -> None:
    """Their lengths have the law, their rewards the mean that is estimated with weights."""
    problem = two_arms(LAWS["uniform"])
    found = simulate(problem, "greedy", draws=4000, per_draw=1, rng=5, keep_episodes=True)
    frame = found.results[0].episodes
    assert frame is not None
    lengths = np.bincount(frame["draw"], minlength=4000)
    share = np.array([np.mean(lengths > t) for t in range(6)])
    assert np.abs(share - problem.survival).max() < 5 * 0.5 / np.sqrt(4000)
    totals = np.bincount(frame["draw"], frame["reward"], minlength=4000)
    assert set(np.unique(frame["reward"])) == {0.0, 1.0}
    error = totals.std() / np.sqrt(4000)
    assert abs(totals.mean() - found.results[0].estimates.best.value) < 5 * error


def test_expected_pulls_are_those_of_played_stages() -> None:
    problem = two_arms(LAWS["geometric"])
    for policy in ("deco", "greedy"):
        found = evaluate(problem, policy)
        assert sum(found.group_pulls) == pytest.approx(problem.survival.sum(), rel=1e-12)


def moments_at(problem: Problem, name: str, truth: list[float]) -> np.ndarray:
    """Mean, second moment and P(best) over all outcomes and all ends, path by path."""
    policy, ends = make_policy(problem, name), -np.diff([1.0, *problem.survival, 0.0])
    priors = [(arm.prior.good, arm.prior.bad) for arm in problem.arms]

    def after(t: int, counts: list[list[int]], reward: float) -> np.ndarray:
        means = [(a + g) / (a + b + g + n) for (a, b), (g, n) in zip(priors, counts, strict=True)]
        top = [k for k, mean in enumerate(means) if mean >= max(means) - 1e-12]
        best = sum(truth[k] == max(truth) for k in top) / len(top)
        total = ends[t] * np.array([reward, reward**2, best])
        if t == problem.horizon:
            return total
        states = States(problem, np.array([counts], dtype=float)).at(t)
        for k, share in enumerate(policy.probabilities(t, states)[0]):
            for outcome, chance in ((0, truth[k]), (1, 1.0 - truth[k])):
                later = [list(pair) for pair in counts]
                later[k][outcome] += 1
                earned = (problem.arms[k].reward.good, problem.arms[k].reward.bad)[outcome]
                total = total + share * chance * after(t + 1, later, reward + earned)
        return total

    return after(0, [[0, 0] for _ in truth], 0.0)


@pytest.mark.parametrize("name", ["greedy", "thompson", "optimal"])
@pytest.mark.parametrize("survival", [[1.0, 0.6, 0.6, 0.2], [0.9, 0.5, 0.3, 0.1]])
@pytest.mark.parametrize("truth", [[0.3, 0.6], [0.2, 0.7, 0.5]])
def test_moments_up_to_a_random_end(name: str, survival: list[float], truth: list[float]) -> None:
    """Rewards far from zero, so that an end is worth more than all outcomes."""
    arms = [
        Arm(name=f"a{k}", prior=BetaBernoulli(1 + k, 2), reward=Reward(good=52.0 + k, bad=49.0))
        for k in range(len(truth))
    ]
    problem = Problem(arms=arms, horizon=RandomHorizon(survival=survival))
    mean, square, best = moments_at(problem, name, truth)
    found = evaluate(problem, name, truth=truth)
    assert found.value == pytest.approx(mean, rel=1e-12)
    assert found.variance == pytest.approx(square - mean**2, rel=1e-9)
    assert found.best_arm_probability == pytest.approx(best, abs=1e-9)


def test_a_geometric_horizon_gives_the_discounted_gittins_index() -> None:
    """With enough stages, FH-Gittins in every state is the index of the discounted problem."""
    prior = {"alpha": 1.0, "beta": 1.0, "reward_good": 1.0, "reward_bad": 0.0}
    table = discounted_table(**prior, discount=0.8, pulls=6)
    problem = two_arms({"law": "geometric", "mean": 5, "most": 45})
    policy = make_policy(problem, "fh-gittins")
    assert isinstance(policy, CalibratedPolicy)
    for n, good in itertools.product(range(4), range(4)):
        if good <= n:
            index = policy.arm_index(n, 0, (good, n - good)).index
            assert index == pytest.approx(table[n * (n + 1) // 2 + good], abs=2e-5)


@pytest.mark.parametrize("model", ["beta", "classes"])
def test_calibrated_indices_are_roots_of_a_plain_recursion(model: str) -> None:
    """The charge per played stage at which a pull is as good as none, by bisection."""
    problem = Problem(horizon=LAWS["poisson"], arms=MODELS[model])
    policy = make_policy(problem, "fh-gittins")
    group = problem.groups[0]
    outcomes = [1.0, 0.0] if model == "beta" else [0.0, 1.0, 2.0]

    def advantage(charge: float) -> float:
        def values(stage: int, stats: np.ndarray) -> tuple[float, float]:
            if stage == problem.horizon:
                return 0.0, 0.0
            rest = max(values(stage + 1, stats))
            mean = float(group.model.mean(stats))
            w = problem.survival[stage]
            pull = w * (group.played_rewards[0][stage] + group.played_rewards[1][stage] * mean)
            pull -= w * charge
            prior = np.array([1.0, 1.0] if model == "beta" else [1.0, 1.0, 1.0])
            chances = (prior + stats) / (prior + stats).sum()
            for chance, outcome in zip(chances, outcomes, strict=True):
                later = group.model.update(stats[None], np.array([outcome]))[0]
                pull += chance * max(values(stage + 1, later))
            return rest, pull

        rest, pull = values(2, np.array(group.model.initial(), dtype=float) + 0.0)
        return pull - rest

    low, high = 0.0, 3.0
    for _ in range(45):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if advantage(middle) > 0.0 else (low, middle)
    stats = np.array([group.model.initial()], dtype=float)
    index = float(policy.index(2, 0, stats)[0]) / problem.survival[2]
    assert index == pytest.approx(low, abs=1e-6)


def test_numbers_of_a_decision_are_those_of_a_stage_that_is_played() -> None:
    problem = two_arms(LAWS["geometric"])
    found = recommend(problem, "1/1,1/1", "deco")
    again = recommend(remaining_problem(problem, 2, State.parse("1/1,1/1")), "0/0,0/0", "deco")
    assert found.arms[0].expected_reward == pytest.approx(2 / 3)
    assert again.arms[0].expected_reward == pytest.approx(2 / 3)


def test_files_keep_the_law() -> None:
    for law in LAWS.values():
        problem = two_arms(law)
        assert problem_to_dict(problem)["horizon"] == law
        assert problem_from_dict(problem_to_dict(problem)) == problem
    assert two_arms(LAWS["uniform"]) != two_arms(6)


@pytest.mark.parametrize(
    ("law", "field"),
    [
        ({"survival": []}, "horizon.survival"),
        ({"survival": [1.0, 0.5, 0.6]}, "horizon.survival.2"),
        ({"survival": [1.0, 0.0]}, "horizon.survival.1"),
        ({"law": "geometric", "mean": 0.5}, "horizon.mean"),
        ({"law": "geometric"}, "horizon.mean"),
        ({"law": "uniform", "least": 4, "most": 3}, "horizon.least"),
        ({"law": "uniform", "least": 4, "most": 6, "mean": 5}, "horizon.mean"),
        ({"law": "normal", "mean": 5}, "horizon.law"),
        ({"law": "poisson", "mean": 200_000}, "horizon.mean"),
        ({}, "horizon.survival"),
    ],
)
def test_laws_that_are_none_are_refused(law: dict[str, object], field: str) -> None:
    with refused("invalid_problem", field):
        problem_from_dict({"horizon": law, "arms": [{"name": "a"}, {"name": "b"}]})


def test_a_deployment_at_a_random_end_is_refused() -> None:
    with refused("invalid_problem", "terminal.deploy"):
        Problem.uniform(2, RandomHorizon(**LAWS["uniform"]), terminal={"deploy": 5.0})
