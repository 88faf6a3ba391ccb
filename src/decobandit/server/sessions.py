"""Sessions of browsers: after the login a browser keeps a random cookie, not the token.

Kept in memory only, as digests: a restart of the server ends all sessions.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from starlette.datastructures import Headers

COOKIE = "deco_session"
MAX_SESSION_SECONDS = 12 * 3600.0  # seconds from the login
MAX_IDLE_SECONDS = 2 * 3600.0  # seconds between two requests
MAX_SESSIONS = 20  # of one token; the one unused for longest is dropped


@dataclass(frozen=True)
class _Session:
    token_id: str
    begun: float
    used: float


class Sessions:
    """Random ids that stand for a token, for some hours."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_digest: dict[bytes, _Session] = {}  # the one unused for longest first

    def begin(self, token_id: str) -> str:
        """Begin a session; the returned value goes into the cookie."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            # many logins with one token must not end the sessions of others
            same = [key for key, one in self._by_digest.items() if one.token_id == token_id]
            if len(same) >= MAX_SESSIONS:
                del self._by_digest[same[0]]
            self._by_digest[_digest(secret)] = _Session(token_id, now, now)
        return secret

    def token_of(self, secret: str) -> str | None:
        """Return the id of the token of a cookie; counts as a use of the session."""
        digest, now = _digest(secret), self._clock()
        with self._lock:
            session = self._by_digest.pop(digest, None)
            if session is None or now - session.begun > MAX_SESSION_SECONDS:
                return None
            if now - session.used > MAX_IDLE_SECONDS:
                return None
            self._by_digest[digest] = replace(session, used=now)
            return session.token_id

    def end(self, secret: str) -> None:
        with self._lock:
            self._by_digest.pop(_digest(secret), None)


def cookie_of(headers: Headers) -> str | None:
    """Return the session cookie of a request; None if there is none or more than one."""
    pairs = [pair.strip() for line in headers.getlist("cookie") for pair in line.split(";")]
    cookies = [pair.removeprefix(f"{COOKIE}=") for pair in pairs if pair.startswith(f"{COOKIE}=")]
    return cookies[0] if len(cookies) == 1 else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
