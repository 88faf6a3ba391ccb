"""`deco warmup`: compile the kernels once, so that later commands start at once.

The compiler works in one thread of a process only, so parts of the kernels are compiled in
processes of their own, as many as there are workers. Parts that share few kernels come first:
what two processes need at the same moment is compiled in both.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from .options import Workers


def warmup(workers: Workers = None) -> None:
    """Compile the kernels and keep them on disk."""
    import time

    from ..support import worker_count

    began = time.perf_counter()
    processes = worker_count(workers, most=len(PARTS))
    for _ in _compile_in(processes):
        pass
    print(f"kernels ready ({time.perf_counter() - began:.1f} s)")


def _compile_in(processes: int) -> Iterable[None]:
    if processes == 1:
        yield from map(_compile, PARTS)
        return
    from multiprocessing import get_context

    with get_context("spawn").Pool(processes, initializer=_leave_interrupts) as pool:
        yield from pool.imap_unordered(_compile, PARTS)


def _leave_interrupts() -> None:
    """Ctrl-C is for the program that waits: it ends the processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _compile(part: Callable[[], None]) -> None:
    part()


def prices_and_deco() -> None:
    """The dual, short and long, and DeCo's value."""
    from ..evaluation import evaluate
    from ..policies.deco import deco
    from ..prices import dual_value, solve
    from ..problem import Problem, State

    problem = Problem.uniform(arms=2, horizon=4)
    solution = solve(problem)
    dual_value(problem, solution.prices)
    policy = deco(solution)
    policy.choose(State.fresh(2))
    evaluate(problem, policy)
    solve(Problem.uniform(arms=2, horizon=110))


def optima_and_gittins() -> None:
    """The exact optimum, FH-Gittins and their values."""
    from ..evaluation import evaluate
    from ..joint import optimum
    from ..policies import OptimalPolicy, fh_gittins
    from ..problem import Problem

    optimum(Problem.uniform(arms=2, horizon=4))
    three = Problem.uniform(arms=3, horizon=4)
    evaluate(three, OptimalPolicy(three))
    evaluate(three, fh_gittins(three))
    optimum(Problem.uniform(arms=3, horizon=4, pulls_per_stage=2))


def calibrated_indices() -> None:
    """Calibrated indices, short and long, with a tick and without."""
    from ..arm import EXACT_STAGES, PricePath
    from ..policies import CalibratedPolicy
    from ..problem import Problem

    longer = Problem.uniform(arms=1, horizon=EXACT_STAGES + 1)
    CalibratedPolicy(longer, PricePath(kappa=0.1), sweeps=64).stage_index(0)
    CalibratedPolicy(Problem.uniform(arms=2, horizon=4), PricePath(tick=0.1)).arm_index(0, 0, 0, 0)


def information_bounds() -> None:
    """The information bound of two arms and of more."""
    from ..bounds import information_bound
    from ..problem import Problem

    for arms in (2, 3):
        information_bound(Problem.uniform(arms=arms, horizon=4), draws=2)


def simulated_policies() -> None:
    """Every policy that is played by kernels, and the gap by stage."""
    from ..bounds import gap
    from ..policies import POLICIES, policy_class
    from ..problem import Problem
    from ..simulation import simulate

    problem = Problem.uniform(arms=2, horizon=4)
    kinds = {name: policy_class(name) for name, each in POLICIES.items() if each.single}
    compiled = [name for name, kind in kinds.items() if kind.plays_compiled()]
    simulate(problem, compiled, draws=2, per_draw=1)
    gap(problem, "deco", method="simulated", draws=2)


def batches() -> None:
    """Policies that share batches among arms."""
    from ..policies import POLICIES
    from ..problem import Problem
    from ..simulation import simulate

    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    simulate(problem, [name for name, each in POLICIES.items() if each.batches], draws=2)


PARTS = (
    prices_and_deco,
    optima_and_gittins,
    simulated_policies,
    batches,
    information_bounds,
    calibrated_indices,
)
