"""Cells computed on a Dask cluster. The only file that knows Dask; needs the extra `cluster`.

Settings go out and figures come back as plain data; files are written by whoever asked. A cell
whose worker dies is computed again by another one, to the same figures.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from ._version import __version__
from .cell_files import Tree
from .studies import Results, Runner, compute_or_reason
from .study_files import Cell

PATIENCE = 5.0  # seconds until a scheduler answers, and until it has a worker
RETRIES = 3  # of a cell that failed for a reason outside it


class ClusterError(ValueError):
    """A cluster that cannot be used: one line with its address and the reason."""


def worker_version() -> str:
    """Asked of every worker."""
    return __version__


def compute_there(settings: Tree, threads: int, version: str) -> Tree | str:
    """A cell on a worker; one that joined late may be of another version than those asked."""
    if worker_version() != version:
        raise ClusterError(_other_version("a worker", worker_version(), version))
    return compute_or_reason(settings, threads=threads)


def on_cluster(address: str, threads: int | None = None) -> Runner:
    """Cells computed by the workers of a scheduler, played on `threads` threads (1 by default).

    Tables that are made before use as many threads as the machine has cores.
    """

    def run(cells: Sequence[Cell]) -> Results:
        with connected(address) as client:
            yield from _results(client, address, cells, threads or 1)

    return run


def check_cluster(address: str) -> None:
    """Refuse a cluster that cannot be reached, has no workers or another version."""
    with connected(address):
        pass


def _results(client: Any, address: str, cells: Sequence[Cell], threads: int) -> Results:
    from distributed import as_completed

    run = uuid4().hex  # two studies at one scheduler may have cells of the same name
    asked = {
        client.submit(
            compute_there, cell.settings, threads, __version__,
            key=f"{cell.name}-{run}", retries=RETRIES, pure=False,
        ): cell
        for cell in cells
    }  # fmt: skip
    try:
        every = as_completed(list(asked), loop=client.loop, with_results=True, raise_errors=False)
        for future, found in every:
            yield asked.pop(future), _figures(found, address)
    finally:
        if asked and client.status == "running":
            client.cancel(list(asked))


def _figures(found: Any, address: str) -> Tree | str:
    """What came back: figures or a reason, the error of a task, or nothing any more."""
    if isinstance(found, dict | str):
        return found
    if isinstance(found, tuple):  # type, error, traceback
        error = found[1]
        if isinstance(error, ClusterError):
            raise error
        return f"{type(error).__name__}: {_reason(error)}"
    raise ClusterError(f"{address}: the scheduler has gone; finished cells are kept")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler, all of whose workers are fit to compute cells."""
    if re.fullmatch(r"(tcp|tls)://\S+:\d{1,5}", address) is None:
        raise ClusterError(f"{address!r}: not the address of a scheduler; must be tcp://HOST:PORT")
    try:
        from distributed import Client
        from distributed.core import connect
    except ImportError:
        raise ImportError(
            'a cluster needs distributed; install it with: pip install "decobandit[cluster]"'
        ) from None
    # it tells at length what is said here in one line
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # first without a client: one that fails to connect takes long to go away
        asyncio.run(_shake_hands(connect, address))
    except Exception as error:  # whoever answers may say anything
        raise ClusterError(
            f"{address}: no scheduler answers ({_reason(error)}); start one with 'dask scheduler'"
        ) from None
    with Client(address, timeout=PATIENCE, set_as_default=False) as client:
        _check_workers(client, address)
        yield client


async def _shake_hands(connect: Any, address: str) -> None:
    comm = await asyncio.wait_for(connect(address, timeout=PATIENCE), PATIENCE)
    await comm.close()


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ClusterError(
            f"{address}: the scheduler has no workers; start some with 'dask worker {address}'"
        ) from None
    for worker, version in client.run(worker_version, on_error="return").items():
        if isinstance(version, Exception):
            raise ClusterError(f"{worker}: cannot compute cells: {_reason(version)}")
        if version != __version__:
            raise ClusterError(_other_version(worker, version, __version__))


def _other_version(worker: str, there: str, here: str) -> str:
    return f"{worker}: has decobandit {there}, this is {here}; install the same on all machines"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
