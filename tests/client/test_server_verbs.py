"""What a client asks of a server as a whole: forecasts, designs, checkpoints, tokens, people."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from decobandit import designs, trials
from decobandit.client import AsyncClient, Client, Refused, Unreachable
from decobandit.client.clients import ServerVerbs
from decobandit.joint import optimum
from decobandit.problem import Design, Problem, Scenario, designed_to_dict
from decobandit.server import tokens
from decobandit.trials import Conflict, NotFound, checkpoints
from helpers.refusals import refused
from helpers.web_client import Site
from helpers.web_server import served

SMALL = Problem.uniform(arms=2, horizon=4)
DESIGN = Design(
    policies=["equal", "thompson"],
    scenarios=[
        Scenario(name="null", truth=[0.5, 0.5]),
        Scenario(name="better", truth=[0.25, 0.75]),
    ],
    control="arm-1",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A server of its own, and its address."""
    site = Site(tmp_path_factory.mktemp("server-verbs"))
    with served(site.app) as port:
        yield site, f"http://127.0.0.1:{port}"
    site.close()


@pytest.fixture
def client(site: tuple[Site, str]) -> Iterator[Client]:
    with Client(site[1], site[0].tokens["admin"], retries=0) as client:
        yield client


def test_a_forecast_has_values_below_its_bound(client: Client) -> None:
    """Two arms, four pulls: equal allocation earns 2, and the best bound is the optimum."""
    found = client.forecast(SMALL, ["greedy"])
    values = {one.policy: one.value for one in found.policies}
    assert values["equal"] == pytest.approx(2.0, abs=1e-12)
    best = optimum(SMALL).value
    assert values["greedy"] <= best + 1e-12
    assert found.best_bound == pytest.approx(best, abs=1e-9)
    assert found.upper_bound >= best


def test_a_design_has_its_scenarios_and_a_report(client: Client) -> None:
    found = client.operating_characteristics(SMALL, DESIGN)
    assert [one.name for one in found.scenarios] == ["null", "better"]
    good = {one.policy: one.good for one in found.scenarios[1].policies}
    assert good["equal"] == pytest.approx(2.0, abs=1e-12)
    assert 2.0 < good["thompson"] < 3.0
    # as a table of a file, with the design in it
    again = client.operating_characteristics(designed_to_dict(SMALL, DESIGN))
    assert {one.policy: one.good for one in again.scenarios[1].policies} == good
    page = client.design_report(SMALL, DESIGN).html
    assert page.startswith("<!DOCTYPE html>")
    assert "better" in page


def test_a_design_that_cannot_be_is_refused(client: Client) -> None:
    with refused("bad_request", "body.problem.design"):
        client.operating_characteristics(SMALL)
    with refused("bad_request", "body.calibrate"):
        client.design_report(SMALL, DESIGN, calibrate_to=2.0)
    with refused("bad_request", "policy"):
        client.forecast(SMALL, ["nobody"])


def test_tokens_are_made_listed_and_revoked(client: Client, site: tuple[Site, str]) -> None:
    trials.create_trial(SMALL, name="theirs", policy="greedy", db=site[0].store)
    trials.create_trial(SMALL, name="others", policy="greedy", db=site[0].store)
    made = client.new_token("nurse", "operator", days=2, trials=["theirs"])
    assert (made.role, made.trials) == ("operator", ["theirs"])
    with Client(site[1], made.token, retries=0) as nurse:
        assert [one.name for one in nurse.list_trials()] == ["theirs"]
        with refused("bad_request", kind=Refused):
            nurse.list_tokens()
        with pytest.raises(Conflict):
            client.new_token("nurse", "viewer")
        listed = {one.name: one for one in client.list_tokens()}
        assert listed["nurse"].revoked_at is None
        assert "token" not in listed["nurse"]
        gone = client.revoke_token("nurse")
        assert gone.revoked_at is not None
        assert client.revoke_token("nurse") == gone
        with refused("bad_request", kind=Refused):
            nurse.list_trials()
    with pytest.raises(NotFound):
        client.revoke_token("stranger")
    with refused("bad_request", "body.role"):
        client.new_token("chief", "king")
    people = client.people_log()
    said = [event.kind for event in people.events if event.data.get("token") == "nurse"]
    assert said.index("token_made") < said.index("token_revoked")
    assert people.ok


def test_a_checkpoint_is_the_same_until_something_changes(
    client: Client, site: tuple[Site, str]
) -> None:
    first = client.make_checkpoint()
    assert client.make_checkpoint() == first
    trials.create_trial(SMALL, name="newer", policy="greedy", db=site[0].store)
    assert client.make_checkpoint().number == first.number + 1


# -- what is sent again -------------------------------------------------------------------------


class Deaf(httpx.BaseTransport):
    """Loses every answer, and counts the requests."""

    def __init__(self) -> None:
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        raise httpx.ReadError("connection lost", request=request)


@pytest.mark.parametrize(
    ("verb", "arguments", "sent"),
    [
        ("forecast", (SMALL,), 2),
        ("operating_characteristics", (SMALL, DESIGN), 2),
        ("revoke_token", ("nurse",), 2),
        ("make_checkpoint", (), 2),
        ("new_token", ("nurse", "viewer"), 1),  # its secret is shown once
    ],
)
def test_what_may_be_sent_again_is(
    verb: str, arguments: tuple[Any, ...], sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decobandit.client.exchange.FIRST_PAUSE", 0.0)
    wire = Deaf()
    with (
        Client("http://here", retries=1, http=httpx.Client(transport=wire)) as client,
        refused("unavailable", kind=Unreachable),
    ):
        getattr(client, verb)(*arguments)
    assert wire.sent == sent


# -- programs that await ------------------------------------------------------------------------


def test_they_can_be_awaited(site: tuple[Site, str]) -> None:
    async def asked() -> tuple[float, int, list[str]]:
        async with AsyncClient(site[1], site[0].tokens["admin"], retries=0) as client:
            plan, design = await asyncio.gather(
                client.forecast(SMALL, ["greedy"]), client.operating_characteristics(SMALL, DESIGN)
            )
            made = await client.new_token("awaited", "viewer")
            names = [one.name for one in await client.list_tokens()]
            await client.revoke_token(made.name)
            assert "token_revoked" in [one.kind for one in (await client.people_log()).events]
            return plan.policies[-1].value, len(design.scenarios), names

    value, scenarios, names = asyncio.run(asked())
    assert value == pytest.approx(2.0, abs=1e-12)
    assert scenarios == 2
    assert "awaited" in names


# -- the same verbs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "names"),
    [
        (designs, ["forecast", "operating_characteristics"]),
        (tokens, ["list_tokens", "new_token", "revoke_token"]),
        (trials, ["create_trial", "people_log", "list_trials"]),
        (checkpoints, ["make_checkpoint"]),
    ],
)
def test_they_are_called_as_in_the_library(room: Any, names: list[str]) -> None:
    """Their arguments, too, but for the store, which is the server's, and what is for trials."""
    for name in names:
        theirs = set(inspect.signature(getattr(room, name)).parameters) | {"self", "design"}
        assert set(inspect.signature(getattr(ServerVerbs, name)).parameters) <= theirs
