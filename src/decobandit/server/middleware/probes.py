"""Liveness and readiness, answered before anything that may be busy.

No token is looked at, no thread is needed but one that is kept for this, and no limit counts them:
they answer while all threads work, while the database stalls, and while strangers hold all places.
"""

from __future__ import annotations

import anyio
from sqlalchemy import select
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..._version import __version__
from ...trials import Store, TrialError, schema
from ..errors import database_silent, error_response, trial_error
from .base import HttpMiddleware
from .limits import Limits

LIVE, READY = "/api/v1/live", "/api/v1/ready"
KNOWN_SECONDS = 0.5  # for which an answer of the database holds


class Probes(HttpMiddleware):
    """Answers the addresses of probes; every other request passes."""

    def __init__(self, app: ASGIApp, *, store: Store, limits: Limits) -> None:
        super().__init__(app)
        self._store, self._limits = store, limits
        self._asker = anyio.CapacityLimiter(1)  # one thread asks, however many probes there are
        self._answered_at: float | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in (LIVE, READY) or scope["method"] not in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        answer = _ok("live") if scope["path"] == LIVE else await self._ready()
        await answer(scope, receive, send)

    async def _ready(self) -> Response:
        """Answer whether the database answers in time."""
        try:
            with anyio.fail_after(self._limits.ready_seconds):
                await anyio.to_thread.run_sync(
                    self._ask, abandon_on_cancel=True, limiter=self._asker
                )
        except TimeoutError:
            return error_response(database_silent())
        except TrialError as error:
            return error_response(trial_error(error, blinded=True))
        return _ok("ready")

    def _ask(self) -> None:
        now = self._limits.clock()
        if self._answered_at is None or now - self._answered_at >= KNOWN_SECONDS:
            self._answered_at = None
            with self._store.read() as connection:
                connection.execute(select(schema.trials.c.id).limit(1)).first()
            self._answered_at = now


def _ok(status: str) -> Response:
    return JSONResponse({"status": status, "version": __version__})
