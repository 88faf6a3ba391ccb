"""The tables that migrations make are those of schema.py, whoever makes them and how often."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from decobandit import Problem
from decobandit.trials import create_trial, open_store, open_trial, schema
from decobandit.trials.errors import Damaged, StoreError
from decobandit.trials.schema import metadata
from helpers.nursery import Nursery
from helpers.program import deco

pytest_plugins = ["helpers.databases"]

NEWER = "UPDATE alembic_version SET version_num = '9999'"


def test_migrated_tables_are_those_of_the_schema(db: str) -> None:
    with open_store(db) as store, store.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == schema.REVISIONS[-1]


def test_revisions_are_those_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    found = [script.revision for script in scripts.walk_revisions()]  # the newest first
    assert tuple(reversed(found)) == schema.REVISIONS


SECOND = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    op.add_column("trials", sa.Column("colour", sa.Text(), nullable=True))
"""


def test_a_database_of_an_earlier_revision_is_upgraded_with_all_that_is_in_it(
    db: str, sql: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=4), name="pilot", db=store, seed=1)
        trial.tell(trial.ask().id, 1)
    scripts = Path(shutil.copytree(schema.SCRIPTS, tmp_path / "migrations"))
    (scripts / "versions" / "0002_colour.py").write_text(SECOND)
    monkeypatch.setattr(schema, "SCRIPTS", scripts)
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "0002"))
    with open_store(db) as store:
        again = open_trial("pilot", db=store)
        again.tell(again.ask().id, 0)
        assert (again.status().told, again.verify().ok, again.replay().ok) == (2, True, True)
    assert sql("SELECT version_num FROM alembic_version") == [("0002",)]
    assert sql("SELECT name, colour FROM trials") == [("pilot", None)]


def test_processes_that_open_a_new_database_at_once_take_turns(
    db: str, sql: Any, nursery: Nursery
) -> None:
    said = nursery.side_by_side([("open_only", db)] * 6)
    assert [line["ended"] for line in said if "ended" in line] == [0] * 6
    assert sql("SELECT version_num FROM alembic_version") == [(schema.REVISIONS[-1],)]
    later = nursery.side_by_side([("open_only", db)])
    assert [line["alembic"] for line in later if "alembic" in line] == [False]


def test_a_newer_database_is_refused_and_left_alone(db: str, sql: Any) -> None:
    open_store(db).close()
    sql(NEWER)
    for _ in range(2):
        with pytest.raises(StoreError, match="update decobandit"):
            open_store(db)
    assert sql("SELECT version_num FROM alembic_version") == [("9999",)]


def test_the_program_refuses_a_newer_database_in_one_line(sqlite: str) -> None:
    open_store(sqlite).close()
    with closing(sqlite3.connect(sqlite)) as connection, connection:
        connection.execute(NEWER)
    for command in (["trial", "list"], ["trial", "verify"], ["token", "list"], ["serve"]):
        run = deco(*command, "--db", sqlite)
        assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
        assert "update decobandit" in run.err


def test_a_database_of_something_else_is_refused_and_left_alone(db: str, sql: Any) -> None:
    sql("CREATE TABLE recipes (name text)")
    with pytest.raises(StoreError, match="no trial database"):
        open_store(db)
    with pytest.raises(Exception, match="alembic_version"):
        sql("SELECT * FROM alembic_version")


def test_a_database_that_forgot_its_revision_is_refused(db: str, sql: Any) -> None:
    open_store(db).close()
    sql("DELETE FROM alembic_version")
    with pytest.raises(Damaged):
        open_store(db)
    sql("DROP TABLE alembic_version")
    with pytest.raises(StoreError, match="no trial database"):
        open_store(db)


def test_an_unfinished_migration_leaves_nothing(sqlite: str, monkeypatch: Any) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("power failure")

    with monkeypatch.context() as patch:
        patch.setattr("alembic.runtime.migration.HeadMaintainer.update_to_step", broken)
        with pytest.raises(RuntimeError, match="power failure"):
            open_store(sqlite)
    assert Path(sqlite).stat().st_size == 0
    open_store(sqlite).close()
