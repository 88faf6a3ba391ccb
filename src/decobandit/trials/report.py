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

from ..designs.inference import Inference
from ..policies.comparison import MeanComparison, compare_arms
from ..problem import Arm, ArmModel, Problem, Rules, State, States
from ..support import Floats
from ..support.records import doc, record_class
from .allocations import Allocation, ArmPulls, kinds_of, parts_by_arm, tallies
from .decider import LookResult, declared_arms, look_results
from .errors import TrialError
from .estimates import inference_of
from .ledger import Ledger
from .lists import STALE_AFTER, stale_limit
from .requests import UNMASK_CATEGORIES, Change, Correction
from .status import Deciders, SegmentStanding, Standing, Status, status_of
from .verification import Verification

LEVEL = 0.95
TAILS = np.array([(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
MAX_COMPARED = 300  # arms up to which P(best) is computed: about 2 s
Ends = tuple[float, float]
Uplift = tuple[float | None, Ends | None]
NO_UPLIFT: Uplift = (None, None)


@record_class()
class ArmResult:
    """Results of an arm."""

    name: str = doc("Name of the arm.")
    allocated: int = doc("Allocations that hold a slot.")
    pulls: int = doc("Recorded outcomes.")
    good: int | None = doc("Good ones among them; null where outcomes are not good or bad.")
    pending: int = doc("Allocations whose outcome is not recorded.")
    rate: float | None = doc(
        "Good outcomes per recorded one, or their mean; null before the first."
    )
    exact_interval: Ends | None = doc(
        "95% confidence interval of the rate by Clopper and Pearson, for a fixed number of pulls."
    )
    wilson_interval: Ends | None = doc("The same by Wilson's score method.")
    prior_good: float | None = doc("Pseudo-count of good outcomes of the prior.")
    prior_bad: float | None = doc("Pseudo-count of bad outcomes of the prior.")
    effective_sample_size: float | None = doc(
        "Outcomes that the prior is worth: the sum of its pseudo-counts, or what answers to it."
    )
    posterior_mean: float = doc("Of the success probability, or of the mean of outcomes.")
    credible_interval: Ends | None = doc(
        "95% of the posterior, with equal tails; null of own states."
    )
    best: float | None = doc(
        "Posterior probability that its expected reward of a pull is the largest, or its mean "
        "outcome where the rules compare outcomes; null with very many arms."
    )
    better_than_control: float | None = doc(
        "Posterior probability that it exceeds the control's; null for the control."
    )
    uplift: float | None = doc(
        "Posterior mean of what P(better than control) compares, minus the control's; null for the "
        "control and of own states."
    )
    uplift_interval: Ends | None = doc(
        "95% of the posterior of this difference, with equal tails; null with very many arms too."
    )
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
        raise TrialError(
            f"control: no arm is called {control!r}; the arms are {shown}", field="control"
        )
    return names.index(control)


def arm_results(ledger: Ledger, control: int) -> tuple[ArmResult, ...]:
    """Return the results of every arm, in the order of the problem; of one segment at a time."""
    problem, state = ledger.problem, ledger.known
    best, better, uplifts = _compared(problem, state, control, ledger.settings.rules or Rules())
    written, stats = str(state).split(","), state.stats
    parts, results = parts_by_arm(ledger.allocations.values()), []
    for k, (arm, model) in enumerate(zip(problem.arms, kinds_of(problem), strict=True)):
        pulls, fresh = state.pulls[k], np.array(model.initial(), dtype=float)
        results.append(
            ArmResult(
                name=arm.name,
                allocated=pulls + ledger.open[k],
                pulls=pulls,
                pending=ledger.open[k],
                **_binary_fields(state.good[k] if model.counts_good else None, pulls, arm),
                rate=_observed_mean(model, parts.get(arm.name, [])),
                effective_sample_size=model.prior_pulls,
                posterior_mean=float(model.mean(stats[k])),
                credible_interval=credible_interval(model, stats[k]),
                best=best[k],
                better_than_control=better[k],
                uplift=uplifts[k][0],
                uplift_interval=uplifts[k][1],
                seen=written[k],
                prior=model.format.describe(model.initial()),
                prior_mean=float(model.mean(fresh)),
            )
        )
    return tuple(results)


def results_in_all(
    ledger: Ledger, by_segment: Sequence[Sequence[ArmResult]], control: int
) -> tuple[ArmResult, ...]:
    """Return the results of every arm over all segments, as an average visitor has them.

    An arm's mean is that of the segments weighted by their shares; its law is drawn.
    """
    problem, rows = ledger.problem, list[ArmResult]()
    shares = [segment.share for segment in problem.segments]
    intervals, best, better, uplifts = _drawn_in_all(ledger, control)
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
                credible_interval=intervals[k],
                best=best[k],
                better_than_control=better[k],
                uplift=uplifts[k][0],
                uplift_interval=uplifts[k][1],
                seen=f"{good}/{pulls}" if good is not None else f"{total:.15g}/{pulls}",
                prior="by segment",
                prior_mean=prior,
            )
        )
    return tuple(rows)


DRAWS_IN_ALL = 100_000


def _drawn_in_all(ledger: Ledger, control: int) -> tuple[list[Ends | None], *Chances]:
    """Return credible intervals, and the comparison of arms, over all segments."""
    problem = ledger.problem
    none: list[float | None] = [None] * problem.n_arms
    models = kinds_of(problem)
    if problem.n_arms > MAX_COMPARED or not all(model.has_law for model in models):
        return [None] * problem.n_arms, none, none, [NO_UPLIFT] * problem.n_arms
    rng, means = np.random.default_rng(0), np.zeros((problem.n_arms, DRAWS_IN_ALL))
    for part, segment in zip(ledger.parts, problem.segments, strict=True):
        stats = part.known.stats
        for k, model in enumerate(kinds_of(part.problem)):
            states = np.broadcast_to(stats[k], (DRAWS_IN_ALL, stats[k].size))
            means[k] += segment.share * model.mean_at(model.sample(states, rng))
    intervals: list[Ends | None] = [
        (float(low), float(high)) for low, high in np.quantile(means, TAILS, axis=1).T
    ]
    base, factor = (ledger.settings.rules or Rules()).pull_values(problem)
    rewards = base[:, None] + factor[:, None] * means
    best: list[float | None] = (
        np.bincount(rewards.argmax(axis=0), minlength=problem.n_arms) / DRAWS_IN_ALL
    ).tolist()
    better: list[float | None] = np.mean(rewards > rewards[control], axis=1).tolist()
    better[control] = None
    differences = rewards - rewards[control]
    uplifts = _uplifts(differences.mean(axis=1), np.quantile(differences, TAILS, axis=1).T, control)
    return intervals, best, better, uplifts


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


def _observed_mean(model: ArmModel, parts: list[tuple[Allocation, ArmPulls]]) -> float | None:
    number = sum(part.told for _, part in parts)
    rows = tallies(model, parts)
    total = sum(
        model.format.tally_value(before, tally) for _, part, before, tally in rows if part.told
    )
    return total / number if number else None


def credible_interval(model: ArmModel, stats: Floats) -> Ends | None:
    """Return the credible interval of an arm's mean, equal tails; None for Markov arms."""
    if not model.has_law:
        return None
    low, high = model.quantile(stats, TAILS).tolist()
    return low, high


def posteriors_of(ledger: Ledger) -> list[tuple[float, Ends | None]]:
    """Return posterior mean and credible interval of every arm."""
    pairs = zip(kinds_of(ledger.problem), ledger.known.stats, strict=True)
    return [(float(model.mean(stats)), credible_interval(model, stats)) for model, stats in pairs]


Chances = tuple[list[float | None], list[float | None], list[Uplift]]


def _compared(problem: Problem, state: State, control: int, rules: Rules) -> Chances:
    """Return P(best), unless there are many arms, P(better than control), uplift; no own states."""
    none: list[float | None] = [None] * problem.n_arms
    if any(model.ordered for model in kinds_of(problem)):
        return none, none, [NO_UPLIFT] * problem.n_arms
    by_rewards, many = rules.compare == "reward", problem.n_arms > MAX_COMPARED
    comparison = compare_arms(problem, rewards=by_rewards)
    states = States.of(problem, [state])
    better: list[float | None] = comparison.better(states, control)[0].tolist()
    better[control] = None
    base, factor = rules.pull_values(problem)
    stats = zip(kinds_of(problem), state.stats, strict=True)
    means = base + factor * np.array([float(model.mean(own)) for model, own in stats])
    ends = None
    if not many:
        laws = MeanComparison(problem, rewards=by_rewards)
        ends = laws.difference_quantiles(states, control, TAILS)
    best = none if many else comparison.best(states)[0].tolist()
    return best, better, _uplifts(means - means[control], ends, control)


def _uplifts(means: Floats, ends: Floats | None, control: int) -> list[Uplift]:
    """Return mean and interval of each difference; none for control."""
    intervals = (
        [None] * means.size if ends is None else [(low, high) for low, high in ends.tolist()]
    )
    uplifts: list[Uplift] = list(zip(means.tolist(), intervals, strict=True))
    uplifts[control] = NO_UPLIFT
    return uplifts


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
    """Split the arms of all pulls into at most twelve blocks of about equal length.

    `stage`: pulls of a stage, which are not split.
    """
    n = len(arms) // stage
    number = min(MAX_BLOCKS, -(-n // (MIN_BLOCK_LENGTH if stage == 1 else 1)))
    ends = (stage * np.linspace(0, n, number + 1).round().astype(int)).tolist()
    blocks = []
    for start, end in pairwise(ends):
        counts = np.bincount(np.asarray(arms[start:end], dtype=np.int64), minlength=n_arms)
        shares = tuple((counts / (end - start)).tolist())
        blocks.append(ShareBlock(start + 1, end, shares))
    return tuple(blocks)


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
    """Content of the report of a trial, running or finished.

    Examples
    --------
    >>> report = trial.report()
    >>> report.control, report.told, report.audit.ok
    ('arm-1', 0, True)
    """

    created_by: str = doc("Who created it.")
    reported_at: str = doc("When the report was made: ISO 8601, UTC.")
    control: str = doc("Name of the control arm.")
    level: float = doc("Credible level.")
    parameters: dict[str, float] | None = doc(
        "Tuned parameters of the policy; null if it has none."
    )
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
    looks: tuple[LookResult, ...] = doc(
        "Looks that were made, where the rules stop trials or drop arms."
    )
    changes: tuple[Change, ...] = doc(
        "Closing, reopening, archiving, locking, changed limits, unmasking, reviews."
    )
    unmasked: dict[str, int] = doc("Number of unmaskings by category.")
    reviewed: int | None = doc("Number of the last event that was reviewed; null before a review.")
    design_report: str | None = doc(
        "SHA-256 of the report of the design that the trial came from; null without one."
    )
    audit: AuditState = doc("Whether the log is as it was written.")
    segments: tuple[SegmentReport, ...] = doc(
        "Results of every segment, each with its own looks; none in a trial without segments."
    )
    inference: tuple[Inference, ...] = doc(
        "Estimates that hold although outcomes chose the arms, by method and arm."
    )
    inference_left_out: dict[str, str] = doc(
        "Methods of inference that are left out, with the reason."
    )


def report_of(
    ledger: Ledger,
    deciders: Deciders,
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
    at, status = control_of(problem, control or planned), status_of(ledger, deciders)
    used = [
        ledger.position(part.arm)
        for slot in ledger.allocations.values()
        if slot.holds_slots
        for part in slot.arms  # pulls of a stage have no order: arm by arm
        for _ in range(part.pulls)
    ]
    segments = _segment_reports(ledger, deciders, status, at)
    decider = None if segments else deciders(ledger)
    if decider is not None:
        arms, looks = arm_results(ledger, at), look_results(ledger, decider.ruled)
        declared = declared_arms(ledger, decider.ruled)
    else:
        arms, looks = results_in_all(ledger, [one.arms for one in segments], at), ()
        declared = None
    over = status.finished or status.stopped is not None
    inference, left_out = inference_of(ledger, decider, at, over=over)
    return TrialReport(
        **_shared(Standing, status),
        created_by=ledger.created_by,
        reported_at=now.isoformat(timespec="seconds"),
        control=problem.arms[at].name,
        level=LEVEL,
        parameters=settings.parameters,
        ties=settings.ties,
        versions=tuple(ledger.versions),
        pending=sum(ledger.open),
        deploy=0.0 if problem.terminal is None else problem.terminal.deploy,
        arms=arms,
        looks=looks,
        declared=declared,
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


def _segment_reports(
    ledger: Ledger, deciders: Deciders, status: Status, control: int
) -> tuple[SegmentReport, ...]:
    """Report on every segment; none in a trial without segments."""
    return tuple(
        SegmentReport(
            **_shared(SegmentStanding, segment),
            arms=arm_results(part, control),
            looks=look_results(part, deciders(part).ruled),
            declared=declared_arms(part, deciders(part).ruled),
        )
        for part, segment in zip(ledger.parts, status.segments, strict=False)
    )


def _shared(base: type[Any], status: object) -> dict[str, Any]:
    """Return the fields of a base class of status and report."""
    return {one.name: getattr(status, one.name) for one in fields(base)}
