"""Trials as feature flags, over OFREP: with plain requests, with OpenFeature, from Node and R."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

from decobandit import Arm, BetaBernoulli, Problem, State
from decobandit.policies import make_policy
from decobandit.problem import Segment
from decobandit.server.app import create_app
from decobandit.server.tokens import new_token
from decobandit.trials import Trial, create_trial, open_trial
from decobandit.trials.decisions import PendingState, decide, pending_state
from helpers.documented import read
from helpers.web_client import SMALL, Answer, Site, answer, answers, asking
from helpers.web_server import request, served

PAGES = Path(__file__).parents[2] / "docs" / "guide"
GUIDE = read(PAGES / "flags.md")
FLAGS = "/ofrep/v1/evaluate/flags"
LONG = Problem.uniform(arms=2, horizon=400)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def evaluate(
    site: Site, flag: str, context: Mapping[str, Any], role: str = "app", **more: Any
) -> Answer:
    path = f"{FLAGS}/{flag}" if flag else FLAGS
    return answer(
        site.app, asking("POST", path, site.tokens[role], {"context": dict(context)}, **more)
    )


# -- one flag -------------------------------------------------------------------------------------


def test_a_subject_gets_the_arm_of_its_allocation_and_keeps_it(site: Site) -> None:
    trial = site.trial()
    first = evaluate(site, "pilot", {"targetingKey": "S-1", "country": "FR"})
    (slot,) = trial.allocations()
    assert first.status == 200
    assert first.json == {
        "key": "pilot",
        "value": slot.arm,
        "variant": slot.arm,
        "reason": "SPLIT",
        "metadata": {"allocation": slot.id, "probability": 1.0},
    }
    assert slot.subject == "S-1"
    assert evaluate(site, "pilot", {"targetingKey": "S-1"}).json == first.json
    assert evaluate(site, "pilot", {"targetingKey": "S-2"}).status == 200
    assert [one.subject for one in trial.allocations()] == ["S-1", "S-2"]
    assert {event.by for event in trial.events()[1:]} == {"the-app"}


def test_a_subject_that_another_process_cancelled_is_allocated_again(site: Site) -> None:
    trial = site.trial(LONG)
    before = evaluate(site, "pilot", {"targetingKey": "S-1"}).json["metadata"]["allocation"]
    trial.cancel(before, reason="left")
    assert evaluate(site, "pilot", {"targetingKey": "S-1"}).json["metadata"]["allocation"] != before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "PARSE_ERROR"),
        (b"[]", 400, "PARSE_ERROR"),
        (b'{"context": 3}', 400, "PARSE_ERROR"),
        (b"", 400, "PARSE_ERROR"),
        (b"{}", 400, "TARGETING_KEY_MISSING"),
        (b'{"context": {}}', 400, "TARGETING_KEY_MISSING"),
        (b'{"context": {"targetingKey": ""}}', 400, "TARGETING_KEY_MISSING"),
        (b'{"context": {"targetingKey": 7}}', 400, "INVALID_CONTEXT"),
        (b'{"context": {"targetingKey": " a "}}', 400, "INVALID_CONTEXT"),
    ],
)
def test_errors_are_those_of_ofrep(site: Site, body: bytes, status: int, code: str) -> None:
    trial = site.trial()
    ask = asking("POST", f"{FLAGS}/pilot", site.tokens["app"], body=body)
    got = answer(site.app, ask)
    assert (got.status, got.json["errorCode"], got.json["key"]) == (status, code, "pilot")
    assert got.json["errorDetails"]
    assert trial.allocations() == []


def test_a_flag_that_does_not_exist_is_not_found(site: Site) -> None:
    got = evaluate(site, "nothing", {"targetingKey": "S"})
    assert (got.status, got.json["errorCode"], got.json["key"]) == (
        404,
        "FLAG_NOT_FOUND",
        "nothing",
    )


def test_a_trial_that_allocates_no_more_fails_for_new_subjects_only(site: Site) -> None:
    trial = site.trial()
    first = evaluate(site, "pilot", {"targetingKey": "S-1"}).json
    trial.close()
    got = evaluate(site, "pilot", {"targetingKey": "S-2"})
    assert (got.status, got.json["errorCode"]) == (400, "GENERAL")
    assert evaluate(site, "pilot", {"targetingKey": "S-1"}).json == first


def test_a_trial_with_several_pulls_at_once_is_no_flag(site: Site) -> None:
    trial = site.trial(SMALL | {"pulls_per_stage": 4, "repeat": True}, "batches", policy="equal")
    got = evaluate(site, "batches", {"targetingKey": "S"})
    assert (got.status, got.json["errorCode"]) == (400, "GENERAL")
    assert trial.allocations() == []


def test_the_segment_of_a_visitor_is_in_the_context(site: Site) -> None:
    priors = {"young": BetaBernoulli(good=2, bad=1), "old": BetaBernoulli(good=1, bad=2)}
    arms = tuple(Arm(name=name, priors=priors) for name in ("A", "B"))
    segments = (Segment(name="young", share=0.5), Segment(name="old", share=0.5))
    problem = Problem(arms=arms, horizon=12, segments=segments)
    create_trial(problem, policy="thompson", name="pilot", db=site.store, seed=1, bound=False)
    got = evaluate(site, "pilot", {"targetingKey": "S", "segment": "old"})
    assert got.status == 200
    assert site.store is not None
    for context in ({}, {"segment": "middle"}):
        got = evaluate(site, "pilot", {"targetingKey": "T", **context})
        assert (got.status, got.json["errorCode"]) == (400, "INVALID_CONTEXT")


def test_operators_stay_masked_and_viewers_do_not_allocate(site: Site) -> None:
    site.trial()
    for role in ("operator", "viewer"):
        assert evaluate(site, "pilot", {"targetingKey": "S"}, role).status == 403


def test_an_app_sees_arms_but_no_results_and_its_own_trials_only(site: Site) -> None:
    site.trial()
    site.trial(name="other")
    site.tokens["app"] = new_token(site.store, "shop", "app", trials=["pilot"])[1]
    site.app.state.guard.tokens_changed()
    slot = site.post("/trials/pilot/ask", {"subject": "S"}, "app").json
    assert slot["arm"] in ("old", "new")
    assert site.post("/trials/pilot/allocations/S/tell", {"outcome": 1}, "app").status == 200
    for path in ("/trials", "/trials/pilot", "/trials/pilot/report", "/trials/pilot/events"):
        assert site.get(path, "app").status == 403
    got = evaluate(site, "other", {"targetingKey": "S"})
    assert (got.status, got.json["errorCode"]) == (404, "FLAG_NOT_FOUND")


# -- all flags ------------------------------------------------------------------------------------


def test_all_flags_of_a_token_and_their_etag(site: Site) -> None:
    trials = [site.trial(name=name) for name in ("a", "b")]
    site.trial(SMALL | {"pulls_per_stage": 4, "repeat": True}, "batches", policy="equal")
    trials[1].close()
    got = evaluate(site, "", {"targetingKey": "S"})
    a, b = got.json["flags"]
    assert (a["key"], a["value"]) == ("a", trials[0].allocations()[0].arm)
    assert (b["key"], b["errorCode"]) == ("b", "GENERAL")
    tag = str(got.header("etag"))
    again = evaluate(site, "", {"targetingKey": "S"}, headers={"If-None-Match": f'"x", {tag}'})
    assert (again.status, again.body, again.header("etag")) == (304, b"", tag)
    other = evaluate(site, "", {"targetingKey": "T"}, headers={"If-None-Match": tag})
    assert other.status == 200
    assert other.header("etag") != tag
    missing = evaluate(site, "", {})
    assert (missing.status, missing.json["errorCode"]) == (400, "TARGETING_KEY_MISSING")


def test_pages_of_a_named_site_may_evaluate_flags(site: Site) -> None:
    site.trial()
    origin = "https://shop.example.org"
    preflight = asking(
        "OPTIONS",
        f"{FLAGS}/pilot",
        headers={"origin": origin, "access-control-request-method": "POST"},
    )
    assert answer(site.app, preflight).header("access-control-allow-origin") is None
    app = create_app(site.store, cors_origins=[origin])
    allowed = answer(app, preflight)
    assert allowed.header("access-control-allow-origin") == origin
    assert "If-None-Match" in str(allowed.header("access-control-allow-headers"))
    headers = {"origin": origin, "sec-fetch-site": "cross-site"}
    body = {"context": {"targetingKey": "S"}}
    got = answer(app, asking("POST", FLAGS, site.tokens["app"], body, headers=headers))
    assert (got.status, got.header("access-control-allow-origin")) == (200, origin)
    assert "ETag" in str(got.header("access-control-expose-headers"))


# -- allocations drawn ahead ----------------------------------------------------------------------


def drawn(trial: Trial, number: int) -> list[str]:
    """Ids of allocations that are drawn ahead."""
    slots = [trial.asking(ahead=True, by="server").made() for _ in range(number)]
    return [slot.id for slot in slots]


def test_subjects_get_allocations_drawn_ahead_in_their_order(site: Site) -> None:
    trial = site.trial(LONG)
    stock = drawn(trial, 5)
    body = {"context": {"targetingKey": "S"}}
    bodies = [{"context": {"targetingKey": f"S-{k}"}} for k in (0, 1, 2, 2)] + [body]
    asks = [asking("POST", f"{FLAGS}/pilot", site.tokens["app"], one) for one in bodies]
    flags = [got.json["metadata"]["allocation"] for got in answers(site.app, asks)]
    assert flags[2] == flags[3]
    assert sorted({*flags}) == sorted(stock[:4])
    events = trial.events()
    assert [event.kind for event in events].count("assigned") < 4  # they share events
    assert {event.by for event in events if event.kind == "assigned"} == {"the-app"}
    slots = {slot.id: slot.subject for slot in trial.allocations()}
    assert [slots[flag] for flag in flags] == ["S-0", "S-1", "S-2", "S-2", "S"]
    evaluate(site, "pilot", {"targetingKey": "T"})
    evaluate(site, "pilot", {"targetingKey": "U"})  # none is left: an ask
    assert [event.kind for event in trial.events()][-1] == "asked"
    assert trial.verify().ok
    assert trial.replay().ok


def test_the_stock_survives_a_restart_and_leaves_out_cancelled_allocations(site: Site) -> None:
    trial = site.trial(LONG)
    stock = drawn(trial, 3)
    trial.cancel(stock[0], reason="not needed")
    trial.tell(stock[1], 1)
    site.store.close()
    site.reopen()
    first = evaluate(site, "pilot", {"targetingKey": "S"}).json["metadata"]["allocation"]
    assert first == stock[2]


def test_names_that_look_alike_do_not_share_the_stock(site: Site) -> None:
    trial = site.trial(LONG)
    drawn(trial, 3)
    assert evaluate(site, "pilot", {"targetingKey": "S-1"}).status == 200
    got = evaluate(site, "pilot", {"targetingKey": "s-1"})
    assert (got.status, got.json["errorCode"]) == (400, "GENERAL")
    assert len(trial.read().ahead) == 2


def test_no_subject_gets_an_arm_that_was_closed_after_it_was_drawn(site: Site) -> None:
    trial = site.trial(Problem.uniform(arms=3, horizon=60), policy="equal")
    drawn(trial, 6)
    trial.close_arm("arm-2", reason="unsafe")
    arms = {evaluate(site, "pilot", {"targetingKey": f"S-{k}"}).json["value"] for k in range(8)}
    assert arms == {"arm-1", "arm-3"}


def test_the_server_draws_ahead_up_to_its_number(site: Site) -> None:
    trial = site.trial(Problem.uniform(arms=2, horizon=60), policy="thompson")
    app = create_app(site.store, draw_ahead=20)
    body = {"context": {"targetingKey": "S"}}
    with served(app) as port:
        assert request(port, "POST", f"{FLAGS}/pilot", site.tokens["app"], body)[0] == 200
        deadline = time.monotonic() + 60
        while len(trial.read().ahead) < 20 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)
    assert len(trial.read().ahead) == 20
    assert {event.by for event in trial.events() if event.data.get("ahead")} == {"server"}


# -- probabilities, and the log for off-policy estimators -----------------------------------------


def test_the_probability_of_thompson_is_that_the_arm_is_the_best(site: Site) -> None:
    trial = create_trial(
        Problem.uniform(arms=2, horizon=30), policy="thompson", db=site.store, seed=3, bound=False
    )
    for outcome in (1, 1, 0, 1, 0, 0, 1):
        trial.tell(trial.ask().id, outcome)
    ledger = trial.read()
    slots = [trial.ask() for _ in range(3)]  # pending ones do not change it: posteriors are fair
    draws = np.random.default_rng(0)
    means = [
        draws.beta(1 + good, 1 + bad, 200_000)
        for good, bad in zip(ledger.known.good, ledger.known.bad, strict=True)
    ]
    first = float(np.mean(means[0] > means[1]))
    for slot in slots:
        expected = first if slot.arm == "arm-1" else 1 - first
        assert slot.probability == pytest.approx(expected, abs=0.005)


def test_draws_with_pending_outcomes_have_the_probability_of_the_posterior() -> None:
    policy = make_policy(Problem.uniform(arms=2, horizon=6), "thompson")
    pending = PendingState(State.of_counts((1, 0), (0, 0)), open=(0, 2), stage=3)
    draws = [decide(policy, pending, None, rng=np.random.default_rng(k)).arm for k in range(3000)]
    # P(X > U) for X of density 2x and U uniform: 2/3, as the test above finds by simulation
    assert draws.count(0) / len(draws) == pytest.approx(2 / 3, abs=0.027)  # three standard errors


def test_the_probability_of_information_directed_sampling_averages_over_pending_outcomes(
    site: Site,
) -> None:
    problem = Problem.uniform(arms=3, horizon=8)
    trial = create_trial(problem, policy="ids", db=site.store, seed=2, bound=False)
    trial.tell(trial.ask().id, 1)
    trial.ask()
    ledger = trial.read()
    slot = trial.ask()
    policy, arm = make_policy(problem, "ids"), [one.name for one in problem.arms].index(slot.arm)
    pending = pending_state(ledger)
    draws = [decide(policy, pending, None, rng=np.random.default_rng(k)).arm for k in range(1500)]
    se = (slot.probability * (1 - slot.probability) / len(draws)) ** 0.5
    assert draws.count(arm) / len(draws) == pytest.approx(slot.probability, abs=3 * se + 1e-9)


def test_the_obp_log_estimates_another_policy(site: Site) -> None:
    arms = (Arm(name="A", reward={"good": 2, "bad": -1}), Arm(name="B"))
    trial = create_trial(
        Problem(arms=arms, horizon=50), policy="thompson", db=site.store, seed=5, bound=False
    )
    outcomes = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1]
    slots = [trial.ask() for _ in outcomes]
    for slot, outcome in list(zip(slots, outcomes, strict=True))[:-1]:
        trial.tell(slot.id, outcome)
    frame = trial.to_frame("obp", kind="pandas")
    assert frame.columns.tolist() == ["action", "reward", "pscore", "position"]
    paid = {"A": (-1.0, 2.0), "B": (0.0, 1.0)}
    rows = list(zip(slots, outcomes, strict=True))[:-1]
    assert frame["action"].tolist() == ["AB".index(str(slot.arm)) for slot, _ in rows]
    assert frame["reward"].tolist() == [paid[str(slot.arm)][outcome] for slot, outcome in rows]
    assert frame["pscore"].tolist() == [slot.probability for slot, _ in rows]
    assert set(frame["position"]) == {0}


def test_the_obp_log_needs_single_pulls(site: Site) -> None:
    trial = site.trial(SMALL | {"pulls_per_stage": 4, "repeat": True}, "batches", policy="equal")
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - its field says which
        trial.to_frame("obp")
    assert refused.value.field == "table"  # type: ignore[attr-defined]


# -- the provider of OpenFeature ------------------------------------------------------------------


def test_openfeature_evaluates_and_tracks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = site.trial(LONG)
    token = {"Authorization": f"Bearer {site.tokens['app']}"}
    with served(site.app) as port:
        url = f"http://127.0.0.1:{port}"
        monkeypatch.setenv("URL", url)
        monkeypatch.setenv("TOKEN", site.tokens["app"])
        names: dict[str, Any] = {}
        site.trial(LONG, "button")
        exec(GUIDE.files["shop.py"], names)
        api.set_provider_and_wait(names["TrialsProvider"](url, headers_factory=lambda: token))
        client = api.get_client()
        for k in range(6):
            visitor = EvaluationContext(f"visitor {k % 3}", {"plan": "free"})
            details = client.get_string_details("pilot", "default", visitor)
            (slot,) = [one for one in trial.allocations() if one.subject == f"visitor {k % 3}"]
            assert (details.value, details.variant) == (slot.arm, slot.arm)
            assert details.reason in (Reason.SPLIT, "SPLIT")
            assert details.flag_metadata == {"allocation": slot.id, "probability": 1.0}
        client.track("pilot", EvaluationContext("visitor 1"), TrackingEventDetails(value=1))
        assert [slot.outcome for slot in trial.allocations()] == [None, 1, None]
        nobody = client.get_string_details("pilot", "default", EvaluationContext())
        assert (nobody.value, nobody.error_code) == ("default", "TARGETING_KEY_MISSING")
        missing = client.get_string_details("none", "default", EvaluationContext("S"))
        assert (missing.value, missing.error_code) == ("default", "FLAG_NOT_FOUND")
        trial.close()
        closed = client.get_string_details("pilot", "default", EvaluationContext("late"))
        assert (closed.value, closed.error_code) == ("default", "GENERAL")
        api.shutdown()
    (slot,) = open_trial("button", db=site.store).allocations()
    assert (slot.subject, slot.outcome) == ("visitor-2", 1)


@pytest.mark.parametrize(
    ("program", "page", "file"),
    [("node", "flags.md", "visitors.mjs"), ("Rscript", "r.md", "visits.R")],
)
def test_the_examples_in_other_languages_run(
    site: Site, tmp_path: Path, program: str, page: str, file: str
) -> None:
    command = which(program)
    if command is None or (program == "Rscript" and not has_httr2(command)):
        pytest.skip(f"{program} is not installed")
    trial = site.trial(LONG, "button", policy="thompson")
    script = tmp_path / file
    script.write_text(read(PAGES / page).files[file], encoding="utf-8")
    with served(site.app) as port:
        told = {"URL": f"http://127.0.0.1:{port}", "TOKEN": site.tokens["app"]}
        done = subprocess.run(
            [command, script],
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    arms = {str(slot.subject): slot.arm for slot in trial.allocations()}
    assert len(lines) >= 3
    assert [line[1] for line in lines] == [arms[line[0].rstrip(":")] for line in lines]
    assert all(slot.state == "told" for slot in trial.allocations())


def has_httr2(program: str) -> bool:
    done = subprocess.run([program, "-e", "library(httr2)"], capture_output=True, check=False)
    return done.returncode == 0


def test_events_of_assignments_hold_subjects_by_allocation(site: Site) -> None:
    trial = site.trial(LONG)
    (slot,) = drawn(trial, 1)
    evaluate(site, "pilot", {"targetingKey": "S"})
    (event,) = [one for one in trial.events() if one.kind == "assigned"]
    assert json.loads(event.body)["data"] == {"subjects": {slot: "S"}}
