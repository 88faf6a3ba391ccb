"""The report of a trial as sections of an HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from markupsafe import Markup

from ..bounds import MEANINGS
from ..figures import report_page as html
from ..figures.design_report import VALUES, rule_facts, stopping
from ..figures.palette import SAFE_COLOURS
from ..figures.svg_figures import Interval, interval_figure, share_figure, solid
from ..problem import Rules
from ..problem.models.base import rounded
from .report import Correction, SegmentReport, TrialReport

MAX_LOOKS = 100  # in the table: the latest
MAX_INTERVALS = 40  # arms in a figure of intervals: those with the most pulls
MAX_COLOURS = len(SAFE_COLOURS)  # arms in a figure of shares; the others are one
MAX_LINES = 100  # of a list of deviations
OBSERVED = ["Arm", "Good / recorded", "Pending", "Rate", "95% exact", "95% Wilson"]
SEEN = ["Arm", "On record", "Pending", "Mean"]  # and the intervals where some arm has them
POSTERIOR = ["Arm", "Posterior mean", "95% credible", "P(best)", "P(better than control)"]
# notes on what was observed, and how probabilities are computed
RATES = (
    "Rate: good outcomes per recorded one, with 95% "
    "confidence intervals by Clopper and Pearson (exact) and by Wilson, both as if "
    "the number of pulls had been fixed beforehand; with allocation that adapts to "
    "outcomes, rates tend to be too low and these intervals are approximate.",
    "numerical integration of the independent beta posteriors",
)
ON_RECORD = (
    "On record: good / all; of classes how many outcomes of each, joined by +; of measurements and "
    "counts their sum / how many; of own states the state / pulls."
)
MEANS = (
    f"{ON_RECORD} Mean: of what outcomes count, before the factor of a stage. With allocation "
    "that adapts to outcomes it tends to be too low.",
    "numerical integration of the independent posteriors, to about 0.0001, or, where an arm has "
    "classes, by 100,000 draws, to about 0.002; of arms with own states there are none",
)


IN_ALL = (
    " Over all segments, an arm's mean is that of the segments weighted by their planned shares,"
    " as an average visitor has it; its interval and probabilities are by 100,000 draws, to about "
    "0.002."
)


def digits(value: float | None, places: int) -> str:
    """Format a number for a table; zero has no sign."""
    return "–" if value is None else f"{round(value, places) + 0.0:.{places}f}"


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


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun: "3 outcomes"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def count_with_verb(count: int, noun: str) -> str:
    """Return "3 outcomes were"."""
    return f"{count_of(count, noun)} {'was' if count == 1 else 'were'}"


def trial_page(report: TrialReport) -> str:
    """Return the report as one HTML page that needs no other file.

    Examples
    --------
    >>> from decobandit.trials.report_text import trial_page
    >>> "<script" in trial_page(trial.report())
    False
    """
    return html.report_page(
        f"Report of the trial {report.name}",
        [
            html.section("Summary", *_summary(report)),
            html.section("Results by arm", *results(report)),
            *(
                html.section(f"Segment {one.name}", *segment_results(report, one))
                for one in report.segments
            ),
            *([html.section("Looks", *_looks(report))] if report.looks else []),
            html.section("Allocation over time", *shares(report), whole=True),
            html.section("Deviations", *_deviations(report)),
            html.section("Design and settings", *_settings(report)),
            html.section("State of the log", *_audit(report)),
        ],
        about=f"{report.policy}, {len(report.arms)} arms, {report.slots} allocations planned. "
        f"Made {_minute(report.reported_at)} UTC.",
        footer=f"decobandit {report.version}. Trial {report.id}, head {report.audit.head}.",
    )


# -- summary ------------------------------------------------------------------------------------


def state_of(report: TrialReport) -> str:
    """Return the state of the trial in one sentence."""
    sentence = f"{report.told} of {report.slots} outcomes are recorded"
    if report.finished:
        return f"The trial is complete: {sentence}."
    verb = "is" if report.pending == 1 else "are"
    pending = f", {report.pending} {verb} pending" if report.pending else ""
    if report.stopped is not None:
        return f"The trial was stopped by its rules ({report.stopped}): {sentence}{pending}."
    return f"The trial is {report.state}: {sentence}{pending}."


def declared(report: TrialReport) -> str:
    """Return the result of the final test; empty before the end."""
    if report.declared is None:
        return ""
    claim = "best" if _rule(report, "control") is None else "better than control"
    return f"Declared {claim}: {', '.join(report.declared) or 'no arm'}."


def _rule(report: TrialReport, name: str) -> object:
    return (report.rules or {}).get(name)


def _summary(report: TrialReport) -> list[Markup]:
    leading = ""
    chances = [(arm.best, arm.name) for arm in report.arms if arm.best is not None]
    if chances and report.told:
        chance, name = max(chances)
        percent = "more than 99.9%" if chance > 0.9995 else f"{100.0 * chance:.1f}%"
        leading = f" The arm most probably best is {name}: posterior probability {percent}."
    sentences = [
        state_of(report) + leading,
        declared(report),
        f"Dropped at looks: {', '.join(report.dropped)}." if report.dropped else "",
        f"Arm to deploy after the trial: {report.deployment}." if report.deployment else "",
    ]
    kind = report.best_bound_is
    best = digits(report.best_bound, 3) + ("" if kind is None else f" ({MEANINGS[kind]})")
    deviations = f"{report.cancelled}, {len(report.corrections)}, {len(report.late)}"
    about = (
        "The bound is on the expected total reward of any policy under the priors. From here: "
        "on the expected reward of the pulls that are left, given the recorded outcomes."
    )
    if report.segments:
        about = (
            "The policy of a segment counts its own visitors. Bounds are those of the segments, on "
            "policies that do so, too."
        )
    elif report.upper_bound is None:
        about = "No bound: the dual was not solved for this trial, whose policy needs no prices."
    return [
        *(html.paragraph(text) for text in sentences if text),
        html.facts(
            [
                ("Outcomes recorded", f"{report.told} of {report.slots}"),
                ("Pending", report.pending),
                ("Total reward", f"{report.earned:.7g}"),
                *(
                    []
                    if report.left is None
                    else [("Money spent, left", f"{report.spent:.7g}, {report.left:.7g}")]
                ),
                ("Upper bound at the start", digits(report.upper_bound, 3)),
                ("Best bound at the start", best),
                ("Upper bound from here", digits(report.bound_from_here, 3)),
                ("Cancelled, corrected, late", deviations),
                ("Log", "intact" if report.audit.ok else "NOT INTACT"),
            ]
        ),
        html.paragraph(about, soft=True),
    ]


# -- results ------------------------------------------------------------------------------------


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
        posterior.append([name, mean, interval(arm.credible_interval), *chances])
    return [("Observed", titles, observed), ("Posterior", POSTERIOR, posterior)]


def _is_binary(report: TrialReport) -> bool:
    return all(arm.good is not None for arm in report.arms)


def results(report: TrialReport, *, notes: bool = True) -> list[Markup]:
    """Return tables and figure of the arms; `notes`: and how to read them."""
    numbered = sorted(enumerate(report.arms), key=lambda one: -one[1].pulls)[:MAX_INTERVALS]
    rows = [
        Interval(
            arm.name,
            arm.posterior_mean,
            *(arm.credible_interval or (arm.posterior_mean,) * 2),
            other=arm.rate,
            colour=solid(position),
        )
        for position, arm in sorted(numbered, key=lambda one: one[0])
    ]
    binary = _is_binary(report)
    quantity = "success probability" if binary else "mean outcome"
    label = f"Posterior mean and 95% credible interval of the {quantity} of each arm"
    left_out = len(rows) < len(report.arms)
    caption = (
        "Filled points: posterior mean, with the 95% credible interval. Open points: observed "
        + ("rate." if binary else "mean.")
        + (f" The {len(rows)} arms with the most outcomes." if left_out else "")
    )
    figure = interval_figure(rows, label=label, axis=quantity, x=_axis(rows, binary))
    return [
        *(
            html.table(titles, cells, words=["Arm"], caption=name)
            for name, titles, cells in result_tables(report)
        ),
        html.drawing(figure, caption),
        *(
            [html.paragraph(_how_to_read(report, RATES if binary else MEANS), soft=True)]
            if notes
            else []
        ),
    ]


def segment_results(report: TrialReport, segment: SegmentReport) -> list[Markup]:
    """Return sentences, tables, figure and looks of one segment."""
    verb = "is" if segment.pending == 1 else "are"
    pending = f", {segment.pending} {verb} pending" if segment.pending else ""
    one = replace(report, **{name: getattr(segment, name) for name in _SHOWN_OF_SEGMENT})
    sentences = [
        f"Planned share of the visitors: {segment.share:g}. {segment.told} of "
        f"{segment.allocated} outcomes are recorded{pending}.",
        f"Stopped by the rules: {segment.stopped}." if segment.stopped else "",
        declared(one),
        f"Dropped at looks: {', '.join(segment.dropped)}." if segment.dropped else "",
    ]
    looks = _looks(one) if segment.looks else []
    texts = [html.paragraph(text) for text in sentences if text]
    return [*texts, *results(one, notes=False), *looks]


_SHOWN_OF_SEGMENT = ("arms", "looks", "declared", "stopped", "dropped")


def _axis(rows: Sequence[Interval], binary: bool) -> tuple[float, float]:
    """Return the ends of the axis: 0 and 1 for success probabilities, else the data and 5%."""
    if binary:
        return 0.0, 1.0
    points = [x for row in rows for x in (row.low, row.high, row.other) if x is not None]
    low, high = min(points), max(points)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


def _how_to_read(report: TrialReport, notes: tuple[str, str]) -> str:
    by_outcome = _rule(report, "compare") == "outcome"
    value = "mean outcome of the arm" if by_outcome else "expected reward of a pull of the arm"
    return (
        f"Control: {report.control}. {notes[0]} "
        "Posterior mean and credible interval (equal tails) do not depend on how arms "
        f"were chosen. P(best): posterior probability that the {value} "
        "is the largest; P(better than control): that it exceeds the control's. Both by "
        f"{notes[1]}. Pending outcomes are not counted." + (IN_ALL if report.segments else "")
    )


def look_columns(report: TrialReport) -> tuple[list[str], list[list[str]]]:
    """Return the arms that looks compare, and a row for each of the latest looks."""
    arms, rows = list(report.looks[0].probabilities), []
    for look in report.looks[-MAX_LOOKS:]:
        effects = [f"dropped {', '.join(look.dropped)}"] if look.dropped else []
        effects += [f"stopped: {look.stopped}"] if look.stopped else []
        cells = [probability(look.probabilities.get(arm)) for arm in arms]
        rows.append([str(look.outcomes), *cells, "; ".join(effects) or "went on"])
    return arms, rows


def _looks(report: TrialReport) -> list[Markup]:
    arms, rows = look_columns(report)
    against_control = _rule(report, "control") is not None
    claim = "better than control by the margin" if against_control else "best"
    value = VALUES[str(_rule(report, "compare") or "reward")]
    return [
        html.table(["Outcomes", *arms, "Came to"], rows, words=["Came to"]),
        html.paragraph(
            f"Posterior probability that the arm is {claim} ({value}), by what was recorded at "
            "each look; later corrections do not change it.",
            soft=True,
        ),
    ]


def shares(report: TrialReport) -> list[Markup]:
    """Return the figure of the shares of arms over time."""
    if not report.shares:
        return [html.paragraph("No allocation has been made yet.")]
    arms = report.arms
    order = sorted(range(len(arms)), key=lambda k: -arms[k].allocated)
    shown = sorted(order[:MAX_COLOURS])
    names = [arms[k].name for k in shown]
    blocks = [(one.first, one.last, [one.shares[k] for k in shown]) for one in report.shares]
    rest = len(shown) < len(arms)
    counts = [f"{arms[k].name} {arms[k].allocated}" for k in shown]
    if rest:
        names.append(count_of(len(arms) - len(shown), "other arm"))
        blocks = [(first, last, [*some, 1.0 - sum(some)]) for first, last, some in blocks]
        counts.append(f"{names[-1]} {sum(arms[k].allocated for k in order[MAX_COLOURS:])}")
    label = "Share of each arm in consecutive allocations"
    return [
        html.drawing(
            share_figure(names, blocks, label=label, rest=rest),
            "Share of each arm in blocks of consecutive allocations, cancelled ones not counted.",
        ),
        html.paragraph(f"Allocations by arm: {', '.join(counts)}."),
    ]


# -- deviations ---------------------------------------------------------------------------------


def _deviations(report: TrialReport) -> list[Markup]:
    binary = {arm.name for arm in report.arms if arm.good is not None}
    tables: list[tuple[str, list[str], Iterable[list[str]]]] = [
        (
            "Cancelled allocations",
            ["Arm", "By", "Cancelled", "Reasons"],
            [
                [one.arm, one.by, str(one.count), "; ".join(one.reasons)]
                for one in report.cancellations
            ],
        ),
        (
            "Corrected outcomes",
            ["Allocation", "Arm", "Outcome", "By", "At (UTC)", "Reason"],
            [
                [
                    str(one.number),
                    one.arm,
                    _correction(one, binary),
                    one.by,
                    _minute(one.at),
                    one.reason,
                ]
                for one in report.corrections[-MAX_LINES:]
            ],
        ),
        (
            "Late outcomes",
            ["Allocation", "Arm", "Allocated (UTC)", "Recorded (UTC)", "Hours"],
            [
                [
                    str(one.number),
                    one.arm,
                    _minute(one.asked_at),
                    "pending" if one.told_at is None else _minute(one.told_at),
                    f"{one.hours:.1f}",
                ]
                for one in report.late[-MAX_LINES:]
            ],
        ),
        (
            "Arms that joined and left",
            ["Arm", "Change", "Stage", "By", "At (UTC)", "Reason"],
            [
                [
                    one.arm,
                    "joined" if one.kind == "arm_added" else "left",
                    str(one.stage),
                    one.by,
                    _minute(one.at),
                    one.reason + ("" if one.policy is None else f" (policy: {one.policy})"),
                ]
                for one in report.arm_changes[-MAX_LINES:]
            ],
        ),
        (
            "Changes of the trial",
            ["Change", "By", "At (UTC)", "Reason"],
            [
                [one.kind, one.by, _minute(one.at), one.reason]
                for one in report.changes[-MAX_LINES:]
            ],
        ),
    ]
    numbers = {"Cancelled", "Allocation", "Hours", "Stage"}
    parts = [html.paragraph(_deviation_line(report))]
    for caption, titles, rows in tables:
        if rows:
            words = [title for title in titles if title not in numbers]
            parts.append(html.table(titles, rows, words=words, caption=caption))
    if max(len(report.corrections), len(report.late), len(report.changes)) > MAX_LINES:
        parts.append(html.paragraph(f"Lists show the latest {MAX_LINES} entries.", soft=True))
    return parts


def _deviation_line(report: TrialReport) -> str:
    pending = sum(one.told_at is None for one in report.late)
    unmasked = sum(one.kind == "unmasked" for one in report.changes)
    late = f"{count_of(len(report.late), 'outcome')} took more than {report.late_after:g} hours"
    if pending:
        late += f" ({pending} of them still pending)"
    return (
        f"{count_with_verb(report.cancelled, 'allocation')} cancelled, "
        f"{count_with_verb(len(report.corrections), 'outcome')} corrected, {late}, "
        f"{count_with_verb(report.refused, 'contradictory request')} refused, "
        f"{count_with_verb(unmasked, 'allocation')} unmasked."
    )


def _correction(correction: Correction, binary: Collection[str]) -> str:
    """Return "bad to good"; `binary`: names of the arms with binary outcomes."""
    before, after = correction.before, correction.after
    if correction.arm in binary and not isinstance(before, str):
        before, after = ("good" if outcome else "bad" for outcome in (before, after))
    return f"{before} to {after}"


# -- settings and log ---------------------------------------------------------------------------


def _settings(report: TrialReport) -> list[Markup]:
    batch = "" if report.pulls_per_stage == 1 else f" of {report.pulls_per_stage} pulls"
    pairs = [
        ("Policy", report.policy),
        ("Planned", report.planned),
        ("Stages at most", f"{report.horizon}{batch}"),
        ("Ties", report.ties),
        ("Seed", report.seed),
        ("Created", f"{_minute(report.created_at)} UTC by {report.created_by}"),
        ("Versions that wrote the log", ", ".join(report.versions)),
    ]
    if report.parameters:
        tuned = ", ".join(f"{name} {value:g}" for name, value in report.parameters.items())
        pairs.append(("Parameters of the policy", tuned))
    if report.deploy:
        pairs.append(("Deployment at the end", f"worth {report.deploy:g} pulls"))
    rules, by_part = [], [one.arms for one in report.segments] or [report.arms]
    if report.rules is not None:
        design = Rules(**report.rules)
        text = "Rules of the design, which the trial obeys. Outcomes take as long as they take."
        tested = all(arm.effective_sample_size is not None for arms in by_part for arm in arms)
        facts = html.facts(rule_facts(design, tested=tested))
        rules = [html.paragraph(text), facts, stopping(design)]
    rows = [
        [
            arm.name,
            arm.prior,
            digits(arm.prior_mean, 3),
            "–" if arm.effective_sample_size is None else f"{arm.effective_sample_size:g}",
        ]
        for arms in by_part
        for arm in arms
    ]
    titles = ["Arm", "Prior", "Prior mean", "Effective sample size"]
    if report.segments:
        names = [one.name for one in report.segments for _ in one.arms]
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
        titles = ["Segment", *titles]
    about = (
        "Effective sample size: the outcomes that the prior is worth, the sum of its pseudo-counts."
    )
    if report.upper_bound is not None:
        bound = digits(report.upper_bound, 3)
        about += f" Upper bound on the expected total reward of any policy at the start: {bound}."
        if report.loss_so_far is not None:
            loss = digits(report.loss_so_far, 4)
            about += f" Loss so far, shortfall and congestion against the prices: {loss}."
    return [
        html.facts(pairs),
        *rules,
        html.table(titles, rows, words=["Segment", "Arm", "Prior"], caption="Priors"),
        html.paragraph(about, soft=True),
    ]


def _audit(report: TrialReport) -> list[Markup]:
    audit, name = report.audit, shlex.quote(report.name)
    state = "is as it was written" if audit.ok else "is NOT as it was written"
    control = shlex.quote(report.control)
    return [
        html.paragraph(
            f"The log of {audit.events} events {state}: every hash and link, and the head, were "
            "checked when this report was made."
        ),
        html.bullets([*audit.problems, *(f"remark: {text}" for text in audit.remarks)]),
        html.paragraph(f"Head: {audit.head}"),
        html.paragraph("To check it again, and to make this report again:", soft=True),
        html.commands(
            [
                f"deco trial verify {name} --head {audit.head}",
                f"deco trial replay {name}",
                f"deco trial report {name} --control {control} --out report.html",
            ]
        ),
    ]


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")
