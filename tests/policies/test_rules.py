"""Rules around a policy: what each of them does to probabilities that are known by hand."""

from pathlib import Path

import numpy as np
import pytest

from decobandit import (
    Design,
    DirichletCategorical,
    Problem,
    Reward,
    make_policy,
    operating_characteristics,
)
from decobandit.figures.design_report import rule_facts
from decobandit.policies import RuledPolicy, rules_of
from decobandit.problem import InvalidProblem, Rules, State, States
from decobandit.trials import create_trial


def adjusted(
    rules: Rules, shares: list[float], dropped: tuple[int, ...] = (), arms: int = 3
) -> list[float]:
    """Shares of the arms after the rules; nothing is known but which arms were dropped."""
    problem = Problem.uniform(arms=arms, horizon=40)
    allowed = np.array([[arm not in dropped for arm in range(arms)]])
    states = States(problem, np.zeros((1, arms, 2)), None, allowed)
    found = np.array([shares])
    for rule in rules_of(rules, problem):
        found = rule.adjust(found, states)
    assert found.sum() == pytest.approx(1.0)
    return [round(float(share), 12) for share in found[0]]


def test_a_cap_moves_the_excess_in_proportion() -> None:
    assert adjusted(Rules(max_probability=0.5), [0.7, 0.2, 0.1]) == pytest.approx(
        [0.5, 0.5 * 2 / 3, 0.5 / 3]
    )
    assert adjusted(Rules(max_probability=0.5), [0.4, 0.4, 0.2]) == [0.4, 0.4, 0.2]
    # a sure policy has nothing in proportion to which the others could share: evenly
    assert adjusted(Rules(max_probability=0.6), [1.0, 0.0, 0.0]) == pytest.approx([0.6, 0.2, 0.2])
    # what goes to the second lifts it over the cap, too
    assert adjusted(Rules(max_probability=0.45), [0.6, 0.38, 0.02]) == pytest.approx(
        [0.45, 0.45, 0.1]
    )
    assert adjusted(Rules(max_probability=1 / 3), [1.0, 0.0, 0.0]) == pytest.approx([1 / 3] * 3)


def test_a_cap_beside_other_rules() -> None:
    # a floor comes first, and holds after the cap
    assert adjusted(Rules(floor=0.1, max_probability=0.5), [1.0, 0.0, 0.0]) == pytest.approx(
        [0.5, 0.25, 0.25]
    )
    # control keeps its share
    ruled = Rules(control="arm-1", control_share=0.3, max_probability=0.4)
    assert adjusted(ruled, [0.0, 1.0, 0.0]) == pytest.approx([0.3, 0.4, 0.3])
    # one arm was dropped: two cannot share with at most 0.4 each
    assert adjusted(Rules(max_probability=0.4), [1.0, 0.0, 0.0], dropped=(2,)) == [0.5, 0.5, 0.0]
    assert adjusted(Rules(max_probability=0.6), [1.0, 0.0, 0.0], dropped=(2,)) == [0.6, 0.4, 0.0]


@pytest.mark.parametrize(
    ("rules", "least"),
    [
        ({"max_probability": 0.3}, "0.3333"),
        ({"max_probability": 0.35, "control": "arm-1", "control_share": 0.1}, "0.45"),
        ({"max_probability": 0.5, "control": "arm-1", "control_share": 0.6}, "0.6"),
    ],
)
def test_a_cap_that_cannot_be_kept_is_refused(rules: dict[str, float], least: str) -> None:
    with pytest.raises(InvalidProblem, match=f"max_probability: .* must be at least {least}"):
        Design.model_validate(rules).check(Problem.uniform(arms=3, horizon=20))
    with pytest.raises(InvalidProblem, match="must be left out where a stage pulls several"):
        Design(max_probability=0.9).check(Problem.uniform(arms=3, horizon=20, pulls_per_stage=2))


PROBLEMS = {
    "binary": Problem.uniform(arms=2, horizon=4),
    "classes": Problem.uniform(
        arms=2, horizon=4, prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 0.5, 1])
    ),
}
TRUTHS = {"binary": (0.1, 0.8), "classes": ((0.6, 0.3, 0.1), (0.1, 0.2, 0.7))}


@pytest.mark.parametrize("model", PROBLEMS)
def test_an_exact_design_obeys_the_cap_as_a_simulated_one_does(model: str) -> None:
    problem = PROBLEMS[model]
    scenario = {"name": "one", "truth": TRUTHS[model]}
    design = Design(
        policies=["greedy"], max_probability=0.7, burn_in=1, draws=20_000, scenarios=[scenario]
    )
    exact, drawn = (
        operating_characteristics(problem, design, exact=exact).scenarios[0].policies[0]
        for exact in (True, False)
    )
    assert drawn.errors is not None
    assert exact.good == pytest.approx(drawn.good, abs=4.5 * float(str(drawn.errors["good"])))
    # one pull each, then two of which at most 0.7 of the pulls go to one arm
    assert max(exact.pulls) <= 1 + 2 * 0.7 + 1e-12
    free = Design(policies=["greedy"], burn_in=1, scenarios=[scenario])
    unruled = operating_characteristics(problem, free, exact=True).scenarios[0].policies[0]
    assert max(unruled.pulls) > max(exact.pulls)


def test_a_batch_and_a_trial_obey_the_cap(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=10, repeat=True)
    ruled = RuledPolicy(make_policy(problem, "greedy"), Rules(max_probability=0.8))
    given = ruled.allocate(State.parse("2/5,4/5"), rng=np.random.default_rng(1))
    assert given == (2, 8)
    assert ("Largest probability of an arm", "0.8") in rule_facts(Rules(max_probability=0.8))
    single = Problem.uniform(arms=2, horizon=150)
    first = single.arms[0].name
    rules = Rules(max_probability=0.6)
    trial = create_trial(
        single, policy="greedy", design=rules, seed=3, db=tmp_path / "a.db", bound=False
    )
    arms = []
    for _ in range(100):
        allocation = trial.ask()
        arms.append(allocation.arm)
        trial.tell(allocation.id, allocation.arm == first)
    assert 0.4 < arms.count(first) / 100 < 0.6 + 4.5 * np.sqrt(0.24 / 100)
