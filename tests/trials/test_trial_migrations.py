"""The tables that migrations make are those of schema.py, whoever makes them and how often."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from decobandit.trials import migrate, open_store
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
        assert context.get_current_revision() == migrate.REVISIONS[-1]


def test_revisions_are_those_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    found = [script.revision for script in scripts.walk_revisions()]  # the newest first
    assert tuple(reversed(found)) == migrate.REVISIONS


def test_processes_that_open_a_new_database_at_once_take_turns(
    db: str, sql: Any, nursery: Nursery
) -> None:
    said = nursery.side_by_side([("open_only", db)] * 6)
    assert [line["ended"] for line in said if "ended" in line] == [0] * 6
    assert sql("SELECT version_num FROM alembic_version") == [(migrate.REVISIONS[-1],)]
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
