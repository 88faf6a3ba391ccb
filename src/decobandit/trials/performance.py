"""What a trial has earned and lost so far, and the bound on what is left."""

from __future__ import annotations

from ..bounds import Episode, retrace
from ..problem import Outcome
from .allocations import Allocation
from .decider import Decider, pending_state
from .errors import TrialError
from .kind_records import kinds_of, tallies
from .ledger import Ledger
from .settings import NO_BOUND, TrialSettings

History = list[tuple[int | str, Outcome | None]]  # arm, outcome


def earned(ledger: Ledger) -> float:
    groups, of_arm = ledger.problem.groups, ledger.problem.group_of_arm
    total = 0.0
    told: dict[str, list[Allocation]] = {}
    for slot in ledger.allocations.values():
        if slot.outcome is not None:
            told.setdefault(slot.arm, []).append(slot)
    for arm, slots in told.items():
        group = groups[of_arm[ledger.position(arm)]]
        values = group.model.values_of([slot.outcome for slot in slots if slot.outcome is not None])
        total += float(group.earned([slot.stage for slot in slots], values).sum())
    for batch in ledger.batches.values():
        for k, one in zip(of_arm, batch.arms, strict=True):
            if one.good is not None:
                earned_good = float(groups[k].reward_good[batch.stage])
                bad = one.told - one.good
                total += one.good * earned_good + bad * float(groups[k].reward_bad[batch.stage])
    return total + sum(
        _earned_in_batches(ledger, arm)
        for arm, kind in enumerate(ledger.kinds.values())
        if ledger.batches and not kind.counts_good
    )


def _earned_in_batches(ledger: Ledger, arm: int) -> float:
    """What other outcomes than good or bad earned, of the arm at a position."""
    group, total = ledger.problem.groups[ledger.problem.group_of_arm[arm]], 0.0
    for batch, known, tally in tallies(group.model, arm, ledger.batches.values()):
        base, factor = group.reward_base[batch.stage], group.reward_factor[batch.stage]
        value = group.model.tally_value(known, tally)
        total += float(base) * batch.arms[arm].told + float(factor) * value
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

    With one pull per stage, pending slots are left out and later ones move up. With several, the
    episode ends before the first stage that is not complete, or that has an arm twice after
    cancellations.
    """
    settings = ledger.settings
    if ledger.problem.repeat:
        raise TrialError("outcomes of shared batches are not compared with the price of a pull")
    tables = decider.tables()
    if settings.solution is None or tables is None or settings.problem.repeat:
        raise TrialError(f"{NO_BOUND}, so that there are no prices to compare its outcomes with")
    history = _batch_history(ledger) if ledger.batches else _history(ledger)
    return retrace(
        settings.problem, history, solution=settings.solution, policy=settings.policy,
        relaxation=tables,
    )  # fmt: skip


def has_episode(settings: TrialSettings) -> bool:
    """Whether outcomes can be compared with prices."""
    return settings.solution is not None and not settings.problem.repeat


def _history(ledger: Ledger) -> History:
    """Arms and outcomes of single allocations."""
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
    return [(ledger.position(slot.arm), slot.outcome) for slot in told]


def _batch_history(ledger: Ledger) -> History:
    """The same of batches of different arms."""
    history: History = []
    kinds = kinds_of(ledger.problem)
    for batch in ledger.batches.values():
        if not batch.holds_slots:
            continue
        if batch.told < batch.pulls:
            break
        pairs = enumerate(zip(kinds, batch.arms, strict=True))
        history += [(k, kind.sole(one.tally(kind))) for k, (kind, one) in pairs if one.pulls]
    return history


def loss_so_far(ledger: Ledger, decider: Decider) -> float | None:
    """Shortfall and congestion of the recorded outcomes; None where there is no episode."""
    if not has_episode(ledger.settings):
        return None
    episode = episode_of(ledger, decider)
    return float(episode.running_loss[-1]) if episode.stages else 0.0
