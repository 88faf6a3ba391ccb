"""The application: middleware around the routes, from the outside in.

Observe > SecurityHeaders > Cors > CatchAll > Probes > SameOrigin > Identify > RateLimit > BodyLimit
> Shares > routes
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.middleware import Middleware

from .._version import __version__
from ..support import Cache
from ..trials import Trial
from ..trials.checkpoints import PrivateKey
from ..trials.database import Store
from . import errors, metrics
from .api import flags, planning, routes  # noqa: F401  # routes of the router
from .api.parameters import MAX_TRIALS
from .api.responses import describe_records
from .api.routing import MAX_CHECKS
from .api.routing import router as api_router
from .auth import SECURITY_SCHEMES, Guard, Identify
from .errors import CatchAll
from .long_work import LongWork
from .middleware.browsers import Cors, SameOrigin, SecurityHeaders, checked_origin
from .middleware.limits import BodyLimit, Limits, RateLimit
from .middleware.probes import Probes
from .middleware.shares import Shares
from .pages import site as pages
from .record_readers import RecordReaders


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
    counted = metrics.Metrics(store, long_work)
    app = FastAPI(
        title="decobandit trials",
        version=__version__,
        description="Sequential trials with a certified bound on what any design could earn.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # these pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(metrics.Observe, metrics=counted),
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
    app.state.body_checks = CapacityLimiter(MAX_CHECKS)
    app.state.signing_key = signing_key
    app.state.desks = flags.Desks(draw_ahead)
    errors.install(app)
    app.include_router(flags.router)  # first: the most frequent
    app.include_router(api_router)
    app.include_router(metrics.router)
    app.include_router(pages.router)
    app.openapi = partial(_document, app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    document = FastAPI.openapi(app)
    if "securitySchemes" not in document["components"]:  # a new document
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        describe_records(document["components"]["schemas"])
    return document
