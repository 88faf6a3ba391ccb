"""Tokens: random secrets that authenticate requests, each with a name and a role.

The database has their SHA-256 digests only; a token has 256 random bits, so that its digest need
not be slow. The access log has a digest of every row, so that `deco trial verify` finds one that
was changed, removed or added there.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from ..support.records import doc, record_class
from ..trials import schema
from ..trials.database import Store
from ..trials.errors import Conflict, NotFound, TrialError
from ..trials.event_log import lock, record, token_digest, trial_id
from ..trials.events import digest

Role = Literal["admin", "operator", "viewer", "app"]
ROLES: tuple[Role, ...] = get_args(Role)
PREFIX = "deco_"
MAX_AGE_SECONDS = 1.0  # of the table in memory
DEFAULT_DAYS = 90  # until a token expires
MAX_DAYS = 3650
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
_table = schema.tokens


@record_class()
class Token:
    """A token as the database has it: without the secret."""

    id: str = doc("Random; not the secret.")
    name: str = doc("Unique, also among revoked tokens. The log calls the sender of a request so.")
    role: str = doc("admin, operator, viewer or app.")
    digest: str = doc("SHA-256 of the secret.")
    created_at: str = doc("ISO 8601, UTC.")
    revoked_at: str | None = doc("When it was revoked; null while it is valid.")
    expires_at: str = doc("When it ends: ISO 8601, UTC.")
    trials: str | None = doc(
        "Names of the trials that it is for, in the database as JSON; null: all.", default=None
    )

    @property
    def expired(self) -> bool:
        # both in UTC and in the same form: the order of the texts is that of the times
        return self.expires_at <= _now()

    @property
    def valid(self) -> bool:
        return self.revoked_at is None and self.role in ROLES and not self.expired

    @property
    def only_trials(self) -> frozenset[str] | None:
        """The names of the trials that it is for; None: all."""
        return None if self.trials is None else frozenset(json.loads(self.trials))

    @property
    def administers_all(self) -> bool:
        """Whether its owner can do everything: it is valid, an administrator's, for all trials."""
        return self.valid and self.role == "admin" and self.trials is None

    def to_dict(self) -> dict[str, Any]:
        """For people: without the digest."""
        trials = None if self.trials is None else json.loads(self.trials)
        shown = {name: value for name, value in vars(self).items() if name != "digest"}
        return shown | {"trials": trials}


def _now(days: int = 0) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="milliseconds")


def new_token(
    store: Store,
    name: str,
    role: str,
    *,
    days: int = DEFAULT_DAYS,
    trials: Sequence[str] = (),
    by: str = "library",
) -> tuple[Token, str]:
    """Create a token, with its secret, which is shown once.

    `days`: until it expires. `trials`: names of the trials that it is for; none: all. `by`: who
    makes it, for the access log.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise TrialError(
            "a token's name has 1 to 64 letters, digits and . _ @ -, and begins with one of the "
            "first two"
        )
    if role not in ROLES:
        raise TrialError(f"no such role; there are {', '.join(ROLES)}")
    if not 1 <= days <= MAX_DAYS:
        raise TrialError(f"days: {days}; a token is valid for 1 to {MAX_DAYS} days")
    secret = PREFIX + secrets.token_urlsafe(32)
    row: dict[str, Any] = {
        "id": secrets.token_hex(8),
        "name": name,
        "role": role,
        "digest": digest(secret),
        "created_at": _now(),
        "revoked_at": None,
        "expires_at": _now(days),
        "trials": None,
    }

    def work(connection: Connection) -> None:
        taken = Conflict(f"a token called {name!r} exists; choose another name")
        if connection.execute(select(_table.c.id).where(_table.c.name == name)).first():
            raise taken
        if trials:
            ids = [trial_id(connection, one) for one in trials]  # `NotFound` if there is none
            named = select(schema.trials.c.name).where(schema.trials.c.id.in_(ids))
            row["trials"] = json.dumps(sorted(connection.execute(named).scalars()))
            if role == "admin" and not any(one.administers_all for one in _rows(connection)):
                raise Conflict(
                    "the only administrator cannot be limited to trials; make one for all first"
                )
        try:
            connection.execute(insert(_table).values(row))
        except IntegrityError:  # another process was first
            raise taken from None
        record(connection, "token_made", _log_entry(Token(**row)), by=by)

    store.write(work)
    return Token(**row), secret


def _log_entry(token: Token) -> dict[str, Any]:
    """Return the entry of a token in the access log; `row` is the whole row."""
    tree = token.to_dict()
    shown = {name: tree[name] for name in ("role", "expires_at", "trials")}
    return {"token": token.name, **shown, "row": token_digest(token.__dict__)}


def _rows(connection: Connection) -> list[Token]:
    order = select(_table).order_by(_table.c.created_at, _table.c.name)
    return [Token(**row._mapping) for row in connection.execute(order)]


def list_tokens(store: Store) -> list[Token]:
    """All of them, the oldest first."""
    with store.read() as connection:
        return _rows(connection)


def revoke_token(store: Store, name: str, *, by: str = "library") -> Token:
    """Revoke a token; its name stays taken. The last administrator's is refused."""

    def work(connection: Connection) -> Token:
        lock(connection)  # two administrators must not revoke each other at the same moment
        tokens = {token.name: token for token in _rows(connection)}
        if name not in tokens:
            raise NotFound("no token has that name")
        token = tokens.pop(name)
        if token.revoked_at is not None:
            return token
        if token.administers_all and not any(one.administers_all for one in tokens.values()):
            raise Conflict(
                "this is the only administrator's token that is valid for all trials; "
                "make another one first"
            )
        changed = token.__dict__ | {"revoked_at": _now()}
        connection.execute(update(_table).where(_table.c.id == token.id).values(changed))
        revoked = Token(**changed)
        record(connection, "token_revoked", _log_entry(revoked), by=by)
        return revoked

    return store.write(work)


class TokenCache:
    """The valid tokens, in memory.

    The table is read again when it is older than a second: so long a token stays valid that another
    process revoked. What this process changes counts at once (`forget`). However many wrong tokens
    are tried, the database is read at most once a second.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self._clock = store, clock
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._changes = 0
        self._by_digest: dict[str, Token] = {}
        self._by_id: dict[str, Token] = {}

    @property
    def stale(self) -> bool:
        """Whether the next lookup reads the database."""
        read_at = self._read_at
        return read_at is None or self._clock() - read_at >= MAX_AGE_SECONDS

    def forget(self) -> None:
        """Read the table again at the next lookup."""
        self._changes += 1
        self._read_at = None

    def refresh(self) -> None:
        """Read the table, if what is known of it is old."""
        with self._lock:
            if self.stale:
                began, changes = self._clock(), self._changes
                valid = [token for token in list_tokens(self.store) if token.valid]
                self._by_digest = {token.digest: token for token in valid}
                self._by_id = {token.id: token for token in valid}
                # what was changed while we read counts as unread
                self._read_at = began if changes == self._changes else None

    def find(self, secret: str) -> Token | None:
        self.refresh()
        return self.known(secret)

    def known(self, secret: str) -> Token | None:
        """Return the token that was valid at the last `refresh`; the database is not read."""
        stored = digest(secret)
        token = self._by_digest.get(stored)
        # a dictionary is not constant in time, but what it compares is a digest: nobody can
        # choose its first characters; the comparison that decides is constant
        if token is None or not hmac.compare_digest(token.digest, stored):
            return None
        return token

    def by_id(self, token_id: str) -> Token | None:
        return self._by_id.get(token_id)
