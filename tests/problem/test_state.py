"""Observed outcomes: text form, steps, and which states can occur in a problem."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decobandit.problem import Problem, State
from helpers.refusals import refused


@st.composite
def states(draw: st.DrawFn) -> State:
    outcomes = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1))
    return State.of_counts(good=tuple(g for g, _ in outcomes), bad=tuple(b for _, b in outcomes))


@given(states())
def test_text_form_is_read_back(state: State) -> None:
    assert State.parse(str(state)) == state


def test_text_form_is_good_of_pulls() -> None:
    state = State.of_counts(good=(3, 2, 0), bad=(2, 0, 0))
    assert str(state) == "3/5,2/2,0/0"
    assert State.parse(" 3/5, 2 / 2 ,0/0\n") == state
    assert state.pulls == (5, 2, 0)
    assert state.total == 7


@pytest.mark.parametrize(
    "text",
    [
        "5/3,0/0",
        "0/0,1/0",
        "",
        "1/2,",
        *("-1/2", "1/2.0", "3-5", "1/2/3", "\u0661/2", "1/1e400"),
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    with refused("invalid_argument"):
        State.parse(text)


def test_counts_may_be_any_sequence_of_whole_numbers() -> None:
    good: Any = np.array([1, 0])
    bad: Any = [0, 2]
    state = State.of_counts(good=good, bad=bad)
    assert state == State.of_counts(good=(1, 0), bad=(0, 2))
    assert hash(state) == hash(State.of_counts(good=(1, 0), bad=(0, 2)))
    assert {type(count) for count in state.good + state.bad} == {int}


def test_fractional_counts_are_refused() -> None:
    fraction: Any = (0.5,)
    with pytest.raises(TypeError):
        State.of_counts(good=fraction, bad=(0,))


@pytest.mark.parametrize(("good", "bad"), [((1, 2), (1,)), ((), ())])
def test_counts_come_in_pairs(good: tuple[int, ...], bad: tuple[int, ...]) -> None:
    with refused("invalid_argument"):
        State.of_counts(good=good, bad=bad)


def test_fresh_state_has_no_outcomes() -> None:
    assert str(State.fresh(3)) == "0/0,0/0,0/0"
    with refused("invalid_argument"):
        State.fresh(0)


def test_an_outcome_adds_one_to_one_arm() -> None:
    start = State.fresh(2)
    assert str(start.after(1, True)) == "0/0,1/1"
    assert str(start.after(1, True).after(1, False).after(0, False)) == "0/1,1/2"
    assert start == State.fresh(2)


@pytest.mark.parametrize("arm", [-1, 2])
def test_outcome_of_an_absent_arm_is_refused(arm: int) -> None:
    with refused("invalid_argument"):
        State.fresh(2).after(arm, True)


def test_stage_is_the_number_of_completed_stages() -> None:
    state = State.parse("1/2,0/1,1/1")
    assert [state.stage(1), state.stage(2), state.stage(4)] == [4, 2, 1]
    assert State.fresh(3).stage(2) == 0
    with refused("invalid_argument"):
        state.stage(3)
    with refused("invalid_argument"):
        state.stage(0)


@pytest.mark.parametrize("text", ["0/0,0/0,0/0", "1/4,0/0,0/0", "1/2,0/2,0/0", "0/1,1/2,1/1"])
def test_states_that_can_occur_pass(text: str) -> None:
    State.parse(text).check(Problem.uniform(arms=3, horizon=4))


@pytest.mark.parametrize("text", ["1/3,0/3,0/0", "1/2,0/2,2/2", "1/1,0/0,0/0", "1/2,0/1,0/0"])
def test_states_of_several_pulls_per_stage_pass_also_within_a_stage(text: str) -> None:
    State.parse(text).check(Problem.uniform(arms=3, horizon=3, pulls_per_stage=2))


@pytest.mark.parametrize(
    "state",
    [
        State.fresh(2),
        State.parse("1/3,0/3,1/1"),  # 7 pulls of 6
        State.parse("0/0,1/2,0/0"),  # twice in one stage
        State.of_counts(good=(5, 0, 0), bad=(-2, 0, 0)),
        State.of_counts(good=(0, -1, 0), bad=(0, 3, 0)),
        State.of_counts(good=(0, 0, 0), bad=(0, 0, -1)),
    ],
)
def test_states_that_cannot_occur_are_refused(state: State) -> None:
    with refused("invalid_argument"):
        state.check(Problem.uniform(arms=3, horizon=3, pulls_per_stage=2))
