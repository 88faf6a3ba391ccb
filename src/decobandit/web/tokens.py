"""Tokens: long random words that open the server, each with a name and a role.

The database has their SHA-256 digests only; a token has 256 random bits, so that its digest need
not be slow. `seal` is a digest over the other columns: a row in which a byte was flipped, by a
failing disk or a careless hand, opens nothing. It is no signature: who can write to the database
can write a seal.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from ..trials import schema
from ..trials.errors import Conflict, NotFound, TrialError
from ..trials.store import Store

Role = Literal["admin", "operator", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)
PREFIX = "deco_"
FRESH = 1.0  # seconds that the table is believed after it was read
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
_table = schema.tokens


@dataclass(frozen=True)
class Token:
    """What is known of a token; not the token itself."""

    id: str
    name: str
    role: str
    digest: str
    created_at: str
    revoked_at: str | None
    seal: str

    @property
    def intact(self) -> bool:
        """Whether the row is as it was written."""
        if not all(isinstance(value, str | None) for value in self.__dict__.values()):
            return False
        return hmac.compare_digest(self.seal.encode(), _seal(self.__dict__).encode())

    @property
    def valid(self) -> bool:
        """Whether it opens the server."""
        return self.revoked_at is None and self.role in ROLES and self.intact

    def to_dict(self) -> dict[str, Any]:
        """For people: without digest and seal."""
        shown = ("id", "name", "role", "created_at", "revoked_at")
        return {name: getattr(self, name) for name in shown} | {"intact": self.intact}


def _seal(row: dict[str, Any]) -> str:
    sealed = [row[name] for name in ("id", "name", "role", "digest", "created_at", "revoked_at")]
    return hashlib.sha256(json.dumps(sealed).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def digest_of(secret: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(store: Store, name: str, role: str) -> tuple[Token, str]:
    """A new token, and the word that is shown once."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise TrialError(
            "a token's name has 1 to 64 letters, digits and . _ @ -, and begins with one of the "
            "first two"
        )
    if role not in ROLES:
        raise TrialError(f"no such role; there are {', '.join(ROLES)}")
    secret = PREFIX + secrets.token_urlsafe(32)
    row: dict[str, Any] = {
        "id": secrets.token_hex(8), "name": name, "role": role, "digest": digest_of(secret),
        "created_at": _now(), "revoked_at": None,
    }  # fmt: skip
    row["seal"] = _seal(row)

    def work(connection: Connection) -> None:
        taken = Conflict(f"a token called {name!r} exists; choose another name")
        if connection.execute(select(_table.c.id).where(_table.c.name == name)).first():
            raise taken
        try:
            connection.execute(insert(_table).values(row))
        except IntegrityError:  # another process was quicker
            raise taken from None

    store.write(work)
    return Token(**row), secret


def list_tokens(store: Store) -> list[Token]:
    """All of them, the oldest first."""
    with store.read() as connection:
        rows = connection.execute(select(_table).order_by(_table.c.created_at, _table.c.name))
        return [_token(row) for row in rows]


def revoke_token(store: Store, name: str) -> Token:
    """Make a token open nothing from now on; its name stays taken."""

    def work(connection: Connection) -> Token:
        row = connection.execute(select(_table).where(_table.c.name == name)).one_or_none()
        if row is None:
            raise NotFound("no token has that name")
        token = _token(row)
        if token.revoked_at is not None:
            return token
        changed = token.__dict__ | {"revoked_at": _now()}
        if token.intact:  # the seal of a damaged row is left broken: it is evidence
            changed["seal"] = _seal(changed)
        connection.execute(update(_table).where(_table.c.id == token.id).values(changed))
        return Token(**changed)

    return store.write(work)


def _token(row: Row[Any]) -> Token:
    return Token(**row._mapping)


class TokenBook:
    """The valid tokens, in memory.

    The table is read again when it is older than a second: that is how long a token lives on that
    another process revoked. What this process changes counts at once (`forget`). However many
    wrong tokens are tried, the database is read once a second.
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float] = time.monotonic, fresh: float = FRESH
    ) -> None:
        self.store, self._clock, self._fresh = store, clock, fresh
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._changes = 0
        self._by_digest: dict[str, Token] = {}
        self._by_id: dict[str, Token] = {}

    @property
    def stale(self) -> bool:
        """Whether the next question reads the database."""
        read_at = self._read_at
        return read_at is None or self._clock() - read_at >= self._fresh

    def forget(self) -> None:
        """Read the table again at the next question."""
        self._changes += 1
        self._read_at = None

    def refresh(self) -> None:
        """Read the table, if what is known of it is old."""
        if self.stale:
            with self._lock:
                if self.stale:
                    began, changes = self._clock(), self._changes
                    valid = [token for token in list_tokens(self.store) if token.valid]
                    self._by_digest = {token.digest: token for token in valid}
                    self._by_id = {token.id: token for token in valid}
                    # what was changed while we read counts as unread
                    self._read_at = began if changes == self._changes else None

    def find(self, secret: str) -> Token | None:
        """The valid token of that word."""
        self.refresh()
        digest = digest_of(secret)
        token = self._by_digest.get(digest)
        # a dictionary is not constant in time, but what it compares is a digest: nobody can
        # choose its first characters; the comparison that decides is constant
        if token is None or not hmac.compare_digest(token.digest, digest):
            return None
        return token

    def by_id(self, token_id: str) -> Token | None:
        """The valid token of that id."""
        self.refresh()
        return self._by_id.get(token_id)
