"""Changes of trials without a thread for each request.

With SQLite, requests that come while a commit is under way share the next one. One thread commits
for all of them; a thread for each would cost more than the change itself. A change that takes long
gets a thread of its own, as everything does on PostgreSQL, where transactions run side by side.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from ..trials.changes import NEEDS_MORE, Change, answered

Answer = TypeVar("Answer")


async def made(change: Change[Answer]) -> Answer:
    """Make a change; it is on disk then."""
    store = change.log.store
    if not (store.shares_commits and change.is_short()):
        return await run_in_threadpool(change.made)
    try:
        return answered(await asyncio.wrap_future(store.submit(change.attempt, change.trial)))
    except NEEDS_MORE as error:
        return await run_in_threadpool(change.resume, error)
