"""`deco trial`: ask for the next arm, tell what happened, and check that nothing was lost."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
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
    check_database,
    check_writable,
    print_json,
    problem_from,
    solve_shown,
)
from .trial_tables import print_allocation, print_list, print_status

if TYPE_CHECKING:
    from ..trials import Allocation, Trial

FOUND_SOMETHING = 1
OUTCOMES = {"1": 1, "good": 1, "success": 1, "yes": 1, "0": 0, "bad": 0, "failure": 0, "no": 0}

trial = typer.Typer(
    name="trial",
    help="Run a trial: ask for the next arm, tell its outcome. Every event is kept and chained.",
)

TrialName = Annotated[str, typer.Argument(metavar="TRIAL", help="Name or id of the trial.")]
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
    with _database(db) as store:
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
    with _database(db, existing=True) as store:
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
    with _opened(trial, db) as opened:
        _answer(opened.ask(key=key, by=_user(by)), as_json)


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
    with _opened(trial, db) as opened:
        _answer(opened.tell(allocation, good, key=key, by=_user(by)), as_json)


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
    with _opened(trial, db) as opened:
        _answer(opened.cancel(allocation, key=key, by=_user(by)), as_json)


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
    with _opened(trial, db) as opened:
        _answer(opened.correct(allocation, good, key=key, by=_user(by)), as_json)


@trial.command()
def status(trial: TrialName, db: Db = None, as_json: AsJson = False) -> None:
    """Show how a trial stands, why its next arm is next, and how far from optimal it can be."""
    with _opened(trial, db) as opened:
        found = opened.status()
    if as_json:
        print_json(found.to_dict())
    else:
        print_status(found)


@trial.command()
def export(
    trial: TrialName,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".json: everything; .csv: one row per allocation."),
    ] = None,
    db: Db = None,
) -> None:
    """Write the whole trial; as JSON on standard output where no file is given."""
    if out is not None:
        if out.suffix not in (".json", ".csv"):
            raise typer.BadParameter(f"{out}: must end in .json or .csv")
        check_writable(out)
    with _opened(trial, db) as opened:
        from ..trials import outcomes_csv

        if out is not None and out.suffix == ".csv":
            text = outcomes_csv(opened.events())
        else:
            text = json.dumps(opened.export(), allow_nan=False, indent=1) + "\n"
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")


@trial.command()
def verify(
    trial: Annotated[
        str | None,
        typer.Argument(metavar="[TRIAL]", help="Name or id; all trials where none is given."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Check an exported trial instead."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="The head as it was written down elsewhere."),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Check the chain of events: exit code 1 if any was edited, removed or moved."""
    from ..trials.verification import verify_export, with_head

    if file is not None and trial is not None:
        raise typer.BadParameter("give a trial, or --export and a file, not both")
    found = _verified(trial, db) if file is None else [verify_export(_exported(file))]
    if head is not None:
        if len(found) != 1:
            raise typer.BadParameter("--head: name the trial that it belongs to")
        found = [with_head(found[0], head)]
    if as_json:
        print_json({"ok": all(v.ok for v in found), "trials": [v.to_dict() for v in found]})
    else:
        for one in found:
            state = "intact" if one.ok else "NOT INTACT"
            print(f"trial {one.trial}: {one.events} events, {state}, head {one.head}")
            for problem in one.problems:
                print(f"  {problem}")
    if not all(one.ok for one in found):
        raise typer.Exit(FOUND_SOMETHING)


@trial.command()
def replay(trial: TrialName, db: Db = None, as_json: AsJson = False) -> None:
    """Make every decision again and compare: exit code 1 if one comes out otherwise."""
    with _opened(trial, db) as opened:
        found = opened.replay()
    if as_json:
        print_json(found.to_dict())
    else:
        state = "all as recorded" if found.ok else "NOT as recorded"
        print(f"trial {found.trial}: {found.decisions} decisions made again, {state}")
        for difference in found.differences:
            print(f"  {difference}")
    if not found.ok:
        raise typer.Exit(FOUND_SOMETHING)


def _verified(trial: str | None, db: str | None) -> list[Any]:
    with _database(db, existing=True) as store:
        from ..trials.verification import verify_database, verify_named

        with store.read() as connection:
            return [verify_named(connection, trial)] if trial else verify_database(connection)


@contextmanager
def _database(db: str | None, *, existing: bool = False) -> Iterator[Any]:
    check_database(db)
    try:
        from ..trials import open_store
    except ImportError as error:
        raise ImportError(
            f"trials need a library that is not installed ({error.name}): "
            "pip install 'decobandit[trials]'"
        ) from None
    with open_store(db, existing=existing) as store:
        yield store


@contextmanager
def _opened(trial: str, db: str | None) -> Iterator[Trial]:
    with _database(db, existing=True) as store:
        from ..trials import open_trial

        yield open_trial(trial, db=store)


def _saved(file: Path | None) -> Any:
    if file is None or file.suffix.lower() != ".json":
        return None
    from ..problem_files import read_tree
    from ..solution_files import is_solution, load_solution

    return load_solution(file) if is_solution(read_tree(file)) else None


def _exported(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise typer.BadParameter(f"{file}: is not JSON; give a file that 'export' wrote") from None


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
