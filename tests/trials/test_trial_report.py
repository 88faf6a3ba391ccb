"""The report of a trial: intervals and chances by a second road, deviations counted by hand."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta as beta_law
from scipy.stats import binom

from decobandit import make_policy
from decobandit.designs.inference import NOT_DRAWN, confidence_sequence, exact_methods
from decobandit.policies import RuledPolicy
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, Rules
from decobandit.trials import Trial, TrialError, create_trial, open_store, people_log
from decobandit.trials.report import late_outcomes, rate_interval, share_blocks
from decobandit.trials.report_text import trial_page
from helpers.best_of_betas import best_probabilities
from helpers.program import deco
from helpers.refusals import refused

EVIL = "<script>alert(1)</script>"


def made(folder: Path, problem: Problem, name: str = "pilot", policy: str = "equal") -> Trial:
    return create_trial(problem, name=name, db=folder / "a.db", seed=1, policy=policy, tol=1e-2)


def three(horizon: int = 12, **rewards: Reward) -> Problem:
    priors = {"old": BetaBernoulli(3, 7), "new": BetaBernoulli(1, 1), EVIL: BetaBernoulli(0.5, 0.5)}
    return Problem(
        horizon=horizon,
        arms=[
            Arm(name=name, prior=prior, reward=rewards.get(name, Reward()))
            for name, prior in priors.items()
        ],
    )


def played(trial: Trial, outcomes: str) -> None:
    for outcome in outcomes:
        trial.tell(trial.ask().id, int(outcome))


def chance(law: Any, others: Sequence[Any]) -> float:
    """Of a draw to be larger than all others, by adaptive quadrature."""
    found, _ = quad(lambda p: law.pdf(p) * np.prod([o.cdf(p) for o in others]), 0, 1, limit=200)
    return float(found)


def below(law: Any, control: Any, end: float) -> float:
    """P(difference of two independent draws is at most `end`), by adaptive quadrature."""
    found, _ = quad(lambda p: control.pdf(p) * law.cdf(p + end), 0, 1, points=[abs(end)], limit=400)
    return float(found)


# -- numbers ------------------------------------------------------------------------------------


def test_chances_and_credible_intervals_are_those_of_the_posteriors(tmp_path: Path) -> None:
    trial = made(tmp_path, three())
    played(trial, "101100111")
    found = trial.report(control="new")
    laws = [
        beta_law(arm.prior_good + arm.good, arm.prior_bad + arm.pulls - arm.good)
        for arm in found.arms
    ]
    for k, (arm, law) in enumerate(zip(found.arms, laws, strict=True)):
        others = [other for other in laws if other is not law]
        assert arm.best == pytest.approx(chance(law, others), abs=1e-7)
        if k != 1:
            assert arm.better_than_control == pytest.approx(chance(law, laws[1:2]), abs=1e-7)
            difference = law.mean() - laws[1].mean()
            assert arm.uplift == pytest.approx(difference, abs=1e-12)
            ends = [below(law, laws[1], end) for end in arm.uplift_interval]
            assert ends == pytest.approx([0.025, 0.975], abs=2e-5)
        assert law.cdf(arm.credible_interval) == pytest.approx([0.025, 0.975], abs=1e-9)
        assert arm.posterior_mean == pytest.approx(law.mean(), abs=1e-12)
    assert found.arms[1].better_than_control is None
    assert found.arms[1].uplift is found.arms[1].uplift_interval is None
    frame, found_by_default = trial.to_frame("results", kind="pyarrow"), trial.report().arms
    assert frame["arm"].to_pylist() == ["old", "new", EVIL]
    assert frame["uplift"].to_pylist() == [arm.uplift for arm in found_by_default]
    assert frame["uplift_high"].to_pylist() == [
        None if arm.uplift_interval is None else arm.uplift_interval[1] for arm in found_by_default
    ]
    assert sum(arm.best or 0.0 for arm in found.arms) == pytest.approx(1.0, abs=1e-12)
    assert [arm.effective_sample_size for arm in found.arms] == [10.0, 2.0, 1.0]


def test_better_means_a_larger_expected_reward(tmp_path: Path) -> None:
    # the control earns 2 + p; the others at most 1
    trial = made(tmp_path, three(old=Reward(good=3.0, bad=2.0)))
    found = trial.report()
    assert [arm.best for arm in found.arms] == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)
    # bad outcomes earn more: the chance is that of the smaller success probability
    turned = {name: Reward(good=0.0, bad=1.0) for name in ("old", "new", EVIL)}
    trial = made(tmp_path, three(**turned), name="turned")
    assert trial.report().arms[1].uplift == pytest.approx(0.5 - 0.7)
    ends = trial.report().arms[1].uplift_interval
    above = [1.0 - below(beta_law(1, 1), beta_law(3, 7), -end) for end in ends]
    assert above == pytest.approx([0.025, 0.975], abs=2e-5)
    low, _ = quad(lambda p: beta_law(1, 1).pdf(p) * beta_law(3, 7).sf(p), 0, 1)
    assert trial.report().arms[1].better_than_control == pytest.approx(low, abs=1e-9)


@pytest.mark.parametrize(("good", "pulls"), [(0, 1), (0, 9), (1, 3), (7, 9), (30, 100), (9, 9)])
def test_confidence_intervals_are_where_their_tests_turn(good: int, pulls: int) -> None:
    low, high = rate_interval(good, pulls, "exact")
    # the tails of the binomial at the ends; an end at 0 or 1 where there is no tail
    assert low == 0.0 if good == 0 else binom.sf(good - 1, pulls, low) == pytest.approx(0.025)
    assert high == 1.0 if good == pulls else binom.cdf(good, pulls, high) == pytest.approx(0.025)
    for p in rate_interval(good, pulls, "wilson"):
        if 0.0 < p < 1.0:
            score = (good / pulls - p) / np.sqrt(p * (1 - p) / pulls)
            assert abs(score) == pytest.approx(1.959963984540054, rel=1e-9)
        else:
            assert good in (0, pulls)


def test_chances_of_many_arms_are_the_frequencies_of_draws() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(1, 40, 30) + 0.5, rng.integers(1, 40, 30) + 1.0
    a[0], b[0] = 4000.0, 400.0
    a[3], b[3] = a[2], b[2]  # two equal arms
    chances = best_probabilities(a, b, np.zeros(30), np.ones(30))
    draws = 40_000
    wins = np.bincount(rng.beta(a, b, (draws, 30)).argmax(axis=1), minlength=30)
    error = np.sqrt(draws * chances * (1 - chances)) + 1e-9
    seen = draws * chances > 5
    assert np.abs((wins - draws * chances) / error)[seen].max() < 4.0
    assert wins[~seen].sum() < 5 * 30
    # one of them by the one-dimensional integral
    laws = [beta_law(*pair) for pair in zip(a, b, strict=True)]
    exact, _ = quad(
        lambda p: laws[0].pdf(p) * np.prod([law.cdf(p) for law in laws[1:]]),
        0.85,
        0.95,
        limit=200,
    )
    assert chances[0] == pytest.approx(exact, abs=1e-8)
    assert chances[2] == chances[3]


def test_shares_are_counts_in_blocks_of_five_or_more() -> None:
    assert share_blocks([], 2) == ()
    (one,) = share_blocks([1, 1, 0, 1], 2)
    assert (one.first, one.last, one.shares) == (1, 4, (0.25, 0.75))
    blocks = share_blocks([0] * 60 + [1] * 60, 2)
    assert [(each.first, each.last) for each in blocks] == [
        (10 * k + 1, 10 * k + 10) for k in range(12)
    ]
    assert [each.shares for each in blocks] == [(1.0, 0.0)] * 6 + [(0.0, 1.0)] * 6


# -- deviations ---------------------------------------------------------------------------------


def test_deviations_are_those_of_the_log(tmp_path: Path) -> None:
    trial = made(tmp_path, three())
    first, second, third = (trial.ask(by="ann") for _ in range(3))
    trial.tell(first.id, 1)
    trial.correct(first.id, 0, reason="misread", by="ben")
    trial.cancel(second.id, reason="left", by="ann")
    with pytest.raises(TrialError):
        trial.tell(second.id, 1)
    trial.close(reason="look")
    trial.reopen(reason="go on", by="ben")
    trial.unmask(third.id, category="emergency", reason="an emergency", by="carl")
    found = trial.report()
    (fixed,) = found.corrections
    assert (fixed.allocation, fixed.number, fixed.before, fixed.after) == (first.id, 1, 1, 0)
    assert (fixed.by, fixed.reason) == ("ben", "misread")
    assert [(each.by, each.count, each.reasons) for each in found.cancellations] == [
        ("ann", 1, ("left",))
    ]
    assert (found.cancelled, found.refused, found.told, found.pending) == (1, 1, 1, 1)
    assert [(each.kind, each.reason) for each in found.changes] == [
        ("closed", "look"),
        ("reopened", "go on"),
        ("unmasked", "an emergency"),
    ]
    assert (found.audit.ok, found.audit.events) == (True, 11)
    assert found.audit.head == trial.events()[-1].hash
    assert found.late == ()
    # a day later the third, which is pending, is late; the second was cancelled
    tomorrow = datetime.now(UTC) + timedelta(hours=24)
    (late,) = late_outcomes(trial.read(), timedelta(hours=20), tomorrow)
    assert (late.allocation, late.told_at) == (third.id, None)
    assert late.hours == pytest.approx(24.0, abs=0.1)
    with refused("bad_request", "stale_after"):
        trial.report(late_after=0.0)


# -- the page and the command -------------------------------------------------------------------


def test_the_page_is_one_file_without_scripts_and_names_stay_text(tmp_path: Path) -> None:
    trial = made(tmp_path, three())
    played(trial, "101100111010")
    page = trial_page(trial.report())
    assert "<script" not in page
    assert "http://" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "src=" not in page
    assert "&lt;script&gt;" in page
    assert re.search(r"@page \{\s*size: A4;", page)
    assert page.count("<svg") == 2
    for said in (
        "The trial is complete",
        "Clopper and Pearson",
        "Wilson",
        "equal tails",
        "P(best)",
        "Uplift over control",
    ):
        assert said in page
    for paragraph in re.findall(r"<(?:p|li)[ >].*?</(?:p|li)>", page, re.DOTALL):
        text = re.sub(r"<[^>]+>", "", paragraph)
        if "osterior" in text:
            assert len(re.findall(r"\.(?= |$)", " ".join(text.split()))) <= 2, text


def test_the_command_writes_the_page_and_the_numbers(tmp_path: Path) -> None:
    trial = made(tmp_path, three())
    played(trial, "1011")
    db, out = tmp_path / "a.db", tmp_path / "report.html"
    said = deco("trial", "report", "pilot", "--db", db, "--json", "--control", "new").json
    own = trial.report(control="new").to_dict()
    for key in own.keys() - {"reported_at"}:
        assert said[key] == json.loads(json.dumps(own[key])), key
    assert deco("trial", "report", "pilot", "--db", db, "--out", out).out == ""
    assert "Report of the trial pilot" in out.read_text(encoding="utf-8")
    shown = deco("trial", "report", "pilot", "--db", db).out
    assert "4 of 12 outcomes are recorded" in shown
    assert max(map(len, shown.splitlines())) <= 100
    forms = [event.data["form"] for event in people_log(trial.store).events]
    assert forms == ["report"] * 3


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--control", "nobody"], "control: no arm is called 'nobody'; the arms are old, new"),
        (["--out", "report.txt"], "report.txt: must end in .html"),
        (["--late-after", "0"], "0"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, options: list[str], wrong: str) -> None:
    made(tmp_path, three())
    found = deco("trial", "report", "pilot", "--db", tmp_path / "a.db", *options)
    assert found.code == 2
    assert wrong in found.err
    assert len(found.err.splitlines()) == 1


def test_reports_follow_allocations_that_were_drawn_ahead(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=4), db=store, seed=1)
        slot = trial.asking(ahead=True, by="server").made()
        assert trial.assigning(["p-1"], by="server").made()["p-1"].id == slot.id
        trial.tell(slot.id, 1)
        report = trial.report(late_after=1e-9)  # hours
        assert (report.told, [one.allocation for one in report.late]) == (1, [slot.id])


def test_estimates_come_from_the_log(tmp_path: Path) -> None:
    problem, rules = Problem.uniform(arms=2, horizon=30), Rules(control="arm-1", floor=0.2)
    trial = create_trial(
        problem, name="drawn", policy="thompson", design=rules, db=tmp_path / "t.db"
    )
    rng = np.random.default_rng(2)
    for _ in range(30):
        assert trial.report().inference_left_out["odds ratio, p-value"].startswith("when the trial")
        slot = trial.ask()
        trial.tell(slot.id, int(rng.random() < (0.3 if slot.arm == "arm-1" else 0.7)))
    found = {(one.method, one.arm): one for one in trial.report().inference}
    assert trial.report().inference_left_out == {}
    events = [event for event in trial.events() if event.kind in ("asked", "told")]
    scores: dict[str, float] = {"arm-1": 0.0, "arm-2": 0.0}
    rewards: dict[str, list[float]] = {"arm-1": [], "arm-2": []}
    for asked, told in zip(events[::2], events[1::2], strict=True):
        arm = asked.data["arm"]
        good = float(told.data["outcome"])
        scores[arm] += good / asked.data["decision"]["probability"] / 30
        rewards[arm].append(good)
    for arm, score in scores.items():
        assert found["ipw", arm].estimate == pytest.approx(score)
        row = np.array([rewards[arm]])
        low, high = confidence_sequence(row, np.array([row.size]))
        ends = found["sequence", arm].low, found["sequence", arm].high
        assert ends == pytest.approx((low[0], high[0]))
    ruled = RuledPolicy(make_policy(problem, "thompson"), rules)
    pulls = np.array([[len(rewards["arm-1"]), len(rewards["arm-2"])]])
    good = np.array([[sum(rewards["arm-1"]), sum(rewards["arm-2"])]]).astype(int)
    ratio = exact_methods(ruled).odds_ratio(pulls, good)
    assert found["odds ratio", "arm-2"].estimate == pytest.approx(ratio.estimate[0])
    frame = trial.to_frame("inference", kind="pyarrow")
    assert set(frame["method"].to_pylist()) == {method for method, _ in found}
    assert "Inference after adaptation" in trial_page(trial.report())


def test_pending_outcomes_leave_the_exact_methods_out(tmp_path: Path) -> None:
    trial = made(tmp_path, Problem.uniform(arms=2, horizon=2), policy="deco")
    slots = [trial.ask(), trial.ask()]
    for slot in slots:
        trial.tell(slot.id, 1)
    assert trial.report().inference_left_out == {
        "ipw, aipw, weighted": NOT_DRAWN,
        "p-value": "the design has no control arm",
        "odds ratio, p-value": "arms were allocated while outcomes were pending",
    }


def test_exact_methods_need_decisions_by_the_outcomes_on_record(tmp_path: Path) -> None:
    trial = made(tmp_path, Problem.uniform(arms=2, horizon=3), policy="thompson")
    method = "odds ratio, p-value"
    first = trial.ask()
    trial.tell(first.id, 1)
    trial.correct(first.id, 0, reason="misread")  # before another arm was allocated by it
    for _ in range(2):
        slot = trial.ask()
        trial.tell(slot.id, 1)
    assert method not in trial.report().inference_left_out
    trial.correct(slot.id, 0, reason="misread")
    assert method not in trial.report().inference_left_out
    trial.correct(first.id, 1, reason="misread")
    assert trial.report().inference_left_out[method] == (
        "outcomes were corrected after later arms had been allocated"
    )
    assert all(one.method != "odds ratio" for one in trial.report().inference)
