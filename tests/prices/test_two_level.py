"""Two-level arms: beliefs by enumeration, values by a joint recursion, bounds by a program."""

import itertools
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

from decobandit import (
    Arm,
    BetaBernoulli,
    Chain,
    Problem,
    TwoLevel,
    bound,
    evaluate,
    gap,
    load_problem,
    make_policy,
    optimum,
    recommend,
    save_problem,
    simulate,
    solve,
)
from decobandit.arm import OneArmValues, chains
from decobandit.arm.chains import two_level_chain
from decobandit.policies.restless import whittle_indices
from decobandit.problem import State, TwoLevelModel, problem_from_dict, problem_to_dict
from helpers.refusals import refused

CHANNEL = TwoLevel(low=0.2, high=0.6, up=0.05, down=0.1, start=0.5)
FAST = TwoLevel(low=0.1, high=0.9, up=0.3, down=0.2, start=0.3)
TURNING = TwoLevel(low=0.3, high=0.7, up=0.8, down=0.7, start=0.9)  # levels mostly change
OBSERVED = TwoLevel(low=0.0, high=1.0, up=0.2, down=0.3, start=0.4)


def problem_of(priors, horizon, pulls=1, factors=None):
    reward = {} if factors is None else {"reward": {"factor": factors}}
    arms = [Arm(name=f"a{k}", prior=prior, **reward) for k, prior in enumerate(priors)]
    return Problem(arms=arms, horizon=horizon, pulls_per_stage=pulls)


def step(prior, belief, outcome):
    """The belief after a stage, from Bayes' rule; outcome None: no pull."""
    if outcome is not None:
        high = belief * (prior.high if outcome else 1 - prior.high)
        low = (1 - belief) * (prior.low if outcome else 1 - prior.low)
        belief = high / (high + low)
    return belief * (1 - prior.down) + (1 - belief) * prior.up


def joint_value(problem, choose=None):
    """The best value over joint beliefs, or that of choose(stage, beliefs, pulls)."""
    priors, K = [arm.prior for arm in problem.arms], problem.n_arms
    factors = np.array([np.broadcast_to(a.reward.factor, (problem.horizon,)) for a in problem.arms])

    @cache
    def value(t, beliefs, pulls):
        if t == problem.horizon:
            return 0.0
        options = (
            itertools.combinations(range(K), problem.pulls_per_stage)
            if choose is None
            else [choose(t, beliefs, pulls)]
        )
        return max(worth(t, beliefs, pulls, pulled) for pulled in options)

    def worth(t, beliefs, pulls, pulled):
        rates = [p.low + (p.high - p.low) * b for p, b in zip(priors, beliefs, strict=True)]
        total = sum(factors[k, t] * rates[k] for k in pulled)
        after = tuple(n + (k in pulled) for k, n in enumerate(pulls))
        for outcomes in itertools.product((0, 1), repeat=len(pulled)):
            by_arm = dict(zip(pulled, outcomes, strict=True))
            chance = np.prod([rates[k] if x else 1 - rates[k] for k, x in by_arm.items()])
            later = tuple(step(priors[k], b, by_arm.get(k)) for k, b in enumerate(beliefs))
            total += chance * value(t + 1, later, after) if chance > 0 else 0.0
        return total

    return value(0, tuple(p.start for p in priors), (0,) * K)


def occupancy_value(problem):
    """Largest reward of expected occupancies of beliefs that spend the pulls of every stage."""
    T, columns = problem.horizon, []
    right = {("pulls", t): float(problem.pulls_per_stage) for t in range(T)}
    for k, arm in enumerate(problem.arms):
        prior, layer = arm.prior, {arm.prior.start}
        right[k, 0, prior.start] = 1.0
        for t in range(T):
            following = set()
            for b in layer:
                rate = prior.low + (prior.high - prior.low) * b
                ways = {0: [(1.0, None)], 1: [(rate, 1), (1 - rate, 0)]}
                for act, outcomes in ways.items():
                    column = {(k, t, b): 1.0}
                    if act:
                        column["pulls", t] = 1.0
                    for chance, outcome in outcomes:
                        if chance > 0 and t + 1 < T:
                            to = (k, t + 1, step(prior, b, outcome))
                            following.add(to[2])
                            right.setdefault(to, 0.0)
                            column[to] = column.get(to, 0.0) - chance
                    columns.append((act * rate, column))
            layer = following
    rows = {key: number for number, key in enumerate(right)}
    matrix = np.zeros((len(rows), len(columns)))
    for j, (_, column) in enumerate(columns):
        for key, entry in column.items():
            matrix[rows[key], j] += entry
    cost = [-reward for reward, _ in columns]
    program = linprog(cost, A_eq=matrix, b_eq=list(right.values()), method="highs")
    assert program.status == 0
    return -program.fun


# -- beliefs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [CHANNEL, FAST, TURNING])
def test_beliefs_are_those_of_all_paths_of_levels(prior):
    """The level of a stage decides its outcome, and then moves; every path is enumerated."""
    model = problem_of([prior], 4).groups[0].model
    for seen in itertools.product((None, 0, 1), repeat=3):
        weight = {0: 0.0, 1: 0.0}
        for path in itertools.product((0, 1), repeat=4):
            chance = prior.start if path[0] else 1 - prior.start
            for level, following, outcome in zip(path, path[1:], seen, strict=False):
                rate = prior.high if level else prior.low
                chance *= 1.0 if outcome is None else rate if outcome else 1 - rate
                leaves = prior.down if level else prior.up
                chance *= leaves if following != level else 1 - leaves
            weight[path[3]] += chance
        stats = np.array(model.initial(), dtype=float)
        for outcome in seen:
            rested = model.rested(np.array(0.0), stats)
            stats = rested if outcome is None else model.update(stats, np.array(float(outcome)))
        assert stats[1] == pytest.approx(weight[1] / (weight[0] + weight[1]), rel=1e-12)


def test_streams_have_the_law_of_the_levels():
    model = problem_of([FAST], 3).groups[0].model
    drawn = model.stream(np.zeros((200_000, 0)), 3, np.random.default_rng(1))
    belief = np.array([0, FAST.start], dtype=float)
    for t in range(3):
        assert drawn[:, t].mean() == pytest.approx(float(model.mean(belief)), abs=0.01)  # 9 errors
        belief = model.rested(np.array(0.0), belief)
    after_good = model.mean(model.update(np.array([0, FAST.start]), np.array(1.0)))
    assert drawn[drawn[:, 0] == 1, 1].mean() == pytest.approx(float(after_good), abs=0.015)


# -- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priors", "horizon", "pulls"),
    [([CHANNEL, FAST], 4, 1), ([FAST, TURNING, FAST], 3, 2), ([OBSERVED] * 3, 4, 1)],
)
def test_optimum_and_policies_have_the_values_of_the_joint_recursion(priors, horizon, pulls):
    problem = problem_of(priors, horizon, pulls, np.linspace(1.0, 0.7, horizon).tolist())
    best = joint_value(problem)
    assert optimum(problem).value == pytest.approx(best, rel=1e-12)
    assert evaluate(problem, "optimal").value == pytest.approx(best, rel=1e-12)
    for name in ("greedy", "deco", "deco-rolling"):
        policy = make_policy(problem, name)

        def choose(t, beliefs, had, policy=policy):
            stats = list(zip(had, beliefs, strict=True))
            return policy.select(t, State.of_stats(problem, stats))

        value = evaluate(problem, policy).value
        assert value == pytest.approx(joint_value(problem, choose), rel=1e-12)
        assert value <= best + 1e-12
        loss = gap(problem, policy)
        assert loss.gap == pytest.approx(loss.shortfall + loss.congestion, abs=1e-12)
    assert solve(problem).upper_bound >= best - 1e-9


def test_simulation_agrees_with_exact_values():
    problem = problem_of([CHANNEL, FAST, FAST], 4)
    for result in simulate(problem, ["greedy", "equal", "deco"], draws=4000, rng=1).results:
        plain = result.estimates.by_method["plain"]
        assert abs(plain.value - evaluate(problem, result.policy).value) < 8 * plain.value_se


# -- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("priors", [[CHANNEL, FAST], [TURNING, OBSERVED, CHANNEL]])
def test_dual_minimum_is_the_value_of_the_occupancy_program(priors):
    problem = problem_of(priors, 5)
    solution, best = solve(problem, tol=1e-8), occupancy_value(problem)
    assert solution.grid == 0
    assert solution.upper_bound == pytest.approx(best, rel=1e-7)
    assert solution.lower_bound == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("prior", [CHANNEL, FAST, TURNING])
def test_grids_are_above_and_below_the_exact_values(monkeypatch, prior):
    problem = problem_of([prior, prior, prior], 7)
    exact = solve(problem, tol=1e-9)
    prices = exact.prices * np.linspace(0.9, 1.1, 7)
    at_prices = OneArmValues(problem, prices).value()
    monkeypatch.setattr("decobandit.problem.models.bernoulli.MAX_BELIEFS", 10)
    TwoLevelModel.beliefs.cache_clear()
    grid = solve(problem, tol=1e-9, grid=1024)
    on_grid = OneArmValues(problem, prices, grid=1024).value()
    TwoLevelModel.beliefs.cache_clear()
    assert grid.grid == 1024
    assert grid.lower_bound <= exact.upper_bound + 1e-9
    assert exact.upper_bound <= grid.upper_bound + 1e-9
    assert grid.upper_bound - grid.lower_bound < 2e-3 * grid.upper_bound
    assert grid.upper_bound - exact.upper_bound < 1e-4 * grid.upper_bound
    assert on_grid >= at_prices - 1e-12


def test_rests_never_leave_the_grid():
    model = problem_of([CHANNEL], 30).groups[0].model
    chain = two_level_chain(model, 30, 0)
    assert chain.contract is not None
    for one in (chain, chain.contract()):
        M = one.reward.size // 31
        belief = (one.reward - CHANNEL.low) / (CHANNEL.high - CHANNEL.low)
        np.testing.assert_allclose(
            belief[one.rest[1][:-M]], model.drifted(belief)[:-M], rtol=0, atol=1e-14
        )
        ends = np.cumsum(one.pull[0])
        mean = np.add.reduceat(one.pull[2] * belief[one.pull[1]], ends - one.pull[0])
        np.testing.assert_allclose(mean, model.drifted(belief), rtol=0, atol=1e-12)


def test_observed_levels_have_few_beliefs_at_any_horizon():
    problem = problem_of([OBSERVED] * 4, 60, 2)
    solution = solve(problem, tol=1e-7)
    assert solution.grid == 0
    assert solution.converged
    model = problem.groups[0].model
    assert model.beliefs(60).size < 3 * 61
    # the same arm as a chain of beliefs, written by hand: age and last outcome
    beliefs = model.beliefs(60)
    rest, pull = np.zeros((2, beliefs.size, beliefs.size))
    for s, b in enumerate(beliefs):
        rest[s, np.abs(beliefs - step(OBSERVED, b, None)).argmin()] = 1.0
        for outcome, chance in ((1, b), (0, 1 - b)):
            if chance > 0:
                pull[s, np.abs(beliefs - step(OBSERVED, b, outcome)).argmin()] += chance
    first = int(np.abs(beliefs - OBSERVED.start).argmin())
    chain = Chain(rest, pull, np.zeros(beliefs.size), beliefs, first=first)
    twin = solve(problem_of([chain] * 4, 60, 2), tol=1e-7)
    assert twin.upper_bound == pytest.approx(solution.upper_bound, rel=2e-7)


def test_long_problems_are_bracketed_closely():
    solution = solve(Problem.uniform(arms=3, horizon=30, prior=CHANNEL))
    assert solution.upper_bound - solution.lower_bound < 1e-3 * solution.upper_bound
    kinds = [one.kind for one in bound(Problem.uniform(arms=2, horizon=30, prior=CHANNEL))]
    assert "lagrangian" in kinds
    assert "optimum" not in kinds


def test_levels_that_never_move_are_a_two_point_prior():
    still = TwoLevel(low=0.2, high=0.6, up=0, down=0, start=0.5)
    problem = problem_of([still, still], 12)

    @cache
    def value(t, a, b):
        if t == 12:
            return 0.0
        worths = []
        for mine, other in ((a, b), (b, a)):
            odds = (0.6 / 0.2) ** mine[0] * (0.4 / 0.8) ** (mine[1] - mine[0])
            p = (0.6 * odds + 0.2) / (odds + 1)
            up, down = (mine[0] + 1, mine[1] + 1), (mine[0], mine[1] + 1)
            worths.append(p * (1 + value(t + 1, up, other)) + (1 - p) * value(t + 1, down, other))
        return max(worths)

    best = value(0, (0, 0), (0, 0))
    solution = solve(problem)
    assert best <= solution.upper_bound
    assert solution.upper_bound < 1.05 * best
    played = simulate(problem, "deco", draws=2000, rng=3).results[0]
    assert played.value > 0.97 * best


# -- policies -----------------------------------------------------------------------------------


def test_whittle_rises_with_the_belief_and_beats_greedy():
    model = problem_of([CHANNEL], 2).groups[0].model
    indices = whittle_indices(model)
    assert np.all(np.diff(indices) > 0.0)
    problem = Problem.uniform(arms=4, horizon=40, prior=CHANNEL)
    played = simulate(problem, ["whittle", "deco", "greedy"], draws=1500, rng=1)
    value = {result.policy: float(result.value) for result in played.results}
    assert value["whittle"] > 0.99 * value["deco"]
    assert value["deco"] <= solve(problem).upper_bound


def test_whittle_index_of_an_observed_channel_has_its_closed_form():
    """Where levels stay, not switch: Liu and Zhao 2010, Theorem 2: index b p11 ... at the ends."""
    prior = TwoLevel(low=0, high=1, up=0.2, down=0.3, start=0.4)
    model = problem_of([prior], 2).groups[0].model
    chain = chains.coarse_belief_chain(model)
    indices = whittle_indices(model)
    # beliefs at or below p01 = up: the index is the belief; at or above p11: too
    assert indices[0] == pytest.approx(float(chain.reward[0]), abs=1e-9)


def test_unknown_means_are_not_compared():
    for name in ("thompson", "fh-gittins", "ids"):
        with refused("unsupported", "policy"):
            make_policy(problem_of([CHANNEL, FAST], 3), name)


# -- descriptions -------------------------------------------------------------------------------


def test_files_states_and_recommendations(tmp_path):
    tree = {
        "horizon": 5,
        "arms": [{"name": "a", "prior": {"kind": "two-level", **CHANNEL.model_dump()}, "count": 3}],
    }
    problem = problem_from_dict(tree)
    assert problem.groups[0].count == 3
    for path in (tmp_path / "p.toml", tmp_path / "p.json"):
        save_problem(problem, path)
        assert load_problem(path) == problem
    assert problem_from_dict(problem_to_dict(problem)) == problem
    state = State.parse("0.6/1,0.5/0,0.475/0", problem)
    said = recommend(problem, state)
    assert said.arms[0].seen == "0.6/1"
    assert max(range(3), key=lambda k: said.arms[k].index) == 0
    for text in ("1.5/1,0.5/0,0.5/0", "x,0.5/0,0.5/0", "0.5/-1,0.5/0,0.5/0"):
        with pytest.raises(ValueError, match="belief"):
            State.parse(text, problem)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"high": 0.1}, "high"),
        ({"up": 1.5}, "up"),
        ({"start": -0.1}, "start"),
        ({"low": "x"}, "low"),
    ],
)
def test_impossible_levels_are_refused(changes, field):
    with refused("invalid_problem", field):
        TwoLevel(**(CHANNEL.model_dump() | changes))


def test_arms_of_other_kinds_do_not_go_with_two_levels():
    with refused("invalid_problem", "arms.1.prior.kind"):
        problem_of([CHANNEL, BetaBernoulli(1, 1)], 3)
    with refused("invalid_problem", "reward"):
        Arm(name="a", prior=CHANNEL, reward={"good": 2.0})
