"""Operating characteristics of designs, in processor seconds of this process.

Beside the exact values of the optimal policy stands a plain C program for what BinaryBandit.jl
computes; beside the example of adaptr the seconds that its README prints, on two other cores.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from decobandit import Design, Problem, operating_characteristics
from decobandit.designs import Characteristics
from decobandit.paper.designs import ADAPTR_SECONDS, adaptr_trials

from .c_sources import compiled, there_is_a_compiler
from .rows import Row, at_most, times_better

TRUTH = (0.3, 0.5)
EXACT = (60, 150)  # pulls of two arms, beside the C program
ADAPTR_TRIALS = 10_000
ERROR = 0.1  # standard error of good outcomes
SIMULATED_TRIALS = 7000


def run() -> list[Row]:
    """Exact and simulated designs; machine code is there before anything is timed."""
    for policy in ("optimal", "fh-gittins", "deco-calibrated"):
        two_arms(policy, 6)
    adaptr_trials(20)
    return [
        at_most(
            "design: optimal, 2 arms x 60, exact",
            _seconds(lambda: two_arms("optimal", 60)),
            "CPU s",
            1.0,
        ),
        at_most(
            "design: fh-gittins, 2 arms x 148, exact",
            _seconds(lambda: two_arms("fh-gittins", 148)),
            "CPU s",
            5.0,
        ),
        *equal_thousand(),
        three_arms(),
        *beside_c(),
        adaptr(),
    ]


def two_arms(policy: str, pulls: int) -> Characteristics:
    """Exact, ties by halves."""
    design = Design(policies=(policy,), scenarios=[{"name": "truth", "truth": TRUTH}])
    problem = Problem.uniform(arms=2, horizon=pulls)
    found = operating_characteristics(problem, design, ties="random").scenarios[0].policies[0]
    if not found.exact:
        raise AssertionError(f"{policy} of two arms and {pulls} pulls: simulated")
    return found


def equal_thousand() -> list[Row]:
    """Exact trials of 1,000 pulls in permuted blocks, with looks that stop them early."""
    problem, rows = Problem.uniform(arms=2, horizon=1000), []
    for kind in ("posterior", "conditional", "unconditional"):
        design = Design(
            policies=["equal"],
            control="arm-1",
            block=4,
            looks={"first": 50, "every": 50},
            stop={"superiority": 0.99, "futility": 0.05},
            test={"kind": kind},
            scenarios=[{"name": "truth", "truth": TRUTH}],
        )

        def computed(design: Design = design) -> None:
            (found,) = operating_characteristics(problem, design).scenarios[0].policies
            if not found.exact:
                raise AssertionError("1,000 pulls of equal allocation: simulated")

        what = f"design: equal in blocks, 2 arms x 1,000, {kind} test, exact"
        rows.append(at_most(what, _seconds(computed), "CPU s", 120.0))
    return rows


def three_arms() -> Row:
    """The default policy at 3 arms x 120, to a standard error of 0.1 good outcomes."""
    design = Design(
        policies=("deco-calibrated",),
        draws=SIMULATED_TRIALS,
        scenarios=[{"name": "truth", "truth": (0.3, 0.3, 0.5)}],
    )
    problem, errors = Problem.uniform(arms=3, horizon=120), []

    def simulated() -> None:
        (found,) = operating_characteristics(problem, design).scenarios[0].policies
        assert found.errors is not None
        errors.append(found.errors["good"])

    seconds = _seconds(simulated)
    if max(errors) > ERROR:
        raise AssertionError(f"a standard error of {max(errors)}, above {ERROR}")
    return at_most(f"design: deco-calibrated, 3 arms x 120, to {ERROR}", seconds, "CPU s", 5.0)


def beside_c() -> list[Row]:
    """Mean and variance of the optimal policy at a truth."""
    what, peer = "design: optimal, 2 arms x {}, exact", "plain C program"
    if not there_is_a_compiler():
        return [
            Row(
                what.format(T),
                _seconds(lambda T=T: two_arms("optimal", T)),
                "CPU s",
                peer,
                None,
                None,
            )
            for T in EXACT
        ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        plain = plain_design(Path(folder))
        for pulls in EXACT:
            ours, theirs = two_arms("optimal", pulls), plain(pulls)
            if not np.allclose([ours.good, ours.good_sd**2], theirs[1:], rtol=1e-9):
                raise AssertionError(f"{pulls} pulls: another value than the C program's")
            one = _seconds(lambda pulls=pulls: two_arms("optimal", pulls), 3)
            other = _seconds(lambda pulls=pulls: plain(pulls), 3)
            rows.append(Row(what.format(pulls), one, "CPU s", peer, other, other / one))
    return rows


def plain_design(folder: Path) -> Callable[[int], list[float]]:
    """The C program: optimum, mean and variance by the number of pulls."""
    function = compiled("plain_two_arm_design", folder).two_arm_design
    function.restype = None
    out = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    function.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_double, out]

    def design(pulls: int) -> list[float]:
        found = np.zeros(3)
        function(pulls, *TRUTH, found)
        return found.tolist()

    return design


def adaptr() -> Row:
    """1,000 trials of its example, of a run of 10,000."""
    ours = 1000 / ADAPTR_TRIALS * _seconds(lambda: adaptr_trials(ADAPTR_TRIALS))
    beside = "adaptr's README, two other cores"
    ratio = ADAPTR_SECONDS / ours
    what = "design: adaptr's example, 1,000 trials"
    return times_better(what, ours, "CPU s", beside, ADAPTR_SECONDS, ratio, 100.0)


def _seconds(job: Callable[[], object], runs: int = 1) -> float:
    """Processor seconds, of the shortest of so many runs; a second one may find things cached."""
    found = []
    for _ in range(runs):
        began = time.process_time()
        job()
        found.append(time.process_time() - began)
    return min(found)
