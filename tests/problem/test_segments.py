"""Segments of a problem: files, own clocks, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.helpers.refusals import refused

from decobandit import (
    Arm,
    BetaBernoulli,
    Chain,
    GammaExponential,
    NormalNormal,
    Problem,
    RandomHorizon,
    Reward,
    Segment,
    load_problem,
    save_problem,
)
from decobandit.problem import designed_from_dict

HALVES = (Segment("EU", 0.5), Segment("US", 0.5))
TWO = (Segment("EU", 0.3), Segment("New York", 0.7))


def site(horizon: Any = 12, segments: Any = TWO, **settings: Any) -> Problem:
    old = Arm(name="old", prior=BetaBernoulli(3, 2), priors={"New York": BetaBernoulli(30, 20)})
    return Problem(arms=[old, Arm(name="new")], horizon=horizon, segments=segments, **settings)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_files_keep_segments_and_priors(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"site{suffix}"
    save_problem(site(), path)
    assert load_problem(path) == site()


def test_the_keys_of_a_file() -> None:
    tree = {
        "horizon": 5,
        "segments": [{"name": "EU", "share": 0.6}, {"name": "US", "share": 0.4}],
        "arms": [{"name": "a", "count": 2, "priors": {"US": {"good": 3, "bad": 1}}}],
    }
    problem, _ = designed_from_dict(tree)
    assert problem.segment("EU").arms[1].prior == BetaBernoulli(1, 1)
    assert problem.segment("US").arms[1].prior == BetaBernoulli(3, 1)
    assert problem.segment("US").segments == ()


def test_a_clock_of_its_own() -> None:
    problem = site().segment("EU")
    law = binom(12, 0.3)
    np.testing.assert_allclose(problem.survival, law.sf(np.arange(12)), rtol=1e-12)
    long = site(horizon=400).segment("EU")
    assert long.horizon < 250
    assert sum(long.survival) == pytest.approx(120.0, abs=1e-9)


def test_visitors_up_to_a_random_end() -> None:
    ends = RandomHorizon(law="uniform", least=3, most=6)
    problem = site(horizon=ends).segment("EU")
    law = np.mean([binom(T, 0.3).sf(np.arange(6)) for T in (3, 4, 5, 6)], axis=0)
    np.testing.assert_allclose(problem.survival, law, rtol=1e-12)


@pytest.mark.parametrize("horizon", [7, RandomHorizon(law="uniform", least=2, most=5)])
def test_a_segment_of_everyone_is_the_problem(horizon: Any) -> None:
    problem = site(horizon=horizon, segments=(Segment("New York", 1.0),))
    arms = [Arm(name="old", prior=BetaBernoulli(30, 20)), Arm(name="new")]
    assert problem.segment("New York") == Problem(arms=arms, horizon=horizon)


def test_a_budget_is_split_by_shares() -> None:
    arms = [Arm(name="a", cost=1.0)]
    problem = Problem(arms=arms, horizon=9, budget=4.0, segments=TWO)
    assert problem.segment("EU").budget == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"segments": (Segment("EU", 0.3), Segment("New York", 0.6))}, "segments"),
        ({"segments": (Segment("New York", 0.3), Segment("new york", 0.7))}, "segments.1.name"),
        ({"segments": HALVES}, "arms.0.priors"),
        ({"segments": ()}, "arms.0.priors"),
        ({"repeat": True}, "repeat"),
        ({"terminal": {"deploy": 3.0}}, "terminal.deploy"),
        ({"resources": {"nurse": 1.0}}, "resources"),
    ],
)
def test_what_segments_do_not_go_with(settings: dict[str, Any], field: str) -> None:
    with refused("invalid_problem", field):
        site(**settings)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"available": [0, 2]}, "arms.0.available"),
        ({"reward": Reward(good=[1.0, 0.5, 0.2])}, "arms.0.reward.good"),
        ({"terminal": [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]}, "arms.0.terminal"),
        ({"prior": Chain([[1, 0], [0, 1]], [[1, 0], [0, 1]], [1, 0], [0, 1])}, "arms.0.prior"),
    ],
)
def test_what_has_no_meaning_on_a_clock_of_its_own(fields: dict[str, Any], field: str) -> None:
    with refused("invalid_problem", field):
        Problem(arms=[Arm(name="a", **fields), Arm(name="b")], horizon=3, segments=HALVES)


def test_costs_by_stage_are_refused() -> None:
    with refused("invalid_problem", "arms.0.cost"):
        Problem(arms=[Arm(name="a", cost=[1, 2, 3])], horizon=3, budget=4.0, segments=HALVES)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_shares_are_probabilities(share: float) -> None:
    with refused("invalid_problem", "share"):
        Segment("EU", share)


def test_priors_of_an_arm_are_of_one_kind() -> None:
    with refused("invalid_problem", "priors.EU.kind"):
        Arm(name="a", priors={"EU": NormalNormal(0, 1)})
    with refused("invalid_problem", "prior.shape"):
        Arm(name="a", prior=GammaExponential(2, 1), priors={"EU": GammaExponential(0.5, 1)})


def test_unknown_segments() -> None:
    with refused("invalid_argument", "segment"):
        site().segment("Asia")
    with refused("invalid_argument", "segment"):
        site().segment("EU").segment("EU")
