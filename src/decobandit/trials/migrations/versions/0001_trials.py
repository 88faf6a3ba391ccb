"""The first tables. A new database gets the newest ones from `schema.py`, and is marked so."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database is older than this revision."""
