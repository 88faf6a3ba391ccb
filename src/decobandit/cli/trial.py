"""`deco trial`: ask for the next arm, tell what happened, and check that nothing was lost."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    Db,
    Horizon,
    PriorBad,
    PriorGood,
    Ties,
    Tolerance,
    print_json,
    problem_from,
    solve_shown,
)
from .trial_access import TrialName, database, opened
from .trial_records import export, replay, verify
from .trial_tables import print_allocation, print_list, print_status

if TYPE_CHECKING:
    from ..trials import Allocation

OUTCOMES = {"1": 1, "good": 1, "success": 1, "yes": 1, "0": 0, "bad": 0, "failure": 0, "no": 0}

trial = typer.Typer(
    name="trial",
    help="Run a trial: ask for the next arm, tell its outcome. Every event is kept and chained.",
)

AllocationId = Annotated[
    str, typer.Argument(metavar="ALLOCATION", help="The id that 'ask' answered.")
]
Outcome = Annotated[str, typer.Argument(metavar="OUTCOME", help="1 or good, 0 or bad.")]
Key = Annotated[
    str | None,
    typer.Option(help="The same key again gives the same answer, and no second event."),
]
By = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who is asking. [default: the user's name]")
]


@trial.command()
def new(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="PROBLEM|SOLUTION", help="Problem file, or a saved solution."),
    ] = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    name: Annotated[str | None, typer.Option(help="What the trial is called.")] = None,
    policy: Annotated[str, typer.Option(help=f"One of: {POLICY_NAMES}.")] = "deco",
    seed: Annotated[
        int | None, typer.Option(min=0, help="For policies that draw. [default: drawn, and kept]")
    ] = None,
    ties: Ties = "least-pulled",
    tol: Tolerance = 1e-4,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Plan a trial and enter it into the database."""
    with database(db) as store:
        from ..registry import Workbench
        from ..trials import create_trial

        saved = _saved(file)
        problem = saved.problem if saved else problem_from(
            file, arms, horizon, prior_good, prior_bad
        )  # fmt: skip
        Workbench(problem).check([policy])  # before the long work
        solution = saved or solve_shown(problem, tol)
        made = create_trial(
            problem, policy=policy, name=name, db=store, seed=seed, tol=tol, ties=ties,
            by=_user(by), solution=solution,
        )  # fmt: skip
        result = {
            "id": made.id,
            "name": made.name,
            "policy": made.policy,
            "horizon": problem.horizon,
            "upper_bound": made.solution.upper_bound,
            "seed": made.plan.seed,
            "db": str(store.url),
        }
        if as_json:
            print_json(result)
        else:
            print(f"trial {made.name} ({made.id}): {made.policy}, horizon {problem.horizon}")
            bound = made.solution.upper_bound
            print(f"no policy can expect more than {bound:.6f} (the bound from prices)")
            place = f" --db {shlex.quote(db)}" if db else ""
            print(f"next: deco trial ask {shlex.quote(made.name)}{place}")


@trial.command(name="list")
def list_all(db: Db = None, as_json: AsJson = False) -> None:
    """List the trials of the database."""
    with database(db, existing=True) as store:
        from ..trials import list_trials

        found = list_trials(db=store)
    if as_json:
        print_json({"trials": [summary.to_dict() for summary in found]})
    else:
        print_list(found)


@trial.command()
def ask(
    trial: TrialName, key: Key = None, by: By = None, db: Db = None, as_json: AsJson = False
) -> None:
    """Allocate the next slot: which arm is next, and why."""
    with opened(trial, db) as here:
        _answer(here.ask(key=key, by=_user(by)), as_json)


@trial.command()
def tell(
    trial: TrialName,
    allocation: AllocationId,
    outcome: Outcome,
    key: Key = None,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record the outcome of an allocation."""
    good = _outcome(outcome)
    with opened(trial, db) as here:
        _answer(here.tell(allocation, good, key=key, by=_user(by)), as_json)


@trial.command()
def cancel(
    trial: TrialName,
    allocation: AllocationId,
    key: Key = None,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Give up an allocation that will have no outcome; its slot is free again."""
    with opened(trial, db) as here:
        _answer(here.cancel(allocation, key=key, by=_user(by)), as_json)


@trial.command()
def correct(
    trial: TrialName,
    allocation: AllocationId,
    outcome: Outcome,
    key: Key = None,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Replace a recorded outcome; the old one stays in the log."""
    good = _outcome(outcome)
    with opened(trial, db) as here:
        _answer(here.correct(allocation, good, key=key, by=_user(by)), as_json)


@trial.command()
def status(trial: TrialName, db: Db = None, as_json: AsJson = False) -> None:
    """Show how a trial stands, why its next arm is next, and how far from optimal it can be."""
    with opened(trial, db) as here:
        found = here.status()
    if as_json:
        print_json(found.to_dict())
    else:
        print_status(found)


for command in (export, verify, replay):
    trial.command()(command)


def _saved(file: Path | None) -> Any:
    if file is None or file.suffix.lower() != ".json":
        return None
    from ..problem_files import read_tree
    from ..solution_files import is_solution, load_solution

    return load_solution(file) if is_solution(read_tree(file)) else None


def _outcome(text: str) -> int:
    if text.lower() not in OUTCOMES:
        raise typer.BadParameter(f"outcome: {text!r}; must be 1 or good, 0 or bad")
    return OUTCOMES[text.lower()]


def _user(by: str | None) -> str:
    if by is not None:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this user id
        return "command line"


def _answer(allocation: Allocation, as_json: bool) -> None:
    if as_json:
        print_json(allocation.to_dict())
    else:
        print_allocation(allocation)
