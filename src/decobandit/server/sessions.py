"""Sessions of browsers: after the login a browser keeps a random cookie, not the token.

Kept in memory only, as digests: a restart of the server ends all sessions.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers

COOKIE = "deco_session"
MAX_SESSION_SECONDS = 12 * 3600.0  # seconds from the login
MAX_IDLE_SECONDS = 2 * 3600.0  # seconds between two requests
MAX_SESSIONS = 20  # of one token; the one unused for longest is dropped


@dataclass
class _Session:
    token_id: str
    begun: float
    used: float


class Sessions:
    """Random ids that stand for a token, for some hours."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_digest: dict[bytes, _Session] = {}
        # those of one token, the one unused for longest first: many logins with one token must not
        # end the sessions of others
        self._of_token: dict[str, OrderedDict[bytes, None]] = {}

    def begin(self, token_id: str) -> str:
        """Begin a session; the returned value goes into the cookie."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        digest = _digest(secret)
        with self._lock:
            self._by_digest[digest] = _Session(token_id, now, now)
            sessions = self._of_token.setdefault(token_id, OrderedDict())
            sessions[digest] = None
            if len(sessions) > MAX_SESSIONS:
                self._drop(next(iter(sessions)))
        return secret

    def token_of(self, secret: str) -> str | None:
        """Return the id of the token of a cookie; counts as a use of the session."""
        digest, now = _digest(secret), self._clock()
        with self._lock:
            session = self._by_digest.get(digest)
            if session is None:
                return None
            if now - session.begun > MAX_SESSION_SECONDS or now - session.used > MAX_IDLE_SECONDS:
                self._drop(digest)
                return None
            session.used = now
            self._of_token[session.token_id].move_to_end(digest)
            return session.token_id

    def end(self, secret: str) -> None:
        """End the session with this secret."""
        with self._lock:
            self._drop(_digest(secret))

    def _drop(self, digest: bytes) -> None:
        session = self._by_digest.pop(digest, None)
        if session is not None:
            sessions = self._of_token[session.token_id]
            del sessions[digest]
            if not sessions:
                del self._of_token[session.token_id]


def cookie_of(headers: Headers) -> str | None:
    """Return the session cookie of a request; None if there is none or more than one."""
    pairs = [pair.strip() for line in headers.getlist("cookie") for pair in line.split(";")]
    cookies = [pair.removeprefix(f"{COOKIE}=") for pair in pairs if pair.startswith(f"{COOKIE}=")]
    return cookies[0] if len(cookies) == 1 else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
