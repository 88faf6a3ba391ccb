"""Databases of every release are opened, checked and continued."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from decobandit.server.tokens import list_tokens
from decobandit.trials import list_trials, open_store, open_trial, verify_export
from decobandit.trials.errors import Closed, Conflict
from decobandit.trials.events import KINDS
from decobandit.trials.schema import metadata

DATA = Path(__file__).parents[1] / "data"
REVISIONS = {"0.1.0": "0001", "0.2.0": "0004"}  # of the database that each release made
TRIALS = {"0.1.0": ("clinic", "field", "shop"), "0.2.0": ("ward", "stream", "grades", "lab")}


def database(version: str, folder: Path) -> Path:
    return Path(shutil.copy(DATA / f"trials-{version}.db", folder / "old.db"))


def events_of(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT trial_id, seq, kind, key, body, hash FROM events ORDER BY trial_id, seq"
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("version", TRIALS)
def test_a_database_is_upgraded_and_keeps_every_event(version: str, tmp_path: Path) -> None:
    old = database(version, tmp_path)
    with closing(sqlite3.connect(old)) as connection:
        found = connection.execute("SELECT * FROM alembic_version").fetchall()
        assert found == [(REVISIONS[version],)]
    before = events_of(old)
    with open_store(old) as store:
        assert {one.name for one in list_trials(db=store, archived=True)} == set(TRIALS[version])
        for name in TRIALS[version]:
            trial = open_trial(name, db=store)
            assert trial.verify().ok
            assert trial.replay().ok
            assert verify_export(trial.export()).ok
        with store.read() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
    assert events_of(old) == before


def test_trials_of_version_0_1_0_go_on(tmp_path: Path) -> None:
    old = database("0.1.0", tmp_path)
    before = events_of(old)
    with open_store(old) as store:
        clinic = open_trial("clinic", db=store)
        assert clinic.status().deployment is not None
        assert clinic.ask(key="ask 3", by="ann").id == clinic.allocations()[3].id
        with pytest.raises(Conflict, match="another outcome"):  # as it was answered then
            clinic.tell(clinic.allocations()[3].id, 1, key="again", by="ben")
        assert events_of(old) == before
        field = open_trial("field", db=store)
        field.tell(field.status().open[0].id, 1)
        assert field.verify().ok
        assert field.replay().ok
        assert [token.name for token in list_tokens(store)] == ["ann", "ben"]
        assert all(token.valid for token in list_tokens(store))


def test_trials_of_version_0_2_0_go_on(tmp_path: Path) -> None:
    old = database("0.2.0", tmp_path)
    before = events_of(old)
    assert {kind for _, _, kind, *_ in before} == set(KINDS)
    with open_store(old) as store:
        ward = open_trial("ward", db=store)
        with pytest.raises(Closed, match="superiority"):
            ward.ask()
        with pytest.raises(Conflict, match="another outcome"):
            ward.tell(ward.allocations()[1].id, 0, key="twice", by="ben")
        assert events_of(old) == before
        stream = open_trial("stream", db=store)
        batch = stream.batches()[-1]
        rest = {one.arm: (0, one.pulls - one.pulls // 2) for one in batch.arms if one.pulls}
        stream.tell_batch(batch.id, rest)
        assert sum(one.pulls for one in stream.ask_batch().arms) == 100
        lab = open_trial("lab", db=store)
        lab.tell(lab.status().open[0].id, 2)
        for trial in (stream, lab):
            assert trial.verify().ok
            assert trial.replay().ok
        tokens = {token.name: token.revoked_at is None for token in list_tokens(store)}
        assert tokens == {"ann": True, "ben": False}
