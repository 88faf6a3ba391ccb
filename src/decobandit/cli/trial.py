"""`deco trial`: ask for the next arm, tell what happened, and check that nothing was lost."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from ..policies.names import DEFAULT_POLICY
from .commands import Commands
from .options import AsJson, Db
from .output import print_json, say
from .policy_options import Chosen, takes_policies
from .trial_access import (
    By,
    Reason,
    Request,
    Slot,
    StaleAfter,
    changes_trial,
    database,
    takes_store,
    takes_trial,
    user,
)
from .trial_backup import backup
from .trial_checkpoint import checkpoint
from .trial_lifecycle import archive, close, limits, reopen, unmask
from .trial_records import export, replay, verify
from .trial_report import report
from .trial_tables import print_list, print_status

if TYPE_CHECKING:
    from ..trials import Allocation, Store, Trial

OUTCOMES = {"1": 1, "good": 1, "success": 1, "yes": 1, "0": 0, "bad": 0, "failure": 0, "no": 0}

trial = Commands(
    name="trial",
    help="Run a trial: ask for the next arm, record its outcome. Every event is logged.",
)


def _outcome(text: str) -> int:
    if text.lower() not in OUTCOMES:
        raise typer.TyperException(f"outcome: {text!r}; must be 1 or good, 0 or bad")
    return OUTCOMES[text.lower()]


Outcome = Annotated[
    int, typer.Argument(metavar="OUTCOME", parser=_outcome, help="1 or good, 0 or bad.")
]


@trial.command()
@takes_policies(DEFAULT_POLICY, several=False, saved="prices")
def new(
    chosen: Chosen,
    name: Annotated[str | None, typer.Option(help="What the trial is called.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, show_default="drawn, and kept", help="For policies that draw."),
    ] = None,
    max_open: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="half the slots, at least 50",
            help="Allocations that may be pending at the same time.",
        ),
    ] = None,
    max_cancelled: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="half the slots, at least 20",
            help="Allocations that may be cancelled in all.",
        ),
    ] = None,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Plan a trial and enter it into the database."""
    with database(db) as store:
        from ..trials import create_trial

        context = chosen.context
        made = create_trial(
            context.problem, policy=chosen.policy, name=name, db=store, seed=seed, tol=context.tol,
            ties=context.ties, by=user(by), solution=context.solution, max_open=max_open,
            max_cancelled=max_cancelled,
        )  # fmt: skip
        if as_json:
            print_json(_plan(made, store))
        else:
            _print_plan(made, db)


def _plan(made: Trial, store: Store) -> dict[str, Any]:
    return {
        "id": made.id,
        "name": made.name,
        "policy": made.policy,
        "horizon": made.problem.horizon,
        "upper_bound": made.solution.upper_bound,
        "seed": made.plan.seed,
        "db": str(store.url),
    }


def _print_plan(made: Trial, db: str | None) -> None:
    print(f"trial {made.name} ({made.id}): {made.policy}, horizon {made.problem.horizon}")
    bound = made.solution.upper_bound
    print(f"no policy can earn more than {bound:.6f} in expectation (from the prices)")
    place = f" --db {shlex.quote(db)}" if db else ""
    print(f"next: deco trial ask {shlex.quote(made.name)}{place}")


@trial.command(name="list")
@takes_store
def list_all(
    store: Store,
    archived: Annotated[bool, typer.Option("--archived", help="Archived trials, too.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, max=1000, show_default="all", help="Trials at most.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TRIAL", help="Begin after this trial (name or id).")
    ] = None,
    stale_after: StaleAfter = 72.0,
    as_json: AsJson = False,
) -> None:
    """List the trials of the database, the oldest first."""
    from ..trials.trial_lists import all_trials, page_of_trials

    listed = all_trials if limit is None else partial(page_of_trials, limit=limit)
    found = listed(store, after=after, archived=archived, stale_after=stale_after)
    if as_json:
        following = {} if found.next is None else {"next": found.next}
        print_json({"trials": [summary.to_dict() for summary in found.items], **following})
    else:
        print_list(found.items, hidden=found.hidden)
        if found.next is not None:
            say(f"more follow: --after {found.next}")


@changes_trial
def ask(
    here: Trial,
    subject: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Who it is for; the same subject gets the same answer."),
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="Kept in the log.")] = None,
    **request: Unpack[Request],
) -> Allocation:
    """Allocate the next slot: which arm is next, and why."""
    return here.ask(subject=subject, note=note, **request)


@changes_trial
def tell(here: Trial, slot: Slot, outcome: Outcome, **request: Unpack[Request]) -> Allocation:
    """Record the outcome of an allocation."""
    return here.tell(slot, outcome, **request)


@changes_trial
def cancel(here: Trial, slot: Slot, reason: Reason, **request: Unpack[Request]) -> Allocation:
    """Give up an allocation that will have no outcome; its slot is free again."""
    return here.cancel(slot, reason=reason, **request)


@changes_trial
def correct(
    here: Trial, slot: Slot, outcome: Outcome, reason: Reason, **request: Unpack[Request]
) -> Allocation:
    """Replace a recorded outcome; the old one stays in the log."""
    return here.correct(slot, outcome, reason=reason, **request)


@takes_trial
def status(here: Trial, stale_after: StaleAfter = 72.0, as_json: AsJson = False) -> None:
    """Show how a trial stands, why its next arm is next, and how far from optimal it can be."""
    from ..trials.log_pages import ledger_of
    from ..trials.staleness import stale_ids

    ledger = ledger_of(here.store, here.id)
    found, stale = here.status_at(ledger), stale_ids(ledger.since, stale_after)
    if as_json:
        print_json(found.to_dict() | {"stale": stale})
    else:
        print_status(found, {made: ledger.since[made] for made in stale})


LIFE = (close, reopen, archive, limits, unmask)
RECORD = (report, export, verify, replay, checkpoint, backup)
for command in (ask, tell, cancel, correct, status, *LIFE, *RECORD):
    trial.command()(command)
