"""Information-directed sampling for arms of any kind, against closed forms and quadrature."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc, ndtr, xlogy
from scipy.stats import nbinom, norm

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    State,
    evaluate,
    make_policy,
    simulate,
)
from decobandit.policies.ids import IdsPolicy, VarianceIdsPolicy
from helpers.policies import probabilities_in
from helpers.refusals import refused

GRADES = Reward(values=[0, 1, 3])


def found(problem: Problem, state: str, policy: type[IdsPolicy] = IdsPolicy) -> tuple:
    """Chances of being best, means where an arm is best, gains and regrets."""
    seen = State.parse(state, problem)
    own = [stats[None, :] for stats in seen.stats]
    chance, joint, gain = policy(problem)._tables(seen.total, own)
    return chance[0], joint[0], gain, np.trace(joint[0]) - joint[0].sum(axis=0)


def entropy(p: float) -> float:
    return float(-xlogy(p, p) - xlogy(1 - p, 1 - p))


# -- tables against closed forms ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "sds", "noise"),
    [
        ((0, 0), (1, 1), (1, 1)),
        ((0.3, 0), (1, 0.5), (1, 2)),
        ((1, 0), (0.3, 0.4), (1, 1)),
        ((0.2, 0), (5, 5), (0.1, 0.1)),
    ],
)
def test_two_normal_arms_are_one_integral(means: tuple, sds: tuple, noise: tuple) -> None:
    arms = [
        Arm(name=name, prior=NormalNormal(m, s), noise_sd=n)
        for name, m, s, n in zip("ab", means, sds, noise, strict=True)
    ]
    chance, _, gain, regret = found(Problem(horizon=5, arms=arms), "0/0,0/0")
    apart, spread = means[0] - means[1], float(np.hypot(*sds))
    best = float(ndtr(apart / spread))
    largest = means[0] * best + means[1] * (1 - best) + spread * norm.pdf(apart / spread)
    for a in range(2):
        moved = sds[a] ** 2 / np.hypot(sds[a], noise[a])  # sd of the posterior mean after a pull
        left = np.sqrt(spread**2 - moved**2)

        def doubt(z: float, moved: float = moved, left: float = left) -> float:
            return float(norm.pdf(z)) * entropy(float(ndtr((apart + moved * z) / left)))

        exact = entropy(best) - quad(doubt, -9, 9, points=[-apart / moved], limit=400)[0]
        assert gain[0, a] == pytest.approx(exact, rel=2e-3)
        assert regret[a] == pytest.approx(largest - means[a], rel=1e-4)
    assert chance[0] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("state", ["0/0,0/0", "9/3,1/2", "40/20,30/20"])
def test_two_count_arms_are_beta_laws(state: str) -> None:
    """G_1 / (G_1 + G_2) of two gammas is beta, and outcomes move shape and rate."""
    problem = Problem.uniform(arms=2, horizon=50, prior=GammaPoisson(2, 1))
    chance, _, gain, _ = found(problem, state)
    (n, a), (m, b) = (own.tolist() for own in State.parse(state, problem).stats)
    shapes, rates = (2 + a, 2 + b), (1 + n, 1 + m)

    def first_best(more: tuple[int, int], pulls: tuple[int, int]) -> np.ndarray:
        own = [shapes[k] + np.asarray(more[k]) for k in range(2)]
        rate = [rates[k] + pulls[k] for k in range(2)]
        return np.asarray(1 - betainc(*own, rate[0] / sum(rate)))

    p = float(first_best((0, 0), (0, 0)))
    assert chance[0] == pytest.approx(p, abs=2e-4)
    counts = np.arange(400)
    for k in range(2):
        pulled = (1, 0) if k == 0 else (0, 1)
        law = nbinom.pmf(counts, shapes[k], rates[k] / (rates[k] + 1))
        after = first_best((counts, 0) if k == 0 else (0, counts), pulled)  # type: ignore[arg-type]
        doubt = -xlogy(after, after) - xlogy(1 - after, 1 - after)
        assert gain[0, k] == pytest.approx(entropy(p) - float(law @ doubt), rel=3e-3)


def test_classes_are_those_of_many_draws() -> None:
    arms = [
        Arm(name="a", prior=DirichletCategorical([8, 4, 2]), reward=GRADES),
        Arm(name="b", prior=DirichletCategorical([1, 1, 1]), reward=GRADES),
        Arm(name="c", prior=DirichletCategorical([0.5, 1, 2]), reward=Reward(values=[0, 1, 2])),
    ]
    chance, joint, gain, regret = found(Problem(horizon=9, arms=arms), "1+0+0,0+0+0,0+1+0")
    rng = np.random.default_rng(3)
    N = 400_000
    counts = ([9, 4, 2], [1, 1, 1], [0.5, 2, 2])
    theta = [rng.dirichlet(own, N) for own in counts]
    means = np.stack([theta[0] @ [0, 1, 3], theta[1] @ [0, 1, 3], theta[2] @ [0, 1, 2]])
    best = means.argmax(axis=0)
    for a in range(3):
        assert chance[a] == pytest.approx((best == a).mean(), abs=0.003)
        table = np.stack([theta[a][best == i].sum(axis=0) for i in range(3)]) / N
        rows, columns = table.sum(axis=1), table.sum(axis=0)
        exact = float((table * np.log(table / np.outer(rows, columns))).sum())
        assert gain[0, a] == pytest.approx(exact, rel=0.02)
        assert regret[a] == pytest.approx((means.max(axis=0) - means[a]).mean(), rel=0.005)
        for i in range(3):
            assert joint[i, a] == pytest.approx(means[a][best == i].sum() / N, abs=0.005)


def test_equal_normal_arms_share_what_is_known_of_their_largest() -> None:
    """The largest of K standard normals: 1.0295 at K = 4 (tables of order statistics)."""
    problem = Problem.uniform(arms=4, horizon=5, prior=NormalNormal(0, 1), noise_sd=1.0)
    chance, joint, gain, regret = found(problem, "0/0,0/0,0/0,0/0")
    np.testing.assert_allclose(chance, 0.25, atol=1e-4)
    np.testing.assert_allclose(regret, 1.02938, rtol=1e-3)
    np.testing.assert_allclose(gain[0], gain[0, 0], rtol=1e-3)
    np.testing.assert_allclose(np.diag(joint) / chance, 1.02938, rtol=1e-3)


# -- decisions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["0/0,0/0,0/0", "3/5,2/2,0/0", "1/4,3/4,2/4", "9/12,4/6,1/3"])
@pytest.mark.parametrize("by_variance", [False, True])
def test_good_and_bad_outcomes_are_shared_as_the_compiled_policy_does(
    state: str, by_variance: bool
) -> None:
    binary = Problem.uniform(arms=3, horizon=40)
    one = (VarianceIdsPolicy if by_variance else IdsPolicy)(binary)
    two = (VarianceIdsPolicy if by_variance else IdsPolicy)(binary)
    two._arms = None  # as other outcomes do
    seen = State.parse(state)
    expected, shares = (probabilities_in(policy, seen.total, seen) for policy in (one, two))
    if seen.total == 0:  # three equal arms: any of them
        expected, shares = np.sort(expected), np.sort(shares)
    np.testing.assert_allclose(shares, expected, atol=0.02)


CLASSES = Problem(
    horizon=4,
    arms=[
        Arm(name="a", prior=DirichletCategorical([2, 1, 1]), reward=GRADES),
        Arm(name="b", prior=DirichletCategorical([1, 1, 1]), reward=GRADES),
    ],
)


def test_exact_value_is_that_of_all_histories() -> None:
    policy = make_policy(CLASSES, "ids")

    def value(counts: tuple[tuple[int, ...], ...], stage: int) -> float:
        if stage == CLASSES.horizon:
            return 0.0
        state = State.parse(",".join("+".join(map(str, own)) for own in counts), CLASSES)
        total = 0.0
        for arm, chance in enumerate(probabilities_in(policy, stage, state)):
            weight = np.array([[2, 1, 1], [1, 1, 1]][arm]) + counts[arm]
            for j, worth in enumerate([0, 1, 3]):
                after = list(counts)
                after[arm] = tuple(n + (i == j) for i, n in enumerate(counts[arm]))
                rest = value(tuple(after), stage + 1)
                total += chance * weight[j] / weight.sum() * (worth + rest)
        return total

    exact = value(((0, 0, 0), (0, 0, 0)), 0)
    assert evaluate(CLASSES, "ids").value == pytest.approx(exact, abs=1e-12)


def test_simulated_values_are_the_exact_ones() -> None:
    for name in ("ids", "v-ids"):
        (drawn,) = simulate(CLASSES, name, draws=400, rng=2).results
        exact = evaluate(CLASSES, name).value
        assert abs(drawn.estimates.best.value - exact) < 4 * drawn.estimates.best.value_se


def test_workers_do_not_change_what_is_drawn() -> None:
    problem = Problem.uniform(
        arms=2, horizon=3, prior=DirichletCategorical([1, 1, 1]), reward=GRADES
    )
    values = [
        simulate(problem, "ids", draws=900, rng=5, workers=number).results[0].estimates.best.value
        for number in (1, 2)
    ]
    assert values[0] == values[1]


def test_rewards_that_fall_with_the_outcome_turn_the_best_arm_around() -> None:
    more = Problem.uniform(arms=2, horizon=9, prior=GammaPoisson(2, 1), reward=Reward(factor=1.0))
    less = Problem.uniform(arms=2, horizon=9, prior=GammaPoisson(2, 1), reward=Reward(factor=-1.0))
    up, down = found(more, "5/2,1/1"), found(less, "5/2,1/1")
    np.testing.assert_allclose(up[0], down[0][::-1], atol=1e-6)
    np.testing.assert_allclose(up[2], down[2], rtol=1e-6)  # two arms: the same question


def test_kinds_are_mixed_and_chances_sum_to_one() -> None:
    arms = [
        Arm(name="b"),
        Arm(name="c", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 0.5, 1])),
        Arm(name="n", prior=NormalNormal(0.5, 0.3), noise_sd=0.5),
        Arm(name="p", prior=GammaPoisson(2, 4)),
    ]
    problem = Problem(horizon=10, arms=arms)
    for name in ("ids", "v-ids"):
        policy = make_policy(problem, name)
        state = State.parse("1/1,0+1+0,0.4/1,2/2", problem)
        shares = probabilities_in(policy, state.total, state)
        assert sum(shares) == pytest.approx(1, abs=1e-12)
        draws = {policy.choose(state, rng=np.random.default_rng(seed)) for seed in range(40)}
        assert draws <= {(arm,) for arm in np.flatnonzero(shares)}


# -- what is refused ----------------------------------------------------------------------------


def test_what_has_no_best_arm_is_refused() -> None:
    changing = Problem(
        horizon=3,
        arms=[
            Arm(name="a", prior=GammaPoisson(1, 1), reward=Reward(factor=[1, 1, 2])),
            Arm(name="b", prior=GammaPoisson(1, 1)),
        ],
    )
    with refused("unsupported", "policy"):
        make_policy(changing, "ids")
    discounted = Problem.uniform(
        arms=2, horizon=3, prior=GammaPoisson(1, 1), reward=Reward(factor=[1, 0.9, 0.81])
    )
    assert make_policy(discounted, "ids").name == "ids"
    several = Problem.uniform(arms=3, horizon=3, pulls_per_stage=2, prior=GammaPoisson(1, 1))
    with refused("unsupported", "policy"):
        make_policy(several, "v-ids")


def test_ids_pulls_one_of_two_arms() -> None:
    problem = Problem.uniform(arms=3, horizon=9, prior=NormalNormal(0, 1), noise_sd=1.0)
    policy = make_policy(problem, "ids")
    for sums in itertools.product((-0.5, 0.7), repeat=3):
        state = State.parse(",".join(f"{total}/1" for total in sums), problem)
        assert 1 <= np.count_nonzero(probabilities_in(policy, 3, state)) <= 2


@pytest.mark.parametrize("name", ["ids", "v-ids"])
@pytest.mark.parametrize(("known", "arm"), [(-30.0, 1), (30.0, 0)])
def test_an_arm_that_is_known_is_pulled_where_it_is_best(name: str, known: float, arm: int) -> None:
    """Its law is a step, far from that of the other arm: there is nothing to learn of the best."""
    arms = [
        Arm(name="known", prior=DirichletCategorical([1, 1]), reward=Reward(values=[known, known])),
        Arm(name="other", prior=NormalNormal(0, 1), noise_sd=1),
    ]
    policy = make_policy(Problem(horizon=2, arms=arms), name)
    assert probabilities_in(policy, 0, State.before(policy.problem))[arm] == 1.0


def test_an_arm_that_is_known_and_counts_down_is_the_best_at_the_end() -> None:
    """Its reward is 1 for certain, and the other's at most 0."""
    arms = [
        Arm(
            name="known",
            prior=DirichletCategorical([2, 1]),
            reward=Reward(values=[-1, -1], factor=-1),
        ),
        Arm(name="other", prior=BetaBernoulli(2, 3), reward=Reward(good=0, bad=-1)),
    ]
    policy = make_policy(Problem(horizon=2, arms=arms), "ids")
    assert probabilities_in(policy, 0, State.before(policy.problem)).tolist() == [1.0, 0.0]
