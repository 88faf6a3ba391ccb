"""One episode at the prices: its terms, what is lost, and where the outcomes come from."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product, zip_longest

import numpy as np
import pytest

from decobandit.bounds import Episode, follow, gap
from decobandit.bounds.episodes import Pair, retrace
from decobandit.policies import GreedyPolicy, Policy, make_policy
from decobandit.policies.simple import EqualPolicy
from decobandit.prices import DualSolution, solve
from decobandit.problem import Problem, State, Terminal
from decobandit.simulation import World, simulate
from helpers.examples import KINDS
from helpers.oracles import good_chance, one_arms, stage_pulls
from helpers.policies import SINGLE_PULLS, Bench
from helpers.refusals import refused
from helpers.values import evaluated

ARRAYS = ("prices", "good", "bad", "expected_reward", "value_of_information", "index")
LOSSES = ("shortfall", "congestion", "running_loss")


@cache
def solved(kind: str, horizon: int) -> DualSolution:
    return solve(KINDS[kind](horizon))


def history_of(path: Episode) -> list[Pair]:
    """The pulls in their order; a deployment has no outcome."""
    return [
        (arm, outcomes[i] if outcomes else None)
        for arms, outcomes in zip(path.pulled, path.outcomes, strict=True)
        for i, arm in enumerate(arms)
    ]


def assert_same(one: Episode, other: Episode, *, stages: int | None = None) -> None:
    assert one.pulled[:stages] == other.pulled[:stages]
    assert one.outcomes[:stages] == other.outcomes[:stages]
    for name in ARRAYS + LOSSES:
        assert np.array_equal(getattr(one, name)[:stages], getattr(other, name)[:stages]), name


@pytest.mark.parametrize("kind", KINDS)
def test_terms_and_losses_are_those_of_an_independent_loop(kind: str) -> None:
    solution = solved(kind, 7)
    problem, prices = solution.problem, solution.prices
    arms = one_arms(problem, prices)
    path = follow(solution.problem, EqualPolicy(problem), solution=solution, rng=3)
    assert path.stages == problem.stages
    good, pulls, lost = [0] * len(arms), [0] * len(arms), 0.0
    for t, count in enumerate(stage_pulls(problem)):
        assert len(path.pulled[t]) == count
        short = crowd = 0.0
        for a, arm in enumerate(arms):
            ell, delta = arm.ell(t, pulls[a], good[a]), arm.delta(t, pulls[a], good[a])
            assert path.expected_reward[t, a] == pytest.approx(ell, abs=1e-12)
            assert path.value_of_information[t, a] == pytest.approx(delta, abs=1e-11)
            over = ell + delta - prices[t]
            if a in path.pulled[t]:
                short += max(0.0, -over)
            else:
                crowd += max(0.0, over)
        lost += short + crowd
        assert path.shortfall[t] == pytest.approx(short, abs=1e-11)
        assert path.congestion[t] == pytest.approx(crowd, abs=1e-11)
        assert path.running_loss[t] == pytest.approx(lost, abs=1e-11)
        assert (path.good[t].tolist(), (path.good + path.bad)[t].tolist()) == (good, pulls)
        for arm, outcome in zip(path.pulled[t], path.outcomes[t], strict=t < problem.horizon):
            pulls[arm] += 1
            good[arm] += outcome


def test_two_stages_by_hand() -> None:
    # at prices 3/5, 1/2: V_1 is 1/6 after a good outcome and 0 otherwise, so that a fresh arm is
    # worth 1/2 + 1/12 at stage 0; after a good outcome it is worth 2/3 at stage 1
    fresh = solve(Problem.uniform(arms=2, horizon=2))
    solution = replace(fresh, multipliers=np.array([0.6, 0.5]))
    path = retrace(solution.problem, [("arm-1", True), ("arm-2", False)], solution=solution)
    assert path.index == pytest.approx(np.array([[7 / 12, 7 / 12], [2 / 3, 1 / 2]]), abs=1e-14)
    assert path.value_of_information[0] == pytest.approx(np.full(2, 1 / 12), abs=1e-14)
    assert path.shortfall == pytest.approx(np.array([1 / 60, 0.0]), abs=1e-14)
    assert path.congestion == pytest.approx(np.array([0.0, 1 / 6]), abs=1e-14)
    assert path.running_loss == pytest.approx(np.array([1 / 60, 1 / 60 + 1 / 6]), abs=1e-14)


def histories(policy: Policy, stage: int, state: State) -> Iterator[tuple[float, list[Pair]]]:
    """Everything that can happen from a state on, with its probability."""
    problem = policy.problem
    if stage == problem.stages:
        yield 1.0, []
        return
    arms = policy.select(stage, state)
    if stage == problem.horizon:
        yield 1.0, [(arms[0], None)]
        return
    for outcomes in product((False, True), repeat=len(arms)):
        probability, after = 1.0, state
        for arm, good in zip(arms, outcomes, strict=True):
            p = good_chance(problem.arms[arm], state.pulls[arm], state.good[arm])
            probability *= p if good else 1.0 - p
            after = after.after(arm, good)
        for rest, more in histories(policy, stage + 1, after):
            yield probability * rest, [*zip(arms, outcomes, strict=True), *more]


@pytest.mark.parametrize("kind", ["heterogeneous", "tabled", "deployed", "several pulls"])
def test_expected_loss_is_the_bound_minus_the_value(kind: str) -> None:
    solution = solved(kind, 3)
    for policy in (
        make_policy(solution.problem, "deco", solution=solution),
        EqualPolicy(solution.problem),
        GreedyPolicy(solution.problem),
    ):
        all_of_them = list(histories(policy, 0, State.fresh(solution.problem.n_arms)))
        assert sum(probability for probability, _ in all_of_them) == pytest.approx(1.0)
        lost = sum(
            probability * retrace(solution.problem, history, solution=solution).running_loss[-1]
            for probability, history in all_of_them
        )
        assert solution.upper_bound - lost == pytest.approx(evaluated(policy).value, abs=1e-10)


@pytest.mark.parametrize("kind", ["uniform", "heterogeneous", "seasonal", "deployed"])
def test_deco_loses_where_no_arm_or_several_are_worth_the_price(kind: str) -> None:
    solution = solved(kind, 12)
    policy = make_policy(solution.problem, "deco", solution=solution)
    for seed in range(8):
        path = follow(solution.problem, policy, solution=solution, rng=seed)
        for t in range(path.stages):
            (star,) = path.pulled[t]
            index, price = path.index[t], path.prices[t]
            assert index[star] >= index.max() - 1e-9
            first = max(0.0, price - index[star])
            second = sum(x - price for a, x in enumerate(index) if a != star and x >= price)
            assert path.shortfall[t] == pytest.approx(first, abs=1e-14)
            assert path.congestion[t] == pytest.approx(second, abs=1e-14)
            if path.shortfall[t] > 1e-9:
                assert path.congestion[t] == 0.0
                assert np.all(index < price)
            if path.congestion[t] > 1e-9:
                assert np.sum(index > price) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_retraced_is_the_same(kind: str) -> None:
    solution = solved(kind, 8)
    path = follow(solution.problem, "deco", solution=solution, rng=5)
    history = history_of(path)
    assert_same(retrace(solution.problem, history, solution=solution, policy="deco"), path)
    names = [(solution.problem.arms[int(arm)].name, outcome) for arm, outcome in history]
    assert_same(retrace(solution.problem, names, solution=solution), path)


def test_the_beginning_of_a_path_does_not_depend_on_its_end() -> None:
    solution = solved("several pulls", 8)
    path = follow(solution.problem, "deco", solution=solution, rng=2)
    history = history_of(path)
    assert retrace(solution.problem, [], solution=solution).stages == 0
    for pulls in (2, 5, 8):
        part = retrace(solution.problem, history[:pulls], solution=solution)
        assert part.stages == pulls // 2  # a stage that is not complete is left out
        assert not part.deployed
        assert_same(part, path, stages=part.stages)


@pytest.mark.parametrize("kind", ["uniform", "several pulls", "deployed"])
def test_the_episode_is_the_first_of_a_simulation(kind: str) -> None:
    problem = KINDS[kind](9)
    path = follow(solved(kind, 9).problem, GreedyPolicy(problem), solution=solved(kind, 9), rng=7)
    chunk = World(problem, draws=300, per_draw=3, seed=7).chunk(0)
    assert path.truth == tuple(chunk.means[0])
    played = simulate(
        problem, GreedyPolicy(problem), draws=300, per_draw=3, rng=7, keep_episodes=True
    )
    kept = played.results[0].episodes
    assert kept is not None
    for t in range(problem.horizon):
        here = (np.array(kept["draw"]) == 0) & (kept["episode"] == 0) & (kept["stage"] == t)
        pairs = zip(kept["arm"][here].tolist(), kept["outcome"][here].tolist(), strict=True)
        assert set(pairs) == set(zip(path.pulled[t], path.outcomes[t], strict=True))


@pytest.mark.parametrize("name", SINGLE_PULLS)
def test_every_policy_can_be_followed(name: str) -> None:
    bench = Bench(Problem.uniform(arms=3, horizon=5))
    path = follow(bench.solution.problem, bench.policy(name), solution=bench.solution, rng=4)
    assert path.policy == name
    assert path.stages == 5
    assert_same(
        follow(bench.solution.problem, bench.policy(name), solution=bench.solution, rng=4), path
    )


def test_given_probabilities_are_used_and_seeds_matter() -> None:
    solution = solved("uniform", 8)
    sure = follow(solution.problem, "deco", solution=solution, truth=(1.0, 0.0, 1.0, 0.0))
    for arms, outcomes in zip(sure.pulled, sure.outcomes, strict=True):
        assert outcomes == (arms[0] % 2 == 0,)
    assert sure.truth == (1.0, 0.0, 1.0, 0.0)
    drawn = {
        follow(solution.problem, "deco", solution=solution, rng=seed).truth for seed in range(4)
    }
    assert len(drawn) == 4


def test_a_path_is_frozen_and_becomes_plain_values() -> None:
    solution = solved("deployed", 6)
    path = follow(solution.problem, "deco", solution=solution)
    with pytest.raises(ValueError, match="read-only"):
        path.good[0, 0] = 1
    tree = path.to_dict()
    assert tree["deployed"] is True
    assert tree["outcomes"][-1] == []
    assert tree["pulled"][0] == [solution.problem.arms[path.pulled[0][0]].name]
    assert tree["index"] == path.index.tolist()
    assert f"{path.running_loss[-1]:.4f}" in repr(path)


def test_what_makes_no_path_is_refused() -> None:
    solution, pairs = solved("deployed", 6), solved("several pulls", 8)
    problem = solution.problem
    with refused("invalid_argument", "policy"):
        follow(problem, make_policy(pairs.problem, "deco", solution=pairs), solution=solution)
    with refused("invalid_argument", "seed"):
        follow(problem, "deco", solution=solution, rng=-1)
    with refused("invalid_argument", "truth"):
        follow(problem, "deco", solution=solution, truth=[0.5])
    for history in ([(0, True)] * 8, [(0, True)] * 7, [(0, None)], [(0, 2)], [(3, True)]):
        with refused("invalid_argument", "history"):
            retrace(problem, history, solution=solution)
    with refused("invalid_argument"):
        retrace(problem, [("z", True)], solution=solution)
    with refused("invalid_argument", "policy"):
        retrace(pairs.problem, [(1, True), (1, False)], solution=pairs)


@pytest.mark.parametrize("deploy", [0, 5])
def test_batches_are_followed_and_their_mean_loss_is_the_gap(deploy: int) -> None:
    problem = Problem.uniform(
        arms=3, horizon=3, pulls_per_stage=4, repeat=True, unit=2, terminal=Terminal(deploy=deploy)
    )
    solution = solve(problem)
    policy = make_policy(problem, "greedy")
    episodes = [follow(problem, policy, solution=solution, rng=seed) for seed in range(400)]
    losses = np.array([episode.running_loss[-1] for episode in episodes])
    expected = gap(problem, policy, solution=solution)
    assert abs(losses.mean() - expected.gap) < 4.5 * losses.std() / 20
    first = episodes[0]
    assert [len(arms) for arms in first.pulled] == [4, 4, 4, *[1] * (deploy > 0)]
    assert first.pulls[-1].sum() == 4 * (first.stages - 1)
    pairs = [
        (arm, outcome)
        for arms, outcomes in zip(first.pulled, first.outcomes, strict=True)
        for arm, outcome in zip_longest(arms, outcomes)
    ]
    again = retrace(problem, pairs, solution=solution)
    assert np.array_equal(again.running_loss, first.running_loss)
    assert again.pulled == first.pulled
