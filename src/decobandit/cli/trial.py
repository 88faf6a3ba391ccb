"""`deco trial`: ask for the next arm, tell what happened, and check that nothing was lost."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from ..policies.names import DEFAULT_POLICY
from .options import SIGNED_ARGUMENTS, AsJson, Bound, Commands, Db
from .output import print_json, said_of, say
from .problem_options import Chosen, takes_policies
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
from .trial_batches import CountsText, GivenOutcomes, allocations, takes_outcomes
from .trial_checkpoint import checkpoint
from .trial_lifecycle import archive, close, limits, reopen, unmask
from .trial_records import export, replay, verify
from .trial_report import report
from .trial_tables import print_list, print_status, print_verdict

if TYPE_CHECKING:
    from ..trials import Allocation, Store, Trial

trial = Commands(
    name="trial",
    help="Run a trial: ask for the next arm, record its outcome. Every event is logged.",
)


Outcome = Annotated[
    str | None,
    typer.Argument(
        metavar="OUTCOME",
        help="1 or good, 0 or bad; number of a class, a number, a count, or a name, as the arm has "
        "them.",
    ),
]


ConfirmRange = Annotated[
    bool,
    typer.Option("--confirm-range", help="Outcomes outside the plausible range are meant."),
]


def _limit(least: int, text: str) -> Any:
    default = f"half the slots, at least {least}"
    return typer.Option(metavar="N", show_default=default, help=text)


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
        int | None, _limit(50, "Allocations that may be pending at the same time.")
    ] = None,
    max_cancelled: Annotated[
        int | None, _limit(20, "Allocations that may be cancelled in all.")
    ] = None,
    bound: Bound = None,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Plan a trial and enter it into the database."""
    with database(db) as store:
        from ..trials.limits import chosen_limits, default_limits
        from ..trials.opening import new_trial
        from ..trials.requests import actor_of
        from ..trials.settings import settings_from

        context = chosen.context
        made = new_trial(
            partial(
                settings_from, context, policy=chosen.policy, bound=bound, rules=chosen.rules
            ),
            name=name, store=store, seed=seed, by=actor_of(user(by)),
            limits=chosen_limits(default_limits(context.problem), max_open, max_cancelled),
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
        "upper_bound": made.settings.upper_bound,
        **made.settings.best_bound_fields,
        "seed": made.settings.seed,
        "db": str(store.url),
    }


def _print_plan(made: Trial, db: str | None) -> None:
    pulls = made.problem.pulls_per_stage
    stages = f" of {pulls} pulls" * (pulls > 1)
    print(f"trial {made.name} ({made.id}): {made.policy}, horizon {made.problem.horizon}{stages}")
    best = made.settings.best_bound
    if best is None:
        print(f"{made.policy} needs no prices; no bound: the dual was not solved")
    else:
        print(said_of(best))
    place = f" --db {shlex.quote(db)}" if db else ""
    allow = f" --allow-policy {made.policy}" if ":" in made.policy else ""
    print(f"next: deco trial ask {shlex.quote(made.name)}{allow}{place}")


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
    """Allocate the next stage: which arm is next, or how many pulls of each, and why."""
    return here.ask(subject=subject, note=note, **request)


@changes_trial
@takes_outcomes
def tell(
    here: Trial,
    given: GivenOutcomes,
    slot: Slot,
    outcome: Outcome = None,
    confirm_range: ConfirmRange = False,
    **request: Unpack[Request],
) -> Allocation:
    """Record the outcome of an allocation; those of several pulls by counts, which add up."""
    told = _told(here, slot, outcome, given)
    return here.tell(slot, told, confirm_range=confirm_range, **request)


@changes_trial
def cancel(here: Trial, slot: Slot, reason: Reason, **request: Unpack[Request]) -> Allocation:
    """Give up what is pending of an allocation and will have no outcome."""
    return here.cancel(slot, reason=reason, **request)


@changes_trial
def correct(
    here: Trial,
    slot: Slot,
    reason: Reason,
    outcome: Outcome = None,
    counts: CountsText = None,
    confirm_range: ConfirmRange = False,
    **request: Unpack[Request],
) -> Allocation:
    """Replace a recorded outcome, or all outcomes of some arms; the log keeps them."""
    told = _told(here, slot, outcome, GivenOutcomes(counts, None, {}))
    return here.correct(slot, told, reason=reason, confirm_range=confirm_range, **request)


def _told(
    here: Trial, slot: str, outcome: str | None, given: GivenOutcomes
) -> str | int | float | dict[str, str]:
    """The outcome of a single pull, or those of several by arm."""
    if given.there and outcome is not None:
        raise typer.BadParameter("give one outcome, or counts by arm, not both")
    if given.there:
        return given.read(here)
    if outcome is None:
        raise typer.BadParameter(
            "give the outcome of a single pull, such as good or bad, or --counts ARM=GOOD/PULLS,..."
        )
    return here.typed(slot, outcome)


@takes_trial
def status(here: Trial, stale_after: StaleAfter = 72.0, as_json: AsJson = False) -> None:
    """Show how a trial stands, why its next arm is next, and how far from optimal it can be."""
    from ..trials.log_pages import ledger_of
    from ..trials.staleness import stale_ids

    ledger = ledger_of(here.store, here.id)
    found, stale = here.status_at(ledger), stale_ids(ledger.since, stale_after)
    if as_json:
        print_json(found.to_dict() | {"declared": here.declared(), "stale": stale})
    else:
        print_status(found, {made: ledger.since[made] for made in stale})
        print_verdict(found, here.looks(), here.declared())


LIFE = (close, reopen, archive, limits, unmask)
RECORD = (report, export, verify, replay, checkpoint, backup)
for command in (ask, tell, cancel, correct, status, allocations, *LIFE, *RECORD):
    signed = command in (tell, correct)  # outcomes may be negative numbers
    trial.command(context_settings=SIGNED_ARGUMENTS if signed else None)(command)
