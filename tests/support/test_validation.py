"""From a validation error to one line."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from decobandit.support import Place, dotted, one_line, place_of, refuse


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Leg(Strict):
    length: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Chair(Strict):
    legs: list[Leg]
    back: Leg | None = None
    colour: Literal["red", "blue"] = "red"
    seats: int = 1


def line(tree: object, **how: Any) -> str:
    with pytest.raises(ValidationError) as info:
        Chair.model_validate(tree)
    return one_line(info.value, Chair, **how)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (3, "3 is not allowed; must be a table"),
        ({}, "legs: required key is missing"),
        ({"legs": {}}, "legs: a table is not allowed; must be a list"),
        ({"legs": [{}]}, "legs[0].length: required key is missing"),
        (
            {"legs": [{"length": 1.0}, {"length": -1.0}]},
            "legs[1].length: -1.0 is not allowed; must be greater than 0",
        ),
        ({"legs": [], "seats": "x"}, 'seats: "x" is not allowed; must be a valid integer'),
        ({"legs": [], "colour": "b"}, "colour: \"b\" is not allowed; must be 'red' or 'blue'"),
        ({"legs": [], "arms": 1}, "arms: unknown key; allowed: legs, back, colour, seats"),
        ({"legs": [{"size": 1}]}, "legs[0].size: unknown key; allowed: length (and 1 more)"),
        (
            {"legs": [], "back": {"length": 1.0, "odd key": 1}},
            'back."odd key": unknown key; allowed: length',
        ),
        ({"seats": "x"}, "legs: required key is missing (and 1 more)"),
    ],
)
def test_line_says_where_what_was_found_and_what_is_allowed(tree: object, said: str) -> None:
    assert line(tree) == said


def test_places_are_named_by_whoever_reads_the_input() -> None:
    tree = {"legs": [{"length": -1.0}]}
    assert line(tree, where=dotted).startswith("legs.0.length: -1.0")
    assert line(tree, where=lambda place: f"Leg {int(place[1]) + 1}").startswith("Leg 1: -1.0")


def test_value_is_left_out_on_request() -> None:
    assert line({"legs": [], "seats": "<script>"}, show_value=False) == (
        "seats: must be a valid integer"
    )


def test_allowed_keys_are_left_out_where_the_model_is_not_known() -> None:
    with pytest.raises(ValidationError) as info:
        Chair.model_validate({"legs": [], "arms": 1})
    assert one_line(info.value.errors()) == "arms: unknown key"


def test_rules_are_told_as_they_are_written() -> None:
    with pytest.raises(ValidationError) as info:
        refuse("must be {plain}", found=[1, 2], at=("a", 0))
    assert one_line(info.value) == "a[0]: a list of 2 is not allowed; must be {plain}"


@pytest.mark.parametrize(
    ("place", "text"),
    [((), ""), (("a", 1, 2, "b-c"), "a[1][2].b-c"), ((0, "x y"), '[0]."x y"'), (("",), '""')],
)
def test_place_reads_like_a_path(place: Place, text: str) -> None:
    assert place_of(place) == text
