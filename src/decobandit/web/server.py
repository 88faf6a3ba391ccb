"""Running the application: a socket, uvicorn, and a quiet end."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from types import FrameType
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from .patience import PatientProtocol

CONNECTIONS = 1000
END_SECONDS = 10  # that requests under way have when the server stops


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # not raised again afterwards, as uvicorn does: being told to stop is no error
        self.force_exit = self.should_exit
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"cannot listen on {host} port {port}: {reason}") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that host."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def url_of(listening: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def make_server(
    app: ASGIApp,
    *,
    ready: Callable[[], None],
    verbose: bool = False,
    loop: Literal["asyncio", "auto"] = "asyncio",
) -> uvicorn.Server:
    """A server that runs until SIGINT or SIGTERM; requests under way are finished first.

    `loop="auto"` takes uvloop where that is installed: for a process that does nothing else.
    """
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        loop=loop,
        ws="none",
        lifespan="off",
        log_config=None,  # the program has set up logging
        access_log=verbose,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=END_SECONDS,
    )
    return _Server(config, ready)
