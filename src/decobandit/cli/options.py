"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..best_bounds import BestBound
    from ..dual import DualSolution
    from ..evaluation import Reached
    from ..problem import Problem

ProblemFile = Annotated[
    Path | None, typer.Argument(metavar="PROBLEM", help="Problem file, .toml or .json.")
]
Arms = Annotated[
    int | None, typer.Option("--arms", metavar="K", help="Number of equal arms, with --horizon.")
]
Horizon = Annotated[
    int | None, typer.Option("--horizon", metavar="T", help="Number of stages, with --arms.")
]
PriorGood = Annotated[
    float | None, typer.Option(help="Prior weight of good outcomes, with --arms. [default: 1]")
]
PriorBad = Annotated[
    float | None, typer.Option(help="Prior weight of bad outcomes, with --arms. [default: 1]")
]
Tolerance = Annotated[float, typer.Option("--tol", help="Relative gap at which to stop.")]
POLICY_NAMES = (
    "deco, deco-calibrated, rolling-deco, fh-gittins, optimal, greedy, equal, "
    "explore-then-commit, ucb1, ucb-tuned, moss, kl-ucb, bayes-ucb, ogi, "
    "thompson, ids, v-ids, knowledge-gradient"
)
Ties = Annotated[
    str,
    typer.Option(
        help="How index policies break ties: least-pulled, most-pulled, first, last, random."
    ),
]
Draws = Annotated[int, typer.Option(help="How often the parameters are drawn.")]
PerDraw = Annotated[int, typer.Option(help="Episodes played with each draw.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
BoundDraws = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Scenarios of the information bound; 0 for none. [default: 200 on small problems]",
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="FILE|URL",
        help="Database of trials: an SQLite file, or postgresql://... without a password. "
        "[default: DECO_DB, else deco-trials.db]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

FIGURES = (".png", ".svg", ".pdf")
PAGES = (".html",)
_OPTION_OF_PLACE = {
    "options: arms[0].count": "--arms",
    "options: horizon": "--horizon",
    "options: arms[0].prior.good": "--prior-good",
    "options: arms[0].prior.bad": "--prior-bad",
}


def problem_from(
    file: Path | None,
    arms: int | None,
    horizon: int | None,
    prior_good: float | None = None,
    prior_bad: float | None = None,
) -> Problem:
    """The problem that the options describe."""
    _check_one_source(file, arms, horizon, prior_good, prior_bad)
    if file is not None:
        from ..problem_files import problem_from_dict, read_tree

        tree = read_tree(file)
        if isinstance(tree, dict) and "multipliers" in tree:
            raise typer.BadParameter(f"{file}: is a saved solution; use it with 'deco recommend'")
        return problem_from_dict(tree, source=str(file))
    from ..problem_files import ProblemError, problem_from_dict

    prior = {"good": 1.0 if prior_good is None else prior_good,
             "bad": 1.0 if prior_bad is None else prior_bad}  # fmt: skip
    entry = {"name": "arm", "prior": prior, "count": arms}
    try:
        return problem_from_dict({"horizon": horizon, "arms": [entry]}, source="options")
    except ProblemError as error:
        raise ProblemError(_in_terms_of_options(str(error))) from None


def _in_terms_of_options(message: str) -> str:
    for place, option in _OPTION_OF_PLACE.items():
        message = message.replace(place, option)
    return message


def _check_one_source(
    file: Path | None,
    arms: int | None,
    horizon: int | None,
    prior_good: float | None,
    prior_bad: float | None,
) -> None:
    by_options = [value for value in (arms, horizon, prior_good, prior_bad) if value is not None]
    if file is not None and by_options:
        raise typer.BadParameter("give a problem file, or --arms and --horizon, not both")
    if file is None and (arms is None or horizon is None):
        raise typer.BadParameter("give a problem file, or both --arms and --horizon")


def solve_shown(problem: Problem, tol: float) -> DualSolution:
    """Solve with progress on standard error where that is a terminal."""
    from ..dual import solve
    from ..progress import show_progress

    with show_progress(problem.stages) as report:
        solution = solve(problem, tol=tol, progress=report)
    if solution.interrupted:
        say("interrupted: this is the best solution so far")
    return solution


def say(line: str) -> None:
    """A line for people, where it does not mix with results."""
    print(line, file=sys.stderr)


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{option}: {text!r}; must be numbers separated by commas"
        ) from None


@contextmanager
def show_levels(what: str) -> Iterator[Callable[..., None] | None]:
    """A callback (done, in all) that draws a bar on standard error; None off a terminal.

    A third argument says what is under way, where that changes.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, now=what: bar.update(
            task, completed=done, total=total, description=now
        )


@contextmanager
def show_states(what: str) -> Iterator[Callable[[Reached], None] | None]:
    """The same for an exact evaluation, which knows its stage and the states so far."""
    with show_levels(what) as levels:
        if levels is None:
            yield None
        else:
            yield lambda reached: levels(reached.stage, reached.stages)


@contextmanager
def show_played() -> Iterator[Any]:
    """The same for a simulation, which knows the policy under way and its steps so far."""
    with show_levels("") as levels:
        if levels is None:
            yield None
        else:
            yield lambda at: levels(at.steps, at.of, at.policy)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before the long work begins."""
    folder = path.absolute().parent
    if path.is_dir():
        raise typer.BadParameter(f"{path}: is a directory; give a file")
    if not folder.is_dir():
        raise typer.BadParameter(f"{path}: no such directory as {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise typer.BadParameter(f"{path}: cannot be written")


def check_figure(path: Path, *, pages: bool = False) -> None:
    """Refuse a figure that could not be written, before the long work begins.

    `pages`: it may be a page to point at, too.
    """
    allowed = FIGURES + PAGES if pages else FIGURES
    if path.suffix not in allowed:
        raise typer.BadParameter(f"{path}: must end in {', '.join(allowed)}")
    check_writable(path)


def make_folder(path: Path) -> None:
    """Make a folder for output, or refuse it before the long work begins."""
    if path.exists() and not path.is_dir():
        raise typer.BadParameter(f"{path}: is a file; give a directory")
    path.mkdir(parents=True, exist_ok=True)


def print_json(tree: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    print(json.dumps(tree, allow_nan=False))


def check_database(db: str | None) -> None:
    """Refuse a password that others can read in the list of processes."""
    import re

    if db is not None and re.search(r"://[^/@]*:[^/@]+@|[?&]password=", db):
        raise typer.BadParameter(
            "--db: a password on the command line can be read by others; put the URL into DECO_DB, "
            "or the password into PGPASSWORD or a password file"
        )


def percent(value: float | None) -> str:
    """A share for people."""
    return "" if value is None else f"{value:.2f}%"


def said_of(bound: BestBound) -> str:
    """What a bound means."""
    why = {
        "lagrangian": "from the prices",
        "trivial": "what the best arms earn",
        "information": "the information bound, three standard errors on top; see --bound-draws",
    }[bound.kind]
    return f"no policy can earn more than {bound.value:.6f} ({why})"


def title_of(problem: Problem) -> str:
    """What a table is about."""
    pulls = problem.pulls_per_stage
    several = f", {pulls} pulls per stage" if pulls > 1 else ""
    return f"{problem.number_of_arms} arms, horizon {problem.horizon}{several}"
