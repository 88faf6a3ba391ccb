"""The client against a server on loopback: verbs, errors, retries, for programs that await too."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from decobandit.client import AsyncClient, Client, Refused, RemoteTrial, Unreachable
from decobandit.client.exchange import AsyncSender, Exchange, Request, Sender
from decobandit.problem import Arm, Design, DirichletCategorical, NormalNormal, Problem, Reward
from decobandit.trials import (
    Closed,
    Conflict,
    LimitReached,
    NoFreeSlot,
    NotFound,
    StoreError,
    Trial,
    TrialError,
    create_trial,
    open_trial,
    replay_export,
    verify_export,
)
from helpers.web_client import Site
from helpers.web_server import served

SMALL = Problem.uniform(arms=2, horizon=4)
BATCHED = Problem.uniform(arms=2, horizon=3, pulls_per_stage=4, repeat=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A server of its own, and its address."""
    site = Site(tmp_path_factory.mktemp("client"))
    with served(site.app) as port:
        yield site, f"http://127.0.0.1:{port}"
    site.close()


@pytest.fixture
def client(site: tuple[Site, str]) -> Iterator[Client]:
    with Client(site[1], site[0].tokens["admin"], retries=2) as client:
        yield client


def test_a_trial_runs_over_http_as_in_the_library(client: Client, site: tuple[Site, str]) -> None:
    trial = client.create_trial(SMALL, name="visits", policy="greedy", seed=1)
    first = trial.ask(subject="S-1", note="late")
    assert (first.state, first.subject, first["note"]) == ("open", "S-1", "late")
    assert trial.ask(subject="S-1").id == first.id
    assert trial.tell(first.id, "good").outcome == 1
    second = trial.ask()
    assert trial.tell(second.id, False).outcome == 0
    assert trial.correct(second.id, True, reason="misread").outcome == 1
    third = trial.ask()
    assert trial.cancel(third.id, reason="left").state == "cancelled"
    assert trial.unmask(third.id, category="emergency", reason="asked by the ward").arm == third.arm
    # what the library has on record is what was sent
    recorded = open_trial("visits", db=site[0].store)
    told = [(slot.id, slot.state, slot.outcome) for slot in recorded.allocations()]
    assert told == [(first.id, "told", 1), (second.id, "told", 1), (third.id, "cancelled", None)]
    assert [slot.id for slot in trial.allocations(state="told")] == [first.id, second.id]
    assert trial.status().told == 2
    assert trial.why().next_arm == recorded.status().next_arm
    assert trial.report().told == 2
    assert trial.verify().ok
    assert trial.replay().ok
    assert [event.kind for event in trial.events()] == [e.kind for e in recorded.events()]
    exported = trial.export().to_dict()
    assert verify_export(exported).ok
    assert replay_export(exported).ok


def test_batches_of_other_outcomes_are_told_as_in_the_library(client: Client) -> None:
    arms = [
        Arm(name="lab", prior=NormalNormal(0, 1), noise_sd=1),
        Arm(name="grades", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 2])),
    ]
    problem = Problem(arms=arms, horizon=2, pulls_per_stage=4, repeat=True)
    trial = client.create_trial(problem, name="kinds", policy="equal", bound=False)
    batch = trial.ask()
    trial.tell(batch.id, {"lab": (np.float64(-1.5), 1), "grades": [0, 1]})
    told = trial.tell(batch.id, [("lab", 0.5), ("grades", 0)])
    assert [one.seen for one in told.arms] == ["-1/2", "1+1"]
    with pytest.raises(TrialError, match="must be sum/pulls"):
        trial.correct(batch.id, {"lab": "1+1"}, reason="x")
    assert trial.replay().ok


def test_lists_of_trials_and_their_life(client: Client, site: tuple[Site, str]) -> None:
    create_trial(SMALL, name="life", policy="greedy", max_open=1, db=site[0].store)
    trial = client.open_trial("life")
    assert "life" in [one.name for one in client.list_trials()]
    trial.ask()
    with pytest.raises(LimitReached, match="too many allocations are pending"):
        trial.ask()
    assert trial.set_limits(max_open=2, reason="two nurses").open == 1
    assert trial.add_arm({"name": "late"}, reason="ready").arms == SMALL.n_arms + 1
    assert trial.close_arm("late", reason="unsafe").arms == SMALL.n_arms + 1
    assert [one.kind for one in trial.status().arm_changes] == ["arm_added", "arm_closed"]
    with pytest.raises(NotFound, match="zinc"):
        trial.close_arm("zinc", reason="x")
    assert trial.close(reason="enough").state == "closed"
    with pytest.raises(Closed, match="closed"):
        trial.ask()
    assert trial.reopen(reason="one more").state == "running"
    assert trial.archive().state == "archived"
    assert "life" not in [one.name for one in client.list_trials()]
    assert "life" in [one.name for one in client.list_trials(archived=True)]


def test_batches_by_counts_and_by_rows(client: Client, site: tuple[Site, str]) -> None:
    create_trial(BATCHED, name="shop", policy="thompson", seed=1, db=site[0].store)
    trial = client.open_trial("shop")
    batch = trial.ask(subject="hour 1")
    pulls = batch.pulls.to_dict()
    some = next(arm for arm, n in pulls.items() if n)
    assert trial.tell(batch.id, {some: (1, 1)}).told == 1
    rows = [(arm, "bad") for arm, n in pulls.items() for _ in range(n - (arm == some))]
    assert trial.tell(batch.id, rows).state == "told"
    fixed = trial.correct(batch.id, {some: f"0/{pulls[some]}"}, reason="misread")
    assert sum(arm.good for arm in fixed.arms) == 0
    later = trial.ask()
    assert trial.cancel(later.id, reason="closed early").state == "cancelled"
    assert [one.id for one in trial.allocations(state="told")] == [batch.id]
    assert trial.allocation(batch.id).subject == "hour 1"


def test_the_rules_of_a_design_are_those_of_the_trial(client: Client) -> None:
    design = Design(burn_in=1, floor=0.1, control="arm-1")
    trial = client.create_trial(SMALL, name="ruled", policy="thompson", design=design)
    assert trial.status().rules["burn_in"] == 1


def test_operators_see_what_is_theirs(client: Client, site: tuple[Site, str]) -> None:
    trial = create_trial(SMALL, name="blind", policy="greedy", db=site[0].store)
    with Client(site[1], site[0].tokens["operator"]) as operator:
        mine = operator.open_trial("blind")
        given = mine.ask()
        assert set(given) == {"id", "arm", "subject"}
        assert given.arm != trial.allocations()[0].arm  # a code
        with pytest.raises(AttributeError, match="no 'stage'; it has id, arm, subject"):
            given.stage  # noqa: B018
        with pytest.raises(Refused, match="role"):
            mine.correct(given.id, 1, reason="no")


# -- errors -------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[Any, str], object], type[Exception]]] = [
    (lambda trial, slot: trial.tell("nobody", 1), NotFound),
    (lambda trial, slot: trial.tell(slot, 0), Conflict),
    (lambda trial, slot: trial.ask(), NoFreeSlot),
    (lambda trial, slot: trial.cancel(slot, reason=""), TrialError),
    (lambda trial, slot: trial.tell(slot, 2), TrialError),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals_are_those_of_the_library(
    client: Client, site: tuple[Site, str], number: int
) -> None:
    """The same exception, and the same line where the library itself refuses."""
    call, kind = REFUSED[number]
    name = f"refused {number}"
    one = Problem.uniform(arms=2, horizon=1)
    create_trial(one, name=name, policy="greedy", db=site[0].store)
    trial = client.open_trial(name)
    slot = trial.ask().id
    trial.tell(slot, 1)
    with pytest.raises(kind) as caught:
        call(trial, slot)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    if kind is not TrialError:  # bodies that the server refuses unread have words of their own
        own: Any = open_trial(name, db=site[0].store)
        with pytest.raises(kind) as expected:
            call(own, slot)
        assert str(caught.value) == str(expected.value)


def test_what_the_server_refuses_of_a_client(client: Client, site: tuple[Site, str]) -> None:
    with Client(site[1], "deco_wrong") as stranger, pytest.raises(Refused, match="a valid token"):
        stranger.list_trials()
    with pytest.raises(NotFound):
        client.open_trial("none").status()
    create_trial(SMALL, name="twice", policy="greedy", db=site[0].store)
    with pytest.raises(Conflict, match="name"):
        create_trial(SMALL, name="twice", policy="greedy", db=site[0].store)
    with pytest.raises(TrialError, match="horizon"):
        client.create_trial({"horizon": 0, "arms": [{"name": "a"}]})


def test_what_cannot_be_sent_is_an_error_of_the_library_and_shows_no_secret(
    client: Client, site: tuple[Site, str]
) -> None:
    trial = client.create_trial(SMALL, name="unsent", policy="equal")
    slot = trial.ask()
    for outcome in (float("nan"), float("inf"), b"good"):
        with pytest.raises(TrialError, match="JSON"):
            trial.tell(slot.id, outcome)  # type: ignore[arg-type]
    for key in ("two\nlines", "clé", ""):
        with pytest.raises(TrialError, match=r"[Kk]ey: "):
            trial.ask(key=key)
    with pytest.raises(TrialError, match="token: ") as refused:
        Client(site[1], "deco_secret\n")
    assert "secret" not in str(refused.value)
    assert open_trial("unsent", db=site[0].store).status().allocated == 1


def test_what_is_no_server_of_trials(site: tuple[Site, str]) -> None:
    with pytest.raises(TrialError, match="must begin with http"):
        Client("127.0.0.1:8000")
    said = r"http://127.0.0.1:9 does not answer: .*refused"
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(Unreachable, match=said):
        client.health()
    for status in (502, 200):
        proxy = httpx.MockTransport(lambda _, status=status: httpx.Response(status, text="<h1>!"))
        said = f"http://here answers {status}, and not as a server of trials does"
        with (
            Client("http://here", http=httpx.Client(transport=proxy)) as client,
            pytest.raises(StoreError, match=said),
        ):
            client.health()


# -- retries ------------------------------------------------------------------------------------


class Lossy(httpx.HTTPTransport):
    """Loses the answers to the first requests of a kind: the server has served them."""

    def __init__(self, lost: int, ending: str = "") -> None:
        super().__init__()
        self.lost, self.ending, self.keys = lost, ending, list[str | None]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if request.url.path.endswith(self.ending):
            self.keys.append(request.headers.get("Idempotency-Key"))
            if len(self.keys) <= self.lost:
                answer.read()
                raise httpx.ReadError("connection lost", request=request)
        return answer


def test_a_change_whose_answer_was_lost_is_not_made_twice(site: tuple[Site, str]) -> None:
    create_trial(SMALL, name="lossy", policy="greedy", db=site[0].store)
    wire = Lossy(2, "/ask")
    with Client(site[1], site[0].tokens["admin"], http=httpx.Client(transport=wire)) as lossy:
        given = lossy.open_trial("lossy").ask()
    assert len(wire.keys) == 3
    assert len(set(wire.keys)) == 1
    assert wire.keys[0] is not None
    assert [slot.id for slot in open_trial("lossy", db=site[0].store).allocations()] == [given.id]


def test_a_new_trial_whose_answer_was_lost_is_not_sent_again(site: tuple[Site, str]) -> None:
    wire = Lossy(1, "/trials")
    with (
        Client(site[1], site[0].tokens["admin"], http=httpx.Client(transport=wire)) as lossy,
        pytest.raises(Unreachable, match="connection lost"),
    ):
        lossy.create_trial(SMALL, name="lost", policy="greedy")
    assert len(wire.keys) == 1
    assert open_trial("lost", db=site[0].store).name == "lost"  # it was made


class Scripted:
    """Answers as it was told, and notes how long a sender waited."""

    def __init__(self, *answers: tuple[int, dict[str, str], dict[str, Any]]) -> None:
        self.answers, self.waited = list(answers), list[float]()

    def answer(self, _: httpx.Request) -> httpx.Response:
        status, headers, body = self.answers.pop(0)
        return httpx.Response(status, headers=headers, json=body)

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


Fetch = Callable[[Scripted, Request, int], Any]


def _waiting(wire: Scripted, request: Request, retries: int) -> Any:
    http = httpx.Client(transport=httpx.MockTransport(wire.answer), base_url="http://here")
    return Sender(http, Exchange("http://here", retries), wire.waited.append).fetch(request)


def _awaiting(wire: Scripted, request: Request, retries: int) -> Any:
    http = httpx.AsyncClient(transport=httpx.MockTransport(wire.answer), base_url="http://here")
    return asyncio.run(
        AsyncSender(http, Exchange("http://here", retries), wire.sleep).fetch(request)
    )


@pytest.fixture(params=[_waiting, _awaiting], ids=["waiting", "awaiting"])
def fetch(request: pytest.FixtureRequest) -> Fetch:
    """Either sender."""
    sender: Fetch = request.param
    return sender


def _error(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": "said"}}


@pytest.mark.parametrize(
    ("answer", "request_", "again"),
    [
        ((503, {"Retry-After": "3"}, _error("busy")), Request("POST", ("trials",)), True),
        ((429, {"Retry-After": "3"}, _error("too_many_requests")), Request("GET", ("a",)), True),
        ((503, {"Retry-After": "5"}, _error("unavailable")), Request("POST", (), key="k"), True),
        ((503, {"Retry-After": "5"}, _error("unavailable")), Request("POST", ("trials",)), False),
        ((503, {}, _error("damaged")), Request("GET", ("a",)), False),
        ((409, {"Retry-After": "1"}, _error("conflict")), Request("POST", (), key="k"), False),
    ],
)
def test_what_is_sent_again(fetch: Fetch, answer: Any, request_: Request, again: bool) -> None:
    wire = Scripted(answer, (200, {}, {"ok": True}))
    if again:
        assert fetch(wire, request_, 3).ok
        assert wire.waited == [float(answer[1]["Retry-After"])]
    else:
        with pytest.raises(TrialError, match="said"):
            fetch(wire, request_, 3)
        assert wire.waited == []


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("after", [None, "4"])
def test_a_page_of_a_proxy_whose_server_restarts_is_no_answer(
    fetch: Fetch, status: int, after: str | None
) -> None:
    """What reads or has a key is sent again, with pauses that grow; the rest may have been done."""
    headers = {} if after is None else {"Retry-After": after}

    class Proxy(Scripted):
        def answer(self, _: httpx.Request) -> httpx.Response:
            self.answers.pop(0)
            if self.answers:
                return httpx.Response(status, headers=headers, html="<h1>Bad Gateway</h1>")
            return httpx.Response(200, json={"ok": True})

    for request_ in (Request("GET", ("a",)), Request("POST", (), key="k")):
        wire = Proxy(*[(0, {}, {})] * 4)
        assert fetch(wire, request_, 3).ok
        assert wire.waited == [4.0] * 3 if after else wire.waited == sorted(wire.waited)
        assert all(wait >= 0.5 for wait in wire.waited)
    for request_ in (Request("POST", ("trials",)), Request("POST", ("tokens",))):
        wire = Proxy(*[(0, {}, {})] * 4)
        with pytest.raises(TrialError, match=f"answers {status}, and not as a server of trials"):
            fetch(wire, request_, 3)
        assert wire.waited == []


def test_attempts_end(fetch: Fetch) -> None:
    wire = Scripted(*[(503, {"Retry-After": "1"}, _error("busy"))] * 3)
    with pytest.raises(TrialError, match="said"):
        fetch(wire, Request("GET", ("a",)), 2)
    assert len(wire.waited) == 2


def test_lists_are_read_to_their_end(fetch: Fetch) -> None:
    wire = Scripted(
        (200, {}, {"trials": [{"name": "a"}], "next": "1"}), (200, {}, {"trials": [{"name": "b"}]})
    )
    found = fetch(wire, Request("GET", ("trials",), entries="trials"), 0)
    assert [one.name for one in found] == ["a", "b"]


# -- programs that await ------------------------------------------------------------------------


def test_verbs_can_be_awaited(site: tuple[Site, str]) -> None:
    async def visits() -> list[str]:
        async with AsyncClient(site[1], site[0].tokens["admin"]) as client:
            trial = await client.create_trial(
                Problem.uniform(arms=2, horizon=8), name="awaited", policy="greedy"
            )
            given = await asyncio.gather(*(trial.ask(subject=f"S-{i}") for i in range(5)))
            await asyncio.gather(*(trial.tell(one.id, "bad") for one in given))
            with pytest.raises(NotFound):
                await trial.tell("nobody", 1)
            assert (await trial.status()).told == 5
            assert len(await client.list_trials()) >= 1
            return [one.subject for one in await trial.allocations()]

    assert sorted(asyncio.run(visits())) == [f"S-{i}" for i in range(5)]


# -- data frames --------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [SMALL, BATCHED], ids=["pulls", "batches"])
def test_tables_are_those_of_the_library(
    client: Client, site: tuple[Site, str], problem: Problem
) -> None:
    name = f"tables of {problem.pulls_per_stage}"
    trial = client.create_trial(problem, name=name, policy="equal", seed=1)
    if problem.repeat:
        trial.tell(trial.ask(note="first").id, {"arm-1": (1, 2), "arm-2": "0/1"})
    else:
        trial.tell(trial.ask(subject="S-1").id, 1)
        trial.cancel(trial.ask().id, reason="left")
    own = open_trial(name, db=site[0].store)

    async def awaited(table: str) -> Any:
        async with AsyncClient(site[1], site[0].tokens["viewer"]) as other:
            return await other.open_trial(name).to_frame(table)

    names = set(own.tables())
    if problem.repeat:
        names.remove("obp")
        with pytest.raises(ValueError, match="one pull per stage"):
            own.to_frame("obp")
    for table in names:
        expected = own.to_frame(table)
        assert expected.num_rows >= 1 + (table != "obp")
        assert trial.to_frame(table).equals(expected)
        assert asyncio.run(awaited(table)).equals(expected)
        assert trial.to_frame(table, kind="pandas").equals(own.to_frame(table, kind="pandas"))
    assert trial.to_frame().equals(own.to_frame())
    with pytest.raises(ValueError, match=r"^table: no 'units'; there are allocations, arms, ev"):
        trial.to_frame("units")
    with (
        Client(site[1], site[0].tokens["operator"]) as blinded,
        pytest.raises(Refused, match="role"),
    ):
        blinded.open_trial(name).to_frame()


# -- the same verbs -----------------------------------------------------------------------------


def test_the_verbs_are_those_of_the_library() -> None:
    """Every public method of a trial but those that need its database has its like here."""
    local = {
        "absent_tables",
        "asking",
        "assigning",
        "cancellations",
        "codes",
        "columns",
        "declared",
        "each_event",
        "export_text",
        "looks",
        "named",
        "outcomes_text",
        "read",
        "slot_of",
        "tables",
        "telling",
        "typed",
    }
    ours = {name for name, _ in inspect.getmembers(Trial, inspect.isfunction) if name[0] != "_"}
    theirs = {
        name for name, _ in inspect.getmembers(RemoteTrial, inspect.isfunction) if name[0] != "_"
    }
    assert ours - theirs <= local
    assert theirs - ours == {"why"}
    for name in theirs & ours:
        own = inspect.signature(getattr(Trial, name)).parameters
        assert set(inspect.signature(getattr(RemoteTrial, name)).parameters) - {"state"} <= set(own)


# -- the page of the API ------------------------------------------------------------------------


def test_the_api_is_readable_in_a_browser(site: tuple[Site, str]) -> None:
    """Every operation of the document is on the page, with its keys; nothing comes from afar."""
    answer = httpx.get(f"{site[1]}/api/docs", timeout=60.0)
    text = answer.text
    assert answer.status_code == 200
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    document = site[0].app.openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f'id="{operation["operationId"]}"' in text
            assert f"{method.upper()} {path}" in text
    for name, schema in document["components"]["schemas"].items():
        part = text.partition(f'id="model-{name}"')[2].partition("</section>")[0]
        assert part, name
        assert all(f"<code>{key}</code>" in part for key in schema.get("properties", {}))
    assert "//" not in text.replace(site[1], "")
    assert 'href="/api/docs"' in httpx.get(f"{site[1]}/login").text
