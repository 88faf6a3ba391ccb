"""The server is the same on SQLite and on PostgreSQL: a trial's whole life, and a race."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from decobandit.server.errors import DATABASE_FAILED, trial_error
from decobandit.server.limits import Limits
from decobandit.trials import Damaged, StoreError
from helpers.web_client import SMALL, Site, answers, asking

pytest_plugins = ["helpers.databases"]

RACERS = 64


@pytest.fixture
def site(tmp_path: Path, db: str) -> Iterator[Site]:
    made = Site(tmp_path, Limits(concurrent=2 * RACERS), db=db)
    yield made
    made.close()


def test_a_trial_lives_and_is_checked(site: Site) -> None:
    made = site.post("/trials", {"name": "pilot", "problem": SMALL, "seed": 1})
    assert made.status == 201
    kinds = ["created"]
    for outcome in (1, 0, 1, 1):
        slot = site.post("/trials/pilot/ask", {}, "operator").json["id"]
        here = f"/trials/pilot/allocations/{slot}"
        assert site.post(f"{here}/tell", {"outcome": outcome}, "operator").status == 200
        assert site.post(f"{here}/tell", {"outcome": 1 - outcome}, "operator").status == 409
        kinds += ["asked", "told", "refused"]
    assert site.post(f"{here}/correct", {"outcome": 0, "reason": "misread"}).json["outcome"] == 0
    kinds.append("corrected")
    assert site.post("/trials/pilot/ask", {}).status == 409

    site.close()
    site.reopen()
    status = site.get("/trials/pilot").json
    assert (status["finished"], status["earned"], status["told"]) == (True, 2.0, 4)
    events = site.get("/trials/pilot/events").json["events"]
    assert [event["kind"] for event in events] == kinds
    assert site.get("/trials/pilot/verify").json == {
        "ok": True,
        "events": len(kinds),
        "head": events[-1]["hash"],
        "problems": [],
    }
    replay = site.get("/trials/pilot/replay").json
    assert (replay["ok"], replay["decisions"], replay["differences"]) == (True, 4, [])
    assert replay["made_by"] == [f"4 by {replay['recomputed_by']}"]
    names = [trial["name"] for trial in site.get("/trials", "viewer").json["trials"]]
    assert names == ["pilot"]


def test_of_many_who_ask_for_the_last_slot_one_gets_it(site: Site) -> None:
    trial = site.trial(SMALL | {"horizon": 3})
    for _ in range(2):
        trial.tell(trial.ask().id, 1)
    path = f"/api/v1/trials/{trial.id}/ask"
    asks = [
        asking("POST", path, site.tokens["operator"], {"key": f"racer {number}"})
        for number in range(RACERS)
    ]
    found = answers(site.app, asks)
    assert Counter(one.status for one in found) == {200: 1, 409: RACERS - 1}
    assert {one.code for one in found if one.status == 409} == {"no_free_slot"}
    assert len(trial.allocations()) == 3
    assert trial.verify().ok


def test_an_error_of_the_database_does_not_tell_where_it_is() -> None:
    for error in (StoreError("/srv/trials.db: disk I/O error"), Damaged("/srv/t.db: is damaged")):
        for blinded in (True, False):
            said = trial_error(error, blinded=blinded)
            assert (said.status_code, said.detail) == (503, DATABASE_FAILED)
    record = Damaged("trial 7, event 3: the event was changed")
    assert trial_error(record, blinded=False).detail == str(record)
    assert trial_error(record, blinded=True).detail == DATABASE_FAILED
