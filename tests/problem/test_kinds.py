"""Kinds of arms in problems: files, refusals, groups; their statistics against formulas."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    ProblemError,
    Reward,
    read_outcomes,
)
from decobandit.problem import (
    ArmModel,
    InvalidProblem,
    format_problem,
    model_of,
    problem_from_dict,
    problem_to_dict,
)
from helpers.refusals import refused

OWN = {
    "kind": "states",
    "first": "new",
    "states": {
        "new": {"mean": 0.5, "next": {"hit": [0.5, "up"], "miss": [0.5, "down"]}},
        "up": {"mean": 0.75, "next": {"hit": [0.75, "up"], "miss": [0.25, "down"]}},
        "down": {"mean": 0.25, "next": {"any": [1.0, "down"]}},
    },
}
TREE: dict[str, Any] = {
    "horizon": 3,
    "pulls_per_stage": 1,
    "arms": [
        {"name": "b", "prior": {"kind": "beta", "good": 1, "bad": 2}},
        {"name": "n", "prior": {"kind": "normal", "mean": 0, "sd": 1}, "noise_sd": 2, "count": 2},
        {
            "name": "c",
            "prior": {"kind": "categorical", "counts": [1, 1, 1]},
            "reward": {"values": [0, 1, 3]},
        },
        {"name": "g", "prior": {"kind": "gamma", "shape": 2, "rate": 1}, "reward": {"factor": 0.5}},
        {"name": "o", "prior": OWN},
    ],
}


def test_kinds_are_written_and_read_again() -> None:
    problem = problem_from_dict(TREE)
    assert problem_from_dict(problem_to_dict(problem)) == problem
    import tomllib

    assert problem_from_dict(tomllib.loads(format_problem(problem))) == problem
    assert [type(arm.prior) for arm in problem.arms] == [
        BetaBernoulli,
        NormalNormal,
        NormalNormal,
        DirichletCategorical,
        GammaPoisson,
        MarkovArm,
    ]
    assert [group.count for group in problem.groups] == [1, 2, 1, 1, 1]


def test_good_and_bad_outcomes_are_written_as_ever() -> None:
    assert problem_to_dict(problem_from_dict(TREE))["arms"][0] == {
        "name": "b",
        "prior": {"good": 1.0, "bad": 2.0},
        "reward": {"good": 1.0, "bad": 0.0},
    }


@pytest.mark.parametrize(
    ("arm", "change", "message"),
    [
        (
            1,
            {"noise_sd": None},
            "arms[1].noise_sd: null is not allowed; must be given with a normal",
        ),
        (0, {"noise_sd": 1}, "arms[0].noise_sd: 1.0 is not allowed; must be left out unless"),
        (
            1,
            {"prior": {"kind": "normal", "mean": 0, "sd": 0}},
            "arms[1].prior.sd: 0 is not allowed",
        ),
        (1, {"prior": {"kind": "normal", "mean": 0}}, "arms[1].prior.sd: required key is missing"),
        (
            1,
            {"prior": {"kind": "cauchy"}},
            'arms[1].prior.kind: "cauchy" is not allowed; must be one',
        ),
        (
            1,
            {"prior": {"kind": "normal", "mean": 0, "sd": 1, "var": 2}},
            "arms[1].prior.var: 2 is not allowed; must be left out: the keys are kind, mean, sd",
        ),
        (1, {"reward": {"good": 2}}, "arms[1].reward: a table is not allowed; must have a factor"),
        (
            0,
            {"reward": {"factor": 2}},
            "arms[0].reward: a table is not allowed; must have good and",
        ),
        (
            2,
            {"reward": {"values": [1, 2]}},
            "arms[2].reward.values: a list of 2 is not allowed; must",
        ),
        (2, {"reward": None}, "arms[2].reward.values: null is not allowed; must be 3 numbers"),
        (2, {"prior": {"kind": "categorical", "counts": [1]}}, "arms[2].prior.counts: a list of 1"),
        (
            3,
            {"reward": {"values": [1]}},
            "arms[3].reward.values: a list of 1 is not allowed; must be",
        ),
        (3, {"reward": {"factor": [1, 2]}}, "arms[3].reward.factor: a list of 2 is not allowed"),
        (
            3,
            {"terminal": [[0.0]]},
            "arms[3].terminal: a list of 1 is not allowed; must be left out",
        ),
        (
            4,
            {"prior": OWN | {"first": "x"}},
            'arms[4].prior.first: "x" is not allowed; must be one of',
        ),
    ],
)
def test_refusals_name_the_key_the_value_and_the_rule(
    arm: int, change: dict[str, Any], message: str
) -> None:
    arms = [dict(each) for each in TREE["arms"]]
    arms[arm] |= change
    with pytest.raises(ProblemError) as refused:
        problem_from_dict(TREE | {"arms": arms})
    assert str(refused.value).startswith(f"<dict>: {message}")


def test_chances_of_own_states_sum_to_one() -> None:
    with refused("invalid_problem", "states.a.next", kind=InvalidProblem):
        MarkovArm(first="a", states={"a": {"mean": 0, "next": {"x": (0.9, "a")}}})


def test_what_is_not_there_for_a_kind_yet_says_so() -> None:
    group = problem_from_dict(TREE).groups[1]
    with refused("invalid_argument"):
        assert group.alpha


KINDS = [model_of(arm) for arm in problem_from_dict(TREE).arms]


@pytest.mark.parametrize("kind", KINDS[:5])
def test_draws_have_the_mean_and_sd_that_statistics_say(kind: ArmModel) -> None:
    rng = np.random.default_rng(2)
    stats = np.array(kind.initial(), dtype=float)
    for _ in range(4):
        parameters = kind.sample(stats, rng)
        stats = kind.update(stats, kind.sample_outcome(parameters, stats, rng))
    assert kind.pulls(stats) == 4
    drawn = kind.mean_at(kind.sample(np.tile(stats, (20_000, 1)), rng))
    error = float(kind.sd(stats)) / np.sqrt(20_000)
    assert drawn.mean() == pytest.approx(float(kind.mean(stats)), abs=5 * error)
    assert drawn.std() == pytest.approx(float(kind.sd(stats)), rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_kept_by_what_is_observed(kind: ArmModel) -> None:
    """E of the value of an outcome is the mean, and but for own states E of the next mean is."""
    rng = np.random.default_rng(3)
    stats = np.tile(np.array(kind.initial(), dtype=float), (40_000, 1))
    outcomes = kind.sample_outcome(kind.sample(stats, rng), stats, rng)
    mean = float(kind.mean(stats[0]))
    values = kind.value(stats, outcomes)
    assert values.mean() == pytest.approx(mean, abs=5 * max(values.std(), 1e-9) / 200)
    if kind.word != "own":
        following = kind.mean(kind.update(stats, outcomes))
        assert following.mean() == pytest.approx(mean, abs=5 * following.std() / 200)


@pytest.mark.parametrize(
    ("kind", "text", "stats"),
    [
        (KINDS[0], "3/5", (3, 2)),
        (KINDS[1], "-1.25/2", (2, -1.25)),
        (KINDS[3], "2+0+1", (2, 0, 1)),
        (KINDS[4], "7/3", (3, 7)),
        (KINDS[5], "up/2", (2, 1)),
    ],
)
def test_states_are_written_and_read(kind: ArmModel, text: str, stats: tuple[float, ...]) -> None:
    assert kind.format.read(text) == stats
    assert kind.format.write(stats) == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (KINDS[0], "5/3"),
        *((KINDS[1], text) for text in ("1.5", "1/0", "1/" + "9" * 400, "١/2", "1e300/2")),
        (KINDS[3], "1+2"),
        (KINDS[4], "1.5/2"),
        *((KINDS[5], text) for text in ("new/٢", "sideways/1")),
    ],
)
def test_states_that_cannot_be_are_refused(kind: ArmModel, text: str) -> None:
    with refused("invalid_argument"):
        kind.format.read(text)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (KINDS[0], "2"),
        *((KINDS[1], text) for text in ("nan", "٢", "1_0", "-1e101")),
        *((KINDS[3], text) for text in ("٢", "3")),
        *((KINDS[4], text) for text in ("٢", "-1", "9" * 400)),
        (KINDS[5], "any"),
    ],
)
def test_outcomes_are_checked_against_the_kind(kind: ArmModel, outcome: str) -> None:
    with refused("invalid_argument", "outcome"):
        kind.format.read_outcome(outcome, kind.initial())


@pytest.mark.parametrize(
    "truth", ["0.5+0.5", "0.5+0.5+x", "0.5+0.5+nan", "0.5+0.6+-0.1", [1, 1, 1]]
)
def test_a_truth_of_classes_is_chances_that_sum_to_one(truth: object) -> None:
    assert KINDS[3].format.read_truth("0.2+0.3+0.5") == (0.2, 0.3, 0.5)
    with refused("invalid_argument"):
        KINDS[3].format.read_truth(truth)


def test_outcomes_of_own_states_are_none_but_theirs() -> None:
    """Three outcomes in one state, two in the other, whose chances sum to a little less than 1."""
    table = MarkovArm(
        first="a",
        states={
            "a": {"mean": 0, "next": {"x": (0.2, "a"), "y": (0.3, "a"), "z": (0.5, "b")}},
            "b": {"mean": 1, "next": {"x": (0.5, "a"), "y": (0.4999999995, "b")}},
        },
    )
    kind = model_of(Arm(name="own", prior=table))
    largest = np.nextafter(1.0, 0.0)
    stats = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert kind.from_stream(np.array([largest, largest]), stats).tolist() == [2, 1]
    assert kind.from_stream(np.array([0.1, 0.5]), stats).tolist() == [0, 1]


def test_equal_arms_of_any_kind() -> None:
    problem = Problem.uniform(arms=2, horizon=4, prior=NormalNormal(1, 2), noise_sd=3)
    assert problem.arms[1] == Arm(name="arm-2", prior=NormalNormal(1, 2), noise_sd=3)
    assert problem.arms[0].reward == Reward()


def test_outcomes_in_a_file_are_read_by_kind(tmp_path: Path) -> None:
    lines = [
        "arm,outcome",
        "n-1,0.5",
        "n-1,-1.25",
        "c,2",
        "c,0",
        "g,3",
        "o,hit",
        "o,miss",
        "b,good",
    ]
    (tmp_path / "seen.csv").write_text("\n".join(lines), encoding="utf-8")
    problem = problem_from_dict(TREE | {"horizon": 12})
    assert str(read_outcomes(problem, tmp_path / "seen.csv")) == "1/1,-0.75/2,0/0,1+0+1,3/1,down/2"
