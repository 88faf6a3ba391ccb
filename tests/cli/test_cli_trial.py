"""`deco trial` as people type it."""

import csv
import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from decobandit import Problem, make_policy
from decobandit.problem import State
from helpers.program import deco, json_object


@pytest.fixture
def db(tmp_path: Path) -> Path:
    made = deco(
        "trial",
        "new",
        "--arms",
        2,
        "--horizon",
        4,
        "--name",
        "pilot",
        "--seed",
        5,
        "--db",
        tmp_path / "t.db",
        "--json",
    ).json
    assert made["name"] == "pilot"
    assert made["seed"] == 5
    return tmp_path / "t.db"


def test_a_trial_from_its_beginning_to_its_end(db: Path, tmp_path: Path) -> None:
    # the second road: the policy itself, asked for the same states
    policy = make_policy(Problem.uniform(arms=2, horizon=4), "deco")
    state = State.fresh(2)
    for stage, outcome in enumerate(("good", "0", "bad", "1")):
        slot = deco("trial", "ask", "pilot", "--db", db, "--json").json
        (arm,) = policy.select(stage, state)
        assert (slot["arm"], slot["stage"], slot["state"]) == (f"arm-{arm + 1}", stage, "open")
        assert slot["arm"] in slot["reason"]
        good = outcome in ("good", "1")
        told = deco("trial", "tell", "pilot", slot["id"], outcome, "--db", db, "--json").json
        assert (told["state"], told["outcome"]) == ("told", int(good))
        state = state.after(arm, good)
    status = deco("trial", "status", "pilot", "--db", db, "--json").json
    assert status["finished"]
    assert status["earned"] == 2
    assert [arm["good"] for arm in status["arms"]] == list(state.good)
    assert status["bound_from_here"] == 0
    full = deco("trial", "ask", "pilot", "--db", db)
    assert (full.code, full.out) == (2, "")
    assert full.err == "deco: error: every slot of the trial is in use\n"
    assert deco("trial", "verify", "pilot", "--db", db, "--json").json["ok"]
    replay = deco("trial", "replay", "pilot", "--db", db, "--json").json
    assert (replay["trial"], replay["ok"]) == (status["id"], True)
    assert (replay["decisions"], replay["differences"]) == (4, [])
    assert replay["made_by"] == [f"4 by {replay['recomputed_by']}"]
    deco("trial", "export", "pilot", "--db", db, "--out", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        assert [row["outcome"] for row in csv.DictReader(file)] == ["1", "0", "0", "1"]


def test_a_key_makes_an_ask_repeatable_and_a_slot_can_be_given_back(db: Path) -> None:
    first = deco("trial", "ask", "pilot", "--key", "k", "--db", db, "--json").json
    assert deco("trial", "ask", "pilot", "--key", "k", "--db", db, "--json").json == first
    cancelled = deco(
        "trial", "cancel", "pilot", first["id"], "--reason", "did not come", "--db", db, "--json"
    ).json
    assert cancelled["state"] == "cancelled"
    status = deco("trial", "status", "pilot", "--db", db, "--json").json
    assert (status["allocated"], status["remaining"]) == (0, 4)


def test_a_contradicting_outcome_is_refused_and_a_correction_is_logged(
    db: Path, tmp_path: Path
) -> None:
    slot = deco("trial", "ask", "pilot", "--db", db, "--json").json
    deco("trial", "tell", "pilot", slot["id"], 1, "--db", db)
    refused = deco("trial", "tell", "pilot", slot["id"], 0, "--db", db)
    assert refused.code == 2
    assert "another outcome is recorded" in refused.err
    corrected = deco(
        "trial", "correct", "pilot", slot["id"], 0, "--reason", "misread", "--db", db, "--json"
    ).json
    assert corrected["outcome"] == 0
    exported = json_object(deco("trial", "export", "pilot", "--db", db).out)
    kinds = [event["kind"] for event in exported["events"]]
    assert kinds == ["created", "asked", "told", "refused", "corrected"]
    assert exported["events"][2]["data"]["outcome"] == 1


def test_an_export_is_checked_without_the_database(db: Path, tmp_path: Path) -> None:
    deco("trial", "ask", "pilot", "--db", db)
    file = tmp_path / "export.json"
    deco("trial", "export", "pilot", "--db", db, "--out", file)
    db.unlink()
    assert deco("trial", "verify", "--export", file).code == 0
    tree = json.loads(file.read_text(encoding="utf-8"))
    # by hand: the hash of an event is that of its line, which names the hash before
    for before, event in zip(tree["events"], tree["events"][1:], strict=False):
        assert hashlib.sha256(event["body"].encode()).hexdigest() == event["hash"]
        assert json.loads(event["body"])["previous"] == before["hash"]
    tree["events"][1]["body"] = tree["events"][1]["body"].replace("arm-1", "arm-2", 1)
    file.write_text(json.dumps(tree), encoding="utf-8")
    found = deco("trial", "verify", "--export", file)
    assert found.code == 1
    assert "event 1: the event was changed" in found.out


def test_an_edited_database_and_a_forgotten_head_are_found(db: Path) -> None:
    head = deco("trial", "verify", "--db", db, "--json").json["trials"][0]["head"]
    deco("trial", "ask", "pilot", "--db", db)
    moved = deco("trial", "verify", "pilot", "--head", head, "--db", db)
    assert moved.code == 0
    assert "the given head is event 0; 1 event since" in moved.out
    told = deco("trial", "verify", "pilot", "--head", head.upper(), "--db", db, "--json").json
    (found,) = told["trials"]
    assert (found["given_head_event"], found["events_since_given_head"]) == (0, 1)
    other = deco("trial", "verify", "pilot", "--head", "f" * 64, "--db", db, "--json")
    assert other.code == 1
    (found,) = json_object(other.out)["trials"]
    assert (found["given_head_event"], found["events_since_given_head"]) == (None, None)
    assert "no event has the given head" in found["problems"][0]
    with sqlite3.connect(db) as connection:
        connection.execute("UPDATE events SET body = replace(body, 'arm-1', 'arm-2') WHERE seq = 1")
    connection.close()
    found = deco("trial", "verify", "--db", db)
    assert found.code == 1
    assert "NOT INTACT" in found.out
    refused = deco("trial", "status", "pilot", "--db", db)
    assert refused.code == 2
    assert "the event was changed" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "nobody", "--db", "DB"], "no trial is called 'nobody'"),
        (["tell", "pilot", "ffff", "1", "--db", "DB"], "no such allocation"),
        (["tell", "pilot", "ffff", "maybe", "--db", "DB"], "must be good, bad, 1 or 0"),
        (["ask", "pilot", "--db", "missing.db"], "no such database"),
        (["ask", "pilot", "--db", "mysql://x/y"], "not supported"),
        (["ask", "pilot", "--db", "postgresql://me:secret@127.0.0.1/x"], "can be read by others"),
        (["new", "--arms", "2", "--horizon", "4", "--name", "pilot", "--db", "DB"], "exists"),
        (["new", "--arms", "2", "--horizon", "4", "--policy", "x", "--db", "DB"], "no policy"),
        (["new", "--arms", "2000", "--horizon", "4", "--db", "DB"], "at most 1000"),
        (["export", "pilot", "--out", "x.txt", "--db", "DB"], "must end in .json or .csv"),
    ],
)
def test_bad_requests_are_one_line(db: Path, arguments: list[str], said: str) -> None:
    run = deco("trial", *[str(db) if part == "DB" else part for part in arguments])
    assert (run.code, run.out) == (2, "")
    assert run.err.count("\n") == 1
    assert said in run.err
    assert "secret" not in run.err


def test_the_database_may_come_from_the_environment(db: Path) -> None:
    assert deco("trial", "list", "--json", more={"DECO_DB": str(db)}).json["trials"][0]["told"] == 0
    shown = deco("trial", "list", more={"DECO_DB": str(db)})
    assert "pilot" in shown.out
    new = db.with_name("new.db")
    assert deco("trial", "list", "--db", new).code == 2  # looking makes no database
    assert not new.exists()


def test_an_allocation_is_called_by_its_subject_too(db: Path) -> None:
    here = ("--db", db)
    first = deco("trial", "ask", "pilot", "--subject", "S-1", *here, "--json").json
    told = deco("trial", "tell", "pilot", "S-1", "good", *here, "--json").json
    assert (told["id"], told["outcome"]) == (first["id"], 1)
    why = ("--reason", "mistyped")
    assert (
        deco("trial", "correct", "pilot", "S-1", "bad", *why, *here, "--json").json["outcome"] == 0
    )
    second = deco("trial", "ask", "pilot", "--subject", "S-2", *here, "--json").json
    for _ in range(2):  # the second time nothing is written: it is cancelled
        gone = deco("trial", "cancel", "pilot", "S-2", *why, *here, "--json").json
        assert (gone["id"], gone["state"]) == (second["id"], "cancelled")
    anew = deco("trial", "ask", "pilot", "--subject", "S-2", *here, "--json").json
    told = deco("trial", "tell", "pilot", "S-2", "1", *here, "--json").json
    assert told["id"] == anew["id"] != second["id"]
    refused = deco("trial", "tell", "pilot", "S-3", "good", *here)
    assert refused.code == 2
    assert "no such allocation in this trial" in refused.err
