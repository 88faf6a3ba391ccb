"""The HTTP protocol, with an end to its patience: a request's head has to come in a few seconds.

Otherwise a few hundred clients that send a byte now and then would take all connections.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .headers import DEFAULTS

HEAD_SECONDS = 10.0


class PatientProtocol(H11Protocol):
    """uvicorn's own, with a deadline for heads; errors before any route carry our headers."""

    head_seconds = HEAD_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._deadline is None:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

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
        fixed = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close", **DEFAULTS}
        headers = [(name.encode(), value.encode()) for name, value in fixed.items()]
        parts = (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        )
        for part in parts:
            self.transport.write(self.conn.send(part) or b"")
        self.transport.close()
