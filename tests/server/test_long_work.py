"""Long computations: shared between people, ended with their client, unable to hurt the server."""

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastapi import Request

from decobandit.problem import problem_from_dict
from decobandit.server import worker_process
from decobandit.server.errors import ApiError
from decobandit.server.limits import PERSON, Limits
from decobandit.server.long_work import KINDS, Kind, LongWork, refusals
from decobandit.server.request_context import Principal
from decobandit.trials.settings import make_settings
from helpers.web_client import SMALL, Site
from helpers.web_server import PATIENCE, request, served

# takes minutes
HUGE = {
    "problem": {
        "horizon": 1500,
        "arms": [{"name": f"a{k}", "prior": {"good": 1 + k / 10, "bad": 1}} for k in range(20)],
    }
}


def becomes(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


@pytest.fixture(autouse=True)
def _others() -> None:
    """Processes of earlier tests, such as the one that runs commands, do not compute."""
    _before.clear()
    _before.update(child.pid for child in psutil.Process().children())


_before: set[int] = set()


def computing() -> list[psutil.Process]:
    """Processes that compute for this one."""
    idle = _before | {worker.process.pid for worker in worker_process.idle}
    return [child for child in psutil.Process().children() if child.pid not in idle]


def sent_by(name: str, left: asyncio.Event | None = None) -> Request:
    """A request of that person, whose client hangs up when it has left."""

    async def receive() -> dict[str, Any]:
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    principal = Principal(name, "viewer", name, "bearer")
    return Request({"type": "http", "state": {"principal": principal}}, receive)  # type: ignore[arg-type]


# -- the queue ------------------------------------------------------------------------------------


def person(name: str) -> str:
    return f"{PERSON}{name}"


def test_everybody_has_a_share_of_the_queue() -> None:
    """One person sends ten, then two others one each: the others do not wait for the ten."""
    order: list[str] = []

    async def run() -> None:
        queue = LongWork(Limits(solves=2, waiting_per_person=20))

        async def work(name: str) -> None:
            async with queue.turn("plan", person(name)):
                order.append(name)
                await asyncio.sleep(0.01)

        names = ["ann"] * 10 + ["bob", "eve"]
        await asyncio.gather(*(work(name) for name in names))
        assert queue.load == (0, 0)

    asyncio.run(run())
    assert order[:3] == ["ann", "bob", "eve"] or order[:3] == ["ann", "bob", "ann"]
    assert order.index("eve") <= 3
    assert order.count("ann") == 10


def test_the_queue_is_short_for_one_person_and_for_all() -> None:
    async def run() -> dict[str, int]:
        queue = LongWork(Limits(solves=1, waiting=3, waiting_per_person=2))
        refused: dict[str, int] = {}

        async def work(name: str) -> None:
            try:
                async with queue.turn("plan", person(name)):
                    await asyncio.sleep(0.05)
            except ApiError as error:
                refused[name] = refused.get(name, 0) + error.status_code
                assert error.headers == {"Retry-After": "10"}  # noqa: PT017

        await asyncio.gather(*(work(name) for name in ["ann"] * 5 + ["bob"] * 3))
        return refused

    assert asyncio.run(run()) == {"ann": 2 * 503, "bob": 2 * 503}


def test_whoever_leaves_the_queue_gives_the_place_up() -> None:
    async def run() -> None:
        queue = LongWork(Limits(solves=1, waiting_seconds=0.02))
        async with queue.turn("plan", person("ann")):
            with pytest.raises(ApiError) as late:
                async with queue.turn("plan", person("bob")):
                    pass
            assert late.value.status_code == 503
            leaving = asyncio.create_task(queue.turn("plan", person("eve")).__aenter__())
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        assert queue.load == (0, 0)

    asyncio.run(run())


# -- the processes --------------------------------------------------------------------------------


def run_one(limits: Limits, work: Callable[..., Any], *args: Any, kind: Kind = "plan") -> Any:
    return asyncio.run(LongWork(limits).run(sent_by("ann"), kind, work, *args))


def test_what_is_computed_elsewhere_comes_back() -> None:
    assert run_one(Limits(), os.getpid) != os.getpid()
    with pytest.raises(ZeroDivisionError):
        run_one(Limits(), divmod, 1, 0)
    with pytest.raises(RuntimeError, match="cannot be sent"):
        run_one(Limits(), threading.Lock)
    assert run_one(Limits(), divmod, 7, 2) == (3, 1)  # the same process goes on
    assert run_one(Limits(), os.nice, 0) > os.nice(0)  # behind the server


def test_settings_come_back_as_they_were_made() -> None:
    problem = problem_from_dict(SMALL)
    made = run_one(Limits(), make_settings, problem)
    assert made.to_dict() == make_settings(problem).to_dict()
    assert made.tables_hash == make_settings(problem).tables_hash


def test_a_process_that_dies_is_an_answer() -> None:
    with pytest.raises(ApiError) as died:
        run_one(Limits(), os._exit, 1)
    assert (died.value.status_code, died.value.code) == (422, "too_large")


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_too_long_is_ended(kind: Kind) -> None:
    limits = Limits(plan_seconds=0.2) if kind == "plan" else Limits(solve_seconds=0.2)
    with pytest.raises(ApiError) as late:
        run_one(limits, time.sleep, 600, kind=kind)
    assert (late.value.status_code, late.value.code) == (422, "too_slow")
    assert "ended after 0.2 seconds; ask for fewer draws" in str(late.value.detail)
    assert becomes(lambda: not computing())


def test_memory_is_refused_beyond_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_process.end_idle()
    start = "from decobandit.support import machine; machine.memory_left = lambda: 2**28"
    site = f"{start}\nfrom {worker_process.__name__} import run_jobs; run_jobs([])"
    popen = worker_process.subprocess.Popen

    def within_a_group(command: list[str], **more: Any) -> Any:
        return popen([*command[:-1], site], **more)

    monkeypatch.setattr(worker_process.subprocess, "Popen", within_a_group)
    with pytest.raises(ApiError) as refused, refusals():
        run_one(Limits(), bytearray, 2**29)
    assert (refused.value.status_code, refused.value.code) == (422, "too_large")
    assert len(run_one(Limits(), bytearray, 2**25)) == 2**25
    worker_process.end_idle()


def test_work_ends_when_its_client_leaves() -> None:
    async def run() -> None:
        left = asyncio.Event()
        work = LongWork(Limits()).run(sent_by("ann", left), "plan", time.sleep, 600)
        task = asyncio.create_task(work)
        while not computing():
            await asyncio.sleep(0.05)
        left.set()
        with suppress(ApiError):
            await task

    asyncio.run(run())
    assert becomes(lambda: not computing())


# -- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def plan_and_leave(port: int, token: str) -> socket.socket:
    """A huge plan under way; close the socket to leave."""
    body = json.dumps(HUGE).encode()
    line = socket.create_connection(("127.0.0.1", port), PATIENCE)
    line.sendall(
        b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return line


def test_huge_plans_hold_up_neither_trials_nor_replays_nor_asks(site: Site) -> None:
    trial = site.trial()
    with served(site.app) as port:
        plans = [plan_and_leave(port, site.tokens[role]) for role in ("viewer", "admin") * 5]
        assert becomes(lambda: len(computing()) >= 2)
        admin = site.tokens["admin"]
        made = request(port, "POST", "/api/v1/trials", admin, {"problem": SMALL, "name": "new"})
        assert made[0] == 201, made[2]
        assert request(port, "POST", "/api/v1/trials/new/ask", admin)[0] == 200
        assert request(port, "GET", f"/api/v1/trials/{trial.id}/replay", admin)[0] == 200
        for line in plans:
            line.close()
        assert becomes(lambda: not computing())


def test_a_form_that_plans_too_much_at_once_says_when_to_come_back(site: Site) -> None:
    with served(site.app) as port:
        plans = [plan_and_leave(port, site.tokens["viewer"]) for _ in range(5)]
        assert becomes(lambda: len(site.app.state.long_work._queues["plan"].waiting) == 4)
        status, headers, _ = request(port, "POST", "/api/v1/plan", site.tokens["viewer"], HUGE)
        assert (status, headers["retry-after"]) == (503, "10")
        for line in plans:
            line.close()
        assert becomes(lambda: not computing())


def test_processes_end_with_the_server() -> None:
    worker = worker_process.Worker()
    assert worker.run(divmod, (7, 2), {}) == ((3, 1), None)
    threading.Thread(target=lambda: suppress_died(worker), daemon=True).start()
    assert worker.process.stdin is not None
    time.sleep(0.2)
    worker.process.stdin.close()
    assert worker.process.wait(PATIENCE) == 0


def suppress_died(worker: worker_process.Worker) -> None:
    with suppress(worker_process.WorkerDied, ValueError):
        worker.run(time.sleep, (600,), {})
