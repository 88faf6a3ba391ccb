"""The next arm while outcomes are open: averages by brute force, and the policy's own choice."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from decobandit.arm import Cones
from decobandit.policies import (
    DecoPolicy,
    IndexPolicy,
    OptimalPolicy,
    Policy,
    ThompsonPolicy,
)
from decobandit.problem import Arm, BetaBernoulli, Problem, State, States, beta_binomial
from decobandit.trials.decisions import Decision, PendingState, decide, deployment
from decobandit.trials.settings import TrialSettings, check_bound, make_settings
from helpers.examples import KINDS, largest_reward, random_state
from helpers.oracles import expected_reward, good_chance
from helpers.policies import NO_INDEX, SINGLE_PULLS, Bench, probabilities_in
from helpers.refusals import check_refusal, refused, unless_refused

HORIZON = 6
DRAW = ("thompson", "ids", "v-ids")
ALONE = sorted(set(SINGLE_PULLS) - set(NO_INDEX))
PRIORS = Problem(
    arms=(
        Arm(name="a", prior=BetaBernoulli(good=0.5, bad=0.5)),
        Arm(name="b", prior=BetaBernoulli(good=3.7, bad=1.2)),
        Arm(name="c", prior=BetaBernoulli(good=9.0, bad=14.5)),
    ),
    horizon=HORIZON,
)
THREE = Problem.uniform(arms=5, horizon=HORIZON, pulls_per_stage=3)
PROBLEMS = {
    "other priors": PRIORS,
    "three pulls": THREE,
    **{kind: make(HORIZON) for kind, make in KINDS.items()},
}


@cache
def bench(kind: str) -> Bench:
    return Bench(PROBLEMS[kind], path_states=1)  # any price path will do


@cache
def cones_of(kind: str) -> Cones:
    return Cones(PROBLEMS[kind], bench(kind).policy("deco").prices)


@cache
def policy_for(name: str, kind: str) -> Policy:
    try:
        return bench(kind).policy(name)
    except ValueError as error:
        raise check_refusal(name, PROBLEMS[kind], error) from None


def told(state: State, stage: int, taken: tuple[int, ...] = ()) -> PendingState:
    return PendingState(state, (0,) * len(state.good), stage, taken)


def opened(state: State, stage: int, number: int, rng: np.random.Generator) -> PendingState:
    """The state with some outcomes unknown again."""
    good, bad, waiting = list(state.good), list(state.bad), [0] * len(state.good)
    pulls = [(arm, one) for arm in range(len(good)) for one in range(state.pulls[arm])]
    for arm, _ in rng.permutation(pulls)[:number] if pulls else ():
        own = bad if bad[arm] and (rng.random() < 0.5 or not good[arm]) else good
        own[arm] -= 1
        waiting[arm] += 1
    return PendingState(State.of_counts(good, bad), tuple(waiting), stage)


def pending_states(kind: str, seed: int, *, most_open: int = 4) -> Iterator[PendingState]:
    problem, rng = PROBLEMS[kind], np.random.default_rng(seed)
    for stage in [1, 2, 3, HORIZON - 1, HORIZON - 1]:
        state = random_state(problem, stage, rng)
        yield opened(state, stage, int(rng.integers(1, most_open + 1)), rng)


def made(
    name: str, kind: str, pending: PendingState, seed: int = 0, *, tables: bool = False
) -> Decision:
    rng = np.random.default_rng(seed)
    policy, prices = policy_for(name, kind), bench(kind).policy("deco").prices
    if not tables:
        policy = policy.live(cones_of(kind))
    return decide(policy, pending, prices, rng=rng)


def sequences(problem: Problem, pending: PendingState) -> Iterator[tuple[State, float]]:
    """All ways in which the open outcomes can come, one after the other, and their chances."""
    order = [arm for arm, count in enumerate(pending.open) for _ in range(count)]
    for outcomes in product((True, False), repeat=len(order)):
        state, chance = pending.known, 1.0
        for arm, good in zip(order, outcomes, strict=True):
            p = good_chance(problem.arms[arm], state.pulls[arm], state.good[arm])
            chance *= p if good else 1.0 - p
            state = state.after(arm, good)
        yield state, chance


# -- nothing open -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["other priors", "heterogeneous", "seasonal", "tabled", "deployed"]
)
@pytest.mark.parametrize("name", SINGLE_PULLS)
@unless_refused
def test_with_nothing_open_the_policy_chooses(name: str, kind: str) -> None:
    policy, rng = policy_for(name, kind), np.random.default_rng(1)
    for stage in [0, 1, 2, 3, 4, 5, 5, 5]:
        state = random_state(PROBLEMS[kind], stage, rng)
        expected = policy.select(stage, state, np.random.default_rng(stage))
        assert made(name, kind, told(state, stage), stage).arm == expected[0]


@pytest.mark.parametrize("kind", ["several pulls", "three pulls"])
@pytest.mark.parametrize("name", sorted(set(SINGLE_PULLS) - set(DRAW)))
@unless_refused
def test_asks_of_a_stage_add_up_to_the_set_of_the_policy(name: str, kind: str) -> None:
    problem, policy = PROBLEMS[kind], policy_for(name, kind)
    rng = np.random.default_rng(2)
    for stage in [0, 1, 2, 3, 4, 5, 5, 5]:
        state = random_state(problem, stage, rng)
        taken: tuple[int, ...] = ()
        for _ in range(problem.pulls_per_stage):
            taken += (made(name, kind, told(state, stage, taken)).arm,)
        assert taken == policy.select(stage, state)


def test_drawn_sets_have_no_arm_twice() -> None:
    rng = np.random.default_rng(3)
    for seed in range(30):
        state = random_state(THREE, 4, rng)
        taken: tuple[int, ...] = ()
        for ask in range(3):
            taken += (made("thompson", "three pulls", told(state, 4, taken), 3 * seed + ask).arm,)
        assert len(set(taken)) == 3


@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled", "first", "last"])
def test_ties_go_by_the_rule_and_open_pulls_count(ties: str) -> None:
    """At the last stage all means are 1/2, of arms pulled 2, 1 and 0 times."""
    problem = Problem.uniform(arms=3, horizon=4)
    policy = DecoPolicy(problem, [0.9] * 4, ties=ties)  # type: ignore[arg-type]
    pending = PendingState(State.of_counts((1, 0, 0), (1, 0, 0)), (0, 1, 0), 3)
    expected = {"least-pulled": 2, "most-pulled": 0, "first": 0, "last": 2}
    decision = decide(policy, pending, policy.prices)
    assert decision.arm == expected[ties]
    assert "tied with arm-" in decision.reason


def test_ties_at_random_need_a_generator_and_are_even() -> None:
    policy = DecoPolicy(Problem.uniform(arms=3, horizon=4), [0.9] * 4, ties="random")
    fresh = told(State.fresh(3), 0)
    with refused("invalid_argument"):
        decide(policy, fresh, policy.prices)
    rng = np.random.default_rng(4)
    counts = np.bincount([decide(policy, fresh, policy.prices, rng=rng).arm for _ in range(900)])
    assert np.abs(counts - 300).max() < 5 * (900 * 2 / 9) ** 0.5


# -- open outcomes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["other priors", "seasonal", "tabled", "deployed", "several pulls"]
)
@pytest.mark.parametrize("name", ALONE)
@unless_refused
def test_own_indices_are_averages_over_all_sequences(name: str, kind: str) -> None:
    policy, problem = policy_for(name, kind), PROBLEMS[kind]
    assert isinstance(policy, IndexPolicy)
    unit = 1e-11 * max(1.0, largest_reward(problem))
    for pending in pending_states(kind, 5):
        stage = pending.stage
        ways = list(sequences(problem, pending))
        expected = sum(chance * policy.indices(stage, state) for state, chance in ways)
        decision = made(name, kind, pending)
        assert decision.index is not None
        np.testing.assert_allclose(decision.index, expected, rtol=1e-11, atol=unit)
        best = np.asarray(decision.index).max()
        assert decision.index[decision.arm] >= best - 1e-11 * max(1.0, abs(best))


@pytest.mark.parametrize("name", ["deco-rolling", "knowledge-gradient"])
def test_indices_of_all_arms_together_are_averages_over_all_sequences(name: str) -> None:
    policy = policy_for(name, "other priors")
    assert isinstance(policy, IndexPolicy)
    most = {"deco-rolling": 16, "knowledge-gradient": 256}[name]
    exact = [s for s in pending_states("other priors", 6) if prod(o + 1 for o in s.open) <= most]
    assert len(exact) >= 3
    for pending in exact:
        ways = list(sequences(PRIORS, pending))
        found = made(name, "other priors", pending)
        expected = sum(chance * policy.indices(pending.stage, state) for state, chance in ways)
        np.testing.assert_allclose(found.index, expected, rtol=0, atol=1e-11)


def test_optimal_values_are_averages_over_all_sequences() -> None:
    policy = policy_for("optimal", "other priors")
    assert isinstance(policy, OptimalPolicy)
    for pending in pending_states("other priors", 7):
        stage = pending.stage
        ways = list(sequences(PRIORS, pending))
        expected = sum(chance * policy.indices(stage, state) for state, chance in ways)
        decision = made("optimal", "other priors", pending)
        np.testing.assert_allclose(decision.index, expected, rtol=1e-12)
        assert decision.arm == np.argmax(expected)


def pair_value(policy: OptimalPolicy, pair: tuple[int, int], stage: int, state: State) -> float:
    """Expected reward of a set of two and of what follows, outcome by outcome."""
    problem, tables = policy.problem, policy.optimum.tables
    assert tables is not None
    total = 0.0
    for outcomes in product((True, False), repeat=2):
        chance, earned, after = 1.0, 0.0, state
        for k, good in zip(pair, outcomes, strict=True):
            arm = problem.arms[k]
            p = good_chance(arm, state.pulls[k], state.good[k])
            chance *= p if good else 1.0 - p
            paid = arm.reward.good if good else arm.reward.bad
            assert isinstance(paid, float)
            earned += paid
            after = after.after(k, good)
        if stage + 1 < problem.stages:
            earned += float(tables.worths(stage + 1, States.of(problem, [after])).max())
        total += chance * earned
    return total


@pytest.mark.parametrize("taken", range(5))
def test_optimal_completes_the_set_that_is_begun(taken: int) -> None:
    policy, problem = policy_for("optimal", "several pulls"), PROBLEMS["several pulls"]
    assert isinstance(policy, OptimalPolicy)
    for pending in pending_states("several pulls", 14):
        ways = list(sequences(problem, pending))
        begun = replace(pending, taken=(taken,))
        values = {
            k: sum(c * pair_value(policy, (taken, k), begun.stage, s) for s, c in ways)
            for k in range(5)
            if k != taken
        }
        decision = made("optimal", "several pulls", begun)
        assert decision.index is not None
        assert values[decision.arm] == pytest.approx(max(values.values()), rel=1e-12)
        for k, value in values.items():
            assert decision.index[k] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_expected_reward_is_not_moved_by_open_outcomes(kind: str) -> None:
    problem = PROBLEMS[kind]
    for pending in pending_states(kind, 8):
        ways = list(sequences(problem, pending))
        decision = made("greedy", kind, pending)
        for k, arm in enumerate(problem.arms):
            average = sum(
                chance * expected_reward(problem, arm, pending.stage, s.pulls[k], s.good[k])
                for s, chance in ways
            )
            assert decision.expected_reward[k] == pytest.approx(average, rel=1e-12, abs=1e-12)
            now = good_chance(arm, pending.known.pulls[k], pending.known.good[k])
            assert now == pytest.approx(
                sum(chance * good_chance(arm, s.pulls[k], s.good[k]) for s, chance in ways)
            )


@pytest.mark.parametrize("name", SINGLE_PULLS)
def test_only_deco_has_a_value_of_information(name: str) -> None:
    for pending in pending_states("other priors", 9):
        decision = made(name, "other priors", pending)
        assert (decision.index is None) == (name in DRAW)
        assert (decision.value_of_information is not None) == (name in ("deco", "deco-rolling"))
        if decision.value_of_information is not None:
            parts = np.add(decision.expected_reward, decision.value_of_information)
            np.testing.assert_allclose(decision.index, parts, rtol=1e-12)


@pytest.mark.parametrize("kind", ["other priors", "seasonal", "deployed", "several pulls"])
def test_nearby_terms_and_tables_of_the_policy_decide_alike(kind: str) -> None:
    for pending in pending_states(kind, 10):
        near, far = made("deco", kind, pending), made("deco", kind, pending, tables=True)
        np.testing.assert_allclose(near.index, far.index, rtol=0, atol=1e-11)
        assert (near.arm, near.price) == (far.arm, far.price)
        assert near.price == bench(kind).policy("deco").prices[pending.stage]


def test_drawn_arms_have_the_average_of_their_chances() -> None:
    policy = policy_for("thompson", "other priors")
    assert isinstance(policy, ThompsonPolicy)
    pending = PendingState(State.of_counts((1, 0, 0), (0, 0, 1)), (2, 1, 0), 5)
    expected = np.zeros(3)
    for state, chance in sequences(PRIORS, pending):
        expected += chance * probabilities_in(policy, 5, state)
    n = 1500
    arms = [made("thompson", "other priors", pending, seed).arm for seed in range(n)]
    found = np.bincount(arms, minlength=3) / n
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / n) + 1e-9)


def test_many_ways_are_drawn_and_come_close_to_all() -> None:
    problem = Problem(arms=PRIORS.arms, horizon=40)
    workbench = Bench(problem)
    policy = workbench.policy("knowledge-gradient")
    assert isinstance(policy, IndexPolicy)
    pending = PendingState(State.of_counts((2, 1, 0), (1, 0, 3)), (9, 9, 9), 34)
    decisions = [
        decide(policy, pending, np.full(40, 0.7), rng=np.random.default_rng(seed))
        for seed in range(60)
    ]
    average, known = np.zeros(3), pending.known
    ways = product(range(10), repeat=3)
    for better in ways:  # 1000 of them: more than are looked at one by one
        state = State.of_counts(
            tuple(np.add(known.good, better)), tuple(np.add(known.bad, 9) - better)
        )
        chance = np.prod(
            [
                beta_binomial(arm.beta.good + g, arm.beta.bad + b, 9)[j]
                for arm, g, b, j in zip(problem.arms, known.good, known.bad, better, strict=True)
            ]
        )
        average += chance * policy.indices(34, state)
    found = np.array([decision.index for decision in decisions])
    error = found.std(axis=0) / 60**0.5
    assert np.all(np.abs(found.mean(axis=0) - average) < 5 * error + 1e-12)
    assert "averaged over 256 draws of 27 pending outcomes" in decisions[0].reason
    with refused("invalid_argument"):
        decide(policy, pending, np.full(40, 0.7))


@pytest.mark.parametrize(("a", "b", "count"), [(1.0, 1.0, 0), (0.3, 2.0, 1), (2.5, 0.1, 9)])
def test_chances_of_open_outcomes_are_those_of_all_sequences(
    a: float, b: float, count: int
) -> None:
    problem = Problem(arms=(Arm(name="a", prior=BetaBernoulli(good=a, bad=b)),), horizon=20)
    expected = np.zeros(count + 1)
    for state, chance in sequences(
        problem, PendingState(State.of_counts((0,), (0,)), (count,), count)
    ):
        expected[state.good[0]] += chance
    np.testing.assert_allclose(beta_binomial(a, b, count), expected, rtol=1e-12)


def test_chances_of_very_many_open_outcomes_add_up() -> None:
    chances = beta_binomial(500.0, 1e6, 5000)
    assert chances.sum() == pytest.approx(1.0, rel=1e-14)
    assert chances @ np.arange(5001) == pytest.approx(5000 * 500 / (1e6 + 500), rel=1e-11)


# -- by hand ------------------------------------------------------------------------------------


def test_one_open_outcome_by_hand() -> None:
    """Known arm Beta(51, 49), unknown Beta(1, 1), one outcome of the unknown open, one stage left.

    The unknown arm's last index is its mean, 2/3 or 1/3 with chances 1/2: on average 1/2 < 51/100.
    With two stages left and a last price of 1/2, see test_deco.py for the fresh arm:
        after good  p = 2/3: V_2 is 1/6, then 1/4 or 0 (3/4 - 1/2, 1/2 - 1/2)
                    index 2/3 + 2/3 * 1/4 - 1/6 = 2/3
        after bad   p = 1/3: V_2 is 0, then 0 or 0        index 1/3
    The average is 1/2 again, although that of a fresh arm is 7/12: what an open pull may teach is
    not to be had twice.
    """
    arms = (Arm(name="known", prior=BetaBernoulli(good=51, bad=49)), Arm(name="unknown"))
    policy = DecoPolicy(Problem(arms=arms, horizon=3), [0.55, 0.5, 0.5])
    decision = decide(policy, PendingState(State.fresh(2), (0, 1), 1), policy.prices)
    assert decision.index is not None
    assert decision.index == pytest.approx([51 / 100, float(Fraction(1, 2))], rel=1e-14)
    assert decision.arm == 0
    assert decision.value_of_information == pytest.approx([0.0, 0.0], abs=1e-15)
    fresh = decide(policy, PendingState(State.of_counts((0, 1), (0, 0)), (0, 0), 1), policy.prices)
    assert fresh.index == pytest.approx([51 / 100, 2 / 3], rel=1e-14)
    assert (fresh.arm, fresh.price) == (1, 0.5)


def test_reasons_are_sentences() -> None:
    arms = (
        Arm(name="known", prior=BetaBernoulli(good=51, bad=49)),
        Arm(name="new"),
        Arm(name="twin"),
    )
    problem = Problem(arms=arms, horizon=2)
    policy = DecoPolicy(problem, [0.55, 0.5])
    assert decide(policy, told(State.fresh(3), 0), policy.prices).reason == (
        "new: expected reward 0.5 + value of information 0.08333 = index 0.5833, the largest; "
        "tied with twin: the least pulled is taken, then the first; the price is 0.55"
    )
    waiting = PendingState(State.of_counts((0, 0, 0), (0, 0, 0)), (0, 1, 0), 1)
    assert decide(policy, waiting, policy.prices).reason == (
        "known: expected reward 0.51 + value of information 0 = index 0.51, the largest; "
        "averaged over 1 pending outcome; the price is 0.5"
    )
    thompson, rng = ThompsonPolicy(problem), np.random.default_rng(1)
    drawn = decide(thompson, waiting, policy.prices, rng=rng)
    name = problem.arms[drawn.arm].name
    assert drawn.reason == (
        f"{name}: drawn at random by thompson, after 1 pending outcome had been drawn"
    )
    assert made("kl-ucb", "other priors", told(State.fresh(3), 0)).reason == (
        "a: index 1e+09, the largest; tied with b and c: the least pulled is taken, then the first"
    )


# -- deployment ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SINGLE_PULLS)
@unless_refused
def test_the_arm_to_keep_is_that_of_the_policy(name: str) -> None:
    policy, rng = policy_for(name, "deployed"), np.random.default_rng(11)
    live = policy.live(cones_of("deployed"))
    problem = PROBLEMS["deployed"]
    for _ in range(10):
        state = random_state(problem, HORIZON, rng)
        found = deployment(live, told(state, HORIZON))
        assert found == policy.select(HORIZON, state)
        # open outcomes do not move what an arm is expected to earn
        pending = opened(state, HORIZON, 3, rng)
        pairs = zip(problem.arms, pending.known.rows, strict=True)
        rewards = [good_chance(arm, sum(row), row[0]) for arm, row in pairs]
        (kept,) = deployment(live, pending)
        assert rewards[kept] == pytest.approx(max(rewards), rel=1e-12)


@pytest.mark.parametrize("name", SINGLE_PULLS)
def test_same_situation_same_seed_same_decision(name: str) -> None:
    for pending in pending_states("other priors", 12):
        copy = PendingState(
            State.of_counts(list(pending.known.good), list(pending.known.bad)),
            pending.open,
            pending.stage,
        )
        assert copy == pending
        first, *others = [made(name, "other priors", each, 13) for each in (pending, copy, copy)]
        assert others == [first, first]


@pytest.mark.parametrize("batch", [{}, {"pulls_per_stage": 4, "repeat": True}])
def test_trials_of_deco_record_and_play_the_same_prices_at_every_tolerance(
    batch: dict[str, Any],
) -> None:
    problem = Problem.uniform(arms=3, horizon=4, **batch)
    rough, fine = (make_settings(problem, policy="deco", tol=tol) for tol in (1e-2, 1e-6))
    assert rough.solution is not None
    check_bound(rough.solution)  # the prices on record prove the bound on record
    read = TrialSettings.from_dict(rough.to_dict())
    for settings in (fine, read):
        assert np.array_equal(settings.prices, rough.prices)
    assert np.array_equal(read.make_policy().prices, rough.prices)
