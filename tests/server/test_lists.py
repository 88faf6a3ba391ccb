"""Lists over HTTP come in pages; exports are streamed; stale allocations are shown."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from decobandit import Problem
from decobandit.problem import Looks, Rules, Stop
from decobandit.server.tokens import new_token
from decobandit.trials import Conflict, Trial, create_trial, outcomes_csv
from helpers.program import deco
from helpers.web_client import Site, answer, asking

LONG_AGO = "2020-01-01T00:00:00.000+00:00"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def page(site: Site, path: str, role: str = "admin") -> str:
    """The text of a page, as the bearer of a token gets it."""
    got = answer(site.app, asking("GET", path, site.tokens[role]))
    assert got.status == 200
    return got.body.decode()


@pytest.mark.parametrize("role", ["admin", "viewer", "operator"])
def test_trials_come_in_pages(site: Site, role: str) -> None:
    names = [site.trial(name=f"t{number}", policy="equal").name for number in range(5)]
    whole = site.get("/trials", role).json
    assert set(whole) == {"trials"}
    assert [one["name"] for one in whole["trials"]] == names
    first = site.get("/trials?limit=2", role).json
    assert [one["name"] for one in first["trials"]] == names[:2]
    second = site.get(f"/trials?limit=2&after={first['next']}", role).json
    assert [one["name"] for one in second["trials"]] == names[2:4]
    last = site.get(f"/trials?limit=2&after={second['next']}", role).json
    assert ([one["name"] for one in last["trials"]], "next" in last) == (names[4:], False)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=1001", 422),
        ("limit=x", 422),
        ("after=%00", 422),
        ("after=no", 404),
    ],
)
@pytest.mark.parametrize("path", ["/trials", "/trials/pilot/allocations"])
def test_pages_that_are_not_there_are_refused(
    site: Site, path: str, query: str, status: int
) -> None:
    site.trial(policy="equal")
    got = site.get(f"{path}?{query}")
    assert (got.status, got.code) == (status, "invalid" if status == 422 else "not_found")


def test_events_and_allocations_come_in_pages(site: Site) -> None:
    trial = site.trial(policy="equal")
    slots = [trial.ask().id for _ in range(3)]
    trial.tell(slots[0], 1)
    events = [event.to_dict() for event in trial.events()]
    assert site.get("/trials/pilot/events").json == {"events": events}
    some = site.get("/trials/pilot/events?limit=2&after=0").json
    assert some == {"events": events[1:3], "next": "2"}
    assert site.get("/trials/pilot/events?after=2").json == {"events": events[3:]}
    assert site.get("/trials/pilot/events?after=99").json == {"events": []}
    whole = site.get("/trials/pilot/allocations").json
    assert whole == {"allocations": [slot.to_dict() for slot in trial.allocations()]}
    waiting = site.get("/trials/pilot/allocations?state=open&limit=1").json
    assert [one["id"] for one in waiting["allocations"]] == slots[1:2]
    assert waiting["next"] == slots[1]


def test_exports_are_streamed_and_say_the_same(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decobandit.trials.export.now", lambda: LONG_AGO)
    trial = site.trial(policy="equal")
    trial.tell(trial.ask().id, 1)
    text = "".join(trial.export_text())
    assert json.loads(text) == json.loads(json.dumps(trial.export()))
    got = site.get("/trials/pilot/export")
    assert (got.body.decode(), got.header("content-length")) == (text, None)
    assert page(site, "/trials/pilot/export.json") == text
    assert page(site, "/trials/pilot/export.csv") == outcomes_csv(trial.events())


def test_a_page_of_a_token_for_named_trials_has_only_these(site: Site) -> None:
    made = [site.trial(name=f"t{number}", policy="equal") for number in range(5)]
    made[1].archive()
    _, secret = new_token(site.store, "some", "viewer", trials=["t1", "t2", "t4"])
    site.tokens["some"] = secret
    site.app.state.guard.tokens_changed()
    first = site.get("/trials?limit=1", "some").json
    assert ([one["name"] for one in first["trials"]], first["next"]) == (["t2"], made[2].id)
    last = site.get(f"/trials?limit=1&after={made[2].id}", "some").json
    assert ([one["name"] for one in last["trials"]], "next" in last) == (["t4"], False)
    whole = site.get("/trials?archived=true", "some").json
    assert [one["name"] for one in whole["trials"]] == ["t1", "t2", "t4"]
    for after in ("t3", made[3].id, "nothing"):
        assert site.get(f"/trials?after={after}", "some").status == 404
    shown = page(site, "/", "some")
    assert [f"<strong>t{number}</strong>" in shown for number in range(5)] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert "1 archived" in shown
    assert answer(site.app, asking("GET", "/metrics", secret)).status == 403


def test_stale_allocations_are_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = site.trial(policy="equal")
    with monkeypatch.context() as patch:
        patch.setattr("decobandit.trials.event_log.now", lambda: LONG_AGO)
        old = trial.ask().id
    new = trial.ask().id
    assert site.get("/trials/pilot").json["stale"] == [old]
    (listed,) = site.get("/trials").json["trials"]
    assert (listed["stale"], listed["open_since"]) == (True, LONG_AGO)
    assert page(site, "/").count("stale: pending since 2020-01-01") == 1
    assert page(site, f"/trials/{trial.id}").count("stale: since 2020-01-01") == 1
    assert page(site, f"/trials/{trial.id}/allocations").count("<strong>stale</strong>") == 1
    db = ("--db", site.folder / "site.db")
    assert f"allocation {old}, stale: since 2020-01-01" in deco("trial", "status", "pilot", *db).out
    assert deco("trial", "status", "pilot", "--json", *db).json["stale"] == [old]
    assert "2 stale" in deco("trial", "list", *db).out
    patient = deco("trial", "status", "pilot", "--stale-after", 999_999, "--json", *db).json
    assert (patient["stale"], {one["id"] for one in patient["open"]}) == ([], {old, new})


def test_pages_of_lists_link_to_the_next(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decobandit.server.pages.site.TRIALS_PER_PAGE", 2)
    monkeypatch.setattr("decobandit.server.pages.trial.ALLOCATIONS_PER_PAGE", 2)
    monkeypatch.setattr("decobandit.server.pages.trial.MAX_WAITING", 2)
    made = [site.trial(name=f"t{number}", policy="equal") for number in range(3)]
    first = page(site, "/")
    assert [f"<strong>t{number}</strong>" in first for number in range(3)] == [True, True, False]
    assert f'href="/?after={made[1].id}"' in first
    last = page(site, f"/?after={made[1].id}")
    assert ("<strong>t2</strong>" in last, "Next page" in last) == (True, False)
    slots = [made[0].ask().id for _ in range(4)]
    shown = page(site, f"/trials/{made[0].id}/allocations")
    assert [slot in shown for slot in slots] == [True, True, False, False]
    assert f'href="?after={slots[1]}"' in shown
    rest = page(site, f"/trials/{made[0].id}/allocations?after={slots[1]}&state=open")
    assert [f"<code>{slot}</code>" in rest for slot in slots] == [False, False, True, True]
    run = page(site, f"/trials/{made[0].id}")
    assert [slot in run for slot in slots] == [True, True, False, False]
    assert "2 more are pending" in run


def play(trial: Trial, good: str) -> None:
    """Ask and record at once until no more is allocated; outcomes of one arm are good."""
    while True:
        try:
            slot = trial.ask()
        except Conflict:
            return
        trial.tell(slot.id, int(slot.arm == good))


def ended_trials(site: Site) -> None:
    """One trial of every way to be over, and one that runs, the last made but one."""
    play(site.trial(name="full", policy="equal"), "old")
    rules = Rules(control="arm-1", looks=Looks(first=12, every=6), stop=Stop(superiority=0.99))
    problem = Problem.uniform(arms=3, horizon=60)
    ward = create_trial(problem, policy="equal", name="ward", db=site.store, seed=3, design=rules)
    play(ward, "arm-2")
    assert ward.status().stopped == "superiority"
    for name in ("halted", "put-away", "going", "late"):
        trial = site.trial(name=name, policy="equal")
        trial.tell(trial.ask().id, 1)
        if name == "halted":
            trial.close(reason="holiday")
        elif name == "put-away":
            trial.archive()


def badges(text: str) -> list[tuple[str, str]]:
    """Names and badges of a list, from its elements."""
    found = re.findall(r'<strong>([^<]+)</strong></a>\s*<span class="badge (\w+)">([^<]*)<', text)
    assert all(words.split(":")[0] == kind for _, kind, words in found)
    return [(name, words) for name, _, words in found]


def test_the_list_marks_trials_that_run_and_how_others_ended(site: Site) -> None:
    ended_trials(site)
    running = [("going", "running"), ("late", "running")]
    over = [("full", "finished"), ("ward", "stopped: superiority"), ("halted", "closed")]
    shown = page(site, "/", "viewer")
    assert badges(shown) == running + over
    assert "1 archived" in shown
    assert badges(page(site, "/?archived=true")) == [*running, *over, ("put-away", "archived")]
    assert badges(page(site, "/?state=running")) == running
    assert badges(page(site, "/?state=over")) == over
    kept = {
        one["name"]: (one["finished"], one["stopped"]) for one in site.get("/trials").json["trials"]
    }
    assert kept == {
        "full": (True, None),
        "ward": (False, "superiority"),
        "halted": (False, None),
        "going": (False, None),
        "late": (False, None),
    }


def test_an_operator_is_not_told_by_the_list_which_trials_are_over(site: Site) -> None:
    ended_trials(site)
    shown = page(site, "/", "operator")
    names = re.findall(r"<strong>([^<]+)</strong>", shown)
    assert names == ["full", "ward", "halted", "going", "late"]
    for state in ("running", "over"):
        assert page(site, f"/?state={state}", "operator") == shown
    assert "badge" not in shown


def test_the_program_lists_in_pages(site: Site) -> None:
    ids = [site.trial(name=f"t{number}", policy="equal").id for number in range(3)]
    db = ("--db", site.folder / "site.db")
    first = deco("trial", "list", "--limit", 2, "--json", *db).json
    assert ([one["name"] for one in first["trials"]], first["next"]) == (["t0", "t1"], ids[1])
    last = deco("trial", "list", "--limit", 2, "--after", "t1", "--json", *db).json
    assert ([one["name"] for one in last["trials"]], "next" in last) == (["t2"], False)
    shown = deco("trial", "list", "--limit", 2, *db)
    assert (shown.code, shown.err) == (0, f"more follow: --after {ids[1]}\n")
    for wrong in (("--limit", 0), ("--limit", 1001), ("--after", "nothing")):
        refused = deco("trial", "list", *wrong, *db)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_the_list_shows_progress_the_best_arm_and_the_next_look(site: Site) -> None:
    design = Rules.model_validate(
        {"looks": {"first": 3, "every": 4}, "stop": {"superiority": 0.9999}}
    )
    trial = create_trial(
        Problem.uniform(arms=2, horizon=10),
        policy="equal",
        db=site.store,
        name="led",
        design=design,
    )
    looks = []
    for outcome in (1, 0, 1, 0, 1, 0, 1, 0):  # every pull of the first arm is good
        looks.append(site.get("/trials").json["trials"][0]["next_look"])
        slot = trial.ask()
        trial.tell(slot.id, outcome if slot.arm == "arm-1" else 0)
    assert looks == [3, 3, 3, 7, 7, 7, 7, None]  # the one after would be at 11 of 10
    (summary,) = site.get("/trials").json["trials"]
    assert (summary["leader"], summary["leader_share"]) == ("arm-1", 0.5)
    assert (summary["slots"], summary["told"]) == (10, 8)
    shown = page(site, "/", "viewer")
    assert '<progress max="10" value="8"' in shown
    assert "50 %" in shown
    assert "leader" not in page(site, "/", "operator")


def test_trials_are_found_by_a_part_of_their_name(site: Site) -> None:
    for name in ("Ward 1", "ward 2", "button"):
        site.trial(name=name)
    assert re.findall(r"<strong>([^<]+)</strong>", page(site, "/?find=WARD", "operator")) == [
        "Ward 1",
        "ward 2",
    ]
    assert "No trial has such a name." in page(site, "/?find=nothing", "viewer")
