"""Decisions and values are those of other processors: the corpus of `helpers/golden.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from decobandit import Problem, __version__
from decobandit.support import code_environment
from decobandit.trials import create_trial, decisions, open_store, replay_export
from helpers.golden import FOLDER, corpus

DIGITS = 1e-14  # relative to 1, or to the value: digits that a processor may change
INDICES = 1e-9  # of `deco`, whose canonical prices come from a search; as in replays
SEARCH = 1e-6  # of bounds where a search for prices may stop elsewhere
KEPT: dict[str, Any] = json.loads((FOLDER / "values.json").read_text(encoding="utf-8"))


def differences(found: dict[str, Any], of: str) -> dict[str, float]:
    """Of numbers that are not the kept ones, by name."""
    assert found[of].keys() == KEPT[of].keys()
    pairs = {
        key: (float.fromhex(KEPT[of][key]), float.fromhex(value))
        for key, value in found[of].items()
    }
    return {key: abs(x - y) / max(1.0, abs(x)) for key, (x, y) in pairs.items() if x != y}


def generic(tmp_path: Path) -> dict[str, Any]:
    """The corpus by code that uses neither AVX nor FMA, of another process."""
    file = tmp_path / "generic.json"
    subprocess.run(
        [sys.executable, "-m", "helpers.golden", str(file)],
        env={**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        cwd=Path(__file__).parent,
        check=True,
    )
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert found["environment"]["cpu"].endswith("(compiled for generic)")
    return found


@pytest.mark.parametrize("processor", ["this", "generic"])
def test_decisions_and_values_do_not_depend_on_the_processor(
    tmp_path: Path, processor: str
) -> None:
    found = corpus() if processor == "this" else generic(tmp_path)
    assert found["decisions"] == KEPT["decisions"]
    sizes = differences(found, "values")
    most = {key: INDICES if ": deco after" in key else DIGITS for key in sizes}
    assert [key for key, size in sizes.items() if size > most[key]] == []
    assert [key for key, size in differences(found, "search").items() if size > SEARCH] == []


def test_a_replay_says_what_decisions_were_made_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = f"version {__version__}, packages {code_environment()['packages']}, "
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), policy="greedy", db=store)
        trial.ask()
        trial.ask()
        other = {"cpu": "another processor", "packages": "0" * 16}
        monkeypatch.setattr(decisions, "code_environment", lambda: other)
        trial.ask()
        replay = replay_export(json.loads(json.dumps(trial.export())))
    assert replay.differences == ()
    assert replay.recomputed_by == here + code_environment()["cpu"]
    assert replay.made_by == (
        f"2 by {replay.recomputed_by}",
        f"1 by version {__version__}, packages {'0' * 16}, another processor",
    )


@pytest.mark.parametrize("other", ["elsewhere", ["elsewhere"], None])
def test_a_replay_of_a_log_by_another_program_names_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: object
) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), policy="greedy", db=store)
        monkeypatch.setattr(decisions, "code_environment", lambda: other)
        trial.ask()
        replay = trial.replay()
    assert replay.ok
    assert replay.made_by == (f"1 by version {__version__}",)


def test_packages_of_another_version_have_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for version in ("1.0", "1.1"):
        (tmp_path / version / f"numba-{version}.dist-info").mkdir(parents=True)
        monkeypatch.setattr(sys, "path", [str(tmp_path / version)])
        found.add(code_environment.__wrapped__()["packages"])
    assert len(found) == 2
