"""Bounds played without tables: every pull of every episode is that of the formula."""

import math
from collections import defaultdict
from typing import Any

import pytest

from decobandit import Problem, Reward, Terminal, simulate

Row = dict[str, Any]
ARMS, HORIZON = 4, 60
PROBLEMS = {
    "plain": Problem.uniform(arms=ARMS, horizon=HORIZON),
    "scaled, deployed": Problem.uniform(
        arms=ARMS, horizon=HORIZON, reward=Reward(good=-1.0, bad=-3.5), terminal=Terminal(deploy=9)
    ),
}


def ucb1(t: int, n: int, g: int) -> float:
    return g / n + math.sqrt(2.0 * math.log(t) / n)


def moss(t: int, n: int, g: int) -> float:
    return g / n + math.sqrt(max(0.0, math.log(HORIZON / (ARMS * n))) / n)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("formula", [ucb1, moss], ids=lambda each: each.__name__)
@pytest.mark.parametrize("ties", ["least-pulled", "last"])
def test_episodes_pull_the_largest_bound(name: str, formula: Any, ties: Any) -> None:
    found = simulate(
        PROBLEMS[name], formula.__name__, draws=7, per_draw=5, ties=ties, keep_episodes=True
    )  # 35 episodes: one group that is full, and one that is not
    episodes: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in found.to_frame("episodes").to_pylist():
        episodes[row["draw"], row["episode"]].append(row)
    assert len(episodes) == 35
    for rows in episodes.values():
        pulls, good = [0] * ARMS, [0] * ARMS
        for t, row in enumerate(rows[:HORIZON]):
            bounds = [formula(t, n, g) if n else math.inf for n, g in zip(pulls, good, strict=True)]
            tied = [a for a in range(ARMS) if bounds[a] >= max(bounds) - 1e-9]
            arm = max(tied) if ties == "last" else min((pulls[a], a) for a in tied)[1]
            assert row["arm"] == f"arm-{arm + 1}", (t, pulls, good)
            pulls[arm] += 1
            good[arm] += row["outcome"]


@pytest.mark.parametrize("name", ["ucb1", "moss"])
def test_long_episodes_need_no_table_of_all_states(name: str) -> None:
    # 3000 stages have 4.5 billion states
    found = simulate(Problem.uniform(arms=3, horizon=3000), name, draws=4, per_draw=1).results[0]
    assert found.steps == 12_000
