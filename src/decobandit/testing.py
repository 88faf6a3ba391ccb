"""Checks for authors of policies: requirements on every policy, however it works.

from decobandit.testing import check_policy

def test_my_policy():
    check_policy(MyPolicy(problem))
"""

from __future__ import annotations

import numpy as np

from .policies import Policy
from .problem import State, States
from .support import Ints

STATES_PER_STAGE = 5


def check_policy(policy: Policy, *, seed: int = 1) -> None:
    """Raise an AssertionError unless a policy satisfies the requirements of the package.

    At states of random outcomes of every stage: pulls add up to those of the stage, in whole units,
    without changing the states; equal states and seeds get equal pulls, whatever other states are
    in the same call; probabilities sum to one and respect the arms that are allowed; a
    policy that declares `symmetric` answers permuted arms by permuted pulls; and `select` agrees
    with `allocate_many`.

    Parameters
    ----------
    policy : Policy
        Made for a problem of any outcome model and batch size.
    seed : int
        Seed of the outcomes and of the draws of the policy.

    Raises
    ------
    AssertionError
        With one sentence that names the failed requirement, and the stage.

    Examples
    --------
    >>> from decobandit import Problem, make_policy
    >>> from decobandit.testing import check_policy
    >>> check_policy(make_policy(Problem.uniform(arms=3, horizon=4), "greedy"))
    """
    rng = np.random.default_rng(seed)
    states = States.initial(policy.problem, STATES_PER_STAGE)
    for stage in range(policy.problem.stages):
        pulls = _checked_pulls(policy, stage, states, seed)
        _check_probabilities(policy, stage, states, seed)
        _check_one_by_one(policy, stage, states, pulls, seed)
        if policy.symmetric and not policy.draws_arms:
            _check_symmetry(policy, stage, states, pulls)
        if stage < policy.problem.horizon:
            states = _pulled(states, pulls, rng)


def _checked_pulls(policy: Policy, stage: int, states: States, seed: int) -> Ints:
    """Return the pulls per arm; check their sum and that the seed determines them."""
    problem, before = policy.problem, states.stats.copy()
    pulls = policy.allocate_many(stage, states, np.random.default_rng(seed))
    again = policy.allocate_many(stage, states, np.random.default_rng(seed))
    deployed = stage >= problem.horizon
    total, unit = (1, 1) if deployed else (problem.pulls_per_stage, problem.unit)
    name = policy.name
    _claim(pulls.shape == before.shape[:2], f"{name!r}: pulls are not (states, arms)", stage)
    _claim(
        bool(np.all(pulls.sum(axis=1) == total) and np.all(pulls >= 0)),
        f"{name!r}: pulls do not add up to {total}",
        stage,
    )
    allowed = np.all((pulls % unit == 0) & (pulls <= problem.most_per_stage))
    _claim(bool(allowed), f"{name!r}: pulls are not in units of {unit}, or repeat an arm", stage)
    _claim(bool(np.array_equal(states.stats, before)), f"{name!r}: it changes the states", stage)
    _claim(bool(np.array_equal(pulls, again)), f"{name!r}: same seed, other pulls", stage)
    return pulls


def _check_probabilities(policy: Policy, stage: int, states: States, seed: int) -> None:
    chances = policy.probabilities(stage, states, np.random.default_rng(seed))
    sums = np.abs(chances.sum(axis=1) - 1.0).max() < 1e-6 and chances.min() >= -1e-9
    _claim(bool(sums), f"{policy.name!r}: probabilities do not sum to one", stage)


def _check_one_by_one(policy: Policy, stage: int, states: States, pulls: Ints, seed: int) -> None:
    """Check that a state alone gets the same answer as in a block, and one pull as a batch."""
    if policy.draws_arms:
        return
    for e in range(len(states)):
        alone = policy.allocate_many(stage, states.rows([e]), np.random.default_rng(seed))
        same = bool(np.array_equal(alone[0], pulls[e]))
        _claim(same, f"{policy.name!r}: an answer depends on other states", stage)
        if not policy.problem.repeat or pulls[e].sum() == 1:
            arms = policy.select(stage, states.state(e), np.random.default_rng(seed))
            same = sorted(arms) == np.flatnonzero(pulls[e]).tolist()
            _claim(same, f"{policy.name!r}: `select` and `allocate_many` differ", stage)


def _check_symmetry(policy: Policy, stage: int, states: States, pulls: Ints) -> None:
    """Check that swapping two exchangeable arms swaps their pulls, unless position breaks a tie."""
    for group in policy.problem.groups:
        for one, other in zip(group.members, group.members[1:], strict=False):
            order = np.arange(policy.problem.n_arms)
            order[[one, other]] = other, one
            turned = States(states.problem, states.stats[:, order].copy())
            swapped = policy.allocate_many(stage, turned)[:, order]
            chances = policy.probabilities(stage, turned)[:, order]
            alike = np.abs(chances - policy.probabilities(stage, states)).max(axis=1) < 1e-9
            for e, row in enumerate(swapped):
                if alike[e] or _tied(states.state(e), pulls[e], row):
                    continue
                what = f"declares symmetry, but arms {one} and {other} are not alike to it"
                _claim(False, f"{policy.name!r} {what}", stage)


def _tied(state: State, pulls: Ints, other: Ints) -> bool:
    """Whether answers differ between arms of equal pulls only, where a tie may be broken."""
    had = np.array(state.pulls)[np.asarray(pulls != other)]
    return bool(np.all(had == had[:1]))


def _pulled(states: States, pulls: Ints, rng: np.random.Generator) -> States:
    """States after these pulls, their outcomes drawn from what is known."""
    stats, problem = states.stats.copy(), states.problem
    for arm, k in enumerate(problem.group_of_arm):
        model = problem.groups[k].model
        for e in range(len(stats)):
            before = stats[e, arm, : model.width].copy()
            theta = model.sample(before, rng)
            for _ in range(int(pulls[e, arm])):
                before = model.update(before, model.sample_outcome(theta, before, rng))
            stats[e, arm, : model.width] = before
    return States(problem, stats)


def _claim(holds: bool, what: str, stage: int) -> None:
    if not holds:
        raise AssertionError(f"policy {what} at stage {stage}")
