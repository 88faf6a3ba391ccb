"""Files appear whole or not at all."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from decobandit.support import files, write_table, write_whole
from helpers.program import deco

DESIGN = """
horizon = 12
[[arms]]
name = "old"
[[arms]]
name = "new"
[design]
policies = ["equal", "greedy"]
control = "old"
[[design.scenarios]]
name = "none"
truth = [0.3, 0.3]
[[design.scenarios]]
name = "50% more"
truth = [0.1, 0.9]
"""
SRC = Path(__file__).parents[2] / "src" / "decobandit"


def test_text_and_bytes_are_written_and_nothing_is_left_over(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "grüße\n")
    write_whole(str(tmp_path / "b"), b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == "grüße\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    write_whole(file, "old")

    def fail(number: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "a", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name != "posix", reason="pipes with names are POSIX's")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "content")
    reader.join(240)
    assert read == ["content"]
    assert pipe.is_fifo()


def test_result_files_are_written_in_one_place() -> None:
    ways = ("write_text(", "write_bytes(", "os.replace(", ".partial")
    sources = {
        path: path.read_text(encoding="utf-8").replace("formatter.write_text(", "")
        for path in SRC.rglob("*.py")
    }
    found = {path.name for path, text in sources.items() if any(way in text for way in ways)}
    # a backup is a copy that SQLite makes, and moved into place when it was checked
    assert found == {"files.py", "verification.py"}


def test_a_latex_table_has_all_cells_and_escapes_words(tmp_path: Path) -> None:
    file = tmp_path / "table.tex"
    columns = {"policy": ["a_b", "50%"], "value": np.array([0.25, 1 / 3]), "error": [None, 2]}
    write_table(columns, file)
    assert file.read_text(encoding="utf-8").splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"policy & value & error \\",
        r"\midrule",
        r"a\_b & 0.25 & -- \\",
        r"50\% & 0.333333 & 2 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def latex_cells(file: Path) -> list[dict[str, str]]:
    """The rows of a LaTeX table by its titles."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(r"\begin{tabular}")
    assert lines[-1] == r"\end{tabular}"
    titles, *rows = [
        line.removesuffix(r" \\").replace(r"\_", "_").split(" & ") for line in lines if "&" in line
    ]
    return [dict(zip(titles, row, strict=True)) for row in rows]


@pytest.mark.parametrize("command", ["evaluate", "gap"])
def test_numbers_of_policies_are_those_of_json(tmp_path: Path, command: str) -> None:
    file = tmp_path / "table.tex"
    words = ["--arms", 2, "--horizon", 5, "--policy", "equal", "--policy", "greedy", "--json"]
    tree = deco(command, *words, "--out", file).json
    results = tree["policies" if command == "evaluate" else "results"]
    rows = latex_cells(file)
    assert [row["policy"] for row in rows] == ["equal", "greedy"]
    for row, result in zip(rows, results, strict=True):
        assert row["value"] == f"{result['value']:.6g}"
    if command == "gap":
        assert [row["congestion"] for row in rows] == [f"{x['congestion']:.6g}" for x in results]
        assert "unspent" not in rows[0]  # nothing to spend


def test_bounds_are_written_as_latex(tmp_path: Path) -> None:
    file = tmp_path / "table.tex"
    words = ["--arms", 2, "--horizon", 4, "--draws", 20, "--json"]
    tree = deco("bound", *words, "--out", file).json
    rows = latex_cells(file)
    assert float(rows[0]["value"]) == pytest.approx(tree["best_bound"], rel=1e-5)
    assert {"kind", "meaning"} <= rows[0].keys()
    wrong = deco("bound", *words, "--out", tmp_path / "table.csv")
    assert wrong.code == 2
    assert "must end in .tex" in wrong.err


def test_designs_and_sample_sizes_are_written_as_latex(tmp_path: Path) -> None:
    problem, file = tmp_path / "problem.toml", tmp_path / "table.tex"
    problem.write_text(DESIGN, encoding="utf-8")
    scenarios = deco("design", problem, "--json", "--out", file).json["scenarios"]
    rows = latex_cells(file)
    assert [(row["scenario"], row["policy"]) for row in rows] == [
        (scenario.replace("%", r"\%"), policy)
        for scenario in ("none", "50% more")
        for policy in ("equal", "greedy")
    ]
    expected = [f"{x['reject']:.6g}" for scenario in scenarios for x in scenario["policies"]]
    assert [row["reject"] for row in rows] == expected
    assert rows[0]["reject_best"] == "--"
    words = ["--power", 0.2, "--alpha", 0.2, "--policy", "equal", "--json", "--out", file]
    tried = deco("design", problem, *words).json["tried"]
    assert [row["horizon"] for row in latex_cells(file)] == [str(one["horizon"]) for one in tried]


def test_the_program_writes_simulated_policies_as_latex(tmp_path: Path) -> None:
    file = tmp_path / "table.tex"
    words = ["--arms", 2, "--horizon", 5, "--draws", 20, "--policy", "equal", "--policy", "greedy"]
    assert deco("simulate", *words, "--out", file).code == 0
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [line.split(" & ")[0] for line in lines[4:6]] == ["equal", "greedy"]
