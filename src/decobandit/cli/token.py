"""`deco token new`, `deco token list`, `deco token revoke`: who may use the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from .options import AsJson, Db, check_database, print_json

token = typer.Typer(name="token", help="Tokens for 'deco serve': make, list and revoke them.")

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Of the token.")]


@token.command()
def new(
    name: TokenName,
    role: Annotated[str, typer.Option(help="admin, operator (blinded) or viewer (reads only).")],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown this once: the database keeps a digest."""
    with _database(db) as store:
        from ..web.tokens import new_token

        made, secret = new_token(store, name, role)
    if as_json:
        print_json(made.to_dict() | {"token": secret})
    else:
        print(secret)


@token.command(name="list")
def list_(db: Db = None, as_json: AsJson = False) -> None:
    """List tokens: names, roles, and whether they are valid."""
    with _database(db, existing=True) as store:
        from ..web.tokens import list_tokens

        found = list_tokens(store)
    if as_json:
        print_json({"tokens": [one.to_dict() for one in found]})
        return
    for one in found:
        state = (
            f"revoked {one.revoked_at}" if one.revoked_at else "valid" if one.valid else "refused"
        )
        print(f"{one.name}\t{one.role}\t{state if one.intact else 'damaged: refused'}")


@token.command()
def revoke(name: TokenName, db: Db = None, as_json: AsJson = False) -> None:
    """Revoke a token. A server that is running refuses it within a second."""
    with _database(db, existing=True) as store:
        from ..web.tokens import revoke_token

        gone = revoke_token(store, name)
    if as_json:
        print_json(gone.to_dict())
    else:
        print(f"{gone.name}: revoked {gone.revoked_at}")


@contextmanager
def _database(db: str | None, *, existing: bool = False) -> Iterator[Any]:
    check_database(db)
    try:
        from ..trials.store import open_store
    except ImportError as error:
        raise ImportError(
            f"tokens need a library that is not installed ({error.name}): "
            "pip install 'decobandit[server]'"
        ) from None
    with open_store(db, existing=existing) as store:
        yield store
