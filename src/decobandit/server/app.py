"""The application: middleware around the routes, from the outside in.

Observe > SecurityHeaders > Cors > CatchAll > Probes > SameOrigin > Identify > RateLimit > BodyLimit
> Shares > routes

Probes of liveness and readiness answer while all threads work, while the database stalls, and while
strangers hold all places: no token is looked at, no limit counts them, and one thread is kept for
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from fastapi import FastAPI
from sqlalchemy import select
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from .._version import __version__
from ..support import Cache
from ..trials import Trial, TrialError, schema
from ..trials.checkpoints import PrivateKey
from ..trials.database import Store
from . import errors
from .api import flags, planning, routes  # noqa: F401  # routes of the router
from .api.responses import describe_records
from .api.routing import MAX_CHECKS, MAX_TRIALS
from .api.routing import router as api_router
from .auth import (
    SECURITY_SCHEMES,
    Cors,
    Guard,
    Identify,
    SameOrigin,
    SecurityHeaders,
    checked_origin,
)
from .errors import CatchAll, database_silent, error_response, trial_error
from .limits import BodyLimit, Limits, RateLimit, RecordReaders, Shares
from .long_work import LongWork
from .observation import Metrics, Observe
from .observation import router as metrics_router
from .pages import site as pages
from .request_context import HttpMiddleware


def create_app(
    store: Store,
    *,
    auth: bool = True,
    limits: Limits | None = None,
    allowed_hosts: Iterable[str] = (),
    cors_origins: Iterable[str] = (),
    signing_key: PrivateKey | None = None,
    draw_ahead: int = 0,
) -> FastAPI:
    """Create the server of one database. `auth=False`: every local user is an administrator.

    `cors_origins`: sites whose pages may use the API. `signing_key`: signs checkpoints.
    `draw_ahead`: allocations that are drawn ahead for the flags of each trial.
    """
    limits = limits or Limits()
    guard = Guard(store, limits=limits, auth=auth)
    long_work = LongWork(limits)
    counted = Metrics(store, long_work)
    app = FastAPI(
        title="decobandit trials",
        version=__version__,
        description="Sequential trials with a certified bound on what any design could earn.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # these pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(Observe, metrics=counted),
            Middleware(SecurityHeaders),
            Middleware(Cors, origins=tuple(map(checked_origin, cors_origins))),
            Middleware(CatchAll),
            Middleware(Probes, store=store, limits=limits),
            Middleware(SameOrigin, allowed_hosts=tuple(allowed_hosts)),
            Middleware(Identify, guard=guard, limits=limits),
            Middleware(RateLimit, limits=limits),
            Middleware(BodyLimit, limits=limits),
            Middleware(Shares, limits=limits),
        ],
    )
    app.state.store, app.state.guard, app.state.limits = store, guard, limits
    app.state.long_work, app.state.metrics = long_work, counted
    app.state.trial_cache = Cache[str, Trial](MAX_TRIALS)
    app.state.record_readers = RecordReaders()
    app.state.body_checks = anyio.CapacityLimiter(MAX_CHECKS)
    app.state.signing_key = signing_key
    app.state.desks = flags.Desks(draw_ahead)
    errors.install(app)
    app.include_router(flags.router)  # first: the most frequent
    app.include_router(api_router)
    app.include_router(metrics_router)
    app.include_router(pages.router)
    app.openapi = partial(_document, app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    document = FastAPI.openapi(app)
    if "securitySchemes" not in document["components"]:  # a new document
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        describe_records(document["components"]["schemas"])
    return document


LIVE, READY = "/api/v1/live", "/api/v1/ready"
KNOWN_SECONDS = 0.5  # for which an answer of the database holds


@dataclass(eq=False)
class Probes(HttpMiddleware):
    """Answers the addresses of probes; every other request passes."""

    store: Store
    limits: Limits

    def __post_init__(self) -> None:
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
            with anyio.fail_after(self.limits.ready_seconds):
                await anyio.to_thread.run_sync(
                    self._ask, abandon_on_cancel=True, limiter=self._asker
                )
        except TimeoutError:
            return error_response(database_silent())
        except TrialError as error:
            return error_response(trial_error(error, blinded=True))
        return _ok("ready")

    def _ask(self) -> None:
        now = self.limits.clock()
        if self._answered_at is None or now - self._answered_at >= KNOWN_SECONDS:
            self._answered_at = None
            with self.store.read() as connection:
                connection.execute(select(schema.trials.c.id).limit(1)).first()
            self._answered_at = now


def _ok(status: str) -> Response:
    return JSONResponse({"status": status, "version": __version__})
