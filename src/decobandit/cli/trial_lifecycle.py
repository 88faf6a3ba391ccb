"""`deco trial close`, `reopen`, `archive`, `limits` and `unmask`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from .trial_access import OptionalReason, Reason, Request, Slot, changes_trial

if TYPE_CHECKING:
    from ..trials import Allocation, Summary, Trial


@changes_trial
def close(here: Trial, reason: OptionalReason = None, **request: Unpack[Request]) -> Summary:
    """Make no more allocations; pending ones can still be recorded."""
    return here.close(reason=reason, **request)


@changes_trial
def reopen(here: Trial, reason: Reason, **request: Unpack[Request]) -> Summary:
    """Make allocations again; an archived trial is listed again."""
    return here.reopen(reason=reason, **request)


@changes_trial
def archive(here: Trial, reason: OptionalReason = None, **request: Unpack[Request]) -> Summary:
    """Close a trial and hide it from lists; 'list --archived' shows it."""
    return here.archive(reason=reason, **request)


@changes_trial
def limits(
    here: Trial,
    reason: Reason,
    max_open: Annotated[
        int | None, typer.Option(metavar="N", help="Allocations that may be pending.")
    ] = None,
    max_cancelled: Annotated[
        int | None, typer.Option(metavar="N", help="Allocations that may be cancelled in all.")
    ] = None,
    max_unmasked: Annotated[
        int | None,
        typer.Option(metavar="N", help="Allocations that one person may unmask in 24 hours."),
    ] = None,
    **request: Unpack[Request],
) -> Summary:
    """Change how many allocations may be pending, cancelled or unmasked."""
    return here.set_limits(
        reason=reason, max_open=max_open, max_cancelled=max_cancelled, max_unmasked=max_unmasked,
        **request,
    )  # fmt: skip


@changes_trial
def unmask(here: Trial, slot: Slot, reason: Reason, **request: Unpack[Request]) -> Allocation:
    """Show the arm of an allocation to somebody blinded; who, when and why is logged."""
    return here.unmask(slot, reason=reason, **request)
