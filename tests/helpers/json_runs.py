"""Every command that has `--json`, run on small problems: what it prints."""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from decobandit.cli import main

from .program import json_object

LONG_AGO = "2020-01-01T00:00:00.000+00:00"
PAIR = 'horizon = 6\n[[arms]]\nname = "a"\n[[arms]]\nname = "b"\n'
BATCHES = "pulls_per_stage = 4\nrepeat = true\n" + PAIR
DEPLOYED = PAIR.replace("6", "2") + "[terminal]\ndeploy = 3\n"
NORMAL = "horizon = 3\n" + "".join(
    f'[[arms]]\nname = "{name}"\nprior = {{ kind = "normal", mean = 0, sd = 1 }}\nnoise_sd = 1\n'
    for name in "ab"
)
CLASSES = "horizon = 3\n" + "".join(
    f'[[arms]]\nname = "{name}"\nprior = {{ kind = "categorical", counts = [1, 1, 1] }}\n'
    "reward = { values = [0, 0.5, 1] }\n"
    for name in "ab"
)
MIXED = (
    'horizon = 4\n[[arms]]\nname = "cure"\n[[arms]]\nname = "machine"\n'
    '[arms.prior]\nkind = "states"\nfirst = "new"\n[arms.prior.states.new]\nmean = 1.0\n'
    'next = { fine = [0.9, "new"], worn = [0.1, "new"] }\n'
)
DESIGN = (
    PAIR
    + """
[design]
policies = ["equal", "deco"]
control = "a"
looks = { first = 2, every = 2 }
stop = { superiority = 0.95 }
test = { kind = "posterior", threshold = 0.9 }
draws = 50
"""
)
SEGMENT = '[[segments]]\nname = "EU"\nshare = 1.0\n'
STOPPING = DESIGN.replace("0.95", "0.6").replace("0.9 }", "0.6 }")
SCENARIOS = """
[[design.scenarios]]
name = "null"
truth = [0.4, 0.4]
[[design.scenarios]]
name = "better"
truth = [0.2, 0.9]
"""
DELAYED = (
    (DESIGN + SCENARIOS)
    .replace("horizon = 6", "horizon = 40")
    .replace("draws = 50", "draws = 50\ndelay = 12")
)
DRAWN = (  # normal outcomes cannot be enumerated
    NORMAL
    + '[design]\npolicies = ["equal"]\ncontrol = "a"\ndraws = 50\n'
    + 'test = { kind = "posterior", threshold = 0.9 }\n'
    + SCENARIOS.replace("[0.4, 0.4]", "[0, 0]").replace("[0.2, 0.9]", "[0, 3]")
)
WARD = """
horizon = 4
[resources]
bed = 1
[[arms]]
name = "a"
uses = { bed = 1 }
count = 2
"""
FILES = {
    "pair.toml": PAIR,
    "paid.toml": 'horizon = 4\nbudget = 3\n[[arms]]\nname = "a"\ncost = 1\ncount = 2\n',
    "ward.toml": WARD,
    "paid_design.toml": (
        'horizon = 4\nbudget = 3\n[[arms]]\nname = "a"\ncost = 1\n[[arms]]\nname = "b"\ncost = 1\n'
        '[design]\npolicies = ["equal", "thompson"]\ndraws = 50\n'
        '[[design.scenarios]]\nname = "s"\ntruth = [0.4, 0.5]\n'
    ),
    "arm.toml": 'name = "late"\n',
    "segments.toml": STOPPING.replace("[[arms]]", SEGMENT + "[[arms]]", 1),
    "long.toml": PAIR.replace("6", "40"),
    "batches.toml": BATCHES,
    "deployed.toml": DEPLOYED,
    "normal.toml": NORMAL,
    "classes.toml": CLASSES,
    "mixed.toml": MIXED,
    "shared_classes.toml": "pulls_per_stage = 4\nrepeat = true\n" + CLASSES,
    "design.toml": DESIGN + SCENARIOS,
    "delayed.toml": DELAYED,
    "drawn.toml": DRAWN,
    "stopping.toml": STOPPING,
    "study.toml": (
        'policies = ["equal", "greedy"]\ndraws = 20\nper_draw = 1\n'
        "[[problems]]\narms = 2\nhorizon = 4\n"
    ),
    "study_wrong.toml": (
        'policies = ["equal"]\ndraws = 20\nper_draw = 1\n[[problems]]\narms = 2\nhorizon = 4\n'
        "truth_prior = { good = 2, bad = 5 }\ntrue_horizon = 3\n"
    ),
    "study_design.toml": (
        '[design]\npolicies = ["equal"]\ncontrol = "a"\ndraws = 20\n'
        'test = { kind = "posterior", threshold = 0.9 }\n'
        + SCENARIOS
        + '[[problems]]\nfile = "pair.toml"\n'
        + '[[problems]]\nfile = "long.toml"\ndesign = { delay = 12 }\n'
    ),
}
Printed = dict[str, list[dict[str, Any]]]


class Session:
    """Runs in one folder with one database; keeps what every command printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed: Printed = defaultdict(list)
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")

    def __call__(self, command: str, *arguments: object) -> Any:
        tree = json_object(_run(*command.split(), *map(str, arguments), "--json"))
        self.printed[f"deco {command}"].append(tree)
        return tree

    def file(self, name: str) -> Path:
        return self.folder / name


def _run(*words: str) -> str:
    """What is printed, in this process: kernels are loaded once for all runs."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["deco", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == 0, f"deco {' '.join(words)}: {err.getvalue()}"
    return out.getvalue()


def run_all(folder: Path) -> Printed:
    """What every command prints, in every form that has other keys."""
    session = Session(folder)
    _problems(session)
    _policies(session)
    _designs(session)
    _trials(session)
    _ends(session)
    _batches(session)
    _people(session)
    _late(session)
    return dict(session.printed)


def _problems(session: Session) -> None:
    pair, deployed, normal, classes = (
        session.file(f"{name}.toml") for name in ("pair", "deployed", "normal", "classes")
    )
    for file in (pair, deployed, normal):
        session("solve", file)
    session("solve", "--arms", 5, "--horizon", 40, "--tol", 1e-15)  # which it does not reach
    session("solve", session.file("paid.toml"))
    session("solve", session.file("ward.toml"))
    session("market", pair)
    session("reproduce", "figure2", "--out", session.file("reproduction"))
    session("optimum", pair)
    session("bound", pair, "--draws", 20)
    session("bound", classes)


def _policies(session: Session) -> None:
    pair, batches, deployed, normal, classes = (
        session.file(f"{name}.toml")
        for name in ("pair", "batches", "deployed", "normal", "classes")
    )
    two = ("--policy", "deco,equal")
    begun = ("--state", "0/1,1/1")
    session("recommend", pair, *begun)
    session("recommend", pair, "--policy", "thompson", *begun)
    session("recommend", pair, *two, *begun)
    session("recommend", batches, "--state", "1/2,1/2")
    session("recommend", deployed, "--policy", "deco", *begun)
    session("recommend", normal, "--policy", "deco", "--state", "0.5/1,0/0")
    session("index", pair)
    session("index", pair, "--policy", "deco-calibrated")
    session("index", pair, "--policy", "deco,fh-gittins")
    session("index", classes, "--stage", 1, "--state", "1+0+0")
    session("evaluate", pair, *two)
    session("evaluate", pair, "--policy", "equal", "--truth", "0.2,0.6")
    session("evaluate", pair, "--policy", "equal", "--truth", "0.4,0.4")
    session("evaluate", classes, "--policy", "greedy")
    draws = ("--draws", 20, "--per-draw", 2)
    session("simulate", pair, *two, *draws)
    session("simulate", pair, "--policy", "equal", "--truth", "0.2,0.6", *draws)
    session("simulate", pair, "--policy", "equal", "--truth-prior", "2,5", *draws)
    session("simulate", normal, "--policy", "equal", *draws)
    session("gap", pair)
    session("gap", pair, *two)
    session("gap", pair, "--method", "simulated", *draws)
    session("gap", session.file("paid.toml"), "--policy", "deco")
    session("path", session.file("paid.toml"), "--policy", "deco")
    session("path", pair, "--policy", "deco")
    session("path", normal, "--policy", "greedy")
    session("path", session.file("mixed.toml"), "--policy", "equal")
    session("path", pair, "--policy", "deco", "--truth", "0.2,0.6", "--expected")


def _designs(session: Session) -> None:
    session("design", session.file("design.toml"), "--inference")
    session("design", session.file("paid_design.toml"))
    session("design", session.file("design.toml"), "--calibrate", 0.2)
    session("design", session.file("delayed.toml"))
    session("design", session.file("delayed.toml"), "--calibrate", 0.3)
    session("design", session.file("drawn.toml"), "--power", 0.5, "--alpha", 0.3)
    session("design", session.file("design.toml"), "--power", 0.5, "--alpha", 0.3, "--seed", 2)
    for name in ("study", "study_wrong", "study_design"):
        session("study run", session.file(f"{name}.toml"))
        session("study show", session.file(f"{name}.toml"))


def _trials(session: Session) -> None:
    db = ("--db", session.file("t.db"))
    session("trial new", session.file("pair.toml"), "--name", "pilot", "--seed", 1, *db)
    session(
        "trial new",
        session.file("pair.toml"),
        "--policy",
        "thompson",
        "--no-bound",
        "--name",
        "draws",
        *db,
    )
    session("trial new", session.file("normal.toml"), "--policy", "deco", "--name", "lab", *db)
    first = session("trial ask", "pilot", "--subject", "s1", "--note", "late", *db)["id"]
    second = session("trial ask", "pilot", *db)["id"]
    session("trial tell", "pilot", first, "good", *db)
    session("trial correct", "pilot", first, "bad", "--reason", "misread", *db)
    session("trial cancel", "pilot", second, "--reason", "no show", *db)
    session("trial ask", "pilot", *db)
    of_lab = session("trial ask", "lab", *db)["id"]
    session("trial tell", "lab", of_lab, 1.5, *db)
    session("trial ask", "draws", *db)
    session("trial review", "pilot", "--up-to", 0, *db)
    unmask = ("--category", "emergency", "--reason", "an emergency")
    session("trial unmask", "pilot", first, *unmask, *db)
    limits = ("--max-open", 3, "--unmask-role", "admin")
    session("trial limits", "pilot", *limits, "--reason", "few beds", *db)
    session("trial arm add", "draws", session.file("arm.toml"), "--reason", "ready", *db)
    session("trial arm close", "draws", "late", "--reason", "unsafe", *db)
    for name in ("pilot", "draws", "lab"):
        session("trial status", name, "--stale-after", 0.01, *db)
        session("trial report", name, *db)
    session("trial list", "--stale-after", 0.01, "--limit", 1, *db)
    session("trial close", "pilot", "--reason", "interim", *db)
    session("trial reopen", "pilot", "--reason", "go on", *db)
    session("trial close", "pilot", "--reason", "end", *db)
    session("trial lock", "pilot", "--by", "ann", *db)
    session("trial unlock", "pilot", "--reason", "filed too early", "--by", "bob", *db)
    session("trial archive", "pilot", "--reason", "filed", *db)
    session("trial list", "--archived", *db)
    session("trial replay", "pilot", *db)
    _records(session, db)


def _ends(session: Session) -> None:
    """Trials that stop by a rule, deploy an arm, have segments or a budget, or gain an arm."""
    db = ("--db", session.file("t.db"))
    session(
        "trial new",
        session.file("stopping.toml"),
        "--policy",
        "equal",
        "--no-bound",
        "--name",
        "ruled",
        "--design-report",
        session.file("stopping.toml"),
        *db,
    )
    for _ in range(2):
        slot = session("trial ask", "ruled", *db)
        session("trial tell", "ruled", slot["id"], int(slot["arm"] == "b"), *db)
    session(
        "trial new",
        session.file("deployed.toml"),
        "--policy",
        "greedy",
        "--no-bound",
        "--name",
        "roll-out",
        *db,
    )
    for _ in range(2):
        slot = session("trial ask", "roll-out", *db)
        session("trial tell", "roll-out", slot["id"], "good", *db)
    segments = session.file("segments.toml")
    session("trial new", segments, "--policy", "deco", "--name", "visits", *db)
    session("trial status", "visits", *db)
    for _ in range(2):
        slot = session("trial ask", "visits", "--segment", "EU", *db)
        session("trial tell", "visits", slot["id"], int(slot["arm"] == "b"), *db)
    session("trial new", session.file("paid.toml"), "--policy", "greedy", "--name", "paid", *db)
    session("trial ask", "paid", *db)
    calibrated = ("--policy", "deco-calibrated", "--name", "growing")
    session("trial new", session.file("pair.toml"), *calibrated, *db)
    session("trial ask", "growing", *db)
    session("trial arm add", "growing", session.file("arm.toml"), "--reason", "ready", *db)
    drawn = ("--policy", "thompson", "--no-bound", "--name", "drawn")
    session("trial new", session.file("pair.toml"), *drawn, *db)
    for _ in range(3):
        slot = session("trial ask", "drawn", *db)
        session("trial tell", "drawn", slot["id"], "good", *db)
    for name in ("ruled", "roll-out", "visits", "paid", "growing", "drawn"):
        session("trial status", name, *db)
        session("trial report", name, *db)
    session("trial list", *db)


def _records(session: Session, db: tuple[object, ...]) -> None:
    head = session("trial verify", *db)["trials"][0]["head"]
    session("trial verify", "pilot", "--head", head, *db)
    key, note = session.file("deco.key"), session.file("note.txt")
    public = session("keys new", "ours", "--out", key)["public_key"]
    session("trial checkpoint", "--key", key, "--out", note, *db)
    session("trial verify", "--checkpoint", note, "--public-key", public, *db)
    session("trial backup", session.file("copy.db"), *db)


def _batches(session: Session) -> None:
    db = ("--db", session.file("t.db"))
    file = session.file("batches.toml")
    session("trial new", file, "--policy", "equal", "--no-bound", "--name", "ab", *db)
    first = session("trial ask", "ab", "--subject", "monday", "--note", "a", *db)["id"]
    session("trial tell", "ab", first, "--counts", "a=1/2,b=0/1", *db)
    session("trial correct", "ab", first, "--counts", "a=2/2", "--reason", "recount", *db)
    second = session("trial ask", "ab", *db)["id"]
    session("trial cancel", "ab", second, "--reason", "outage", *db)
    session("trial allocations", "ab", *db)
    classes = session.file("shared_classes.toml")
    session("trial new", classes, "--policy", "equal", "--no-bound", "--name", "grades", *db)
    third = session("trial ask", "grades", *db)["id"]
    session("trial tell", "grades", third, "--counts", "a=1+0+1", *db)
    session("trial status", "ab", *db)
    session("trial report", "ab", *db)


def _people(session: Session) -> None:
    db = ("--db", session.file("t.db"))
    session("token new", "ann", "--role", "operator", "--trial", "ab", *db)
    session("token list", *db)
    session("token revoke", "ann", *db)
    session("audit people", *db)


def _late(session: Session) -> None:
    """A trial whose outcome has been pending for long."""
    db = ("--db", session.file("old.db"))
    with mock.patch("decobandit.trials.event_log.now", return_value=LONG_AGO):
        new = ("--arms", 2, "--horizon", 4, "--policy", "equal", "--no-bound", "--name", "field")
        session("trial new", *new, *db)
        session("trial ask", "field", *db)
    (pending,) = session("trial status", "field", "--stale-after", 0.1, *db)["stale"]
    session("trial tell", "field", pending, "good", *db)
    session("trial report", "field", "--late-after", 0.1, *db)


def json_type(value: object) -> str:
    """What JSON calls it; whole numbers are integers."""
    names = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
    names |= {list: "list", dict: "object"}
    return names[type(value)]
