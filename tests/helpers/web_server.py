"""The application behind a real socket, in a thread of its own."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI

from decobandit.server.http_server import listen, make_server

PATIENCE = 240  # seconds, for a busy machine


@contextmanager
def served(app: FastAPI) -> Iterator[int]:
    """The port on which the application is served while the block lasts."""
    ready = threading.Event()
    with listen("127.0.0.1", 0) as listening:
        server = make_server(app, ready=ready.set, limits=app.state.limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


def request(
    port: int, method: str, path: str, token: str | None = None, body: Any = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request over a connection of its own."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, headers)
        got = connection.getresponse()
        return got.status, {k.lower(): v for k, v in got.getheaders()}, got.read()
    finally:
        connection.close()
