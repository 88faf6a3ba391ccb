"""The exact optimum and the optimal policy, against published values and a plain recursion."""

from collections.abc import Callable
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decobandit.joint import (
    count_states,
    joint_sweep,
    optimum,
)
from decobandit.joint import exact_optimum as optimum_module
from decobandit.joint.exact_optimum import Optimum
from decobandit.joint.joint_sweep import count, ranking_of, shapes_at, sweep, sweep_two_arms
from decobandit.policies import OptimalPolicy
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State, States
from decobandit.problem.model import Terminal
from decobandit.support import Progress, silent
from helpers.examples import KINDS, at_stake, heterogeneous, problems, random_prices, random_table
from helpers.oracles import contents, dual, good_chance, rewards, stage_pulls
from helpers.reference import REFERENCE
from helpers.refusals import refused

SMALL = settings(max_examples=40, deadline=None)  # the first example waits for the compiler
SMALL_STATES = 600  # the recursion tells equal arms apart and has many more

Joint = tuple[tuple[int, int], ...]  # (n, g) of every arm
Choose = Callable[[int, Joint], list[tuple[int, ...]]]


# -- the second road: every arm on its own, every set, every outcome ----------------------------


def value_of_sets(problem: Problem, choose: Choose) -> float:
    """Expected reward of the best of the sets that `choose` allows, by memoised recursion."""
    pulls = stage_pulls(problem)

    def pulled(t: int, x: Joint, chosen: tuple[int, ...]) -> float:
        total = 0.0
        for outcomes in product((0, 1), repeat=len(chosen)):
            chance, earned, after = 1.0, 0.0, list(x)
            for a, good in zip(chosen, outcomes, strict=True):
                n, g = x[a]
                p = good_chance(problem.arms[a], n, g)
                chance *= p if good else 1 - p
                earned += rewards(problem, problem.arms[a], t)[1 - good]
                after[a] = n + 1, g + good
            total += chance * (earned + value(t + 1, tuple(after)))
        return total

    @cache
    def value(t: int, x: Joint) -> float:
        if t == len(pulls):
            tables = [arm.terminal for arm in problem.arms]
            return sum(table[n][g] for table, (n, g) in zip(tables, x, strict=True) if table)
        return max(pulled(t, x, chosen) for chosen in choose(t, x))

    return value(0, ((0, 0),) * problem.n_arms)


def plain_optimum(problem: Problem) -> float:
    arms = range(problem.n_arms)
    return value_of_sets(problem, lambda t, x: list(combinations(arms, stage_pulls(problem)[t])))


def state_of(x: Joint) -> State:
    return State.of_counts(good=tuple(g for _, g in x), bad=tuple(n - g for n, g in x))


def reached(problem: Problem) -> list[int]:
    """Number of joint states before each stage, equal arms not told apart, by enumeration."""
    kinds = [contents(arm) for arm in problem.arms]
    names = {kind: str(i) for i, kind in enumerate(dict.fromkeys(kinds))}
    level = {tuple(sorted((names[kind], 0, 0) for kind in kinds))}
    counts = []
    for m in stage_pulls(problem):
        counts.append(len(level))
        level = {
            tuple(sorted([*(x[i] for i in range(len(x)) if i not in chosen), *after]))
            for x in level
            for chosen in combinations(range(len(x)), m)
            for after in product(
                *([(x[i][0], x[i][1] + 1, x[i][2] + g) for g in (0, 1)] for i in chosen)
            )
        }
    return counts


# -- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arms", "horizon", "value"), REFERENCE["optimum"]["values"])
def test_published_values(arms: int, horizon: int, value: float) -> None:
    decimals = max(len(repr(value).partition(".")[2]), 5)  # zeros at the end are not written
    tolerance = max(0.51 * 10.0**-decimals, 1e-11 * horizon)
    found = optimum(Problem.uniform(arms=arms, horizon=horizon))
    assert found.value == pytest.approx(value, abs=tolerance)


@SMALL
@given(problems(max_horizon=4, max_kinds=2))
def test_optimum_is_that_of_a_plain_recursion(problem: Problem) -> None:
    assume(count_states(problem)[0] <= SMALL_STATES)
    rounding = 1e-12 * at_stake(problem)
    assert optimum(problem).value == pytest.approx(plain_optimum(problem), abs=rounding)


@pytest.mark.parametrize("kind", KINDS)
def test_optimum_of_every_kind_of_problem(kind: str) -> None:
    problem = KINDS[kind](4)
    assert optimum(problem).value == pytest.approx(plain_optimum(problem), abs=1e-11)


@pytest.mark.parametrize("deploy", [0.0, 7.5])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("pulls", [1, 2])
def test_grouping_changes_nothing(copies: int, pulls: int, deploy: float) -> None:
    # priors that differ in the last digits make arms that are equal in value, but not in a group
    def problem(apart: float) -> Problem:
        priors = [BetaBernoulli(good=1 + apart * i, bad=2) for i in range(copies)] + [
            BetaBernoulli(good=2, bad=1)
        ]
        arms = tuple(Arm(name=f"arm {i}", prior=prior) for i, prior in enumerate(priors))
        return Problem(
            arms=arms, horizon=5, pulls_per_stage=pulls, terminal=Terminal(deploy=deploy)
        )

    together, split = problem(0.0), problem(1e-14)
    assert (len(together.groups), len(split.groups)) == (2, copies + 1)
    assert optimum(together).value == pytest.approx(optimum(split).value, abs=1e-11)


@given(problems(max_horizon=4), st.integers(0, 2**32 - 1))
@SMALL
def test_optimum_is_below_the_dual_function_at_any_prices(problem: Problem, seed: int) -> None:
    assume(count_states(problem)[0] <= 20_000)
    bound = dual(problem, random_prices(problem, seed))
    assert optimum(problem).value <= bound + 1e-12 * at_stake(problem)


@pytest.mark.parametrize("pulls", [1, 2])
def test_more_arms_than_pulls_are_as_good_as_one_per_pull(pulls: int) -> None:
    horizon = 4 // pulls
    table = random_table(np.random.default_rng(1), horizon)

    def problem(count: int) -> Problem:
        arms = tuple(Arm(name=f"arm {i}", terminal=table) for i in range(count))
        return Problem(arms=arms, horizon=horizon, pulls_per_stage=pulls)

    many, few = optimum(problem(1000)), optimum(problem(4))
    assert many.value == pytest.approx(few.value + 996 * table[0][0], abs=1e-9)
    assert many.states == few.states


# -- different roads through the same states ----------------------------------------------------


def two_arms(horizon: int, *, equal: bool) -> Problem:
    rng = np.random.default_rng(horizon)
    good = rng.normal(size=horizon).round(3).tolist()
    first = Arm(name="a", reward=Reward(good=good, bad=0.2), terminal=random_table(rng, horizon))
    second = first.model_copy(
        update={"name": "b"} if equal else {"name": "b", "prior": BetaBernoulli(good=2, bad=0.3)}
    )
    return Problem(arms=(first, second), horizon=horizon)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("horizon", [1, 2, 3, 8, 35])
def test_dense_two_arms_agree_with_the_general_way(horizon: int, equal: bool) -> None:
    problem = two_arms(horizon, equal=equal)
    general = sweep(problem, 1, silent)
    assert sweep_two_arms(problem, 1, silent) == pytest.approx(general, abs=1e-11)


@pytest.mark.parametrize("equal", [True, False])
def test_threads_that_follow_each_other_change_nothing(
    monkeypatch: pytest.MonkeyPatch, equal: bool
) -> None:
    monkeypatch.setattr(joint_sweep, "SHORT_HORIZON", 0)
    monkeypatch.setattr(joint_sweep, "FRONTS_AT_ONCE", 3)
    problem = two_arms(60, equal=equal)
    one = sweep_two_arms(problem, 1, silent)
    assert [sweep_two_arms(problem, workers, silent) for workers in (2, 3, 5)] == [one] * 3


def test_threads_that_share_a_stage_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_sweep, "SMALL_LEVEL", 10)
    problem = heterogeneous(6)
    values = {optimum(problem, workers=workers).value for workers in (1, 2, 5)}
    assert len(values) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_kept_values_give_the_same_optimum(kind: str) -> None:
    problem = KINDS[kind](5)
    kept = optimum(problem, keep=True)
    assert kept.value == pytest.approx(optimum(problem).value, abs=1e-12)
    assert kept.tables is not None
    worths = kept.tables.worths(0, States.initial(problem, 1))
    assert worths.max() == pytest.approx(kept.value, abs=1e-12)


def test_a_failure_in_a_report_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_sweep, "SHORT_HORIZON", 0)

    def fail(at: Progress) -> None:
        if at.done > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimum(Problem.uniform(arms=2, horizon=100), progress=fail, workers=2)


# -- the optimal policy -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_policy_earns_the_optimum(kind: str) -> None:
    policy = OptimalPolicy(KINDS[kind](4))
    earned = value_of_sets(policy.problem, lambda t, x: [policy.select(t, state_of(x))])
    assert earned == pytest.approx(optimum(policy.problem).value, abs=1e-11)


def test_action_values_by_hand() -> None:
    policy = OptimalPolicy(Problem.uniform(arms=2, horizon=2))
    assert policy.indices(0, State.fresh(2)) == pytest.approx([13 / 12, 13 / 12])
    assert policy.indices(1, State.parse("1/1,0/0")) == pytest.approx([2 / 3, 1 / 2])
    assert policy.indices(1, State.parse("0/0,0/1")) == pytest.approx([1 / 2, 1 / 3])


def test_action_values_contain_the_last_rewards() -> None:
    table = ((0.0,), (5.0, 9.0))
    arms = (Arm(name="a"), Arm(name="b", terminal=table))
    policy = OptimalPolicy(Problem(arms=arms, horizon=1))
    assert policy.indices(0, State.fresh(2)) == pytest.approx([0.5, 0.5 + 7.0])
    assert policy.select(0, State.fresh(2)) == (1,)


def test_ties_go_to_the_least_pulled_arm_then_to_the_first() -> None:
    policy = OptimalPolicy(Problem.uniform(arms=3, horizon=3))
    assert policy.select(0, State.fresh(3)) == (0,)
    assert policy.select(1, State.parse("0/1,0/0,0/0")) == (1,)
    assert policy.select(2, State.parse("1/2,0/0,0/0")) == (1,)  # mean 1/2 each
    sets = OptimalPolicy(Problem.uniform(arms=3, horizon=2, pulls_per_stage=2))
    assert sets.select(0, State.fresh(3)) == (0, 1)


@pytest.mark.parametrize(
    ("stage", "text", "field"),
    [(3, "0/0,0/0", "stage"), (1, "0/0,0/0", "state"), (0, "0/0", "state")],
)
def test_states_that_do_not_fit_are_refused(stage: int, text: str, field: str) -> None:
    policy = OptimalPolicy(Problem.uniform(arms=2, horizon=3))
    with refused("invalid_argument", field):
        policy.select(stage, State.parse(text))


def test_single_arms_have_no_value_where_sets_are_pulled() -> None:
    policy = OptimalPolicy(Problem.uniform(arms=3, horizon=2, pulls_per_stage=2))
    assert policy.indices(0, State.fresh(3)) is None


def test_policy_that_cannot_be_kept_is_refused() -> None:
    with refused("too_large"):
        OptimalPolicy(Problem.uniform(arms=3, horizon=100), limit_bytes=10**9)


# -- sizes --------------------------------------------------------------------------------------


@SMALL
@given(problems(max_horizon=4))
def test_states_are_counted_exactly(problem: Problem) -> None:
    problem = problem.model_copy(update={"pulls_per_stage": 1})
    assume(count_states(problem)[0] <= SMALL_STATES)
    counted = count(problem)
    assert counted.states == reached(problem)
    assert count_states(problem) == (sum(counted.states), max(counted.states))


@pytest.mark.parametrize(
    ("arms", "horizon", "states"),
    [
        (5, 20, "2.4e+05"),
        (15, 20, "8.1e+05"),
        (3, 100, "2.7e+08"),
        (5, 40, "7.7e+07"),
        (10, 30, "7.7e+07"),
        (15, 40, "7.6e+09"),
        (2, 1000, "2.1e+10"),
    ],
)
def test_number_of_states_of_known_sizes(arms: int, horizon: int, states: str) -> None:
    assert f"{count_states(Problem.uniform(arms=arms, horizon=horizon))[0]:.1e}" == states


def test_shapes_hold_as_many_states_as_counted() -> None:
    problem = Problem.uniform(arms=4, horizon=7)
    counted = count(problem)
    shapes = [shapes_at(problem, t) for t in range(problem.stages)]
    assert [int(level.offset[-1]) for level in shapes] == counted.states
    assert [len(level.pulls) for level in shapes] == counted.shapes


def test_insertion_ranks_are_those_of_the_number_system() -> None:
    ranking = ranking_of(Problem.uniform(arms=3, horizon=12))

    def rank(values: tuple[int, ...]) -> int:
        return sum(int(ranking.under[g, i]) for i, g in enumerate(sorted(values), start=1))

    width, start = int(ranking.width[2]), int(ranking.start[2])
    for pair in combinations(range(width), 2):
        for g in range(width):
            assert ranking.insert[start + rank(pair) * width + g] == rank((*pair, g))


def refuse_to_run(*arguments: object, **keywords: object) -> None:
    raise AssertionError("started")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            Problem.uniform(arms=15, horizon=40),
            "exact optimum needs 7.6e9 states and 10 GB (limit 1.0 GB); "
            "use 'deco solve' for a bound or 'deco evaluate' for a policy",
        ),
        (
            Problem.uniform(arms=2, horizon=3000),
            "exact optimum needs 1.7e12 states and 18 GB (limit 1.0 GB); "
            "use 'deco solve' for a bound or 'deco evaluate' for a policy",
        ),
    ],
)
def test_too_large_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, message: str
) -> None:
    for name in ("sweep", "sweep_two_arms"):
        monkeypatch.setattr(optimum_module, name, refuse_to_run)
    with refused("too_large"):
        optimum(problem, limit_bytes=10**9)


@pytest.mark.parametrize(
    "problem",
    [
        Problem.uniform(arms=100_000, horizon=10_000),
        Problem.uniform(arms=100_000, horizon=10_000, pulls_per_stage=50),
        Problem.uniform(arms=1_000, horizon=100, pulls_per_stage=999),
        Problem.uniform(arms=40, horizon=5, pulls_per_stage=20),
        heterogeneous(5_000),
        Problem(
            arms=tuple(
                Arm(name=f"{i}", prior=BetaBernoulli(good=i + 1, bad=1)) for i in range(400)
            ),
            horizon=7_000,
        ),
    ],
    ids=["long and wide", "many pulls", "almost all pulled", "many sets", "long", "many kinds"],
)
def test_hopeless_problems_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    for name in ("sweep", "sweep_two_arms"):
        monkeypatch.setattr(optimum_module, name, refuse_to_run)
    with refused("too_large"):
        optimum(problem)


def test_time_is_a_limit_too() -> None:
    with refused("too_large"):
        optimum(Problem.uniform(arms=2, horizon=2480), limit_bytes=10**12)


# -- what is handed out -------------------------------------------------------------------------


def test_result_is_plain() -> None:
    found = optimum(Problem.uniform(arms=2, horizon=10))
    assert found.to_dict() == {
        "value": found.value,
        "states": 365,
        "seconds": found.seconds,
        "arms": 2,
        "horizon": 10,
    }
    assert repr(found).startswith("Optimum(2 arms, horizon 10: 6.021785714, 365 states, 0.0 MB, ")
    assert isinstance(found, Optimum)
    assert found.tables is None


@pytest.mark.parametrize(("arms", "horizon"), [(1, 1), (2, 1), (2, 30), (2, 160), (3, 30)])
@pytest.mark.parametrize("workers", [1, 2])
def test_progress_reaches_the_end(arms: int, horizon: int, workers: int) -> None:
    seen: list[tuple[int, int | None]] = []
    problem = Problem.uniform(arms=arms, horizon=horizon)
    optimum(problem, progress=lambda at: seen.append((at.done, at.total)), workers=workers)
    assert seen == sorted(set(seen))
    assert seen[-1] == (horizon, horizon)
    assert {total for _, total in seen} == {horizon}


@pytest.mark.parametrize(
    "problem",
    [
        Problem.uniform(arms=4, horizon=12),
        Problem.uniform(arms=6, horizon=4),
        Problem(
            horizon=10,
            arms=[
                *(Arm(name=name, prior=BetaBernoulli(2, 1)) for name in "ab"),
                Arm(name="c", prior=BetaBernoulli(1, 3)),
                *(Arm(name=name) for name in "de"),
            ],
        ),
    ],
    ids=["4 arms", "6 arms", "3 groups"],
)
def test_stages_rewritten_block_by_block_have_the_values_of_stored_ones(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = optimum(problem, keep=True).value
    assert optimum(problem).value == pytest.approx(stored, abs=1e-12)
    monkeypatch.setattr("decobandit.joint.joint_sweep.SMALL_BLOCK", 1)
    assert optimum(problem).value == pytest.approx(stored, abs=1e-12)
    one, two = (sweep(problem, 2, lambda progress: None, unstored=n) for n in (1, 2))
    assert two == pytest.approx(one, abs=1e-12)
