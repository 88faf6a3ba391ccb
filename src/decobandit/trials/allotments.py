"""How the pulls of a stage are shared among arms, while outcomes may be pending.

Problems with `repeat` ask the policy for pulls of every arm (`Policy.allocate_many`):

    nothing pending   what the policy allots in the state of the trial
    pending           the policy is asked in the states that the pending outcomes can lead to, given
                      the recorded ones: in all of them up to 256, else in as many draws. The mean
                      of its allotments is given, in whole units: those of largest remainder first
    drawn             a policy that draws is asked once, after the pending outcomes were drawn

Pulls of a batch that were cancelled after others had outcomes count as pending for ever: they have
used their stage, and tables know only states with all pulls of a stage.

Other problems pull different arms, which are decided one by one (`decisions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..policies import Policy
from ..problem import Problem, States
from ..support import Floats
from . import explanation
from .decisions import Decision, decide
from .pending import PendingState, drawn_state, expected_rewards, ways


def allot(
    policy: Policy,
    pending: PendingState,
    prices: Floats | None,
    *,
    draws: Callable[[], np.random.Generator],
) -> Decision:
    """The next stage. `draws` gives the random numbers of the stage, anew each time."""
    problem = policy.problem
    pending.check(problem)
    if not problem.repeat:
        return one_by_one(
            lambda state: decide(policy, state, prices, rng=draws()), problem, pending
        )
    counts, drawn = _shared(policy, pending, draws())
    price = _price(problem, pending, prices)
    names = [arm.name for arm in problem.arms]
    said = explanation.sentence(
        explanation.shared(dict(zip(names, counts, strict=True)), policy.name),
        explanation.drawn_first(sum(pending.open))
        if policy.randomised
        else explanation.averaged(sum(pending.open), drawn),
        explanation.compared(price) if price is not None and policy.at_fixed_prices else "",
    )
    return shared_decision(problem, pending, prices, counts, said)


def shared_decision(
    problem: Problem, pending: PendingState, prices: Floats | None, counts: tuple[int, ...],
    reason: str,
) -> Decision:  # fmt: skip
    """These pulls of a shared batch, with the numbers of the stage; arms have no index there."""
    rewards = tuple(expected_rewards(problem, pending).tolist())
    price = _price(problem, pending, prices)
    return Decision(counts, pending.stage, price, rewards, None, None, reason)


def _price(problem: Problem, pending: PendingState, prices: Floats | None) -> float | None:
    return None if prices is None else float(prices[pending.stage]) / problem.unit


def one_by_one(
    decided: Callable[[PendingState], Decision], problem: Problem, pending: PendingState
) -> Decision:
    """Different arms, each decided after those before."""
    decisions = list[Decision]()
    for _ in range(problem.pulls_per_stage):
        decisions.append(decided(pending))
        pending = replace(pending, taken=(*pending.taken, decisions[-1].arm))
    return replace(
        decisions[0],
        pulls=tuple(map(sum, zip(*(one.pulls for one in decisions), strict=True))),
        reason=" | ".join(one.reason for one in decisions),
        by_rules=any(one.by_rules for one in decisions),
    )


def _shared(
    policy: Policy, pending: PendingState, rng: np.random.Generator
) -> tuple[tuple[int, ...], int]:
    """Pulls of every arm, and how many draws of pending outcomes they are the mean of."""
    problem, stage = policy.problem, pending.stage
    if policy.randomised:
        state = drawn_state(problem, pending, rng)
        return policy.allocation(stage, state, rng), 0
    asked, chances, drawn = states_to_ask(policy, pending, rng)
    own = policy.allocate_many(stage, asked, rng)
    units = whole_units(chances @ own / problem.unit, problem.units)
    return tuple(problem.unit * n for n in units), drawn


def states_to_ask(
    policy: Policy, pending: PendingState, rng: np.random.Generator
) -> tuple[States, Floats, int]:
    """The states that pending outcomes lead to; their probabilities; and how many draws they come
    from, 0 where they are all.

    Of a policy that draws, one state.
    """
    problem = policy.problem
    if policy.randomised:
        states, drawn = [(drawn_state(problem, pending, rng), 1.0)], False
    else:
        states, drawn = ways(problem, pending, rng, policy.most_ways)
    asked = States.of(problem, [state for state, _ in states])
    return asked, np.array([chance for _, chance in states]), policy.most_ways * drawn


def whole_units(mean: Floats, total: int) -> list[int]:
    """Whole numbers that sum to `total`, next to these: the largest remainders are rounded up."""
    floor = np.floor(mean + 1e-9).astype(int)
    order = np.argsort(-np.round(mean - floor, 9), kind="stable")  # of equal ones the first
    floor[order[: total - int(floor.sum())]] += 1
    return [int(n) for n in floor]
