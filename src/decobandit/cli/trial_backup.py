"""`deco trial backup`: a checked copy of the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import AsJson
from .output import print_json
from .trial_access import takes_store
from .trial_records import end_with, print_verified

if TYPE_CHECKING:
    from ..trials import Store


@takes_store
def backup(
    store: Store,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Copy an SQLite database while it is in use, and check the copy: exit code 1 if damaged."""
    from ..trials.backup import back_up

    found = back_up(store, file.absolute())
    ok = all(one.ok for one in found)
    if as_json:
        print_json({"ok": ok, "file": str(file), "trials": [one.to_dict() for one in found]})
    else:
        print(f"{file}: {len(found)} trials, {sum(one.events for one in found)} events")
        print_verified([one for one in found if not one.ok])
    end_with(ok)
