"""The tables of a trial database. `migrations/` makes them; a test holds the two together."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

# the head of each chain: without it the loss of the last events would not be noticed
trials = Table(
    "trials",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", Text, nullable=False),
    Column("head_seq", Integer, nullable=False),
    Column("head_hash", Text, nullable=False),
)

# rows are added, never changed; kind and key repeat the body for the database's own checks
events = Table(
    "events",
    metadata,
    Column("trial_id", Text, ForeignKey("trials.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=True),
    Column("body", Text, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("trial_id", "seq"),
    UniqueConstraint("trial_id", "key"),
)

# who may use the server; `seal` is a hash over the other columns
tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("created_at", Text, nullable=False),
    Column("revoked_at", Text, nullable=True),
    Column("seal", Text, nullable=False),
)
