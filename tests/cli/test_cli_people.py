"""`deco audit people`, tokens that end, subjects, reasons and closing, as people type them."""

import csv
import sqlite3
from pathlib import Path

import pytest

from helpers.program import deco


@pytest.fixture
def db(tmp_path: Path) -> Path:
    deco(
        "trial",
        "new",
        "--arms",
        2,
        "--horizon",
        4,
        "--name",
        "pilot",
        "--policy",
        "equal",
        "--max-open",
        2,
        "--db",
        tmp_path / "t.db",
        "--json",
    )
    return tmp_path / "t.db"


def test_the_log_of_people_is_printed_and_checked(db: Path, tmp_path: Path) -> None:
    deco("token", "new", "ann", "--role", "admin", "--by", "root", "--db", db)
    made = deco(
        "token",
        "new",
        "bob",
        "--role",
        "viewer",
        "--days",
        7,
        "--trial",
        "pilot",
        "--db",
        db,
        "--json",
    ).json
    assert made["trials"] == ["pilot"]
    deco("token", "revoke", "bob", "--db", db)
    deco("trial", "export", "pilot", "--out", tmp_path / "x.csv", "--by", "eve", "--db", db)
    tree = deco("audit", "people", "--db", db, "--json").json
    assert tree["ok"]
    assert [(e["kind"], e["by"]) for e in tree["events"]][::3] == [
        ("token_made", "root"),
        ("exported", "eve"),
    ]
    shown = deco("audit", "people", "--last", 1, "--db", db)
    assert shown.code == 0
    assert "exported\teve" in shown.out
    assert "4 events, intact" in shown.out
    assert "token_made" not in shown.out
    with sqlite3.connect(db) as connection:
        connection.execute("UPDATE people SET body = replace(body, 'eve', 'ann') WHERE seq = 3")
    connection.close()
    found = deco("audit", "people", "--db", db)
    assert found.code == 1
    assert "NOT INTACT" in found.out


def test_the_last_administrator_is_not_revoked(db: Path) -> None:
    deco("token", "new", "ann", "--role", "admin", "--db", db)
    refused = deco("token", "revoke", "ann", "--db", db)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "only administrator" in refused.err
    assert "valid until" in deco("token", "list", "--db", db).out


@pytest.mark.parametrize(
    "command",
    [
        ["cancel", "pilot", "SLOT"],
        ["correct", "pilot", "SLOT", "1"],
        ["unmask", "pilot", "SLOT", "--category", "emergency"],
        ["unlock", "pilot"],
        ["reopen", "pilot"],
        ["limits", "pilot", "--max-open", "5"],
        ["arm", "close", "pilot", "arm-1"],
    ],
)
def test_what_needs_a_reason_is_refused_without_one(db: Path, command: list[str]) -> None:
    slot = deco("trial", "ask", "pilot", "--db", db, "--json").json["id"]
    words = [slot if word == "SLOT" else word for word in command]
    refused = deco("trial", *words, "--db", db)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "--reason" in refused.err


def test_subjects_limits_closing_and_archiving(db: Path, tmp_path: Path) -> None:
    def run(*words: object) -> dict[str, object]:
        return deco("trial", *words, "--db", db, "--json").json

    first = run("ask", "pilot", "--subject", "S1", "--note", "came late")
    assert run("ask", "pilot", "--subject", "S1") == first
    second = run("ask", "pilot", "--subject", "S2")
    full = deco("trial", "ask", "pilot", "--subject", "S3", "--db", db)
    assert (full.code, "pending" in full.err) == (2, True)
    run("cancel", "pilot", second["id"], "--reason", "went home", "--by", "ann")
    shown = deco("trial", "status", "pilot", "--db", db).out
    assert "by ann: went home" in shown
    assert "1 of 2 pending, 1 of 20 cancelled" in shown
    unmask = ("unmask", "pilot", first["id"], "--category", "planned")
    assert run(*unmask, "--reason", "asked by ward")["arm"] == first["arm"]
    assert run("close", "pilot")["state"] == "closed"
    closed = deco("trial", "ask", "pilot", "--db", db)
    assert closed.err == "deco: error: the trial is closed; an administrator can reopen it\n"
    assert run("archive", "pilot")["state"] == "archived"
    assert run("list")["trials"] == []
    assert "1 archived" in deco("trial", "list", "--db", db).out
    assert run("list", "--archived")["trials"][0]["state"] == "archived"  # type: ignore[index]
    assert run("reopen", "pilot", "--reason", "more")["state"] == "running"
    assert run("limits", "pilot", "--max-open", 9, "--reason", "more")["state"] == "running"
    assert run("status", "pilot")["limits"] == {
        "open": 9,
        "cancelled": 20,
        "unmasked": 5,
        "unmask_role": None,
    }
    out = tmp_path / "masked.csv"
    deco("trial", "export", "pilot", "--masked", "--out", out, "--db", db)
    with out.open(encoding="utf-8") as file:
        assert [(row["subject"], row["state"]) for row in csv.DictReader(file)] == [
            ("S1", "open"),
            ("S2", "cancelled"),
        ]
    refused = deco("trial", "export", "pilot", "--masked", "--db", db)
    assert (refused.code, "only CSV can be masked" in refused.err) == (2, True)
    assert deco("trial", "verify", "--db", db).code == 0


def test_arms_join_and_leave(tmp_path: Path) -> None:
    db, file = tmp_path / "arms.db", tmp_path / "late.toml"
    file.write_text('name = "late"\nprior = { good = 9, bad = 1 }\n')
    db_words = ("--db", db, "--json")
    deco("trial", "new", "--arms", 2, "--horizon", 8, "--name", "pilot", "--db", db)
    deco("trial", "ask", "pilot", "--db", db)
    calibrated = ("--policy", "deco-calibrated", "--reason", "ready", "--db", db)
    refused = deco("trial", "arm", "add", "pilot", file, *calibrated)
    assert (refused.code, "'deco-calibrated'" in refused.err) == (2, True)
    words = ("arm", "add", "pilot", file, "--reason", "ready", "--policy", "deco", "--by", "ann")
    for _ in range(2):
        assert deco("trial", *words, "--key", "k", *db_words).json["arms"] == 3
    closing = ("arm", "close", "pilot", "arm-1", "--reason", "unsafe")
    assert deco("trial", *closing, *db_words).json["arms"] == 3
    assert deco("trial", "ask", "pilot", *db_words).json["arm"] == "late"
    shown = deco("trial", "status", "pilot", "--db", db).out
    assert "late joined at stage 1 (by ann): ready" in shown
    assert "arm-1 left at stage 1" in shown
    assert deco("trial", "replay", "pilot", *db_words).json["ok"]
    assert deco("trial", "verify", "pilot", "--db", db).code == 0
    unknown = deco("trial", "arm", "close", "pilot", "zinc", "--reason", "x", "--db", db)
    assert (unknown.code, "no arm is called 'zinc'" in unknown.err) == (2, True)
