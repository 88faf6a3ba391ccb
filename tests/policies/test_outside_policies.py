"""Policies that are not of this package, by place and by entry point, wherever a name is taken."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decobandit import (
    Problem,
    allow_policy,
    evaluate,
    load_design,
    make_policy,
    operating_characteristics,
)
from decobandit.policies import policy_class, policy_names
from decobandit.studies import load_study
from decobandit.trials import open_store, open_trial, replay_export, verify_export
from helpers.program import deco, deco_installed
from helpers.refusals import refused

# pulls the arms in turn: its value is the prior mean, whatever it sees
SOURCE = """
from decobandit import Policy


class Turns(Policy):
    name = "turns"

    def __init__(self, problem):
        self.problem = problem

    def select(self, stage, state, rng=None):
        arms = self.problem.n_arms
        return tuple((stage + i) % arms for i in range(round(self.problem.pulls[stage])))


class Nameless(Turns):
    name = ""


NOT_A_CLASS = 3
"""
SMALL = ("--arms", "3", "--horizon", "6")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module, and with an installed distribution that announces its policy."""
    made = tmp_path_factory.mktemp("outside")
    (made / "outsider.py").write_text(SOURCE, encoding="utf-8")
    info = made / "outsider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[decobandit.policies]\nin-turns = outsider:Turns\n")
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are given in that folder."""
    monkeypatch.chdir(folder)


@pytest.mark.usefixtures("here")
def test_commands_take_it_like_any_other(tmp_path: Path) -> None:
    name, db = "outsider:Turns", str(tmp_path / "trials.db")

    def tree(*arguments: str) -> dict[str, Any]:
        return deco(*arguments, "--json").json

    (evaluated,) = tree("evaluate", *SMALL, "--policy", name)["policies"]
    assert evaluated["policy"] == "turns"
    assert evaluated["value"] == pytest.approx(3.0, abs=1e-12)
    both = tree("simulate", *SMALL, "--policy", f"{name},greedy", "--draws", "50")["results"]
    assert [each["policy"] for each in both] == ["turns", "greedy"]
    assert tree("gap", *SMALL, "--policy", name)["value"] == pytest.approx(3.0, abs=1e-9)
    assert tree("recommend", *SMALL, "--policy", name, "--state", "1/1,0/0,0/0")["arm"] == "arm-2"
    assert tree("path", *SMALL, "--policy", name)["policy"] == "turns"
    tree("trial", "new", *SMALL, "--policy", name, "--name", "pilot", "--db", db)
    allow = ("--allow-policy", name)
    assert tree("trial", "ask", "pilot", "--db", db, *allow)["arm"] == "arm-1"
    assert tree("trial", "verify", "pilot", "--db", db)["ok"] is True


def test_an_installed_policy_is_called_by_its_name(folder: Path, tmp_path: Path) -> None:
    """Processes of their own, which find it where packages are: a trial opens it again."""

    def tree(*arguments: str) -> dict[str, Any]:
        return deco_installed(*arguments, "--json", more={"PYTHONPATH": str(folder)}).json

    (evaluated,) = tree("evaluate", *SMALL, "--policy", "in-turns")["policies"]
    assert (evaluated["policy"], evaluated["value"]) == ("turns", pytest.approx(3.0, abs=1e-12))
    db = str(tmp_path / "trials.db")
    tree("trial", "new", *SMALL, "--policy", "in-turns", "--name", "pilot", "--db", db)
    assert tree("trial", "ask", "pilot", "--db", db)["arm"] == "arm-1"


@pytest.mark.usefixtures("here")
def test_studies_take_it_like_any_other(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'policies = ["outsider:Turns", "greedy"]\ndraws = 20\nper_draw = 2\n'
        "[[problems]]\narms = 3\nhorizon = 4\n",
        encoding="utf-8",
    )
    allow = ("--allow-policy", "outsider:Turns")
    done = deco("study", "run", study, "--out", tmp_path / "cells", *allow)
    assert done.code == 0, done.err
    shown = deco("study", "show", tmp_path / "cells", "--json").json
    policies = {row["policy"] for row in shown["cells"]}
    assert policies == {"outsider:Turns", "greedy"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("outsider:Absent", "outsider has no 'Absent'"),
        ("nowhere:Turns", "there is no module 'nowhere'"),
        ("outsider:NOT_A_CLASS", "not a subclass of decobandit.Policy"),
        ("outsider:Nameless", "has no name"),
        ("os:path", "not a subclass"),
        ("in-turns", "no policy is called 'in-turns'; known: auto, deco, "),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_is_no_policy_is_said_in_one_line(name: str, message: str) -> None:
    done = deco("evaluate", *SMALL, "--policy", name)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")
    assert "Traceback" not in done.err


def test_functions_take_it_by_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    problem = Problem.uniform(arms=2, horizon=4)
    assert make_policy(problem, "outsider:Turns").name == "turns"
    assert evaluate(problem, "outsider:Turns").value == pytest.approx(2.0, abs=1e-12)
    assert "in-turns" in policy_names()
    assert policy_class("in-turns").__name__ == "Turns"


def test_names_that_strangers_send_import_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("outsider", None)
    with refused("invalid_argument"):
        policy_class("outsider:Absent", places=False)
    assert "outsider" not in sys.modules


# -- names in files and databases -----------------------------------------------------------------

EVIL = "evil:Turns"
ALLOW = ("--allow-policy", EVIL)
STUDY = f'policies = ["{EVIL}"]\ndraws = 5\nper_draw = 2\n[[problems]]\narms = 2\nhorizon = 3\n'
DESIGN = (
    f'horizon = 4\n[[arms]]\nname = "a"\ncount = 2\n[design]\npolicies = ["{EVIL}"]\n'
    'draws = 5\nscenarios = [{ name = "one", truth = [0.2, 0.6] }]\n'
)


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose module leaves a mark when it is imported, and files that name it."""
    made = tmp_path_factory.mktemp("trap")
    mark = 'from pathlib import Path\nPath(__file__).with_name("imported").touch()\n'
    (made / "evil.py").write_text(mark + SOURCE, encoding="utf-8")
    (made / "study.toml").write_text(STUDY, encoding="utf-8")
    (made / "design.toml").write_text(DESIGN, encoding="utf-8")
    (made / "study").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        new = ("--policy", EVIL, "--name", "pilot", "--db", "trials.db")
        assert deco("trial", "new", *SMALL, *new).code == 0
        out = ("--out", "pilot.json", *ALLOW, "--db", "trials.db")
        assert deco("trial", "export", "pilot", *out).code == 0
    return made


TRIAL = ("pilot", "--db", "trials.db")


@pytest.mark.parametrize(
    "command",
    [
        ("study", "run", "study.toml"),
        ("study", "show", "study.toml"),
        ("design", "design.toml"),
        ("trial", "verify", "--export", "pilot.json"),
        ("trial", "replay", "--export", "pilot.json"),
        ("trial", "status", *TRIAL),
        ("trial", "ask", *TRIAL),
        ("trial", "replay", *TRIAL),
        ("trial", "report", *TRIAL, "--out", "report.html"),
        ("trial", "export", *TRIAL),
    ],
    ids=" ".join,
)
def test_files_and_databases_import_nothing(
    command: tuple[str, ...], trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trap)
    (trap / "imported").unlink(missing_ok=True)
    done = deco(*command)
    assert done.code == 2
    assert f"--allow-policy {EVIL}" in " ".join(done.err.split())
    assert not (trap / "imported").exists()


@pytest.mark.parametrize("command", [("verify",), ("list",)])
def test_the_log_is_checked_without_its_policy(
    command: tuple[str, ...], trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trap)
    (trap / "imported").unlink(missing_ok=True)
    assert deco("trial", *command, "--db", "trials.db").code == 0
    assert not (trap / "imported").exists()


def test_what_is_allowed_is_imported(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    assert deco("design", "design.toml", *ALLOW).code == 0
    assert deco("trial", "verify", "--export", "pilot.json", *ALLOW).code == 0
    assert deco("trial", "replay", *TRIAL, *ALLOW).code == 0
    refused = deco("design", "design.toml", "--allow-policy", "evil:Absent")
    assert refused.code == 2
    assert "evil has no 'Absent'" in refused.err


def test_functions_refuse_what_a_file_names(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(trap)
    exported = json.loads((trap / "pilot.json").read_text(encoding="utf-8"))
    problem, design = load_design(trap / "design.toml")
    with open_store(trap / "trials.db") as store:
        roads: list[Callable[[], object]] = [
            lambda: load_study(trap / "study.toml"),
            lambda: operating_characteristics(problem, design),
            lambda: verify_export(exported),
            lambda: replay_export(exported),
            lambda: open_trial("pilot", db=store).ask(),
            lambda: open_trial("pilot", db=store).status(),
        ]
        for road in roads:
            with pytest.raises(ValueError, match="allow_policy"):
                road()
        assert "evil" not in sys.modules
        with refused("invalid_argument", "policy"):
            allow_policy("greedy")
        allow_policy(EVIL)
        assert open_trial("pilot", db=store).status().told == 0
