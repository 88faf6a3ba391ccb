"""The tables of a trial database, and the upgrade of a database to the newest revision."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    inspect,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError, ProgrammingError

from .errors import Damaged, StoreError
from .events import GENESIS

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def _text(name: str, *, nullable: bool = False, unique: bool | None = None) -> Column[str]:
    return Column(name, Text, nullable=nullable, unique=unique)


# the head of each chain reveals the loss of the last events; `damage`: result and time of a failed
# check, which locks the trial; `summary`: line for lists at that head, derived from the events
trials = Table(
    "trials",
    metadata,
    Column("id", Text, primary_key=True),
    _text("name", unique=True),
    _text("created_at"),
    Column("head_seq", Integer, nullable=False),
    _text("head_hash"),
    _text("damage", nullable=True),
    _text("summary", nullable=True),
    Index(None, "created_at", "id"),
)

# rows are added, never changed; kind and key repeat the body, for queries by hand
events = Table(
    "events",
    metadata,
    Column("trial_id", Text, ForeignKey("trials.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    _text("kind"),
    _text("key", nullable=True),
    _text("body"),
    _text("hash"),
    PrimaryKeyConstraint("trial_id", "seq"),
)

# signed notes of all heads, each with the hash of the one before
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    _text("note"),
)

# who may use the server
tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    _text("name", unique=True),
    _text("role"),
    _text("digest", unique=True),
    _text("created_at"),
    _text("revoked_at", nullable=True),
    _text("expires_at"),
    _text("trials", nullable=True),
)

# the access log: one chain of events, and its head, which is one row
people = Table(
    "people",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("body"),
    _text("hash"),
)
people_head = Table(
    "people_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False),
    _text("hash"),
)


# the newest last; a test compares them with the scripts
REVISIONS = ("0001",)
SCRIPTS = Path(__file__).parent / "migrations"
_LOCK = 0x6465636F  # any number that all versions agree on: "deco"
_READ = text("SELECT version_num FROM alembic_version")


def upgrade(engine: Engine) -> None:
    """Create the tables, or upgrade older ones; `StoreError` for an unknown revision."""
    try:
        with engine.connect() as connection:
            revisions = [str(row[0]) for row in connection.execute(_READ)]
    except (OperationalError, ProgrammingError):
        revisions = []  # most likely no such table; other errors occur again below
    if revisions == [REVISIONS[-1]]:
        return
    # writes: the lock is taken at once, so that a process that waited sees the other's tables
    with engine.execution_options(writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        revision = _revision(connection, place_of(engine.url))
        if revision == REVISIONS[-1]:
            return  # another process was first
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
        config.attributes["connection"] = connection
        if revision is None:
            metadata.create_all(connection)
            connection.execute(people_head.insert().values(id=1, seq=-1, hash=GENESIS))
            command.stamp(config, REVISIONS[-1])
        else:
            command.upgrade(config, REVISIONS[-1])


def _revision(connection: Connection, place: str) -> str | None:
    """Return the revision of the database; None if it is certainly empty."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        revisions = [str(row[0]) for row in connection.execute(_READ)]
        if len(revisions) != 1:
            raise Damaged(f"{place}: the database does not say its revision once")
        if revisions[0] not in REVISIONS:
            raise StoreError(
                f"{place}: its tables are of revision {revisions[0]!r}, which this version "
                "does not know; update decobandit"
            )
        return revisions[0]
    if tables:
        raise StoreError(f"{place}: has tables, but is no trial database; give another one")
    # a damaged list of tables may look empty while the pages of the tables are there
    pages = "PRAGMA page_count"
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql(pages).scalar_one() > 1:
        raise Damaged(f"{place}: has contents, but no list of tables")
    return None


def place_of(url: URL) -> str:
    """Return a database as messages name it, without a password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()
