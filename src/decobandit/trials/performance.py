"""What a trial has earned and lost so far, and the bound on what is left."""

from __future__ import annotations

from ..bounds import Episode, retrace
from .decider import Decider, pending_state
from .ledger import Ledger


def earned(ledger: Ledger) -> float:
    groups, of_arm = ledger.problem.groups, ledger.problem.group_of_arm
    total = 0.0
    for slot in ledger.allocations.values():
        if slot.state == "told":
            group = groups[of_arm[ledger.position(slot.arm)]]
            rewards = group.reward_good if slot.outcome else group.reward_bad
            total += float(rewards[slot.stage])
    return total


def bound_from_here(ledger: Ledger, decider: Decider) -> float:
    """The dual function from the stage under way on, at the trial's prices; at the end, exact.

    Averaged over pending outcomes: knowing them at once could only raise what can be earned.
    """
    pending, problem = pending_state(ledger), ledger.problem
    if pending.stage == problem.horizon and not sum(pending.open):
        return decider.value_of_deployment(pending)
    later = slice(pending.stage, None)
    prices = float(problem.pulls[later] @ decider.settings.solution.prices[later])
    return prices + decider.value_of_arms(pending)


def episode_of(ledger: Ledger, decider: Decider) -> Episode:
    """The recorded outcomes in the order of their allocations.

    With one pull per stage, pending slots are left out and later ones move up. With several, the
    episode ends before the first stage that is not complete, or that has an arm twice after
    cancellations.
    """
    m = ledger.problem.pulls_per_stage
    slots = ledger.in_use()
    if m == 1:
        told = [slot for slot in slots if slot.state == "told"]
    else:
        told = []
        for start in range(0, len(slots) - m + 1, m):
            stage = slots[start : start + m]
            arms = {slot.arm for slot in stage}
            if len(arms) < m or any(slot.state != "told" for slot in stage):
                break
            told += stage
    history = [(ledger.position(slot.arm), slot.outcome) for slot in told]
    settings = ledger.settings
    return retrace(
        settings.problem, history, solution=settings.solution, policy=settings.policy,
        relaxation=decider.cones,
    )  # fmt: skip


def loss_so_far(ledger: Ledger, decider: Decider) -> float:
    episode = episode_of(ledger, decider)
    return float(episode.running_loss[-1]) if episode.stages else 0.0
