"""A signal ends the server in time, whatever is under way; what was acknowledged stays."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from decobandit.trials import open_store, open_trial
from helpers.serving import serving
from helpers.web_client import SMALL
from helpers.web_server import PATIENCE, request

pytest_plugins = ["helpers.databases"]

BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
HUGE = {
    "horizon": 1500,
    "arms": [{"name": f"a{k}", "prior": {"good": 1 + k / 10, "bad": 1}} for k in range(20)],
}


def sent(port: int, method: str, path: str, body: object = None) -> socket.socket:
    """A request whose answer nobody reads."""
    data = b"" if body is None else json.dumps(body).encode()
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", port))
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    line.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return line


@contextmanager
def serving_a_trial(db: Path | str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    with serving("--db", db, "--no-auth") as (process, _, port):
        body = {"problem": SMALL, "name": "pilot"}
        assert request(port, "POST", "/api/v1/trials", None, body)[0] == 201
        assert request(port, "POST", "/api/v1/trials/pilot/ask")[0] == 200
        yield process, port


def ends(process: "subprocess.Popen[str]") -> bool:
    """Whether it ends after a signal, long before its work would."""
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE) == 0


def test_plans_under_way_do_not_keep_the_server(tmp_path: Path) -> None:
    with serving_a_trial(tmp_path / "t.db") as (process, port):
        line = sent(port, "POST", "/api/v1/plan", {"problem": HUGE})
        workers = []
        while not workers:
            time.sleep(0.1)
            workers = psutil.Process(process.pid).children()
        time.sleep(1.0)
        assert ends(process)
        line.close()
        _, left = psutil.wait_procs(workers, timeout=PATIENCE)
        assert not left


def test_a_locked_database_does_not_keep_the_server(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    with serving_a_trial(db) as (process, port), sqlite3.connect(db) as other:
        other.execute("BEGIN EXCLUSIVE")
        lines = [sent(port, "POST", "/api/v1/trials/pilot/ask") for _ in range(5)]
        time.sleep(0.5)
        assert ends(process)
        for line in lines:
            line.close()
        other.rollback()
    other.close()
    with open_store(db) as store:
        trial = open_trial("pilot", db=store)
        assert trial.status().allocated == 1
        assert trial.verify().ok


def test_requests_given_up_at_a_stop_are_told_to_come_again(postgresql: str) -> None:
    """PostgreSQL stalls: the server stops without it, and says so to those who wait."""
    with serving_a_trial(postgresql) as (process, port):
        with psycopg.connect(postgresql.replace("+psycopg", ""), autocommit=True) as other:
            backends = [int(row[0]) for row in other.execute(BACKENDS).fetchall()]
        assert backends
        try:
            for backend in backends:
                os.kill(backend, signal.SIGSTOP)
            line = sent(port, "POST", "/api/v1/trials/pilot/ask")
            time.sleep(0.5)
            assert ends(process)
            line.settimeout(PATIENCE)
            answer = b"".join(iter(lambda: line.recv(4096), b"")).decode()
            line.close()
            assert answer.startswith("HTTP/1.1 503 ")
            assert "\r\nretry-after: 5\r\n" in answer
            assert '"code":"unavailable"' in answer
        finally:
            for backend in backends:
                os.kill(backend, signal.SIGCONT)
    with open_store(postgresql) as store:
        assert open_trial("pilot", db=store).verify().ok


def test_clients_that_do_not_read_do_not_keep_the_server(tmp_path: Path) -> None:
    with serving_a_trial(tmp_path / "t.db") as (process, port):
        lines = [sent(port, "GET", "/static/plotly.min.js") for _ in range(5)]
        time.sleep(0.5)
        assert ends(process)
        for line in lines:
            line.close()


def test_nothing_acknowledged_is_lost_by_a_stop(tmp_path: Path) -> None:
    db, told = tmp_path / "t.db", []
    problem = {"horizon": 300, "arms": [{"name": "old"}, {"name": "new"}]}
    with serving("--db", db, "--no-auth", "--rate", 100_000) as (process, _, port):
        body = {"problem": problem, "name": "long", "policy": "greedy", "tol": 0.1}
        assert request(port, "POST", "/api/v1/trials", None, body)[0] == 201

        def ask() -> None:
            with suppress(OSError, ValueError):
                while True:
                    status, _, answer = request(port, "POST", "/api/v1/trials/long/ask")
                    if status != 200:
                        break
                    told.append(json.loads(answer)["id"])

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(told) < 20:
            time.sleep(0.01)
        assert ends(process)
        for thread in threads:
            thread.join(PATIENCE)
    with open_store(db) as store:
        trial = open_trial("long", db=store)
        assert set(told) <= {slot.id for slot in trial.allocations()}
        assert trial.verify().ok


@pytest.mark.parametrize(
    "work",
    [
        "while True: pass",
        "import threading; threading.Thread(target=time.sleep, args=[600]).start()",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",  # never gives the interpreter up
    ],
)
def test_a_process_ends_whatever_its_threads_do(work: str) -> None:
    begin = "import time\nfrom decobandit.server.http_server import end_within"
    code = f"{begin}\nprint('begun', flush=True)\nend_within(1)\n{work}"
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=PATIENCE, check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("begun\n", "")
