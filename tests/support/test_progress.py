"""Progress: one signature for all that takes long, one way to draw it."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from decobandit import show_progress
from decobandit.bounds import best_bound, gap, information_bound
from decobandit.evaluation import evaluate
from decobandit.joint import optimum
from decobandit.paper import figure3
from decobandit.paper.cells import Runs
from decobandit.policies import GreedyPolicy, OptimalPolicy
from decobandit.prices import solve
from decobandit.problem import Problem
from decobandit.simulation import simulate
from decobandit.support import Progress, Report
from decobandit.support import progress as progress_module

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
        PROBLEM, GREEDY, method="simulated", draws=2, progress=report
    ),
    "information bound": lambda report: information_bound(PROBLEM, draws=2, progress=report),
    "best bound": lambda report: best_bound(PROBLEM, draws=50, progress=report),
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


def test_stages_need_not_be_told_any_more() -> None:
    with pytest.warns(DeprecationWarning, match="'stages' is no longer needed"), show_progress(100):
        pass
