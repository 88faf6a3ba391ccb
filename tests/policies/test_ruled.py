"""Rules around policies: what they leave of a policy's choice, and when trials stop."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Problem,
    Reward,
    State,
    evaluate,
    gap,
    make_policy,
    simulate,
    solve,
)
from decobandit.policies import REASONS, DecoPolicy, RuledPolicy
from decobandit.policies.rules import rules_of
from decobandit.problem import (
    DirichletCategorical,
    GammaPoisson,
    Looks,
    NormalNormal,
    Rules,
    States,
    Stop,
)
from helpers.refusals import refused

THREE = Problem.uniform(arms=3, horizon=30)
LONG = Problem.uniform(arms=3, horizon=54)


def asked(pulls: Any, good: Any, problem: Problem = THREE, **more: np.ndarray) -> States:
    return replace(States.of_counts(problem, pulls, good), **more)


@pytest.mark.parametrize(
    ("chances", "floor", "expected"),
    [
        ([1.0, 0.0, 0.0], 0.2, [0.6, 0.2, 0.2]),
        ([0.9, 0.08, 0.02], 0.1, [0.8, 0.1, 0.1]),
        # the second falls below the floor once the third is raised
        ([0.78, 0.21, 0.01], 0.2, [0.6, 0.2, 0.2]),
        ([0.5, 0.3, 0.2], 0.1, [0.5, 0.3, 0.2]),
        ([0.7, 0.3, 0.0], 1 / 3, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_clipping_raises_small_probabilities_and_scales_the_rest(
    chances: list[float], floor: float, expected: list[float]
) -> None:
    (rule,) = rules_of(Rules(floor=floor, floor_kind="clip"), THREE)
    found = rule.adjust(np.array([chances]), States.initial(THREE, 1))
    assert found[0] == pytest.approx(expected)


def test_burn_in_gives_every_arm_its_pulls_first() -> None:
    ruled = RuledPolicy(make_policy(THREE, "greedy"), Rules(burn_in=3))
    state, rng, order = State.fresh(3), np.random.default_rng(1), []
    for stage in range(9):
        (arm,) = ruled.select(stage, state, rng)
        order.append(arm)
        state = state.after(arm, True)
    rounds = [tuple(order[k : k + 3]) for k in (0, 3, 6)]
    assert [sorted(one) for one in rounds] == [[0, 1, 2]] * 3
    assert len(set(rounds)) > 1  # each in an order of its own


@pytest.mark.parametrize("sizes", [6, 3, [6], [3, 6], [6, 9, 3]])
def test_every_block_has_every_arm_equally_often_in_random_order(sizes: Any) -> None:
    rules = Rules(block=sizes, block_seed=4)
    ruled, rng = RuledPolicy(make_policy(LONG, "equal"), rules), np.random.default_rng(2)
    firsts = set()
    for _ in range(6):
        state, order = State.fresh(3), list[int]()
        for stage in range(54):
            law = ruled.probabilities(stage, States.of(LONG, [state]))[0]
            assert law.sum() == pytest.approx(1.0)
            (arm,) = ruled.select(stage, state, rng)
            assert law[arm] > 0.0
            order.append(arm)
            state = state.after(arm, False)
        firsts.add(tuple(order[:6]))
        end = 0
        while end < 54:  # blocks follow one another, each balanced
            allowed = [sizes] if isinstance(sizes, int) else sizes
            ends = [
                n for n in allowed if sorted(order[end : end + n]) == sorted([0, 1, 2] * (n // 3))
            ]
            assert ends or end + max(allowed) > 54
            end += min(ends, default=54)
    assert len(firsts) > 1


def test_a_block_is_a_random_permutation() -> None:
    # two arms, a block of four: each of the six orders has probability 1/6
    problem = Problem.uniform(arms=2, horizon=4)
    ruled = RuledPolicy(make_policy(problem, "equal"), Rules(block=4))

    def law(state: State, stage: int, p: float) -> dict[tuple[int, ...], float]:
        if stage == 4:
            return {(): p}
        orders: dict[tuple[int, ...], float] = {}
        chances = ruled.probabilities(stage, States.of(problem, [state]))[0].tolist()
        for arm, q in enumerate(chances):
            later = law(state.after(arm, True), stage + 1, p * q) if q > 0.0 else {}
            orders |= {(arm, *rest): total for rest, total in later.items()}
        return orders

    orders = law(State.fresh(2), 0, 1.0)
    assert len(orders) == 6
    assert set(map(sum, orders)) == {2}
    assert list(orders.values()) == pytest.approx([1.0 / 6.0] * 6)


def test_blocks_order_the_burn_in_and_then_the_policy_decides() -> None:
    ruled = RuledPolicy(make_policy(LONG, "greedy"), Rules(block=6, burn_in=2))
    half = asked([[1, 0, 0]], [[0, 0, 0]], pending=np.array([[1, 0, 0]]))
    assert ruled.probabilities(2, half)[0].tolist() == [0.0, 0.5, 0.5]
    after = asked([[2, 2, 2]], [[0, 2, 1]])
    assert ruled.probabilities(6, after)[0].tolist() == [0.0, 1.0, 0.0]


def test_dropped_arms_leave_their_blocks() -> None:
    ruled = RuledPolicy(make_policy(LONG, "equal"), Rules(block=6))
    states = replace(asked([[2, 1, 2]], [[0, 0, 0]]), allowed=np.array([[False, True, True]]))
    assert ruled.probabilities(5, states)[0].tolist() == [0.0, 1.0, 0.0]


def test_blocks_without_equal_allocation_are_refused() -> None:
    with refused("unsupported", "design.block"):
        RuledPolicy(make_policy(LONG, "thompson"), Rules(block=6))
    batch = Problem.uniform(arms=2, horizon=5, pulls_per_stage=4, repeat=True)
    for rules, problem in (
        (Rules(block=4), LONG),
        (Rules(block=6, control="arm-1", control_share=0.4), LONG),
        (Rules(block=4), batch),
    ):
        with refused("invalid_problem", "design.block"):
            rules.check(problem)


def test_pending_pulls_count_for_the_burn_in() -> None:
    ruled = RuledPolicy(make_policy(THREE, "greedy"), Rules(burn_in=1))
    pending = np.array([[1, 0, 0]])
    found = ruled.probabilities(1, asked([[0, 0, 0]], [[0, 0, 0]], pending=pending))
    assert found[0].tolist() == [0.0, 0.5, 0.5]


def test_control_has_its_share_and_the_policy_chooses_among_the_others() -> None:
    rules = Rules(control="arm-1", control_share=0.4, floor=0.1)
    ruled = RuledPolicy(make_policy(THREE, "greedy"), rules)
    # greedy alone would take arm-1
    found = ruled.probabilities(9, asked([[3, 3, 3]], [[3, 2, 1]]))
    assert found[0] == pytest.approx([0.4, 0.5, 0.1])


def test_a_dropped_arm_is_left_out_of_the_choice() -> None:
    ruled = RuledPolicy(make_policy(THREE, "greedy"), Rules(floor=0.1))
    allowed = np.array([[False, True, True]])
    found = ruled.probabilities(9, asked([[3, 3, 3]], [[3, 2, 1]], allowed=allowed))
    assert found[0] == pytest.approx([0.0, 0.9, 0.1])


def test_an_index_is_averaged_over_pending_outcomes_as_trials_do() -> None:
    policy = make_policy(THREE, "bayes-ucb")
    pulls, good, pending = [3, 3, 2], [2, 2, 1], [2, 0, 1]
    found = policy.probabilities(11, asked([pulls], [good], pending=np.array([pending])))[0]
    average = []
    for n, g, k in zip(pulls, good, pending, strict=True):
        ways = [(0, 1.0)]  # good among the pending, drawn one after the other
        for i in range(k):
            p = [(x, w * (1 + g + x) / (2 + n + i)) for x, w in ways]
            ways = [(x + 1, w) for x, w in p] + [
                (x, w - up) for (x, w), (_, up) in zip(ways, p, strict=True)
            ]
        table = policy.stage_index(11)[0]
        m = n + k
        average.append(sum(w * table[m * (m + 1) // 2 + g + x] for x, w in ways))
    assert found.argmax() == int(np.argmax(average))
    assert found.max() == 1.0


def test_looks_stop_and_drop() -> None:
    rules = Rules(
        control="arm-1",
        looks=Looks(first=1),
        stop=Stop(superiority=0.95, inferiority=0.05, futility=0.4),
    )
    ruled = RuledPolicy(make_policy(THREE, "equal"), rules)
    pulls = np.full((4, 3), 10)
    good = np.array([[2, 9, 5], [7, 1, 6], [9, 1, 2], [5, 5, 6]])
    verdict = ruled.look(asked(pulls, good))
    assert [REASONS[code] for code in verdict.reason] == [
        "superiority",
        "futility",
        "inferiority",
        "",
    ]
    assert verdict.declared.tolist()[0] == [False, True, False]
    assert verdict.allowed[1].tolist() == [True, False, True]
    assert verdict.allowed[3].all()


def test_without_control_the_last_arm_left_is_best() -> None:
    rules = Rules(stop=Stop(inferiority=0.2))
    two = Problem.uniform(arms=2, horizon=30)
    ruled = RuledPolicy(make_policy(two, "equal"), rules)
    verdict = ruled.look(asked([[10, 10]], [[9, 2]], two))
    assert REASONS[verdict.reason[0]] == "superiority"
    assert verdict.declared.tolist() == [[True, False]]


def test_batches_keep_floor_and_units() -> None:
    problem = Problem.uniform(arms=3, horizon=5, pulls_per_stage=20, repeat=True, unit=2)
    ruled = RuledPolicy(make_policy(problem, "thompson"), Rules(burn_in=4, floor=0.2))
    first = ruled.allocate_many(0, States.initial(problem, 2))
    assert first.tolist() == [[8, 6, 6]] * 2
    pulls, good = np.full((4000, 3), 10), np.tile([10, 0, 0], (4000, 1))
    given = ruled.allocate_many(2, asked(pulls, good, problem), np.random.default_rng(1))
    assert np.all(given.sum(axis=1) == 20)
    assert np.all(given % 2 == 0)
    assert given.mean(axis=0) == pytest.approx([12.0, 4.0, 4.0], abs=0.2)


def test_every_batch_keeps_its_shares_to_within_one_unit() -> None:
    problem = Problem.uniform(arms=4, horizon=5, pulls_per_stage=35, repeat=True, unit=5)
    rules = Rules(control="arm-1", control_share=0.4, floor=0.1)
    ruled = RuledPolicy(make_policy(problem, "greedy"), rules)
    pulls, good = np.full((3000, 4), 10), np.tile([0, 9, 1, 1], (3000, 1))
    given = ruled.allocate_many(2, asked(pulls, good, problem), np.random.default_rng(5))
    share = np.array([0.4, 0.4, 0.1, 0.1]) * 35
    assert np.abs(given - share).max() < 5
    assert np.all(given.sum(axis=1) == 35)
    # unbiased: a unit of 5 that comes or not has a standard deviation of at most 2.5
    assert given.mean(axis=0) == pytest.approx(share, abs=4 * 2.5 / 3000**0.5)


def test_the_burn_in_of_a_stage_of_different_arms_pulls_those_with_fewest() -> None:
    problem = Problem.uniform(arms=4, horizon=6, pulls_per_stage=2)
    ruled = RuledPolicy(make_policy(problem, "greedy"), Rules(burn_in=2))
    pulls = np.array([[0, 0, 0, 0], [1, 0, 1, 0], [2, 2, 2, 1], [2, 2, 2, 2]])
    good = np.array([[0, 0, 0, 0], [1, 0, 1, 0], [2, 0, 0, 0], [0, 2, 0, 1]])
    given = ruled.allocate_many(3, asked(pulls, good, problem))
    assert given.tolist() == [[1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(floor=0.1), "design.floor: 0.1 is not allowed; must be 0 where a stage pulls"),
        (Rules(control="arm-1", control_share=0.5), "design.control_share: 0.5 is not allowed"),
        (Rules(stop=Stop(inferiority=0.01)), "design.stop.inferiority: 0.01 is not allowed"),
    ],
)
def test_rules_that_make_no_sense_for_different_arms_are_refused(rules: Rules, said: str) -> None:
    problem = Problem.uniform(arms=4, horizon=6, pulls_per_stage=2)
    with pytest.raises(ValueError, match="where a stage pulls several different arms") as refused:
        RuledPolicy(make_policy(problem, "greedy"), rules)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("name", ["greedy", "bayes-ucb", "deco", "thompson-shares", "top-two"])
def test_a_batch_among_some_arms_is_that_of_a_problem_with_these_arms(name: str) -> None:
    # the arm left out would get most: a policy must not be asked first, and cut afterwards
    arms = [
        Arm(name="best", prior=BetaBernoulli(9, 1)),
        Arm(name="a"),
        Arm(name="b", prior=BetaBernoulli(2, 3)),
    ]
    settings: dict[str, Any] = {"horizon": 4, "pulls_per_stage": 12, "repeat": True, "unit": 2}
    whole, part = Problem(arms=arms, **settings), Problem(arms=arms[1:], **settings)
    prices = solve(whole).prices
    policies = (
        [DecoPolicy(problem, prices) for problem in (whole, part)]
        if name == "deco"
        else [make_policy(problem, name) for problem in (whole, part)]
    )
    pulls, good = np.array([[4, 4, 4], [8, 2, 2]]), np.array([[4, 1, 2], [8, 2, 0]])
    allowed = np.tile([False, True, True], (2, 1))
    found = policies[0].probabilities(1, asked(pulls, good, whole, allowed=allowed))
    alone = policies[1].probabilities(1, asked(pulls[:, 1:], good[:, 1:], part))
    if name in ("thompson-shares", "top-two"):  # shares of all arms, scaled up to the rest
        every = policies[0].probabilities(1, asked(pulls, good, whole))[:, 1:]
        alone = every / every.sum(axis=1, keepdims=True)
    assert found[:, 0].tolist() == [0.0, 0.0]
    assert found[:, 1:] == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("rules", [Rules(stop={"superiority": 0.9}), Rules(delay=1)])
def test_rules_that_stop_or_delay_are_not_ignored_where_they_are_not_followed(
    rules: Rules,
) -> None:
    problem = Problem.uniform(arms=2, horizon=4)
    ruled = RuledPolicy(make_policy(problem, "greedy"), rules)
    for value in (evaluate, gap, lambda problem, policy: simulate(problem, [policy], draws=5)):
        with refused("invalid_argument"):
            value(problem, ruled)


# -- one state does not change the answer in another --------------------------------------------


def states_of(problem: Problem, number: int, rng: np.random.Generator) -> States:
    """Random joint states, some with dropped arms and some in the burn-in."""
    arms = len(problem.arms)
    pulls = rng.integers(0, 6, (number, arms))
    known = np.zeros((number, arms, max(group.model.width for group in problem.groups)))
    for k, group in enumerate(problem.group_of_arm):
        kind = problem.groups[group].model
        for e in range(number):
            stats = np.array(kind.initial(), dtype=float)
            theta = kind.sample(stats, rng)
            for _ in range(pulls[e, k]):
                stats = kind.update(stats, np.asarray(kind.sample_outcome(theta, stats, rng)))
            known[e, k, : kind.width] = stats
    allowed = rng.random((number, arms)) < 0.8
    allowed[:, :2] = True
    return States(problem, known, allowed=allowed)


MODELS = {
    "equal": Problem.uniform(arms=3, horizon=30),
    "unequal rewards": Problem(
        arms=[
            Arm(name="a"),
            Arm(name="b", reward=Reward(good=0.4, bad=0.3)),
            Arm(name="c", reward=Reward(good=0, bad=1)),
        ],
        horizon=30,
    ),
    "events": Problem(
        arms=[Arm(name=n, prior=GammaPoisson(2, 1), reward=Reward(factor=-1)) for n in "abc"],
        horizon=30,
    ),
    "classes": Problem(
        arms=[
            Arm(
                name=n,
                prior=DirichletCategorical([1, 1, 1]),
                reward=Reward(values=[0, 1, 9], factor=-1),
            )
            for n in "abc"
        ],
        horizon=30,
    ),
    "kinds": Problem(  # classes beside unbounded outcomes
        arms=[
            Arm(name="a", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 2])),
            Arm(name="b", prior=NormalNormal(1, 1), noise_sd=1),
            Arm(name="c", prior=GammaPoisson(1, 1)),
        ],
        horizon=30,
    ),
}


@pytest.mark.parametrize("control", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_looks_at_a_state_do_not_depend_on_the_other_states(name: str, control: bool) -> None:
    problem = MODELS[name]
    rules = Rules(
        control=problem.arms[0].name if control else None,
        margin=0.3,
        stop=Stop(superiority=0.8, inferiority=0.2, equivalence=0.4),
    )
    ruled = RuledPolicy(make_policy(problem, "equal"), rules)
    some = states_of(problem, 12, np.random.default_rng(2))
    together, found = ruled.look(some), ruled.statistic(some)
    for e in range(12):
        row = some.rows([e])
        alone = ruled.look(row)
        assert ruled.statistic(row)[0] == pytest.approx(found[e], abs=1e-12)
        assert alone.reason[0] == together.reason[e]
        assert np.array_equal(alone.allowed[0], together.allowed[e])
        assert np.array_equal(alone.declared[0], together.declared[e])


@pytest.mark.parametrize("rules", [Rules(burn_in=3), Rules(), Rules(burn_in=2, floor=0.1)])
@pytest.mark.parametrize("policy", ["greedy", "thompson", "deco"])
@pytest.mark.parametrize("name", ["equal", "unequal rewards"])
def test_shares_in_a_state_do_not_depend_on_the_other_states(
    name: str, policy: str, rules: Rules
) -> None:
    problem = MODELS[name]
    ruled = RuledPolicy(make_policy(problem, policy), rules)
    some = states_of(problem, 12, np.random.default_rng(3))
    together = ruled.probabilities(10, some)
    for e in range(12):
        assert ruled.probabilities(10, some.rows(np.array([e])))[0] == pytest.approx(together[e])


def test_a_dropped_arm_in_one_trial_leaves_the_draws_of_the_others_alone() -> None:
    """Thompson sampling draws every unit: the units of an arm are binomial, not within one."""
    units, rows = 20, 4000
    problem = Problem.uniform(arms=3, horizon=4, pulls_per_stage=units, repeat=True)
    ruled = RuledPolicy(make_policy(problem, "thompson"), Rules())
    allowed = np.ones((rows, 3), bool)
    allowed[0, 2] = False
    some = asked(np.full((rows, 3), 10), np.full((rows, 3), 5), problem, allowed=allowed)
    given = ruled.allocate_many(2, some, np.random.default_rng(1))
    assert given[0, 2] == 0
    spread = np.sqrt(units * (1 / 3) * (2 / 3))
    assert given[1:].std(axis=0) == pytest.approx([spread] * 3, rel=0.06)
