"""One arm, backward through all stages, on one core: against a plain C loop and against NumPy.

States per second count all T(T+1)(T+2)/6 states, skipped or not, at the prices that `solve` finds.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from decobandit import Problem, solve
from decobandit.arm.kernels.backward import sweep
from decobandit.problem import Group
from decobandit.problem.kernels.layout import slab_size

from .c_sources import compiled, there_is_a_compiler
from .rows import Row, best_times, times_better

Floats = npt.NDArray[np.float64]
Backward = Callable[[Group, Floats], float]  # V_0 of a fresh arm

ARMS, HORIZON = 20, 500
REPEATS = 15
TARGET = 2.0  # G states/s
C_LOOP, LEAST = "plain C loop, all states", 1.0


def run() -> list[Row]:
    """Rows against C (where there is a compiler) and against NumPy."""
    problem = Problem.uniform(arms=ARMS, horizon=HORIZON)
    (group,) = problem.groups
    mu = solve(problem).prices
    billions = HORIZON * (HORIZON + 1) * (HORIZON + 2) / 6 / 1e9
    with tempfile.TemporaryDirectory() as folder:
        peers: dict[str, Backward] = {}
        if there_is_a_compiler():
            peers[C_LOOP] = with_c(Path(folder))
        peers["NumPy, a stage at a time"] = with_numpy
        for name, peer in peers.items():
            if not np.isclose(peer(group, mu), ours(group, mu), rtol=1e-9):
                raise AssertionError(f"{name}: another value than ours")
        jobs = [lambda f=f: f(group, mu) for f in (ours, *peers.values())]
        own, *others = (billions / seconds for seconds in best_times(REPEATS, *jobs))
    what = f"backward pass ({ARMS}, {HORIZON})"
    target = f"at least {TARGET:g} G states/s"
    rows = [
        times_better(what, own, "G states/s", name, rate, own / rate, LEAST)
        if name == C_LOOP
        else Row(what, own, "G states/s", name, rate, own / rate)
        for name, rate in zip(peers, others, strict=True)
    ]
    limit = Row(what, own, "G states/s", "limit", TARGET, own / TARGET, target, own >= TARGET)
    return [limit, *rows]


def ours(group: Group, mu: Floats) -> float:
    """The package's kernel."""
    V = np.zeros(slab_size(mu.size))
    sweep(group.alpha, group.beta, group.reward_good, group.reward_bad, mu, V, mu.size, 0)
    return float(V[0])


def with_numpy(group: Group, mu: Floats) -> float:
    """Whole stages as square arrays V[n, g]; states with g > n are computed and never read."""
    T = mu.size
    n, g = np.arange(T)[:, None], np.arange(T)[None, :]
    p = (group.alpha + g) / (group.alpha + group.beta + n)
    V = np.zeros((T + 1, T + 1))
    for t in range(T - 1, -1, -1):
        good, bad = group.reward_good[t], group.reward_bad[t]
        own, after_bad, after_good = (
            V[: t + 1, : t + 1],
            V[1 : t + 2, : t + 1],
            V[1 : t + 2, 1 : t + 2],
        )
        gain = p[: t + 1, : t + 1] * (after_good - after_bad + (good - bad))
        gain += after_bad
        gain -= own
        gain += bad - mu[t]
        own += np.maximum(gain, 0.0, out=gain)
    return float(V[0, 0])


def with_c(folder: Path) -> Backward:
    """The C loop, compiled for this very machine."""
    function = compiled("plain_backward", folder).backward
    function.restype = None
    array = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    real = ctypes.c_double
    function.argtypes = [ctypes.c_int, real, real, array, array, array, array]

    def backward(group: Group, mu: Floats) -> float:
        V = np.zeros(slab_size(mu.size))
        function(mu.size, group.alpha, group.beta, group.reward_good, group.reward_bad, mu, V)
        return float(V[0])

    return backward
