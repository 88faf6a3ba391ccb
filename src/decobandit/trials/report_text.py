"""The report of a trial as sections of an HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from markupsafe import Markup

from ..bounds import MEANINGS
from ..figures import report_page as html
from ..figures.design_report import VALUES, rule_facts, stopping
from ..figures.palette import ARM_STYLES, arm_style
from ..figures.svg_figures import Interval, interval_figure, share_figure
from ..problem import Rules
from ..problem.models.base import rounded
from .events import Correction
from .report import ArmResult, SegmentReport, TrialReport

MAX_LOOKS = 100  # in the table: the latest
MAX_INTERVALS = 40  # arms in a figure of intervals: those with the most pulls
MAX_DRAWN = ARM_STYLES  # arms in a figure of shares; the others are one
MAX_LINES = 100  # of a list of deviations
OBSERVED = ["Arm", "Good / recorded", "Pending", "Rate", "95% exact", "95% Wilson"]
SEEN = ["Arm", "On record", "Pending", "Mean"]  # and the intervals where some arm has them
POSTERIOR = ["Arm", "Posterior mean", "95% credible", "P(best)", "P(better than control)"]
POSTERIOR += ["Uplift over control", "95% of uplift"]
ON_RECORD = (
    "On record: good / all; of classes how many outcomes of each, joined by +; of measurements and "
    "counts their sum / how many; of own states the state / pulls."
)


def digits(value: float | None, places: int) -> str:
    """Format a number for a table; zero has no sign."""
    return "–" if value is None else f"{round(value, places) + 0.0:.{places}f}"


def signed(value: float) -> str:
    """Format a difference for a table."""
    shown = digits(value, 3)
    return f"+{shown}" if value > 0.0 else shown


def interval(ends: tuple[float, float] | None) -> str:
    """Format an interval for a table."""
    return "–" if ends is None else f"{digits(ends[0], 3)} – {digits(ends[1], 3)}"


def probability(value: float | None) -> str:
    """Format a probability for a table; none looks certain that is not."""
    if value is None:
        return "–"
    if value < 0.0005:
        return "< 0.001"
    return "> 0.999" if value > 0.9995 else f"{value:.3f}"


def count_with_verb(count: int, noun: str, *, verb: bool = True) -> str:
    """Return a count with its noun: "3 outcomes were", "3 outcomes"."""
    plural = count != 1
    return f"{count} {noun}{'s' * plural}" + (" were" if plural else " was") * verb


def trial_page(report: TrialReport) -> str:
    """Return the report as one HTML page that needs no other file."""
    rules = None if report.rules is None else Rules(**report.rules)
    parts = [([one.name], arm) for one in report.segments for arm in one.arms]
    rows = parts or [([], arm) for arm in report.arms]
    tested = all(arm.effective_sample_size is not None for _, arm in rows)
    chances = [(arm.best, arm.name) for arm in report.arms if arm.best is not None]
    kinds = [f"{n} {category}" for category, n in report.unmasked.items() if n]
    return html.render_page(
        "trial_report.html.j2",
        policy=html.POLICY,
        title=f"Report of the trial {report.name}",
        about=f"{report.policy}, {len(report.arms)} arms, {report.slots} allocations planned. "
        f"Made {_minute(report.reported_at)} UTC.",
        footer=f"decobandit {report.version}. Trial {report.id}, head {report.audit.head}.",
        report=report,
        digits=digits,
        counted=count_with_verb,
        minute=_minute,
        name=shlex.quote(report.name),
        control=shlex.quote(report.control),
        state=state_of(report),
        leading=max(chances) if chances and report.told else None,
        declared=declared(report),
        bound_is=MEANINGS.get(report.best_bound_is or ""),
        results=results(report),
        segments=[(one.name, segment_results(report, one)) for one in report.segments],
        looks=looks(report),
        inference=inference_rows(report),
        inference_titles=INFERENCE,
        no_inference=inference_left_out(report),
        shares=shares(report),
        late_pending=sum(one.told_at is None for one in report.late),
        unmasked=", ".join(kinds),
        most_lines=MAX_LINES,
        tuned=", ".join(f"{name} {value:g}" for name, value in (report.parameters or {}).items()),
        remarks=tuple(f"remark: {text}" for text in report.audit.remarks),
        rules=None if rules is None else rule_facts(rules, tested=tested),
        stopping="" if rules is None else stopping(rules),
        priors=[[*segment, *_prior(arm)] for segment, arm in rows],
        **_deviations(report),
    )


def state_of(report: TrialReport) -> str:
    """Return the state of the trial in one sentence."""
    sentence = f"{report.told} of {report.slots} outcomes are recorded"
    if report.finished:
        return f"The trial is complete: {sentence}."
    pending = _pending(report.pending)
    if report.stopped is not None:
        return f"The trial was stopped by its rules ({report.stopped}): {sentence}{pending}."
    return f"The trial is {report.state}: {sentence}{pending}."


def _pending(number: int) -> str:
    return f", {number} {'is' if number == 1 else 'are'} pending" if number else ""


def declared(report: TrialReport) -> str:
    """Return the result of the final test; empty before the end."""
    if report.declared is None:
        return ""
    claim = "best" if _rule(report, "control") is None else "better than control"
    return f"Declared {claim}: {', '.join(report.declared) or 'no arm'}."


def _rule(report: TrialReport, name: str) -> object:
    return (report.rules or {}).get(name)


def result_tables(report: TrialReport) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return caption, titles and rows of what was observed, and of the posterior."""
    intervals = any(arm.exact_interval is not None for arm in report.arms)
    titles = OBSERVED if _is_binary(report) else SEEN + OBSERVED[len(SEEN) :] * intervals
    observed, posterior = [], []
    for arm in report.arms:
        counts = rounded(arm.seen) if arm.good is None else f"{arm.good} / {arm.pulls}"
        row = [arm.name, counts, str(arm.pending or ""), digits(arm.rate, 3)]
        row += [interval(arm.exact_interval), interval(arm.wilson_interval)]
        observed.append(row[: len(titles)])
        name = arm.name + (" (control)" if arm.name == report.control else "")
        chances = [probability(arm.best), probability(arm.better_than_control)]
        mean = digits(arm.posterior_mean, 3)
        uplift = ["–" if arm.uplift is None else signed(arm.uplift), interval(arm.uplift_interval)]
        posterior.append([name, mean, interval(arm.credible_interval), *chances, *uplift])
    return [("Observed", titles, observed), ("Posterior", POSTERIOR, posterior)]


INFERENCE = ["Method", "Arm", "Estimate", "95% interval", "p"]


def inference_rows(report: TrialReport) -> list[list[str]]:
    """Return a row for each method and arm of inference after adaptation."""
    rows = []
    for one in report.inference:
        ends = one.low, one.high
        bounded = "–" if ends == (None, None) else " – ".join(digits(end, 3) for end in ends)
        p_value = "–" if one.p_value is None else f"{one.p_value:.4f}"
        rows.append([one.method, one.arm, digits(one.estimate, 3), bounded, p_value])
    return rows


def inference_left_out(report: TrialReport) -> list[str]:
    """Return the methods of inference that are left out, with reasons."""
    return [f"{methods}: {reason}" for methods, reason in report.inference_left_out.items()]


def _is_binary(report: TrialReport) -> bool:
    return all(arm.good is not None for arm in report.arms)


def results(report: TrialReport, *, notes: bool = True) -> Markup:
    """Return tables and figure of the arms; `notes`: and how to read them."""
    numbered = sorted(enumerate(report.arms), key=lambda one: -one[1].pulls)[:MAX_INTERVALS]
    rows = [
        Interval(
            arm.name,
            arm.posterior_mean,
            *(arm.credible_interval or (arm.posterior_mean,) * 2),
            other=arm.rate,
            style=arm_style(position),
        )
        for position, arm in sorted(numbered, key=lambda one: one[0])
    ]
    binary, by_outcome = _is_binary(report), _rule(report, "compare") == "outcome"
    points = [x for row in rows for x in (row.low, row.high, row.other) if x is not None]
    room = 0.05 * (max(points) - min(points)) or 0.5
    axis = min(points) - room, max(points) + room
    if binary:
        axis = max(0.0, axis[0]), min(1.0, axis[1])
    quantity = "success probability" if binary else "mean outcome"
    label = f"Posterior mean and 95% credible interval of the {quantity} of each arm"
    return html.render_parts(
        "trial_results.html.j2",
        report=report,
        notes=notes,
        tables=result_tables(report),
        binary=binary,
        drawn=len(rows),
        figure=interval_figure(rows, label=label, axis=quantity, x=axis),
        cut=None if axis[0] <= 0.0 else f"{axis[0]:.3g}",
        on_record=ON_RECORD,
        value="mean outcome of the arm" if by_outcome else "expected reward of a pull of the arm",
    )


def segment_results(report: TrialReport, segment: SegmentReport) -> list[Markup]:
    """Return sentences, tables, figure and looks of one segment."""
    names = ("arms", "looks", "declared", "stopped", "dropped")
    one = replace(report, **{name: getattr(segment, name) for name in names})
    told = f"{segment.told} of {segment.allocated} outcomes are recorded"
    sentences = [
        f"Planned share of the visitors: {segment.share:g}. {told}{_pending(segment.pending)}.",
        f"Stopped by the rules: {segment.stopped}." if segment.stopped else "",
        declared(one),
        f"Dropped at looks: {', '.join(segment.dropped)}." if segment.dropped else "",
    ]
    if segment.upper_bound is not None:
        sentences[0] += (
            " Policies that count its visitors only earn at most "
            f"{digits(segment.upper_bound, 3)} in expectation, at the start."
        )
    texts = [html.paragraph(text) for text in sentences if text]
    return [*texts, results(one, notes=False), looks(one)]


def look_columns(report: TrialReport) -> tuple[list[str], list[list[str]]]:
    """Return the arms that looks compare, and a row for each of the latest looks."""
    arms, rows = list(report.looks[0].probabilities), []
    for look in report.looks[-MAX_LOOKS:]:
        effects = [f"dropped {', '.join(look.dropped)}"] if look.dropped else []
        effects += [f"stopped: {look.stopped}"] if look.stopped else []
        cells = [probability(look.probabilities.get(arm)) for arm in arms]
        rows.append([str(look.outcomes), *cells, "; ".join(effects) or "went on"])
    return arms, rows


def looks(report: TrialReport) -> Markup:
    """Return the table of looks; empty without any."""
    if not report.looks:
        return Markup("")
    arms, looks = look_columns(report)
    control, value = _rule(report, "control"), VALUES[str(_rule(report, "compare") or "reward")]
    return html.render_parts(
        "trial_looks.html.j2", arms=arms, looks=looks, control=control, compared_by=value
    )


def rules_of_trial(report: TrialReport) -> list[Markup]:
    """Return the rules of the design that the trial obeys; none without a design."""
    if report.rules is None:
        return []
    rules = Rules(**report.rules)
    return [html.render_part("facts", rule_facts(rules)), stopping(rules)]


def shares(report: TrialReport) -> list[Markup]:
    """Return the figure of the shares of arms over time."""
    if not report.shares:
        return [html.paragraph("No allocation has been made yet.")]
    arms = report.arms
    order = sorted(range(len(arms)), key=lambda k: -arms[k].allocated)
    shown = sorted(order[:MAX_DRAWN])
    names = [arms[k].name for k in shown]
    blocks = [(one.first, one.last, [one.shares[k] for k in shown]) for one in report.shares]
    rest = len(shown) < len(arms)
    counts = [f"{arms[k].name} {arms[k].allocated}" for k in shown]
    if rest:
        names.append(count_with_verb(len(arms) - len(shown), "other arm", verb=False))
        blocks = [(first, last, [*some, 1.0 - sum(some)]) for first, last, some in blocks]
        counts.append(f"{names[-1]} {sum(arms[k].allocated for k in order[MAX_DRAWN:])}")
    label = "Share of each arm in consecutive allocations"
    return [
        html.drawing(
            share_figure(names, blocks, label=label, rest=rest),
            "Share of each arm in blocks of consecutive allocations, cancelled ones not counted.",
        ),
        html.paragraph(f"Allocations by arm: {', '.join(counts)}."),
    ]


def _deviations(report: TrialReport) -> dict[str, list[list[object]]]:
    """Return the rows of the tables of deviations, by the name of the table."""
    binary = {arm.name for arm in report.arms if arm.good is not None}
    return {
        "cancellations": [
            [one.arm, one.by, one.count, "; ".join(one.reasons)] for one in report.cancellations
        ],
        "corrections": [
            [one.number, one.arm, _correction(one, binary), one.by, _minute(one.at), one.reason]
            for one in report.corrections[-MAX_LINES:]
        ],
        "late": [
            [
                one.number,
                one.arm,
                _minute(one.asked_at),
                "pending" if one.told_at is None else _minute(one.told_at),
                f"{one.hours:.1f}",
            ]
            for one in report.late[-MAX_LINES:]
        ],
        "arm_changes": [
            [
                one.arm,
                "joined" if one.kind == "arm_added" else "left",
                one.stage,
                one.by,
                _minute(one.at),
                one.reason + ("" if one.policy is None else f" (policy: {one.policy})"),
            ]
            for one in report.arm_changes[-MAX_LINES:]
        ],
        "changes": [
            [
                one.kind
                + (f" ({one.category})" if one.category else "")
                + (f" up to event {one.up_to}" if one.up_to is not None else ""),
                one.by,
                _minute(one.at),
                one.reason,
            ]
            for one in report.changes[-MAX_LINES:]
        ],
    }


def _correction(correction: Correction, binary: Collection[str]) -> str:
    """Return "bad to good"; `binary`: names of the arms with binary outcomes."""
    before, after = correction.before, correction.after
    if correction.arm in binary and not isinstance(before, str):
        before, after = ("good" if outcome else "bad" for outcome in (before, after))
    return f"{before} to {after}"


def _prior(arm: ArmResult) -> list[str]:
    size = arm.effective_sample_size
    worth = "–" if size is None else f"{size:g}"
    return [arm.name, arm.prior, digits(arm.prior_mean, 3), worth]


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")
