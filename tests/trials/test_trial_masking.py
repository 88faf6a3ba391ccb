"""What masking cannot hide: the onlooker of benchmarks/masking.py, whose figures the page has."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import Problem

FILE = Path(__file__).parents[2] / "benchmarks" / "masking.py"
PAGE = Path(__file__).parents[2] / "docs" / "server.md"


@pytest.fixture(scope="module")
def masking() -> Any:
    spec = importlib.util.spec_from_file_location("masking", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["masking"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["masking"]


def stay_with_a_winner(counts: tuple[tuple[int, int], ...]) -> int:
    """Two arms, the other one after each bad outcome: the next arm tells the last outcome."""
    return sum(bad for _, bad in counts) % 2


def take_turns(counts: tuple[tuple[int, int], ...]) -> int:
    """Looks at no outcome: the next arm tells nothing."""
    return sum(map(sum, counts)) % 2


def test_who_sees_the_next_arm_of_a_rule_that_shows_each_outcome_knows_all(masking: Any) -> None:
    problem, rng = Problem.uniform(arms=2, horizon=6), np.random.default_rng(3)
    for _ in range(20):
        seen = list(masking.episode(problem, stay_with_a_winner, rng))
        assert [each.certain for each in seen] == [True] * 5 + [False]  # no arm follows the last
        assert all(each.guessed for each in seen[:5])


def test_who_sees_a_rule_that_looks_at_nothing_learns_nothing(masking: Any) -> None:
    problem, rng = Problem.uniform(arms=2, horizon=6), np.random.default_rng(3)
    right = []
    for _ in range(300):
        seen = list(masking.episode(problem, take_turns, rng))
        assert not any(each.certain for each in seen)
        right.append(seen[-1].guessed)
    # three pulls of each arm: all 16 sets of counts have the same probability
    assert np.mean(right) == pytest.approx(1 / 16, abs=4 * (1 / 16 * 15 / 16 / 300) ** 0.5)


def test_beliefs_are_those_of_all_outcomes_listed(masking: Any) -> None:
    """Brute force: every sequence of outcomes with its probability, kept if the arms agree."""
    problem = Problem.uniform(arms=2, horizon=4)
    choose = masking.chooser(problem, "deco-calibrated")
    fresh = ((0, 0), (0, 0))
    outcomes, arms, counts, beliefs = (1, 0, 1), [], fresh, {fresh: 1.0}
    for outcome in outcomes:
        arms.append(choose(counts))
        counts = masking.after(counts, arms[-1], bool(outcome))
        beliefs = masking.kept(masking.split(beliefs, arms[-1], problem), choose(counts), choose)
    arms.append(choose(counts))
    listed: dict[Any, float] = {}
    for number in range(8):
        now, chance = fresh, 1.0
        for stage in range(3):
            good = bool(number >> stage & 1)
            if choose(now) != arms[stage]:
                chance = 0.0
            g, b = now[arms[stage]]
            chance *= (1 + (g if good else b)) / (2 + g + b)
            now = masking.after(now, arms[stage], good)
        if choose(now) == arms[3] and chance:
            listed[now] = listed.get(now, 0.0) + chance
    total = sum(listed.values())
    assert beliefs == pytest.approx({state: weight / total for state, weight in listed.items()})


def test_the_page_names_the_script_and_its_figures() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "benchmarks/masking.py" in text
    assert "leader known" in text
