"""Information-directed sampling and the knowledge gradient: what they compute, by second roads."""

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc
from scipy.stats import beta as beta_law

from decobandit.policies import GreedyPolicy
from decobandit.policies.ids import IdsPolicy, VarianceIdsPolicy
from decobandit.policies.kernels.information import (
    best_pair,
    decide,
    fill_row,
    make_grid,
    make_room,
)
from decobandit.policies.knowledge_gradient import KnowledgeGradientPolicy
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State
from helpers.episodes import episodes_of, mixed
from helpers.examples import KINDS, random_state
from helpers.oracles import expected_reward, good_chance, rewards
from helpers.policies import probabilities_in
from helpers.refusals import refused
from helpers.values import evaluated

POSTERIORS = {
    "flat": [(1.0, 1.0)] * 3,
    "mixed": [(0.5, 3.7), (3.7, 0.5), (1.0, 1.0), (2.3, 2.9)],
    "late": [(80.0, 40.0), (30.5, 21.0), (3.0, 4.0), (61.0, 30.0)],
    "close": [(300.0, 200.0), (290.0, 210.0)],
    "settled": [(400.0, 20.0), (5.0, 40.0), (6.0, 30.0)],
}


def room_of(posteriors: list[tuple[float, float]], by_variance: bool = False) -> Any:
    """What the kernel finds for these posteriors."""
    room = make_room(len(posteriors), make_grid(1000))
    for arm, (a, b) in enumerate(posteriors):
        fill_row(arm, a, b, room)
    decide(room, by_variance)
    return room


def joint_mean(posteriors: list[tuple[float, float]], best: int, arm: int | None) -> float:
    """E[p_arm; best is best], or the chance of that where no arm is given, by quadrature."""
    a, b = posteriors[best]

    def integrand(x: float) -> float:
        value = float(beta_law.pdf(x, a, b))
        for other, (c, d) in enumerate(posteriors):
            if other == best:
                value *= x if other == arm else 1.0
            elif other == arm:
                value *= c / (c + d) * betainc(c + 1, d, x)
            else:
                value *= betainc(c, d, x)
        return value

    cuts = sorted({float(beta_law.ppf(q, *own)) for own in posteriors for q in (0.001, 0.5, 0.999)})
    ends = [0.0, *cuts, 1.0]
    parts = [quad(integrand, u, v, epsabs=1e-12)[0] for u, v in pairwise(ends)]
    return float(sum(parts))


# -- chances, means and gains on the grid -------------------------------------------------------


@pytest.mark.parametrize("name", POSTERIORS)
def test_chances_and_means_are_the_integrals(name: str) -> None:
    posteriors = POSTERIORS[name]
    found = room_of(posteriors)
    assert found.chance.sum() == pytest.approx(1, abs=1e-12)
    for i in range(len(posteriors)):
        assert found.chance[i] == pytest.approx(joint_mean(posteriors, i, None), abs=5e-5)
        for j in range(len(posteriors)):
            assert found.joint[i, j] == pytest.approx(joint_mean(posteriors, i, j), abs=5e-5)
    means = [a / (a + b) for a, b in posteriors]
    np.testing.assert_allclose(found.mean, means, rtol=0, atol=5e-5)


@pytest.mark.parametrize("name", POSTERIORS)
def test_regrets_and_gains_are_those_of_the_joint_law(name: str) -> None:
    plain, squared = (room_of(POSTERIORS[name], by) for by in (False, True))
    K = plain.chance.size
    largest = sum(plain.joint[i, i] for i in range(K))
    for j in range(K):
        m = plain.mean[j]
        told = plain.joint[:, j] / plain.chance
        kl = told * np.log(told / m) + (1 - told) * np.log((1 - told) / (1 - m))
        assert plain.regret[j] == pytest.approx(largest - m, abs=1e-13)
        assert plain.gain[j] == pytest.approx(float(plain.chance @ kl), abs=1e-13)
        assert squared.gain[j] == pytest.approx(float(plain.chance @ (told - m) ** 2), abs=1e-14)


def test_gain_is_information_between_best_arm_and_outcome() -> None:
    # two flat arms: the best has mean 2/3, the other 1/3; log 2 minus the entropy of (1/3, 2/3)
    found = room_of([(1.0, 1.0), (1.0, 1.0)])
    expected = math.log(2) + (math.log(1 / 3) + 2 * math.log(2 / 3)) / 3
    np.testing.assert_allclose(found.gain, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(found.regret, 2 / 3 - 1 / 2, rtol=0, atol=2e-6)
    by_variance = room_of([(1.0, 1.0), (1.0, 1.0)], by_variance=True)
    np.testing.assert_allclose(by_variance.gain, 1 / 36, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "posteriors",
    [
        [(1e7, 1e7), (1e7, 2e7)],
        [(1e-4, 1e-4)] * 3,
        [(5e3, 1.0), (1.0, 5e3)],
        [(1e9, 1.0), (1e9, 1.0), (2.0, 1e6)],
        [(0.01, 30.0), (900.0, 0.2)],
        [(1e12, 1e12)] * 4,
    ],
)
def test_extreme_posteriors_stay_finite(posteriors: list[tuple[float, float]]) -> None:
    for by_variance in (False, True):
        found = room_of(posteriors, by_variance)
        for part in (found.chance, found.joint, found.regret, found.gain):
            assert np.isfinite(part).all()
            assert (part >= 0).all()
        assert found.chance.sum() == pytest.approx(1, abs=1e-12)
        first, second, q = best_pair(found.regret, found.gain)
        assert 0 <= first < len(posteriors)
        assert 0 <= second < len(posteriors)
        assert 0 < q <= 1


# -- the pair -----------------------------------------------------------------------------------


def ratio(mix: Any, regret: Any, gain: Any) -> float:
    return float((mix @ regret) ** 2 / (mix @ gain))


@pytest.mark.parametrize("seed", range(20))
def test_pair_has_the_least_ratio_of_all_mixtures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 6))
    regret, gain = rng.uniform(0.01, 1, K) ** 2, rng.uniform(0, 1, K) ** 3
    first, second, q = best_pair(regret, gain)
    mix = np.zeros(K)
    mix[first] += q
    mix[second] += 1 - q
    found = ratio(mix, regret, gain)
    grid = np.linspace(0, 1, 2001)
    least = min(
        ((t * regret[i] + (1 - t) * regret[j]) ** 2 / (t * gain[i] + (1 - t) * gain[j])).min()
        for i, j in product(range(K), repeat=2)
        for t in [grid]
    )
    assert least * (1 - 1e-4) <= found <= least * (1 + 1e-12)
    # no mixture of more arms is better
    for other in rng.dirichlet(np.full(K, 0.5), 2_000):
        assert ratio(other, regret, gain) >= found * (1 - 1e-12)


def test_pair_is_greedy_where_nothing_is_learnt() -> None:
    assert best_pair(np.array([0.3, 0.1, 0.1]), np.zeros(3)) == (1, 1, 1.0)
    assert best_pair(np.array([0.3, 0.0, 0.2]), np.array([0.5, 0.0, 0.1])) == (1, 1, 1.0)
    assert best_pair(np.array([0.2, 0.2, 0.2]), np.full(3, 0.1)) == (0, 0, 1.0)


@pytest.mark.parametrize("policy", [IdsPolicy, VarianceIdsPolicy])
def test_ids_is_greedy_when_it_is_certain(policy: type[IdsPolicy]) -> None:
    problem = Problem.uniform(arms=3, horizon=3000)
    state = State.of_counts(good=(2, 950, 5), bad=(498, 50, 995))
    assert probabilities_in(policy(problem), 2500, state).tolist() == [0.0, 1.0, 0.0]


def test_ids_does_not_pull_an_arm_that_is_as_good_and_tells_less() -> None:
    # equal means: the arm that was never pulled tells more
    arms = (Arm(name="a", prior=BetaBernoulli(good=50, bad=50)), Arm(name="b"))
    for policy in (IdsPolicy, VarianceIdsPolicy):
        ids = policy(Problem(arms=arms, horizon=5))
        assert probabilities_in(ids, 0, State.fresh(2)).tolist() == [0.0, 1.0]


def test_a_finer_grid_changes_little() -> None:
    problem = mixed(40)
    rng = np.random.default_rng(8)
    for stage in (0, 7, 39):
        state = random_state(problem, stage, rng)
        ids = IdsPolicy(problem)
        coarse = probabilities_in(ids, stage, state)
        ids.grid = make_grid(4000)
        fine = probabilities_in(ids, stage, state)
        assert np.flatnonzero(coarse).tolist() == np.flatnonzero(fine).tolist()
        assert coarse == pytest.approx(fine, abs=2e-3)


@pytest.mark.parametrize("policy", [IdsPolicy, VarianceIdsPolicy])
def test_ids_does_not_mind_shift_and_factor_of_the_rewards(policy: type[IdsPolicy]) -> None:
    plain = evaluated(policy(mixed(4))).value
    scaled = evaluated(policy(mixed(4, good=-1.0, bad=-3.5))).value
    assert scaled == pytest.approx(2.5 * plain - 3.5 * 4, abs=1e-12)


@pytest.mark.parametrize("policy", [IdsPolicy, VarianceIdsPolicy])
@pytest.mark.parametrize("kind", ["heterogeneous", "deployed"])
def test_ids_weighs_rewards_that_differ_as_many_draws_do(
    policy: type[IdsPolicy], kind: str
) -> None:
    problem = KINDS[kind](9)
    rng = np.random.default_rng(6)
    for stage in (0, 4, 8):
        state = random_state(problem, stage, rng)
        arms = list(zip(problem.arms, state.good, state.bad, strict=True))
        p = np.stack([rng.beta(arm.beta.good + g, arm.beta.bad + b, 400_000) for arm, g, b in arms])
        good, bad = np.array([rewards(problem, arm, stage) for arm in problem.arms]).T[:, :, None]
        X = good * p + bad * (1 - p)
        best = X.argmax(axis=0)
        shares = np.bincount(best, minlength=len(X)) / best.size
        regret = X.max(axis=0).mean() - X.mean(axis=1)
        x = X if policy.by_variance else p
        told = np.stack([x[:, best == i].mean(axis=1) for i in range(len(X))])  # (best, arm)
        m = x.mean(axis=1)
        if policy.by_variance:
            gain = shares @ (told - m) ** 2
        else:
            kl = told * np.log(told / m) + (1 - told) * np.log((1 - told) / (1 - m))
            gain = shares @ kl
        mix = probabilities_in(policy(problem), stage, state)
        first, second, q = best_pair(regret, gain)
        least = np.zeros(len(X))
        least[first] += q
        least[second] += 1 - q
        assert ratio(mix, regret, gain) == pytest.approx(ratio(least, regret, gain), rel=0.01)


@pytest.mark.parametrize("policy", [IdsPolicy, VarianceIdsPolicy])
def test_ids_looks_for_bad_outcomes_where_they_earn_more(policy: type[IdsPolicy]) -> None:
    plain = mixed(9)
    arms = tuple(
        Arm(
            name=arm.name,
            prior=BetaBernoulli(good=arm.beta.bad, bad=arm.beta.good),
            reward=Reward(good=0.0, bad=1.0),
        )
        for arm in plain.arms
    )
    turned = Problem(arms=arms, horizon=9)
    state = State.of_counts(good=(1, 0, 2, 0), bad=(1, 1, 0, 2))
    mirror = State.of_counts(good=state.bad, bad=state.good)
    one = probabilities_in(policy(plain), 7, state)
    assert probabilities_in(policy(turned), 7, mirror) == pytest.approx(one, abs=0.02)


@pytest.mark.parametrize("policy", [IdsPolicy, VarianceIdsPolicy])
def test_ids_refuses_a_best_arm_that_changes(policy: type[IdsPolicy]) -> None:
    with refused("unsupported", "policy"):
        policy(KINDS["seasonal"](5))


# -- knowledge gradient -------------------------------------------------------------------------


def enumerated(problem: Problem, stage: int, state: State) -> list[float]:
    """The index from its definition, outcome by outcome."""
    deploy = problem.terminal.deploy if problem.terminal is not None else 0.0

    def value(state: State) -> float:
        """What one arm earns, the best of every later stage and of the deployment."""
        outcomes = list(zip(problem.arms, state.pulls, state.good, strict=True))
        later = sum(
            max(expected_reward(problem, arm, t, n, g) for arm, n, g in outcomes)
            for t in range(stage + 1, problem.horizon)
        )
        return later + deploy * max(good_chance(arm, n, g) for arm, n, g in outcomes)

    found = []
    for i, arm in enumerate(problem.arms):
        n, g = state.pulls[i], state.good[i]
        p = good_chance(arm, n, g)
        good, bad = (value(state.after(i, outcome)) for outcome in (True, False))
        later = p * good + (1 - p) * bad - value(state)
        found.append(expected_reward(problem, arm, stage, n, g) + later)
    return found


@pytest.mark.parametrize(
    "problem",
    [mixed(30), *(KINDS[k](30) for k in ("uniform", "heterogeneous", "seasonal", "deployed"))],
)
def test_knowledge_gradient_is_what_one_more_outcome_is_worth(problem: Problem) -> None:
    rng = np.random.default_rng(9)
    policy = KnowledgeGradientPolicy(problem)
    for stage in (0, 1, 2, 5, 11, 29):
        state = random_state(problem, stage, rng)
        np.testing.assert_allclose(
            policy.indices(stage, state), enumerated(problem, stage, state), rtol=0, atol=1e-11
        )


@pytest.mark.parametrize("kind", ["uniform", "heterogeneous", "seasonal", "deployed"])
def test_knowledge_gradient_is_greedy_at_the_last_choice(kind: str) -> None:
    rng = np.random.default_rng(10)
    problem = KINDS[kind](6)
    last = problem.stages - 1
    for _ in range(20):
        state = random_state(problem, last, rng)
        policies = KnowledgeGradientPolicy(problem), GreedyPolicy(problem)
        assert policies[0].select(last, state) == policies[1].select(last, state)


@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled", "first", "last"])
@pytest.mark.parametrize("kind", ["uniform", "heterogeneous", "deployed"])
def test_knowledge_gradient_plays_what_it_chooses(kind: str, ties: Any) -> None:
    problem = KINDS[kind](25)
    policy = KnowledgeGradientPolicy(problem, ties=ties)
    fresh = State.fresh(problem.n_arms)
    played = episodes_of(problem, [fresh] * 20, stages=25, seed=3)
    policy.play(played, 0, 25, np.random.default_rng(1))
    for episode in played.actions[:, :, 0].tolist():
        state = fresh
        for stage, action in enumerate(episode):
            arm, outcome = divmod(action, 2)
            assert policy.select(stage, state) == (arm,)
            state = state.after(arm, bool(outcome))


def test_random_ties_of_the_knowledge_gradient_are_even() -> None:
    policy = KnowledgeGradientPolicy(Problem.uniform(arms=4, horizon=5), ties="random")
    played = episodes_of(policy.problem, [State.fresh(4)] * 8_000, stages=1, seed=4)
    policy.play(played, 0, 1, np.random.default_rng(2))
    counts = np.bincount(played.actions[:, 0, 0] // 2, minlength=4)
    assert np.abs(counts - 2_000).max() < 4 * math.sqrt(8_000 * 3 / 16)


def test_knowledge_gradient_has_the_published_regret() -> None:
    # about 51 with ten flat arms and a thousand stages
    problem = Problem.uniform(arms=10, horizon=1000)
    played = episodes_of(problem, [State.fresh(10)] * 4_000, stages=1000, seed=5)
    KnowledgeGradientPolicy(problem).play(played, 0, 1000, np.random.default_rng(1))
    regret = 1000 * played.p.max(axis=1) - (played.pulls * played.p).sum(axis=1)
    assert abs(regret.mean() - 51.0) < 4 * regret.std() / math.sqrt(4_000)


def test_knowledge_gradient_refuses_batches_of_rewards_that_change() -> None:
    batches = Problem(
        arms=KINDS["seasonal"](5).arms, horizon=5, pulls_per_stage=6, repeat=True, unit=2
    )
    with refused("unsupported", "policy"):
        KnowledgeGradientPolicy(batches)


def test_knowledge_gradient_moves_with_rewards() -> None:
    worth = Reward(good=8.0, bad=3.0)
    plain = Problem(
        arms=(Arm(name="a"), Arm(name="b", prior=BetaBernoulli(good=3.7, bad=3))), horizon=9
    )
    arms = tuple(arm.model_copy(update={"reward": worth}) for arm in plain.arms)
    scaled = Problem(arms=arms, horizon=9)
    values = [evaluated(KnowledgeGradientPolicy(problem)).value for problem in (plain, scaled)]
    assert values[1] == pytest.approx(5 * values[0] + 27, abs=1e-11)
