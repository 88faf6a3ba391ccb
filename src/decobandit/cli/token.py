"""`deco token new`, `deco token list`, `deco token revoke`: who may use the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .commands import Commands
from .options import AsJson
from .output import print_json, print_result
from .trial_access import By, makes_store, takes_store, user

if TYPE_CHECKING:
    from ..server.tokens import Token
    from ..trials import Store

token = Commands(name="token", help="Tokens for 'deco serve': make, list and revoke them.")

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]
Role = Literal["admin", "operator", "viewer"]


@token.command()
@makes_store
def new(
    store: Store,
    name: TokenName,
    role: Annotated[Role, typer.Option(help="An operator is blinded, a viewer only reads.")],
    days: Annotated[int, typer.Option(metavar="N", help="Until it expires.")] = 90,
    trial: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", show_default="all trials", help="A trial that it is for; repeatable."
        ),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown this once: the database keeps a digest."""
    from ..server.tokens import new_token

    made, secret = new_token(store, name, role, days=days, trials=trial or (), by=user(by))
    if as_json:
        print_json(made.to_dict() | {"token": secret})
    else:
        print(secret)


@token.command(name="list")
@takes_store
def list_(store: Store, as_json: AsJson = False) -> None:
    """List tokens: names, roles, whether they are valid, until when, and for which trials."""
    from ..server.tokens import list_tokens

    found = list_tokens(store)
    if as_json:
        print_json({"tokens": [one.to_dict() for one in found]})
        return
    for one in found:
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
def revoke(store: Store, name: TokenName, by: By = None, as_json: AsJson = False) -> None:
    """Revoke a token. A server that is running refuses it within a second."""
    from ..server.tokens import revoke_token

    print_result(revoke_token(store, name, by=user(by)), as_json, _print_revoked)


def _print_revoked(gone: Token) -> None:
    print(f"{gone.name}: revoked {gone.revoked_at}")
