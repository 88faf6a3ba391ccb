"""`deco token`, `keys`, `audit`: who may use a server, keys of checkpoints, the access log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .. import support, trials
from .options import AsJson, Commands, argument, shown
from .output import check_writable, end_with, print_json, print_result, written
from .trial_access import By, makes_store, takes_store, user

if TYPE_CHECKING:
    from ..server.tokens import Token
    from ..trials.checkpoints import PrivateKey, PublicKey

token = Commands(name="token", help="Create, list and revoke tokens for 'deco serve'.")

TokenName = Annotated[str, argument("NAME", "Name of the token.")]
Role = Literal["admin", "operator", "viewer", "app"]


@token.command()
@makes_store
def new(
    store: trials.Store,
    name: TokenName,
    role: Annotated[
        Role, typer.Option(help="Operators are blinded, viewers read, apps ask, tell.")
    ],
    days: Annotated[int, shown("N", "Days until it expires.")] = 90,
    trial: Annotated[
        list[str] | None,
        shown("NAME", "Trial it is valid for; repeatable.", show_default="all trials"),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Create a token; it is shown once."""
    from ..server.tokens import new_token

    token, secret = new_token(store, name, role, days=days, trials=trial or (), by=user(by))
    if as_json:
        print_json(token.to_dict() | {"token": secret})
    else:
        print(secret)


@token.command(name="list")
@takes_store
def list_(store: trials.Store, as_json: AsJson = False) -> None:
    """List tokens with role, state, expiry and trials."""
    from ..server.tokens import list_tokens

    tokens = list_tokens(store)
    if as_json:
        print_json({"tokens": [one.to_dict() for one in tokens]})
        return
    for one in tokens:
        trials = "" if one.only_trials is None else f"\t{', '.join(sorted(one.only_trials))}"
        print(f"{one.name}\t{one.role}\t{_state(one)}{trials}")


def _state(token: Token) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at}"
    if token.expired:
        return f"expired {token.expires_at}"
    if not token.valid:
        return "refused"
    return f"valid until {token.expires_at}"


@token.command()
@takes_store
def revoke(store: trials.Store, name: TokenName, by: By = None, as_json: AsJson = False) -> None:
    """Revoke a token; servers follow within a second."""
    from ..server.tokens import revoke_token

    gone = revoke_token(store, name, by=user(by))
    print_result(gone, as_json, lambda one: print(f"{one.name}: revoked {one.revoked_at}"))


# -- `deco keys new`: a key pair that signs checkpoints --------------------------------------------

DEFAULT_KEY = Path("deco.key")
KEY_VARIABLE = "DECO_KEY"
keys = Commands(name="keys", help="Create signing keys for checkpoints.")

KeyName = Annotated[str, argument("NAME", "Name of the signer, without blanks or +.")]
OutKey = Annotated[
    Path, shown("FILE", "Private key; FILE.pub is the public key.", callback=check_writable)
]


@keys.command(name="new")
def new_keys(name: KeyName = "deco", out: OutKey = DEFAULT_KEY, as_json: AsJson = False) -> None:
    """Create a key pair and print the public key."""
    from ..trials.checkpoints import PrivateKey

    public = out.with_name(out.name + ".pub")
    for path in (out, public):
        if path.exists():
            raise typer.BadParameter(f"{path}: exists; a key is never overwritten")
    key = PrivateKey.new(name)
    support.write_whole(out, key.text + "\n", mode=0o600)
    support.write_whole(public, key.public.text + "\n")
    if as_json:
        print_json({"name": name, "file": str(out), "public_key": key.public.text})
        return
    print(key.public.text)
    written("private key", out)
    written("public key", public)


def private_key(file: Path) -> PrivateKey:
    """Read a private key from a file."""
    from ..trials.checkpoints import PrivateKey

    if not file.exists():
        raise typer.BadParameter(f"{file}: no such key; 'deco keys new' makes one")
    return PrivateKey.read(file.read_text(encoding="utf-8", errors="replace"))


def public_key(text: str) -> PublicKey:
    """Parse a public key, or read it from a file."""
    from ..trials.checkpoints import PublicKey

    file = Path(text)
    is_file = file.is_file()
    return PublicKey.read(file.read_text(encoding="utf-8", errors="replace") if is_file else text)


# -- `deco audit people`: who did what with tokens and results, and whether its log is intact ------

audit = Commands(name="audit", help="Show the access log.")


@audit.callback()
def _group() -> None:
    """With a callback, a group of one command keeps the command's name."""


@audit.command()
@takes_store
def people(
    store: trials.Store,
    last: Annotated[int | None, shown("N", "Print only the last N events.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Print and verify the access log; exit code 1 if damaged."""
    log = trials.people_log(store)

    def show(log: trials.PeopleLog) -> None:
        for event in log.events[-last:] if last else log.events:
            shown = {key: value for key, value in event.data.items() if key != "row"}
            text = " ".join(f"{key}={value}" for key, value in shown.items() if value is not None)
            print(event.seq, event.at, event.kind, event.by, text, sep="\t")
        print_people(log)

    print_result(log, as_json, show)
    end_with(log.ok)


def print_people(log: trials.PeopleLog) -> None:
    """Print the state of the access log."""
    state = "intact" if log.ok else "NOT INTACT"
    print(f"access log: {len(log.events)} events, {state}, head {log.head}")
    for problem in log.problems:
        print(f"  {problem}")
