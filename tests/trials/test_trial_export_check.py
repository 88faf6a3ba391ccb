"""An export is checked without the database: no value in it can be changed unseen."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem import Arm, BetaBernoulli, Problem, Rules, Stop, read_outcomes
from decobandit.problem.model import Terminal
from decobandit.trials import (
    Conflict,
    Trial,
    TrialError,
    create_trial,
    open_store,
    outcomes_csv,
    replay_export,
    verify_export,
)
from decobandit.trials.export import checksum
from helpers.program import deco
from helpers.refusals import refused

Place = tuple[str | int, ...]


def leaves(tree: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*place, key))
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from leaves(value, (*place, number))
    else:
        yield place, tree


def edited(tree: Any, place: Place, value: Any) -> Any:
    made = copy.deepcopy(tree)
    inside = made
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return made


def others(value: Any) -> list[Any]:
    """Values that somebody may put there instead, near ones too."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        return [value + 1, -value - 1, str(value), *([bool(value)] if value in (0, 1) else [])]
    if isinstance(value, float):
        return [value + 1e-3, value * (1 + 1e-15) or 1e-12, None]
    if isinstance(value, str):
        return [value + "x", value[:-1], value.upper() + " "]
    return [0, "", [0]]


def is_refused(tree: Any) -> bool:
    try:
        return not verify_export(tree).ok
    except TrialError:
        return True


def finished(store: Any) -> Trial:
    problem = Problem(
        arms=(Arm(name="old", prior=BetaBernoulli(good=2, bad=1)), Arm(name="new")),
        horizon=4,
        terminal=Terminal(deploy=10),
    )
    trial = create_trial(problem, name="over", db=store, seed=3)
    for outcome in (1, 0, 1, 1):
        trial.tell(trial.ask(key=f"k{outcome}{trial.status().told}").id, outcome)
    return trial


def under_way(store: Any) -> Trial:
    trial = create_trial(Problem.uniform(arms=3, horizon=9), name="half", db=store, seed=3)
    slots = [trial.ask(by="ann") for _ in range(4)]
    trial.tell(slots[0].id, 1)
    trial.correct(slots[0].id, 0, reason="typo")
    trial.cancel(slots[1].id, reason="left")
    with pytest.raises(Conflict):
        trial.tell(slots[0].id, 1)
    return trial


def several(store: Any) -> Trial:
    problem = Problem.uniform(arms=4, horizon=3, pulls_per_stage=2)
    trial = create_trial(problem, policy="thompson", name="many", db=store, seed=3)
    for _ in range(2):
        slot = trial.ask()
        trial.tell(slot.id, [(next(iter(slot.pulls)), 1)])
    return trial


def batched(store: Any) -> Trial:
    """Batches with recorded, pending, corrected and lost outcomes, and no bound."""
    problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=4, repeat=True, unit=2)
    trial = create_trial(problem, policy="greedy", name="batched", db=store, seed=3, bound=False)
    first, second = trial.ask(subject="monday"), trial.ask(note="early")
    trial.tell(first.id, {"arm-1": (1, 2)})
    trial.correct(first.id, {"arm-1": (0, 1)}, reason="typo")
    trial.cancel(first.id, reason="closed")
    with pytest.raises(Conflict):
        trial.tell(first.id, {"arm-1": (1, 1)})
    trial.tell(second.id, {"arm-2": (1, 1)})
    return trial


MADE = [finished, under_way, several, batched]


@pytest.fixture(params=MADE, ids=lambda make: make.__name__)
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    with open_store(tmp_path / "t.db") as store:
        yield request.param(store)


@pytest.fixture
def tree(trial: Trial) -> Any:
    return json.loads("".join(trial.export_text()))


def test_an_export_is_intact_and_its_decisions_are_made_again(trial: Trial, tree: Any) -> None:
    assert verify_export(tree).ok
    assert verify_export(trial.export()).ok
    again = replay_export(tree)
    assert (again.ok, again.decisions) == (True, trial.replay().decisions)
    whole = trial.export()
    again = json.loads(json.dumps(whole))
    assert again | {"exported_at": ""} == tree | {"exported_at": ""}


def test_no_value_can_be_changed_unseen(tree: Any) -> None:
    unseen = [
        (place, value, other)
        for place, value in leaves(tree)
        for other in others(value)
        if other != value or type(other) is not type(value)
        if not is_refused(edited(tree, place, other))
    ]
    assert unseen == []


def test_nothing_that_follows_from_the_events_can_be_changed_with_the_checksum(tree: Any) -> None:
    unseen = set()
    for place, value in leaves({key: part for key, part in tree.items() if key != "events"}):
        for other in others(value):
            if isinstance(other, float) and abs(other - (value or 0)) < 1e-6:
                continue  # rounding
            forged = edited(tree, place, other)
            forged["checksum"] = checksum(forged)
            if place != ("checksum",) and not is_refused(forged):
                unseen.add(place)
    assert unseen == set()


def ruled(store: Any) -> Trial:
    """Stopped by a look, which has dropped an arm, while a batch is pending."""
    problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=8, repeat=True, unit=4)
    rules = Rules(control="arm-1", floor=0.5, stop=Stop(inferiority=0.1))
    trial = create_trial(
        problem, policy="greedy", name="ruled", db=store, seed=3, bound=False, design=rules
    )
    first, _ = trial.ask(), trial.ask()
    trial.tell(first.id, {"arm-1": (4, 4), "arm-2": (0, 4)})
    assert trial.status().stopped == "inferiority"
    return trial


def test_rules_and_what_they_came_to_can_not_be_changed_with_the_checksum(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        tree = json.loads("".join(ruled(store).export_text()))
    assert verify_export(tree).ok
    assert replay_export(tree).ok
    for key, other in (
        ("rules", None),
        ("rules", tree["status"]["rules"] | {"floor": 0.4}),
        ("stopped", None),
        ("stopped", "futility"),
        ("dropped", []),
        ("dropped", ["arm-1"]),
    ):
        forged = edited(tree, ("status", key), other)
        forged["checksum"] = checksum(forged)
        assert is_refused(forged)


def test_no_key_can_be_added_or_taken_away(tree: Any) -> None:
    places = {place[:-1] for place, _ in leaves(tree) if isinstance(place[-1], str)}
    for place in places:
        target: Any = tree
        for key in place:
            target = target[key]
        for change in (lambda node: node.update(note="x"), lambda node: node.popitem()):
            made = copy.deepcopy(tree)
            inside = made
            for key in place:
                inside = inside[key]
            change(inside)
            assert is_refused(made), place
            if "events" not in place and change is not None and "note" in inside:
                made["checksum"] = checksum(made)
                assert is_refused(made), place


def test_lists_can_not_be_shortened_or_turned_around(tree: Any) -> None:
    for key in {"events", "allocations"} & {key for key in tree if tree[key]}:
        for change in (lambda part: part[:-1], lambda part: part[::-1], lambda part: part * 2):
            assert is_refused(edited(tree, (key,), change(tree[key])))


def test_numbers_may_be_written_otherwise(tree: Any) -> None:
    """Another program that reads and writes the file may leave out the .0 of a number."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in reversed(value.items())}
        if isinstance(value, list):
            return [plain(part) for part in value]
        return int(value) if isinstance(value, float) and value == int(value) else value

    assert verify_export(plain(tree)).ok


@pytest.mark.parametrize(
    "twice",
    [
        lambda text: text.replace('"name":', '"name": "other", "name":', 1),
        lambda text: text.replace('"earned":', '"earned": 99, "earned":', 1),
        lambda text: text.replace('"kind":', '"kind": "told", "kind":', 1),
        lambda text: text.replace('"events":', '"events": [], "events":', 1),
    ],
)
def test_the_program_refuses_a_key_that_stands_twice(
    trial: Trial, tmp_path: Path, twice: Callable[[str], str]
) -> None:
    file = tmp_path / "export.json"
    text = "".join(trial.export_text())
    file.write_text(twice(text), encoding="utf-8")
    assert json.loads(twice(text)) is not None
    for command in ("verify", "replay"):
        run = deco("trial", command, "--export", file)
        assert (run.code, run.err.count("\n")) == (2, 1)
        assert "twice" in run.err


def test_the_program_checks_and_replays_a_file_alone(trial: Trial, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    database = str(trial.store.url.database)
    assert deco("trial", "export", trial.name, "--db", database, "--out", file).code == 0
    trial.store.close()
    Path(database).unlink()
    assert deco("trial", "verify", "--export", file).code == 0
    said = deco("trial", "replay", "--export", file, "--json").json
    assert said["ok"]
    tree = json.loads(file.read_text(encoding="utf-8"))
    head = tree["events"][1]["hash"]
    (found,) = deco("trial", "verify", "--export", file, "--head", head, "--json").json["trials"]
    assert found["given_head_event"] == 1
    assert found["events_since_given_head"] == len(tree["events"]) - 2
    tree["status"]["earned"] += 1
    file.write_text(json.dumps(tree), encoding="utf-8")
    assert deco("trial", "verify", "--export", file).code == 1
    assert deco("trial", "replay", "--export", file).code == 1
    assert not Path(database).exists()


def test_the_program_wants_one_thing_to_replay(tmp_path: Path) -> None:
    for words in ([], ["pilot", "--export", tmp_path / "x.json"]):
        run = deco("trial", "replay", *words)
        assert (run.code, run.err.count("\n")) == (2, 1)


# -- CSV ----------------------------------------------------------------------------------------

NAMES = (
    "=1+1",
    "'=1+1",
    "''=1+1",
    "+x",
    "-x",
    "@sum",
    "'plain",
    "plain",
    "a=b",
    "' -x",
    "\uff1dwide",
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("x")',
    "- ",
    "'",
    "a;=1+1",
    "a; '@x",
    ";-x",
    "b;c",
)


def test_exported_outcomes_are_read_back_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    names = [name.strip() for name in NAMES]
    problem = Problem(arms=tuple(Arm(name=name) for name in names), horizon=60)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="equal", db=store, name="=csv", by="-ann")
        slots = [trial.ask(by="@bob") for _ in range(40)]
        for number, slot in enumerate(slots[:35]):
            trial.tell(slot.id, number % 3 == 0)
        trial.cancel(slots[-1].id, reason="left")
        file = tmp_path / "outcomes.csv"
        file.write_text(outcomes_csv(trial.events()), encoding="utf-8")
        status = trial.status()
        import csv

        with file.open(encoding="utf-8", newline="") as lines:
            cells = [cell for row in csv.reader(lines) for cell in row]
        starts = tuple("=+-@\t\r")
        cells += [part for cell in cells for part in re.split("[;\t]", cell)]
        assert not [cell for cell in cells if cell.lstrip()[:1] in starts and cell.strip()]
        frames = [trial.to_frame(kind=kind) for kind in ("pyarrow", "pandas", "polars")]
        arms, events = trial.to_frame("arms").to_pylist(), trial.to_frame("events").to_pylist()
    assert [(arm["arm"], arm["good"], arm["bad"]) for arm in arms] == [
        (arm.name, arm.good, arm.bad) for arm in status.arms
    ]
    assert events[-1]["hash"] == status.head
    assert [event["kind"] for event in events[:3]] == ["created", "asked", "asked"]
    state = read_outcomes(problem, file)
    assert all(read_outcomes(problem, frame) == state for frame in frames)
    assert list(state.good) == [arm.good for arm in status.arms]
    assert list(state.bad) == [arm.bad for arm in status.arms]
    assert sum(state.good) + sum(state.bad) == 35


def test_the_program_recommends_from_what_it_exported(tmp_path: Path) -> None:
    toml = tmp_path / "p.toml"
    toml.write_text(
        'horizon = 12\n[[arms]]\nname = "=new"\n[[arms]]\nname = "-old"\n', encoding="utf-8"
    )
    db, file = tmp_path / "t.db", tmp_path / "t.csv"
    deco("trial", "new", toml, "--name", "pilot", "--db", db)
    for outcome in (1, 0, 1, 0, 0):
        slot = deco("trial", "ask", "pilot", "--db", db, "--json").json["id"]
        deco("trial", "tell", "pilot", slot, outcome, "--db", db)
    status = deco("trial", "status", "pilot", "--db", db, "--json").json
    deco("trial", "ask", "pilot", "--db", db)  # pending: has no outcome
    deco("trial", "export", "pilot", "--db", db, "--out", file)
    counts = ",".join(f"{arm['good']}/{arm['good'] + arm['bad']}" for arm in status["arms"])
    by_data = deco("recommend", toml, "--data", file, "--json").json
    by_counts = deco("recommend", toml, "--state", counts, "--json").json
    assert by_data == by_counts


def test_an_outcome_may_be_missing_only_where_the_state_says_why(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    problem = Problem.uniform(arms=2, horizon=5)
    for text in ("arm,outcome\narm-1,\n", "arm,state,outcome\narm-1,told,\n"):
        file.write_text(text, encoding="utf-8")
        with refused("invalid_problem"):
            read_outcomes(problem, file)


# -- one format -----------------------------------------------------------------------------------


def test_an_export_that_claims_another_format_or_shows_less_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=5), db=store, seed=3)
        trial.tell(trial.ask().id, 1)
        tree = json.loads(json.dumps(trial.export()))
    assert verify_export(tree).ok
    older = {**tree, "format": "decobandit-trial-0"}
    del older["checksum"]
    with refused("bad_request", "export"):
        verify_export(older)
    for version in ("0.1.0", "0.2.0"):  # what it shows less has a checksum that fits
        less = copy.deepcopy(tree) | {"version": version}
        less["status"]["version"] = version
        del less["status"]["earned"], less["allocations"][0]["reason"]
        less["checksum"] = checksum(less)
        found = verify_export(less)
        assert not found.ok
        assert any("status.earned is missing" in problem for problem in found.problems)
