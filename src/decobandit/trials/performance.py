"""What a trial has earned and lost so far, and the bound on what is left."""

from __future__ import annotations

from ..bounds import Episode, retrace
from ..problem import Outcome
from .allocations import parts_by_arm, tallies
from .decider import Decider, pending_state
from .errors import TrialError
from .ledger import Ledger
from .settings import NO_BOUND, TrialSettings

History = list[tuple[int | str, Outcome | None]]  # arm, outcome


def earned(ledger: Ledger) -> float:
    """Total reward of the recorded outcomes."""
    problem, total = ledger.problem, 0.0
    for arm, parts in parts_by_arm(ledger.allocations.values()).items():
        group = problem.groups[problem.group_of_arm[ledger.position(arm)]]
        for slot, part, known, tally in tallies(group.model, parts):
            if part.good is not None:
                good, bad = group.reward_good[slot.stage], group.reward_bad[slot.stage]
                total += part.good * float(good) + (part.told - part.good) * float(bad)
            else:
                value = group.model.format.tally_value(known, tally)
                base, factor = group.reward_base[slot.stage], group.reward_factor[slot.stage]
                total += float(base) * part.told + float(factor) * value
    return total


def bound_from_here(ledger: Ledger, decider: Decider) -> float | None:
    """The dual function from the stage under way on, at the trial's prices; at the end, exact.

    Averaged over pending outcomes: knowing them at once could only raise what can be earned. None
    where the trial has no prices.
    """
    pending, problem = pending_state(ledger), ledger.problem
    if pending.stage == problem.horizon and not sum(pending.open):
        return decider.value_of_deployment(pending)
    prices, later = decider.settings.prices, slice(pending.stage, None)
    arms = decider.value_of_arms(pending)
    return (
        None
        if prices is None or arms is None
        else arms + float(problem.pulls[later] @ prices[later])
    )


def episode_of(ledger: Ledger, decider: Decider) -> Episode:
    """The recorded outcomes in the order of their allocations; `TrialError` without prices.

    With one pull per stage, pending ones are left out and later ones move up. With several, the
    episode ends before the first stage that is not complete.
    """
    settings = ledger.settings
    if ledger.problem.repeat:
        raise TrialError("outcomes of shared batches are not compared with the price of a pull")
    tables = decider.tables()
    if settings.solution is None or tables is None or settings.problem.repeat:
        raise TrialError(f"{NO_BOUND}, so that there are no prices to compare its outcomes with")
    history = _history(ledger)
    return retrace(
        settings.problem, history, solution=settings.solution, policy=settings.policy,
        relaxation=tables,
    )  # fmt: skip


def has_episode(settings: TrialSettings) -> bool:
    """Whether outcomes can be compared with prices."""
    return settings.solution is not None and not settings.problem.repeat


def _history(ledger: Ledger) -> History:
    history: History = []
    for slot in ledger.allocations.values():
        if slot.holds_slots and slot.told == slot.size:
            for part in slot.arms:
                kind = ledger.kinds[part.arm]
                history.append((ledger.position(part.arm), kind.format.sole(part.tally(kind))))
        elif slot.holds_slots and slot.size > 1:
            break
    return history


def loss_so_far(ledger: Ledger, decider: Decider) -> float | None:
    """Shortfall and congestion of the recorded outcomes; None where there is no episode."""
    if not has_episode(ledger.settings):
        return None
    episode = episode_of(ledger, decider)
    return float(episode.running_loss[-1]) if episode.stages else 0.0
