"""Progress: one signature for all that takes long, one way to draw it."""

import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from decobandit import make_policy, show_progress
from decobandit.arm import PricePath, calibration
from decobandit.bounds import bound, gap
from decobandit.evaluation import evaluate
from decobandit.joint import optimum
from decobandit.paper import figure3
from decobandit.paper.experiments import Runs
from decobandit.policies import (
    CalibratedPolicy,
    GreedyPolicy,
    KlUcbPolicy,
    OptimalPolicy,
    Policy,
)
from decobandit.prices import solve
from decobandit.problem import Problem
from decobandit.simulation import simulate
from decobandit.support import Progress, Report, pool, tell, tells_progress
from decobandit.support import progress as progress_module
from helpers.values import information_bound

PROBLEM = Problem.uniform(arms=2, horizon=4)
GREEDY = GreedyPolicy(PROBLEM)

WORK: dict[str, Callable[[Report], object]] = {
    "solve": lambda report: solve(PROBLEM, progress=report),
    "optimum": lambda report: optimum(PROBLEM, progress=report),
    "optimal policy": lambda report: OptimalPolicy(PROBLEM, progress=report),
    "evaluate": lambda report: evaluate(PROBLEM, GREEDY, progress=report),
    "simulate": lambda report: simulate(PROBLEM, [GREEDY], draws=2, per_draw=1, progress=report),
    "exact gap": lambda report: gap(PROBLEM, GREEDY, method="exact", progress=report),
    "simulated gap": lambda report: gap(
        PROBLEM, GREEDY, method="simulated", draws=10, progress=report
    ),
    "information bound": lambda report: information_bound(PROBLEM, draws=2, progress=report),
    "best bound": lambda report: bound(PROBLEM, draws=50, progress=report),
}


@pytest.mark.parametrize("name", WORK)
def test_all_that_takes_long_reports_in_the_same_way(name: str) -> None:
    seen: list[Progress] = []
    WORK[name](seen.append)
    assert seen
    for each in seen:
        assert isinstance(each, Progress)
        assert each.what
        assert each.total is None or 0 <= each.done <= each.total


def test_the_paper_reports_in_the_same_way(tmp_path: Path) -> None:
    seen: list[Progress] = []
    settings = figure3.Sizes((2,), (2,), Runs(2, 1), Runs(2, 1))
    figure3.run(settings, tmp_path, seen.append)
    assert {(each.what, each.total) for each in seen} == {("figure3", len(seen) - 1)}


TABLES = Problem.uniform(arms=2, horizon=52)  # long enough for tables of all stages, made by sweeps


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (lambda: make_policy(TABLES, "fh-gittins"), "table of indices"),
        (lambda: CalibratedPolicy(TABLES, PricePath(kappa=0.1317)), "table of indices"),
        (lambda: KlUcbPolicy(TABLES), "tables of stages"),
    ],
)
def test_a_simulation_tells_how_far_its_tables_are(policy: Callable[[], Policy], what: str) -> None:
    """From nothing to all of them, on the calling thread, before the episodes are over."""
    seen: list[tuple[Progress, int]] = []

    def report(now: Progress) -> None:
        seen.append((now, threading.get_ident()))

    calibration._SHARED.clear()
    simulate(TABLES, [policy()], draws=2, per_draw=1, progress=report)
    tables = [(now.done, now.total) for now, _ in seen if now.what == what]
    assert len(tables) >= 2
    assert tables == sorted(tables)
    assert tables[0][0] == 0
    assert all(0 <= done <= (total or 0) for done, total in tables)
    assert "table" not in seen[-1][0].what  # episodes come last
    assert {thread for _, thread in seen} == {threading.get_ident()}


def test_nobody_is_told_without_a_callback() -> None:
    tell(Progress("work", 1, 2))  # outside of everything
    heard: list[Progress] = []

    @tells_progress
    def outer(*, progress: Report | None = None) -> None:
        tell(Progress("outer", 1, 2))
        with pool(2) as threads:
            threads.map(lambda k: tell(Progress("thread", k, 2)), range(2))
            assert threads.map_told("items", lambda k: 2 * k, range(3)) == [0, 2, 4]

    outer()
    assert not heard
    outer(progress=heard.append)
    tell(Progress("after", 1, 2))
    assert [(now.what, now.done) for now in heard] == [
        ("outer", 1),
        ("items", 0),
        ("items", 1),
        ("items", 2),
        ("items", 3),
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Puts a terminal of 80 columns in the place of standard error, when it is called."""
    monkeypatch.setattr(progress_module, "QUIET_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def begin() -> Terminal:
        shown = Terminal()
        monkeypatch.setattr("sys.stderr", shown)
        return shown

    return begin


@pytest.mark.parametrize("name", WORK)
def test_whatever_takes_long_can_be_shown(terminal: Callable[[], Terminal], name: str) -> None:
    stderr = terminal()
    with show_progress() as report:
        assert report is not None
        WORK[name](report)
    shown = stderr.getvalue()
    if name == "solve":
        assert "bound " in shown
        assert "gap " in shown
        assert "Ctrl-C" in shown
    else:
        assert "%" in shown


def test_notes_and_names_are_shown_as_they_are(terminal: Callable[[], Terminal]) -> None:
    stderr = terminal()
    with show_progress() as report:
        assert report is not None
        report(Progress("[red]cells[/red]", 1, 4, "12 [bold] states"))
    shown = stderr.getvalue()
    assert "[red]cells[/red]" in shown
    assert "12 [bold] states" in shown
    assert "25%" in shown


def test_a_coarse_start_is_said() -> None:
    seen: list[Progress] = []
    solve(Problem.uniform(arms=2, horizon=210), tol=1e-2, progress=seen.append)
    assert seen[0].note.startswith("coarse start, 52 stages, ")
    assert seen[-1].note.startswith("210 stages, ")


def test_short_searches_and_what_is_no_terminal_show_nothing(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = terminal()
    monkeypatch.setattr(progress_module, "QUIET_SECONDS", 60.0)
    with show_progress() as report:
        assert report is not None
        solve(PROBLEM, progress=report)
    assert "bound" not in stderr.getvalue()
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with show_progress() as report:
        assert report is None
