"""Every example runs, and what it says is found again by a second road.

The second road is mostly `played`: a policy asked in every state that it reaches, in plain Python.
"""

from __future__ import annotations

import ast
import itertools
import runpy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import stats

from decobandit import Policy, Problem, State, evaluate, make_policy, optimum, simulate
from decobandit.studies import load_study, run_study
from decobandit.trials import verify_export
from helpers import kind_examples

FOLDER = Path(__file__).parents[1] / "examples"
FILES = sorted(path.stem for path in FOLDER.glob("*.py"))
Names = dict[str, Any]  # that an example leaves
Chance = Callable[[int, int, int], float]  # of a good outcome: arm, good and bad so far
Counts = tuple[tuple[int, int], ...]  # good and bad of every arm


# -- second roads -------------------------------------------------------------------------------


@dataclass
class Played:
    """What a policy does in expectation: good outcomes, pulls of arms, and where it ends."""

    good: float
    pulls: list[float]
    ends: dict[Counts, float]


def played(policy: Policy, chance: Chance, *, exchangeable: bool = False) -> Played:
    """Follow a policy through all states that it reaches; equal arms may be sorted."""
    problem = policy.problem
    now: dict[Counts, float] = {((0, 0),) * problem.n_arms: 1.0}
    total, pulls = 0.0, [0.0] * problem.n_arms
    for stage in range(problem.horizon):
        later: dict[Counts, float] = defaultdict(float)
        for counts, mass in now.items():
            state = State.of_counts(tuple(g for g, _ in counts), tuple(b for _, b in counts))
            arms = policy.select(stage, state)
            chances = [chance(arm, *counts[arm]) for arm in arms]
            total += mass * sum(chances)
            for arm in arms:
                pulls[arm] += mass
            for outcomes in itertools.product((0, 1), repeat=len(arms)):
                after, share = list(counts), mass
                for arm, p, outcome in zip(arms, chances, outcomes, strict=True):
                    good, bad = counts[arm]
                    after[arm] = (good + outcome, bad + 1 - outcome)
                    share *= p if outcome else 1.0 - p
                later[tuple(sorted(after) if exchangeable else after)] += share
        now = later
    return Played(total, pulls, now)


def believing(good: float, bad: float) -> Chance:
    """All arms come from Beta(good, bad)."""
    return lambda arm, g, b: (good + g) / (good + bad + g + b)


def expected_best(prior: Any, arms: int) -> float:
    """The expected largest of several draws from a distribution on 0..1: its tail, integrated."""
    grid = np.linspace(0.0, 1.0, 20_001)
    return float(np.trapezoid(1.0 - prior.cdf(grid) ** arms, grid))


# -- what is checked of each example ------------------------------------------------------------


def check_clinical_trial(names: Names) -> None:
    results, policies = names["results"], names["policies"]
    truth = (0.6, 0.7)
    found = results["deco", truth]
    again = played(policies["deco"], lambda arm, good, bad: truth[arm])
    right = 0.0
    for ((g0, b0), (g1, b1)), mass in again.ends.items():
        # the new arm is the better one; as whole numbers, so that ties are ties
        ahead = (1 + g1) * (20 + g0 + b0) - (12 + g0) * (2 + g1 + b1)
        right += mass * (0.5 if ahead == 0 else float(ahead > 0))
    assert found.value == pytest.approx(again.good, abs=1e-9)
    assert found.arm_pulls == pytest.approx(again.pulls, abs=1e-9)
    assert found.best_arm_probability == pytest.approx(right, abs=1e-9)
    for standard, new in names["TRUTHS"]:
        even, better = results["equal", (standard, new)], int(new > standard)
        assert even.value == pytest.approx(20 * (standard + new), abs=1e-9)
        for name in ("deco", "fh-gittins"):
            adaptive = results[name, (standard, new)]
            assert adaptive.value > even.value
            assert adaptive.arm_pulls[better] > 20
            # what the text says of the end: better where the new arm is worse, and the reverse
            chances = adaptive.best_arm_probability, even.best_arm_probability
            assert (chances[0] < chances[1]) == bool(better)
    assert all(value <= names["best"] for value in names["prior_values"].values())


def check_ab_test(names: Names) -> None:
    results, bound = names["results"], names["solution"].upper_bound
    found = {each.policy: each for each in results.results}
    assert found["equal"].value == pytest.approx(300 * 0.1, abs=4.5 * found["equal"].value_se)
    best = 300 * expected_best(stats.beta(2, 18), 10)
    for name, each in found.items():
        assert each.value + each.regret == pytest.approx(best, rel=1e-6)
        assert each.value < bound < best
        if name != "deco":
            ahead = results.difference("deco", name)
            assert ahead.value > 3 * ahead.value_se
    terms, state = names["terms"], names["state"]
    for of, good, pulls in zip(terms, state.good, state.pulls, strict=True):
        assert of.expected_reward == pytest.approx((2 + good) / (20 + pulls))
    assert names["chosen"] == max(range(10), key=lambda k: terms[k].index)


def check_hourly_batches(names: Names) -> None:
    results, problem, given = names["results"], names["problem"], names["given"]
    found = {each.policy: each for each in results.results}
    # a tenth of 1,000 visitors converts under equal allocation, and more of those after the choice
    assert found["equal"].value > 100 + 2000 * 0.1
    best = (1000 + 2000) * expected_best(stats.beta(4, 36), 6)
    for name, each in found.items():
        assert each.value + each.regret == pytest.approx(best, rel=1e-6)
        assert each.value < min(names["solution"].upper_bound, best)
        if name != "deco-repriced":
            assert results.difference("deco-repriced", name).value > 0
    assert sum(given) == problem.pulls_per_stage
    assert all(pulls % problem.unit == 0 for pulls in given)
    assert names["advice"].pulls == given


def check_seasons(names: Names) -> None:
    results, problem = names["results"], names["problem"]
    assert results["equal"].value == pytest.approx(12 * (0.1 + 1.0) / 2, abs=1e-9)
    order = [results[name].value for name in ("greedy", "fh-gittins", "deco")]
    assert sorted(order) == order
    assert order[-1] < names["best"] < names["solution"].upper_bound
    assert names["solution"].prices[:12].max() > 0.1
    drawn = simulate(problem, "deco", draws=1000, per_draw=4).results[0]
    assert drawn.value == pytest.approx(results["deco"].value, abs=4.5 * drawn.value_se)
    rates = {name: np.array(each.stage_rewards) / names["season"] for name, each in results.items()}
    assert rates["deco"][:12].mean() < rates["greedy"][:12].mean()
    assert rates["deco"][12:].mean() > rates["greedy"][12:].mean()


def check_deployment(names: Names) -> None:
    results, even = names["results"], names["even"]
    # equal split: eight pulls of each, their good outcomes uniform on 0..8
    means = [(1 + g) / 10 for g in range(9)]
    largest = sum(max(each) for each in itertools.product(means, repeat=3)) / 9**3
    assert even == (pytest.approx(12.0), pytest.approx(largest))
    earned, kept = zip(*results.values(), strict=True)
    assert list(earned) == sorted(earned, reverse=True)
    assert np.all(np.diff(kept) > -3e-4)  # near the end DeCo's prices nearly tie
    assert even[1] < kept[-1] < expected_best(stats.beta(1, 1), 3)
    assert earned[-1] > even[0]
    assert names["choices"] == {1: "arm-1", 1000: "arm-3"}
    later = 30
    problem = names["pilot"].model_copy(update={"terminal": names["Terminal"](deploy=later)})
    value = results[later][0] + later * results[later][1]
    assert 0.0 <= optimum(problem).value / value - 1.0 < 0.01


def check_floors(names: Names) -> None:
    shares, outcomes = names["shares"], names["outcomes"]
    assert min(rows.min() for rows in shares.values()) >= names["FLOOR"] - 1e-12
    ahead = shares["additive"][9:]
    assert np.all(ahead[:, 1] > ahead[:, 2])  # the policy's order of B and C
    assert np.allclose(shares["clip"][9:, 1:], names["FLOOR"])  # lost
    additive, clip = outcomes["additive"], outcomes["clip"]
    for end in (0, -1):  # no floor; equal randomisation
        assert additive[end] == pytest.approx(clip[end])
    assert additive[-1, 0] == pytest.approx(15 * (0.2 + 0.7 + 0.4) / 3)
    assert np.all(additive[1:-1] < clip[1:-1], axis=0).tolist() == [True, False]
    for successes, power in clip[1:-1]:  # at the same power the additive floor earns more
        assert np.interp(power, additive[:, 1], additive[:, 0]) > successes


def check_platform_trial(names: Names) -> None:
    """Equal allocation earns half of all means, a third while three arms are there."""
    problem, means = names["problem"], np.array([0.4, 0.5, 0.5])
    able = problem.available / problem.available.sum(axis=1, keepdims=True)
    equal = names["found"].results[2].estimates.best
    assert abs(equal.value - float((able @ means).sum())) < 5 * equal.value_se
    for result in names["found"].results:
        assert problem.available[result.episodes["stage"], result.episodes["arm"]].all()
        assert result.estimates.best.value < names["solution"].upper_bound


def check_shortlist(names: Names) -> None:
    """The published bounds per applicant, and equal interviews of single rounds by hand."""
    published = {1: 0.14583333, 2: 0.16666667, 4: 0.18333333, 5: 0.18970588}
    for rounds, share in published.items():
        assert names["bounds"][rounds - 1] * 3 / 12 == pytest.approx(share, abs=2e-5)
    # one round: three applicants, good with probability 1/2 each: 2/3 if good, else 1/2
    value = sum(stats.binom.pmf(k, 3, 0.5) * (k * 2 / 3 + (3 - k) / 2) for k in range(4)) / 3
    for name in names["names"]:
        assert names["values"][name][0] == pytest.approx(value, abs=5e-3)
    for ceiling, *rows in zip(names["bounds"], *names["values"].values(), strict=True):
        assert max(rows) < ceiling + 5e-3


def check_budget(names: Names) -> None:
    """The price of money is the slope of the bound, which is concave in the budget."""
    slopes = np.diff(names["bounds"]) / np.diff(names["budgets"])
    prices = np.array(names["prices"])
    assert np.all(slopes <= prices[:-1] + 5e-3)
    assert np.all(slopes >= prices[1:] - 5e-3)
    assert prices[-1] < 1e-3
    for row in names["values"].values():
        assert np.all(np.array(row) < np.array(names["bounds"]))


def check_resources(names: Names) -> None:
    """The bound is concave in the nurses, and their price is its slope."""
    slopes, prices = np.diff(names["bounds"]), names["prices"][:, 0]
    assert np.all(slopes <= prices[:-1] + 0.02)
    assert np.all(slopes >= prices[1:] - 0.02)
    for name, least in (("deco", 0.95), ("greedy", 0.6)):
        earned = np.array(names["values"][name]) / names["bounds"]
        assert np.all(earned > least)
        assert np.all(earned < 1.005)


def check_machine_repair(names: Names) -> None:
    """The bound is concave in the crews, and its slope is the sum of the prices."""
    slopes = np.diff(names["bounds"])
    assert np.all(np.diff(slopes) < 1e-5)
    for number, slope in zip(names["crews"], slopes, strict=False):
        assert slope <= names["prices"][number].mean() + 1e-4
        assert slope >= names["prices"][number + 1].mean() - 1e-4
    assert np.all(np.array(names["values"]["deco"]) > 0.95 * np.array(names["bounds"]))
    assert np.argsort(names["index"]).tolist() == [0, 2, 1]


def check_drift(names: Names) -> None:
    """Equal shares earn the prior mean; Thompson sampling by a Kalman filter written out here."""
    results = {result.policy: result for result in names["results"].results}
    equal, thompson = results["equal"], results["thompson"]
    assert abs(equal.value - 28 * 5.0) < 5 * equal.value_se
    rng, weeks = np.random.default_rng(3), 4000
    truth = rng.normal(5.0, 1.0, (weeks, 4))
    mean, variance = np.full((weeks, 4), 5.0), np.ones((weeks, 4))
    total, row = np.zeros(weeks), np.arange(weeks)
    for _ in range(28):
        arm = rng.normal(mean, np.sqrt(variance)).argmax(axis=1)
        total += truth[row, arm]
        gain = variance[row, arm] / (variance[row, arm] + 1.5**2)
        seen = rng.normal(truth[row, arm], 1.5)
        mean[row, arm] += gain * (seen - mean[row, arm])
        variance[row, arm] *= 1.0 - gain
        variance += 0.4**2
        truth = rng.normal(truth, 0.4)
    error = np.hypot(thompson.value_se, total.std() / np.sqrt(weeks))
    assert abs(thompson.value - total.mean()) < 5 * error
    bound = names["solution"].upper_bound
    assert max(result.value - 5 * result.value_se for result in results.values()) < bound
    assert results["deco"].value > 0.95 * bound


def check_health_calls(names: Names) -> None:
    """Policies are near the bound, which more calls raise by less and less."""
    bounds = np.array(names["bounds"])
    assert np.all(np.diff(np.diff(bounds) / np.diff(names["calls"])) < 1e-3)
    assert np.all(np.array(names["values"]["deco"]) > 0.98 * bounds)
    assert np.all(np.array(names["values"]["equal"]) < 0.9 * bounds)
    assert np.all(names["indices"][2] < names["prices"][:, None] + 1e-9)


def check_random_end(names: Names) -> None:
    """Greedy does not look at the law: its rewards are differences of values at known ends."""
    known = [0.0, *(evaluate(Problem.uniform(2, n), "greedy").value for n in range(1, 60))]
    problem = names["problems"]["uniform, 1 to 59"]
    value = float(problem.survival @ np.diff(known)) / problem.survival.sum()
    assert names["rows"]["uniform, 1 to 59"]["greedy"] == pytest.approx(value, rel=1e-12)
    for row in names["rows"].values():
        assert row["greedy"] <= row["optimum"] <= row["announced"] <= row["bound"]


def check_judgements(names: Names) -> None:
    leader, reach = names["leader"], names["reach"]
    assert names["ceiling"] == pytest.approx(reach[0])
    assert reach[0] <= 5 / 6 + 1e-12  # the mean of the largest of five uniform rates
    assert reach[-1] - leader[-1] <= names["STOP"] < reach[-2] - leader[-2]
    # the last batch, all on one prompt: what it is worth by the beta-binomial distribution
    priors = [arm.prior for arm in names["left"].arms]
    means = [prior.good / (prior.good + prior.bad) for prior in priors]
    assert leader[-1] == pytest.approx(max(means))
    for k, prior in enumerate(priors):
        good = np.arange(51)
        chances = stats.betabinom(50, prior.good, prior.bad).pmf(good)
        after = (prior.good + good) / (prior.good + prior.bad + 50)
        rest = max(mean for other, mean in enumerate(means) if other != k)
        assert leader[-1] - 1e-9 <= chances @ np.maximum(after, rest) <= reach[-1] + 1e-9


def check_batches(names: Names) -> None:
    results, bounds = names["results"], names["bounds"]
    for m, problem in names["problems"].items():
        assert results["equal", m] == pytest.approx(12.0)
        assert results["deco", m] <= bounds[m] + 1e-9
        if m >= 3:  # fewer reach more states
            flat = believing(1, 1)
            again = played(make_policy(problem, "deco"), flat, exchangeable=True)
            assert results["deco", m] == pytest.approx(again.good, abs=1e-9)
    values = [results["deco", m] for m in names["AT_ONCE"]]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(12.0)
    assert {names["first"], names["second"], names["third"]} == {0, 2, 3}  # those that were good


def check_wrong_prior(names: Names) -> None:
    best = 30 * expected_best(stats.beta(2, 6), 3)
    for belief in ("right", "too hopeful"):
        prior = names["BELIEFS"][belief]
        problem = names["Problem"].uniform(arms=3, horizon=30, prior=prior)
        policy = make_policy(problem, "deco")
        exact = best - played(policy, believing(2, 6), exchangeable=True).good
        regret, error = names["results"][belief]["deco"]
        assert regret == pytest.approx(exact, abs=4.5 * error)
    for name in ("deco", "fh-gittins", "thompson"):
        order = [names["results"][b][name][0] for b in ("right", "too hopeful", "sure and hopeful")]
        assert order == sorted(order)


def check_dask_cluster(names: Names) -> None:
    """The same cells, computed here."""
    Path("cells").mkdir()
    Path("study.toml").write_text(names["STUDY"], encoding="utf-8")
    run_study(load_study("study.toml"), Path("cells"))
    here = names["rows_of"](names["collect_folder"](Path("cells")).finished)
    assert here == names["results"]
    assert (names["first"].computed, names["again"].computed, names["again"].skipped) == (12, 0, 12)
    assert not names["out"].exists()


def check_live_trial(names: Names) -> None:
    results = names["results"]
    export, status = results["export"], results["status"]
    assert results["replay"].ok
    assert verify_export(export).ok
    # the last word on every allocation, read from the log by hand
    asked: dict[str, str] = {}
    last: dict[str, int] = {}
    for event in export["events"]:
        data = event["data"]
        if event["kind"] == "asked":
            asked[data["allocation"]] = data["arm"]
        elif event["kind"] in ("told", "corrected"):
            last[data["allocation"]] = data["outcome"]
    for arm in status.arms:
        outcomes = [outcome for slot, outcome in last.items() if asked[slot] == arm.name]
        assert (arm.good, arm.good + arm.bad) == (sum(outcomes), len(outcomes))
    assert (len(last), status.earned) == (30, sum(last.values()))
    assert status.finished
    assert [sum(map(sum, results["path"].outcomes))] == [status.earned]
    tampered = next(event for event in export["events"] if event["kind"] == "told")
    tampered["body"] = tampered["body"].replace('"outcome":1', '"outcome":0')
    assert not verify_export(export).ok


def check_reading_the_gap(names: Names) -> None:
    found, bound = names["results"]["deco"], names["solution"].upper_bound
    again = played(names["deco"], believing(1, 1), exchangeable=True)
    assert bound - again.good == pytest.approx(found.shortfall + found.congestion, abs=1e-6)
    for each in names["results"].values():
        assert each.gap == pytest.approx(each.shortfall + each.congestion, abs=1e-6)
    assert names["losses"].mean() == pytest.approx(found.gap, abs=4.5 * names["error"])
    assert names["both"] == 0


def check_three_arm_design(names: Names) -> None:
    found, problem = names["characteristics"], names["problem"]
    null, one, _ = found.scenarios
    for level, row in zip(found.calibration, null.policies, strict=True):
        assert row.reject == pytest.approx(level.type_one_error, abs=1e-12)
        # on fresh draws: more errors than alpha would make only once in a thousand times
        assert stats.binom.sf(round(2000 * row.reject) - 1, 2000, 0.05) > 0.001
        assert row.select_best is None
    for row in one.policies:
        assert sum(row.pulls) == pytest.approx(row.size)
        # all outcomes are drawn with the same probability whenever they are: Wald's identity
        expected = sum(n * p for n, p in zip(row.pulls, one.truth, strict=True))
        assert row.good == pytest.approx(expected, abs=4.5 * (problem.horizon * 0.25 / 2000) ** 0.5)
    assert one.policies[0].best_share > one.policies[2].best_share


def check_other_outcomes(names: Names) -> None:
    problem, solution, values = names["problem"], names["solution"], names["values"]
    # the prior means of the arms, by hand: equal allocation earns ten of each
    assert values["equal"] == pytest.approx(
        10 * (5 / 7 + 0.8 + 0.8), abs=4.5 * names["errors"]["equal"]
    )
    again = simulate(problem, "deco", draws=1500, solution=solution, rng=5).results[0]
    error = np.hypot(again.value_se, names["errors"]["deco"])
    assert again.value == pytest.approx(values["deco"], abs=4.5 * error)
    assert max(values.values()) <= solution.upper_bound + 4.5 * names["errors"]["deco"]
    c, m, n = names["recommendation"].arms
    assert c.expected_reward == pytest.approx((3 * 1 + 3 * 2) / 11)
    assert m.expected_reward == pytest.approx((4 * 0.8 + 1.9) / 6)
    assert n.expected_reward == pytest.approx(6.6 / 5)


def check_segments(names: Names) -> None:
    for share, bounds, value in zip(names["shares"], names["bounds"], names["values"], strict=True):
        assert value.value <= bounds.own_clock_bound <= bounds.upper_bound
        assert value.value == pytest.approx(value["EU"].value + value["US"].value)
        # by hand: with the old arm alone every visitor earns .3
        assert value.value > 0.3 * 60
        assert bounds["EU"].problem.survival.sum() == pytest.approx(60 * share)


CHECKS: dict[str, Callable[[Names], None]] = {
    "plot_ab_test": check_ab_test,
    "plot_batches": check_batches,
    "plot_clinical_trial": check_clinical_trial,
    "plot_dask_cluster": check_dask_cluster,
    "plot_deployment": check_deployment,
    "plot_drift": check_drift,
    "plot_floors": check_floors,
    "plot_judgements": check_judgements,
    "plot_platform_trial": check_platform_trial,
    "plot_budget": check_budget,
    "plot_resources": check_resources,
    "plot_machine_repair": check_machine_repair,
    "plot_health_calls": check_health_calls,
    "plot_random_end": check_random_end,
    "plot_segments": check_segments,
    "plot_shortlist": check_shortlist,
    "plot_event_counts": kind_examples.check_event_counts,
    "plot_hourly_batches": check_hourly_batches,
    "plot_live_trial": check_live_trial,
    "plot_measurements": kind_examples.check_measurements,
    "plot_ordinal_endpoint": kind_examples.check_ordinal_endpoint,
    "plot_other_outcomes": check_other_outcomes,
    "plot_own_arm": kind_examples.check_own_arm,
    "plot_reading_the_gap": check_reading_the_gap,
    "plot_seasons": check_seasons,
    "plot_three_arm_design": check_three_arm_design,
    "plot_wrong_prior": check_wrong_prior,
}


# -- the tests ----------------------------------------------------------------------------------


def test_every_example_is_checked() -> None:
    assert sorted(CHECKS) == FILES


@pytest.mark.parametrize("name", FILES)
def test_example_runs_and_tells_the_truth(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())  # an example cleans up behind itself
    assert isinstance(names["figure"], Figure)
    names["figure"].savefig(tmp_path / "figure.png")
    plt.close("all")
    CHECKS[name](names)


@pytest.mark.parametrize("name", FILES)
def test_example_has_the_form_of_the_gallery(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    _, title, line, *_ = (ast.get_docstring(ast.parse(text), clean=False) or "").split("\n")
    assert line == "=" * len(title)
    assert "\n# What to try next\n# -----" in text
    assert 40 <= len(text.splitlines()) <= 120
