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
    _waiting = 0  # bytes of a head that is not complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        began_in_head = self._in_head
        super().data_received(data)
        if began_in_head and self._in_head:
            self._waiting += len(data)
            if self._waiting > HEAD_BYTES and not self.transport.is_closing():
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
        self._in_head, self._waiting = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
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
