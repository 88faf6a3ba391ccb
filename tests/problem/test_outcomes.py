"""Outcomes from files and data frames: what is counted, and what is refused with its line."""

from pathlib import Path

import pytest

from decobandit.problem import (
    Arm,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    ProblemError,
    Reward,
    State,
    read_outcomes,
)
from decobandit.support import frame_of, write_table
from helpers.refusals import refused

PROBLEM = Problem(arms=tuple(Arm(name=name) for name in ("A", "new drug", "Ä")), horizon=9)


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    file = path / "outcomes.csv"
    file.write_bytes(text.encode(encoding))
    return file


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("arm,outcome\n", "0/0,0/0,0/0"),
        ("arm,outcome\nA,good\nA,bad\nÄ,bad\n", "1/2,0/0,0/1"),
        ("arm,outcome\nA,1\nA,0\nA,1", "2/3,0/0,0/0"),
        ("outcome,arm\ngood,new drug\n", "0/0,1/1,0/0"),
        ("day,arm,outcome,who\n1,A,good,x\n2,Ä,good,y\n", "1/1,0/0,1/1"),
        ("arm,outcome\n  A , GOOD \n", "1/1,0/0,0/0"),
        ('arm,outcome\n"new drug","bad"\n', "0/0,0/1,0/0"),
        ("arm,outcome\r\nA,good\r\n\r\nA,bad\r\n", "1/2,0/0,0/0"),
    ],
)
def test_outcomes_are_counted_per_arm(tmp_path: Path, text: str, state: str) -> None:
    for encoding in ("utf-8", "utf-8-sig"):  # spreadsheets begin files with a mark
        found = read_outcomes(PROBLEM, written(tmp_path, text, encoding))
        assert found == State.parse(state)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'arm'"),
        ("A,good\n", "no column 'arm'"),
        ("arm\nA\n", "no column 'outcome'"),
        (
            "arm;outcome\nA;good\n",
            "no column 'arm'; needs arm and outcome, or arm, good and pulls; "
            "there are 'arm;outcome'",
        ),
        ("arm,outcome\nA,good\nB,good\n", "line 3: no arm is called 'B'; arms: A, new drug, Ä"),
        ("arm,outcome\n,good\n", "line 2: no arm is called ''"),
        ("arm,outcome\na,good\n", "line 2: no arm is called 'a'"),
        ("arm,outcome\nA,better\n", 'line 2: outcome "better"; must be good, bad, 1 or 0'),
        ("arm,outcome\nA\n", 'line 2: outcome ""'),
        ("arm,outcome\nA,2\n", 'line 2: outcome "2"'),
        ("arm,outcome\nA,1.0\n", 'line 2: outcome "1.0"'),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ProblemError) as info:
        read_outcomes(PROBLEM, file)
    assert str(info.value).startswith(f"{file}: {message}")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with refused("invalid_problem"):
        read_outcomes(PROBLEM, tmp_path / "none.csv")
    with refused("invalid_problem"):
        read_outcomes(PROBLEM, tmp_path)
    with refused("invalid_problem"):
        read_outcomes(PROBLEM, written(tmp_path, "arm,outcome\nÄ,good\n", "latin-1"))


def test_many_arms_are_not_all_listed(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=100, horizon=2)
    with pytest.raises(ProblemError) as info:
        read_outcomes(problem, written(tmp_path, "arm,outcome\narm-101,good\n"))
    assert str(info.value).endswith("arm-7, arm-8, ...")


# -- data frames ----------------------------------------------------------------------------------

OTHERS = Problem(
    arms=(
        Arm(name="bought", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 5])),
        Arm(name="minutes", prior=NormalNormal(3, 1), noise_sd=2),
        Arm(name="clicks", prior=GammaPoisson(2, 1)),
    ),
    horizon=9,
)
OTHER_ROWS = {
    "arm": ["bought", "bought", "minutes", "minutes", "clicks"],
    "outcome": [2, 0, 2.5, -1.0, 4],
}


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars", "csv", "parquet"])
def test_frames_and_files_of_any_kind_are_counted_alike(kind: str, tmp_path: Path) -> None:
    def data(columns: dict[str, list[object]]) -> object:
        if kind in ("csv", "parquet"):
            write_table(columns, tmp_path / f"table.{kind}")
            return tmp_path / f"table.{kind}"
        return frame_of(columns, kind=kind)

    rows = data({"arm": ["A", "A", "Ä"], "outcome": [1, 0, 1]})
    assert read_outcomes(PROBLEM, rows) == State.parse("1/2,0/0,1/1")
    words = data({"arm": ["A", "A", "Ä"], "outcome": ["good", "bad", "good"]})
    assert read_outcomes(PROBLEM, words) == State.parse("1/2,0/0,1/1")
    counts = data({"drug": ["A", "new drug", "A"], "cured": [1, 0, 1], "treated": [2, 1, 1]})
    found = read_outcomes(
        PROBLEM, counts, arm_column="drug", good_column="cured", pulls_column="treated"
    )
    assert found == State.parse("2/3,0/1,0/0")
    assert str(read_outcomes(OTHERS, data(OTHER_ROWS))) == "1+0+1,1.5/2,4/1"


def test_bad_rows_of_frames_are_refused_with_their_row() -> None:
    for columns, message in (
        ({"arm": ["A", "B"], "outcome": [1, 0]}, "data: row 2: no arm is called 'B'; arms: A"),
        ({"arm": ["A"], "outcome": [0.5]}, 'data: row 1: outcome "0.5"; must be good, bad, 1 or 0'),
        ({"arm": ["A"], "outcome": [None]}, 'data: row 1: outcome ""'),
        ({"who": ["A"], "outcome": [1]}, "data: no column 'arm'; needs arm and outcome, or arm"),
        ({"arm": ["A"], "good": [3], "pulls": [2]}, "data: row 1: good 3; must be at most pulls"),
    ):
        with pytest.raises(ProblemError) as info:
            read_outcomes(PROBLEM, frame_of(columns, kind="pandas"))
        assert str(info.value).startswith(message)


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("arm,outcome\n")
    with refused("invalid_problem"):
        read_outcomes(PROBLEM, tmp_path / "x.parquet")
    with refused("invalid_problem"):
        read_outcomes(PROBLEM, tmp_path / "y.parquet")
