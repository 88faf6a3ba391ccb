"""Exact values against recursions over labelled arms, quadrature over truths, known numbers."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from math import fsum, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decobandit import DirichletCategorical, Reward, gap, make_policy
from decobandit.evaluation import evaluate
from decobandit.policies import DecoPolicy, IndexPolicy, Policy
from decobandit.policies.allocation import Allotments
from decobandit.policies.knowledge_gradient import KnowledgeGradientPolicy
from decobandit.prices import solve
from decobandit.problem import (
    TIE_RULES,
    Arm,
    BetaBernoulli,
    Problem,
    State,
    States,
    Terminal,
    TieRule,
)
from decobandit.problem.kernels.layout import slab_size
from decobandit.support import Progress
from helpers.examples import KINDS, at_stake, largest_reward, problems, random_prices
from helpers.oracles import good_chance, rewards, stage_pulls
from helpers.policies import allotted
from helpers.reference import REFERENCE
from helpers.refusals import refused
from helpers.values import evaluated

Actions = list[tuple[tuple[int, ...], float]]


class Tabled(IndexPolicy):
    """Indices drawn at random from few values: ties everywhere, no order of any kind."""

    name = "tabled"

    def __init__(self, problem: Problem, *, seed: int, values: int = 3, ties: TieRule) -> None:
        super().__init__(problem, ties=ties)
        rng = np.random.default_rng(seed)
        unit, groups = largest_reward(problem), len(problem.groups)
        self.tables = [
            unit * rng.integers(0, values, (groups, slab_size(t))) for t in range(problem.stages)
        ]

    def index(self, stage: int, group: int, stats: np.ndarray) -> np.ndarray:
        good, pulls = stats[..., 0].astype(int), stats.sum(axis=-1).astype(int)
        return self.tables[stage][group, pulls * (pulls + 1) // 2 + good].astype(float)


class Asked(Policy):
    """A policy that can only be asked."""

    name = "asked"
    symmetric = True

    def __init__(self, policy: IndexPolicy) -> None:
        self.problem, self._policy, self.ties = policy.problem, policy, policy.ties

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        return self._policy.select(stage, state)


class InPlace(Asked):
    """The same, which does not declare that equal arms may be swapped."""


class Split(Asked):
    """The same, telling how it splits ties at random."""

    symmetric = True

    def allotments(self, stage: int, states: States) -> Allotments:
        rows = [
            (e, [int(k in arms) for k in range(self.problem.n_arms)], probability)
            for e in range(len(states))
            for arms, probability in actions(self._policy, stage, states.state(e))
        ]
        return tuple(map(np.array, zip(*rows, strict=True)))  # type: ignore[return-value]


# -- the second road: labelled arms, outcome by outcome -----------------------------------------


def actions(policy: IndexPolicy, stage: int, state: State) -> Actions:
    """What an index policy pulls; random ties drawn one after the other."""
    if policy.ties != "random":
        return [(policy.select(stage, state), 1.0)]

    def drawn(left: int, index: np.ndarray) -> Iterator[tuple[tuple[int, ...], float]]:
        if left == 0:
            yield (), 1.0
            return
        tied = np.flatnonzero(index == index.max())
        for arm in tied.tolist():
            others = index.copy()
            others[arm] = -np.inf
            for arms, share in drawn(left - 1, others):
                yield (arm, *arms), share / tied.size

    return list(drawn(stage_pulls(policy.problem)[stage], policy.indices(stage, state)))


def chances(problem: Problem, state: State, truth: tuple[float, ...] | None) -> list[float]:
    if truth is not None:
        return list(truth)
    outcomes = zip(problem.arms, state.pulls, state.good, strict=True)
    return [good_chance(arm, n, g) for arm, n, g in outcomes]


def last_rewards(problem: Problem, state: State) -> float:
    outcomes = zip(problem.arms, state.pulls, state.good, strict=True)
    return fsum(arm.terminal[n][g] for arm, n, g in outcomes if arm.terminal is not None)


def steps(
    problem: Problem, t: int, state: State, arms: tuple[int, ...], chance: list[float]
) -> Iterator[tuple[float, float, State]]:
    """Probability, reward and next state of every outcome of a pull of `arms`."""
    pay = [rewards(problem, problem.arms[arm], t) for arm in arms]
    if t == problem.horizon:
        yield 1.0, pay[0][0] * chance[arms[0]], state
        return
    for outcome in product((True, False), repeat=len(arms)):
        after = state
        for arm, good in zip(arms, outcome, strict=True):
            after = after.after(arm, good)
        likely = prod(
            chance[arm] if good else 1 - chance[arm]
            for arm, good in zip(arms, outcome, strict=True)
        )
        yield likely, sum(p[0] if o else p[1] for p, o in zip(pay, outcome, strict=True)), after


def value(problem: Problem, act: Callable[[int, State], Actions]) -> float:
    """Expected total reward over the prior: a recursion over labelled states."""

    @cache
    def worth(t: int, state: State) -> float:
        if t == len(stage_pulls(problem)):
            return last_rewards(problem, state)
        chance = chances(problem, state, None)
        return fsum(
            share * likely * (reward + worth(t + 1, after))
            for arms, share in act(t, state)
            for likely, reward, after in steps(problem, t, state, arms, chance)
        )

    return worth(0, State.fresh(problem.n_arms))


def histories(
    problem: Problem, act: Callable[[int, State], Actions], truth: tuple[float, ...] | None
) -> list[tuple[float, tuple[float, ...], State]]:
    """Probability, reward of each stage, and last state of every history."""

    def walk(
        t: int, state: State, weight: float, earned: tuple[float, ...]
    ) -> Iterator[tuple[float, tuple[float, ...], State]]:
        if t == len(stage_pulls(problem)):
            yield weight, earned, state
            return
        for arms, share in act(t, state):
            for likely, reward, after in steps(
                problem, t, state, arms, chances(problem, state, truth)
            ):
                yield from walk(t + 1, after, weight * share * likely, (*earned, reward))

    return list(walk(0, State.fresh(problem.n_arms), 1.0, ()))


def looks_best(problem: Problem, state: State, truth: tuple[float, ...]) -> float:
    means = np.array(chances(problem, state, None))
    tied = np.flatnonzero(means > means.max() - 1e-12)
    return float(np.mean([truth[arm] == max(truth) for arm in tied]))


def few_outcomes(problem: Problem, *, bits: int = 6) -> Problem:
    """At most 2^bits histories for each way to break ties."""
    m = max(1, min(problem.pulls_per_stage, bits // problem.horizon))
    return problem.model_copy(update={"pulls_per_stage": m})


seeds = st.integers(0, 2**32 - 1)
small = settings(max_examples=25, deadline=None)


# -- over the prior -----------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIE_RULES)
@small
@given(problem=problems(max_horizon=4).map(few_outcomes), seed=seeds)
def test_value_of_any_table_is_that_of_labelled_arms(
    ties: TieRule, problem: Problem, seed: int
) -> None:
    if ties == "random":  # every set of tied arms is a way of its own
        problem = few_outcomes(problem, bits=4)
    policy = Tabled(problem, seed=seed, ties=ties)
    result = evaluated(policy)
    expected = value(problem, lambda t, state: actions(policy, t, state))
    assert result.value == pytest.approx(expected, abs=1e-12 * at_stake(problem))
    assert result.probability == pytest.approx(1.0, abs=1e-12)
    assert result.value == pytest.approx(
        fsum(result.stage_rewards) + result.last_reward, abs=1e-12 * at_stake(problem)
    )
    assert fsum(result.group_pulls) == pytest.approx(problem.horizon * problem.pulls_per_stage)


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_deco_is_worth_what_labelled_arms_say_and_at_most_the_bound(
    kind: str, ties: TieRule
) -> None:
    problem = KINDS[kind](3)
    solution = solve(problem)
    policy = DecoPolicy(problem, solution.prices, ties=ties)
    result = evaluated(policy)
    expected = value(problem, lambda t, state: actions(policy, t, state))
    assert result.value == pytest.approx(expected, abs=1e-12 * at_stake(problem))
    assert result.value <= solution.upper_bound + 1e-12 * at_stake(problem)


@pytest.mark.parametrize("kind", KINDS)
def test_stages_and_pulls_are_those_of_all_histories(kind: str) -> None:
    problem = KINDS[kind](3)
    policy = Tabled(problem, seed=7, values=4, ties="most-pulled")
    result = evaluated(policy)
    paths = histories(problem, lambda t, state: actions(policy, t, state), None)
    for t, reward in enumerate(result.stage_rewards):
        assert reward == pytest.approx(fsum(w * x[t] for w, x, _ in paths), abs=1e-12)
    for group, pulls in zip(problem.groups, result.group_pulls, strict=True):
        mean = fsum(w * sum(state.pulls[a] for a in group.members) for w, _, state in paths)
        assert pulls == pytest.approx(mean, abs=1e-12)


def test_equal_arms_are_merged_unless_a_tie_turns_on_their_positions() -> None:
    problem = Problem.uniform(arms=3, horizon=6)
    prices = solve(problem).prices
    assert evaluated(DecoPolicy(problem, prices, ties="least-pulled")).merged
    assert evaluated(DecoPolicy(problem, prices, ties="random")).merged
    assert not evaluated(DecoPolicy(problem, prices, ties="first")).merged


def test_taking_turns_is_evaluated_arm_by_arm() -> None:
    """The index is -pulls: ties of arms with equal pulls and unequal outcomes, all by position."""
    problem = Problem.uniform(arms=3, horizon=5)
    policy = Tabled(problem, seed=0, ties="least-pulled")
    policy.tables = [
        -np.repeat(np.arange(t + 1.0), np.arange(1, t + 2))[None] for t in range(problem.stages)
    ]
    result = evaluated(policy, truth=(0.1, 0.5, 0.7))
    assert result.arm_pulls == pytest.approx((2, 2, 1))
    assert result.value == pytest.approx(2 * 0.1 + 2 * 0.5 + 0.7)
    assert not evaluated(policy).merged


def test_many_more_arms_than_pulls_cost_no_more_states() -> None:
    few, many = (Problem.uniform(arms=arms, horizon=4) for arms in (4, 500))
    prices = random_prices(few, 3)
    for ties in TIE_RULES:
        small, large = (evaluated(DecoPolicy(p, prices, ties=ties)) for p in (few, many))
        # ties at random differ: more of the tied arms are fresh ones
        assert small.value == pytest.approx(large.value) or ties == "random"
        assert small.states == large.states


def test_outcomes_that_cannot_occur_or_do_not_matter_cost_nothing() -> None:
    problem = Problem.uniform(arms=60, horizon=3, pulls_per_stage=50)
    policy = Tabled(problem, seed=1, ties="first")
    truth = (0.0, 1.0) * 30
    assert evaluated(policy, truth=truth).states == 3
    last = problem.model_copy(update={"horizon": 1})
    assert evaluated(Tabled(last, seed=1, ties="last")).value == pytest.approx(25.0)


@pytest.mark.parametrize("arms", [2, 5])
def test_regret_is_against_the_expected_best_mean(arms: int) -> None:
    problem = Problem.uniform(arms=arms, horizon=6)
    result = evaluated(DecoPolicy(problem, solve(problem).prices))
    assert result.regret == pytest.approx(6 * arms / (arms + 1) - result.value, abs=1e-10)
    assert evaluated(DecoPolicy(KINDS["tabled"](2), [0.5, 0.5])).regret is None


# -- at a given truth ---------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIE_RULES)
@small
@given(problem=problems(max_horizon=3).map(lambda p: few_outcomes(p, bits=4)), seed=seeds)
def test_moments_at_a_truth_are_those_of_all_histories(
    ties: TieRule, problem: Problem, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    truth = tuple(rng.choice([0.0, 0.3, 0.5, 1.0], problem.n_arms).tolist())
    policy = Tabled(problem, seed=seed, ties=ties)
    result = evaluated(policy, truth=truth)
    paths = histories(problem, lambda t, state: actions(policy, t, state), truth)
    totals = [(w, fsum(x) + last_rewards(problem, state)) for w, x, state in paths]
    mean = fsum(w * x for w, x in totals)
    stake = at_stake(problem)
    assert result.value == pytest.approx(mean, abs=1e-12 * stake)
    variance = fsum(w * (x - mean) ** 2 for w, x in totals)
    assert result.variance == pytest.approx(variance, abs=1e-12 * stake**2)
    likely = fsum(w * looks_best(problem, state, truth) for w, _, state in paths)
    assert result.best_arm_probability == pytest.approx(likely, abs=1e-12)
    for arm, pulls in enumerate(result.arm_pulls or ()):
        assert pulls == pytest.approx(fsum(w * s.pulls[arm] for w, _, s in paths), abs=1e-12)


@pytest.mark.parametrize("way", ["two arms", "three arms", "batches", "classes"])
def test_variance_does_not_depend_on_where_rewards_begin(way: str) -> None:
    def arms(base: float) -> list[Arm]:
        return [
            Arm(
                name=name,
                prior=DirichletCategorical(counts=(1, 2)),
                reward=Reward(values=(base, base + 1)),
            )
            if way == "classes"
            else Arm(name=name, reward=Reward(good=base + 1, bad=base))
            for name in "abc"[: 3 if way == "three arms" else 2]
        ]

    batches = {"pulls_per_stage": 3, "repeat": True} if way == "batches" else {}
    truth = [(0.5, 0.5)] * 2 if way == "classes" else [0.5] * (3 if way == "three arms" else 2)
    for base in (0.0, 1e8):
        problem = Problem(arms=arms(base), horizon=4, **batches)
        result = evaluate(problem, "greedy", truth=truth)
        pulls = 4 * problem.pulls_per_stage
        assert result.variance == pytest.approx(pulls / 4, abs=1e-12)  # of so many fair coins
        assert result.value == pytest.approx(pulls * (base + 0.5), rel=1e-15)


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("kind", ["uniform", "deployed", "several pulls"])
def test_value_is_the_average_over_truths_drawn_from_the_prior(kind: str, ties: TieRule) -> None:
    horizon = 3
    arms = (
        Arm(name="a", prior=BetaBernoulli(good=1, bad=2)),
        Arm(name="b", prior=BetaBernoulli(good=2, bad=1)),
        Arm(name="c", prior=BetaBernoulli(good=1, bad=2)),
    )
    problem = KINDS[kind](horizon).model_copy(update={"arms": arms})
    policy = DecoPolicy(problem, solve(problem).prices, ties=ties)
    # in each truth a polynomial of degree horizon + 1, times the density: three nodes are exact
    x, w = np.polynomial.legendre.leggauss(3)
    x, w = (x + 1) / 2, w / 2
    density = {"a": 2 * (1 - x), "b": 2 * x, "c": 2 * (1 - x)}
    total = fsum(
        prod(w[i] * density[arm.name][i] for arm, i in zip(arms, nodes, strict=True))
        * evaluated(policy, truth=[x[i] for i in nodes]).value
        for nodes in product(range(3), repeat=3)
    )
    assert evaluated(policy).value == pytest.approx(total, abs=1e-12 * at_stake(problem))


def test_regret_at_a_truth_is_against_the_best_arms() -> None:
    problem = KINDS["deployed"](3)
    result = evaluated(DecoPolicy(problem, [0.0, 0.0, 0.0, 5.0]), truth=(0.9, 0.2, 0.4))
    # mean rewards 0.4, -0.3 and 0.4; the first arm is the one to deploy
    assert result.regret == pytest.approx(3 * 0.4 + 12.5 * 0.9 - result.value)


class Optimal(Policy):
    """The optimal policy of two uniform arms; ties are split evenly."""

    name = "optimal"

    def __init__(self, horizon: int) -> None:
        self.problem = Problem.uniform(arms=2, horizon=horizon)
        V = np.zeros((horizon + 1,) * 3)
        self.lead: list[np.ndarray] = []  # [g1, b1, g2] of stage t: first arm ahead, equal, behind
        for t in reversed(range(horizon)):
            g1, b1, g2 = np.ogrid[: t + 1, : t + 1, : t + 1]
            b2 = np.maximum(t - g1 - b1 - g2, 0)
            p1, p2 = (1 + g1) / (2 + g1 + b1), (1 + g2) / (2 + g2 + b2)
            now, up1 = V[: t + 1, : t + 1, : t + 1], V[1 : t + 2, : t + 1, : t + 1]
            down1, up2 = V[: t + 1, 1 : t + 2, : t + 1], V[: t + 1, : t + 1, 1 : t + 2]
            first = p1 * (1 + up1) + (1 - p1) * down1
            second = p2 * (1 + up2) + (1 - p2) * now
            self.lead.insert(0, np.where(abs(first - second) < 1e-11, 0, np.sign(first - second)))
            V = np.maximum(first, second)
        self.value = float(V[0, 0, 0])

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        raise AssertionError("exact evaluation asks for probabilities where there are some")

    def probabilities(self, stage: int, states: States, rng: object = None) -> np.ndarray:
        good, bad = states.stats[..., 0].astype(int), states.stats[..., 1].astype(int)
        first = (1.0 + self.lead[stage][good[:, 0], bad[:, 0], good[:, 1]]) / 2.0
        return np.stack([first, 1.0 - first], axis=1)


def test_optimal_policy_at_fixed_parameters_has_the_published_mean_and_variance() -> None:
    known = REFERENCE["optimum_at_fixed_parameters"]
    result = evaluated(Optimal(60), truth=(0.3, 0.5))
    assert result.value == pytest.approx(known["expected_successes"], abs=1e-11)
    assert result.variance == pytest.approx(known["variance_of_successes"], abs=1e-9)
    assert result.regret == pytest.approx(60 * 0.5 - result.value)


def test_optimal_policy_earns_the_optimum() -> None:
    policy = Optimal(20)
    optimum = {(k, t): v for k, t, v in REFERENCE["optimum"]["values"]}[2, 20]
    assert policy.value == pytest.approx(optimum, abs=1e-11)
    assert evaluated(policy).value == pytest.approx(optimum, abs=1e-11)


# -- policies that are asked --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_asking_a_policy_gives_the_value_of_its_table(kind: str) -> None:
    problem = KINDS[kind](4)
    policy = Tabled(problem, seed=3, values=50, ties="first")
    truth = tuple(np.linspace(0.2, 0.9, problem.n_arms).tolist())
    assert evaluated(InPlace(policy)).value == pytest.approx(evaluated(policy).value)
    there, asked = evaluated(policy, truth=truth), evaluated(Asked(policy), truth=truth)
    assert asked.value == pytest.approx(there.value)
    assert asked.variance == pytest.approx(there.variance)
    assert asked.arm_pulls == pytest.approx(there.arm_pulls)
    assert asked.best_arm_probability == pytest.approx(there.best_arm_probability)


def test_states_of_a_policy_that_is_asked_are_merged() -> None:
    problem = Problem.uniform(arms=4, horizon=5)
    policy = Asked(DecoPolicy(problem, random_prices(problem, 1)))
    seen: list[State] = []
    select = policy.select
    policy.select = lambda stage, state, rng=None: seen.append(state) or select(stage, state)  # type: ignore[method-assign]
    result = evaluated(policy)
    assert result.merged
    merged = [tuple(sorted(zip(state.pulls, state.good, strict=True))) for state in seen]
    assert len(set(merged)) == result.states
    # where arms of equal pulls differ, in a second order: the position must not matter
    for state in set(merged):
        differ = len({n for n, _ in state}) < len(set(state))
        assert merged.count(state) == (2 if differ else 1)


def shuffled(problem: Problem, seed: int) -> Problem:
    """Exchangeable arms no longer stand side by side."""
    order = np.random.default_rng(seed).permutation(problem.n_arms)
    return problem.model_copy(update={"arms": tuple(problem.arms[k] for k in order)})


@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled", "first"])
@small
@given(problem=problems(max_horizon=4).map(few_outcomes), seed=seeds)
def test_symmetric_policies_that_break_ties_by_position_are_not_merged(
    ties: TieRule, problem: Problem, seed: int
) -> None:
    policy = Tabled(shuffled(problem, seed), seed=seed, ties=ties)
    expected = value(policy.problem, lambda t, state: actions(policy, t, state))
    for road in (policy, Asked(policy)):
        assert evaluated(road).value == pytest.approx(expected, abs=1e-12 * at_stake(problem))


class LastArms(Policy):
    """Pulls the arms that stand last."""

    name = "last-arms"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        arms = self.problem.n_arms
        return tuple(range(arms - round(self.problem.pulls[stage]), arms))


class Turns(LastArms):
    """Pulls the arms in turn."""

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        pulls = round(self.problem.pulls[stage])
        return tuple((stage + i) % self.problem.n_arms for i in range(pulls))


class StaysWithLast(LastArms):
    """Leaves the last arms for the first ones after more bad outcomes than good ones."""

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        last = super().select(stage, state)
        if sum(state.good[arm] - state.bad[arm] for arm in last) >= 0:
            return last
        return tuple(range(len(last)))


class MostlyLast(LastArms):
    """Draws the first arm with probability 1/4."""

    randomised = True

    def allotments(self, stage: int, states: States) -> Allotments:
        arms, number = np.arange(self.problem.n_arms), round(self.problem.pulls[stage])
        both = np.stack([arms < number, arms >= arms.size - number]).astype(int)
        every = np.arange(len(states))
        shares = np.tile([0.25, 0.75], every.size)
        return np.repeat(every, 2), np.tile(both, (every.size, 1)), shares


class GradientElsewhere(KnowledgeGradientPolicy):
    """Derives from a symmetric policy and answers by position."""

    name = "gradient-elsewhere"

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        return (self.problem.n_arms - 1,)


OUTSIDE = [LastArms, Turns, StaysWithLast, MostlyLast, GradientElsewhere]


@pytest.mark.parametrize("make", OUTSIDE)
def test_positions_matter_to_a_policy_that_does_not_declare_symmetry(
    make: type[LastArms],
) -> None:
    uniform = Problem.uniform(arms=3, horizon=8)
    assert evaluate(uniform, LastArms(uniform)).value == pytest.approx(4.0)
    problems = [uniform, *(KINDS[kind](3) for kind in KINDS)]
    for problem in problems:
        if make is GradientElsewhere and problem is not uniform:
            continue
        policy = make(problem)

        def act(stage: int, state: State, policy: Policy = policy) -> Actions:
            return [
                (tuple(np.flatnonzero(pulls).tolist()), share)
                for pulls, share in allotted(policy, stage, state)
            ]

        expected = value(problem, act)
        result = evaluate(problem, policy)
        assert not result.merged
        assert result.value == pytest.approx(expected, abs=1e-12 * at_stake(problem))
        assert gap(problem, policy).value == pytest.approx(expected, abs=1e-9 * at_stake(problem))


ASKED = ("optimal", "thompson", "ids", "v-ids", "knowledge-gradient", "deco-rolling")


@pytest.mark.parametrize("name", ASKED)
def test_our_symmetric_policies_are_worth_what_labelled_arms_say(name: str) -> None:
    deployed = Problem.uniform(arms=3, horizon=4, terminal=Terminal(deploy=5))
    mixed = [BetaBernoulli(1, 1), BetaBernoulli(2, 1), BetaBernoulli(1, 1), BetaBernoulli(2, 1)]
    arms = [Arm(name=f"{k}", prior=prior) for k, prior in enumerate(mixed)]
    for problem in (deployed, Problem(arms=arms, horizon=4)):
        policy = make_policy(problem, name)

        def act(stage: int, state: State, policy: Policy = policy) -> Actions:
            return [
                (tuple(np.flatnonzero(pulls).tolist()), share)
                for pulls, share in allotted(policy, stage, state)
            ]

        result = evaluate(problem, policy)
        assert result.merged or name == "deco-rolling"
        assert result.value == pytest.approx(value(problem, act), abs=1e-11 * at_stake(problem))


# -- what is refused, and how results look ------------------------------------------------------


def test_random_policies_are_refused() -> None:
    policy = Asked(DecoPolicy(Problem.uniform(arms=2, horizon=2), [0.5, 0.5]))
    policy.randomised = True
    with refused("unsupported", "policy"):
        evaluated(policy)


def test_too_many_states_are_refused_with_their_number() -> None:
    problem = Problem.uniform(arms=5, horizon=12)
    policy = DecoPolicy(problem, solve(problem).prices, ties="random")
    states = evaluated(policy).states
    assert evaluated(policy, limit_states=states).states == states
    with refused("too_large"):
        evaluated(policy, limit_states=states - 1)
    with refused("too_large"):
        evaluated(Split(policy), limit_states=100)
    wide = Problem.uniform(arms=60, horizon=2, pulls_per_stage=50)
    with refused("too_large"):
        evaluated(Tabled(wide, seed=1, ties="first"), truth=[0.5] * 60, limit_states=1000)


@pytest.mark.parametrize("name", ["greedy", "equal", "fh-gittins"])
def test_too_many_states_are_refused_long_before_they_are_there(name: str) -> None:
    """As many as there are may be reached; of five times the stages, a part is enough to tell."""
    problem, seen = Problem.uniform(arms=3, horizon=60), list[int]()

    def note(now: Progress) -> None:
        if now.what == name:
            seen.append(int(now.note.split()[-2].replace(",", "")))

    states = evaluate(problem, name).states
    assert evaluate(problem, name, limit_states=states, progress=note).states == states
    seen.clear()
    longer = Problem.uniform(arms=3, horizon=300)
    with refused("too_large"):
        evaluate(longer, name, limit_states=states, progress=note)
    assert max(seen) < states // 2


@pytest.mark.parametrize(
    ("truth", "message"), [((0.5,), "must be 2"), ((0.5, 1.5), "1.5"), ((float("nan"), 0), "nan")]
)
def test_truths_that_are_none_are_refused(truth: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(DecoPolicy(Problem.uniform(arms=2, horizon=2), [0.5, 0.5]), truth=truth)


def test_another_problem_is_refused() -> None:
    policy = DecoPolicy(Problem.uniform(arms=2, horizon=2), [0.5, 0.5])
    assert evaluate(Problem.uniform(arms=2, horizon=2), policy).value > 1.0
    with refused("invalid_argument"):
        evaluate(Problem.uniform(arms=3, horizon=2), policy)


class Wrong(Tabled):
    """One whose index is what a test says."""

    answer: np.ndarray

    def index(self, stage: int, group: int, stats: np.ndarray) -> np.ndarray:
        return self.answer if stage == 1 else super().index(stage, group, stats)


@pytest.mark.parametrize("answer", [np.full(3, np.nan), np.zeros(2), np.zeros((3, 2))])
def test_tables_that_are_not_one_number_per_state_are_refused(answer: np.ndarray) -> None:
    policy = Wrong(Problem.uniform(arms=2, horizon=2), seed=0, ties="first")
    policy.answer = answer
    with refused("invalid_argument", "policy"):
        evaluated(policy)


@pytest.mark.parametrize("arms", [(), (0, 0), (2,), (-1,)])
def test_pulls_that_the_problem_does_not_allow_are_refused(arms: tuple[int, ...]) -> None:
    policy = Asked(DecoPolicy(Problem.uniform(arms=2, horizon=2), [0.5, 0.5]))
    policy.select = lambda stage, state, rng=None: arms  # type: ignore[method-assign]
    with refused("invalid_argument"):
        evaluated(policy)


def test_results_are_plain_and_readable() -> None:
    policy = DecoPolicy(Problem.uniform(arms=2, horizon=3), [0.5] * 3)
    seen = []
    there = evaluated(policy, truth=(0.25, 0.5), progress=seen.append)
    assert [step.note.partition(",")[0] for step in seen] == [f"stage {t} of 3" for t in range(3)]
    assert seen[-1].note == f"stage 2 of 3, {there.states} states"
    read = json.loads(json.dumps(there.to_dict(), allow_nan=False))
    assert read["truth"] == [0.25, 0.5]
    assert "variance" not in evaluated(policy).to_dict()
    assert repr(there).startswith("Evaluation(deco at 0.25, 0.5: value ")


class TableAlone(IndexPolicy):
    """The posterior mean and a bonus, as a table alone."""

    name = "table-alone"

    def stage_index(self, stage: int) -> np.ndarray:
        states = [(n, g) for n in range(stage + 1) for g in range(n + 1)]
        row = [(1 + g) / (2 + n) + 0.1 / (1 + n) for n, g in states]
        return np.array([row] * len(self.problem.groups))


class IndexAlone(IndexPolicy):
    """The same by `index`."""

    name = "index-alone"

    def index(self, stage: int, group: int, stats: np.ndarray) -> np.ndarray:
        n = stats.sum(axis=-1)
        return (1 + stats[..., 0]) / (2 + n) + 0.1 / (1 + n)


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("truth", [None, (0.3, 0.6, 0.6)])
@pytest.mark.parametrize("pulls", [1, 2])
def test_a_table_of_indices_alone_is_a_policy(
    pulls: int, truth: tuple[float, ...] | None, ties: TieRule
) -> None:
    problem = Problem.uniform(arms=3, horizon=4, pulls_per_stage=pulls)
    tabled, written = TableAlone(problem, ties=ties), IndexAlone(problem, ties=ties)
    found = evaluate(problem, tabled, truth=truth)
    expected = evaluate(problem, written, truth=truth)
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert found.arm_pulls == pytest.approx(expected.arm_pulls, abs=1e-12)
    if ties != "random":
        state = State.of_counts([0, 1, 1], [1, 1, 0]) if pulls == 2 else State.parse("0/1,1/2,0/0")
        assert tabled.choose(state) == written.choose(state)
