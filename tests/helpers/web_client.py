"""Requests to the application, byte by byte, and a server with one token of each role."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from decobandit.problem import Problem, problem_from_dict
from decobandit.server.app import create_app
from decobandit.server.limits import Limits
from decobandit.server.tokens import new_token
from decobandit.trials import Store, Trial, create_trial, open_store
from decobandit.trials.checkpoints import PrivateKey

HOST = "127.0.0.1:8000"
HERE = ("127.0.0.1", 50000)
SMALL = {"horizon": 4, "arms": [{"name": "old"}, {"name": "new"}]}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Answer:
    """A response: everything that left the server."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error, which has exactly this form."""
        assert set(self.json) == {"error"}
        assert set(self.json["error"]) - {"field"} == {"code", "message"}
        return str(self.json["error"]["code"])

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name.lower()]
        assert len(found) <= 1, name
        return found[0] if found else None

    @property
    def bytes(self) -> bytes:
        return b"\n".join([f"{k}: {v}".encode() for k, v in self.headers] + [self.body])


@dataclass(frozen=True)
class Ask:
    """A request."""

    method: str
    path: str
    headers: Iterable[tuple[str, str]] = ()
    body: bytes | Iterable[bytes] = b""
    client: tuple[str, int] | None = HERE
    host: str | None = HOST
    pause: float = 0.0  # seconds between the pieces of the body


def asking(
    method: str,
    path: str,
    token: str | None = None,
    json_body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Ask:
    """A request as a well-behaved program sends it."""
    lines = list((headers or {}).items())
    if token is not None:
        lines.append(("authorization", f"Bearer {token}"))
    if json_body is not None:
        lines.append(("content-type", "application/json"))
        more["body"] = json.dumps(json_body).encode()
    return Ask(method, path, lines, **more)


async def _answer(app: FastAPI, ask: Ask) -> Answer:
    pieces = [ask.body] if isinstance(ask.body, bytes) else list(ask.body)
    messages = [
        {"type": "http.request", "body": piece, "more_body": i + 1 < len(pieces)}
        for i, piece in enumerate(pieces)
    ]
    lines = [] if ask.host is None else [("host", ask.host)]
    raw_path, _, query = ask.path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": ask.method,
        "scheme": "http",
        "path": raw_path,
        "raw_path": raw_path.encode("utf-8", "surrogatepass"),
        "query_string": query.encode(),
        "root_path": "",
        "client": ask.client,
        "server": ("127.0.0.1", 8000),
        "state": {},
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in [*lines, *ask.headers]],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.sleep(3600)
        if ask.pause:
            await asyncio.sleep(ask.pause)
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)  # type: ignore[arg-type]
    start = sent[0]
    headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in start["headers"]]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(start["status"], headers, body)


def answer(app: FastAPI, ask: Ask) -> Answer:
    """The response to one request."""
    return asyncio.run(_answer(app, ask))


def answers(app: FastAPI, asks: Iterable[Ask]) -> list[Answer]:
    """The responses to requests that are made at once."""

    async def all_of_them() -> list[Answer]:
        return list(await asyncio.gather(*(_answer(app, ask) for ask in asks)))

    return asyncio.run(all_of_them())


@dataclass
class Site:
    """An application with a token of each role, and one that was revoked."""

    folder: Path
    limits: Limits = field(default_factory=Limits)
    auth: bool = True
    db: str | None = None  # a file in the folder where none is given

    def __post_init__(self) -> None:
        self.reopen()
        self.tokens = {
            role: new_token(self.store, f"the-{role}", role)[1]
            for role in ("admin", "operator", "viewer", "app")
        }

    def reopen(self) -> None:
        """A new server on the same database."""
        self.store: Store = open_store(self.db or self.folder / "site.db")
        key = PrivateKey.new("server")
        self.app = create_app(self.store, auth=self.auth, limits=self.limits, signing_key=key)

    def get(self, path: str, role: str | None = "admin", **more: Any) -> Answer:
        return self.ask("GET", path, role, **more)

    def post(
        self, path: str, json_body: Any = None, role: str | None = "admin", **more: Any
    ) -> Answer:
        return self.ask("POST", path, role, json_body, **more)

    def ask(
        self, method: str, path: str, role: str | None, json_body: Any = None, **more: Any
    ) -> Answer:
        token = None if role is None else self.tokens[role]
        return answer(self.app, asking(method, f"/api/v1{path}", token, json_body, **more))

    def trial(
        self,
        problem: Problem | dict[str, Any] = SMALL,
        name: str = "pilot",
        policy: str = "deco",
    ) -> Trial:
        """A trial of the paper's DeCo, whose pages show the most, unless told otherwise."""
        made = problem if isinstance(problem, Problem) else problem_from_dict(problem)
        return create_trial(made, policy=policy, name=name, db=self.store, seed=1, tol=1e-3)

    def close(self) -> None:
        self.store.close()
