"""`deco serve`: the trials of a database over HTTP."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import trials
from .options import AllowPolicy, Db, shown
from .output import say
from .people import private_key
from .trial_access import StaleAfter, check_database, user


def serve(
    db: Db = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None, shown("NAME", "Host name that browsers may use.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None, shown("ORIGIN", "Site whose pages may use the API.")
    ] = None,
    draw_ahead: Annotated[
        int, typer.Option(min=0, help="Allocations of each trial drawn ahead for flags.")
    ] = 0,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Local use without tokens.")] = False,
    rate: Annotated[int, typer.Option(min=1, help="Requests per second per client.")] = 500,
    signing_key: Annotated[
        Path | None, shown("FILE", "Private key that signs checkpoints.", "--key")
    ] = None,
    allow_policy: AllowPolicy = None,
    stale_after: StaleAfter = 72.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every request.")] = False,
    log_format: Annotated[Literal["plain", "json"], typer.Option(help="Log format.")] = "plain",
) -> None:
    """Serve trials over HTTP until Ctrl-C."""
    check_database(db)
    gc.disable()  # until all is loaded: nothing of it is garbage, and to look takes time
    from ..server.app import create_app
    from ..server.http_server import is_loopback, listen, make_server, url_of
    from ..server.limits import Limits
    from ..server.observation import set_up_log

    if not is_loopback(host):
        _check_open(host, no_auth, allow_host)
    key = None if signing_key is None else private_key(signing_key)
    with trials.open_store(db) as store, listen(host, port) as listening:
        limits = Limits(rate=rate, burst=2 * rate, stale_after=stale_after)
        hosts = (f"[{host}]" if ":" in host else host, *(allow_host or ()))
        app = create_app(
            store,
            auth=not no_auth,
            limits=limits,
            allowed_hosts=hosts,
            cors_origins=cors_origin or (),
            signing_key=key,
            draw_ahead=draw_ahead,
        )
        set_up_log(log_format, verbose=verbose)
        if not no_auth:
            _first_token(store)
        url = url_of(listening, host)
        server = make_server(app, ready=lambda: _ready(url), limits=limits, loop="auto")
        app.state.metrics.watch_connections(lambda: len(server.server_state.connections))
        server.run(sockets=[listening])


def _check_open(host: str, no_auth: bool, allow_host: list[str] | None) -> None:
    """Refuse, or advise on, what does not go with a server that can be reached from elsewhere."""
    if no_auth:
        raise typer.BadParameter(
            f"--no-auth: {host} can be reached from elsewhere; use it with --host 127.0.0.1"
        )
    if not allow_host:
        say("browsers elsewhere need a name that this server answers to: --allow-host NAME")


def _ready(url: str) -> None:
    # what was loaded so far stays: to look through all of it takes a tenth of a second, in which
    # no request is answered
    gc.freeze()
    gc.enable()
    print(f"serving at {url}", flush=True)


def _first_token(store: trials.Store) -> None:
    """Create an administrator's token if the database has no token."""
    from ..server.tokens import list_tokens, new_token

    tokens = list_tokens(store)
    if not tokens:
        _, secret = new_token(store, "admin", "admin", by=user(None))
        print(f"admin token (shown once): {secret}", flush=True)
    elif not any(token.administers_all for token in tokens):
        say("no administrator's token is valid; make one: deco token new NAME --role admin")
