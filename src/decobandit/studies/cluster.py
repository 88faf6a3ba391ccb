"""Cells computed on a Dask cluster. The only file that uses Dask; needs the extra `cluster`.

Cells are sent out and results come back; the calling process writes the files. If a Dask worker
dies, its cell is computed again by another one, with the same result.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol
from uuid import uuid4

from .._version import __version__
from ..policies import allow_policy, check_policies
from .records import Cell, CellFailure, CellResult
from .running import Results, Runner, compute_or_fail

CONNECTION_SECONDS = 5.0  # for a scheduler to answer, and for it to have a worker
RETRIES = 3  # of a cell that failed for a reason outside it


class ClusterError(ValueError):
    """A cluster that cannot be used: one line with its address and the reason."""


class Client(Protocol):
    """What is used of Dask's client, which has no types of its own."""

    status: str
    loop: object

    def submit(
        self,
        function: Callable[[Cell, int, str], CellResult | CellFailure],
        cell: Cell,
        threads: int,
        version: str,
        *,
        key: str,
        retries: int,
        pure: bool,
    ) -> object: ...

    def cancel(self, futures: list[object]) -> None: ...

    def run(self, function: Callable[[], str], *, on_error: str) -> Mapping[str, object]: ...

    def wait_for_workers(self, n_workers: int, *, timeout: float) -> None: ...


class Connection(Protocol):
    """An open line to a scheduler."""

    def close(self) -> Awaitable[None]: ...


class Connect(Protocol):
    """Dask's function that opens one."""

    def __call__(self, address: str, *, timeout: float) -> Awaitable[Connection]: ...


def worker_version() -> str:
    """Asked of every worker."""
    return __version__


def compute_there(cell: Cell, workers: int, version: str) -> CellResult | CellFailure:
    """A cell on a worker; one that joined late may be of another version than those asked."""
    if worker_version() != version:
        raise ClusterError(_other_version("a worker", worker_version(), version))
    if ":" in cell.policy:
        allow_policy(cell.policy)  # the sender has checked it
    return compute_or_fail(cell, workers=workers)


def on_cluster(address: str, workers: int | None = None) -> Runner:
    """Cells computed by the machines of a scheduler, each on `workers` threads (1 by default)."""

    def run(cells: Sequence[Cell]) -> Results:
        with connected(address) as client:
            yield from _results(client, address, cells, workers or 1)

    return run


def check_cluster(address: str) -> None:
    """Refuse a cluster that cannot be reached, has no workers or another version."""
    with connected(address):
        pass


def _results(client: Client, address: str, cells: Sequence[Cell], workers: int) -> Results:
    from distributed import as_completed

    check_policies({cell.policy for cell in cells}, places=False)
    run = uuid4().hex  # two studies at one scheduler may have cells of the same name
    asked = {
        client.submit(
            compute_there, cell, workers, __version__,
            key=f"{cell.name}-{run}", retries=RETRIES, pure=False,
        ): cell
        for cell in cells
    }  # fmt: skip
    try:
        every = as_completed(list(asked), loop=client.loop, with_results=True, raise_errors=False)
        for future, found in every:
            yield asked.pop(future), _came_back(found, address)
    finally:
        if asked and client.status == "running":
            client.cancel(list(asked))


def _came_back(found: object, address: str) -> CellResult | CellFailure:
    """The result of a Dask worker, or the error of its task; an error if nothing came back."""
    if isinstance(found, CellResult | CellFailure):
        return found
    if isinstance(found, tuple):  # type, error, traceback
        error = found[1]
        if isinstance(error, ClusterError):
            raise error
        return CellFailure(f"{type(error).__name__}: {_reason(error)}")
    raise ClusterError(f"{address}: the scheduler has gone; finished cells are kept")


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the scheduler, all of whose workers are fit to compute cells."""
    if re.fullmatch(r"(tcp|tls)://\S+:[0-9]{1,5}", address) is None:
        raise ClusterError(f"{address!r}: not the address of a scheduler; must be tcp://HOST:PORT")
    try:
        from distributed import Client as DaskClient
        from distributed.core import connect
    except ImportError:
        raise ImportError(
            'a cluster needs distributed; install it with: pip install "decobandit[cluster]"'
        ) from None
    # its long log message is replaced by one line here; tornado's is of what a closing client drops
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # first without a client: a client that fails to connect takes long to close
        asyncio.run(_shake_hands(connect, address))
    except Exception as error:  # the answer may come from any program
        raise ClusterError(
            f"{address}: no scheduler answers ({_reason(error)}); start one with 'dask scheduler'"
        ) from None
    with DaskClient(address, timeout=CONNECTION_SECONDS, set_as_default=False) as client:
        _check_workers(client, address)
        yield client


async def _shake_hands(connect: Connect, address: str) -> None:
    comm = await asyncio.wait_for(connect(address, timeout=CONNECTION_SECONDS), CONNECTION_SECONDS)
    await comm.close()


def _check_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECTION_SECONDS)
    except TimeoutError:
        raise ClusterError(
            f"{address}: the scheduler has no workers; start some with 'dask worker {address}'"
        ) from None
    for worker, version in client.run(worker_version, on_error="return").items():
        if isinstance(version, Exception):
            raise ClusterError(f"{worker}: cannot compute cells: {_reason(version)}")
        if version != __version__:
            raise ClusterError(_other_version(worker, str(version), __version__))


def _other_version(worker: str, there: str, here: str) -> str:
    return f"{worker}: has decobandit {there}, this is {here}; install the same on all machines"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
