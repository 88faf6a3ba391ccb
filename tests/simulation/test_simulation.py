"""Simulation: unbiased against exact values, the same numbers always, errors that are true."""

from typing import Any

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.arm import OneArmValues
from decobandit.evaluation import Evaluation
from decobandit.policies import DecoPolicy, GreedyPolicy, Policy, make_successor
from decobandit.policies.deco import ReplannedDecoPolicy
from decobandit.policies.kernels.episodes import uniform
from decobandit.prices import solve
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State
from decobandit.simulation import CHUNK, Simulation, World, simulate
from helpers.examples import KINDS
from helpers.policies import Bench
from helpers.refusals import refused
from helpers.values import evaluated

FAR = 4.5  # standard errors: one run in 150 000 is further off by chance, and seeds are fixed
SMALL = Problem.uniform(arms=3, horizon=8)


class Asked(Policy):
    """A policy without tables: all that simulation can do is ask it."""

    def __init__(self, policy: Policy) -> None:
        self.name, self.problem, self._policy = policy.name, policy.problem, policy

    def select(self, stage: int, state: State, rng: Any = None) -> tuple[int, ...]:
        return self._policy.select(stage, state, rng)


def only(simulation: Simulation) -> dict[str, Any]:
    (result,) = simulation.to_dict()["results"]
    return dict(result)


# -- one table for all stages -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["greedy", "equal", "explore-then-commit"])
@pytest.mark.parametrize("kind", ["uniform", "seasonal", "deployed", "several pulls"])
def test_a_table_for_all_stages_plays_as_the_policy_says_when_it_is_asked(
    kind: str, name: str
) -> None:
    problem = KINDS[kind](30)
    policy = Bench(problem).policy(name)
    assert policy.is_steady(0, problem.horizon) == (kind != "seasonal" or name == "equal")
    settings: Any = {"draws": 6, "per_draw": 2, "bound": False, "keep_episodes": True}
    found, asked = (
        simulate(problem, [each], **settings).to_frame("episodes")
        for each in (policy, Asked(policy))
    )
    assert found.equals(asked)


def test_progress_is_told_while_a_policy_is_played() -> None:
    seen: list[Any] = []
    simulate(SMALL, ["thompson"], draws=3 * CHUNK, per_draw=1, bound=False, progress=seen.append)
    assert [each.done for each in seen if each.what == "thompson"] == [
        0,
        CHUNK * 8,
        2 * CHUNK * 8,
        3 * CHUNK * 8,
    ]


# -- unbiased -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_estimate_agrees_with_the_exact_value(kind: str) -> None:
    problem = KINDS[kind](7)
    solution = solve(problem)
    policy = make_policy(solution.problem, "deco", solution=solution)
    exact = evaluated(policy)
    found = simulate(problem, [policy], draws=4000, per_draw=3, solution=solution).results[0]
    assert len(found.estimates.by_method) == (3 if kind == "tabled" else 4)
    for method, each in found.estimates.by_method.items():
        off = (each.value - exact.value) / each.value_se
        assert abs(off) < FAR, (method, off)
    if exact.regret is None:
        assert found.regret is None
    else:
        assert found.regret == pytest.approx(exact.regret, abs=FAR * found.value_se)


@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled", "first", "last", "random"])
def test_ties_are_broken_as_in_exact_evaluation(ties: Any) -> None:
    problem = KINDS["several pulls"](5)
    policy = GreedyPolicy(problem, ties=ties)
    found = simulate(problem, [policy], draws=6000, per_draw=2).results[0]
    assert found.value == pytest.approx(evaluated(policy).value, abs=FAR * found.value_se)


def test_errors_are_as_large_as_they_say() -> None:
    solution = solve(SMALL)
    policy = make_policy(solution.problem, "deco", solution=solution)
    exact = evaluated(policy).value
    off: dict[str, list[float]] = {}
    for seed in range(60):
        found = simulate(SMALL, [policy], draws=256, per_draw=2, rng=seed, solution=solution)
        for method, each in found.results[0].estimates.by_method.items():
            off.setdefault(method, []).append((each.value - exact) / each.value_se)
    for method, scores in off.items():
        # root mean square of 60 standard normals: 1 ± 0.09
        assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.3, method
        assert abs(np.mean(scores)) < FAR / np.sqrt(60), method


def test_each_control_makes_the_error_smaller() -> None:
    problem = Problem.uniform(arms=15, horizon=20)
    solution = solve(problem)
    found = simulate(problem, ["deco"], solution=solution).results[0].estimates
    errors = {method: each.value_se for method, each in found.by_method.items()}
    assert errors["regression"] < errors["gap"] < errors["expected"] < errors["plain"]
    assert found.method == "regression"
    assert (errors["plain"] / errors["gap"]) ** 2 > 100


def test_regret_by_stage_agrees_with_the_exact_one() -> None:
    problem = KINDS["heterogeneous"](9)
    policy = make_policy(problem, "fh-gittins")
    exact = evaluated(policy)
    curve = simulate(problem, [policy], draws=3000, per_draw=4).results[0].curve
    assert curve is not None
    assert exact.regret is not None
    best = (exact.regret + exact.value) / problem.stages  # rewards do not change with the stage
    wanted = np.cumsum(best - np.array(exact.stage_rewards))
    assert np.all(np.abs(curve.regret - wanted) < FAR * curve.regret_se)
    assert np.all(curve.regret_se < 0.1)


def test_a_paired_difference_is_the_difference_of_values() -> None:
    policies = [make_policy(SMALL, "fh-gittins"), GreedyPolicy(SMALL)]
    found = simulate(SMALL, policies, draws=1000)
    gain = found.difference("fh-gittins", "greedy")
    one, two = found.results
    assert gain.value == pytest.approx(one.value - two.value, abs=1e-12)
    assert gain.value_se < one.value_se + two.value_se
    exact = evaluated(policies[0]).value - evaluated(policies[1]).value
    assert gain.value == pytest.approx(exact, abs=FAR * gain.value_se)


# -- the gap, path by path ----------------------------------------------------------------------


def gap_of(relaxation: OneArmValues, pulled: list[list[int]], good: list[list[int]]) -> float:
    """The terms of Theorem 1 along one episode, one by one."""
    problem = relaxation.problem
    state, total = State.fresh(problem.n_arms), 0.0
    for t, arms in enumerate(pulled):
        for arm, group in enumerate(problem.group_of_arm):
            n = (state.good[arm], state.bad[arm])
            index = relaxation.terms(t, int(group), n).index
            excess = index - relaxation.prices[t]
            total += max(excess, 0.0) - (excess if arm in arms else 0.0)
        for arm, outcome in zip(arms, good[t], strict=True):
            state = state.after(arm, bool(outcome))
    return total


@pytest.mark.parametrize("kind", ["uniform", "seasonal", "tabled", "several pulls"])
def test_gap_terms_are_those_of_theorem_1(kind: str) -> None:
    problem = KINDS[kind](21)  # more than a block of stages
    solution = solve(problem)
    relaxation, policy = OneArmValues(problem, solution.prices), GreedyPolicy(problem)
    world = World(problem, draws=4, per_draw=1, seed=3)
    chunk = world.chunk(0)
    gaps = []
    for d in range(4):
        state, pulled, outcomes = State.fresh(problem.n_arms), [], []
        for t in range(problem.horizon):
            arms = policy.select(t, state)
            seen = [
                int(uniform(chunk.keys[d, arm], state.pulls[arm]) < chunk.means[d, arm])
                for arm in arms
            ]
            pulled.append(list(arms))
            outcomes.append(seen)
            for arm, good in zip(arms, seen, strict=True):
                state = state.after(arm, bool(good))
        gaps.append(gap_of(relaxation, pulled, outcomes))
    found = simulate(problem, [policy], draws=4, per_draw=1, rng=3, solution=solution)
    mean = found.results[0].estimates.by_method["gap"].value
    assert mean == pytest.approx(relaxation.value() - np.mean(gaps), abs=1e-9)


# -- the same numbers ---------------------------------------------------------------------------


def test_results_do_not_depend_on_threads() -> None:
    policies = [make_policy(SMALL, "fh-gittins"), GreedyPolicy(SMALL, ties="random")]
    one, two = (
        simulate(SMALL, policies, draws=3 * CHUNK + 5, per_draw=2, workers=workers).results
        for workers in (1, 3)
    )
    for a, b in zip(one, two, strict=True):
        assert a.estimates.by_method == b.estimates.by_method
        assert a.curve is not None
        assert b.curve is not None
        assert np.array_equal(a.curve.regret, b.curve.regret)


def test_other_policies_beside_it_change_nothing() -> None:
    policy = GreedyPolicy(SMALL, ties="random")
    alone = simulate(SMALL, [policy], draws=200).results[0]
    beside = simulate(SMALL, [make_policy(SMALL, "fh-gittins"), policy], draws=200).results[1]
    assert alone.value == beside.value


def test_more_draws_add_to_the_same_ones() -> None:
    few, many = (World(SMALL, draws=draws, per_draw=2, seed=9) for draws in (CHUNK, 5 * CHUNK))
    assert np.array_equal(few.chunk(0).means, many.chunk(0).means)
    assert np.array_equal(few.chunk(0).keys, many.chunk(0).keys)
    assert not np.array_equal(many.chunk(0).means, many.chunk(1).means)


def test_a_policy_that_is_asked_plays_as_by_its_table() -> None:
    problem = KINDS["several pulls"](6)
    policy = GreedyPolicy(problem)
    by_table = simulate(problem, [policy], draws=150, per_draw=2).results[0]
    by_asking = simulate(problem, [Asked(policy)], draws=150, per_draw=2).results[0]
    for method in ("plain", "expected", "gap"):  # controls of the regression may differ
        pair = [own.estimates.by_method[method] for own in (by_table, by_asking)]
        assert pair[0].value == pytest.approx(pair[1].value, abs=1e-12)
        assert pair[0].value_se == pytest.approx(pair[1].value_se, rel=1e-9)


def test_outcome_streams_are_splitmix64() -> None:
    # first outputs for the seed 1234567, as published with the generator's reference tests
    words = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    found = [uniform(np.uint64(1234567), n) for n in range(4)]
    assert found == [(word >> 11) / 2**53 for word in words]


def test_outcomes_belong_to_pulls_not_to_stages() -> None:
    # whoever pulls an arm for the j-th time sees the same: all good or all bad at p = 1 and 0
    problem = Problem.uniform(arms=2, horizon=6)
    first, last = (GreedyPolicy(problem, ties=ties) for ties in ("first", "last"))
    last.name = "last"
    found = simulate(problem, [first, last], draws=50, per_draw=1, truth=(1.0, 1.0))
    assert [r.estimates.by_method["plain"].value for r in found.results] == [6.0, 6.0]


# -- other truths than believed -----------------------------------------------------------------


def test_fixed_probabilities_agree_with_exact_evaluation() -> None:
    problem, truth = KINDS["heterogeneous"](6), (0.2, 0.9, 0.5, 0.3)
    policy = make_policy(problem, "fh-gittins")
    exact = evaluated(policy, truth=truth)
    found = simulate(problem, [policy], draws=3000, per_draw=4, truth=truth).results[0]
    assert set(found.estimates.by_method) == {"plain", "expected", "regression"}
    assert found.value == pytest.approx(exact.value, abs=FAR * found.value_se)
    assert found.regret == pytest.approx(exact.regret, abs=FAR * found.value_se)
    plain = found.estimates.by_method["plain"].value_se
    assert plain == pytest.approx(np.sqrt((exact.variance or 0.0) / 12_000), rel=0.1)


def test_parameters_come_from_the_true_prior() -> None:
    # a policy that believes Beta(1, 1): its exact value where p ~ Beta(2, 5), by quadrature
    problem = Problem.uniform(arms=2, horizon=4)
    policy = make_policy(problem, "fh-gittins")
    x, w = np.polynomial.legendre.leggauss(24)
    p, density = (x + 1) / 2, (w / 2) * 30 * ((x + 1) / 2) * (1 - (x + 1) / 2) ** 4
    exact = sum(
        a * b * evaluated(policy, truth=(u, v)).value
        for u, a in zip(p, density, strict=True)
        for v, b in zip(p, density, strict=True)
    )
    found = simulate(
        problem, [policy], draws=4000, per_draw=5, truth_prior=BetaBernoulli(good=2, bad=5)
    ).results[0]
    assert "gap" not in found.estimates.by_method  # the bound is one on believed values
    assert found.value_se < 0.01
    assert found.value == pytest.approx(exact, abs=FAR * found.value_se)


def test_an_early_end_earns_the_first_stages() -> None:
    policy = make_policy(SMALL, "fh-gittins")
    exact = sum(evaluated(policy).stage_rewards[:5])
    found = simulate(SMALL, [policy], draws=4000, true_horizon=5).results[0]
    assert found.value == pytest.approx(exact, abs=FAR * found.value_se)
    assert found.curve is not None
    assert found.curve.regret.size == 5


class Relay(Policy):
    """One policy before a stage, another from it on: what a later end amounts to."""

    name = "relay"

    def __init__(self, problem: Problem, planned: int, first: Policy, then: Any) -> None:
        self.problem, self.planned, self._first, self._then = problem, planned, first, then

    def select(self, stage: int, state: State, rng: Any = None) -> tuple[int, ...]:
        before = stage < self.planned
        return (self._first if before else self._then).select(stage, state, rng)


def exact_relay(name: str, planned: int, horizon: int, arms: int) -> tuple[Evaluation, Bench]:
    bench = Bench(Problem.uniform(arms=arms, horizon=planned))
    longer = Problem.uniform(arms=arms, horizon=horizon)
    relay = Relay(longer, planned, bench.policy(name), make_successor(bench, name, horizon))
    return evaluated(relay), bench


@pytest.mark.parametrize("name", ["fh-gittins", "deco-calibrated", "ucb1", "moss", "deco-rolling"])
def test_a_late_end_is_planned_for_when_it_is_known(name: str) -> None:
    exact, bench = exact_relay(name, 4, 7, 3)
    found = simulate(
        bench.problem,
        [bench.policy(name)],
        draws=1500,
        per_draw=2,
        true_horizon=7,
    ).results[0]
    assert found.value == pytest.approx(exact.value, abs=FAR * found.value_se)


def test_deco_solves_the_dual_again_at_the_planned_end() -> None:
    # one stage is left: the dual solved again then is the whole of the second plan
    exact, bench = exact_relay("deco", 4, 5, 3)
    assert isinstance(make_successor(bench, "deco", 5), ReplannedDecoPolicy)
    found = simulate(
        bench.problem,
        [bench.policy("deco")],
        draws=400,
        per_draw=1,
        true_horizon=5,
    ).results[0]
    assert found.value == pytest.approx(exact.value, abs=FAR * found.value_se)


def test_a_late_end_changes_nothing_for_a_policy_without_a_plan() -> None:
    short, long = Problem.uniform(arms=3, horizon=4), Problem.uniform(arms=3, horizon=9)
    policy, later = GreedyPolicy(short), GreedyPolicy(long)
    late = simulate(short, [policy], draws=100, true_horizon=9).results[0]
    planned = simulate(long, [later], draws=100).results[0]
    assert late.estimates.by_method["plain"] == planned.estimates.by_method["plain"]


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 1}, "draws: 1"),
        ({"per_draw": 0}, "per_draw: 0"),
        ({"rng": -1}, "seed: -1"),
        ({"draws": 10**7, "per_draw": 10}, "100000000 episodes"),
        ({"truth": (0.5,)}, "truth: 1 given"),
        ({"truth": (0.5,) * 3, "truth_prior": BetaBernoulli(good=1, bad=2)}, "one of the two"),
        ({"truth_prior": [BetaBernoulli(good=1, bad=2)]}, "truth_prior: 1 given"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(SMALL, [GreedyPolicy(SMALL)], **settings)


@pytest.mark.parametrize("kind", ["seasonal", "tabled", "deployed"])
def test_another_horizon_needs_rewards_that_go_on(kind: str) -> None:
    problem = KINDS[kind](5)
    with refused("invalid_argument", "true_horizon"):
        simulate(problem, [GreedyPolicy(problem)], true_horizon=4)


def test_a_policy_that_pulls_a_wrong_arm_is_refused() -> None:
    class Wrong(Asked):
        def select(self, stage: int, state: State, rng: Any = None) -> tuple[int, ...]:
            return (7,)

    with refused("invalid_argument"):
        simulate(SMALL, [Wrong(GreedyPolicy(SMALL))], draws=2)


def test_an_interruption_keeps_the_policies_that_are_finished() -> None:
    class Stopped(Asked):
        def select(self, stage: int, state: State, rng: Any = None) -> tuple[int, ...]:
            raise KeyboardInterrupt

    stopped = Stopped(GreedyPolicy(SMALL))
    stopped.name = "stopped"
    found = simulate(SMALL, [GreedyPolicy(SMALL), stopped], draws=20)
    assert found.interrupted
    assert [result.policy for result in found.results] == ["greedy"]


def test_decos_own_gap_is_measured_at_its_own_prices() -> None:
    # any prices give the same value, from different bounds
    prices = np.full(SMALL.stages, 0.5)
    policy = DecoPolicy(SMALL, prices)
    exact = evaluated(policy).value
    found = simulate(SMALL, [policy], draws=3000, per_draw=2).results[0]
    gap = found.estimates.by_method["gap"]
    assert gap.value == pytest.approx(exact, abs=FAR * gap.value_se)


def test_losses_too_rare_to_be_drawn_leave_an_honest_error() -> None:
    # the best arm is nearly sure: in few draws no loss is seen, and regret and gap do not vary
    arms = [("a", 5, 2), ("b", 1, 5), ("c", 1, 5)]
    problem = Problem(
        arms=tuple(Arm(name=n, prior=BetaBernoulli(good=g, bad=b)) for n, g, b in arms), horizon=6
    )
    solution = solve(problem)
    policy = make_policy(solution.problem, "deco", solution=solution)
    exact = evaluated(policy).value
    off = []
    for seed in range(40):
        found = simulate(problem, [policy], draws=70, rng=seed, solution=solution).results[0]
        assert found.value_se > 1e-4
        off.append((found.value - exact) / found.value_se)
    assert np.max(np.abs(off)) < FAR


def test_a_large_common_part_of_the_rewards_does_not_hide_the_error() -> None:
    plain, lifted = (
        Problem(
            arms=tuple(
                Arm(name=str(i), reward=Reward(good=lift + 1.0, bad=lift)) for i in range(3)
            ),
            horizon=20,
        )
        for lift in (0.0, 1e8)
    )
    errors = [
        simulate(p, [GreedyPolicy(p)], draws=500).results[0].value_se for p in (plain, lifted)
    ]
    assert 0.5 < errors[1] / errors[0] < 3.0  # the dual is solved to fewer digits of what varies


def test_few_draws_give_a_curve_with_an_error() -> None:
    found = simulate(SMALL, [GreedyPolicy(SMALL)], draws=4, per_draw=1).results[0]
    assert found.curve is not None
    assert found.regret is not None
    assert np.all(found.curve.regret_se[2:] > 0.01)
    assert abs(found.curve.regret[-1] - found.regret) < 5 * found.curve.regret_se[-1]


def test_policies_that_cannot_be_compared_are_refused() -> None:
    other = GreedyPolicy(Problem.uniform(arms=4, horizon=8))
    for policies, message in (
        ([], "none given"),
        (["best"], "no policy is called 'best'"),
        ([GreedyPolicy(SMALL), GreedyPolicy(SMALL)], "two are called 'greedy'"),
        ([other], "another problem"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate(SMALL, policies, draws=20)  # type: ignore[arg-type]
    with refused("invalid_argument", "policy"):
        simulate(SMALL, [GreedyPolicy(SMALL)], draws=20).difference("greedy", "nobody")
