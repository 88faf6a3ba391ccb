"""`deco trial checkpoint`: a signed note of the heads of all trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .options import AsJson, shown
from .output import check_writable, print_json, written
from .people import DEFAULT_KEY, KEY_VARIABLE, private_key
from .trial_access import takes_store

if TYPE_CHECKING:
    from ..trials import Store

OutNote = Annotated[Path | None, shown("FILE", "Write the note there.", callback=check_writable)]


@takes_store
def checkpoint(
    store: Store,
    signing_key: Annotated[
        Path, shown("FILE", "Private key that 'deco keys new' made.", "--key", envvar=KEY_VARIABLE)
    ] = DEFAULT_KEY,
    out: OutNote = None,
    as_json: AsJson = False,
) -> None:
    """Sign the heads of all trials. Keep the note elsewhere: 'verify --checkpoint' compares."""
    from ..support import write_whole
    from ..trials.checkpoints import make_checkpoint

    made = make_checkpoint(store, private_key(signing_key))
    if out is not None:
        write_whole(out, made.note)
        written("checkpoint", out)
    if as_json:
        print_json(made.to_dict())
    elif out is None:
        print(made.note, end="")
