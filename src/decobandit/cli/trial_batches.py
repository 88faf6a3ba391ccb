"""Batches on the command line: outcomes as counts, from options or a file; how they look."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import ArmColumn, AsJson, GoodColumn, OutcomeColumn, PullsColumn, shown
from .output import print_json
from .taking import option, options_of, with_options
from .trial_access import takes_trial
from .trial_tables import print_allocations

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..trials import Trial

CountsText = Annotated[
    str | None,
    shown(
        "ARM=GOOD/PULLS,...",
        "Outcomes by arm: control=30/50,new=25/50; of classes a count of each, grade=2+0+1; of "
        "measurements and counts SUM/PULLS; of own states in their order, machine=fine+worn.",
    ),
]


@dataclass(frozen=True)
class GivenOutcomes:
    """Outcomes of several pulls, as options give them."""

    counts: str | None
    data: Path | None
    columns: dict[str, str]

    @property
    def there(self) -> bool:
        """Whether any were given."""
        return self.counts is not None or self.data is not None

    def read(self, here: Trial) -> dict[str, str]:
        """Outcomes by arm, as `Trial.tell` takes them; a refusal in one line."""
        if (self.counts is None) == (self.data is None):
            raise typer.BadParameter("give outcomes by --counts or by --data, not both")
        if self.counts is not None:
            return _pairs(self.counts)
        assert self.data is not None
        from ..problem import OutcomeColumns, read_tallies

        found = read_tallies(here.problem, self.data, OutcomeColumns(**self.columns))
        if not found:
            raise typer.BadParameter(f"{self.data}: there are no outcomes in it")
        return found


def outcomes_from(
    counts: CountsText = None,
    data: Annotated[
        Path | None,
        shown(
            "FILE",
            "Outcomes by arm, CSV or .parquet: one per row, or good outcomes and pulls, or as "
            "exported.",
        ),
    ] = None,
    arm_column: ArmColumn = "arm",
    outcome_column: OutcomeColumn = "outcome",
    good_column: GoodColumn = "good",
    pulls_column: PullsColumn = "pulls",
) -> GivenOutcomes:
    """Outcomes of several pulls by counts, or by a file."""
    columns = {
        "arm": arm_column, "outcome": outcome_column, "good": good_column, "pulls": pulls_column
    }  # fmt: skip
    return GivenOutcomes(counts, data, columns)


def takes_outcomes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command on a trial the outcomes of several pulls as its second argument."""
    own = options_of(outcomes_from)

    def run(here: Trial, **given: Any) -> Any:
        made = outcomes_from(**{each.name: given.pop(each.name) for each in own})
        return command(here, made, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return with_options(run, [option("here", object), *options_of(command, after=2), *own])


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in re.findall(r"[^=]*=[^,]*(?:,|$)|.+", text):  # names may have commas
        arm, equals, pair = part.removesuffix(",").rpartition("=")
        if not equals or not arm.strip():
            raise typer.BadParameter(
                f"--counts: {part!r}; must be ARM=GOOD/PULLS, or as the arm has its outcomes"
            )
        if arm.strip() in found:
            raise typer.BadParameter(f"--counts: {arm.strip()!r} is named twice")
        found[arm.strip()] = pair.strip()
    return found


@takes_trial
def allocations(here: Trial, as_json: AsJson = False) -> None:
    """List the allocations of a trial, the oldest first."""
    slots = here.allocations()
    if as_json:
        print_json({"allocations": [slot.to_dict() for slot in slots]})
    elif slots:
        print_allocations(slots)
    else:
        print("no allocations yet: deco trial ask TRIAL")
