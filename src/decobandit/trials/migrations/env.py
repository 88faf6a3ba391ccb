"""Run by Alembic: the revisions, on the connection and in the transaction that `migrate` opened."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
