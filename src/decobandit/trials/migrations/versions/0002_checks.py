"""Damage that was found, checkpoints; keys belong to persons and are not unique in a trial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Change the tables. SQLite copies the events into a table without the constraint."""
    op.add_column("trials", sa.Column("damage", sa.Text(), nullable=True))
    with op.batch_alter_table("events") as events:
        events.drop_constraint("uq_events_trial_id_key", type_="unique")
    op.create_table(
        "checkpoints",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_checkpoints"),
    )
