"""Inference of a trial after adaptation: what `designs/inference.py` computes, from the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..designs.inference import (
    EXACT,
    MAX_TRIAL_PULLS,
    WEIGHTED,
    Estimates,
    Exact,
    Inference,
    estimates_of,
    left_out,
)
from ..designs.playing import Course, Endings, follow
from ..policies import RuledPolicy
from ..support import Cache, Floats
from .allocations import Allocation, kinds_of, parts_by_arm, tallies, value_of
from .decider import Decider
from .ledger import Ledger

_EXACT = Cache[str, Exact](16)  # by the hash of the tables
AT_END = "when the trial has ended by its rules, with all outcomes"


def inference_of(
    ledger: Ledger, decider: Decider | None, control: int, *, over: bool
) -> tuple[tuple[Inference, ...], dict[str, str]]:
    """Return estimates by method and arm, and methods that are left out, with the reason.

    decider: None with segments; over: whether the trial has ended by its rules.
    """
    if decider is None:
        return (), {"all methods": "every segment has a policy of its own"}
    if ledger.problem.is_restless:
        return (), {"all methods": "arms change while they are not pulled"}
    policy = decider.ruled
    slots = [slot for slot in ledger.allocations.values() if slot.holds_slots]
    complete = [slot for slot in slots if slot.told == slot.size]
    reasons = left_out(policy, MAX_TRIAL_PULLS)
    if "all methods" in reasons:
        return (), reasons
    if ledger.arm_changes:
        reasons |= dict.fromkeys((WEIGHTED, EXACT), "arms joined or left")
    probabilities = _probabilities(ledger, complete)
    if probabilities is None:
        reasons.setdefault(WEIGHTED, "the log lacks probabilities of arms that were not chosen")
        probabilities = np.zeros((len(complete), ledger.problem.n_arms))
    outcomes = _outcomes(ledger)
    if outcomes is None:
        reasons.setdefault("sequence", "only sums of several outcomes are on record")
    if EXACT not in reasons:
        if ledger.waited:
            reasons[EXACT] = "arms were allocated while outcomes were pending"
        elif ledger.revised:
            reasons[EXACT] = "outcomes were corrected after later arms had been allocated"
        elif not over or len(complete) < len(slots):
            reasons[EXACT] = AT_END
    course = _course(ledger, complete, probabilities, outcomes)
    names, rows = [arm.name for arm in ledger.problem.arms], list[Inference]()
    for method, results in estimates_of(policy, course, reasons).items():
        if method != "observed":  # with its intervals among the results by arm
            rows += [_row(method, name, results, k) for k, name in enumerate(names)]
    if EXACT not in reasons:
        rows += _exact(ledger, policy, control, names, reasons)
    return tuple(rows), reasons


def _row(method: str, arm: str, results: Estimates, k: int) -> Inference:
    values = (float(column.reshape(-1)[k]) for column in results)
    return Inference(method, arm, *(x if np.isfinite(x) else None for x in values))


def _probabilities(ledger: Ledger, slots: Sequence[Allocation]) -> Floats | None:
    """Return the probabilities of all arms at every allocation; None where some are not logged."""
    arms, rows = ledger.problem.n_arms, list[Sequence[float]]()
    for slot in slots:
        logged = ledger.probabilities.get(slot.id)
        if logged is not None and len(logged) == arms:
            rows.append(logged)
        elif arms == 2 and slot.arm is not None and slot.probability is not None:
            row = [1.0 - slot.probability] * 2
            row[ledger.position(slot.arm)] = slot.probability
            rows.append(row)
        else:
            return None
    return np.array(rows).reshape(len(rows), arms)


def _outcomes(ledger: Ledger) -> list[list[float]] | None:
    """Return the outcomes of every arm in order; None where only sums of several are on record.

    Within one allocation the order of good and bad outcomes is unknown: it is drawn.
    """
    rng = np.random.default_rng(ledger.settings.seed)
    parts, rows = parts_by_arm(ledger.allocations.values()), list[list[float]]()
    for arm, model in zip(ledger.problem.arms, kinds_of(ledger.problem), strict=True):
        row: list[float] = []
        for _, part, before, tally in tallies(model, parts.get(arm.name, [])):
            if part.good is not None:
                row += rng.permutation([1.0] * part.good + [0.0] * (part.told - part.good)).tolist()
            elif part.told == 1:
                row.append(value_of(model, part, before, tally))
            else:
                return None
        rows.append(row)
    return rows


def _course(
    ledger: Ledger,
    slots: Sequence[Allocation],
    probabilities: Floats,
    outcomes: list[list[float]] | None,
) -> Course:
    """Return the trial as the only one of a course."""
    arms, models = ledger.problem.n_arms, kinds_of(ledger.problem)
    stage_of = {slot.id: stage for stage, slot in enumerate(slots)}
    pulls, totals = np.zeros((len(slots), arms), np.int64), np.zeros((len(slots), arms))
    for name, parts in parts_by_arm(slots).items():
        k = ledger.position(name)
        for slot, part, before, tally in tallies(models[k], parts):
            pulls[stage_of[slot.id], k] = part.told
            totals[stage_of[slot.id], k] = value_of(models[k], part, before, tally)
    rows = outcomes or [[] for _ in range(arms)]
    padded = np.zeros((1, arms, max(map(len, rows))))
    for k, row in enumerate(rows):
        padded[0, k, : len(row)] = row
    counts = np.array([list(map(len, rows))])
    return Course(probabilities[None], pulls[None], totals[None], padded, counts)


def _exact(
    ledger: Ledger, policy: RuledPolicy, control: int, names: Sequence[str], reasons: dict[str, str]
) -> list[Inference]:
    """Return the odds ratio and the p-value of two arms."""
    exact = _EXACT.get_or_make(ledger.settings.tables_hash, lambda: _law(ledger, policy))
    arm = 1 - control
    good = np.array([ledger.good])
    pulls = good + np.array([ledger.bad])
    results = exact.odds_ratio(pulls, good, arm)
    rows = [_row("odds ratio", names[arm], results, 0)]
    if "p-value" not in reasons:
        none = np.zeros((1, 2), np.bool_)
        stats = np.stack([good, pulls - good], axis=2).astype(float)
        reason, weight = np.zeros(1, np.int8), np.ones(1)
        ended = Endings(pulls, stats, ~none, none, reason, weight)
        p_value = float(exact.p_values(ended)[0])
        rows.append(Inference("p-value", names[exact.arm], None, None, None, p_value))
    return rows


def _law(ledger: Ledger, policy: RuledPolicy) -> Exact:
    """Follow the design of a trial; with separate tables, as decisions may be under way."""
    separate = RuledPolicy(ledger.settings.make_policy(), policy.rules)
    return Exact(separate, follow(separate, None))
