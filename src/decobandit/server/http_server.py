"""Runs the application: socket, uvicorn, shutdown.

After a signal, requests under way are finished; then what still waits is cancelled, and a process
that has not ended by itself shortly before the deadline is ended: a thread in a long computation or
in a stalled database cannot be stopped otherwise. Every event that was acknowledged is on disk.
"""

from __future__ import annotations

import faulthandler
import ipaddress
import os
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Literal

import anyio
import uvicorn
from starlette.types import ASGIApp

from .http_protocol import protocol_within
from .middleware.limits import Limits

# of the time to stop: for requests under way, until the process ends itself, until it is ended by
# a thread that needs no interpreter
GRACE, EXIT, LAST = 0.7, 0.85, 0.95
SPARE_THREADS = 8  # beside those of requests: files that are sent
SPARE_FILES = 128  # beside those of connections: databases, programs, listening sockets
SEND_BYTES, RECEIVE_BYTES = 256 * 1024, 128 * 1024  # that the system keeps for one connection


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, limits: Limits, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._limits, self._ready = limits, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        threads = anyio.to_thread.current_default_thread_limiter()
        threads.total_tokens = self._limits.threads + SPARE_THREADS
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # not raised again afterwards, as uvicorn does: a signal to stop is no error
        self.force_exit = self.should_exit
        if not self.should_exit:
            end_within(self._limits.stop_seconds)
        self.should_exit = True


def end_within(seconds: float) -> None:
    """End this process in that time, whatever its threads do."""
    ending = threading.Timer(EXIT * seconds, os._exit, [0])
    ending.daemon = True
    ending.start()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(LAST * seconds, exit=True, file=nowhere)


def _most_connections(limits: Limits) -> int:
    """As many as the system lets this process have files; the limit is raised where it may be."""
    try:
        import resource
    except ImportError:  # not Unix
        return limits.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + 2 * SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    free = limits.connections if soft == resource.RLIM_INFINITY else soft - SPARE_FILES
    return max(1, min(limits.connections, free))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.create_server(address[:2], family=family, backlog=512)
        # connections inherit them: a client that does not read fills no more than this
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        return listening
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"cannot listen on {host} port {port}: {reason}") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that host."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in addresses)


def url_of(listening: socket.socket, host: str) -> str:
    """Return the address for a browser."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def make_server(
    app: ASGIApp,
    *,
    ready: Callable[[], None],
    limits: Limits | None = None,
    loop: Literal["asyncio", "auto"] = "asyncio",
) -> uvicorn.Server:
    """Return a server that runs until SIGINT or SIGTERM and finishes requests under way.

    `loop="auto"` takes uvloop where that is installed: for a process that does nothing else.
    """
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        http=protocol_within(limits, _most_connections(limits)),
        loop=loop,
        ws="none",
        lifespan="off",
        log_config=None,  # the program has set up logging
        access_log=False,  # `Observe` logs requests
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=GRACE * limits.stop_seconds,  # type: ignore[arg-type]
    )
    return _Server(config, limits, ready)
