"""The checker of exports that stands alone: `tools/check_trial.py`."""

import ast
import copy
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import Arm, BetaBernoulli, Problem, Reward, Terminal
from decobandit.trials import create_trial, open_store
from decobandit.trials.decisions import uniform_number

TOOL = Path(__file__).parents[2] / "tools" / "check_trial.py"
Export = dict[str, Any]


def checked(folder: Path, export: Export) -> subprocess.CompletedProcess[str]:
    file = folder / "export.json"
    file.write_text(json.dumps(export))
    command = [sys.executable, "-I", "-S", str(TOOL), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def played(folder: Path, policy: str, problem: Problem, *, ties: str = "least-pulled") -> Export:
    """The export of a trial with pending, cancelled and corrected outcomes."""
    rng = np.random.default_rng(7)
    with open_store(folder / "trials.db") as store:
        trial = create_trial(problem, policy=policy, ties=ties, seed=3, db=store)
        waiting = []
        for number in range(problem.horizon - 2):
            waiting.append(trial.ask())
            if number % 3 == 1:
                trial.tell(waiting.pop(0).id, int(rng.integers(2)))
        trial.cancel(waiting.pop().id, reason="went home")
        told = waiting.pop(0)
        trial.tell(told.id, 1)
        trial.correct(told.id, 0, reason="misread")
        trial.close()
        trial.lock(by="ann")
        return trial.export()


def problem(**settings: Any) -> Problem:
    arms = [
        Arm(name="old", prior=BetaBernoulli(3, 2), reward=Reward(good=1.5, bad=-0.25)),
        Arm(name="new"),
        Arm(name="other", prior=BetaBernoulli(1, 2)),
    ]
    return Problem(horizon=12, arms=arms, **settings)


@pytest.mark.parametrize("policy", ["deco", "equal", "thompson"])
@pytest.mark.parametrize("ties", ["least-pulled", "last"])
def test_states_rewards_and_decisions_follow_from_the_export(
    tmp_path: Path, policy: str, ties: str
) -> None:
    export = played(tmp_path, policy, problem(terminal=Terminal(deploy=8.0)), ties=ties)
    done = checked(tmp_path, export)
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 decisions are the same; 0 were not" in done.stdout


def test_equal_arms_and_other_policies(tmp_path: Path) -> None:
    done = checked(tmp_path, played(tmp_path, "greedy", Problem.uniform(arms=3, horizon=12)))
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 decisions are the same; 10 were not" in done.stdout


# -- what somebody may change, with all hashes computed again ----------------------------------


def _rehashed(export: Export, change: Callable[[list[Any]], object]) -> Export:
    export = copy.deepcopy(export)
    events = [json.loads(row["body"]) for row in export["events"]]
    change(events)
    previous, rows = "0" * 64, []
    for event in events:
        event["previous"] = previous
        body = json.dumps(event, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(body.encode()).hexdigest()
        rows.append({**event, "body": body, "hash": previous})
    return {**export, "events": rows, "head": previous}


def _first(events: list[Any], kind: str) -> Any:
    return next(event["data"] for event in events if event["kind"] == kind)


def _other_arm(events: list[Any]) -> None:
    data = _first(events, "asked")
    data["arm"] = "other" if data["arm"] != "other" else "new"
    data["pulls"] = {data["arm"]: 1}


def _prices(events: list[Any]) -> None:
    events[0]["data"]["plan"]["multipliers"][2] += 0.05


def test_probabilities_to_be_best_after_many_outcomes(tmp_path: Path) -> None:
    """Two arms by a plain sum over a fine grid: the checker's own, and the program's by the log."""
    arms = [
        Arm(name="a", prior=BetaBernoulli(620, 580)),
        Arm(name="b", prior=BetaBernoulli(32, 31)),
    ]
    export = played(tmp_path, "thompson", Problem(horizon=12, arms=arms))
    done = checked(tmp_path, export)
    assert (done.returncode, done.stderr) == (0, "")
    decision = next(event["data"] for event in export["events"] if event["kind"] == "asked")
    x = (np.arange(200_000) + 0.5) / 200_000
    dense = [(a - 1) * np.log(x) + (b - 1) * np.log(1 - x) for a, b in ((620, 580), (32, 31))]
    first, second = (np.exp(log - log.max()) / np.exp(log - log.max()).sum() for log in dense)
    better = float(first @ (np.cumsum(second) - second / 2))
    told = decision["decision"]["probability"]
    assert told == pytest.approx(better if decision["arm"] == "a" else 1 - better, abs=1e-6)


def _probability(events: list[Any]) -> None:
    decision = _first(events, "asked")["decision"]
    decision["probability"] = min(1.0, decision["probability"] + 0.01)


@pytest.mark.parametrize("change", [_other_arm, _probability])
def test_a_draw_that_the_seed_does_not_give_is_found(
    tmp_path: Path, change: Callable[[list[Any]], object]
) -> None:
    export = _rehashed(played(tmp_path, "thompson", problem()), change)
    assert checked(tmp_path, export).returncode == 1


def _seed(events: list[Any]) -> None:
    """Let the first pull of two equal arms be of the other one, by a seed that draws it."""
    data = _first(events, "asked")
    before = data["arm"]
    data["arm"] = {"arm-1": "arm-2", "arm-2": "arm-1"}[before]
    data["pulls"] = {data["arm"]: 1}
    drawn = (seed for seed in range(100) if (uniform_number(seed, 0) < 0.5) == (before == "arm-2"))
    data["decision"]["seed"] = next(drawn)


def test_a_decision_has_the_seed_of_the_trial(tmp_path: Path) -> None:
    export = played(tmp_path, "thompson", Problem.uniform(arms=2, horizon=12))
    assert checked(tmp_path, export).returncode == 0
    done = checked(tmp_path, _rehashed(export, _seed))
    assert "event 1: the arm is not the one that" in done.stderr


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "outcome": lambda events: _first(events, "told").update(
        outcome=1 - _first(events, "told")["outcome"]
    ),
    "arm": _other_arm,
    "prices": _prices,
    "prior": lambda events: events[0]["data"]["plan"]["problem"]["arms"][0]["prior"].update(
        good=4.0
    ),
    "index": lambda events: _first(events, "asked")["decision"]["index"].__setitem__(0, 9.0),
    "cancelled": lambda events: _first(events, "cancelled").update(allocation="0" * 16),
    "unlocked": lambda events: events[-1].update(kind="reopened"),
    "dropped": lambda events: events.pop(3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_found_though_all_hashes_fit(
    tmp_path: Path, change: Callable[[list[Any]], object]
) -> None:
    export = _rehashed(played(tmp_path, "deco", problem()), change)
    assert checked(tmp_path, export).returncode == 1


def test_a_changed_line_does_not_fit_its_hash(tmp_path: Path) -> None:
    export = played(tmp_path, "equal", problem())
    export["events"][4]["body"] = export["events"][4]["body"].replace("library", "somebody")
    done = checked(tmp_path, export)
    assert done.returncode == 1
    assert "event 4: the hash does not fit the line" in done.stderr


@pytest.mark.parametrize("place", ["earned", "state", "head"])
def test_what_is_derived_is_compared(tmp_path: Path, place: str) -> None:
    export = played(tmp_path, "equal", problem())
    if place == "head":
        export["head"] = "0" * 64
    else:
        export["status"][place] = {"earned": 99.0, "state": "running"}[place]
    assert checked(tmp_path, export).returncode == 1


def test_it_is_one_short_file_of_the_standard_library() -> None:
    text = TOOL.read_text()
    assert len(text.splitlines()) <= 300
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in nodes
    }
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"format": "decobandit-trial-1"}'])
def test_what_is_no_export_is_refused_in_one_line(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "export.json").write_text(text)
    command = [sys.executable, "-I", "-S", str(TOOL), str(tmp_path / "export.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("export: cannot be read: ")
