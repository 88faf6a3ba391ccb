"""Asks and tells over HTTP share commits; plain ones go to their endpoint directly."""

from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from decobandit import Arm, BetaBernoulli, Problem, solve
from decobandit.server.limits import Limits
from decobandit.support import Cache
from decobandit.trials import create_trial, list_trials, open_store
from decobandit.trials.errors import StoreError
from decobandit.trials.event_log import event_log_of
from helpers.refusals import refused
from helpers.web_client import SMALL, Site, answers, asking

MANY = 16
LONG = {"horizon": 60, "arms": [{"name": "old"}, {"name": "new"}]}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, Limits())
    yield made
    made.close()


def test_requests_that_come_at_once_share_commits_and_each_is_in_the_log(site: Site) -> None:
    trial = site.trial(LONG)
    path = f"/api/v1/trials/{trial.id}/ask"
    site.post(f"/trials/{trial.id}/ask", {}, "operator")  # makes the tables
    commits: list[Connection] = []
    event.listen(site.store._engine, "commit", commits.append)
    token = site.tokens["operator"]
    found = answers(site.app, [asking("POST", path, token, {}) for _ in range(MANY)])
    assert [answer.status for answer in found] == [200] * MANY
    logged = [slot.id for slot in trial.allocations()[1:]]
    assert sorted(answer.json["id"] for answer in found) == sorted(logged)
    assert len(logged) == MANY
    assert len(commits) < MANY // 2
    assert trial.verify().ok
    assert trial.replay().ok


def test_a_plain_request_is_answered_as_fastapi_answers_it(site: Site) -> None:
    site.post("/trials", {"name": "pilot", "problem": SMALL, "seed": 1})
    sent = {"key": "first", "subject": "S-1", "note": "morning"}
    for role in ("admin", "operator"):
        # a trial that is not open yet is FastAPI's; the same request again is plain
        site.app.state.trial_cache = Cache(1)
        first, again = (site.post("/trials/pilot/ask", sent, role) for _ in range(2))
        assert first.status == again.status == 200
        assert first.body == again.body
        changing = {"x-request-id"}
        assert [h for h in first.headers if h[0] not in changing] == [
            h for h in again.headers if h[0] not in changing
        ]
    wrong = site.post("/trials/pilot/ask", {"subject": 7}, "operator")
    assert (wrong.status, wrong.code) == (422, "invalid")


def test_one_work_that_fails_undoes_nothing_of_the_others(tmp_path: Path) -> None:
    with open_store(tmp_path / "trials.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=50), policy="deco", db=store)
        trial.ask()
        log = event_log_of(store)
        done: list[str] = []

        def fails(connection: Connection) -> None:
            ledger = log.locked(connection, trial.id)
            log.append(connection, ledger, "closed", {}, by="nobody")
            store.after_commit(connection, lambda: done.append("hook of what was undone"))
            raise LookupError("after it was written")

        asks = [trial.asking(subject=None, note=None, key=None, by="x") for _ in range(6)]
        with store._commit_lock:  # so that all of them wait for one commit
            futures = [store.submit(ask.attempt) for ask in asks[:3]]
            failing = store.submit(fails)
            futures += [store.submit(ask.attempt) for ask in asks[3:]]
        wait([*futures, failing], timeout=240)
        assert isinstance(failing.exception(), LookupError)
        made = [future.result().id for future in futures]
        assert [slot.id for slot in trial.allocations()[1:]] == made
        assert not done
        assert trial.verify().ok


def test_a_work_that_a_second_commit_makes_is_not_reported_as_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "trials.db") as store:
        tries: list[str] = []

        def refused_once(_: Connection) -> str:
            tries.append("refused" if not tries else "made")
            if tries[-1] == "refused":
                raise LookupError("taken by a work that is then undone")
            return tries[-1]

        def fails(_: Connection) -> None:
            raise StoreError("the disk is full")

        with store._commit_lock:  # so that both share one commit
            made, failing = store.submit(refused_once), store.submit(fails)
        assert made.result(60) == "made"
        assert isinstance(failing.exception(60), StoreError)


def test_a_trial_whose_tables_do_not_fit_is_refused_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = tuple(Arm(name=f"arm {k}", prior=BetaBernoulli(good=1 + k, bad=2)) for k in range(3))
    problem = Problem(arms=arms, horizon=60)
    solution = solve(problem, tol=0.1)
    monkeypatch.setattr("decobandit.support.machine.limit_bytes", lambda: 800_000)
    with open_store(tmp_path / "trials.db") as store:
        with refused("too_large"):
            create_trial(problem, solution=solution, db=store)
        assert list_trials(db=store) == []


def test_a_trial_whose_tables_no_longer_fit_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = (
        Arm(name="a", prior=BetaBernoulli(good=1, bad=1)),
        Arm(name="b", prior=BetaBernoulli(good=3, bad=2)),
    )
    site.trial(Problem(arms=arms, horizon=60), policy="deco-calibrated")
    monkeypatch.setattr("decobandit.support.machine.limit_bytes", lambda: 1000)
    answer = site.post("/trials/pilot/ask", {}, "operator")
    assert (answer.status, answer.code) == (503, "unavailable")
    assert answer.json["error"]["message"] == (
        "no decision can be made now: the tables of the policy need more memory than there is"
    )
    assert answer.header("retry-after") == "5"
    monkeypatch.undo()
    assert site.post("/trials/pilot/ask", {}, "operator").status == 200
