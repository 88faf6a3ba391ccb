"""The model: what is accepted, what is refused, and what algorithms read off it."""

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from decobandit.problem import (
    Arm,
    BetaBernoulli,
    Problem,
    ProblemError,
    Reward,
    Terminal,
    terminal_table,
)
from helpers.refusals import refused

NOT_NUMBERS = [True, "1", None, math.nan, math.inf, -math.inf, 10**400, 1j, [1.0], np.bool_(True)]


def two_arms(**settings: Any) -> Problem:
    fields: dict[str, Any] = {"arms": [Arm(name="a"), Arm(name="b")], "horizon": 3} | settings
    return Problem(**fields)


def only_error(info: pytest.ExceptionInfo[ValidationError]) -> tuple[tuple[int | str, ...], str]:
    (error,) = info.value.errors()
    return error["loc"], error["msg"]


# -- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 0, -1, -0.5])
@pytest.mark.parametrize("field", ["good", "bad"])
def test_prior_counts_are_positive_numbers(field: str, value: object) -> None:
    counts: dict[str, Any] = {"good": 1, "bad": 1, field: value}
    with pytest.raises(ValidationError) as info:
        BetaBernoulli(**counts)
    assert only_error(info) == ((field,), "must be a positive number")


def test_prior_counts_may_be_given_by_position() -> None:
    assert BetaBernoulli(2, 3) == BetaBernoulli(good=2, bad=3) == BetaBernoulli(2, bad=3)
    with pytest.raises(TypeError):
        BetaBernoulli(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        BetaBernoulli(1, 1, 1)  # type: ignore[call-arg]
    arm: Any = {"name": "a", "prior": {"good": 2, "bad": 3}}
    assert two_arms(arms=[arm]).arms[0].prior == BetaBernoulli(2, 3)


@pytest.mark.parametrize(
    "value", [2, 2.0, np.int64(2), np.float32(2), np.float64(2), Fraction(4, 2)]
)
def test_numbers_of_any_kind_are_stored_as_plain_floats(value: Any) -> None:
    stored = BetaBernoulli(good=value, bad=0.5).good
    assert type(stored) is float
    assert stored == 2.0


@pytest.mark.parametrize("value", [value for value in NOT_NUMBERS if value != [1.0]])
def test_reward_is_a_finite_number(value: Any) -> None:
    with pytest.raises(ValidationError) as info:
        Reward(good=value)
    assert only_error(info) == (("good",), "must be a finite number, or a list with one per stage")


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_error_in_a_reward_list_names_its_stage(value: Any) -> None:
    with pytest.raises(ValidationError) as info:
        Reward(bad=(1.0, value))
    assert only_error(info) == (("bad", 1), "must be a finite number")


@pytest.mark.parametrize("value", [[1, -2], (1.0, -2.0), np.array([1, -2])])
def test_reward_per_stage_is_stored_as_tuple_of_floats(value: Any) -> None:
    stored = Reward(good=value).good
    assert stored == (1.0, -2.0)
    assert isinstance(stored, tuple)
    assert {type(number) for number in stored} == {float}


@pytest.mark.parametrize(
    "name", ["a", "x" * 100, "placebo (mg/d)", "Präparat-β", "薬 1", "a=b", "A, 10 mg"]
)
def test_printable_names_are_accepted(name: str) -> None:
    assert Arm(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", " ", " a", "a ", "a\nb", "a\tb", "\x7f", "\ud800", "\u2028", "x" * 101, 3]
)
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(ValidationError, match="printable characters, no blank"):
        Arm(name=name)


@pytest.mark.parametrize("deploy", [*NOT_NUMBERS, -1])
def test_deploy_is_a_number_of_zero_or_more(deploy: Any) -> None:
    with pytest.raises(ValidationError) as info:
        Terminal(deploy=deploy)
    assert only_error(info) == (("deploy",), "must be a finite number, zero or more")


# -- terminal tables ----------------------------------------------------------------------------


def test_terminal_table_has_a_row_per_number_of_pulls() -> None:
    table = terminal_table(2, lambda good, bad: 10 * good + bad)
    assert table == ((0.0,), (1.0, 10.0), (2.0, 11.0, 20.0))
    assert Arm(name="a", terminal=table).terminal == table


def test_terminal_rows_may_be_lists_or_arrays() -> None:
    rows: Any = [[0], np.array([1, 2]), (3.0, 4.0, 5.0)]
    assert Arm(name="a", terminal=rows).terminal == ((0.0,), (1.0, 2.0), (3.0, 4.0, 5.0))


@pytest.mark.parametrize(
    ("table", "place", "message"),
    [
        ([[0], [1]], ("terminal", 1), "must have 2 numbers"),
        ([[0], [1, 2, 3]], ("terminal", 1), "must have 2 numbers"),
        (np.zeros((2, 2)), ("terminal", 0), "must have 1 numbers"),
        ([[0], [1, math.nan]], ("terminal", 1, 1), "must be a finite number"),
        ([[0], [True, 1]], ("terminal", 1, 0), "must be a finite number"),
        ([0, 1], ("terminal", 0), "tuple"),
        (3, ("terminal",), "tuple"),
    ],
)
def test_malformed_terminal_tables_are_refused(table: Any, place: object, message: str) -> None:
    with pytest.raises(ValidationError) as info:
        Arm(name="a", terminal=table)
    first = info.value.errors()[0]
    assert first["loc"] == place
    assert message in first["msg"]


# -- problems -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"arms": []}, ("arms",), "must be 1 to 100000 arms"),
        ({"horizon": 0}, ("horizon",), "must be a whole number from 1 to 100000"),
        ({"horizon": 100_001}, ("horizon",), "must be a whole number from 1 to 100000"),
        ({"horizon": 3.0}, ("horizon",), "must be a whole number from 1 to 100000"),
        ({"horizon": True}, ("horizon",), "must be a whole number from 1 to 100000"),
        ({"horizon": "3"}, ("horizon",), "must be a whole number from 1 to 100000"),
        ({"pulls_per_stage": 0}, ("pulls_per_stage",), "must be a whole number from 1 to 100000"),
        (
            {"pulls_per_stage": 3},
            ("pulls_per_stage",),
            "must be at most the number of arms, 2, unless repeat is true",
        ),
        (
            {"arms": [Arm(name="a"), Arm(name="a")]},
            ("arms", 1, "name"),
            "must differ from the names of all other arms",
        ),
        *(
            (
                {"arms": [Arm(name="drug a"), Arm(name=other)]},
                ("arms", 1, "name"),
                "must differ from the names of all other arms in more than case, blanks or "
                "alphabet; there is 'drug a'",
            )
            for other in ("Drug A", "drug  a", "druga", "drug \u0430", "\uff44rug a", "DRUG \u0391")
        ),
        (
            {"arms": [Arm(name="a", reward=Reward(bad=(1.0, 2.0)))]},
            ("arms", 0, "reward", "bad"),
            "must be one number, or a list of 3: one per stage",
        ),
        (
            {"arms": [Arm(name="a", terminal=terminal_table(4, lambda good, bad: good))]},
            ("arms", 0, "terminal"),
            "must have 4 rows: one for each of 0 to 3 pulls",
        ),
        (
            {
                "arms": [Arm(name="a", terminal=terminal_table(3, lambda good, bad: good))],
                "terminal": Terminal(deploy=5),
            },
            ("terminal", "deploy"),
            "must be 0 when an arm has a terminal table: choose one of the two forms",
        ),
    ],
)
def test_inconsistent_problems_are_refused(
    settings: dict[str, Any], place: object, message: str
) -> None:
    with pytest.raises(ValidationError) as info:
        two_arms(**settings)
    assert only_error(info) == (place, message)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="discount"):
        two_arms(discount=0.9)


def test_more_than_the_largest_number_of_arms_is_refused_before_they_are_made() -> None:
    with pytest.raises(ValidationError, match="from 1 to 100000"):
        Problem.uniform(arms=10**12)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "text for a number of arms": (
        lambda: Problem.uniform(arms="3", horizon=20),  # type: ignore[arg-type]
        'arms: "3" is not allowed; must be a whole number from 1 to 100000',
    ),
    "negative horizon": (
        lambda: Problem.uniform(arms=3, horizon=-1),
        "horizon: -1 is not allowed; must be a whole number from 1 to 100000",
    ),
    "fraction of a pull": (
        lambda: Problem.uniform(pulls_per_stage=0.5),  # type: ignore[arg-type]
        "pulls_per_stage: 0.5 is not allowed; must be a whole number from 1 to 100000",
    ),
    "more pulls than arms": (
        lambda: Problem.uniform(arms=2, pulls_per_stage=3),
        "pulls_per_stage: 3 is not allowed; must be at most the number of arms, 2, unless "
        "repeat is true",
    ),
    "pair for a prior": (
        lambda: Problem.uniform(prior=(1, 1)),  # type: ignore[arg-type]
        "prior: a list of 2 is not allowed; must be of class BetaBernoulli",
    ),
    "zero weight": (
        lambda: BetaBernoulli(0, 1),
        "good: 0 is not allowed; must be a positive number",
    ),
    "name that is none": (
        lambda: Arm(name=3),  # type: ignore[arg-type]
        "name: 3 is not allowed; must be 1 to 100 printable characters, no blank at either end",
    ),
    "number of arms for arms": (
        lambda: Problem(arms=3, horizon=2),  # type: ignore[arg-type]
        "arms: 3 is not allowed; must be a list",
    ),
    "names for arms": (
        lambda: Problem(arms=["a"], horizon=2),  # type: ignore[arg-type, list-item]
        'arms[0]: "a" is not allowed; must be of class Arm',
    ),
    "misspelt field": (
        lambda: Problem(arm=(Arm(name="a"),), horizon=2),  # type: ignore[call-arg]
        "arm: unknown key; allowed: horizon, pulls_per_stage, repeat, unit, arms, terminal, "
        "budget, resources, segments, random_horizon "
        "(and 1 more)",
    ),
    "changed copy": (
        lambda: two_arms().model_copy(update={"horizon": 0}),
        "horizon: 0 is not allowed; must be a whole number from 1 to 100000",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_refused_in_one_line_that_names_field_value_and_rule(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(ProblemError) as info:
        make()
    assert str(info.value) == message
    assert isinstance(info.value, ValueError)
    sent = pickle.loads(pickle.dumps(info.value))  # as from a worker process
    assert isinstance(sent, ProblemError)
    assert str(sent) == message


def test_problems_are_frozen() -> None:
    problem = Problem.uniform()
    with pytest.raises(ValidationError):
        problem.horizon = 3
    with pytest.raises(FrozenInstanceError):
        problem.groups[0].alpha = 3.0  # type: ignore[misc]
    for array in (problem.pulls, problem.group_of_arm, problem.groups[0].reward_good):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3


def test_uniform_problem_is_the_one_written_out() -> None:
    arms = tuple(Arm(name=f"arm-{i}", prior=BetaBernoulli(good=2, bad=3)) for i in (1, 2, 3))
    written = Problem(arms=arms, horizon=7, pulls_per_stage=2)
    made = Problem.uniform(arms=3, horizon=7, prior=BetaBernoulli(good=2, bad=3), pulls_per_stage=2)
    assert made == written
    assert hash(made) == hash(written)
    default = Problem.uniform()
    assert (default.n_arms, default.horizon, default.pulls_per_stage) == (5, 20, 1)


def test_deploying_for_nothing_is_no_deployment() -> None:
    assert two_arms(terminal=Terminal(deploy=0)) == two_arms()
    assert two_arms(terminal=Terminal()).terminal is None


def test_deploying_for_nothing_goes_with_terminal_tables() -> None:
    arm = Arm(name="a", terminal=terminal_table(3, lambda good, bad: good))
    assert two_arms(arms=[arm], terminal=Terminal(deploy=0)).stages == 3


def test_cached_groups_do_not_affect_equality_hash_or_pickles() -> None:
    used, other, fresh = two_arms(), two_arms(), two_arms()
    assert used.groups is used.groups
    assert used.groups is not other.groups
    assert used == other == fresh
    assert hash(used) == hash(fresh)
    assert pickle.loads(pickle.dumps(used)) == fresh
    assert (repr(used), used.model_dump()) == (repr(fresh), fresh.model_dump())


def test_changed_copy_is_checked_and_grouped_anew() -> None:
    problem = two_arms()
    assert problem.groups[0].reward_good.shape == (3,)
    longer = problem.model_copy(update={"horizon": 5})
    assert longer == two_arms(horizon=5)
    assert longer.groups[0].reward_good.shape == (5,)
    with pytest.raises(ValidationError, match="must be a whole number"):
        problem.model_copy(update={"horizon": 0})


# -- stages and groups --------------------------------------------------------------------------


def test_without_deployment_stages_are_the_horizon() -> None:
    problem = two_arms(pulls_per_stage=2)
    assert problem.stages == 3
    assert problem.pulls.dtype == np.float64
    assert problem.pulls.tolist() == [2.0, 2.0, 2.0]


def test_deployment_is_one_more_stage_with_one_pull() -> None:
    arms = [Arm(name="a", reward=Reward(good=(1.0, 2.0, 3.0), bad=-1)), Arm(name="b")]
    problem = two_arms(arms=arms, pulls_per_stage=2, terminal=Terminal(deploy=200))
    assert problem.stages == 4
    assert problem.pulls.tolist() == [2.0, 2.0, 2.0, 1.0]
    first, second = problem.groups
    assert first.reward_good.tolist() == [1.0, 2.0, 3.0, 200.0]
    assert first.reward_bad.tolist() == [-1.0, -1.0, -1.0, 0.0]
    assert second.reward_good.tolist() == [1.0, 1.0, 1.0, 200.0]
    assert second.reward_bad.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_exchangeable_arms_are_grouped_in_order_of_first_appearance() -> None:
    strong = BetaBernoulli(good=3, bad=1)
    priors = [
        BetaBernoulli(good=1, bad=1),
        strong,
        BetaBernoulli(good=1, bad=1),
        strong,
        BetaBernoulli(good=1, bad=3),
    ]
    arms = tuple(Arm(name=f"x{i}", prior=prior) for i, prior in enumerate(priors))
    problem = Problem(arms=arms, horizon=2)
    assert [group.members for group in problem.groups] == [(0, 2), (1, 3), (4,)]
    assert [group.count for group in problem.groups] == [2, 2, 1]
    assert [(group.alpha, group.beta) for group in problem.groups] == [(1, 1), (3, 1), (1, 3)]
    assert problem.group_of_arm.tolist() == [0, 1, 0, 1, 2]


def test_constant_reward_and_equal_list_are_exchangeable() -> None:
    rewards = [Reward(), Reward(good=(1.0,) * 3), Reward(bad=(-0.0,) * 3), Reward(bad=-0.0)]
    arms = tuple(Arm(name=f"x{i}", reward=reward) for i, reward in enumerate(rewards))
    assert Problem(arms=arms, horizon=3).group_of_arm.tolist() == [0, 0, 0, 0]


def test_good_and_bad_rewards_are_not_confused() -> None:
    rewards = [Reward(good=1, bad=0), Reward(good=0, bad=1)]
    arms = tuple(Arm(name=f"x{i}", reward=reward) for i, reward in enumerate(rewards))
    assert len(Problem(arms=arms, horizon=3).groups) == 2


def test_terminal_table_is_flat_with_row_n_at_its_triangular_number() -> None:
    table = terminal_table(3, lambda good, bad: 10 * good + bad)
    arms = [Arm(name="a", terminal=table), Arm(name="b"), Arm(name="c", terminal=table)]
    problem = two_arms(arms=arms)
    assert problem.group_of_arm.tolist() == [0, 1, 0]
    flat = problem.groups[0].terminal
    assert flat is not None
    assert problem.groups[1].terminal is None
    assert flat.shape == (10,)
    for n in range(4):
        for good in range(n + 1):
            assert flat[n * (n + 1) // 2 + good] == 10 * good + (n - good)


def effective(arm: Arm, horizon: int) -> tuple[object, ...]:
    """What makes arms exchangeable, spelt out."""
    good, bad = (
        value if isinstance(value, tuple) else (value,) * horizon
        for value in (arm.reward.good, arm.reward.bad)
    )
    return arm.beta.good, arm.beta.bad, good, bad, arm.terminal


few = st.sampled_from([0.0, 1.0])
priors = st.builds(BetaBernoulli, good=st.sampled_from([1, 2]), bad=st.just(1))
rewards = st.builds(Reward, good=few | st.tuples(few, few), bad=few | st.tuples(few, few))
tables = st.none() | st.builds(lambda x: terminal_table(2, lambda good, bad: good * x), few)


@given(st.lists(st.tuples(priors, rewards, tables), min_size=1, max_size=12))
def test_arms_share_a_group_exactly_when_exchangeable(contents: list[Any]) -> None:
    arms = tuple(
        Arm(name=f"x{i}", prior=prior, reward=reward, terminal=terminal)
        for i, (prior, reward, terminal) in enumerate(contents)
    )
    problem = Problem(arms=arms, horizon=2)
    group = problem.group_of_arm
    for i, j in itertools.combinations(range(len(arms)), 2):
        assert (group[i] == group[j]) == (effective(arms[i], 2) == effective(arms[j], 2))
    members = sorted(position for group in problem.groups for position in group.members)
    assert members == list(range(len(arms)))
    firsts = [group.members[0] for group in problem.groups]
    assert firsts == sorted(firsts)


def test_many_equal_arms_are_one_group_that_shares_one_array() -> None:
    problem = Problem.uniform(arms=100_000, horizon=10_000)
    (group,) = problem.groups
    assert group.count == 100_000
    different = Problem(
        arms=tuple(Arm(name=f"x{i}", prior=BetaBernoulli(good=i + 1, bad=1)) for i in range(1000)),
        horizon=10_000,
    )
    assert len({id(group.reward_good) for group in different.groups}) == 1


def test_a_prior_weight_too_small_to_divide_by_is_refused() -> None:
    assert BetaBernoulli(1e-12, 1).good == 1e-12
    with refused("invalid_problem", "bad"):
        BetaBernoulli(1, 1e-300)
