"""Sessions of browsers: who has shown a token keeps a random cookie, and not the token.

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
LONGEST = 12 * 3600.0  # seconds from the login
IDLE = 2 * 3600.0  # seconds between two requests
MOST = 10_000  # sessions; the one that rested longest makes room


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
        self._by_digest: OrderedDict[bytes, _Session] = OrderedDict()

    def begin(self, token_id: str) -> str:
        """A new session; what is returned goes into the cookie."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._by_digest[_digest(secret)] = _Session(token_id, now, now)
            while len(self._by_digest) > MOST:
                self._by_digest.popitem(last=False)
        return secret

    def token_of(self, secret: str) -> str | None:
        """The id of the token behind a cookie, and one more sign of life."""
        digest, now = _digest(secret), self._clock()
        with self._lock:
            session = self._by_digest.get(digest)
            if session is None:
                return None
            if now - session.begun > LONGEST or now - session.used > IDLE:
                del self._by_digest[digest]
                return None
            session.used = now
            self._by_digest.move_to_end(digest)
            return session.token_id

    def end(self, secret: str) -> None:
        """Forget a session."""
        with self._lock:
            self._by_digest.pop(_digest(secret), None)


def cookie_of(headers: Headers) -> str | None:
    """The session cookie of a request; None where there is none, or more than one."""
    pairs = [pair.strip() for line in headers.getlist("cookie") for pair in line.split(";")]
    found = [pair.removeprefix(f"{COOKIE}=") for pair in pairs if pair.startswith(f"{COOKIE}=")]
    return found[0] if len(found) == 1 else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
