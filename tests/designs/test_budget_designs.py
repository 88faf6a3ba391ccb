"""Designs within a budget: money by all paths, rules that never overspend, refusals."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from decobandit import Arm, Design, Problem, State, make_policy, operating_characteristics
from decobandit.designs.playing import Endings, follow, play
from decobandit.policies import RuledPolicy
from decobandit.problem import Rules
from helpers.refusals import refused

COSTS, TRUTH = (1.0, 2.0, 0.5), (0.3, 0.8, 0.5)
SCENARIO = {"name": "s", "truth": TRUTH}
ARMS = [Arm(name=name, cost=cost) for name, cost in zip("abc", COSTS, strict=True)]
PAID = Problem(horizon=6, arms=ARMS, budget=5.0)


def test_spending_is_that_of_all_paths() -> None:
    """Greedy without rules: every sequence of outcomes, with its probability."""
    policy, chances = make_policy(PAID, "greedy"), dict[float, float]()
    for outcomes in product((0, 1), repeat=6):
        good, bad, spent, chance = [0, 0, 0], [0, 0, 0], 0.0, 1.0
        for stage, y in enumerate(outcomes):
            arms = policy.select(stage, State.of_counts(tuple(good), tuple(bad)))
            if not arms:  # no pull: the outcome does not matter
                chance *= 0.5
                continue
            (good if y else bad)[arms[0]] += 1
            chance *= TRUTH[arms[0]] if y else 1 - TRUTH[arms[0]]
            spent += COSTS[arms[0]]
        chances[spent] = chances.get(spent, 0.0) + chance
    mean = sum(spent * chance for spent, chance in chances.items())
    square = sum(spent**2 * chance for spent, chance in chances.items())
    design = Design(policies=["greedy"], draws=20_000, seed=2, scenarios=[SCENARIO])
    (exact,) = operating_characteristics(PAID, design).scenarios[0].policies
    assert exact.exact
    assert exact.spent == pytest.approx(mean, rel=1e-12)
    assert exact.spent_sd == pytest.approx(np.sqrt(square - mean**2), rel=1e-9)
    below = [sum(p for x, p in chances.items() if x <= q + 1e-9) for q in exact.spent_quantiles]
    assert all(share >= level for share, level in zip(below, (0.05, 0.5, 0.95), strict=True))
    (row,) = operating_characteristics(PAID, design, exact=False).scenarios[0].policies
    assert not row.exact
    assert row.spent == pytest.approx(mean, abs=7 * np.sqrt((square - mean**2) / 20_000))
    assert row.spent_sd == pytest.approx(np.sqrt(square - mean**2), abs=0.05)
    assert row.spent_quantiles is not None
    assert row.spent_quantiles[-1] <= 5.0
    assert row.to_dict()["spent"] == row.spent


BATCH = Problem(horizon=5, arms=ARMS, budget=9.0, pulls_per_stage=4, repeat=True, unit=2)
RULES = {
    "none": {},
    "floor": {"floor": 0.2},
    "burn-in": {"burn_in": 2, "max_probability": 0.6},
    "control": {"control": "b", "control_share": 0.5, "delay": 2},
}


@pytest.mark.parametrize("problem", [PAID, BATCH], ids=["single", "batch"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", ["greedy", "deco", "equal", "thompson"])
def test_no_trial_overspends(name: str, rules: str, problem: Problem) -> None:
    if name == "thompson" and problem is BATCH:
        return
    ruled = RuledPolicy(make_policy(problem, name), Rules(**RULES[rules]))
    ends = play(ruled, TRUTH, 300, (1,))
    assert ends.spent is not None
    assert ends.spent == pytest.approx(ends.pulls @ np.array(COSTS), abs=1e-9)
    assert 0.0 < ends.spent.max() <= problem.budget * (1 + 1e-9)  # type: ignore[operator]
    assert ends.size.max() <= problem.horizon * problem.pulls_per_stage


def test_a_floor_is_met_while_money_lasts() -> None:
    rich = PAID.model_copy(update={"budget": 100.0})
    ruled = RuledPolicy(make_policy(rich, "greedy"), Rules(floor=0.2))
    share = play(ruled, TRUTH, 4000, (3,)).pulls.mean(axis=0) / 6
    assert share.min() > 0.18


def test_costs_by_stage_are_simulated() -> None:
    arms = [ARMS[0].model_copy(update={"cost": (1.0, 2.0)}), ARMS[1]]
    changing = Problem(horizon=2, arms=arms, budget=3.0)
    design = Design(policies=["greedy"], scenarios=[{"name": "s", "truth": TRUTH[:2]}], draws=100)
    assert not operating_characteristics(changing, design).scenarios[0].policies[0].exact
    with refused("unsupported", "exact"):
        operating_characteristics(changing, design, exact=True)


TWO = [Arm(name=name, cost=cost) for name, cost in zip("ab", COSTS, strict=False)]
LOOKS: dict[str, dict[str, Any]] = {
    "every outcome": {"stop": {"superiority": 0.9}},
    "late": {"stop": {"superiority": 0.9}, "looks": {"first": 3, "every": 2}, "delay": 1},
}
SHAPES = {
    "single": Problem(horizon=8, arms=TWO, budget=8.0),
    "three": Problem(horizon=8, arms=ARMS, budget=6.0),
    "batch": Problem(horizon=4, arms=TWO, budget=12.0, pulls_per_stage=4, repeat=True, unit=2),
    "several": Problem(horizon=6, arms=ARMS, budget=9.0, pulls_per_stage=2),
}


def summaries(ends: Endings) -> np.ndarray:
    """Size, money, pulls of the first arm, stopped: by ending."""
    assert ends.spent is not None
    columns = [ends.size, ends.spent, ends.pulls[:, 0], ends.reason > 0]
    return np.stack(columns, axis=1).astype(float)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("name", ["greedy", "equal"])
def test_looks_within_a_budget_are_simulated_as_they_are_followed(
    name: str, looks: str, shape: str
) -> None:
    """A trial that waits has no new outcome, and no look; stages of looks differ by trial."""
    problem = SHAPES[shape]
    truth = TRUTH[: problem.n_arms]
    ruled = RuledPolicy(make_policy(problem, name), Rules(**LOOKS[looks]))
    exact, drawn = follow(ruled, truth), play(ruled, truth, 20_000, (7,))
    values = summaries(exact)
    mean = exact.weight @ values
    error = np.sqrt(exact.weight @ (values - mean) ** 2 / 20_000)
    assert exact.weight.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.all(np.abs(summaries(drawn).mean(axis=0) - mean) <= 5 * error + 1e-9)
    assert exact.spent.max() <= problem.budget * (1 + 1e-9)  # type: ignore[operator,union-attr]


def test_a_look_stops_where_the_posterior_says_so() -> None:
    """Equal turns of two arms that cost 1 and 2: by hand, P(best) of counts by quadrature."""
    problem = Problem(horizon=6, arms=TWO, budget=9.0)
    ruled = RuledPolicy(make_policy(problem, "equal"), Rules(stop={"superiority": 0.9}))
    x = (np.arange(20_000) + 0.5) / 20_000
    stopped = 0.0

    def best(good: list[int], bad: list[int]) -> float:
        laws = [beta(1 + g, 1 + b) for g, b in zip(good, bad, strict=True)]
        first = float(np.mean(laws[0].pdf(x) * laws[1].cdf(x)))
        return max(first, 1.0 - first)

    for outcomes in product((0, 1), repeat=6):
        good, bad, chance = [0, 0], [0, 0], 1.0
        for n, y in enumerate(outcomes):
            (good if y else bad)[n % 2] += 1
            chance *= TRUTH[n % 2] if y else 1.0 - TRUTH[n % 2]
            if best(good, bad) >= 0.9 - 1e-6:
                stopped += chance / 2 ** (5 - n)  # later outcomes are all paths of this one
                break
    ends = follow(ruled, TRUTH[:2])
    assert float(ends.weight[ends.reason > 0].sum()) == pytest.approx(stopped, abs=1e-9)
