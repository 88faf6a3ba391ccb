"""Episodes that are kept: what their pulls add up to is what the simulation reports."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from decobandit import Arm, BetaBernoulli, NormalNormal, Problem, Terminal, read_outcomes, simulate
from decobandit.support import frame_of

SIZES = {"draws": 300, "per_draw": 2}
PROBLEMS = {
    "single": Problem.uniform(arms=3, horizon=5),
    "two per stage": Problem.uniform(arms=3, horizon=4, pulls_per_stage=2),
    "deployment": Problem.uniform(arms=2, horizon=3, terminal=Terminal(deploy=4.0)),
    "batches": Problem.uniform(arms=3, horizon=3, pulls_per_stage=6, repeat=True),
    "nearly certain": Problem.uniform(arms=2, horizon=4, prior=BetaBernoulli(0.01, 0.01)),
    "normal": Problem(
        arms=tuple(Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1) for name in "ab"), horizon=4
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_rewards_of_the_pulls_add_up_to_the_plain_estimate(name: str) -> None:
    problem = PROBLEMS[name]
    found = simulate(problem, ["greedy", "thompson"], keep_episodes=True, **SIZES)
    rows = found.to_frame("episodes").to_pylist()
    for result in found.results:
        own = [row for row in rows if row["policy"] == result.policy]
        plain = sum(row["weight"] * row["reward"] for row in own) / 600
        assert plain == pytest.approx(result.estimates.by_method["plain"].value, rel=1e-12)
        made = Counter((row["draw"], row["episode"], row["stage"]) for row in own)
        assert len(made) == 600 * problem.stages
        truths = defaultdict(set)
        for row in own:
            truths[row["draw"], row["arm"]].add(row["truth"])
        assert all(len(each) == 1 for each in truths.values())  # one truth per draw and arm
    if name == "nearly certain":
        assert len({row["weight"] for row in rows}) > 100
    if name == "deployment":
        ends = [row for row in rows if row["stage"] == problem.horizon]
        assert {row["outcome"] for row in ends} == {None}
        assert all(row["reward"] == pytest.approx(4.0 * row["truth"]) for row in ends)


def test_policies_meet_the_same_outcomes_of_an_arm() -> None:
    found = simulate(PROBLEMS["single"], ["greedy", "equal"], keep_episodes=True, **SIZES)
    seen: dict[tuple[int, int, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in found.to_frame("episodes").to_pylist():
        seen[row["draw"], row["episode"], row["arm"]][row["policy"]].append(row["outcome"])
    for each in seen.values():
        for one, two in zip(each["greedy"], each["equal"], strict=False):
            assert one == two


@pytest.mark.parametrize("name", ["single", "batches", "normal"])
def test_an_episode_can_be_read_back_as_outcomes(name: str) -> None:
    problem = PROBLEMS[name]
    columns = simulate(problem, "greedy", keep_episodes=True, **SIZES).tables()["episodes"]()
    first = (np.asarray(columns["draw"]) == 0) & (np.asarray(columns["episode"]) == 0)
    kept = {key: np.asarray(column)[first] for key, column in columns.items()}
    state = read_outcomes(problem, frame_of(kept, kind="polars"))
    state.check(problem)
    assert state.total == problem.horizon * problem.pulls_per_stage
    if name == "normal":
        assert sum(row[1] for row in state.rows) == pytest.approx(kept["outcome"].sum())
    else:
        assert sum(state.good) == kept["reward"].sum()


def test_the_same_pulls_for_any_number_of_workers() -> None:
    one, two = (
        simulate(PROBLEMS["single"], "thompson", keep_episodes=True, workers=n, **SIZES)
        for n in (1, 2)
    )
    assert one.to_frame("episodes").equals(two.to_frame("episodes"))
