"""`--workers` holds for all that a command computes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from decobandit.cli.app import app
from decobandit.joint import joint_sweep
from decobandit.prices import band_market as market_module
from decobandit.support import worker_count, workers

PROBLEM = """
horizon = 5
[[arms]]
name = "a"
[[arms]]
name = "b"
prior = {good = 2.0, bad = 1.0}
[[arms]]
name = "c"
prior = {good = 1.0, bad = 3.0}
"""
STUDY = """
name = "small"
seeds = [1]
draws = 2
per_draw = 1
policies = ["deco", "kl-ucb"]
[[problems]]
name = "few"
arms = 2
horizon = 4
"""
COMMANDS = {
    "solve": (),
    "evaluate": ("--policy", "deco-calibrated", "--bound-draws", "50"),
    "simulate": ("--policy", "deco,deco-calibrated", "--draws", "2", "--per-draw", "1"),
    "optimum": (),
    "bound": ("--draws", "2"),
    "gap": ("--method", "simulated", "--draws", "10"),
    "path": ("--expected",),
    "market": (),
    "index": ("--policy", "deco"),
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the pools that are made, on a machine that seems to have 4 processors."""
    sizes: list[int] = []
    make = workers._threads

    def counted(number: int, stopped: Event) -> ThreadPoolExecutor:
        sizes.append(number)
        return make(number, stopped)

    monkeypatch.setattr(workers, "_threads", counted)
    monkeypatch.setattr(workers, "available_workers", lambda: 4)
    monkeypatch.setattr(joint_sweep, "SMALL_LEVEL", 0)
    monkeypatch.setattr(market_module, "STATES_IN_STEP", 1)
    return sizes


def run(*arguments: object) -> None:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_keeps_to_its_workers(started: list[int], tmp_path: Path, command: str) -> None:
    file = tmp_path / "problem.toml"
    file.write_text(PROBLEM)
    run(command, file, *COMMANDS[command], "--workers", 1)
    assert started == []
    run(command, file, *COMMANDS[command], "--workers", 2)
    assert set(started) == {2}
    assert worker_count() == 4  # the number went with the command


def test_a_study_keeps_to_its_workers(started: list[int], tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(STUDY)
    run("study", "run", file, "--workers", 1)
    assert started == []


def test_the_paper_keeps_to_its_workers(started: list[int], tmp_path: Path) -> None:
    run("reproduce", "figure2", "--out", tmp_path / "out", "--workers", 1)
    assert started == []
    assert (tmp_path / "out" / "figure2.csv").exists()
