"""Trials and their events, checkpoints, tokens of the server, the access log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=nullable) for name in names]


def _integer(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), autoincrement=False, nullable=False)


def upgrade() -> None:
    """Create the tables, written out: a revision does not change with the tables."""
    op.create_table(
        "trials",
        *_texts("id", "name", "created_at"),
        _integer("head_seq"),
        *_texts("head_hash"),
        *_texts("damage", "summary", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint("name", name="uq_trials_name"),
    )
    op.create_index("ix_trials_created_at_id", "trials", ["created_at", "id"])
    op.create_table(
        "events",
        *_texts("trial_id"),
        _integer("seq"),
        *_texts("kind"),
        *_texts("key", nullable=True),
        *_texts("body", "hash"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_events_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "seq", name="pk_events"),
    )
    op.create_table(
        "checkpoints",
        _integer("number"),
        *_texts("note"),
        sa.PrimaryKeyConstraint("number", name="pk_checkpoints"),
    )
    op.create_table(
        "tokens",
        *_texts("id", "name", "role", "digest", "created_at"),
        *_texts("revoked_at", nullable=True),
        *_texts("expires_at"),
        *_texts("trials", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
    )
    op.create_table(
        "people",
        _integer("seq"),
        *_texts("kind", "body", "hash"),
        sa.PrimaryKeyConstraint("seq", name="pk_people"),
    )
    head = op.create_table(
        "people_head",
        _integer("id"),
        _integer("seq"),
        *_texts("hash"),
        sa.PrimaryKeyConstraint("id", name="pk_people_head"),
    )
    op.bulk_insert(head, [{"id": 1, "seq": -1, "hash": "0" * 64}])
