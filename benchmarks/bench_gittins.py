"""Finite-horizon Gittins indices: tables beside plain bisection and beside markovianbandit.

Short tables are exact; beside them stand a compiled bisection of every state, to the same accuracy,
and markovianbandit, which gives the states with n = t only (see its script): rates count what each
program computes. Long tables leave out some roots, and their error is sampled.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from decobandit import Problem
from decobandit.arm import Calibration
from decobandit.arm.calibration import ACCURACY, flat_table

from .peers import SCRIPTS, NotMeasuredError, Peer, rates
from .plain_bisection import plain_bisection
from .rows import Row, at_most, best_times

SHORT, LONG = 40, 500  # stages
SAMPLED = 60  # states at which a table is checked against the exact index
PEER_SECONDS = 3.0
SAME = 1e-4  # the peer's discount is not 1
MARKOVIANBANDIT = Peer(
    "markovianbandit-pkg 0.4, states with n = t, discount 1 - 1e-6",
    policies=("fh-gittins",),
    # it names none of the packages that it imports
    requirements=("markovianbandit-pkg==0.4", "numpy", "scipy", "numba"),
    script=SCRIPTS / "run_markovianbandit.py",
)


def run() -> list[Row]:
    """Rows of short tables, then of a long one."""
    return [*short_table(SHORT, MARKOVIANBANDIT, PEER_SECONDS), *long_table(LONG)]


def calibration(horizon: int) -> Calibration:
    """A fresh one: it keeps its tables, and whole ones are shared."""
    return Calibration(Problem.uniform(arms=1, horizon=horizon), np.zeros(horizon))


def unshared_table(horizon: int) -> npt.NDArray[np.float64]:
    """Made anew at each call, which `calibration` does not do."""
    return flat_table(alpha=1.0, beta=1.0, reward_good=1.0, reward_bad=0.0, stages=horizon)


def short_table(horizon: int, peer: Peer, seconds: float) -> list[Row]:
    """Indices per second on one core."""
    size = horizon * (horizon + 1) * (horizon + 2) // 6
    compared = np.concatenate([calibration(5).stage_index(t)[0] for t in range(5)])
    if not np.allclose(compared, plain_bisection(5, ACCURACY), rtol=0, atol=1e-10):
        raise AssertionError("bisection gives other indices than ours")
    ours, plain = (
        size / best / 1e3
        for best in best_times(
            2,
            lambda: unshared_table(horizon),
            lambda: plain_bisection(horizon, ACCURACY),
        )
    )
    what, unit = f"FH-Gittins table, T = {horizon}, exact", "k indices/s"
    row = Row(what, ours, unit, "plain compiled bisection", plain, ours / plain)
    return [row, beside(what, ours, unit, horizon, peer, seconds)]


def beside(what: str, ours: float, unit: str, horizon: int, peer: Peer, seconds: float) -> Row:
    """The package, after a look at its indices."""
    try:
        found = rates(peer, "fh-gittins", 1, horizon, seconds, copies=1)
    except NotMeasuredError as error:
        return Row(what, ours, unit, f"{peer.name}: not measured: {error}", None, None)
    table = calibration(horizon)
    states = [(n, g) for n in range(4) for g in range(n + 1)]
    for k, (n, g) in enumerate(states):
        theirs, exact = found[f"index {k}"], table.index(n, 0, g, n - g)
        if abs(theirs - exact) > SAME:
            raise AssertionError(f"{peer.name}: {theirs} at {n} pulls, {g} good, not {exact}")
    rate = found["rate"] / 1e3
    return Row(what, ours, unit, peer.name, rate, ours / rate)


def long_table(horizon: int) -> list[Row]:
    """Indices of all states of all stages: time, and error on random states."""
    calibration(60).stage_index(0)  # compiles
    table = calibration(horizon)
    began = time.perf_counter()
    table.stage_index(0)
    seconds = time.perf_counter() - began
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(SAMPLED):
        t = int(rng.integers(horizon))
        n = int(rng.integers(t + 1))
        g = int(rng.integers(n + 1))
        exact = table.index(t, 0, g, n - g)
        errors.append(abs(table.stage_index(t)[0, n * (n + 1) // 2 + g] - exact))
    what = f"FH-Gittins table, T = {horizon}"
    return [
        at_most(what, seconds, "s", 10.0),
        at_most(f"{what}, largest error", float(max(errors)), "", 1e-7),
    ]
