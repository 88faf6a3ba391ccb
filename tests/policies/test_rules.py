"""Rules around a policy: what each of them does to probabilities that are known by hand."""

import itertools
from fractions import Fraction
from functools import cache
from math import comb, factorial
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
from decobandit.policies import RuledPolicy
from decobandit.policies.rules import rules_of
from decobandit.problem import InvalidProblem, Rules, State, States
from decobandit.trials import create_trial
from helpers.refusals import refused


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


def test_an_additive_floor_leaves_the_rest_to_the_policy() -> None:
    # f + (1 - 3 f) w
    assert adjusted(Rules(floor=0.1), [0.9, 0.08, 0.02]) == [0.73, 0.156, 0.114]
    assert adjusted(Rules(floor=0.1), [0.5, 0.3, 0.2]) == [0.45, 0.31, 0.24]
    assert adjusted(Rules(floor=0.2), [1.0, 0.0, 0.0]) == [0.6, 0.2, 0.2]
    assert adjusted(Rules(floor=1 / 3), [0.7, 0.3, 0.0]) == pytest.approx([1 / 3] * 3)
    # clipping takes the probability of the second from the first alone, and makes two arms equal
    clip = Rules(floor=0.1, floor_kind="clip")
    assert adjusted(clip, [0.9, 0.08, 0.02]) == [0.8, 0.1, 0.1]
    # a dropped arm has no floor, and leaves more to the policy: f + (1 - 2 f) w
    assert adjusted(Rules(floor=0.1), [0.75, 0.25, 0.0], dropped=(2,)) == [0.7, 0.3, 0.0]
    assert adjusted(Rules(floor=0.1), [0.0, 1.0, 0.0], dropped=(0, 2)) == [0.0, 1.0, 0.0]


def test_an_additive_floor_beside_other_rules() -> None:
    # two arms share what control leaves: f + (0.6 - 2 f) w
    ruled = Rules(control="arm-1", control_share=0.4, floor=0.1)
    assert adjusted(ruled, [0.0, 0.75, 0.25]) == [0.4, 0.4, 0.2]
    # the floor comes first: (0.66, 0.24, 0.1), and the cap gives its excess in proportion
    capped = adjusted(Rules(floor=0.1, max_probability=0.49), [0.8, 0.2, 0.0])
    assert capped == pytest.approx([0.49, 0.24 * 0.51 / 0.34, 0.1 * 0.51 / 0.34])


@pytest.mark.parametrize(
    ("rules", "most"),
    [
        ({"floor": 0.34}, "0.3333: 3 arms share 1"),
        ({"floor": 0.35, "control": "arm-1", "control_share": 0.4}, "0.3: 2 arms share 0.6"),
        ({"floor": 0.5, "floor_kind": "clip"}, "0.3333: 3 arms share 1"),
    ],
)
def test_floors_that_take_more_than_all_pulls_are_refused(
    rules: dict[str, float | str], most: str
) -> None:
    with refused("invalid_problem", "design.floor"):
        Design.model_validate(rules).check(Problem.uniform(arms=3, horizon=20))


def best_by_polynomials(state: tuple[tuple[int, int], ...]) -> list[Fraction]:
    """P(largest) of arms with posteriors Beta(1 + good, 1 + bad): integrals of polynomials."""

    def density(good: int, bad: int) -> list[Fraction]:
        scale = Fraction(factorial(good + bad + 1), factorial(good) * factorial(bad))
        signs = [(-1) ** k * comb(bad, k) * scale for k in range(bad + 1)]
        return [Fraction(0)] * good + signs

    def integral(poly: list[Fraction]) -> list[Fraction]:
        return [Fraction(0), *(c / (k + 1) for k, c in enumerate(poly))]

    def product(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
        terms = [Fraction(0)] * (len(a) + len(b) - 1)
        for (i, x), (j, y) in itertools.product(enumerate(a), enumerate(b)):
            terms[i + j] += x * y
        return terms

    best = []
    for arm, counts in enumerate(state):
        poly = density(*counts)
        for other in state[:arm] + state[arm + 1 :]:
            poly = product(poly, integral(density(*other)))
        best.append(sum(integral(poly), Fraction(0)))
    return best


@pytest.mark.parametrize("kind", ["additive", "clip"])
def test_an_exact_design_with_a_floor_equals_a_recursion_in_fractions(kind: str) -> None:
    floor, stages, truth = Fraction(1, 5), 4, (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))

    def probabilities(state: tuple[tuple[int, int], ...]) -> list[Fraction]:
        best = best_by_polynomials(state)
        if kind == "additive":
            return [floor + (1 - 3 * floor) * w for w in best]
        low: set[int] = set()
        while True:
            mass = sum((best[k] for k in range(3) if k not in low), Fraction(0))
            scale = (1 - floor * len(low)) / mass
            clipped = [floor if k in low else scale * best[k] for k in range(3)]
            more = {k for k in range(3) if clipped[k] < floor}
            if not more:
                return clipped
            low |= more

    @cache
    def ahead(state: tuple[tuple[int, int], ...]) -> tuple[Fraction, tuple[Fraction, ...]]:
        """Good outcomes and pulls of every arm from here on."""
        if sum(map(sum, state)) == stages:
            return Fraction(0), (Fraction(0),) * 3
        good, pulls = Fraction(0), [Fraction(0)] * 3
        for arm, share in enumerate(probabilities(state)):
            pulls[arm] += share
            for outcome, chance in ((1, truth[arm]), (0, 1 - truth[arm])):
                counts = (state[arm][0] + outcome, state[arm][1] + 1 - outcome)
                later = ahead((*state[:arm], counts, *state[arm + 1 :]))
                good += share * chance * (outcome + later[0])
                pulls = [n + share * chance * more for n, more in zip(pulls, later[1], strict=True)]
        return good, tuple(pulls)

    scenario = {"name": "one", "truth": tuple(map(float, truth))}
    design = Design(policies=["thompson"], floor=0.2, floor_kind=kind, scenarios=[scenario])  # type: ignore[arg-type]
    problem = Problem.uniform(arms=3, horizon=stages)
    exact = operating_characteristics(problem, design, exact=True).scenarios[0].policies[0]
    good, pulls = ahead(((0, 0),) * 3)
    assert exact.good == pytest.approx(float(good), abs=1e-9)
    assert exact.pulls == pytest.approx([float(n) for n in pulls], abs=1e-9)
    drawn = operating_characteristics(problem, design, exact=False).scenarios[0].policies[0]
    assert drawn.errors is not None
    assert drawn.good == pytest.approx(float(good), abs=4.5 * float(str(drawn.errors["good"])))


def test_batches_and_trials_with_a_floor_log_what_they_drew_by(tmp_path: Path) -> None:
    batches = Problem.uniform(arms=3, horizon=3, pulls_per_stage=10, repeat=True)
    ruled = RuledPolicy(make_policy(batches, "thompson"), Rules(floor=0.1))
    states = States.of(batches, [State.parse("3/4,2/3,1/3")])
    best = [float(w) for w in best_by_polynomials(((3, 1), (2, 1), (1, 2)))]
    shares = ruled.probabilities(1, states)[0]
    assert shares == pytest.approx([0.1 + 0.7 * w for w in best], abs=1e-9)
    given = ruled.allocate_many(1, states, np.random.default_rng(1))[0]
    assert np.abs(given - 10 * shares).max() < 1
    for problem, kind in ((batches, "batch"), (Problem.uniform(arms=3, horizon=9), "single")):
        trial = create_trial(
            problem, policy="thompson", design=Rules(floor=0.1), seed=3, db=tmp_path / kind
        )
        counts = [(0, 0)] * 3
        for good in (True, False):
            asked = trial.ask()
            decision = trial.events()[-1].data["decision"]
            expected = [0.1 + 0.7 * float(w) for w in best_by_polynomials(tuple(counts))]
            assert decision["probabilities"] == pytest.approx(expected, abs=1e-9)
            trial.tell(asked.id, {arm: f"{n * good}/{n}" for arm, n in asked.pulls.items()})
            for k, arm in enumerate(problem.arms):
                n, (right, wrong) = asked.pulls.get(arm.name, 0), counts[k]
                counts[k] = (right + n * good, wrong + n * (not good))
        assert trial.replay().differences == ()


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
    with refused("invalid_problem", "design.max_probability"):
        Design.model_validate(rules).check(Problem.uniform(arms=3, horizon=20))
    with refused("invalid_problem", "design.max_probability", kind=InvalidProblem):
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
