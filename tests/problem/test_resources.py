"""Resources of a stage: model and files, bounds, policies and values against slow oracles."""

import numpy as np
import pytest

from decobandit import Arm, BetaBernoulli, Problem, load_problem, optimum, save_problem
from decobandit.problem import RandomHorizon, problem_from_dict
from helpers.chain_oracles import random_chain
from helpers.refusals import refused
from helpers.resource_oracles import best_value

PRIORS = ((1, 1), (2, 1), (1, 2), (3, 3))


def binary(seed: int, arms: int = 3, horizon: int = 4, **settings: object) -> Problem:
    """Bernoulli arms with random uses of two resources, of which one changes over the stages."""
    rng = np.random.default_rng(seed)
    members = [
        Arm(
            name=f"a{k}",
            prior=BetaBernoulli(*PRIORS[k % 4]),
            uses={"nurse": float(rng.integers(0, 3)), "bed": round(float(rng.uniform(0, 2)), 2)},
        )
        for k in range(arms)
    ]
    nurses = rng.integers(1, 4, size=horizon).astype(float).tolist()
    resources = {"nurse": nurses, "bed": round(float(rng.uniform(1, 3)), 2)}
    return Problem(horizon=horizon, arms=members, resources=resources, **settings)


def restless(seed: int, arms: int = 3, horizon: int = 4, states: int = 3) -> Problem:
    """Chains with random uses; the last two are equal."""
    rng = np.random.default_rng(seed)
    chains = [random_chain(rng, states) for _ in range(arms - 1)]
    uses = [{"nurse": 1.0 + k % 2, "bed": float(rng.uniform(0, 2))} for k in range(arms - 1)]
    members = [
        Arm(name=f"c{k}", prior=chains[min(k, arms - 2)], uses=uses[min(k, arms - 2)])
        for k in range(arms)
    ]
    return Problem(horizon=horizon, arms=members, resources={"nurse": 2.0, "bed": 1.5})


# -- the model ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_files_keep_resources_and_uses(tmp_path, suffix) -> None:
    arms = [Arm(name="a", uses={"nurse": 1, "lit-é": 0.5}), Arm(name="b")]
    problem = Problem(horizon=2, arms=arms, resources={"nurse": [1, 2], "lit-é": 1})
    assert problem.supply.tolist() == [[1, 1], [2, 1]]
    assert problem.uses.tolist() == [[1, 0.5], [0, 0]]
    save_problem(problem, tmp_path / f"ward.{suffix}")
    assert load_problem(tmp_path / f"ward.{suffix}") == problem


def test_every_arm_may_be_pulled_unless_pulls_are_limited() -> None:
    entry = {"name": "a", "count": 3, "uses": {"nurse": 1}}
    tree = {"horizon": 2, "arms": [entry], "resources": {"nurse": 2}}
    assert problem_from_dict(tree).pulls_per_stage == 3
    assert problem_from_dict(tree | {"pulls_per_stage": 2}).pulls_per_stage == 2
    assert Problem(**tree | {"arms": [Arm(name="a")]}).pulls_per_stage == 1
    assert "resources nurse" in problem_from_dict(tree).described()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"resources": {"nurse": [1, 2]}}, "resources.nurse"),
        ({"resources": {"nurse": -1}}, "resources.nurse"),
        ({"resources": {}}, "resources"),
        ({"resources": {"nurse": 1}, "uses": {"bed": 1}}, "arms.0.uses.bed"),
        ({"uses": {"bed": 1}}, "arms.0.uses.bed"),
        ({"resources": {"nurse": 1}, "uses": {"nurse": -1}}, "arms.0.uses.nurse"),
        ({"resources": {"nurse": 1}, "budget": 2.0, "cost": 1.0}, "budget"),
    ],
)
def test_resources_that_do_not_fit_are_refused(fields, field) -> None:
    arm = {"name": "a"} | {key: fields[key] for key in ("uses", "cost") if key in fields}
    rest = {key: fields[key] for key in fields if key not in arm}
    with refused("invalid_problem", field):
        problem_from_dict({"horizon": 3, "arms": [arm]} | rest)


# -- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_optimum_is_that_of_a_plain_recursion(seed: int) -> None:
    for problem in (binary(seed), restless(seed, horizon=3)):
        assert optimum(problem).value == pytest.approx(best_value(problem), rel=1e-12)


def test_optimum_of_windows_random_ends_and_batches() -> None:
    arms = [
        Arm(name="a", uses={"bed": 1}, available=[0, 2]),
        Arm(name="b", prior=BetaBernoulli(2, 1), uses={"bed": 2}),
    ]
    ends = RandomHorizon(law="uniform", least=2, most=3)
    problem = Problem(horizon=ends, arms=arms, resources={"bed": 2})
    assert optimum(problem).value == pytest.approx(best_value(problem), rel=1e-12)
    arms = [arm.model_copy(update={"available": None}) for arm in arms]
    batches = {"repeat": True, "pulls_per_stage": 4, "unit": 2}
    problem = Problem(horizon=2, arms=arms, resources={"bed": [5, 4]}, **batches)
    assert optimum(problem).value == pytest.approx(best_value(problem), rel=1e-12)
