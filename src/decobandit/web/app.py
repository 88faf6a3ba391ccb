"""The application: layers around the routes, from the outside in.

SecurityHeaders > CatchAll > Origins > Identify > RateLimit > BodyLimit > routes
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import FastAPI
from starlette.middleware import Middleware

from .._version import __version__
from ..trials.store import Store
from . import api, errors, pages
from .auth import Guard, Identify
from .errors import CatchAll
from .handles import Handles
from .headers import SecurityHeaders
from .heavy import Heavy
from .limits import BodyLimit, Limits, RateLimit
from .origins import Origins


def create_app(
    store: Store,
    *,
    auth: bool = True,
    limits: Limits | None = None,
    allowed_hosts: Iterable[str] = (),
) -> FastAPI:
    """The server of one database. `auth=False`: whoever is on this machine is an administrator."""
    limits = limits or Limits()
    guard = Guard(store, limits=limits, auth=auth)
    app = FastAPI(
        title="decobandit trials",
        version=__version__,
        description="Sequential trials with a certified bound on what any design could earn.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # these pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(CatchAll),
            Middleware(Origins, allowed_hosts=tuple(allowed_hosts)),
            Middleware(Identify, guard=guard),
            Middleware(RateLimit, limits=limits),
            Middleware(BodyLimit, limits=limits),
        ],
    )
    app.state.store, app.state.guard, app.state.limits = store, guard, limits
    app.state.heavy = Heavy(limits.waiting)
    app.state.handles = Handles(store)
    errors.install(app)
    app.include_router(api.router)
    app.include_router(pages.router)
    return app
