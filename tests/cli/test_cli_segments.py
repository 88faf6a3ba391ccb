"""Segments on the command line: tables, JSON, one segment alone, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.program import deco

FILE = """
horizon = 12
[[segments]]
name = "EU"
share = 0.3
[[segments]]
name = "US"
share = 0.7
[[arms]]
name = "old"
prior = { good = 30, bad = 20 }
[[arms]]
name = "new"
priors = { US = { good = 2, bad = 1 } }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["solve"],
        ["bound", "--draws", "20"],
        ["evaluate", "--policy", "deco,equal"],
        ["simulate", "--policy", "deco,equal", "--draws", "20"],
        ["gap", "--policy", "deco"],
        ["optimum"],
    ],
)
def test_every_command_has_segments_and_all(file: Path, command: list[str]) -> None:
    tree = deco(*command, file, "--json").json
    assert [(part["name"], part["share"]) for part in tree["segments"]] == [
        ("EU", 0.3),
        ("US", 0.7),
    ]
    keys = ["value", "own_clock_value"] if command == ["optimum"] else ["upper_bound"]
    for key in keys:
        assert tree[key] == pytest.approx(sum(part[key] for part in tree["segments"]))
    if "upper_bound" in tree:
        assert tree["own_clock_bound"] <= tree["upper_bound"]
    run = deco(*command, file)
    assert (run.code, run.err) == (0, "")
    rows = [line.split("│")[1].split()[0] for line in run.out.splitlines() if line.startswith("│")]
    assert list(dict.fromkeys(rows)) == ["EU", "US", "all"]


def test_one_segment_alone(file: Path) -> None:
    tree = deco("solve", file, "--json").json
    alone = deco("solve", file, "--segment", "US", "--json").json
    assert alone["upper_bound"] == tree["segments"][1]["own_clock_bound"]
    said = deco("recommend", file, "--segment", "US", "--state", "0/0,0/0", "--json").json
    assert said["arms"][1]["posterior_good"] == 2.0
    assert deco("index", file, "--segment", "EU", "--arm", "new", "--json").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recommend", "--state", "0/0,0/0"], "--segment NAME, of EU, US"),
        (["path"], "--segment NAME, of EU, US"),
        (["market"], "--segment NAME, of EU, US"),
        (["index", "--arm", "new"], "--segment NAME, of EU, US"),
        (["solve", "--segment", "Asia"], "must be one of EU, US"),
        (["solve", "--out", "x.json"], "--out: is for one segment; add --segment NAME"),
        (["simulate", "--out", "x.png"], "--out: is for one segment; add --segment NAME"),
        (["gap", "--out", "x.png"], "--out: is for one segment; add --segment NAME"),
        (["simulate", "--true-horizon", "9"], "true_horizon: belongs to one problem"),
    ],
)
def test_refusals(file: Path, arguments: list[str], words: str) -> None:
    run = deco(arguments[0], file, *arguments[1:])
    assert run.code == 2
    assert words in run.err
    assert "Traceback" not in run.err


def test_segments_need_a_file() -> None:
    run = deco("solve", "--arms", 2, "--horizon", 5, "--segment", "EU")
    assert run.code == 2
    assert "--segment: segments are those of a problem file" in run.err
