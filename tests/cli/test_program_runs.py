"""A run in a fork of a loaded process, as most tests make it, is a run of the installed program."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.program import Run, deco, deco_installed

SMALL = ("--arms", 3, "--horizon", 5)

# one command line or more for every command; `solve`, `study`, `serve`, `warmup` and others are
# started as installed in tests of their own as well
SHOWN = {
    "version": ("--version",),
    "help": (),
    "help of a command": ("simulate", "--help"),
    "solve": ("solve", *SMALL, "--json"),
    "recommend": ("recommend", *SMALL, "--state", "1/2,0/0,1/1"),
    "evaluate": ("evaluate", *SMALL, "--json"),
    "simulate": ("simulate", *SMALL, "--draws", 20, "--policy", "deco,thompson", "--json"),
    "optimum": ("optimum", *SMALL, "--json"),
    "bound": ("bound", *SMALL, "--draws", 60, "--json"),
    "gap": ("gap", *SMALL),
    "path": ("path", *SMALL, "--out", "path.svg"),
    "market": ("market", *SMALL),
    "index": ("index", *SMALL, "--stage", 2, "--good", 1, "--bad", 0, "--json"),
    "study": ("study", "run", "small.toml"),
    "trial": ("trial", "status", "pilot", "--db", "t.db"),
    "token": ("token", "list", "--db", "t.db", "--json"),
    "an answer of code 1": ("trial", "verify", "--export", "changed.json"),
}
REFUSED = {
    "no such command": ("solv",),
    "no such option": ("solve", "--arm", 3),
    "no such file": ("solve", "missing.toml"),
    "a value": ("reproduce", "all", "--scale", "enormous"),
    "a database": ("serve", "--db", "t.db", "--no-auth", "--host", "0.0.0.0"),
}
STUDY = 'policies = ["greedy"]\ndraws = 20\n[[problems]]\narms = 3\nhorizon = 4\n'


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, a trial, a token and an export that was changed."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "small.toml").write_text(STUDY, encoding="utf-8")
    db = folder / "t.db"
    deco("trial", "new", *SMALL, "--name", "pilot", "--seed", 5, "--db", db)
    deco("trial", "ask", "pilot", "--db", db)
    deco("token", "new", "ann", "--role", "viewer", "--db", db)
    tree = json.loads(deco("trial", "export", "pilot", "--db", db).out)
    tree["events"][1]["body"] = tree["events"][1]["body"].replace("arm-1", "arm-2")
    (folder / "changed.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def without_times(tree: Any) -> Any:
    """Seconds, and what is counted per second, differ from run to run."""
    if isinstance(tree, list):
        return [without_times(each) for each in tree]
    if isinstance(tree, dict):
        return {key: without_times(value) for key, value in tree.items() if "second" not in key}
    return tree


def comparable(run: Run) -> tuple[Any, ...]:
    shown = without_times(json.loads(run.out)) if run.out.startswith("{") else run.out
    return run.code, shown, run.err


def both(
    arguments: tuple[object, ...], prepared: Path, tmp_path: Path, patch: pytest.MonkeyPatch
) -> Run:
    """What both roads say, each in a folder of its own; they also write the same files."""
    runs, written = [], []
    for road in (deco, deco_installed):
        folder = tmp_path / road.__name__
        shutil.copytree(prepared, folder)
        patch.chdir(folder)
        runs.append(road(*arguments))
        written.append(sorted(str(file.relative_to(folder)) for file in folder.rglob("*")))
    assert comparable(runs[0]) == comparable(runs[1])
    assert written[0] == written[1]
    return runs[0]


@pytest.mark.parametrize("arguments", SHOWN.values(), ids=SHOWN)
def test_a_fork_prints_what_the_installed_program_prints(
    arguments: tuple[object, ...], prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = both(arguments, prepared, tmp_path, monkeypatch)
    assert run.code == (1 if "changed.json" in arguments else 0)
    assert run.out != ""


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_a_fork_refuses_as_the_installed_program_does(
    arguments: tuple[object, ...], prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = both(arguments, prepared, tmp_path, monkeypatch)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)


def test_a_run_leaves_nothing_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DECO_DB", "here.db")
    assert deco("trial", "new", *SMALL, "--name", "first").code == 0
    assert (tmp_path / "here.db").exists()
    assert "first" in deco("trial", "list").out
    monkeypatch.delenv("DECO_DB")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    refused = deco("trial", "list")
    assert refused.code == 2
    assert "first" not in refused.out
    assert os.listdir(tmp_path / "below") == []
