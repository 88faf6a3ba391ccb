"""What the benchmarks measure against computes the same thing, and their table can be read."""

import io
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from decobandit.problem import Arm, Beta, Problem, Reward
from decobandit.registry import POLICIES, Workbench
from oracles import OneArm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks.__main__ import table  # noqa: E402
from benchmarks.bench_backward import Backward, compiled, ours, with_numpy  # noqa: E402
from benchmarks.bench_simulation import CASES, Case, noise, speed  # noqa: E402
from benchmarks.occupancy_lp import maximum, occupancy_lp  # noqa: E402
from benchmarks.peers import NotMeasuredError, Peer, rates  # noqa: E402
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


# -- simulation ---------------------------------------------------------------------------------


def script(folder: Path, text: str) -> Path:
    """A peer's script."""
    file = folder / "script.py"
    file.write_text(text, encoding="utf-8")
    return file


def test_noise_of_one_pull_is_that_of_the_closed_forms() -> None:
    # One of two arms is pulled once. Plain: a fair coin, 1/4. Expected: (q - p)^+ of two uniforms,
    # mean 1/6 and mean square 1/12, so 1/18.
    rows = {row.what: row for row in noise(2, 1, draws=20_000, policies=["greedy"])}
    row = rows["variance, greedy (2, 1), expected"]
    assert row.beside_value == pytest.approx(1 / 4, rel=0.02)
    assert row.ours == pytest.approx(1 / 18, rel=0.05)
    assert row.ratio == pytest.approx(4.5, rel=0.06)


def test_speed_has_rows_for_limit_tables_and_peers(tmp_path: Path) -> None:
    said = 'import json; print("hello"); print(json.dumps({"": 5.0, "core alone": 2.0}))'
    there = Peer("there", ("greedy",), script=script(tmp_path, said), folder=tmp_path)
    away = Peer("away", ("greedy",), why_not="no package")
    other = Peer("other", ("thompson",), why_not="never asked")
    case = Case("greedy", 1e-9, "k steps/s", draws=4, per_draw=2)
    bench = Workbench(Problem.uniform(arms=2, horizon=5))
    rows = speed(bench, case, [there, away, other], repeats=1)
    limit, bare, tables, one, core, none = rows
    assert limit.met is True
    assert limit.ours == one.ours > 0
    assert bare.ours > 0
    assert tables.unit == "s"
    # one copy on each core, thousands of steps
    assert one.beside_value == pytest.approx(5e-3 * (os.cpu_count() or 1))
    assert one.ratio == pytest.approx(one.ours / one.beside_value)
    assert (core.beside, core.beside_value) == ("there, core alone", 0.4 * one.beside_value)
    assert none.beside == "away: not measured: no package"
    assert none.ratio is None


def test_speed_leaves_out_a_policy_that_is_not_there() -> None:
    case = Case("no-such-policy", 1.0, "k steps/s", draws=4, per_draw=1)
    assert speed(Workbench(Problem.uniform(arms=2, horizon=3)), case, [], repeats=1) == []


def test_every_case_of_speed_is_a_policy() -> None:
    assert {case.policy for case in CASES} <= set(POLICIES)


def test_peer_that_does_not_install_says_so_in_one_line(tmp_path: Path) -> None:
    wanted = ("--no-index", "no-such-package")
    peer = Peer("p", ("deco",), wanted, script(tmp_path, ""), folder=tmp_path)
    with pytest.raises(NotMeasuredError, match=r"^does not install: .*no-such-package[^\n]*$"):
        rates(peer, "deco", 2, 3, 0.1)


def test_peer_that_does_not_run_says_so_in_one_line(tmp_path: Path) -> None:
    peer = Peer("p", ("deco",), script=script(tmp_path, "import no_such_module"), folder=tmp_path)
    with pytest.raises(NotMeasuredError, match=r"^does not run: .*no_such_module[^\n]*$"):
        rates(peer, "deco", 2, 3, 0.1)
