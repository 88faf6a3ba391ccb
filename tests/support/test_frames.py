"""Tables as frames of three kinds: what goes in comes out, and every result has its tables."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import (
    Design,
    Problem,
    evaluate,
    follow,
    gap,
    operating_characteristics,
    read_outcomes,
    recommend,
    simulate,
    solve,
)
from decobandit.bounds import compare_exactly
from decobandit.designs import forecast
from decobandit.policies import Context
from decobandit.prices import demand
from decobandit.support import Tabular, csv_of, frame_of, kind_of, read_rows, write_table
from decobandit.trials import create_trial
from helpers.refusals import refused

KINDS = ("pyarrow", "pandas", "polars")
PROBLEM = Problem.uniform(arms=2, horizon=4)
MIXED = {
    "whole": [1, 2, None],
    "number": [0.5, 1, None],  # a whole number among others
    "text": ["a", None, "=1+1"],
    "nothing": [None, None, None],
    "array": np.array([0.1, 0.2, 0.3]),
    "truth": [True, False, True],
}


def cells(data: object) -> list[dict[str, str | None]]:
    return [dict(row) for _, row in read_rows(data).each]


EXPECTED = [  # by hand: text as a CSV file would have it, nothing for None, 1 for 1.0 and True
    {"whole": "1", "number": "0.5", "text": "a", "nothing": "", "array": "0.1", "truth": "1"},
    {"whole": "2", "number": "1", "text": "", "nothing": "", "array": "0.2", "truth": "0"},
    {"whole": "", "number": "", "text": "=1+1", "nothing": "", "array": "0.3", "truth": "1"},
]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_come_back_from_every_kind_of_frame(kind: str) -> None:
    frame = frame_of(MIXED, kind=kind)
    assert kind_of(frame) == kind
    assert type(frame).__module__.startswith(kind)
    assert cells(frame) == EXPECTED


def test_missing_values_of_pandas_are_all_nothing() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": pandas.array([1, pandas.NA], dtype="Int64")})
    frame["y"] = [pandas.NaT, float("nan")]
    assert cells(frame) == [{"x": "1", "y": ""}, {"x": "", "y": ""}]


def test_a_table_without_rows_keeps_its_columns() -> None:
    for kind in KINDS:
        names, found = (each for each in (frame_of({"a": [], "b": []}, kind=kind),) * 2)
        assert read_rows(names).names == ["a", "b"]
        assert cells(found) == []


def test_files_hold_the_same_as_frames(tmp_path: Path) -> None:
    write_table(MIXED, tmp_path / "table.parquet")
    assert cells(tmp_path / "table.parquet") == EXPECTED
    write_table({"p": [0.1 + 0.2, None], "name": ["=1+1", "b"]}, tmp_path / "table.csv")
    assert cells(tmp_path / "table.csv") == [
        {"p": "0.30000000000000004", "name": "'=1+1"},  # exact, and not computed by a spreadsheet
        {"p": "", "name": "b"},
    ]
    assert csv_of({"a": [], "b": []}) == "a,b\n"


def results() -> dict[str, Callable[[], Tabular]]:
    sizes: dict[str, Any] = {"draws": 20, "per_draw": 2}
    design = Design(
        policies=["equal", "greedy"],
        scenarios=[{"name": "null", "truth": [0.5, 0.5]}, {"name": "one", "truth": [0.5, 0.9]}],
    )
    return {
        "simulation": lambda: simulate(PROBLEM, ["greedy", "equal"], keep_episodes=True, **sizes),
        "evaluation": lambda: evaluate(PROBLEM, "greedy", truth=[0.2, 0.4]),
        "comparison": lambda: compare_exactly(Context(PROBLEM), ["greedy"], bound_draws=0),
        "gap": lambda: gap(PROBLEM, "greedy"),
        "episode": lambda: follow(PROBLEM, "greedy"),
        "solution": lambda: solve(PROBLEM),
        "market": lambda: demand(solve(PROBLEM)),
        "design": lambda: operating_characteristics(PROBLEM, design),
        "forecast": lambda: forecast(PROBLEM, ["greedy"]),
        "recommendation": lambda: recommend(PROBLEM, "1/1,0/0", "greedy"),
    }


@pytest.mark.parametrize("name", list(results()))
def test_every_table_of_a_result_is_the_same_in_three_kinds(name: str, tmp_path: Path) -> None:
    found = results()[name]()
    for table, columns in found.tables().items():
        write_table(columns(), tmp_path / "table.parquet")
        kept = read_rows(tmp_path / "table.parquet")
        rows = [dict(row) for _, row in kept.each]
        for kind in KINDS:
            frame = found.to_frame(table, kind=kind)
            assert read_rows(frame).names == kept.names, table
            assert cells(frame) == rows, table
        assert kind_of(found.to_frame(table)) == "pyarrow"
        assert kind_of(found.to_frame(table, kind=frame)) == "polars"


def test_a_decision_is_given_in_the_frame_that_the_outcomes_came_in() -> None:
    for kind in KINDS:
        data = frame_of({"arm": ["arm-2"], "outcome": [1]}, kind=kind)
        decision = recommend(PROBLEM, read_outcomes(PROBLEM, data), "greedy")
        frame = decision.to_frame()
        assert kind_of(frame) == kind
        assert [(row["arm"], row["good"], row["chosen"]) for row in cells(frame)] == [
            ("arm-1", "0", "0"),
            ("arm-2", "1", "1"),
        ]


def test_a_table_that_is_not_there_is_not_listed_and_refused_with_its_reason() -> None:
    found = gap(PROBLEM, "greedy", method="simulated", draws=10)
    assert list(found.tables()) == ["stages"]
    with refused("invalid_argument", "table"):
        found.to_frame("arms")
    kept = {keep: simulate(PROBLEM, "greedy", draws=10, keep_episodes=keep) for keep in (0, 1)}
    assert [list(each.tables()) for each in kept.values()] == [
        ["policies", "stages"],
        ["policies", "stages", "episodes"],
    ]


def test_what_is_refused() -> None:
    found = gap(PROBLEM, "greedy")
    with refused("invalid_argument", "table"):
        found.to_frame("rows")
    with refused("invalid_argument", "kind"):
        found.to_frame(kind="excel")
    with pytest.raises(TypeError, match="list: no data frame; must be one of pandas, polars"):
        found.to_frame(kind=[1])
    with pytest.raises(TypeError, match=r"LazyFrame: no data frame; .*not a lazy one"):
        read_outcomes(PROBLEM, frame_of({"arm": []}, kind="polars").lazy())
    with refused("invalid_argument", "table"):
        simulate(PROBLEM, "greedy", draws=10).to_frame("episodes")


def test_a_missing_package_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError) as caught:
        frame_of({"a": [1]})
    assert str(caught.value).startswith(
        'this table needs pyarrow; install it with: pip install "decobandit[tables]"; or ask for '
    )
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'Parquet needs pyarrow; .*"decobandit\[tables\]"'):
        write_table({"a": [1]}, tmp_path / "a.parquet")


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_text_are_text_before_anything_is_in_them(kind: str, tmp_path: Path) -> None:
    trial = create_trial(PROBLEM, policy="equal", name="pilot", db=tmp_path / "t.db")
    trial.ask()
    text = _type_of(frame_of({"a": ["b", None]}, kind=kind), "a")
    for table, names in {
        "allocations": ("told_at", "subject", "change_reason"),
        "arms": ("seen", "posterior"),
    }.items():
        frame = trial.to_frame(table, kind=kind)
        assert {_type_of(frame, name) for name in names} == {text}


def _type_of(frame: Any, column: str) -> str:
    found = frame[column]
    return str(found.type if hasattr(found, "type") else found.dtype)
