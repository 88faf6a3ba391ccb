"""PostgreSQL as a trial database, with a deadline for everything that may wait.

The server ends statements and waits for locks that take too long, and transactions whose client
stands still while it holds locks. A server that does not answer at all, stopped or cut off,
cannot do that: so the driver does not wait for ever either (`_Patient`).
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from .errors import StoreError

if TYPE_CHECKING:
    from psycopg import Connection

CONNECT_SECONDS = 5
LOCK_SECONDS = 8.0  # for a row that another transaction has locked
STATEMENT_SECONDS = 15.0
IDLE_SECONDS = 60.0  # of a transaction between two statements
ANSWER_SECONDS = 20.0  # until a server counts as silent
POOL_SECONDS = 8.0  # until a connection is free
POOL_SIZE, MORE_CONNECTIONS = 10, 20
_KEEPALIVES = {
    "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}  # fmt: skip


def postgres_engine(url: URL) -> Engine:
    """An engine on a database of a PostgreSQL server."""
    try:
        engine = create_engine(
            url,
            pool_size=POOL_SIZE,
            max_overflow=MORE_CONNECTIONS,
            pool_timeout=POOL_SECONDS,
            pool_pre_ping=True,
        )
    except ImportError:
        raise StoreError(
            "database: PostgreSQL needs its driver: pip install 'decobandit[postgres]'"
        ) from None
    event.listen(engine, "do_connect", _connect)
    return engine


def _connect(_dialect: Any, _record: Any, args: list[Any], given: dict[str, Any]) -> Any:
    limits = {
        "lock_timeout": LOCK_SECONDS,
        "statement_timeout": STATEMENT_SECONDS,
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
    }
    ours = " ".join(f"-c {name}={round(1000 * value)}" for name, value in limits.items())
    # what the URL says comes last, and counts
    options = f"{ours} {given.get('options', '')}".strip()
    wanted = {"connect_timeout": CONNECT_SECONDS, **_KEEPALIVES, **given, "options": options}
    return _patient().connect(*args, **wanted)


def _patient() -> type[Connection[Any]]:
    """A connection of psycopg that gives a silent server up."""
    import psycopg  # late: the driver is an extra

    class Patient(psycopg.Connection[Any]):
        def wait(
            self, gen: Generator[Any, Any, Any], interval: float = 0.1, timeout: float | None = None
        ) -> Any:
            """Run an exchange with the server; the connection is closed where it takes too long."""
            seconds = ANSWER_SECONDS if timeout is None else min(timeout, ANSWER_SECONDS)
            deadline = time.monotonic() + seconds
            try:
                wanted = next(gen)
                while True:
                    ready = _ready(self.pgconn.socket, wanted, deadline - time.monotonic())
                    if not ready:
                        self.close()
                        raise psycopg.OperationalError(
                            f"the server does not answer within {seconds:g} seconds"
                        )
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value
            except KeyboardInterrupt:
                self.close()  # it is in the middle of an exchange
                raise

    return Patient


def _ready(socket: int, wanted: int, seconds: float) -> int:
    """What of reading and writing is possible now; 0 after that time."""
    with _Selector() as selector:
        selector.register(socket, wanted)
        found = selector.select(max(0.0, seconds))
    return found[0][1] if found else 0


# the cheapest to make where there is one
_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.DefaultSelector
)
