"""Parts of uvicorn that it does not promise, and that `server/http_server.py` builds on.

Where this fails, read the new source of uvicorn, adapt `http_server.py`, run
tests/server/test_strangers.py, and only then raise the bound in pyproject.toml.
"""

import asyncio
import inspect
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import uvicorn
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.server import ServerState

ADVICE = (
    f"uvicorn {uvicorn.__version__}: {{}}; server/http_server.py builds on it. "
    "Adapt them, run tests/server/test_strangers.py, then raise the bound in pyproject.toml."
)
OVERRIDDEN = {
    httptools_impl.HttpToolsProtocol: {
        "connection_made": ["self", "transport"],
        "connection_lost": ["self", "exc"],
        "data_received": ["self", "data"],
        "resume_writing": ["self"],
        "on_response_complete": ["self"],
        "on_message_begin": ["self"],
        "on_header": ["self", "name", "value"],
        "on_body": ["self", "body"],
        "on_headers_complete": ["self"],
        "on_message_complete": ["self"],
        "send_400_response": ["self", "msg"],
    },
    flow_control.FlowControl: {
        "__init__": ["self", "transport"],
        "pause_reading": ["self"],
        "resume_reading": ["self"],
    },
    uvicorn.Server: {
        "startup": ["self", "sockets"],
        "handle_exit": ["self", "sig", "frame"],
    },
}
# by where it is read: after a connection was made and a head was parsed
READ = {
    "": ["cycle", "flow", "transport", "client", "headers", "url", "scope", "pipeline", "loop"],
    "cycle": ["response_complete", "more_body", "scope"],
    "flow": ["write_paused"],
}


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in OVERRIDDEN.items() for name in names]
)
def test_methods_that_are_overridden_are_there(owner: type, name: str) -> None:
    method = getattr(owner, name, None)
    assert method is not None, ADVICE.format(f"{owner.__name__} has no {name}")
    takes = list(inspect.signature(method).parameters)
    assert takes == OVERRIDDEN[owner][name], ADVICE.format(f"{owner.__name__}.{name} takes {takes}")


def test_attributes_that_are_read_are_there() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(3600)

    async def parsed() -> httptools_impl.HttpToolsProtocol:
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, interface="asgi3")
        config.load()
        protocol = httptools_impl.HttpToolsProtocol(config, ServerState(), {})
        transport = MagicMock(spec=asyncio.Transport)
        transport.get_extra_info.side_effect = {"sockname": ("a", 1), "peername": ("b", 2)}.get
        transport.is_closing.return_value = False
        protocol.connection_made(transport)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.01)  # the application has begun
        return protocol

    protocol = asyncio.run(parsed())
    for path, names in READ.items():
        owner = getattr(protocol, path) if path else protocol
        for name in names:
            there = hasattr(owner, name)
            assert there, ADVICE.format(f"{type(owner).__name__} has no attribute {name}")
    facts = {
        "url": protocol.url == b"/",
        "headers": protocol.headers == [(b"host", b"a")],
        "scope": protocol.cycle.scope is protocol.scope and "state" in protocol.scope,
        "client": tuple(protocol.client or ()) == ("b", 2),
        "flow": type(protocol.flow) is flow_control.FlowControl,
        "STATUS_LINE": httptools_impl.STATUS_LINE[400] == b"HTTP/1.1 400 Bad Request\r\n",
    }
    for name, holds in facts.items():
        assert holds, ADVICE.format(f"{name} is not what it was")


def test_only_versions_that_were_looked_at_are_installed() -> None:
    """The next minor version is not installed before this file has passed with it."""
    project = tomllib.loads(Path(__file__, "../../../pyproject.toml").resolve().read_text("utf-8"))
    server = project["project"]["optional-dependencies"]["server"]
    (bounds,) = (each for each in server if each.startswith("uvicorn"))
    below = tuple(map(int, bounds.rpartition("<")[2].split(".")))
    installed = tuple(map(int, uvicorn.__version__.split(".")[:2]))
    assert below[0] == 0
    assert installed < below, ADVICE.format(f"the bound is {bounds}")
