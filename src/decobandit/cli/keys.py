"""`deco keys new`: a key pair that signs checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import Commands
from .files import check_writable, written
from .options import AsJson, shown
from .output import print_json

if TYPE_CHECKING:
    from ..trials.signed_notes import PrivateKey, PublicKey

DEFAULT_KEY = Path("deco.key")
KEY_VARIABLE = "DECO_KEY"
keys = Commands(name="keys", help="Keys that sign checkpoints of trials: make them.")

KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="Who signs: a name without blanks or plus signs.")
]
OutKey = Annotated[
    Path, shown("FILE", "The private key; FILE.pub is the public one.", callback=check_writable)
]


@keys.command()
def new(name: KeyName = "deco", out: OutKey = DEFAULT_KEY, as_json: AsJson = False) -> None:
    """Make a key pair. The private key signs; the public key, which is printed, checks."""
    from ..support import write_whole
    from ..trials.signed_notes import PrivateKey

    public = out.with_name(out.name + ".pub")
    for path in (out, public):
        if path.exists():
            raise typer.BadParameter(f"{path}: exists; a key is never overwritten")
    key = PrivateKey.new(name)
    write_whole(out, key.text + "\n", mode=0o600)
    write_whole(public, key.public.text + "\n")
    if as_json:
        print_json({"name": name, "file": str(out), "public_key": key.public.text})
        return
    print(key.public.text)
    written("private key", out)
    written("public key", public)


def private_key(file: Path) -> PrivateKey:
    """The key of a file."""
    from ..trials.signed_notes import PrivateKey

    if not file.exists():
        raise typer.BadParameter(f"{file}: no such key; 'deco keys new' makes one")
    return PrivateKey.read(file.read_text(encoding="utf-8", errors="replace"))


def public_key(text: str) -> PublicKey:
    """The key that is given, or the one in the file that is given."""
    from ..trials.signed_notes import PublicKey

    file = Path(text)
    if file.is_file():
        return PublicKey.read(file.read_text(encoding="utf-8", errors="replace"))
    return PublicKey.read(text)
