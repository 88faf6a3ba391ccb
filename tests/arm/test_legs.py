"""Tables of one arm made in legs: the same digits, and Ctrl-C is heard between them."""

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

from decobandit.arm import Calibration, OneArmValues, TickCalibration, calibration
from decobandit.arm.kernels.calibrated import advantage
from decobandit.problem import Arm, BetaBernoulli, Problem
from decobandit.support import workers

STAGES = 52  # beyond those that are solved state by state
ARMS = tuple(Arm(name=f"{k}", prior=BetaBernoulli(good=1.0 + k, bad=1.5)) for k in range(2))
PROBLEM = Problem(arms=ARMS, horizon=STAGES)
BASE = np.linspace(0.3, 0.1, STAGES)

TABLES: dict[str, Callable[[], np.ndarray]] = {
    "swept": lambda: Calibration(PROBLEM, BASE, sweeps=300, workers=1).stage_index(30),
    "tick": lambda: TickCalibration(PROBLEM, BASE, tick=0.03, workers=1).stage_index(30),
    "values": lambda: OneArmValues(PROBLEM, BASE, kept_bytes=0).values(2, 0),
}


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> None:
    calibration._SHARED.clear()


@pytest.mark.parametrize("name", TABLES)
def test_legs_do_not_change_a_single_digit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TABLES[name]()
    calibration._SHARED.clear()
    monkeypatch.setattr(workers, "STATES_AT_ONCE", 1)
    assert np.array_equal(TABLES[name](), whole)


@pytest.mark.parametrize("spans", [2, 3, 7])
@pytest.mark.parametrize("name", ["swept", "tick"])
def test_tables_of_some_stages_at_a_time_have_the_same_digits(
    name: str, spans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order of stages; no more memory than a span is asked for."""
    make: Callable[[], Calibration] = {
        "swept": lambda: Calibration(PROBLEM, BASE, sweeps=300),
        "tick": lambda: TickCalibration(PROBLEM, BASE, tick=0.03),
    }[name]
    whole = make()
    tables = [whole.stage_index(t) for t in range(STAGES)]
    states = [len(table[0]) for table in tables]
    monkeypatch.setattr(calibration, "SPAN_BYTES", 16 * sum(states) // spans + 1)
    asked: list[float] = []
    monkeypatch.setattr(calibration, "refuse_over", lambda needed, *said: asked.append(needed))
    cut, seen = make(), set()
    for t in [*range(STAGES), 3, 50, 17]:
        assert np.array_equal(cut.stage_index(t), tables[t])
        assert cut._span is not None
        seen.add((cut._span.first, cut._span.last))
    assert len(seen) == spans
    assert max(asked) < 16 * (sum(states) / spans + 2 * states[-1])


def test_one_index_of_a_long_horizon_is_found_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGINT in the third step of the search ends it."""
    falling = Calibration(PROBLEM, np.linspace(0.2, 0.0, STAGES))
    steps: list[float] = []

    def strike(*state: object) -> float:
        steps.append(1.0)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return float(advantage(*state))

    monkeypatch.setattr(calibration, "advantage", strike)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            falling.index(3, 0, 1, 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(steps) == 3


@pytest.mark.parametrize("name", TABLES)
def test_ctrl_c_between_legs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real SIGINT when the third leg begins: no other begins after it."""
    begun: list[int] = []

    def strike() -> None:
        begun.append(1)
        if len(begun) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(workers, "STATES_AT_ONCE", 1)
    monkeypatch.setattr(workers, "heed_interrupt", strike)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            TABLES[name]()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(begun) == 3
