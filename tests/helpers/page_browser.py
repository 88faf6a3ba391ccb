"""A browser without a screen: keeps its cookie, sends forms, does not run scripts."""

import json
from collections.abc import Mapping
from functools import cached_property
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from helpers.web_client import HOST, Answer, Ask, Site, answer

HERE = f"http://{HOST}"
EVIL = "<script>alert(1)</script>"
LINK = "<a href='javascript:alert(2)'>x</a>"
NAMES = {"horizon": 6, "arms": [{"name": EVIL}, {"name": LINK}, {"name": "plain"}]}


class Page:
    """What came back."""

    def __init__(self, found: Answer) -> None:
        self.status_code = found.status
        self.headers = dict(found.headers)
        self._body = found.body

    @cached_property
    def text(self) -> str:
        return self._body.decode()

    def json(self) -> Any:
        return json.loads(self._body)


class Browser:
    """Keeps the cookie, and sends forms as a browser does."""

    def __init__(self, site: Site, role: str | None) -> None:
        self.app, self.cookie = site.app, ""
        if role is not None:
            entered = self.post("/login", data={"token": site.tokens[role]})
            assert (entered.status_code, entered.headers["location"]) == (303, "/")
            self.cookie = entered.headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> Page:
        return self._send(Ask("GET", path, self._headers({})))

    def post(
        self,
        path: str,
        data: Mapping[str, Any] | None = None,
        *,
        content: bytes | None = None,
        kind: str = "application/x-www-form-urlencoded",
        origin: str = HERE,
    ) -> Page:
        body = urlencode(data or {}, doseq=True).encode() if content is None else content
        headers = self._headers({"content-type": kind, "origin": origin})
        return self._send(Ask("POST", path, headers, body))

    def _headers(self, more: Mapping[str, str]) -> list[tuple[str, str]]:
        return [*more.items(), *([("cookie", self.cookie)] if self.cookie else [])]

    def _send(self, ask: Ask) -> Page:
        return Page(answer(self.app, ask))


class Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
