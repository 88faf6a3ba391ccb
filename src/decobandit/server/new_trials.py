"""New trials: their prices are computed in a process of their own, then they are entered."""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from ..problem import DEFAULT_TIES, Problem, Rules
from ..trials import Trial
from ..trials.opening import enter_trial, free_name, trial_seed
from ..trials.settings import chosen_limits, default_limits, make_settings
from .long_work import LongWork


async def start_trial(
    request: Request,
    problem: Problem,
    *,
    policy: str,
    name: str | None,
    seed: int | None = None,
    tol: float = 1e-4,
    ties: str = DEFAULT_TIES,
    bound: bool | None = None,
    rules: Rules | None = None,
    max_open: int | None = None,
    max_cancelled: int | None = None,
) -> Trial:
    """As `create_trial`, by the sender of a request."""
    store, long_work = request.app.state.store, request.app.state.long_work
    assert isinstance(long_work, LongWork)
    limits = chosen_limits(default_limits(problem), max_open, max_cancelled)
    title = await run_in_threadpool(free_name, name, store)  # before the long work
    settings = await long_work.run(
        request,
        "trial",
        make_settings,
        problem,
        policy=policy,
        ties=ties,
        seed=trial_seed(seed),
        tol=tol,
        bound=bound,
        rules=rules,
    )
    by = request.state.principal.name
    return await run_in_threadpool(
        enter_trial, settings, name=title, store=store, by=by, limits=limits
    )
