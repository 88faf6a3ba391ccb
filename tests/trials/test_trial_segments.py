"""Segments in trials: each decides on its own clock, as a trial of its own would."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import read_outcomes
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    Looks,
    NormalNormal,
    Problem,
    Reward,
    Rules,
    Segment,
    Stop,
)
from decobandit.trials import (
    Store,
    Trial,
    create_trial,
    open_store,
    open_trial,
    replay_export,
    verify_export,
)
from decobandit.trials.events import StoredEvent, new_event
from decobandit.trials.report_text import trial_page
from decobandit.trials.verification import LogCheck, replayed
from helpers.program import deco
from helpers.refusals import refused

SEGMENTS = (Segment("EU", 0.6), Segment("US", 0.4))
ARMS = [
    Arm(name="old", prior=BetaBernoulli(3, 2)),
    Arm(name="new", priors={"US": BetaBernoulli(2, 4)}),
]
PROBLEM = Problem(arms=ARMS, horizon=12, segments=SEGMENTS)
VISITS = ("EU", "US", "EU", "EU", "US", "EU", "US", "US", "EU", "EU", "US", "EU")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "segments.db") as store:
        yield store


def started(store: Store, problem: Problem = PROBLEM, *, told: int = 6, **settings: Any) -> Trial:
    """A trial after some visitors; every third outcome is bad."""
    settings = {"policy": "deco", "seed": 7} | settings
    trial = create_trial(problem, name="wheat", db=store, **settings)
    for number, segment in enumerate(VISITS[:told]):
        trial.tell(trial.ask(segment=segment).id, int(number % 3 > 0))
    return trial


# -- the second road: a trial of its own for every segment -----------------------------------------


@pytest.mark.parametrize("policy", ["deco", "greedy", "thompson", "knowledge-gradient", "equal"])
@pytest.mark.parametrize("delay", [0, 2])
def test_decisions_are_those_of_separate_trials(store: Store, policy: str, delay: int) -> None:
    trial = create_trial(PROBLEM, name="all", policy=policy, seed=7, bound=True, db=store)
    alone = {
        segment.name: create_trial(
            PROBLEM.segment(segment.name), policy=policy, seed=7 + k, bound=True, db=store
        )
        for k, segment in enumerate(SEGMENTS)
    }
    pending: list[tuple[str, str, str]] = []
    for number, name in enumerate(VISITS):
        slot, other = trial.ask(segment=name), alone[name].ask()
        assert (slot.arm, slot.stage, slot.reason) == (other.arm, other.stage, other.reason)
        assert slot.segment == name
        pending.append((name, slot.id, other.id))
        if len(pending) > delay:
            where, mine, theirs = pending.pop(0)
            trial.tell(mine, number % 2)
            alone[where].tell(theirs, number % 2)
    status = trial.status()
    assert [one.name for one in status.segments] == ["EU", "US"]
    for one in status.segments:
        other_status = alone[one.name].status()
        assert one.earned == other_status.earned
        assert one.upper_bound == other_status.upper_bound
        assert one.loss_so_far == pytest.approx(other_status.loss_so_far)
        counts = [(arm.good, arm.bad, arm.open, arm.posterior_good) for arm in one.arms]
        assert counts == [(a.good, a.bad, a.open, a.posterior_good) for a in other_status.arms]
    events = [event for event in trial.events() if event.kind == "asked"]
    records = {
        name: [e.data["decision"] for e in events if e.data["segment"] == name] for name in alone
    }
    for name, separate in alone.items():
        theirs = [e.data["decision"] for e in separate.events() if e.kind == "asked"]
        assert records[name] == theirs
    assert trial.verify().ok
    assert trial.replay().ok
    assert trial.replay().decisions == len(VISITS)


def test_looks_are_made_by_segment(store: Store) -> None:
    rules = Rules(control="old", looks=Looks(first=4, every=100), stop=Stop(superiority=0.6))
    trial = create_trial(PROBLEM, policy="equal", seed=1, design=rules, name="looks", db=store)
    alone = create_trial(PROBLEM.segment("EU"), policy="equal", seed=1, design=rules, db=store)
    for number in range(4):
        slot, other = trial.ask(segment="EU"), alone.ask()
        outcome = int(slot.arm == "new")
        assert slot.arm == other.arm
        trial.tell(slot.id, outcome)
        alone.tell(other.id, outcome)
        if number == 1:
            trial.tell(trial.ask(segment="US").id, 1)
    assert trial.looks(segment="EU") == alone.looks()
    assert trial.looks(segment="EU")[0].stopped == "superiority"
    assert trial.looks(segment="US") == ()
    with refused("closed"):
        trial.ask(segment="EU")
    assert trial.ask(segment="US").arm is not None
    status = trial.status()
    assert (status.stopped, status.segments[0].stopped) == (None, "superiority")
    assert trial.replay().ok


# -- requests --------------------------------------------------------------------------------------


def test_an_ask_names_a_segment_of_the_trial(store: Store) -> None:
    trial = started(store, told=0)
    with refused("bad_request", "segment"):
        trial.ask()
    with refused("bad_request", "segment"):
        trial.ask(segment="Mars")
    with refused("bad_request", "segment"):
        trial.ask(segment=" EU")
    plain = create_trial(Problem.uniform(arms=2, horizon=4), policy="greedy", db=store)
    with refused("bad_request", "segment"):
        plain.ask(segment="EU")
    assert plain.ask().segment is None
    assert [event.kind for event in trial.events()] == ["created"]


def test_a_subject_belongs_to_one_segment(store: Store) -> None:
    trial = started(store, told=0)
    first = trial.ask(segment="EU", subject="S-1")
    assert trial.ask(segment="EU", subject="S-1").id == first.id
    with refused("conflict", "subject"):
        trial.ask(segment="US", subject="S-1")
    assert trial.events()[-1].kind == "refused"
    assert trial.events()[-1].data["request"]["segment"] == "US"
    trial.cancel(first.id, reason="wrong country")
    assert trial.ask(segment="US", subject="S-1").segment == "US"
    assert [one.allocated for one in trial.status().segments] == [0, 1]
    assert trial.replay().ok


def test_a_repeated_key_is_of_the_same_segment(store: Store) -> None:
    trial = started(store, told=0)
    first = trial.ask(segment="EU", key="k")
    assert trial.ask(segment="EU", key="k").id == first.id
    with refused("conflict", "key"):
        trial.ask(segment="US", key="k")


def test_the_horizon_is_that_of_all_segments(store: Store) -> None:
    trial = started(store, told=12)
    assert trial.status().finished
    with refused("no_free_slot"):
        trial.ask(segment="EU")


def test_more_visitors_than_a_share_makes_plausible_are_still_served(store: Store) -> None:
    segments = (Segment("rare", 0.001), Segment("usual", 0.999))
    problem = Problem(arms=[*ARMS[:1], Arm(name="new")], horizon=12, segments=segments)
    most = problem.segment("rare").horizon
    assert most < 8
    trial = create_trial(problem, name="rare", policy="deco", seed=1, db=store)
    for _ in range(8):
        slot = trial.ask(segment="rare")
        trial.tell(slot.id, 0)
    assert "more visitors" in slot.reason
    state = [(arm.name, arm.expected_reward) for arm in trial.status().segments[0].arms]
    last = trial.ask(segment="rare")
    assert last.arm == max(state, key=lambda one: one[1] or 0.0)[0]
    assert last.stage == 8
    assert trial.verify().ok
    assert trial.replay().ok
    assert trial.report().segments[0].allocated == 9


def test_outcomes_find_their_segment(store: Store) -> None:
    trial = started(store, told=0)
    first, second = trial.ask(segment="EU"), trial.ask(segment="US")
    assert trial.tell(second.id, 1).segment == "US"
    trial.correct(second.id, 0, reason="misread")
    trial.cancel(first.id, reason="left")
    eu, us = trial.status().segments
    assert (eu.allocated, us.told, us.earned) == (0, 1, 0.0)
    assert trial.status(segment="US").told == 1
    assert trial.episode(segment="US").stages == 1
    with refused("bad_request", "segment"):
        trial.episode()


def test_arms_stay_in_a_trial_with_segments(store: Store) -> None:
    trial = started(store)
    with refused("unsupported", "arm"):
        trial.add_arm(Arm(name="late"), reason="ready")
    with refused("unsupported", "arm"):
        trial.close_arm("new", reason="unsafe")


def test_other_outcomes_and_several_arms_have_segments(store: Store) -> None:
    arms = [
        Arm(name="lab", prior=NormalNormal(0, 1), noise_sd=1),
        Arm(name="other", prior=NormalNormal(0, 2), noise_sd=1, priors={"US": NormalNormal(3, 1)}),
        Arm(name="grades", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])),
    ]
    problem = Problem(arms=arms, horizon=6, pulls_per_stage=2, segments=SEGMENTS)
    trial = create_trial(problem, name="lab", policy="greedy", seed=1, db=store)
    for segment in ("EU", "US", "US"):
        slot = trial.ask(segment=segment)
        tallies = {"lab": "0.5/1", "other": "1.5/1", "grades": "0+1+0"}
        trial.tell(slot.id, {arm: tallies[arm] for arm in slot.pulls})
    report = trial.report()
    assert [one.allocated for one in report.segments] == [2, 4]
    assert sum(arm.pulls for arm in report.arms) == 6
    assert trial.replay().ok
    assert verify_export(json.loads(json.dumps(trial.export()))).ok


# -- the log ---------------------------------------------------------------------------------------


def _tampered(trial: Trial, seq: int, **changes: Any) -> tuple[list[str], tuple[str, ...]]:
    """Rewrite an event and every hash after it; return what the two checks find."""
    check, previous, events = LogCheck(trial.id), "0" * 64, []
    for event in trial.events():
        data = event.data | (changes if event.seq == seq else {})
        about = (event.trial, event.seq, event.kind, data)
        later = new_event(*about, previous=previous, at=event.at, by=event.by, key=event.key)
        previous = later.hash
        events.append(later)
        check.add(StoredEvent(later.seq, later.kind, later.key, later.body, later.hash))
    if check.problems:
        return check.problems, ()
    return [], replayed(events).differences


def test_a_changed_segment_is_found_out(store: Store) -> None:
    trial = started(store, told=6)
    asks = [event for event in trial.events() if event.kind == "asked"]
    assert _tampered(trial, asks[1].seq) == ([], ())
    for event in asks:
        other = {"EU": "US", "US": "EU"}[event.data["segment"]]
        problems, differences = _tampered(trial, event.seq, segment=other)
        assert problems or differences, event.seq
    assert _tampered(trial, asks[0].seq, segment="Mars")[0]
    assert _tampered(trial, asks[0].seq, segment=None)[0]


def test_settings_of_segments_are_those_of_the_problem(store: Store) -> None:
    trial = started(store, told=2)
    plan = trial.events()[0].data["plan"]
    for change in (
        {"segments": {"EU": plan["segments"]["EU"]}},
        {"segments": plan["segments"] | {"US": plan["segments"]["EU"]}},
        {"seed": 8},
    ):
        assert _tampered(trial, 0, plan=plan | change)[0]
    lower = [0.9 * price for price in plan["segments"]["EU"]["multipliers"]]
    parts = plan["segments"] | {"EU": plan["segments"]["EU"] | {"multipliers": lower}}
    assert _tampered(trial, 0, plan=plan | {"segments": parts})[1]


def test_a_trial_with_segments_is_read_again(store: Store) -> None:
    trial = started(store)
    again = open_trial("wheat", db=store)
    assert again.status().to_dict() == trial.status().to_dict()
    tree = json.loads(json.dumps(trial.export()))
    assert verify_export(tree).ok
    assert replay_export(tree).ok
    tree["status"]["segments"][0]["told"] = 9
    assert not verify_export(tree).ok


# -- reports, tables -------------------------------------------------------------------------------


def test_reports_are_by_segment_and_in_all(store: Store) -> None:
    trial = started(store, told=9)
    report = trial.report()
    alone = {name: PROBLEM.segment(name) for name in ("EU", "US")}
    for one in report.segments:
        for arm, prior in zip(one.arms, alone[one.name].arms, strict=True):
            beta = prior.beta
            mean = (beta.good + (arm.good or 0)) / (beta.good + beta.bad + arm.pulls)
            assert arm.posterior_mean == pytest.approx(mean)
    for k, arm in enumerate(report.arms):
        parts = [one.arms[k] for one in report.segments]
        assert arm.good == sum(part.good or 0 for part in parts)
        assert arm.posterior_mean == pytest.approx(
            0.6 * parts[0].posterior_mean + 0.4 * parts[1].posterior_mean
        )
    assert sum(arm.best or 0.0 for arm in report.arms) == pytest.approx(1.0)
    assert report.told == sum(one.told for one in report.segments) == 9
    page = trial_page(report)
    assert "Segment EU" in page
    assert "Segment US" in page


def test_the_probability_in_all_is_that_of_the_mixture(store: Store) -> None:
    """By quadrature over the four beta posteriors."""
    trial = started(store, told=9)
    x, w = np.polynomial.legendre.leggauss(60)
    x, w = (x + 1) / 2, w / 2

    def law(arm: Any) -> Any:
        from scipy.stats import beta

        return w * beta.pdf(x, arm.prior_good + arm.good, arm.prior_bad + arm.pulls - arm.good)

    report = trial.report()
    old, new = ([one.arms[k] for one in report.segments] for k in (0, 1))
    means = (0.6 * x[:, None] + 0.4 * x[None, :]).ravel()
    weights = [np.outer(law(eu), law(us)).ravel() for eu, us in (old, new)]
    order = np.argsort(means)
    below = np.cumsum(weights[0][order]) - 0.5 * weights[0][order]
    chance = float(weights[1][order] @ below)
    assert report.arms[1].better_than_control == pytest.approx(chance, abs=0.01)
    cumulated = np.append(0.0, np.cumsum(weights[0][order]))
    difference = report.arms[1].posterior_mean - report.arms[0].posterior_mean
    assert report.arms[1].uplift == pytest.approx(difference, abs=0.003)
    for end, level in zip(report.arms[1].uplift_interval or (), (0.025, 0.975), strict=True):
        # P(new - old <= end) = 1 - P(old < new - end)
        rank = np.searchsorted(means[order], means - end)
        assert 1.0 - weights[1] @ cumulated[rank] == pytest.approx(level, abs=0.005)


def test_tables_have_the_segment(store: Store, tmp_path: Path) -> None:
    trial = started(store)
    arms = trial.to_frame("arms", kind="pandas")
    assert arms["segment"].tolist()[:4] == ["EU", "EU", "US", "US"]
    assert arms["good"].tolist()[4:] == [sum(arms["good"].tolist()[k:4:2]) for k in (0, 1)]
    path = tmp_path / "trial.csv"
    path.write_text("".join(trial.outcomes_text()), encoding="utf-8")
    for one in trial.status().segments:
        state = read_outcomes(PROBLEM, path, segment=one.name)
        assert state.good == tuple(arm.good for arm in one.arms)
        assert state.bad == tuple(arm.bad for arm in one.arms)
    assert "segment" in "".join(trial.outcomes_text(masked=True)).splitlines()[0]
    plain = create_trial(Problem.uniform(arms=2, horizon=4), policy="greedy", db=store)
    assert "segment" not in "".join(plain.outcomes_text())
    assert "segment" not in plain.to_frame("arms", kind="pandas")


# -- the command line ------------------------------------------------------------------------------

FILE = """
horizon = 12

[[segments]]
name = "EU"
share = 0.6

[[segments]]
name = "US"
share = 0.4

[[arms]]
name = "old"
prior = { good = 3, bad = 2 }

[[arms]]
name = "new"
priors = { US = { good = 2, bad = 4 } }
"""


def test_the_program_asks_by_segment(tmp_path: Path) -> None:
    file, db = tmp_path / "site.toml", ["--db", str(tmp_path / "site.db")]
    file.write_text(FILE, encoding="utf-8")
    made = deco("trial", "new", file, "--name", "site", "--policy", "deco", *db)
    assert made.code == 0, made.err
    assert "--segment EU" in made.out
    for wrong in ([], ["--segment", "Mars"]):
        run = deco("trial", "ask", "site", *wrong, *db)
        assert run.code == 2
        assert "EU, US" in run.err
        assert "Traceback" not in run.err
    slot = deco("trial", "ask", "site", "--segment", "US", "--subject", "S-1", "--json", *db).json
    assert slot["segment"] == "US"
    told = deco("trial", "tell", "site", "S-1", "good", *db)
    assert told.code == 0
    assert "segment US" in told.out
    again = deco("trial", "ask", "site", "--segment", "EU", "--subject", "S-1", *db)
    assert again.code != 0
    assert "belongs to one segment" in again.err
    shown = deco("trial", "status", "site", *db)
    assert "US: 1 of 1 outcomes recorded" in shown.out
    assert "next in EU" in shown.out
    assert "segment" in deco("trial", "allocations", "site", *db).out
    assert deco("trial", "verify", "site", *db).code == 0
    assert deco("trial", "replay", "site", *db).code == 0
    page = tmp_path / "report.html"
    assert deco("trial", "report", "site", "--out", page, *db).code == 0
    assert "Segment US" in page.read_text(encoding="utf-8")
    late = tmp_path / "late.toml"
    late.write_text('name = "late"\n', encoding="utf-8")
    refusal = deco("trial", "arm", "add", "site", late, "--reason", "ready", *db)
    assert (refusal.code, "segments" in refusal.err) == (2, True)
