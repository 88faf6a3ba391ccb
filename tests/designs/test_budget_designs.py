"""Designs within a budget: money by all paths, rules that never overspend, refusals."""

from itertools import product

import numpy as np
import pytest

from decobandit import Arm, Design, Problem, State, make_policy, operating_characteristics
from decobandit.designs.playing import play
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
            arms = policy.select(stage, State(tuple(good), tuple(bad)))
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
    (row,) = operating_characteristics(PAID, design).scenarios[0].policies
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


def test_what_does_not_combine_is_refused() -> None:
    design = Design(policies=["greedy"], scenarios=[SCENARIO])
    with refused("unsupported", "exact"):
        operating_characteristics(PAID, design, exact=True)
    looks = Design(policies=["greedy"], stop={"superiority": 0.99}, scenarios=[SCENARIO])
    with refused("invalid_problem", "design.stop"):
        operating_characteristics(PAID, looks)
    with refused("invalid_problem", "design"):
        operating_characteristics(PAID.model_copy(update={"pulls_per_stage": 2}), design)
