"""Exact designs of classes, delays and batches of any kind: by enumeration, by good and bad."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from decobandit import Design, State, make_policy, operating_characteristics
from decobandit.designs import Characteristics
from decobandit.policies.allocation import mean_values
from decobandit.problem import (
    Arm,
    BernoulliModel,
    BetaBernoulli,
    CategoricalModel,
    DirichletCategorical,
    GammaPoisson,
    NormalModel,
    NormalNormal,
    Problem,
    Reward,
)
from decobandit.problem.models.base import ArmModel
from decobandit.problem.models.categorical import compositions
from helpers.refusals import refused

TWO = Reward(values=[0, 1])
NUMBERS = (
    "good",
    "good_sd",
    "pulls",
    "pulls_sd",
    "best_share",
    "select_best",
    "reject",
    "reject_by_arm",
    "size",
    "size_sd",
    "stopped",
    "stopped_by",
    "bias",
    "rmse",
)
LOOKS = {"looks": {"first": 4, "every": 2}, "stop": {"superiority": 0.93, "inferiority": 0.08}}
BATCH = {"pulls_per_stage": 4, "repeat": True, "unit": 2}


def found_in(
    problem: Problem, truth: list[Any], policy: str, exact: bool | None = None, **rules: Any
) -> Characteristics:
    rules = {"draws": 4000, **rules}
    design = Design(policies=[policy], scenarios=[{"name": "one", "truth": truth}], **rules)
    found = operating_characteristics(problem, design, exact=exact)
    return found.scenarios[0].policies[0]


def of_classes(priors: list[tuple[float, float]], **settings: Any) -> tuple[Problem, Problem]:
    """The same problem of classes worth 0 and 1, and of good and bad outcomes."""
    classes = [
        Arm(name=f"arm-{k}", prior=DirichletCategorical([b, a]), reward=TWO)
        for k, (a, b) in enumerate(priors)
    ]
    binary = [Arm(name=f"arm-{k}", prior=BetaBernoulli(a, b)) for k, (a, b) in enumerate(priors)]
    return Problem(arms=classes, **settings), Problem(arms=binary, **settings)


@pytest.mark.parametrize(
    ("policy", "settings", "rules"),
    [
        ("equal", {"horizon": 14}, {"control": "arm-0", **LOOKS}),
        ("greedy", {"horizon": 14}, {"burn_in": 2, "floor": 0.1, **LOOKS}),
        ("fh-gittins", {"horizon": 10}, {"control": "arm-0", "control_share": 0.3}),
        ("greedy", {"horizon": 9}, {"delay": 2, "control": "arm-1", "margin": 0.05, **LOOKS}),
        ("fh-gittins", {"horizon": 8}, {"delay": 3}),
        ("greedy", {"horizon": 4, **BATCH}, {"delay": 1, "burn_in": 2}),
        ("equal", {"horizon": 4, **BATCH}, {"control": "arm-0", **LOOKS}),
    ],
)
def test_two_classes_are_good_and_bad_outcomes(
    policy: str, settings: dict[str, Any], rules: dict[str, Any]
) -> None:
    classes, binary = of_classes([(2.0, 3.0), (1.0, 1.5)], **settings)
    one = found_in(classes, [[0.7, 0.3], [0.45, 0.55]], policy, **rules)
    two = found_in(binary, [0.3, 0.55], policy, **rules)
    assert one.exact
    assert two.exact
    for name in NUMBERS:
        assert getattr(one, name) == pytest.approx(getattr(two, name), abs=1e-9), name


def test_three_arms_of_classes_drop_arms_as_good_and_bad_ones_do() -> None:
    classes, binary = of_classes([(1.0, 1.2), (1.1, 1.0), (1.0, 1.0)], horizon=7)
    one = found_in(classes, [[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]], "greedy", **LOOKS)
    two = found_in(binary, [0.3, 0.6, 0.5], "greedy", **LOOKS)
    assert one.exact
    for name in NUMBERS:
        assert getattr(one, name) == pytest.approx(getattr(two, name), abs=1e-9), name


@pytest.mark.parametrize("policy", ["greedy", "fh-gittins", "deco"])
def test_three_classes_are_followed_as_all_sequences_of_outcomes_go(policy: str) -> None:
    values, horizon = (0.0, 1.0, 2.5), 5
    worth = Reward(values=values)
    arms = [
        Arm(name="a", prior=DirichletCategorical([2, 1, 1]), reward=worth),
        Arm(name="b", prior=DirichletCategorical([1, 1, 0.5]), reward=worth),
    ]
    problem, truth = Problem(arms=arms, horizon=horizon), [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]
    found = found_in(problem, truth, policy)
    made = make_policy(problem, policy)
    mean, square, pulls, chosen = 0.0, 0.0, np.zeros(2), 0.0
    for sequence in product(range(3), repeat=horizon):
        seen, chance, reward = np.zeros((2, 3), int), 1.0, 0.0
        for outcome in sequence:
            text = ",".join("+".join(map(str, own)) for own in seen)
            (arm,) = made.choose(State.parse(text, problem))
            chance *= truth[arm][outcome]
            reward += values[outcome]
            seen[arm, outcome] += 1
        prior = np.array([arm.prior.counts for arm in arms])
        known = (prior + seen) @ values / (prior + seen).sum(axis=1)
        mean, square = mean + chance * reward, square + chance * reward**2
        pulls += chance * seen.sum(axis=1)
        chosen += chance * (float(known[1] > known[0]) + 0.5 * float(known[1] == known[0]))
    assert found.exact
    assert found.good == pytest.approx(mean, abs=1e-10)
    assert found.good_sd == pytest.approx(np.sqrt(square - mean**2), abs=1e-9)
    assert found.pulls == pytest.approx(tuple(pulls), abs=1e-10)
    assert found.select_best == pytest.approx(chosen, abs=1e-9)


def test_simulated_designs_of_classes_agree_with_exact_ones() -> None:
    classes, _ = of_classes([(1.0, 1.0), (1.0, 1.0)], horizon=12)
    rules = {"delay": 2, "control": "arm-0", **LOOKS}
    truth = [[0.7, 0.3], [0.3, 0.7]]
    exact, drawn = (found_in(classes, truth, "greedy", way, **rules) for way in (True, False))
    assert drawn.errors is not None
    for name in ("good", "reject", "size", "stopped", "select_best"):
        room = 4.5 * float(str(drawn.errors[name]))
        assert getattr(drawn, name) == pytest.approx(getattr(exact, name), abs=room), name


# -- pending outcomes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (CategoricalModel((1.0, 0.5, 2.0), (0.0, 1.0, 3.0)), (2, 0, 1)),
        (BernoulliModel(2.0, 1.5), (3, 1)),
    ],
)
def test_what_may_be_known_is_what_one_outcome_after_another_leads_to(
    kind: Any, known: tuple[float, ...]
) -> None:
    chances, later = kind.ahead(np.array([known], dtype=float), 3, 1000)
    slow = ArmModel.ahead(kind, np.array([known], dtype=float), 3, 100_000)
    expected = {tuple(row): p for p, row in zip(slow[0][0], slow[1][0].tolist(), strict=True)}
    found = {tuple(row): p for p, row in zip(chances[0], later[0].tolist(), strict=True)}
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-11)


def test_pending_measurements_have_the_moments_of_their_law() -> None:
    kind = NormalModel(0.5, 2.0, 1.5)
    known, pending = np.array([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]]), np.array([3, 2, 0])
    mean = mean_values(kind, kind.mean, known, pending)
    assert mean == pytest.approx(kind.mean(known), abs=1e-12)
    square = mean_values(kind, lambda own: kind.mean(own) ** 2, known, pending)
    # the variance that three more measurements take from the mean's
    later = np.column_stack([known[:, 0] + pending, known[:, 1]])
    spread = kind.sd(known) ** 2 - kind.sd(later) ** 2
    assert square == pytest.approx(kind.mean(known) ** 2 + spread, abs=1e-10)


def test_compositions_are_all_of_them() -> None:
    found = compositions(4, 3)
    assert sorted(map(tuple, found.tolist())) == sorted(
        each for each in product(range(5), repeat=3) if sum(each) == 4
    )


def test_too_many_pending_classes_are_refused_with_their_number() -> None:
    kind = CategoricalModel((1.0,) * 6, tuple(map(float, range(6))))
    with refused("unsupported"):
        mean_values(kind, kind.mean, np.zeros((1, 6)), np.array([30]))


# -- measurements and counts --------------------------------------------------------------------


def test_a_delay_of_measurements_holds_the_policy_back() -> None:
    """Nothing is known before the last stage: greedy pulls in order, and the means are those."""
    arms = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1) for name in "ab"]
    problem = Problem(arms=arms, horizon=12)
    late = found_in(problem, [0.0, 1.0], "greedy", delay=12)
    assert late.pulls == pytest.approx((6.0, 6.0))
    assert late.errors is not None
    assert late.good == pytest.approx(6.0, abs=4.5 * float(str(late.errors["good"])))
    early = found_in(problem, [0.0, 1.0], "greedy")
    some = found_in(problem, [0.0, 1.0], "greedy", delay=4)
    assert early.good > some.good > late.good


def test_batches_of_counts_are_looked_at_and_end_when_one_is_better() -> None:
    arms = [Arm(name=name, prior=GammaPoisson(2, 1)) for name in "ab"]
    problem = Problem(arms=arms, horizon=5, pulls_per_stage=10, repeat=True)
    rules = {"control": "a", "looks": {"first": 10, "every": 10}, "stop": {"superiority": 0.99}}
    found = found_in(problem, [1.0, 2.0], "equal", **rules)
    known = np.random.default_rng(5)
    sums, over = np.zeros((4000, 2)), np.zeros(4000, bool)
    size = np.zeros(4000)
    for _ in range(5):
        sums += known.poisson([5.0, 10.0], (4000, 2))
        size += 10 * ~over
        # P(X > Y) of two gammas of the same rate is a beta tail
        better = stats.beta.sf(0.5, 2 + sums[:, 1], 2 + sums[:, 0])
        over |= better >= 0.99
    power = over.mean()
    assert found.reject == pytest.approx(power, abs=4.5 * np.sqrt(0.5 / 4000))
    assert found.size == pytest.approx(size.mean(), abs=4.5 * 15 * np.sqrt(2 / 4000))
