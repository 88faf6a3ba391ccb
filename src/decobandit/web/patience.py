"""The HTTP protocol, with an end to its patience: a request's head is small and comes soon.

Otherwise a few hundred clients that send a byte now and then would take all connections, or one
that sends a head without end all memory.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .headers import DEFAULTS

HEAD_SECONDS = 10.0
HEAD_BYTES = 16 * 1024


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own, with limits for heads; errors before any route carry our headers."""

    head_seconds = HEAD_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _piece = 0  # bytes received last, as far as they may belong to the request under way
    _unread = 0  # bytes of its head, chunk sizes or trailers since the last of its body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        self._piece = len(data)
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._deadline is None:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    # -- what the parser finds ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._in_head, self._unread = True, self._piece
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # nobody reads trailers
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
        if len(self.url) + sum(parts) > HEAD_BYTES:
            raise ValueError("the head is too long")  # which the parser's caller answers with 400
        super().on_headers_complete()

    # -- what ends a connection -----------------------------------------------------------------

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        fixed = {
            "Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(msg)),
            "Connection": "close", **DEFAULTS,
        }  # fmt: skip
        lines = (f"{name}: {value}\r\n".encode() for name, value in fixed.items())
        self.transport.write(b"".join([STATUS_LINE[400], *lines, b"\r\n", msg.encode("ascii")]))
        self.transport.close()
