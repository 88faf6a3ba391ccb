"""What a policy answers in a state does not depend on the other states of the same call."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from decobandit import evaluate, make_policy
from decobandit.policies import POLICIES, Policy, policy_class, serving
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    States,
    Terminal,
)

MACHINE = MarkovArm(
    first="new",
    states={
        "new": {"mean": 0.9, "next": {"fine": (0.75, "new"), "worn": (0.25, "old")}},
        "old": {"mean": 0.25, "next": {"fine": (0.5, "old"), "mended": (0.5, "new")}},
    },
)
BINARY = [Arm(name="a"), Arm(name="b"), Arm(name="c", prior=BetaBernoulli(2, 1.5))]
GRADES = [
    Arm(name=name, prior=DirichletCategorical(counts), reward=Reward(values=[0, 0.4, 1]))
    for name, counts in (("a", [1, 1, 1]), ("b", [1, 1, 1]), ("c", [2, 0.5, 0.7]))
]
NORMAL = [
    Arm(name=name, prior=NormalNormal(0.1 * k, 1), noise_sd=1) for k, name in enumerate("abc")
]
COUNTS = [Arm(name=name, prior=GammaPoisson(1 + k, 1.5)) for k, name in enumerate("abc")]
OWN = [Arm(name="a", prior=MACHINE), Arm(name="b", prior=MACHINE), BINARY[2]]
UNEQUAL = [BINARY[0], Arm(name="b", reward=Reward(good=0.8, bad=0.3)), BINARY[2]]
BATCH: dict[str, Any] = {"pulls_per_stage": 4, "unit": 2, "repeat": True}
CORNERS = {
    "binary": Problem(arms=BINARY, horizon=7),
    "deployed": Problem(arms=BINARY, horizon=6, terminal=Terminal(deploy=20)),
    "classes": Problem(arms=GRADES, horizon=6),
    "normal": Problem(arms=NORMAL, horizon=6),
    "counts": Problem(arms=COUNTS, horizon=6),
    "own": Problem(arms=OWN, horizon=6),
    "batches": Problem(arms=BINARY, horizon=3, **BATCH),
    "batches, unequal": Problem(arms=UNEQUAL, horizon=3, **BATCH),
    "batches, deployed": Problem(arms=BINARY, horizon=3, terminal=Terminal(deploy=20), **BATCH),
    "batches of classes": Problem(arms=GRADES, horizon=3, **BATCH),
    "batches of normal": Problem(arms=NORMAL, horizon=3, **BATCH),
    "batches of counts": Problem(arms=COUNTS, horizon=3, **BATCH),
}
CASES = [
    (corner, name)
    for corner, problem in CORNERS.items()
    for name in serving(problem, POLICIES)
    if (corner, name) != ("deployed", "deco-rolling")  # takes long, and is asked state by state
]
STATES, STAGE = 60, 2


@cache
def asked(corner: str, pending: bool) -> States:
    """Joint states of random outcomes, some of them pending."""
    problem, rng = CORNERS[corner], np.random.default_rng(len(corner))
    groups = problem.arm_groups
    unit = problem.unit
    total = STAGE * problem.pulls_per_stage // unit
    pulls = unit * rng.multinomial(total, [1 / 3] * 3, STATES)
    late = unit * rng.binomial(pulls // unit, 0.4) if pending else np.zeros_like(pulls)
    known = np.zeros((STATES, 3, max(group.model.width for group in groups)))
    for k, group in enumerate(groups):
        for e in range(STATES):
            stats = np.array(group.model.initial(), dtype=float)
            for _ in range(pulls[e, k] - late[e, k]):
                drawn = group.model.sample(stats, rng)
                stats = group.model.update(stats, group.model.sample_outcome(drawn, stats, rng))
            known[e, k, : stats.size] = stats
    allowed = np.ones(pulls.shape, np.bool_)
    allowed[::5, 2] = False
    return States(problem, known, late if pending else None, allowed)


@cache
def policy_for(corner: str, name: str) -> Policy:
    return make_policy(CORNERS[corner], name)


@pytest.mark.parametrize(("corner", "name"), CASES)
@pytest.mark.parametrize("pending", [False, True])
def test_answers_do_not_depend_on_other_states(corner: str, name: str, pending: bool) -> None:
    problem, states = CORNERS[corner], asked(corner, pending)
    if pending and (name == "optimal" or corner == "own" or problem.repeat):
        return  # refused, or shared as if the outcomes were known
    try:
        policy = policy_for(corner, name)
    except ValueError:
        return  # refuses such rewards or outcomes, as other tests check
    if name == "optimal":  # refuses arms that are dropped
        states = replace(states, allowed=None)
    order = np.random.default_rng(3).permutation(STATES)
    some = order[:: STATES // 6]
    if not policy.draws_arms:
        together = policy.probabilities(STAGE, states)
        shuffled = policy.probabilities(STAGE, states.rows(order))
        alone = np.concatenate(
            [policy.probabilities(STAGE, states.rows(some[[i]])) for i in range(6)]
        )
        np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone, together[some], rtol=0, atol=1e-12)
        many = policy.allocate_many(STAGE, states)
        one = [policy.allocate_many(STAGE, states.rows([e]))[0] for e in some]
        np.testing.assert_array_equal(many[some], one)
    elif getattr(policy, "by_shares", False):
        together = policy.shares(STAGE, states)
        alone = [policy.shares(STAGE, states.rows([e]))[0] for e in some]
        np.testing.assert_allclose(alone, together[some], rtol=0, atol=1e-12)
    elif policy.has_probabilities:
        together = policy.probabilities(STAGE, states)
        alone = np.concatenate(
            [policy.probabilities(STAGE, states.rows(some[[i]])) for i in range(6)]
        )
        np.testing.assert_allclose(alone, together[some], rtol=0, atol=1e-12)


# -- good and bad outcomes, and two classes worth 0 and 1 ---------------------------------------

PRIORS = [(1.0, 1.0), (1.0, 1.0), (2.0, 1.5)]


def twins(**stages: object) -> tuple[Problem, Problem]:
    """The same problem with good and bad outcomes, and with two classes worth 1 and 0."""
    worth = Reward(values=[0, 1])
    pairs = [(BetaBernoulli(a, b), DirichletCategorical([b, a])) for a, b in PRIORS]
    good_or_bad = [Arm(name=str(k), prior=prior) for k, (prior, _) in enumerate(pairs)]
    two = [Arm(name=str(k), prior=prior, reward=worth) for k, (_, prior) in enumerate(pairs)]
    return Problem(arms=good_or_bad, **stages), Problem(arms=two, **stages)


SINGLE = twins(horizon=6)
SHARED = twins(horizon=3, pulls_per_stage=4, repeat=True, unit=2)
BOTH = [name for name in serving(SINGLE[1], POLICIES) if name not in ("thompson", "ids", "v-ids")]
REWARD_INDEX = ("deco", "fh-gittins", "greedy", "knowledge-gradient", "optimal")
BOTH_SHARED = [
    name
    for name in serving(SHARED[1], POLICIES)
    if not policy_class(name).randomised and name != "knowledge-gradient"  # rounds shares
]


@pytest.mark.parametrize("name", BOTH)
def test_two_classes_are_decided_as_good_and_bad_outcomes_are(name: str) -> None:
    """Exact values, indices, and choices where outcomes are pending and arms dropped."""
    one, two = (make_policy(problem, name) for problem in SINGLE)
    values = [evaluate(policy.problem, policy).value for policy in (one, two)]
    assert values[1] == pytest.approx(values[0], abs=1e-12)
    rng, states = np.random.default_rng(8), 120
    for stage in range(6):
        pulls = rng.multinomial(stage, [1 / 3] * 3, states)
        late = rng.binomial(pulls, 0.4)
        known = pulls - late
        good, allowed = rng.binomial(known, 0.5), np.ones(pulls.shape, np.bool_)
        allowed[::4, stage % 3] = False
        every = np.stack([good, pulls - good], axis=2).astype(float)
        for e in range(3 if name in REWARD_INDEX else 0):
            first = one.indices(stage, States(SINGLE[0], every).state(e))
            second = two.indices(stage, States(SINGLE[1], every[..., ::-1]).state(e))
            assert first is not None
            assert second is not None
            np.testing.assert_allclose(second, first, rtol=0, atol=3e-4)
        if name == "optimal":
            continue  # refuses pending outcomes
        counts = np.stack([good, known - good], axis=2).astype(float)
        first = one.probabilities(stage, States(SINGLE[0], counts, late, allowed))
        second = two.probabilities(stage, States(SINGLE[1], counts[..., ::-1], late, allowed))
        np.testing.assert_allclose(second, first, rtol=0, atol=1e-9)
        if one.has_own_index:  # trials average arm by arm
            assert two.has_own_index


@pytest.mark.parametrize("name", BOTH_SHARED)
def test_batches_of_two_classes_are_shared_as_those_of_good_and_bad_outcomes(name: str) -> None:
    one, two = (make_policy(problem, name) for problem in SHARED)
    rng = np.random.default_rng(9)
    for stage in range(3):
        units = rng.multinomial(2 * stage, [1 / 3] * 3, 40)
        good = rng.binomial(2 * units, 0.5)
        counts = np.stack([good, 2 * units - good], axis=2).astype(float)
        first = one.allocate_many(stage, States(SHARED[0], counts))
        np.testing.assert_array_equal(
            two.allocate_many(stage, States(SHARED[1], counts[..., ::-1])), first
        )
