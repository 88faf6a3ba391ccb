"""Thompson sampling, and what all randomised policies keep to: laws, simulated play, refusals."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import chi2

from decobandit.joint import optimum
from decobandit.policies import ThompsonPolicy
from decobandit.policies.ids import IdsPolicy, VarianceIdsPolicy
from decobandit.policies.knowledge_gradient import KnowledgeGradientPolicy
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State
from decobandit.problem.model import Terminal
from decobandit.simulation import simulate
from helpers.best_of_betas import best_probabilities
from helpers.episodes import episodes_of, mixed
from helpers.examples import KINDS, at_stake, random_state
from helpers.policies import Bench, probabilities_in
from helpers.program import deco
from helpers.refusals import refused
from helpers.values import evaluated

FOUR: list[type[Any]] = [ThompsonPolicy, IdsPolicy, VarianceIdsPolicy, KnowledgeGradientPolicy]
DRAWING = FOUR[:3]


def make(policy: type[Any], problem: Problem) -> Any:
    """The policy, with a coarse grid where it has one: laws and values do not need a fine one."""
    return policy(problem)


def played_once(policy: Any, stage: int, state: State, number: int, seed: int) -> Any:
    """Arms pulled in one stage of many episodes in one state, (number, pulls)."""
    made = episodes_of(policy.problem, [state] * number, stages=1, seed=seed)
    policy.play(made, stage, stage + 1, np.random.default_rng(seed))
    return made.actions[:, 0] // 2


def agrees(counts: Any, chances: Any) -> bool:
    """Whether frequencies are those of the chances, at the level 1e-3."""
    counts, chances = np.array(counts, float), np.array(chances)
    assert counts[chances < 1e-9].sum() == 0
    rare = counts.sum() * chances < 10
    counts = np.append(counts[~rare], counts[rare].sum())
    chances = np.append(chances[~rare], max(chances[rare].sum(), 1e-9))
    expected = counts.sum() * chances
    return bool(((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, max(1, chances.size)))


# -- chances of being best ----------------------------------------------------------------------


def above(a: int, b: float, c: float, d: float) -> float:
    """P(X > Y), X ~ Beta(a, b), Y ~ Beta(c, d), a whole.

    The sum over i < a of B(c+i, b+d) / ((b+i) B(1+i, b) B(c, d)).
    """
    return sum(
        math.exp(betaln(c + i, b + d) - math.log(b + i) - betaln(1 + i, b) - betaln(c, d))
        for i in range(a)
    )


@pytest.mark.parametrize(
    ("a", "b", "c", "d"),
    [
        (1, 1, 1, 1),
        (2, 1, 1, 2),
        (5, 3, 2, 7),
        (100, 50, 90, 60),
        (1, 1, 300, 400),
        (500, 3, 20, 1),
        (3, 500, 1, 40),
        (1000, 2000, 1, 2),
        (3, 0.5, 0.2, 3.7),
        (1, 0.01, 0.01, 1),
    ],
)
def test_chances_of_two_arms_are_the_exact_sum(a: int, b: float, c: float, d: float) -> None:
    found = best_probabilities(np.array([a, c]), np.array([b, d]), np.zeros(2), np.ones(2))
    expected = above(a, b, c, d)
    np.testing.assert_allclose(found, [expected, 1 - expected], rtol=0, atol=1e-11)


# -- the law of Thompson sampling ---------------------------------------------------------------

TINY = Problem(
    arms=tuple(
        Arm(name=f"{i}", prior=BetaBernoulli(good=a, bad=b))
        for i, (a, b) in enumerate([(0.05, 0.05), (0.05, 0.02), (1, 1), (1e6, 1e6)])
    ),
    horizon=40,
)
LAWS = [mixed(40), TINY, *(KINDS[kind](40) for kind in KINDS if kind != "several pulls")]


@pytest.mark.parametrize("problem", LAWS)
def test_thompson_draws_arms_with_the_chances_that_it_tells(problem: Problem) -> None:
    rng = np.random.default_rng(1)
    policy = ThompsonPolicy(problem)
    for stage in (0, 5, 39):
        state = random_state(problem, stage, rng)
        chances = probabilities_in(policy, stage, state)
        assert chances.sum() == pytest.approx(1, abs=1e-12)
        counts = Counter(policy.select(stage, state, rng)[0] for _ in range(1_500))
        assert agrees([counts[arm] for arm in range(chances.size)], chances)


@pytest.mark.parametrize("policy", DRAWING)
@pytest.mark.parametrize("problem", [mixed(40), TINY])
def test_play_draws_arms_with_the_chances_of_the_policy(
    policy: type[Any], problem: Problem
) -> None:
    rng = np.random.default_rng(2)
    made = make(policy, problem)
    for stage in (0, 1, 6, 20, 39):
        state = random_state(problem, stage, rng)
        arms = played_once(made, stage, state, 2_000 if made.name != "thompson" else 20_000, stage)
        counts = np.bincount(arms[:, 0], minlength=problem.n_arms)
        assert agrees(counts, probabilities_in(made, stage, state))


@pytest.mark.parametrize("kind", ["heterogeneous", "seasonal", "deployed", "tabled"])
def test_thompson_plays_rewards_of_any_kind_by_their_chances(kind: str) -> None:
    rng = np.random.default_rng(3)
    problem = KINDS[kind](30)
    policy = ThompsonPolicy(problem)
    for stage in (0, 3, 12, 29):
        state = random_state(problem, stage, rng)
        arms = played_once(policy, stage, state, 20_000, stage)
        counts = np.bincount(arms[:, 0], minlength=problem.n_arms)
        assert agrees(counts, probabilities_in(policy, stage, state))


def test_thompson_plays_concentrated_posteriors_by_their_chances() -> None:
    # far in the tails, where proposals are rare, and just where they begin
    problem = Problem.uniform(arms=3, horizon=300)
    policy = ThompsonPolicy(problem)
    for text in ("60/100,50/100,1/2", "95/100,90/100,10/12", "3/100,2/99,0/1", "99/150,0/0,80/140"):
        state = State.parse(text)
        arms = played_once(policy, state.total, state, 100_000, 7)
        counts = np.bincount(arms[:, 0], minlength=3)
        assert agrees(counts, probabilities_in(policy, state.total, state))


def test_sure_rewards_are_drawn_evenly() -> None:
    sure = Reward(good=0.5, bad=0.5)
    arms = (Arm(name="a"), *(Arm(name=name, reward=sure) for name in "bcd"))
    policy, fresh = ThompsonPolicy(Problem(arms=arms, horizon=3)), State.fresh(4)
    assert probabilities_in(policy, 0, fresh) == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    counts = np.bincount(played_once(policy, 0, fresh, 60_000, 1)[:, 0], minlength=4)
    assert agrees(counts, [1 / 2, 1 / 6, 1 / 6, 1 / 6])
    rng = np.random.default_rng(1)
    asked = Counter(policy.select(0, fresh, rng)[0] for _ in range(6_000))
    assert agrees([asked[arm] for arm in range(4)], [1 / 2, 1 / 6, 1 / 6, 1 / 6])


def test_several_pulls_are_played_as_they_are_chosen() -> None:
    rng = np.random.default_rng(4)
    problem = KINDS["several pulls"](20)
    policy = ThompsonPolicy(problem)
    for stage in (0, 4, 15):
        state = random_state(problem, stage, rng)
        played = Counter(map(tuple, played_once(policy, stage, state, 40_000, stage).tolist()))
        asked = Counter(policy.select(stage, state, rng) for _ in range(2_000))
        assert set(asked) <= set(played)  # in order, the largest first
        orders = list(played)
        assert agrees([asked[o] for o in orders], [played[o] / 40_000 for o in orders])


# -- play against exact values ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "number"),
    [
        (ThompsonPolicy, 80_000),
        (IdsPolicy, 20_000),
        (VarianceIdsPolicy, 20_000),
        (KnowledgeGradientPolicy, 80_000),
    ],
)
@pytest.mark.parametrize("problem", [Problem.uniform(arms=3, horizon=6), mixed(4)])
def test_episodes_earn_the_exact_value(policy: type[Any], number: int, problem: Problem) -> None:
    made, T = make(policy, problem), problem.horizon
    fresh = [State.fresh(problem.n_arms)] * number
    played = episodes_of(problem, fresh, stages=T, seed=11)
    made.play(played, 0, T, np.random.default_rng(12))
    np.testing.assert_array_equal(played.pulls.sum(axis=1), T)
    np.testing.assert_array_equal((played.actions % 2).sum(axis=(1, 2)), played.good.sum(axis=1))
    # rewards of pulls given their success probabilities: less noise than outcomes
    earned = (played.pulls * played.p).sum(axis=1)
    error = earned.std() / math.sqrt(number)
    assert abs(earned.mean() - evaluated(made).value) < 4 * error


@pytest.mark.parametrize("policy", FOUR)
def test_play_is_repeatable_and_goes_on_from_any_stage(policy: type[Any]) -> None:
    problem = mixed(9)
    made, fresh = make(policy, problem), [State.fresh(4)] * 50
    runs = [episodes_of(problem, fresh, stages=9, seed=1) for _ in range(2)]
    for episodes in runs:
        made.play(episodes, 0, 9, np.random.default_rng(5))
    np.testing.assert_array_equal(runs[0].actions, runs[1].actions)
    later = episodes_of(problem, fresh, stages=3, seed=1)
    made.play(later, 0, 3, np.random.default_rng(5))
    states = [
        State.of_counts(tuple(g), tuple(n - g))
        for g, n in zip(later.good, later.pulls, strict=True)
    ]
    rest = episodes_of(problem, states, stages=6, seed=2)
    made.play(rest, 3, 9, np.random.default_rng(6))
    assert (rest.actions >= 0).all()
    np.testing.assert_array_equal(rest.pulls.sum(axis=1), 9)


@pytest.mark.parametrize("policy", FOUR)
def test_values_are_between_chance_and_optimum(policy: type[Any]) -> None:
    for problem in (Problem.uniform(arms=3, horizon=5), mixed(3, good=2.0, bad=-1.0)):
        value = evaluated(make(policy, problem)).value
        assert value <= optimum(problem).value + 1e-12 * at_stake(problem)
        means = [arm.beta.good / (arm.beta.good + arm.beta.bad) for arm in problem.arms]
        good, bad = problem.groups[0].reward_good[0], problem.groups[0].reward_bad[0]
        assert value > problem.horizon * (bad + (good - bad) * float(np.mean(means)))


# -- what all of them keep to -------------------------------------------------------------------


@pytest.mark.parametrize("policy", FOUR)
def test_one_arm_is_pulled_for_ever(policy: type[Any]) -> None:
    arm = Arm(name="only", prior=BetaBernoulli(good=2, bad=3), reward=Reward(good=4, bad=-1))
    made = policy(Problem(arms=(arm,), horizon=7))
    assert evaluated(made).value == pytest.approx(7 * (4 * 0.4 - 0.6))
    assert (played_once(made, 6, State.of_counts((2,), (4,)), 10, 1) == 0).all()


@pytest.mark.parametrize("policy", FOUR)
def test_deployment_takes_the_largest_mean_then_the_least_pulled(policy: type[Any]) -> None:
    problem = mixed(6).model_copy(update={"terminal": Terminal(deploy=3.0)})
    made = policy(problem)
    assert made.select(6, State.of_counts(good=(3, 0, 0, 1), bad=(1, 0, 2, 0))) == (3,)
    assert made.select(6, State.of_counts(good=(2, 0, 0, 1), bad=(2, 0, 2, 1))) == (
        3,
    )  # 1/2 and 1/2


@pytest.mark.parametrize("policy", FOUR)
def test_deployment_is_worth_no_less_than_the_best_prior(policy: type[Any]) -> None:
    problem = mixed(2).model_copy(update={"terminal": Terminal(deploy=3.0)})
    assert evaluated(make(policy, problem)).stage_rewards[-1] >= 3.0 * 2.5 / 3.6


@pytest.mark.parametrize("policy", DRAWING)
def test_a_generator_is_needed(policy: type[Any]) -> None:
    made = policy(mixed(5))
    assert made.randomised
    with refused("invalid_argument", "rng"):
        made.select(0, State.fresh(4))


@pytest.mark.parametrize("policy", FOUR)
def test_stages_and_states_that_cannot_be_are_refused(policy: type[Any]) -> None:
    made, rng = policy(mixed(5)), np.random.default_rng(1)
    with refused("invalid_argument", "stage"):
        made.select(5, State.fresh(4), rng)
    with refused("invalid_argument", "state"):
        made.select(0, State.fresh(3), rng)
    with refused("invalid_argument", "state"):
        made.select(1, State.of_counts(good=(2, 0, 0, 0), bad=(0, 0, 0, 0)), rng)


def test_several_pulls_have_no_exact_value() -> None:
    policy = ThompsonPolicy(KINDS["several pulls"](4))
    assert not policy.has_probabilities
    with refused("unsupported", "policy"):
        evaluated(policy)


@pytest.mark.parametrize("policy", FOUR[1:])
def test_several_pulls_are_refused(policy: type[Any]) -> None:
    with refused("unsupported", "policy"):
        policy(Problem.uniform(arms=3, horizon=4, pulls_per_stage=2))


def test_program_evaluates_them() -> None:
    names = [policy.name for policy in FOUR]
    shown = deco("evaluate", "--policy", ",".join(names), "--arms", 2, "--horizon", 3, "--json")
    bench = Bench(Problem.uniform(arms=2, horizon=3))
    assert [(row["policy"], row["value"]) for row in shown.json["policies"]] == [
        (name, evaluated(bench.policy(name)).value) for name in names
    ]


# -- priors small, large and lopsided ------------------------------------------------------------


@pytest.mark.parametrize(
    "arms",
    [
        (((1, 1), (0.2, 0.2)), ((0.1, 0.1), (1.2, 0.2))),
        (((0.01, 0.01), (1.2, 0.2)), ((0.01, 0.01), (0.7, 0.2))),
        (((1e9, 1e3), (1.0, 0.0)), ((1, 1), (1.0, 0.0))),
        (((1e-6, 1e-6), (1.0, 0.0)), ((0.003, 0.003), (0.9, 0.0))),
        (((1e3, 1e9), (1.0, 0.1)), ((10, 1e-3), (0.1, 0.4))),
    ],
)
def test_thompson_plays_what_its_exact_value_says(arms: Any) -> None:
    problem = Problem(
        arms=tuple(
            Arm(name=f"{i}", prior=BetaBernoulli(good=g, bad=b), reward=Reward(good=up, bad=down))
            for i, ((g, b), (up, down)) in enumerate(arms)
        ),
        horizon=4,
    )
    policy = ThompsonPolicy(problem)
    found = simulate(problem, policy, draws=3000, per_draw=3, rng=2).results[0]
    assert found.value == pytest.approx(evaluated(policy).value, abs=4.0 * found.value_se)
    assert found.value_se < 0.01 * problem.horizon
