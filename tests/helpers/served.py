"""`deco serve` as a process of its own, and clients that keep asking it."""

import http.client
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from helpers.program import DECO, PATIENCE, PLAIN


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    process: "subprocess.Popen[str]"
    port: int

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request on a connection of its own; an answer that is not a success is an error."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            return post(connection, path, body)
        finally:
            connection.close()


@contextmanager
def serving(db: str) -> Iterator[Served]:
    """A server on a free port, without tokens; killed at the end, if it still lives."""
    command = [DECO, "serve", "--db", db, "--port", "0", "--no-auth"]
    with subprocess.Popen(
        command, env={**os.environ, **PLAIN}, stdout=subprocess.PIPE, text=True
    ) as process:
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            assert process.stdout is not None
            said = next((line for line in process.stdout if "serving at" in line), "")
            assert said, "the server does not start"
            yield Served(process, int(said.strip().rpartition(":")[2]))
        finally:
            watch.cancel()
            process.kill()


def post(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer, once all of it is there."""
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/trials/{path}", json.dumps(body), headers)
    response = connection.getresponse()
    answer: dict[str, Any] = json.loads(response.read())
    assert response.status == 200, answer
    return answer


@dataclass
class Client:
    """Asks and tells until the server is gone; every request has a key of its own."""

    PAIRS: ClassVar[int] = 100  # at most

    name: str
    port: int
    trial: str
    sent: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)  # path, body by key
    answered: dict[str, str] = field(default_factory=dict)  # allocation by key

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            for number in range(self.PAIRS):
                slot = self._send(connection, f"{self.name} ask {number}", "ask", {})
                path, outcome = f"allocations/{slot}/tell", {"outcome": number % 2}
                self._send(connection, f"{self.name} tell {number}", path, outcome)
        except (OSError, http.client.HTTPException, ValueError):
            pass  # killed in the middle of something
        finally:
            connection.close()

    def _send(
        self, connection: http.client.HTTPConnection, key: str, path: str, body: dict[str, Any]
    ) -> str:
        self.sent[key] = f"{self.trial}/{path}", body | {"key": key}
        self.answered[key] = str(post(connection, *self.sent[key])["id"])
        return self.answered[key]
