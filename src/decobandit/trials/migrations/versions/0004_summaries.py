"""What lists show of a trial, kept beside its head; the order of lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column, empty: the first list of an older database fills it."""
    op.add_column("trials", sa.Column("summary", sa.Text(), nullable=True))
    op.create_index("ix_trials_created_at_id", "trials", ["created_at", "id"])
