"""Outcomes from a CSV file: what is counted, and what is refused with its line."""

from pathlib import Path

import pytest

from decobandit.problem import Arm, Problem, ProblemError, State, read_outcomes

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
        ("arm;outcome\nA;good\n", "no column 'arm'"),
        ("arm,outcome\nA,good\nB,good\n", "line 3: no arm is called 'B'; arms: A, new drug, Ä"),
        ("arm,outcome\n,good\n", "line 2: no arm is called ''"),
        ("arm,outcome\na,good\n", "line 2: no arm is called 'a'"),
        ("arm,outcome\nA,better\n", "line 2: outcome 'better'; must be good, bad, 1 or 0"),
        ("arm,outcome\nA\n", "line 2: outcome ''"),
        ("arm,outcome\nA,2\n", "line 2: outcome '2'"),
        ("arm,outcome\nA,1.0\n", "line 2: outcome '1.0'"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ProblemError) as info:
        read_outcomes(PROBLEM, file)
    assert str(info.value).startswith(f"{file}: {message}")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no such file"):
        read_outcomes(PROBLEM, tmp_path / "none.csv")
    with pytest.raises(ProblemError, match="cannot be read"):
        read_outcomes(PROBLEM, tmp_path)
    with pytest.raises(ProblemError, match="not UTF-8 text at byte"):
        read_outcomes(PROBLEM, written(tmp_path, "arm,outcome\nÄ,good\n", "latin-1"))


def test_many_arms_are_not_all_listed(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=100, horizon=2)
    with pytest.raises(ProblemError) as info:
        read_outcomes(problem, written(tmp_path, "arm,outcome\narm-101,good\n"))
    assert str(info.value).endswith("arm-7, arm-8, ...")
