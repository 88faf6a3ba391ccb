"""A body costs little however wrong it is: work is counted, and done off the event loop."""

import threading
import tomllib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.exceptions import RequestValidationError

from decobandit.server.api import routing
from decobandit.server.limits import Limits
from decobandit.server.pages import plan, rendering
from helpers.web_client import Answer, Ask, Site, answer

MOST_BYTES = Limits().body_bytes
MOST_ERRORS = 50
ARM = '{"problem":{"horizon":4,"arms":[{"name":"a",'
DESIGN = '{"problem":{"horizon":4,"arms":[{"name":"a"}],"design":{'
OUTCOMES = "/trials/x/allocations/y/tell"
UNKNOWN = ",".join(f'"{i:x}":0' for i in range(26_000))
# route, text before, a wrong entry that is repeated up to the limit in size, text after
LISTS = [
    (OUTCOMES, '{"rows":[', "0,", "]}"),
    (OUTCOMES, '{"counts":{"a":[', "{},", "]}}"),
    ("/tokens", '{"name":"a","role":"viewer","trials":[', "0,", "]}"),
    ("/plan", '{"policies":[', "0,", '],"problem":{"horizon":4,"arms":[{"name":"a"}]}}'),
    ("/trials", '{"problem":{"horizon":4,"arms":[', "0,", "]}}"),
    ("/trials", '{"problem":{"horizon":4,"arms":[', '{"name":"a"},', "]}}"),
    ("/plan", ARM + '"prior":{"kind":"categorical","counts":[', "0,", "]}}]}}"),
    ("/plan", ARM + '"reward":{"good":[', '"",', "]}}]}}"),
    ("/plan", ARM + '"reward":{"values":[', "[],", "]}}]}}"),
    ("/plan", ARM + '"terminal":[', "0,", "]}]}}"),
    ("/plan", ARM + '"terminal":[[', "{},", "]]}]}}"),
    ("/design", DESIGN + '"policies":[', "0,", "]}}}"),
    ("/design", DESIGN + '"scenarios":[', "0,", "]}}}"),
    ("/design", DESIGN + '"scenarios":[{"name":"s","truth":[', '"",', "]}]}}}"),
]
TABLES = [
    ("/trials/x/ask", "{", "}"),
    ("/trials", "{", "}"),
    ("/trials", '{"problem":{', "}}"),
    ("/plan", ARM, "}]}}"),
    ("/plan", ARM + '"prior":{', "}}]}}"),
    ("/plan", ARM + '"reward":{', "}}]}}"),
    ("/plan", ARM + '"prior":{"kind":"states","first":"a","states":{', "}}}]}}"),
    ("/plan", ARM + '"prior":{"kind":"states","first":"a","states":{"a":{"next":{', "}}}}}]}}"),
    ("/design", DESIGN, "}}}"),
    ("/design", DESIGN + '"stop":{', "}}}}"),
    (OUTCOMES, '{"counts":{', "}}"),
    (OUTCOMES, '{"rows":[{', "}]}"),
]


def largest(before: str, entry: str, after: str) -> bytes:
    count = (MOST_BYTES - len(before) - len(after)) // len(entry)
    return (before + (entry * count).removesuffix(",") + after).encode()


BODIES = [(path, largest(before, entry, after)) for path, before, entry, after in LISTS]
BODIES += [(path, (before + UNKNOWN + after).encode()) for path, before, after in TABLES]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("bodies"))
    yield made
    made.close()


def send(site: Site, path: str, body: bytes, kind: str = "application/json") -> Answer:
    lines = [("authorization", f"Bearer {site.tokens['admin']}"), ("content-type", kind)]
    return answer(site.app, Ask("POST", path, lines, body))


@pytest.mark.parametrize(
    ("path", "body"), BODIES, ids=[f"{path} {body[:90].decode()}" for path, body in BODIES]
)
def test_few_errors_are_collected(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes
) -> None:
    collected: list[int] = []
    threads: list[int] = []
    init, check = RequestValidationError.__init__, routing._sent

    def counted(self: Any, errors: Any, **more: Any) -> None:
        collected.append(len(errors))
        init(self, errors, **more)

    def watched(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return check(*given)

    monkeypatch.setattr(RequestValidationError, "__init__", counted)
    monkeypatch.setattr(routing, "_sent", watched)
    refused = send(site, f"/api/v1{path}", body)
    assert refused.status == 422
    assert refused.code == "invalid"
    assert len(collected) == 1
    assert collected[0] <= MOST_ERRORS
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()  # of the loop


def test_a_long_list_of_wrong_arms_has_bounded_errors(site: Site) -> None:
    """As many arms as may be sent, each with as many errors as a table can have."""
    wrong = ",".join(['{"name":0,"prior":0,"reward":0,"noise_sd":"","terminal":0,"count":0}'] * 200)
    refused = send(site, "/api/v1/plan", ('{"problem":{"arms":[' + wrong + "]}}").encode())
    assert refused.json["error"]["message"].endswith("(and 1200 more)")


def test_a_small_body_is_checked_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    check = routing._sent
    monkeypatch.setattr(
        routing,
        "_sent",
        lambda *given: (threads.append(threading.get_ident()), check(*given))[1],
    )
    assert send(site, "/api/v1/trials/x/ask", b'{"subject": "S-1"}').status == 404
    assert threads == [threading.get_ident()]


# -- forms --------------------------------------------------------------------------------------


def submit(site: Site, fields: list[tuple[str, str]]) -> Answer:
    return send(site, "/plan", urlencode(fields).encode(), rendering.FORM_TYPE)


LONG_KEYS = [
    ".".join("a" * 5_000) + "=1",
    ".".join(['"a\\"."'] * 5_000) + "=1",
    ".".join(["'='"] * 5_000) + "=1",
    "[" + " . ".join("a" * 5_000) + "]\n",
    "x={" + ".".join("a" * 5_000) + "=1}",
    "x=" + "[" * 5_000,
    "x=" + "{a=" * 5_000,
    'x="""\n"" \\""""\n' + ".".join("a" * 5_000) + "=1",
]


@pytest.mark.parametrize("text", LONG_KEYS, ids=lambda text: repr(text[:30]))
def test_long_keys_are_refused_before_they_are_parsed(
    site: Site, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(tomllib, "loads", parsed.append)
    refused = submit(site, [("show", "1"), ("file", text)])
    assert refused.status == 422
    assert b"Not valid TOML: " in refused.body
    assert not parsed


def test_files_are_not_parsed_on_the_loop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    parse = plan.parse_tree
    monkeypatch.setattr(
        plan,
        "parse_tree",
        lambda *given: (threads.append(threading.get_ident()), parse(*given))[1],
    )
    assert submit(site, [("show", "1"), ("file", "horizon = 0")]).status == 422
    assert threads
    assert threading.get_ident() not in threads


def test_a_small_form_is_not_answered_with_a_large_page(site: Site) -> None:
    arms = [("arm", "a"), ("good", "1"), ("bad", "1")]
    refused = submit(site, [("add", "1"), *arms * 450, *[("scenario", "s")] * 600])
    assert refused.status == 422
    assert len(refused.body) < 100_000
    many = 'horizon = 4\n[[arms]]\nname = "a"\ncount = 90000'
    refused = submit(site, [("show", "1"), ("file", many)])
    assert refused.status == 422
    assert len(refused.body) < 100_000
