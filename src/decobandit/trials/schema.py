"""The tables of a trial database. `migrations/` makes them; a test holds the two together."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

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


def _id() -> Column[str]:
    return Column("id", Text, primary_key=True)


# the head of each chain: without it the loss of the last events would not be noticed; `damage` is
# what a check found, and when: the trial is not used as long as it stands there; `summary` is what
# a list shows of the trial at that head, and can be made again from the events
trials = Table(
    "trials", metadata, _id(), _text("name", unique=True), _text("created_at"),
    Column("head_seq", Integer, nullable=False), _text("head_hash"),
    _text("damage", nullable=True), _text("summary", nullable=True),
    Index(None, "created_at", "id"),
)  # fmt: skip

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
    "checkpoints", metadata,
    Column("number", Integer, primary_key=True, autoincrement=False), _text("note"),
)  # fmt: skip

# who may use the server
tokens = Table(
    "tokens",
    metadata,
    _id(),
    _text("name", unique=True),
    _text("role"),
    _text("digest", unique=True),
    _text("created_at"),
    _text("revoked_at", nullable=True),
    _text("expires_at"),
    _text("trials", nullable=True),
)

# who did what with tokens and results: one chain of events, and its head, which is one row
people = Table(
    "people", metadata, Column("seq", Integer, primary_key=True, autoincrement=False),
    _text("kind"), _text("body"), _text("hash"),
)  # fmt: skip
people_head = Table(
    "people_head", metadata, Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False), _text("hash"),
)  # fmt: skip
