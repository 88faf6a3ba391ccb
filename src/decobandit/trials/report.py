"""The report of a trial: results, shares over time, deviations, the state of its log, settings.

Intervals have 95%. For non-binary outcomes, the rate is the mean reward value of the outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

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
from ..designs.playing import Course as PlayedCourse
from ..designs.playing import Endings, follow
from ..policies import RuledPolicy
from ..policies.comparison import MeanComparison, compare_arms
from ..problem import Arm, ArmModel, Problem, Rules, State, States
from ..support import Cache, Floats
from ..support.records import doc, record_class
from .allocations import Allocation, kinds_of, parts_by_arm, values
from .decisions import LookResult, decider_of, declared_arms, look_results
from .errors import TrialError
from .events import UNMASK_CATEGORIES, Change, Correction
from .ledger import Ledger
from .lists import STALE_AFTER, stale_limit
from .status import SegmentStanding, Standing, status_of
from .verification import Verification

LEVEL = 0.95
TAILS = np.array([(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
MAX_COMPARED = 300  # arms up to which P(best) is computed: about 2 s
Ends = tuple[float, float]


@record_class()
class ArmResult:
    """Results of an arm."""

    name: str = doc("Name of the arm.")
    allocated: int = doc("Allocations that hold a slot.")
    pulls: int = doc("Recorded outcomes.")
    good: int | None = doc("Good ones among them; null where outcomes are not good or bad.")
    pending: int = doc("Allocations whose outcome is not recorded.")
    rate: float | None = doc("Good outcomes per recorded one, or their mean; null before one.")
    exact_interval: Ends | None = doc("95% of the rate, as of fixed pulls, by Clopper and Pearson.")
    wilson_interval: Ends | None = doc("The same by Wilson's score method.")
    prior_good: float | None = doc("Pseudo-count of good outcomes of the prior.")
    prior_bad: float | None = doc("Pseudo-count of bad outcomes of the prior.")
    effective_sample_size: float | None = doc("Outcomes that the prior is worth; null if unknown.")
    posterior_mean: float = doc("Of the success probability, or of the mean of outcomes.")
    credible_interval: Ends | None = doc("95% of the posterior, equal tails; null of own states.")
    best: float | None = doc(
        "Posterior probability that its expected reward of a pull is the largest, or its mean "
        "outcome where the rules compare outcomes; null with very many arms."
    )
    better_than_control: float | None = doc("Posterior P(it exceeds the control); null for that.")
    uplift: float | None = doc("Posterior mean of its value minus the control's; null for that.")
    uplift_interval: Ends | None = doc("95% of the posterior of this difference, equal tails.")
    seen: str = doc("Recorded outcomes, in the notation of states.")
    prior: str = doc("Prior, in words.")
    prior_mean: float = doc("Of the success probability, or of the mean of outcomes.")


def control_of(problem: Problem, control: str | None) -> int:
    """Return the position of the control arm: the first by default."""
    names = [arm.name for arm in problem.arms]
    if control is None:
        return 0
    if control not in names:
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        text = f"no arm is called {control!r}; the arms are {shown}"
        raise TrialError(f"control: {text}", field="control")
    return names.index(control)


def arm_results(ledger: Ledger, control: int) -> tuple[ArmResult, ...]:
    """Return the results of every arm, in the order of the problem; of one segment at a time."""
    problem, state = ledger.problem, ledger.known
    compared = _compared(problem, state, control, ledger.settings.rules or Rules())
    written, stats = str(state).split(","), state.stats
    parts, results = parts_by_arm(ledger.allocations.values()), []
    for k, (arm, model) in enumerate(zip(problem.arms, kinds_of(problem), strict=True)):
        pulls, fresh = state.pulls[k], np.array(model.initial(), dtype=float)
        rows = parts.get(arm.name, [])
        told = sum(part.told for _, part in rows)
        total = sum(value for _, part, value in values(model, rows) if part.told)
        results.append(
            ArmResult(
                name=arm.name,
                allocated=pulls + ledger.open[k],
                pulls=pulls,
                pending=ledger.open[k],
                **_binary_fields(state.good[k] if model.counts_good else None, pulls, arm),
                rate=total / told if told else None,
                effective_sample_size=model.prior_pulls,
                posterior_mean=float(model.mean(stats[k])),
                credible_interval=credible_interval(model, stats[k]),
                **{name: column[k] for name, column in compared.items()},
                seen=written[k],
                prior=model.format.describe(model.initial()),
                prior_mean=float(model.mean(fresh)),
            )
        )
    return tuple(results)


def results_in_all(
    ledger: Ledger, by_segment: Sequence[Sequence[ArmResult]], control: int
) -> tuple[ArmResult, ...]:
    """Return the results of every arm as an average visitor has them: segments by their shares."""
    shares, rows = [segment.share for segment in ledger.problem.segments], list[ArmResult]()
    drawn = _drawn_in_all(ledger, control)
    for k, arms in enumerate(zip(*by_segment, strict=True)):
        pulls = sum(arm.pulls for arm in arms)
        good = None if arms[0].good is None else sum(arm.good or 0 for arm in arms)
        total = sum(arm.pulls * (arm.rate or 0.0) for arm in arms)
        mean, prior = (
            sum(share * getattr(arm, name) for share, arm in zip(shares, arms, strict=True))
            for name in ("posterior_mean", "prior_mean")
        )
        rows.append(
            ArmResult(
                **_binary_fields(good, pulls),
                name=arms[0].name,
                allocated=sum(arm.allocated for arm in arms),
                pulls=pulls,
                pending=sum(arm.pending for arm in arms),
                rate=total / pulls if pulls else None,
                effective_sample_size=None,
                posterior_mean=mean,
                **{name: column[k] for name, column in drawn.items()},
                seen=f"{total:.15g}/{pulls}" if good is None else f"{good}/{pulls}",
                prior="by segment",
                prior_mean=prior,
            )
        )
    return tuple(rows)


DRAWS_IN_ALL = 100_000
Columns = dict[str, list[Any]]  # fields of `ArmResult`, each with an entry for every arm


def _comparison(arms: int) -> Columns:
    names = ("best", "better_than_control", "uplift", "uplift_interval")
    return {name: [None] * arms for name in names}


def _drawn_in_all(ledger: Ledger, control: int) -> Columns:
    """Return credible intervals, and the comparison of arms, over all segments."""
    problem = ledger.problem
    columns = _comparison(problem.n_arms) | {"credible_interval": [None] * problem.n_arms}
    models = kinds_of(problem)
    if problem.n_arms > MAX_COMPARED or not all(model.has_law for model in models):
        return columns
    rng, means = np.random.default_rng(0), np.zeros((problem.n_arms, DRAWS_IN_ALL))
    for part, segment in zip(ledger.parts, problem.segments, strict=True):
        stats = part.known.stats
        for k, model in enumerate(kinds_of(part.problem)):
            states = np.broadcast_to(stats[k], (DRAWS_IN_ALL, stats[k].size))
            means[k] += segment.share * model.mean_at(model.sample(states, rng))
    base, factor = (ledger.settings.rules or Rules()).pull_values(problem)
    rewards = base[:, None] + factor[:, None] * means
    differences = rewards - rewards[control]
    columns["credible_interval"] = _pairs(np.quantile(means, TAILS, axis=1).T)
    columns["best"] = (
        np.bincount(rewards.argmax(axis=0), minlength=problem.n_arms) / DRAWS_IN_ALL
    ).tolist()
    columns["better_than_control"] = np.mean(differences > 0.0, axis=1).tolist()
    columns["uplift"] = differences.mean(axis=1).tolist()
    columns["uplift_interval"] = _pairs(np.quantile(differences, TAILS, axis=1).T)
    return _without_control(columns, control)


def _pairs(ends: Floats) -> list[Ends]:
    return [(low, high) for low, high in ends.tolist()]


def _without_control(columns: Columns, control: int) -> Columns:
    """Return the columns without a comparison of control with itself."""
    for name in ("better_than_control", "uplift", "uplift_interval"):
        columns[name][control] = None
    return columns


def _binary_fields(good: int | None, pulls: int, arm: Arm | None = None) -> dict[str, Any]:
    """Return the fields of good or bad outcomes; null for others, and without a prior."""
    counted = good is not None and pulls > 0
    prior = None if good is None or arm is None else arm.beta
    return {
        "good": good,
        "exact_interval": rate_interval(good or 0, pulls, "exact") if counted else None,
        "wilson_interval": rate_interval(good or 0, pulls, "wilson") if counted else None,
        "prior_good": None if prior is None else prior.good,
        "prior_bad": None if prior is None else prior.bad,
    }


def credible_interval(model: ArmModel, stats: Floats) -> Ends | None:
    """Return the credible interval of an arm's mean, equal tails; None for Markov arms."""
    return _pairs(model.quantile(stats, TAILS)[None])[0] if model.has_law else None


def posteriors_of(ledger: Ledger) -> list[tuple[float, Ends | None]]:
    """Return posterior mean and credible interval of every arm."""
    pairs = zip(kinds_of(ledger.problem), ledger.known.stats, strict=True)
    return [(float(model.mean(stats)), credible_interval(model, stats)) for model, stats in pairs]


def _compared(problem: Problem, state: State, control: int, rules: Rules) -> Columns:
    """Return P(best), unless there are many arms, P(better than control), uplift; no own states."""
    columns, models = _comparison(problem.n_arms), kinds_of(problem)
    if any(model.ordered for model in models):
        return columns
    by_rewards, states = rules.compare == "reward", States.of(problem, [state])
    comparison = compare_arms(problem, rewards=by_rewards)
    columns["better_than_control"] = comparison.better(states, control)[0].tolist()
    base, factor = rules.pull_values(problem)
    stats = zip(models, state.stats, strict=True)
    means = base + factor * np.array([float(model.mean(own)) for model, own in stats])
    columns["uplift"] = (means - means[control]).tolist()
    if problem.n_arms <= MAX_COMPARED:
        laws = MeanComparison(problem, rewards=by_rewards)
        columns["best"] = comparison.best(states)[0].tolist()
        columns["uplift_interval"] = _pairs(laws.difference_quantiles(states, control, TAILS))
    return _without_control(columns, control)


def rate_interval(good: int, pulls: int, method: Literal["exact", "wilson"]) -> Ends:
    """Return a confidence interval of a rate, by Clopper and Pearson (exact) or by Wilson."""
    from scipy.stats import binomtest

    low, high = binomtest(good, pulls).proportion_ci(LEVEL, method)
    return float(low), float(high)


MAX_BLOCKS, MIN_BLOCK_LENGTH = 12, 5


@record_class()
class ShareBlock:
    """Shares of the arms in a block of consecutive allocations."""

    first: int = doc("Number of its first allocation, cancelled ones not counted, from 1.")
    last: int = doc("Number of its last one.")
    shares: tuple[float, ...] = doc("Share of every arm, in the order of the problem.")


def share_blocks(arms: Sequence[int], n_arms: int, *, stage: int = 1) -> tuple[ShareBlock, ...]:
    """Split the arms of all pulls, not within a `stage`, into at most twelve equal blocks."""
    n = len(arms) // stage
    number = min(MAX_BLOCKS, -(-n // (MIN_BLOCK_LENGTH if stage == 1 else 1)))
    ends = (stage * np.linspace(0, n, number + 1).round().astype(int)).tolist()
    blocks = []
    for start, end in pairwise(ends):
        counts = np.bincount(np.asarray(arms[start:end], dtype=np.int64), minlength=n_arms)
        shares = tuple((counts / (end - start)).tolist())
        blocks.append(ShareBlock(start + 1, end, shares))
    return tuple(blocks)


# -- inference after adaptation: what `designs/inference.py` computes, from the log ---------------

_EXACT = Cache[str, Exact](16)  # by the hash of the tables
AT_END = "when the trial has ended by its rules, with all outcomes"


def inference_of(
    ledger: Ledger, control: int, *, over: bool
) -> tuple[tuple[Inference, ...], dict[str, str]]:
    """Return estimates by method and arm, and why methods are left out; `over`: ended by rules."""
    if ledger.problem.segments:
        return (), {"all methods": "every segment has a policy of its own"}
    if ledger.problem.is_restless:
        return (), {"all methods": "arms change while they are not pulled"}
    policy = decider_of(ledger.settings).ruled
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
        reasons.setdefault("sequence", "only sums of several outcomes are recorded")
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
        logged = ledger.courses[slot.id].probabilities
        if logged and len(logged) == arms:
            rows.append(logged)
        elif arms == 2 and slot.arm is not None and slot.probability is not None:
            row = [1.0 - slot.probability] * 2
            row[ledger.position(slot.arm)] = slot.probability
            rows.append(row)
        else:
            return None
    return np.array(rows).reshape(len(rows), arms)


def _outcomes(ledger: Ledger) -> list[list[float]] | None:
    """Return the outcomes of every arm in order; None where only sums of several are on record."""
    rng = np.random.default_rng(ledger.settings.seed)
    parts, rows = parts_by_arm(ledger.allocations.values()), list[list[float]]()
    for arm, model in zip(ledger.problem.arms, kinds_of(ledger.problem), strict=True):
        row: list[float] = []
        for _, part, value in values(model, parts.get(arm.name, [])):
            if part.good is not None:
                row += rng.permutation([1.0] * part.good + [0.0] * (part.told - part.good)).tolist()
            elif part.told == 1:
                row.append(value)
            else:
                return None
        rows.append(row)
    return rows


def _course(
    ledger: Ledger,
    slots: Sequence[Allocation],
    probabilities: Floats,
    outcomes: list[list[float]] | None,
) -> PlayedCourse:
    """Return the trial as the only one of a course."""
    arms, models = ledger.problem.n_arms, kinds_of(ledger.problem)
    stage_of = {slot.id: stage for stage, slot in enumerate(slots)}
    pulls, totals = np.zeros((len(slots), arms), np.int64), np.zeros((len(slots), arms))
    for name, parts in parts_by_arm(slots).items():
        k = ledger.position(name)
        for slot, part, value in values(models[k], parts):
            pulls[stage_of[slot.id], k] = part.told
            totals[stage_of[slot.id], k] = value
    rows = outcomes or [[] for _ in range(arms)]
    padded = np.zeros((1, arms, max(map(len, rows))))
    for k, row in enumerate(rows):
        padded[0, k, : len(row)] = row
    counts = np.array([list(map(len, rows))])
    return PlayedCourse(probabilities[None], pulls[None], totals[None], padded, counts)


def _exact(
    ledger: Ledger, policy: RuledPolicy, control: int, names: Sequence[str], reasons: dict[str, str]
) -> list[Inference]:
    """Return the odds ratio and the p-value of two arms."""
    exact = _EXACT.get_or_make(ledger.settings.tables_hash, lambda: _law(ledger, policy))
    arm = 1 - control
    good, pulls = np.array([ledger.good]), np.array([ledger.recorded])
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


SEVERAL = "(several)"  # in place of an arm


@record_class()
class LateOutcome:
    """An outcome recorded late, or pending for longer than the limit."""

    allocation: str = doc("Its id.")
    number: int = doc("Number of the allocation, from 1.")
    arm: str = doc("Name of the arm; `(several)` where the allocation has several pulls.")
    asked_at: str = doc("When it was allocated: ISO 8601, UTC.")
    told_at: str | None = doc("When its outcome was first recorded; null while it is pending.")
    hours: float = doc("Between the two, or until the report was made.")


def late_outcomes(ledger: Ledger, limit: timedelta, now: datetime) -> tuple[LateOutcome, ...]:
    """Return outcomes recorded after, or pending for, more than `limit`, by allocation."""
    late = []
    for slot_id, course in ledger.courses.items():
        slot, ended_at = ledger.allocations[slot_id], course.complete_at
        end = now if ended_at is None else datetime.fromisoformat(ended_at)
        passed = end - datetime.fromisoformat(course.asked_at)
        if slot.holds_slots and passed > limit:
            times = (course.asked_at, ended_at, round(passed.total_seconds() / 3600.0, 2))
            late.append(LateOutcome(slot_id, course.number, slot.arm or SEVERAL, *times))
    return tuple(late)


@record_class()
class AuditState:
    """Result of the integrity check of the log."""

    ok: bool = doc("No problem was found.")
    events: int = doc("Events that were checked.")
    head: str = doc("Hash of the last event.")
    problems: tuple[str, ...] = doc("Problems, one sentence each.")
    remarks: tuple[str, ...] = doc("Observations that are no proof of a change.")


@record_class()
class SegmentReport(SegmentStanding):
    """Results of one segment of a trial."""

    arms: tuple[ArmResult, ...] = doc("Results of every arm.")
    looks: tuple[LookResult, ...] = doc("Looks that were made.")
    declared: tuple[str, ...] | None = doc("Arms that the final test declares; null before.")


@record_class()
class TrialReport(Standing):
    """Content of the report of a trial, running or finished."""

    created_by: str = doc("Who created it.")
    reported_at: str = doc("When the report was made: ISO 8601, UTC.")
    control: str = doc("Name of the control arm.")
    level: float = doc("Credible level.")
    parameters: dict[str, float] | None = doc("Tuned parameters of the policy; null without any.")
    ties: str = doc("How ties between arms are broken.")
    versions: tuple[str, ...] = doc("Versions of decobandit that wrote the log.")
    pending: int = doc("Slots with a pending outcome.")
    deploy: float = doc("How many pulls the deployment at the end is worth; 0 without one.")
    arms: tuple[ArmResult, ...] = doc("Results of every arm.")
    shares: tuple[ShareBlock, ...] = doc("Shares of the arms over time.")
    corrections: tuple[Correction, ...] = doc("Outcomes that were replaced.")
    late_after: float = doc("Hours after which an outcome is late.")
    late: tuple[LateOutcome, ...] = doc("Outcomes recorded later than that, or pending for longer.")
    refused: int = doc("Logged requests that contradicted the log and were refused.")
    declared: tuple[str, ...] | None = doc(
        "At the end, arms that the test of the rules declares better than control; without a "
        "control arm, best. Null before the end, and without rules."
    )
    looks: tuple[LookResult, ...] = doc("Looks of rules that stop trials or drop arms.")
    changes: tuple[Change, ...] = doc("Turns, changed limits, unmaskings and reviews.")
    unmasked: dict[str, int] = doc("Number of unmaskings by category.")
    reviewed: int | None = doc("Number of the last event that was reviewed; null before a review.")
    design_report: str | None = doc("SHA-256 of the report of the design; null without one.")
    audit: AuditState = doc("Whether the log is as it was written.")
    segments: tuple[SegmentReport, ...] = doc("Results of every segment, each with its looks.")
    inference: tuple[Inference, ...] = doc("Estimates valid after adaptation, by method and arm.")
    inference_left_out: dict[str, str] = doc("Methods left out, with the reason.")


def report_of(
    ledger: Ledger,
    verified: Verification,
    *,
    control: str | None = None,
    late_after: float = STALE_AFTER,
    now: datetime | None = None,
) -> TrialReport:
    """Report on a trial at one state, with the check of its log."""
    now = now or datetime.now(UTC)
    stale_limit(late_after, now)  # refuses hours that are not allowed
    problem, settings = ledger.problem, ledger.settings
    planned = None if settings.rules is None else settings.rules.control
    at, status = control_of(problem, control or planned), status_of(ledger)
    used = [
        ledger.position(part.arm)
        for slot in ledger.allocations.values()
        if slot.holds_slots
        for part in slot.arms  # pulls of a stage have no order: arm by arm
        for _ in range(part.pulls)
    ]
    of_parts: list[dict[str, Any]] = [
        {
            "arms": arm_results(part, at),
            "looks": look_results(part),
            "declared": declared_arms(part),
        }
        for part in ledger.parts
    ]
    segments = tuple(
        SegmentReport(**_shared(SegmentStanding, segment), **part)
        for part, segment in zip(of_parts, status.segments, strict=False)
    )
    results: dict[str, Any] = of_parts[0]
    if segments:
        arms = results_in_all(ledger, [one.arms for one in segments], at)
        results = {"arms": arms, "looks": (), "declared": None}
    over = status.finished or status.stopped is not None
    inference, left_out = inference_of(ledger, at, over=over)
    return TrialReport(
        **_shared(Standing, status),
        **results,
        created_by=ledger.created_by,
        reported_at=now.isoformat(timespec="seconds"),
        control=problem.arms[at].name,
        level=LEVEL,
        parameters=settings.parameters,
        ties=settings.ties,
        versions=tuple(ledger.versions),
        pending=sum(ledger.open),
        deploy=0.0 if problem.terminal is None else problem.terminal.deploy,
        shares=share_blocks(used, problem.n_arms, stage=problem.pulls_per_stage),
        corrections=tuple(ledger.corrections),
        late_after=late_after,
        late=late_outcomes(ledger, timedelta(hours=late_after), now),
        refused=ledger.refused,
        changes=tuple(ledger.changes),
        unmasked={
            category: sum(one.category == category for one in ledger.changes)
            for category in UNMASK_CATEGORIES
        },
        reviewed=ledger.reviewed,
        design_report=ledger.design_report,
        audit=AuditState(**_shared(AuditState, verified)),
        segments=segments,
        inference=inference,
        inference_left_out=left_out,
    )


def _shared(base: type[Any], status: object) -> dict[str, Any]:
    """Return the fields of a base class of status and report."""
    return {one.name: getattr(status, one.name) for one in fields(base)}
