"""What the benchmarks measure against computes the same thing, and their table can be read."""

import io
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from decobandit.problem import Arm, Beta, Problem, Reward
from oracles import OneArm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks.__main__ import table  # noqa: E402
from benchmarks.bench_backward import Backward, compiled, ours, with_numpy  # noqa: E402
from benchmarks.occupancy_lp import maximum, occupancy_lp  # noqa: E402
from benchmarks.rows import Row, at_most  # noqa: E402


def check_backward(backward: Backward) -> None:
    arm = Arm(name="a", prior=Beta(good=1.5, bad=2), reward=Reward(good=1.2, bad=-0.1))
    problem = Problem(arms=(arm,), horizon=12)
    prices = np.linspace(0.6, 0.2, 12)
    (group,) = problem.groups
    expected = OneArm(problem, arm, prices.tolist()).value(0, 0, 0)
    assert expected > 0
    assert backward(group, prices) == pytest.approx(expected)


@pytest.mark.parametrize("backward", [ours, with_numpy])
def test_backward_passes_give_the_value_of_an_arm(backward: Backward) -> None:
    check_backward(backward)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_plain_c_loop_gives_the_value_of_an_arm(tmp_path: Path) -> None:
    check_backward(compiled(tmp_path))


@pytest.mark.parametrize("method", ["highs-ds", "highs-ipm"])
def test_linear_program_has_the_dual_minimum(method: str) -> None:
    assert maximum(occupancy_lp(3, 10), method) == pytest.approx(6.716877801660787, abs=1e-6)


def test_table_shows_what_is_met_and_what_is_not() -> None:
    rows = [at_most("fast", 2.0, "s", 5.0), at_most("large", 3.0, "GiB", 2.0)]
    rows.append(Row("alone", 1.0, "s", "no peer here", None, None))
    text = io.StringIO()
    Console(file=text, width=120).print(table(rows))
    lines = {line.split()[1]: line.split() for line in text.getvalue().splitlines()[4:-1]}
    assert "yes" in lines["fast"]
    assert "2.5" in lines["fast"]  # 5 s allowed, 2 s taken
    assert "NO" in lines["large"]
    assert {"yes", "NO"}.isdisjoint(lines["alone"])
