"""Categories and roles of unmasking, reviews, locks, and where a trial comes from."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decobandit import Design, Problem
from decobandit.bounds.certificate_checker import check
from decobandit.trials import Store, Trial, create_trial, open_store, verify_export
from decobandit.trials.errors import Conflict, Locked, NotPermitted, TrialError
from helpers.refusals import refused

EMERGENCY = {"category": "emergency", "reason": "an adverse event"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "trials.db") as opened:
        yield opened


@pytest.fixture
def trial(store: Store) -> Trial:
    return create_trial(Problem.uniform(arms=2, horizon=6), policy="equal", db=store)


# -- unmasking ------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", ["", "curiosity", "Emergency", None])
def test_unmasking_needs_a_category(trial: Trial, category: str) -> None:
    slot = trial.ask()
    with refused("bad_request", "category", TrialError):
        trial.unmask(slot.id, category=category, reason="an adverse event")
    assert [event.kind for event in trial.events()] == ["created", "asked"]


def test_reports_count_unmaskings_by_category(trial: Trial) -> None:
    slots = [trial.ask() for _ in range(3)]
    for slot, category in zip(slots, ("emergency", "planned", "emergency"), strict=True):
        trial.unmask(slot.id, category=category, reason="asked by the ward", by="nurse")
    report = trial.report()
    assert report.unmasked == {"planned": 1, "emergency": 2, "inadvertent": 0}
    assert [one.category for one in report.changes] == ["emergency", "planned", "emergency"]


def test_unmasking_can_be_limited_to_a_role(trial: Trial) -> None:
    slot = trial.ask()
    trial.set_limits(unmask_role="admin", reason="by protocol")
    for role in (None, "operator"):
        with refused("forbidden", None, NotPermitted):
            trial.unmask(slot.id, **EMERGENCY, role=role, by="nurse")
    assert trial.unmask(slot.id, **EMERGENCY, role="admin", by="chief").arm == slot.arm
    trial.set_limits(unmask_role="any", reason="by amendment")
    assert trial.unmask(slot.id, **EMERGENCY, by="nurse").arm == slot.arm
    with refused("bad_request", "unmask_role", TrialError):
        trial.set_limits(unmask_role="viewer", reason="by mistake")
    roles = [event.data["limits"]["unmask_role"] for event in trial.events()[2:5:2]]
    assert roles == ["admin", None]


# -- reviews --------------------------------------------------------------------------------------


def test_a_review_is_an_event_and_in_the_report(trial: Trial) -> None:
    trial.ask()
    assert trial.report().reviewed is None
    trial.review(up_to=1, note="all in order", by="monitor")
    event = trial.events()[-1]
    assert (event.kind, event.by) == ("reviewed", "monitor")
    assert event.data == {"up_to": 1, "note": "all in order"}
    report = trial.report()
    assert (report.reviewed, report.changes[-1].up_to) == (1, 1)
    assert trial.verify().ok
    assert trial.replay().ok


@pytest.mark.parametrize("up_to", [-1, 2, 10**9, True, 1.0])
def test_what_is_not_on_record_cannot_be_reviewed(trial: Trial, up_to: int) -> None:
    trial.ask()
    with refused("bad_request", "up_to", TrialError):
        trial.review(up_to=up_to)


# -- locks ----------------------------------------------------------------------------------------


def test_only_a_closed_trial_is_locked(trial: Trial) -> None:
    with refused("conflict", None, Conflict):
        trial.lock(by="ann")
    trial.archive()
    with refused("conflict", None, Conflict):
        trial.lock(by="ann")
    trial.reopen(reason="again")
    trial.close()
    assert trial.lock(reason="database lock", by="ann").state == "locked"
    assert trial.lock(by="bob").state == "locked"  # is locked: nothing is written
    assert trial.events()[-1].by == "ann"


def test_a_locked_trial_refuses_every_change(trial: Trial) -> None:
    told, pending = trial.ask(), trial.ask()
    trial.tell(told.id, 1)
    trial.close()
    trial.lock(by="ann")
    changes: list[Callable[[], object]] = [
        lambda: trial.correct(told.id, 0, reason="misread"),
        lambda: trial.tell(pending.id, 0),
        lambda: trial.cancel(pending.id, reason="went home"),
        lambda: trial.reopen(reason="more"),
        trial.archive,
        trial.close,
    ]
    before = len(trial.events())
    for change in changes:
        with refused("locked", None, Locked):
            change()
    assert len(trial.events()) == before
    assert trial.allocation(told.id).outcome == 1
    trial.review(up_to=3, by="monitor")  # reading on is possible


def test_another_person_unlocks_with_a_reason(trial: Trial) -> None:
    slot = trial.ask()
    trial.tell(slot.id, 1)
    trial.close()
    trial.lock(by="ann")
    with refused("conflict", None, Conflict):
        trial.unlock(reason="one more correction", by="ann")
    with refused("bad_request", "reason", TrialError):
        trial.unlock(reason="", by="bob")
    assert trial.unlock(reason="one more correction", by="bob").state == "closed"
    assert trial.correct(slot.id, 0, reason="misread").outcome == 0
    kinds = [event.kind for event in trial.events()]
    assert kinds[-3:] == ["locked", "unlocked", "corrected"]
    assert verify_export(trial.export()).ok
    assert [one.kind for one in trial.report().changes] == ["closed", "locked", "unlocked"]


# -- origin ---------------------------------------------------------------------------------------


def test_the_log_keeps_design_hash_of_its_report_and_certificate(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(b"operating characteristics")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    design = Design(burn_in=1, scenarios=[{"name": "null", "truth": [0.5, 0.5]}])
    problem = Problem.uniform(arms=2, horizon=6)
    trial = create_trial(problem, policy="deco", design=design, design_report=digest, db=store)
    data = trial.events()[0].data
    assert Design.model_validate(data["design"]) == design
    assert data["design_report"] == digest
    assert trial.report().design_report == digest
    bound = trial.settings.upper_bound
    assert trial.certificate is not None
    assert check(trial.certificate) == bound
    assert data["certificate"] == trial.certificate


@pytest.mark.parametrize("text", ["", "abc", "z" * 64, "A" * 64])
def test_the_hash_of_a_report_is_checked(store: Store, text: str) -> None:
    with refused("bad_request", "design_report", TrialError):
        create_trial(Problem.uniform(arms=2, horizon=6), design_report=text, db=store)


def test_without_a_bound_there_is_no_certificate(store: Store) -> None:
    problem = Problem.uniform(arms=2, horizon=6)
    trial = create_trial(problem, policy="equal", bound=False, db=store)
    assert trial.certificate is None
