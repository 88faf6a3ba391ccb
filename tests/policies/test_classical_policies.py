"""Classical index policies: formulas against scalar ones, what they earn, what they refuse."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betainc

from decobandit.joint import optimum
from decobandit.policies import GreedyPolicy, IndexPolicy, KlUcbPolicy, Policy
from decobandit.policies.simple import EqualPolicy, ExploreThenCommitPolicy
from decobandit.policies.upper_bounds import (
    BayesUcbPolicy,
    MossPolicy,
    OgiPolicy,
    Ucb1Policy,
    UcbTunedPolicy,
    optimistic_roots,
)
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State
from decobandit.problem.kernels.layout import slab_size
from decobandit.problem.model import Terminal
from helpers.examples import KINDS, at_stake, largest_reward, random_state
from helpers.oracles import expected_reward, rewards, stage_pulls
from helpers.refusals import refused
from helpers.values import evaluated

BOUNDS: list[type[IndexPolicy]] = [Ucb1Policy, UcbTunedPolicy, MossPolicy, KlUcbPolicy]
OTHERS: list[type[IndexPolicy]] = [
    GreedyPolicy,
    EqualPolicy,
    ExploreThenCommitPolicy,
    BayesUcbPolicy,
    OgiPolicy,
]
POLICIES = BOUNDS + OTHERS


def priors(horizon: int, *, good: float = 1.0, bad: float = 0.0, pulls: int = 1) -> Problem:
    """Arms of different priors, two of them alike, and one reward for all."""
    pairs = [(1, 1), (0.3, 2.6), (7.5, 4.1), (1, 1)]
    arms = tuple(
        Arm(name=f"arm-{i}", prior=BetaBernoulli(good=a, bad=b), reward=Reward(good=good, bad=bad))
        for i, (a, b) in enumerate(pairs)
    )
    return Problem(arms=arms, horizon=horizon, pulls_per_stage=pulls)


def differing(horizon: int) -> Problem:
    """Arms whose rewards differ from one another and change with the stage."""
    rising = [1.0 + 0.1 * t for t in range(horizon)]
    pairs = [(1.0, 0.0), (1.5, -0.25), (rising, 0.5), (0.5, 0.5)]
    arms = tuple(
        arm.model_copy(update={"reward": Reward(good=good, bad=bad)})
        for arm, (good, bad) in zip(priors(horizon).arms, pairs, strict=True)
    )
    return Problem(arms=arms, horizon=horizon)


def served(policy: type[IndexPolicy], horizon: int) -> dict[str, Problem]:
    """Problems of all kinds that the policy does not refuse."""
    alike = {
        "uniform": Problem.uniform(arms=4, horizon=horizon),
        "one arm": Problem.uniform(arms=1, horizon=horizon),
        "priors": priors(horizon),
        # long enough for every rule to decide by outcomes
        "two arms": Problem(arms=priors(horizon).arms[1:3], horizon=horizon + 4),
        "scaled": priors(horizon, good=-1.0, bad=-3.5),
        "two pulls": priors(horizon, pulls=2),
        "all pulled": priors(horizon, pulls=4),
        "priors, deployed": priors(horizon).model_copy(update={"terminal": Terminal(deploy=4.0)}),
        "tabled": KINDS["tabled"](horizon),
    }
    if policy in BOUNDS:
        return alike
    changing = policy is OgiPolicy
    return alike | {
        kind: make(horizon) for kind, make in KINDS.items() if not (changing and kind == "seasonal")
    }


# -- each index against a scalar formula --------------------------------------------------------


def kl(p: float, q: float) -> float:
    return sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0)


def ucb1(problem: Problem, t: int, n: int, g: int) -> float:
    return g / n + math.sqrt(2 * math.log(t) / n)


def ucb_tuned(problem: Problem, t: int, n: int, g: int) -> float:
    squares = sum([1.0**2] * g + [0.0**2] * (n - g))
    variance = squares / n - (g / n) ** 2 + math.sqrt(2 * math.log(t) / n)
    return g / n + math.sqrt(math.log(t) / n * min(1 / 4, variance))


def moss(problem: Problem, t: int, n: int, g: int) -> float:
    pulls = sum(stage_pulls(problem))
    return g / n + math.sqrt(max(0.0, math.log(pulls / (len(problem.arms) * n))) / n)


def kl_ucb(problem: Problem, t: int, n: int, g: int) -> float:
    log_t = math.log(t + 1)
    level = log_t / n
    if g == n:
        return 1.0
    return float(brentq(lambda q: kl(g / n, q) - level, g / n, 1 - 1e-15, xtol=1e-13))


FORMULAS: dict[type[IndexPolicy], Callable[[Problem, int, int, int], float]] = {
    Ucb1Policy: ucb1,
    UcbTunedPolicy: ucb_tuned,
    MossPolicy: moss,
    KlUcbPolicy: kl_ucb,
}


@pytest.mark.parametrize("policy", BOUNDS)
@pytest.mark.parametrize(
    "problem",
    [priors(40), priors(40, good=-1.0, bad=-3.5), priors(40, pulls=2), differing(40)],
    ids=["plain", "scaled", "two pulls", "differing"],
)
def test_bounds_are_those_of_the_formula(policy: type[IndexPolicy], problem: Problem) -> None:
    rng = np.random.default_rng(1)
    made = policy(problem)
    for stage in (1, 2, 3, 7, 20, 39):
        state = random_state(problem, stage, rng)
        indices = made.indices(stage, state)
        for arm, n, g, index in zip(problem.arms, state.pulls, state.good, indices, strict=True):
            good, bad = rewards(problem, arm, stage)
            if n:
                bound = FORMULAS[policy](problem, stage, n, g)
                assert index == pytest.approx(bad + (good - bad) * bound, abs=1e-10)
            elif good == bad:
                assert index == good  # its reward is known
            else:
                assert 1e6 < index < math.inf


@pytest.mark.parametrize("problem", [priors(40), *(make(12) for make in KINDS.values())])
def test_greedy_index_is_the_expected_reward(problem: Problem) -> None:
    rng = np.random.default_rng(3)
    for stage in range(len(stage_pulls(problem))):
        state = random_state(problem, stage, rng)
        outcomes = zip(problem.arms, state.pulls, state.good, strict=True)
        expected = [expected_reward(problem, arm, stage, n, g) for arm, n, g in outcomes]
        found = GreedyPolicy(problem).indices(stage, state)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("problem", [priors(40), *(KINDS[k](12) for k in KINDS)])
def test_bayes_ucb_index_is_exceeded_with_the_given_chance(problem: Problem) -> None:
    rng = np.random.default_rng(4)
    made = BayesUcbPolicy(problem)
    for stage in range(1, problem.horizon, 3):
        state = random_state(problem, stage, rng)
        chance = 1 / (stage + 1)
        outcomes = zip(problem.arms, state.good, state.bad, strict=True)
        for (arm, g, b), index in zip(outcomes, made.indices(stage, state), strict=True):
            good, bad = rewards(problem, arm, stage)
            if good == bad:
                assert index == good
                continue
            at = (index - bad) / (good - bad)
            below = betainc(arm.beta.good + g, arm.beta.bad + b, at)
            exceeded = 1 - below if good > bad else below
            assert exceeded == pytest.approx(chance, rel=1e-7, abs=1e-13)


def optimistic_index(a: np.ndarray, b: np.ndarray, gamma: float) -> np.ndarray:
    out = np.empty((a.size, 3))
    optimistic_roots(a, b, math.log(gamma / (1 - gamma)), out)
    return out[:, 0]


def ogi(a: float, b: float, gamma: float) -> float:
    """The root of the equation as it is written."""
    mean = a / (a + b)

    def excess(x: float) -> float:
        first = mean * (1 - gamma * betainc(a + 1, b, x))
        return float(first + gamma * x * betainc(a, b, x) - x)

    return float(brentq(excess, 0.0, 1.0, xtol=1e-14))


@pytest.mark.parametrize("problem", [priors(30), KINDS["heterogeneous"](30), priors(30, pulls=2)])
def test_ogi_solves_its_equation(problem: Problem) -> None:
    rng = np.random.default_rng(5)
    made = OgiPolicy(problem)
    for stage in (0, 1, 5, 29):
        state = random_state(problem, stage, rng)
        outcomes = zip(problem.arms, state.good, state.bad, strict=True)
        for (arm, g, b), index in zip(outcomes, made.indices(stage, state), strict=True):
            good, bad = rewards(problem, arm, stage)
            own = arm.beta.good + g, arm.beta.bad + b
            low, high, (x, y) = (bad, good, own) if good > bad else (good, bad, own[::-1])
            expected = low + (high - low) * ogi(x, y, 1 - 1 / (stage + 2))
            assert index == pytest.approx(expected, abs=1e-10)


def test_ogi_is_accurate_for_all_shapes() -> None:
    rng = np.random.default_rng(6)
    a, b = 10 ** rng.uniform(-2, 3, 200), 10 ** rng.uniform(-2, 3, 200)
    for gamma in (0.5, 0.9, 0.999):
        expected = [ogi(x, y, gamma) for x, y in zip(a, b, strict=True)]
        np.testing.assert_allclose(optimistic_index(a, b, gamma), expected, rtol=0, atol=1e-10)


# -- allocation ---------------------------------------------------------------------------------


def played(policy: IndexPolicy, seed: int) -> list[tuple[State, tuple[int, ...]]]:
    """An episode: the state at every stage and the arms pulled in it."""
    problem, rng = policy.problem, np.random.default_rng(seed)
    p = rng.beta([arm.beta.good for arm in problem.arms], [arm.beta.bad for arm in problem.arms])
    state, episode = State.fresh(problem.n_arms), []
    for stage in range(problem.horizon):
        chosen = policy.select(stage, state)
        episode.append((state, chosen))
        for arm in chosen:
            state = state.after(arm, bool(rng.random() < p[arm]))
    return [*episode, (state, ())]


@pytest.mark.parametrize("reward", [1.0, 1e-9, 1e12])  # ties are judged in units of the reward
def test_equal_pulls_every_arm_in_turn(reward: float) -> None:
    for state, _ in played(EqualPolicy(priors(11, good=reward)), seed=1):
        assert max(state.pulls) - min(state.pulls) <= 1


def test_equal_deploys_the_best_arm() -> None:
    problem = Problem.uniform(arms=3, horizon=6).model_copy(update={"terminal": Terminal(deploy=9)})
    assert EqualPolicy(problem).select(6, State.of_counts(good=(1, 2, 0), bad=(1, 0, 2))) == (1,)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pulls", [1, 2])
def test_explore_then_commit_explores_evenly_and_then_stays(seed: int, pulls: int) -> None:
    problem = priors(64 // pulls, pulls=pulls)
    policy = ExploreThenCommitPolicy(problem)
    assert policy.explore == math.ceil((64 / 4) ** (2 / 3)) == 7
    episode = played(policy, seed)
    state, chosen = episode[4 * 7 // pulls]
    assert state.pulls == (7,) * 4
    means = GreedyPolicy(problem).indices(problem.horizon - 1, state)
    assert set(chosen) == set(np.argsort(-means)[:pulls])
    assert all(set(later) == set(chosen) for _, later in episode[4 * 7 // pulls : -1])


@pytest.mark.parametrize(
    ("horizon", "arms", "length"), [(27, 1, 9), (81, 3, 9), (28, 1, 10), (1, 5, 1)]
)
def test_exploration_has_the_textbook_length(horizon: int, arms: int, length: int) -> None:
    assert ExploreThenCommitPolicy(Problem.uniform(arms=arms, horizon=horizon)).explore == length


@pytest.mark.parametrize("policy", BOUNDS)
def test_bounds_pull_every_arm_once_before_any_twice(policy: type[IndexPolicy]) -> None:
    episode = played(policy(priors(6, good=5.0, bad=4.0)), seed=3)
    assert episode[4][0].pulls == (1, 1, 1, 1)


# -- what all of them keep to -------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_choices_are_valid_and_repeatable_in_every_problem(policy: type[IndexPolicy]) -> None:
    rng = np.random.default_rng(7)
    for problem in served(policy, 6).values():
        made, again = policy(problem), policy(problem)
        for stage in reversed(range(problem.stages)):  # tables do not depend on the order of asking
            table, state = made.stage_index(stage), random_state(problem, stage, rng)
            assert table.shape == (len(problem.groups), slab_size(stage))
            assert np.isfinite(table).all()
            chosen = made.select(stage, state)
            assert chosen == again.select(stage, state)
            assert len(set(chosen)) == len(chosen) == round(problem.pulls[stage])
            assert set(chosen) <= set(range(problem.n_arms))


@cache
def best(kind: str) -> float:
    """The optimum over three stages, found once for all policies."""
    return optimum(served(GreedyPolicy, 3)[kind]).value


class Asked(Policy):
    """A policy without its tables: exact evaluation asks it in every state."""

    symmetric = False  # round robin minds the positions of equal arms

    def __init__(self, policy: IndexPolicy) -> None:
        self.name, self.problem, self._policy = policy.name, policy.problem, policy

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        return self._policy.select(stage, state)


@pytest.mark.parametrize("policy", POLICIES)
def test_value_is_the_same_by_both_roads_and_at_most_the_optimum(policy: type[IndexPolicy]) -> None:
    for kind, problem in served(policy, 3).items():
        made, rounding = policy(problem), 1e-12 * at_stake(problem)
        value = evaluated(made).value
        assert value <= best(kind) + rounding
        assert value == pytest.approx(evaluated(Asked(made)).value, abs=rounding)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_arm_earns_its_mean(policy: type[IndexPolicy]) -> None:
    arm = Arm(name="only", prior=BetaBernoulli(good=2, bad=3), reward=Reward(good=4, bad=-1))
    problem = Problem(arms=(arm,), horizon=7)
    assert evaluated(policy(problem)).value == pytest.approx(7 * (4 * 0.4 - 0.6))


def test_greedy_earns_five_thirds_with_two_arms_and_three_pulls() -> None:
    # 1/2, then 1/2 (2/3) + 1/2 (1/2) = 7/12: stay after a good outcome, switch after a bad one;
    # then 1/2 (2/3 (3/4) + 1/3 (1/2)) + 1/2 (1/2 (2/3) + 1/2 (1/3)) = 1/3 + 1/4 = 7/12
    problem = Problem.uniform(arms=2, horizon=3)
    assert evaluated(GreedyPolicy(problem)).value == pytest.approx(5 / 3, abs=1e-14)


@pytest.mark.parametrize("policy", [EqualPolicy, ExploreThenCommitPolicy])
def test_exploring_alone_earns_the_prior_mean(policy: type[IndexPolicy]) -> None:
    problem = Problem.uniform(arms=5, horizon=5, prior=BetaBernoulli(good=3, bad=1))
    assert evaluated(policy(problem)).value == pytest.approx(5 * 3 / 4)


def test_bounds_do_not_move_with_shift_and_factor_of_the_rewards() -> None:
    for policy in [*BOUNDS, OgiPolicy, BayesUcbPolicy]:
        plain = evaluated(policy(priors(6))).value
        scaled = evaluated(policy(priors(6, good=-1.0, bad=-3.5))).value
        assert scaled == pytest.approx(2.5 * plain - 3.5 * 6, abs=1e-12)


def test_indices_are_in_units_of_the_largest_reward() -> None:
    problem = priors(5, good=40.0)
    policy = EqualPolicy(problem)
    state = State.of_counts(good=(1, 0, 0, 2), bad=(0, 0, 1, 0))
    assert policy.indices(4, state).tolist() == [-40, 0, -40, -80]
    assert policy.scale == pytest.approx(largest_reward(problem))


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOUNDS)
def test_bounds_refuse_good_outcomes_that_earn_less(policy: type[IndexPolicy]) -> None:
    with refused("unsupported", "policy"):
        policy(priors(5, good=0.0, bad=1.0))


def test_ogi_refuses_rewards_that_change() -> None:
    with refused("unsupported", "policy"):
        OgiPolicy(KINDS["seasonal"](5))
