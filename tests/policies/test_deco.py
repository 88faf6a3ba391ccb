"""DeCo's choice, by hand and against the recursion; ties; several pulls."""

from fractions import Fraction

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.policies import DecoPolicy
from decobandit.prices import at_canonical_prices, solve
from decobandit.problem import TIE_RULES, Arm, BetaBernoulli, Problem, State
from helpers.examples import KINDS, largest_reward, random_prices, random_state
from helpers.oracles import one_arms, stage_pulls
from helpers.refusals import refused

# -- by hand ------------------------------------------------------------------------------------

# Two arms that earn 1 for a good outcome, and two stages; only the price of the last one matters:
#     index_1(n) = p(n)                 V_1(n) = (p(n) - mu_1)^+
#     index_0(n) = p(n) + p(n) V_1(n + good) + (1 - p(n)) V_1(n + bad) - V_1(n)
# Unknown has p = 1/2, then 2/3 or 1/3; known has p = 51/100, then 52/101 or 51/101.
# At mu_1 = 1/2, with V_1 of (fresh, after good, after bad):
#     unknown: V_1 = 0, 1/6, 0             index_0 = 1/2 + 1/2 * 1/6 = 7/12
#     known:   V_1 = 1/100, 3/202, 1/202   index_0 = 51/100 + (51*3 + 49)/20200 - 1/100 = 51/100
# So the unknown arm is pulled first, although it earns less now.
HALF = Fraction(1, 2)
BY_HAND = Problem(
    arms=(Arm(name="known", prior=BetaBernoulli(good=51, bad=49)), Arm(name="unknown")), horizon=2
)


def policy_by_hand() -> DecoPolicy:
    return DecoPolicy(BY_HAND, [0.55, 0.5])


def test_indices_are_those_computed_by_hand() -> None:
    known, unknown = (policy_by_hand().arm_index(0, group, (0, 0)) for group in (0, 1))
    assert known.expected_reward == pytest.approx(float(Fraction(51, 100)), rel=1e-15)
    assert known.value_of_information == pytest.approx(0.0, abs=1e-15)
    assert unknown.expected_reward == pytest.approx(float(HALF), rel=1e-15)
    assert unknown.value_of_information == pytest.approx(float(Fraction(1, 12)), rel=1e-14)
    assert unknown.index == pytest.approx(float(Fraction(7, 12)), rel=1e-15)


def test_the_arm_that_teaches_more_is_pulled_first() -> None:
    assert policy_by_hand().select(0, State.fresh(2)) == (1,)


@pytest.mark.parametrize(("good", "arm"), [(True, 1), (False, 0)])
def test_the_last_pull_is_for_the_larger_mean(good: bool, arm: int) -> None:
    """After a good outcome 2/3 > 51/100, after a bad one 1/3 < 51/100."""
    state = State.fresh(2).after(1, good)
    assert policy_by_hand().select(1, state) == (arm,)


def test_a_high_price_later_makes_information_worthless() -> None:
    """At mu_1 = 3/4 no arm is pulled at stage 1 in the relaxed problem: index_0 = p."""
    policy = DecoPolicy(BY_HAND, [0.55, 0.75])
    assert policy.indices(0, State.fresh(2)).tolist() == pytest.approx([0.51, 0.5], rel=1e-15)
    assert policy.select(0, State.fresh(2)) == (0,)


def test_three_stages_by_hand() -> None:
    """A fresh arm Beta(1, 1) at prices (., 3/5, 3/5), in fractions.

    Stage 2: V_2(n, g) = (p - 3/5)^+:
        (0,0) 0    (1,1) 2/3 - 3/5 = 1/15    (1,0) 0
        (2,2) 3/4 - 3/5 = 3/20    (2,1) 0    (2,0) 0
    Stage 1: index = p + p V_2(n+1, g+1) + (1-p) V_2(n+1, g) - V_2(n, g):
        (0,0) 1/2 + 1/2 * 1/15 = 8/15 < 3/5              V_1 = 0
        (1,1) 2/3 + 2/3 * 3/20 - 1/15 = 7/10 > 3/5       V_1 = 1/15 + 1/10 = 1/6
        (1,0) 1/3                                        V_1 = 0
    Stage 0: index = 1/2 + 1/2 * 1/6 - 0 = 7/12.
    """
    policy = DecoPolicy(Problem.uniform(arms=2, horizon=3), [0.7, 0.6, 0.6])
    seen = State.of_counts(good=(1, 0), bad=(0, 0))
    assert policy.indices(2, State.fresh(2))[0] == pytest.approx(1 / 2, rel=1e-15)
    assert policy.indices(1, State.fresh(2))[0] == pytest.approx(8 / 15, rel=1e-14)
    assert policy.indices(1, seen)[0] == pytest.approx(7 / 10, rel=1e-14)
    assert policy.indices(0, State.fresh(2))[0] == pytest.approx(7 / 12, rel=1e-14)
    assert policy.select(1, seen) == (0,)


# -- against the recursion ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_choice_is_the_largest_index_of_the_recursion(kind: str) -> None:
    problem = KINDS[kind](7)
    prices = random_prices(problem, 11)
    policy, arms = DecoPolicy(problem, prices, ties="first"), one_arms(problem, prices)
    rng = np.random.default_rng(12)
    unit = 1e-12 * largest_reward(problem)
    for _ in range(60):
        stage = int(rng.integers(problem.stages))
        state = random_state(problem, stage, rng)
        index = [
            arm.index(stage, n, g) for arm, n, g in zip(arms, state.pulls, state.good, strict=True)
        ]
        np.testing.assert_allclose(policy.indices(stage, state), index, rtol=0, atol=unit)
        chosen = policy.select(stage, state)
        m = stage_pulls(problem)[stage]
        assert len(set(chosen)) == len(chosen) == m
        # in order of index, and nothing better is left out
        assert sorted(index, reverse=True)[:m] == pytest.approx(
            [index[arm] for arm in chosen], abs=unit
        )


def test_policy_of_a_solution_has_its_problem_and_canonical_prices() -> None:
    solution = solve(KINDS["deployed"](4))
    policy = make_policy(solution.problem, "deco", solution=solution, ties="last")
    assert policy.problem is solution.problem
    assert np.array_equal(policy.prices, at_canonical_prices(solution).prices)
    assert policy.ties == "last"


@pytest.mark.parametrize("stage", [-1, 7])
def test_stage_out_of_range_is_refused(stage: int) -> None:
    policy = DecoPolicy(KINDS["several pulls"](7), [0.5] * 7)
    with refused("invalid_argument", "stage"):
        policy.select(stage, State.fresh(5))


def test_deployment_is_a_stage_of_one_choice() -> None:
    arms = Problem.uniform(arms=3, horizon=2).arms
    problem = Problem.model_validate(
        {"arms": arms, "horizon": 2, "pulls_per_stage": 2, "terminal": {"deploy": 10.0}}
    )
    policy = DecoPolicy(problem, [1.0, 1.0, 6.0])
    state = State.of_counts(good=(0, 1, 1), bad=(1, 1, 0))
    assert len(policy.select(0, State.fresh(3))) == 2
    assert policy.select(2, state) == (2,)
    assert policy.indices(2, state).tolist() == pytest.approx([10 / 3, 10 / 2, 20 / 3])


@pytest.mark.parametrize(
    ("stage", "state"),
    [(0, State.of_counts(good=(1, 0), bad=(0, 0))), (1, State.of_counts(good=(0, 0), bad=(2, 0)))],
)
def test_more_pulls_than_stages_are_refused(stage: int, state: State) -> None:
    with refused("invalid_argument", "state"):
        policy_by_hand().select(stage, state)


def test_states_of_another_number_of_arms_are_refused() -> None:
    with refused("invalid_argument", "state"):
        policy_by_hand().select(0, State.fresh(3))


# -- ties ---------------------------------------------------------------------------------------

# At the last stage the index is the posterior mean: arms 1, 2 and 3 have 1/2, after 2, 0, 4 pulls.
TIED = State.of_counts(good=(0, 1, 0, 2, 0), bad=(1, 1, 0, 2, 1))


def tied_policy(ties: str, pulls_per_stage: int = 1) -> DecoPolicy:
    problem = Problem.uniform(arms=5, horizon=9, pulls_per_stage=pulls_per_stage)
    return DecoPolicy(problem, [0.9] * 9, ties=ties)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ties", "order"),
    [
        ("first", (1, 2, 3)),
        ("last", (3, 2, 1)),
        ("least-pulled", (2, 1, 3)),
        ("most-pulled", (3, 1, 2)),
    ],
)
def test_ties_go_by_the_rule(ties: str, order: tuple[int, ...]) -> None:
    assert tied_policy(ties).select(8, TIED) == order[:1]
    assert tied_policy(ties, pulls_per_stage=3).select(8, TIED) == order


@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled"])
def test_equally_pulled_arms_that_tie_go_by_position(ties: str) -> None:
    assert tied_policy(ties, pulls_per_stage=2).select(0, State.fresh(5)) == (0, 1)


def test_random_ties_are_broken_evenly() -> None:
    rng = np.random.default_rng(3)
    policy = tied_policy("random")
    chosen = [policy.select(8, TIED, rng)[0] for _ in range(3000)]
    counts = np.bincount(chosen, minlength=5)
    assert counts[[0, 4]].tolist() == [0, 0]
    # five standard deviations of a binomial count
    assert np.abs(counts[1:4] - 1000).max() < 5 * (3000 * 2 / 9) ** 0.5


def test_random_ties_repeat_with_the_seed() -> None:
    policy = tied_policy("random", pulls_per_stage=3)
    runs = [
        [policy.select(8, TIED, rng) for _ in range(20)]
        for rng in (np.random.default_rng(4), np.random.default_rng(4))
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1


def test_random_ties_need_a_generator() -> None:
    with refused("invalid_argument"):
        tied_policy("random").select(8, TIED)


def test_unknown_tie_rules_are_refused_with_the_known_ones() -> None:
    with refused("invalid_argument", "ties") as info:
        tied_policy("any")
    assert all(rule in str(info.value) for rule in TIE_RULES)


def test_ties_are_up_to_rounding_only() -> None:
    """(1 + 1e-9) / (2 + 1e-9) is above 1/2, and 1e-14 above is not."""
    for more, chosen in [(1e-9, (1,)), (2e-14, (0,))]:
        arms = (Arm(name="a"), Arm(name="b", prior=BetaBernoulli(good=1 + more, bad=1)))
        policy = DecoPolicy(Problem(arms=arms, horizon=1), [0.0], ties="first")
        assert policy.select(0, State.fresh(2)) == chosen
