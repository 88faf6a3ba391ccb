"""`deco serve`, `token`, `keys`, `audit`: trials over HTTP, who may use them, who did what."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .. import support, trials
from .options import AllowPolicy, AsJson, Commands, Db, argument, shown
from .output import check_writable, end_with, print_json, print_result, say, written
from .trial import By, StaleAfter, check_database, makes_store, takes_store, user

if TYPE_CHECKING:
    from ..server.tokens import Token
    from ..trials.checkpoints import PrivateKey, PublicKey


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
        if no_auth:
            rule = "can be reached from elsewhere; use it with --host 127.0.0.1"
            raise typer.BadParameter(f"--no-auth: {host} {rule}")
        if not allow_host:
            say("browsers elsewhere need a name that this server answers to: --allow-host NAME")
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


# -- `deco token`: who may use a server ------------------------------------------------------------

token = Commands(name="token", help="Create, list and revoke tokens for 'deco serve'.")

TokenName = Annotated[str, argument("NAME", "Name of the token.")]
Role = Literal["admin", "operator", "viewer", "app"]


@token.command()
@makes_store
def new(
    store: trials.Store,
    name: TokenName,
    role: Annotated[
        Role, typer.Option(help="Operators are blinded, viewers read, apps ask or tell.")
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


@keys.command(name="new")
def new_keys(
    name: Annotated[str, argument("NAME", "Name of the signer, without blanks or +.")] = "deco",
    out: Annotated[
        Path, shown("FILE", "Private key; FILE.pub is the public key.", callback=check_writable)
    ] = DEFAULT_KEY,
    as_json: AsJson = False,
) -> None:
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
    if file.is_file():
        text = file.read_text(encoding="utf-8", errors="replace")
    return PublicKey.read(text)


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
