"""`deco serve`: the trials of a database over HTTP."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Db, check_database, say

if TYPE_CHECKING:
    from ..trials import Store


def serve(
    db: Db = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that browsers may use for this server."),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="No tokens: this machine's users are administrators.")
    ] = False,
    rate: Annotated[
        int, typer.Option(min=1, help="Requests per second of one token or address.")
    ] = 500,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every request.")] = False,
) -> None:
    """Serve trials to browsers and programs. Ctrl-C stops it."""
    check_database(db)
    gc.disable()  # until all is loaded: nothing of it is garbage, and to look takes time
    try:
        from ..trials import open_store
        from ..web.app import create_app
        from ..web.limits import Limits
        from ..web.server import is_loopback, listen, make_server, url_of
    except ImportError as error:
        raise ImportError(
            f"the server needs a library that is not installed ({error.name}): "
            "pip install 'decobandit[server]'"
        ) from None
    if no_auth and not is_loopback(host):
        raise typer.BadParameter(
            f"--no-auth: {host} can be reached from elsewhere; use it with --host 127.0.0.1"
        )
    if not (allow_host or is_loopback(host)):
        say("browsers elsewhere need a name that this server answers to: --allow-host NAME")
    _log(verbose)
    with open_store(db) as store, listen(host, port) as listening:
        limits = Limits(rate=rate, burst=2 * rate)
        hosts = (f"[{host}]" if ":" in host else host, *(allow_host or ()))
        app = create_app(store, auth=not no_auth, limits=limits, allowed_hosts=hosts)
        if not no_auth:
            _first_token(store)
        url = url_of(listening, host)
        server = make_server(app, ready=lambda: _ready(url), verbose=verbose, loop="auto")
        server.run(sockets=[listening])


def _ready(url: str) -> None:
    # what was loaded so far stays: to look through all of it takes a tenth of a second, in which
    # nobody is answered
    gc.freeze()
    gc.enable()
    print(f"serving at {url}", flush=True)


def _log(verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def _first_token(store: Store) -> None:
    """A database without any token gets one, or nobody could ever come in."""
    from ..web.tokens import list_tokens, new_token

    known = list_tokens(store)
    if not known:
        _, secret = new_token(store, "admin", "admin")
        print(f"admin token (shown once): {secret}", flush=True)
    elif not any(token.valid and token.role == "admin" for token in known):
        say("no administrator's token is valid; make one: deco token new NAME --role admin")
