"""Clients of a running server: `python -m benchmarks.trial_clients PORT CLIENTS SECONDS TRIAL...`.

A process of its own, so that clients and server do not share an interpreter. Every client keeps
one connection and asks and tells in turn, until the time is over or its trial is full. Prints the
milliseconds of every request, as JSON, and the seconds of all of them together.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class RefusedError(RuntimeError):
    """An answer other than success."""


def post(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer; anything but a success ends the measurement."""
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/trials/{path}", json.dumps(body), headers)
    return answer_of(connection, path)


def get(connection: http.client.HTTPConnection, path: str) -> dict[str, Any]:
    """The same, where nothing is sent."""
    connection.request("GET", f"/api/v1/trials/{path}")
    return answer_of(connection, path)


def answer_of(connection: http.client.HTTPConnection, path: str) -> dict[str, Any]:
    """What the server says to the request that was just sent."""
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise RefusedError(f"{path}: {response.status} {text.decode(errors='replace')}")
    answer: dict[str, Any] = json.loads(text)
    return answer


def client(port: int, trial: str, until: float) -> dict[str, list[float]]:
    """Milliseconds of asks and of tells."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    taken: dict[str, list[float]] = {"ask": [], "tell": []}
    while (began := time.perf_counter()) < until:
        try:
            slot = post(connection, f"{trial}/ask", {})["id"]
        except RefusedError as error:
            if "no_free_slot" in str(error):
                break
            raise
        middle = time.perf_counter()
        post(connection, f"{trial}/allocations/{slot}/tell", {"outcome": len(taken["ask"]) % 2})
        taken["ask"].append(1e3 * (middle - began))
        taken["tell"].append(1e3 * (time.perf_counter() - middle))
    connection.close()
    return taken


def main(port: int, clients: int, seconds: float, trials: list[str]) -> None:
    """All clients at once."""
    began = time.perf_counter()
    until = began + seconds
    with ThreadPoolExecutor(clients) as pool:
        jobs = [pool.submit(client, port, trials[k % len(trials)], until) for k in range(clients)]
        found = [job.result() for job in jobs]
    passed = time.perf_counter() - began
    taken = {kind: [x for one in found for x in one[kind]] for kind in ("ask", "tell")}
    print(json.dumps({"seconds": passed, "taken": taken}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
