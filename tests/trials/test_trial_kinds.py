"""Trials of arms with any outcomes: what is recorded, decided, reported, and checked again."""

import json
from itertools import product
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from decobandit import make_policy, solve
from decobandit.problem import (
    Arm,
    ArmModel,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    ahead_of,
    load_problem,
    model_of,
    problem_from_dict,
    problem_to_dict,
    read_outcomes,
)
from decobandit.trials import (
    Trial,
    create_trial,
    open_store,
    open_trial,
    outcomes_csv,
    replay_export,
    verify_export,
)
from decobandit.trials.decisions import PendingState, decide
from decobandit.trials.errors import Damaged, OutOfRange, TrialError
from decobandit.trials.events import new_event
from decobandit.trials.ledger import Ledger
from decobandit.trials.report import arm_results
from decobandit.trials.report_text import trial_page
from helpers.program import deco
from helpers.refusals import refused

MACHINE = MarkovArm(
    first="new",
    states={
        "new": {"mean": 1.0, "next": {"fine": (0.75, "new"), "worn": (0.25, "old")}},
        "old": {"mean": 0.25, "next": {"fine": (1.0, "old")}},
    },
)
GRADES = Arm(name="grades", prior=DirichletCategorical([1, 2, 1]), reward=Reward(values=[0, 1, 3]))
LAB = Arm(name="lab", prior=NormalNormal(1.0, 0.5), noise_sd=2.0, reward=Reward(factor=0.5))
EVENTS = Arm(name="events", prior=GammaPoisson(3, 2))
CURE = Arm(name="cure", prior=BetaBernoulli(1.5, 1))
OWN = Arm(name="machine", prior=MACHINE)
MIXED = Problem(arms=[GRADES, LAB, EVENTS, CURE, OWN], horizon=10)
OUTCOMES: dict[str, Any] = {"grades": 2, "lab": -0.75, "events": 4, "cure": 1, "machine": "fine"}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(str(tmp_path / "trials.db")) as made:
        yield made


def played(trial: Trial, number: int) -> None:
    for _ in range(number):
        slot = trial.ask()
        trial.tell(slot.id, OUTCOMES[slot.arm])


@pytest.mark.parametrize("policy", ["deco", "fh-gittins", "greedy", "knowledge-gradient", "equal"])
def test_a_trial_of_mixed_kinds_is_logged_replayed_and_verified(store: Any, policy: str) -> None:
    trial = create_trial(MIXED, policy=policy, name="m", db=store, seed=1)
    played(trial, 6)
    pending = [trial.ask() for _ in range(3)]
    trial.cancel(pending[0].id, reason="left")
    found = trial.status()
    assert (found.told, len(found.open), found.cancelled) == (6, 2, 1)
    again = open_trial("m", db=store)
    assert again.status().to_dict() == found.to_dict()
    assert trial.verify().ok
    assert trial.replay().ok
    tree = json.loads(json.dumps(trial.export()))
    assert verify_export(tree).ok
    assert replay_export(tree).ok
    assert "nan" not in trial_page(trial.report())


def test_status_has_the_statistics_of_every_kind(store: Any) -> None:
    trial = create_trial(MIXED, policy="equal", db=store)
    played(trial, 10)
    said = {arm.name: (arm.good, arm.seen, arm.posterior) for arm in trial.status().arms}
    assert said == {
        "grades": (None, "0+0+2", "Dirichlet(1, 2, 3)"),
        "lab": (None, "-1.5/2", "N(0.8056, sd 0.4714)"),  # by hand: (16 x 1 - 1.5) / (16 + 2)
        "events": (None, "8/2", "Gamma(11, 4)"),
        "cure": (2, None, None),
        "machine": (None, "new/2", "new"),
    }
    # 2 x 3 + 0.5 x 2 x -0.75 + 8 + 2 x 1 + 2 x 1
    assert trial.status().earned == pytest.approx(17.25)


def test_csv_of_a_trial_is_read_as_the_state_that_it_is_in(store: Any, tmp_path: Path) -> None:
    trial = create_trial(MIXED, policy="equal", db=store)
    played(trial, 10)
    slot = next(s for s in trial.allocations() if s.arm == "lab")
    trial.correct(slot.id, -2.5e-3, reason="misread")
    file = tmp_path / "out.csv"
    file.write_text(outcomes_csv(trial.events()), encoding="utf-8")
    assert str(read_outcomes(MIXED, file)) == "0+0+2,-0.7525/2,8/2,2/2,new/2"
    assert "-0.75 to -0.0025" in trial_page(trial.report())


@pytest.mark.parametrize(
    ("arm", "given", "said"),
    [
        ("grades", 3, "must be the number of a class, 0 to 2"),
        ("grades", "good", "must be the number of a class, 0 to 2"),
        ("grades", True, "must be the number of a class, 0 to 2"),
        ("lab", "high", '^outcome "high"; must be a finite number'),
        ("lab", float("inf"), "must be a finite number"),
        ("lab", 1e308, r"1e\+308; must be .* at most 1e\+100 in size: sums of squares would"),
        ("events", -1, "must be a whole number, zero or more"),
        ("grades", "2", '^outcome "2"; must be the number of a class, 0 to 2'),
        ("lab", "1.5", "must be a finite number"),
        ("lab", True, "must be a finite number"),
        ("events", "4", '^outcome "4"; must be a whole number, zero or more'),
        ("events", 1.5, "must be a whole number, zero or more"),
        ("cure", 2, "must be good, bad, 1 or 0$"),
        ("cure", "1", "must be good, bad, 1 or 0, as a number, not as text"),
        ("machine", "broken", "must be fine or worn"),
    ],
)
def test_an_outcome_of_another_kind_is_refused(store: Any, arm: str, given: Any, said: str) -> None:
    trial = create_trial(MIXED, policy="equal", db=store)
    slots = {slot.arm: slot for slot in [trial.ask() for _ in range(5)]}
    with pytest.raises(TrialError, match=said):
        trial.tell(slots[arm].id, given)
    assert trial.status().told == 0


def test_repeated_requests_with_other_spellings_of_an_outcome_are_one(store: Any) -> None:
    trial = create_trial(Problem(arms=[LAB], horizon=3), policy="greedy", db=store)
    slot = trial.ask()
    told = trial.tell(slot.id, trial.typed(slot.id, " 1.50"), key="k")
    assert trial.tell(slot.id, np.float64(1.5), key="k") == told
    assert trial.tell(slot.id, 1.5).outcome == 1.5
    with refused("conflict", "outcome"):
        trial.tell(slot.id, 1.25)


def test_own_states_are_recorded_in_order(store: Any) -> None:
    trial = create_trial(Problem(arms=[OWN], horizon=4), policy="greedy", db=store)
    first, second = trial.ask(), trial.ask()
    with refused("invalid", "outcome"):
        trial.tell(second.id, "fine")
    trial.tell(first.id, "worn")
    with refused("invalid", "outcome"):
        trial.tell(second.id, "worn")
    trial.tell(second.id, "fine")
    assert trial.status().arms[0].seen == "old/2"
    assert trial.status().earned == pytest.approx(1.25)
    trial.correct(first.id, "fine", reason="misread")
    third = trial.ask()
    trial.tell(third.id, "worn")
    with refused("invalid", "outcome"):
        trial.correct(second.id, "worn", reason="misread")
    assert trial.status().arms[0].seen == "old/3"
    assert trial.replay().ok


def test_a_log_with_an_outcome_of_another_kind_is_damaged(store: Any) -> None:
    trial = create_trial(Problem(arms=[EVENTS], horizon=2), policy="greedy", db=store)
    slot = trial.ask()
    events = trial.events()
    ledger = Ledger(trial.id).extended(events)
    for outcome in (-1, 0.5, "2", True):
        data = {"allocation": slot.id, "outcome": outcome}
        forged = new_event(
            trial.id, 2, "told", data, previous=events[-1].hash, at=events[-1].at, by="x"
        )
        with pytest.raises(Damaged):
            ledger.extended([forged])


# -- pending outcomes ---------------------------------------------------------------------------


def test_states_ahead_of_classes_have_the_dirichlet_multinomial_law() -> None:
    kind = model_of(GRADES)
    ahead = ahead_of(kind, (1.0, 0.0, 2.0), 3, 100)
    assert ahead is not None
    law = stats.dirichlet_multinomial([2, 2, 3], 3)
    assert len(ahead[0]) == comb(5, 2)
    for chance, state in zip(*ahead, strict=True):
        assert chance == pytest.approx(law.pmf(state - np.array([1, 0, 2])), rel=1e-12)
    assert ahead_of(kind, (0.0, 0.0, 0.0), 30, 100) is None


def test_states_ahead_of_counts_are_mixed_poisson() -> None:
    ahead = ahead_of(model_of(EVENTS), (1, 4.0), 2, 1000)
    assert ahead is not None
    posterior = stats.gamma(3 + 4, scale=1 / (2 + 1))
    for k in (0, 3, 9):
        chance, _ = integrate.quad(
            lambda rate, k=k: stats.poisson.pmf(k, 2 * rate) * posterior.pdf(rate), 0, 40
        )
        (place,) = np.flatnonzero(ahead[1][:, 1] == 4 + k)
        assert ahead[0][place] == pytest.approx(chance, abs=1e-9)
    assert set(ahead[1][:, 0]) == {3.0}


def test_states_ahead_of_measurements_integrate_moments_exactly() -> None:
    kind = model_of(LAB)
    ahead = ahead_of(kind, (2, 3.0), 3, 1000)
    assert ahead is not None
    chances, states = ahead
    mean = (16 * 1.0 + 3.0) / 18  # the prior is worth 16 pulls
    variance = 3 * 4.0 + 9 * 4.0 / 18  # noise of three, and three times the mean
    sums = states[:, 1] - 3.0
    assert chances @ sums == pytest.approx(3 * mean)
    assert chances @ (sums - 3 * mean) ** 2 == pytest.approx(variance)
    assert chances @ kind.mean(states) == pytest.approx(mean)  # a martingale


def test_own_states_ahead_are_those_of_all_paths() -> None:
    ahead = ahead_of(model_of(OWN), (0, 0), 3, 100)
    assert ahead is not None
    found = dict(zip(ahead[1][:, 1].tolist(), ahead[0], strict=True))
    assert found == pytest.approx({0.0: 0.75**3, 1.0: 1 - 0.75**3})


@pytest.mark.parametrize("kind", [model_of(arm) for arm in MIXED.arms], ids=lambda kind: kind.word)
def test_drawn_pending_outcomes_follow_the_law_of_those_listed(kind: ArmModel) -> None:
    rng = np.random.default_rng(3)
    ahead = ahead_of(kind, kind.initial(), 2, 1000)
    assert ahead is not None
    known = np.tile(np.array(kind.initial(), dtype=float), (4000, 1))
    drawn = kind.sample_total(kind.sample(known, rng), known, 2, rng)
    means = kind.mean(drawn)
    expected = ahead[0] @ kind.mean(ahead[1])
    spread = np.sqrt(ahead[0] @ (kind.mean(ahead[1]) - expected) ** 2)
    assert means.mean() == pytest.approx(expected, abs=4.5 * spread / np.sqrt(4000))
    assert means.std() == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("policy", ["deco", "fh-gittins", "greedy"])
def test_indices_are_averaged_over_pending_outcomes_as_brute_force_does(policy: str) -> None:
    other = GRADES.model_copy(update={"name": "b", "prior": DirichletCategorical([2, 1, 1])})
    problem = Problem(arms=[GRADES, other], horizon=6)
    made = make_policy(problem, policy)
    seen = State.parse("1+0+0,0+0+1", problem)
    pending = PendingState(seen, (2, 1), stage=5)
    found = decide(made, pending, None).index
    assert found is not None
    average = np.zeros(2)
    for first, second, third in product(range(3), repeat=3):  # outcomes one by one
        counts = np.array([[1, 0, 0], [0, 0, 1]], dtype=float)
        priors, chance = np.array([[1, 2, 1], [2, 1, 1]], dtype=float), 1.0
        for arm, outcome in ((0, first), (0, second), (1, third)):
            weight = priors[arm] + counts[arm]
            chance *= weight[outcome] / weight.sum()
            counts[arm, outcome] += 1
        state = State.of_stats(problem, [tuple(own) for own in counts])
        indices = made.indices(5, state)
        assert indices is not None
        average += chance * indices
    assert found == pytest.approx(tuple(average), abs=1e-12)


def test_bound_from_here_is_the_dual_function_at_the_start_and_exact_at_the_end(store: Any) -> None:
    problem = MIXED.model_copy(update={"horizon": 5, "terminal": Terminal(deploy=3)})
    trial = create_trial(problem, policy="deco", db=store)
    solution = solve(problem)
    first = trial.status()
    assert first.upper_bound == pytest.approx(solution.upper_bound, rel=1e-9)
    # on the grid of the tables: no stage is cut short there
    assert first.bound_from_here == pytest.approx(solution.upper_bound, rel=1e-6)
    played(trial, 5)
    last = trial.status()
    means = [float(kind.mean(np.array(own))) for kind, own in _known(trial)]
    assert last.bound_from_here == pytest.approx(3 * max(means))
    assert last.deployment == problem.arms[int(np.argmax(means))].name


def _known(trial: Trial) -> list[tuple[ArmModel, Any]]:
    state = State.parse(
        ",".join(arm.seen or f"{arm.good}/{arm.good + arm.bad}" for arm in trial.status().arms),  # type: ignore[operator]
        trial.problem,
    )
    return list(zip(trial.kinds.values(), state.stats, strict=True))


# -- report -------------------------------------------------------------------------------------


def test_report_of_normal_arms_against_closed_forms(store: Any) -> None:
    arms = [LAB.model_copy(update={"name": name}) for name in ("control", "new")]
    trial = create_trial(Problem(arms=arms, horizon=8), policy="equal", db=store)
    for i in range(8):
        slot = trial.ask()
        trial.tell(slot.id, float(i))
    control, new = arm_results(Ledger(trial.id).extended(trial.events()), 0)
    means = [(16 + x) / 20 for x in (0 + 2 + 4 + 6, 1 + 3 + 5 + 7)]
    sd = 2 / np.sqrt(20)
    assert control.posterior_mean == pytest.approx(means[0])
    assert control.credible_interval == pytest.approx(stats.norm.interval(0.95, means[0], sd))
    assert control.rate == pytest.approx(3.0)
    assert control.effective_sample_size == pytest.approx(16.0)
    expected = stats.norm.cdf((means[1] - means[0]) / (sd * np.sqrt(2)))
    assert new.better_than_control == pytest.approx(expected, abs=2e-4)
    assert new.best == pytest.approx(expected, abs=2e-4)
    assert control.better_than_control is None
    factor = LAB.reward.factor  # type: ignore[union-attr]
    law = stats.norm(factor * (means[1] - means[0]), factor * sd * np.sqrt(2))
    assert new.uplift == pytest.approx(law.mean())
    assert new.uplift_interval == pytest.approx(law.interval(0.95), abs=1e-4 * law.std())


def test_chances_of_counts_against_an_integral(store: Any) -> None:
    arms = [
        EVENTS,
        Arm(name="b", prior=GammaPoisson(9, 3)),
        Arm(name="c", prior=GammaPoisson(60, 30)),
    ]
    trial = create_trial(Problem(arms=arms, horizon=3), policy="equal", db=store, bound=False)
    found = arm_results(Ledger(trial.id).extended(trial.events()), 0)
    laws = [stats.gamma(shape, scale=1 / rate) for shape, rate in ((3, 2), (9, 3), (60, 30))]
    for k, own in enumerate(laws):
        others = [law for law in laws if law is not own]
        chance, _ = integrate.quad(
            lambda x, own=own, others=others: own.pdf(x) * prod(law.cdf(x) for law in others),
            0,
            30,
            points=[1, 2, 3],
            limit=200,
        )
        assert found[k].best == pytest.approx(chance, abs=2e-4)


def test_classes_worth_0_and_1_are_reported_as_a_beta_posterior(store: Any) -> None:
    """Worth 0, 1, 1: the chance of the last two together is Beta(3 + 4, 2 + 1)."""
    arms = [
        Arm(name="a", prior=DirichletCategorical([2, 1, 2]), reward=Reward(values=[0, 1, 1])),
        Arm(name="b", prior=BetaBernoulli(4, 4)),
    ]
    trial = create_trial(Problem(arms=arms, horizon=9), policy="equal", db=store)
    outcomes = iter([1, 2, 0, 1, 2])
    for _ in range(9):
        slot = trial.ask()
        trial.tell(slot.id, next(outcomes) if slot.arm == "a" else 0)
    a, b = arm_results(Ledger(trial.id).extended(trial.events()), 1)
    first, second = stats.beta(3 + 4, 2 + 1), stats.beta(4, 4 + 4)
    assert a.posterior_mean == pytest.approx(first.mean())
    assert a.credible_interval == pytest.approx(first.interval(0.95), abs=0.01)
    chance, _ = integrate.quad(lambda p: first.pdf(p) * second.cdf(p), 0, 1)
    assert a.best == pytest.approx(chance, abs=1e-6)
    assert a.better_than_control == pytest.approx(a.best, abs=1e-12)
    assert (b.good, b.pulls, a.good) == (0, 4, None)


# -- plausible ranges -----------------------------------------------------------------------------

WEIGHT = {"prior": NormalNormal(mean=70, sd=10), "noise_sd": 5, "range": (30, 200)}


def test_an_outcome_outside_the_plausible_range_has_to_be_confirmed(tmp_path: Path) -> None:
    arms = [Arm(name="old", **WEIGHT), Arm(name="new", **WEIGHT | {"range": (-5, 200)})]
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem(horizon=6, arms=arms), policy="equal", db=store)
        slots = {slot.arm: slot for slot in (trial.ask(), trial.ask())}
        for outcome in (-1.5, 200.5, 700):
            with refused("out_of_range", "outcome", kind=OutOfRange):
                trial.tell(slots["old"].id, outcome)
        trial.tell(slots["new"].id, -1.5)
        trial.tell(slots["old"].id, 200.0)
        with pytest.raises(OutOfRange):
            trial.correct(slots["old"].id, 700, reason="scale")
        told = trial.correct(slots["old"].id, 700, reason="scale", key="k", confirm_range=True)
        assert trial.correct(slots["old"].id, 700, reason="scale", key="k") == told
        noted = [event.data.get("out_of_range") for event in trial.events()]
        assert noted == [None] * 5 + [True]
        assert trial.verify().ok
        assert trial.replay().ok
        assert verify_export(trial.export()).ok


def test_outcomes_of_a_batch_outside_the_plausible_range_have_to_be_confirmed(
    tmp_path: Path,
) -> None:
    arm = Arm(name="falls", prior=GammaPoisson(shape=4, rate=2), range=(0, 20))
    problem = Problem(
        horizon=3, pulls_per_stage=4, repeat=True, arms=[arm, arm.model_copy(update={"name": "b"})]
    )
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="equal", db=store)
        batch = trial.ask()
        with refused("out_of_range", "outcome", kind=OutOfRange):
            trial.tell(batch.id, [("falls", 1), ("falls", 21)])
        with refused("out_of_range", "outcome", kind=OutOfRange):
            trial.tell(batch.id, {"b": "41/2"})
        trial.tell(batch.id, {"falls": "40/2"})
        trial.tell(batch.id, {"b": "41/2"}, confirm_range=True)
        assert [event.data.get("out_of_range") for event in trial.events()[2:]] == [None, True]
        assert trial.verify().ok


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"range": (0, 1)}, "outcomes are numbers"),
        (WEIGHT | {"range": (5, 5)}, "in this order"),
        (WEIGHT | {"range": (5,)}, "range"),
        (WEIGHT | {"range": (0, float("nan"))}, "finite"),
    ],
)
def test_a_range_is_two_numbers_of_measurements_or_counts(more: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Arm(name="a", **more)


def test_the_range_is_in_files_requests_and_the_command_line(tmp_path: Path) -> None:
    file, db = tmp_path / "p.toml", ("--db", tmp_path / "t.db")
    file.write_text(
        'horizon = 4\n[[arms]]\nname = "w"\ncount = 2\nnoise_sd = 5.0\nrange = [30, 200]\n'
        'prior = { kind = "normal", mean = 70.0, sd = 10.0 }\n'
    )
    problem = load_problem(file)
    assert problem.arms[1].range == (30, 200)
    assert problem_from_dict(problem_to_dict(problem)) == problem
    assert deco("trial", "new", file, "--policy", "equal", "--name", "p", *db).code == 0
    slot = deco("trial", "ask", "p", *db, "--json").json["id"]
    refused = deco("trial", "tell", "p", slot, "700", *db)
    assert refused.code == 2
    assert "--confirm-range" in refused.err
    assert deco("trial", "tell", "p", slot, "700", "--confirm-range", *db).code == 0
