"""Every route of the API, and who may use it."""

from collections.abc import Iterator

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

Method = tuple[str, str]


BOTH = ("admin", "operator")


READERS = ("admin", "viewer")


ALL = ("admin", "operator", "viewer")  # roles of people


ROLES = (*ALL, "app")


APPS = ("admin", "app")


OPEN = (*ROLES, "nobody")


PROBES = ("/api/v1/live", "/api/v1/ready")  # nobody's token is looked at


DOCUMENTS = ("/api/v1/openapi.json", "/api/docs")  # of the API itself; not among its operations


TABLE: dict[Method, tuple[str, ...]] = {
    ("GET", "/api/v1/openapi.json"): OPEN,
    ("GET", "/api/docs"): OPEN,
    ("GET", "/api/v1/health"): OPEN,
    ("GET", "/api/v1/live"): OPEN,
    ("GET", "/api/v1/ready"): OPEN,
    ("POST", "/api/v1/trials"): ("admin",),
    ("GET", "/api/v1/trials"): ALL,
    ("GET", "/api/v1/trials/{trial}"): ALL,
    ("POST", "/api/v1/trials/{trial}/ask"): (*BOTH, "app"),
    ("POST", "/api/v1/trials/{trial}/allocations/{allocation}/tell"): (*BOTH, "app"),
    ("POST", "/api/v1/trials/{trial}/allocations/{allocation}/cancel"): BOTH,
    ("POST", "/api/v1/trials/{trial}/allocations/{allocation}/correct"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/allocations/{allocation}/unmask"): BOTH,
    ("POST", "/api/v1/trials/{trial}/close"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/reopen"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/archive"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/lock"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/unlock"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/review"): READERS,
    ("POST", "/api/v1/trials/{trial}/limits"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/arms"): ("admin",),
    ("POST", "/api/v1/trials/{trial}/arms/{arm}/close"): ("admin",),
    ("GET", "/api/v1/trials/{trial}/why"): READERS,
    ("GET", "/api/v1/trials/{trial}/allocations"): READERS,
    ("GET", "/api/v1/trials/{trial}/allocations/{allocation}"): ALL,
    ("GET", "/api/v1/trials/{trial}/events"): READERS,
    ("GET", "/api/v1/trials/{trial}/verify"): READERS,
    ("GET", "/api/v1/trials/{trial}/replay"): READERS,
    ("GET", "/api/v1/trials/{trial}/export"): READERS,
    ("GET", "/api/v1/trials/{trial}/path"): READERS,
    ("GET", "/api/v1/trials/{trial}/report"): READERS,
    ("POST", "/api/v1/plan"): READERS,
    ("POST", "/api/v1/design"): READERS,
    ("POST", "/api/v1/design/report"): READERS,
    ("POST", "/ofrep/v1/evaluate/flags"): APPS,
    ("POST", "/ofrep/v1/evaluate/flags/{trial}"): APPS,
    ("POST", "/api/v1/checkpoints"): ("admin",),
    ("GET", "/api/v1/people"): ("admin",),
    ("GET", "/api/v1/tokens"): ("admin",),
    ("POST", "/api/v1/tokens"): ("admin",),
    ("DELETE", "/api/v1/tokens/{name}"): ("admin",),
}


def routes_of(routes: list[BaseRoute]) -> Iterator[Route]:
    """All routes, those of routers included."""
    for route in routes:
        if isinstance(route, Route | APIRoute):
            yield route
        else:
            yield from routes_of(getattr(route, "original_router", route).routes)
