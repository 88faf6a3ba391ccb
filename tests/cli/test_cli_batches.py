"""`deco trial` in batches, as people type it."""

import json
from pathlib import Path
from typing import Any

import pytest

from decobandit.trials import open_store, open_trial
from helpers.program import Run, deco

PROBLEM = """
horizon = 3
pulls_per_stage = 20
repeat = true
unit = 5

[[arms]]
name = "control"

[[arms]]
name = "third arm"
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    (tmp_path / "ab.toml").write_text(PROBLEM, encoding="utf-8")
    made = deco(
        "trial",
        "new",
        tmp_path / "ab.toml",
        "--policy",
        "equal",
        "--no-bound",
        "--name",
        "ab",
        "--db",
        tmp_path / "t.db",
        "--json",
    ).json
    assert made["upper_bound"] is None
    return tmp_path / "t.db"


def trial(db: Path, command: str, *words: object) -> Run:
    return deco("trial", command, "ab", *words, "--db", db)


def said(db: Path, command: str, *words: object) -> Any:
    return trial(db, command, *words, "--json").json


def test_counts_of_arms_whose_names_have_commas(tmp_path: Path) -> None:
    file, db = tmp_path / "two.toml", tmp_path / "t.db"
    file.write_text(
        'horizon = 2\npulls_per_stage = 10\nrepeat = true\n[[arms]]\nname = "drug, 10 mg"\n'
        '[[arms]]\nname = "drug, 20 mg = 2 x 10"\n',
        encoding="utf-8",
    )
    new = ("trial", "new", file, "--policy", "equal", "--no-bound", "--name", "ab", "--db", db)
    assert deco(*new).code == 0
    batch = said(db, "ask")
    counts = "drug, 10 mg=3/5, drug, 20 mg = 2 x 10=1/2"
    told = said(db, "tell", batch["id"], "--counts", counts)
    assert [(one["good"], one["bad"]) for one in told["arms"]] == [(3, 2), (1, 1)]
    refused = trial(db, "tell", batch["id"], "--counts", "drug 10 mg")
    assert (refused.code, "must be ARM=GOOD/PULLS" in refused.err) == (2, True)


def test_a_batched_trial_from_its_beginning_to_its_end(db: Path, tmp_path: Path) -> None:
    batch = said(db, "ask", "--subject", "hour 1")
    assert (batch["arm"], batch["pulls"]) == (None, {"control": 10, "third arm": 10})
    assert said(db, "ask", "--subject", "hour 1") == batch
    told = said(db, "tell", batch["id"], "--counts", "control=3/5,third arm=1/2")
    assert (told["told"], told["pending"]) == (7, 13)
    rows, counts = tmp_path / "rows.csv", tmp_path / "counts.csv"
    rows.write_text("variant,converted\ncontrol,1\nthird arm,0\ncontrol,bad\n", encoding="utf-8")
    told = said(
        db,
        "tell",
        batch["id"],
        "--data",
        rows,
        "--arm-column",
        "variant",
        "--outcome-column",
        "converted",
    )
    assert [(one["good"], one["bad"]) for one in told["arms"]] == [(4, 3), (1, 2)]
    counts.write_text("arm,good,pulls\ncontrol,0,1\ncontrol,1,1\n", encoding="utf-8")
    told = said(db, "tell", batch["id"], "--data", counts)
    assert [(one["good"], one["bad"]) for one in told["arms"]] == [(5, 4), (1, 2)]
    late = said(db, "ask")  # while outcomes of the first are pending
    assert (late["stage"], said(db, "status")["allocated"]) == (1, 40)
    fixed = said(db, "correct", batch["id"], "--counts", "control=4/8", "--reason", "typo")
    assert [one["pending"] for one in fixed["arms"]] == [2, 7]
    gone = said(db, "cancel", batch["id"], "--reason", "hour over")
    assert (gone["state"], gone["change_reason"]) == ("told", "hour over")
    listed = said(db, "allocations")["allocations"]
    assert [one["id"] for one in listed] == [batch["id"], late["id"]]
    status = said(db, "status")
    assert (status["upper_bound"], status["bound_from_here"]) == (None, None)
    assert [one["id"] for one in status["open"]] == [late["id"]]
    assert trial(db, "replay").code == 0
    export = tmp_path / "ab.json"
    assert trial(db, "export", "--out", export).code == 0
    assert deco("trial", "verify", "--export", export).code == 0
    tree = json.loads(export.read_text(encoding="utf-8"))
    tree["allocations"][0]["arms"][0]["good"] += 1
    export.write_text(json.dumps(tree), encoding="utf-8")
    assert deco("trial", "verify", "--export", export).code == 1


def test_people_read_counts_shares_and_that_there_is_no_bound(db: Path) -> None:
    shown = trial(db, "ask").out
    assert ": 20 pulls, stage 0, pending" in shown
    assert "share" in shown
    assert "no bound: the dual was not solved" in trial(db, "status").out
    assert "next: control 10, third arm 10" in trial(db, "status").out
    verified = trial(db, "verify")
    assert (verified.code, "no bound: the dual was not solved" in verified.out) == (0, True)
    assert "control 10, third arm 10" in trial(db, "allocations").out
    assert trial(db, "report").code == 0


BAD = [
    (["--counts", "ctrl=1/3"], "no arm is called 'ctrl'; arms: control, third arm"),
    (["--counts", "control=١/٢"], "counts: control=١/٢; must be good/pulls"),
    (["--counts", "control=5/3"], "counts: control=5/3; must be good/pulls"),
    (["--counts", "control=-1/3"], "counts: control=-1/3; must be good/pulls"),
    (["--counts", "control"], "--counts: 'control'; must be ARM=GOOD/PULLS"),
    (["--counts", "control=1/2,control=1/2"], "'control' is named twice"),
    (["--counts", "control=1/11"], "control: more outcomes than pulls are pending"),
    (["--counts", "control=0/0"], "no outcomes"),
    (["good"], "the allocation has 20 pulls: give their outcomes by arm"),
    ([], "or --counts ARM=GOOD/PULLS"),
    (["good", "--counts", "control=1/2"], "not both"),
    (["--data", "none.csv"], "none.csv: no such file"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_outcomes_are_refused_in_one_line(db: Path, words: list[str], message: str) -> None:
    batch = said(db, "ask")
    run = trial(db, "tell", batch["id"], *words)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert message in run.err
    with open_store(db) as store:
        assert open_trial("ab", db=store).allocation(batch["id"]).told == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm,result\ncontrol,1\n", "no column 'outcome'; needs arm and outcome, or arm, good and"),
        ("arm,good\ncontrol,1\n", "no column 'outcome'"),
        ("good,pulls\n1,2\n", "no column 'arm'"),
        ("arm,good,pulls\ncontrol,3,2\n", "line 2: good 3; must be at most pulls, 2"),
        ("arm,good,pulls\ncontrol,-1,2\n", "line 2: good '-1'; must be a whole number"),
        ("arm,good,pulls\ncontrol,1.5,2\n", "line 2: good '1.5'; must be a whole number"),
        ("arm,outcome\nother,1\n", "line 2: no arm is called 'other'"),
        ("arm,outcome\n", "there are no outcomes in it"),
    ],
)
def test_bad_files_are_refused_with_their_line(db: Path, text: str, message: str) -> None:
    batch = said(db, "ask")
    file = db.parent / "rows.csv"
    file.write_text(text, encoding="utf-8")
    run = trial(db, "tell", batch["id"], "--data", file)
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert message in run.err


def test_what_is_no_allocation_or_no_outcome_is_said(db: Path) -> None:
    new = deco("trial", "new", "--arms", 2, "--horizon", 3, "--name", "single", "--db", db)
    assert new.code == 0
    slot = deco("trial", "ask", "single", "--db", db, "--json").json["id"]
    for words, message in (
        (["tell", "ab", "none", "--counts", "control=1/2"], "no such allocation in this trial"),
        (["correct", "ab", "none", "--counts", "control=1/2", "--reason", "x"], "no such alloc"),
        (["tell", "single", slot, "--counts", "arm-2=0/2"], "arm-2: more outcomes than pulls"),
        (["tell", "single", slot], "give the outcome of a single pull, such as good or bad"),
    ):
        run = deco("trial", *words, "--db", db)
        assert (run.code, run.err.count("\n")) == (2, 1)
        assert message in run.err
    one = deco("trial", "tell", "single", slot, "--counts", "arm-1=1/1", "--db", db, "--json").json
    assert (one["arm"], one["outcome"], one["state"]) == ("arm-1", 1, "told")
