"""Runs the application: socket, uvicorn, shutdown.

After a signal, running requests are finished; then waiting ones are cancelled. A process that has
not ended by itself shortly before the deadline is ended: a thread in a long computation or in a
stalled database cannot be stopped otherwise. Every event that was acknowledged is on disk.

What a client may make the server hold is limited. A request is parsed when the one before it is
answered: requests sent ahead wait in a buffer of limited size, and beyond that in the network. The
head of a request has a limit in size and in time. A client that does not read its answer is cut
off, and so is one that does not close a connection that the server has ended.
"""

from __future__ import annotations

import asyncio
import faulthandler
import ipaddress
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import ClassVar, Literal
from urllib.parse import urlsplit

import anyio
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .auth import DEFAULTS
from .limits import Limits, counted_address

HEAD_BYTES = 16 * 1024
MAX_HEADERS = 100  # of one request
AHEAD_BYTES = 64 * 1024  # of later requests, while one is under way
UNSENT_BYTES = 64 * 1024  # of an answer, before the application has to wait
PROGRESS_BYTES = 16 * 1024  # that a client reads in `Limits.write_seconds`, or all that is left
CHECKS = 4  # in that time
_END_OF_HEAD = b"\r\n\r\n"


# -- open connections ----------------------------------------------------------------------------
#
# A new connection is always let in, so that a client with a token can show it. Where there are too
# many, one is closed instead: the oldest that does nothing and has shown no token. Such are silent
# connections, those between two requests, and those whose client does not read its answer.


class Connections:
    """The open connections, the oldest first."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self.most, self.most_per_address = most, most_per_address
        self._open: dict[BoundedProtocol, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, new: BoundedProtocol) -> bool:
        """Admit a connection, and close idle ones if there are too many; return whether it fits.

        Without room all other connections are busy; the new one then serves only known people.
        """
        same = self._of(new.address)
        strangers = sum(not one.known for one in same)
        room = strangers < self.most_per_address or self._cut(same)
        if len(self) >= self.most:
            ((fullest, _),) = Counter(one.address for one in self._open).most_common(1)
            every = list(self._open)
            room = self._cut(self._of(fullest)) or self._cut(every) or self._cut(every, known=True)
        self._open[new] = None
        return room

    def remove(self, gone: BoundedProtocol) -> None:
        self._open.pop(gone, None)

    def _of(self, address: str) -> list[BoundedProtocol]:
        return [one for one in self._open if one.address == address]

    def _cut(self, among: list[BoundedProtocol], *, known: bool = False) -> bool:
        """Close the oldest idle connection; those of known people only if `known`."""
        idle = (one for one in among if one.waits and (known or not one.known))
        victim = next(idle, None)
        if victim is not None:
            self.remove(victim)
            victim.cut()
        return victim is not None


# -- the protocol ------------------------------------------------------------------------------


class _Flow(FlowControl):
    """uvicorn resumes reading whenever an application waits for its client; not here."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits; its own errors have the form of all others."""

    limits: ClassVar[Limits]
    crowd: ClassVar[Connections]

    flow: _Flow
    address = "unknown"
    crowded = False  # there is no room for strangers
    _known = False
    _deadline: asyncio.TimerHandle | None = None  # of a head
    _next_check: asyncio.TimerHandle | None = None  # of what is sent
    _in_head = True
    _piece = 0  # bytes parsed last, as far as they may belong to the request under way
    _unread = 0  # bytes of its head, chunk sizes or trailers since the last of its body
    _ahead = b""  # not parsed yet: the request before is not answered
    _unsent = 0  # bytes that waited for the client when that was last checked
    _resumed = False  # the client has read since then
    _stalled = 0  # checks without progress

    @property
    def under_way(self) -> bool:
        """Whether a request is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def known(self) -> bool:
        """Whether a request on this connection had a valid token."""
        if self.cycle is not None:
            self._known = self._known or self.cycle.scope["state"].get("principal") is not None
        return self._known

    @property
    def waits(self) -> bool:
        """Whether it waits for its client."""
        return not self.under_way or self.flow.write_paused

    def cut(self) -> None:
        self.transport.abort()

    # -- called by the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self.flow = _Flow(transport)
        self.address = counted_address(None if self.client is None else self.client[0])
        self.crowded = not self.crowd.add(self)
        self._start()
        self._check_later()

    def data_received(self, data: bytes) -> None:
        if self._ahead or self._is_complete():
            self._hold(data)
        else:
            self._parse(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._next_check is not None:
            self._next_check.cancel()
        self.crowd.remove(self)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._resumed = True
        super().resume_writing()

    # -- requests one after the other ------------------------------------------------------------

    def _is_complete(self) -> bool:
        """Whether all of the request under way is there."""
        return self.under_way and not self.cycle.more_body

    def _hold(self, data: bytes) -> None:
        """Keep what comes while a request is under way; a hang-up is noticed up to the limit."""
        self._ahead += data
        if len(self._ahead) > AHEAD_BYTES:
            self.flow.pause_reading()
            self.flow.held = True

    def _parse(self, data: bytes) -> None:
        """Parse up to the end of a request: no piece has the ends of two heads."""
        start = 0
        while start < len(data) and not self.transport.is_closing():
            if self._is_complete():
                self._hold(data[start:])
                return
            head_end = data.find(_END_OF_HEAD, start)
            end = len(data) if head_end < 0 else head_end + len(_END_OF_HEAD)
            self._parse_piece(data[start:end])
            start = end

    def _parse_piece(self, piece: bytes) -> None:
        self._piece = len(piece)
        self._unread += len(piece)
        super().data_received(piece)
        if self._unread > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("the head of the request is too long")
        if self.under_way:
            self._stop()
        elif self._deadline is None:
            self._start()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._ahead and not self.under_way:
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Parse what came during the last request."""
        if not self.transport.is_closing():
            data, self._ahead = self._ahead, b""
            self._parse(data)
            if len(self._ahead) <= AHEAD_BYTES:
                self.flow.held = False
                self.flow.resume_reading()

    # -- called by the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._in_head, self._unread = True, self._piece
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are not read
            if len(self.headers) >= MAX_HEADERS:
                raise ValueError("the head has too many headers")
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._piece = self._unread = 0
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._piece = self._unread = 0
        parts = (len(name) + len(value) for name, value in self.headers)
        # what is raised here, the parser's caller answers with 400
        if len(self.url) + sum(parts) > HEAD_BYTES:
            raise ValueError("the head is too long")
        if self.pipeline:
            raise ValueError("a second request waits already")
        if not self.url.startswith(b"/") and self.url != b"*":
            self._check_absolute()
        self.scope["state"]["crowded"] = self.crowded
        super().on_headers_complete()

    def _check_absolute(self) -> None:
        """Refuse a target that names another host than the header Host does."""
        target = urlsplit(self.url.decode("ascii"))
        hosts = [value.lower() for name, value in self.headers if name == b"host"]
        if target.scheme not in ("http", "https") or hosts != [target.netloc.lower().encode()]:
            raise ValueError("the target is of another host")

    # -- the end of a connection ----------------------------------------------------------------

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.under_way:
            self.transport.close()

    def _check_later(self) -> None:
        pause = self.limits.write_seconds / CHECKS
        self._next_check = self.loop.call_later(pause, self._check_progress)

    def _check_progress(self) -> None:
        """Cut off a client that does not read; also after `close`, which waits for it."""
        unsent = self.transport.get_write_buffer_size()
        progress = self._resumed or unsent <= self._unsent - PROGRESS_BYTES / CHECKS
        self._stalled = 0 if progress or not unsent or not self._unsent else self._stalled + 1
        self._unsent, self._resumed = unsent, False
        if self._stalled >= CHECKS:
            self.cut()
        else:
            self._check_later()

    def send_400_response(self, msg: str) -> None:
        error = {"error": {"code": "bad_request", "message": msg}}
        body = json.dumps(error).encode("ascii")
        fixed = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **DEFAULTS,
        }
        lines = (f"{name}: {value}\r\n".encode() for name, value in fixed.items())
        self.transport.write(b"".join([STATUS_LINE[400], *lines, b"\r\n", body]))
        self.transport.close()


def protocol_within(limits: Limits, most: int) -> type[BoundedProtocol]:
    """Return the protocol of one server with a shared limit on connections."""
    crowd = Connections(most, limits.connections_per_address)
    return type("ServerProtocol", (BoundedProtocol,), {"limits": limits, "crowd": crowd})


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
    """Return the most connections that the limit on open files permits; raise it if possible."""
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
