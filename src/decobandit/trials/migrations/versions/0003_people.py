"""The log of people; tokens that expire, and tokens for named trials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Tokens that are there stay as they are: they do not expire, and hold for all trials."""
    op.add_column("tokens", sa.Column("expires_at", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("trials", sa.Text(), nullable=True))
    op.create_table(
        "people",
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_people"),
    )
    head = op.create_table(
        "people_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_people_head"),
    )
    op.bulk_insert(head, [{"id": 1, "seq": -1, "hash": "0" * 64}])
