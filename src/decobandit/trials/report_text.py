"""The report of a trial as sections of a page, in a statistician's words."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from markupsafe import Markup

from ..bounds import MEANINGS
from ..figures import report_page as html
from ..figures.design_report import VALUES, rule_facts, stopping
from ..figures.palette import SAFE_COLOURS
from ..figures.svg_figures import (
    Interval,
    interval_figure,
    share_figure,
    solid,
)
from ..problem import Rules
from ..problem.models.base import rounded
from .arm_results import ArmResult
from .report import Correction, TrialReport


def digits(value: float | None, places: int) -> str:
    """A number for a table, where there is one; zero has no sign."""
    return "–" if value is None else f"{round(value, places) + 0.0:.{places}f}"


def interval(ends: tuple[float, float] | None) -> str:
    """An interval for a table, where there is one."""
    return "–" if ends is None else f"{digits(ends[0], 3)} – {digits(ends[1], 3)}"


def probability(value: float | None) -> str:
    """A probability for a table; none is shown as certain that is not."""
    if value is None:
        return "–"
    if value < 0.0005:
        return "< 0.001"
    return "> 0.999" if value > 0.9995 else f"{value:.3f}"


def percent(value: float) -> str:
    """A probability in a sentence."""
    if value > 0.9995:
        return "more than 99.9%"
    return f"{100.0 * value:.1f}%"


def number_of(count: int, what: str) -> str:
    """So many of something, in a sentence."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def were(count: int, what: str) -> str:
    """The same with its verb."""
    return f"{number_of(count, what)} {'was' if count == 1 else 'were'}"


# -- what the report of a trial says about its tables of results, and the axis of their fi----------


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


def how_to_read(control: str, words: tuple[str, str], *, by_outcome: bool = False) -> str:
    """Explain the tables; words: of what was observed, and how chances are computed."""
    observed, method = words
    value = "mean outcome of the arm" if by_outcome else "expected reward of a pull of the arm"
    return (
        f"Control: {control}. {observed} "
        "Posterior mean and credible interval (equal tails) do not depend on how arms "
        f"were chosen. P(best): posterior probability that the {value} "
        "is the largest; P(better than control): that it exceeds the control's. Both by "
        f"{method}. Pending outcomes are not counted."
    )


def scale(rows: Sequence[Interval], binary: bool) -> tuple[float, float]:
    """Ends of the axis: 0 and 1 of success probabilities, else what is drawn and some room."""
    if binary:
        return 0.0, 1.0
    points = [x for row in rows for x in (row.low, row.high, row.other) if x is not None]
    low, high = min(points), max(points)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


# -- the looks of a trial in its report: probabilities, and what each look came to -----------------


MOST_LOOKS = 100  # that are shown: the latest


def look_columns(report: TrialReport) -> tuple[list[str], list[list[str]]]:
    """Names of the arms that looks compare, and what each of the latest looks came to."""
    arms, rows = list(report.looks[0].probabilities), []
    for each in report.looks[-MOST_LOOKS:]:
        came_to = [f"dropped {', '.join(each.dropped)}"] if each.dropped else []
        came_to += [f"stopped: {each.stopped}"] if each.stopped else []
        found = [probability(each.probabilities.get(arm)) for arm in arms]
        rows.append([str(each.outcomes), *found, "; ".join(came_to) or "went on"])
    return arms, rows


def looks(report: TrialReport) -> list[Markup]:
    """The section: a table, and how to read it."""
    arms, rows = look_columns(report)
    of_control = (report.rules or {}).get("control") is not None
    what = "better than control by the margin" if of_control else "best"
    by = (report.rules or {}).get("compare", "reward")
    return [
        html.table(["Outcomes", *arms, "Came to"], rows, words=["Came to"]),
        html.paragraph(
            f"Posterior probability that the arm is {what} ({VALUES[by]}), by what was recorded at "
            "each look; later corrections do not change it.",
            soft=True,
        ),
    ]


# -- the report of a trial as sections of a page, in a statistician's words ------------------------


MAX_DRAWN = 40  # arms in a figure of intervals: those with the most pulls
MAX_COLOURS = len(SAFE_COLOURS)  # arms in a figure of shares; the others are one
MAX_LINES = 100  # of a list of deviations
OBSERVED = ["Arm", "Good / recorded", "Pending", "Rate", "95% exact", "95% Wilson"]
SEEN = ["Arm", "On record", "Pending", "Mean"]  # and the intervals where some arm has them
POSTERIOR = ["Arm", "Posterior mean", "95% credible", "P(best)", "P(better than control)"]


def trial_page(report: TrialReport) -> str:
    """The whole report as one HTML page that needs no other file.

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
            *([html.section("Looks", *looks(report))] if report.looks else []),
            html.section("Allocation over time", *shares(report), whole=True),
            html.section("Deviations", *_deviations(report)),
            html.section("Design and settings", *_settings(report)),
            html.section("State of the log", *_audit(report)),
        ],
        about=f"{report.policy}, {len(report.arms)} arms, {report.slots} allocations planned. "
        f"Made {_time(report.reported_at)}.",
        footer=f"decobandit {report.version}. Trial {report.id}, head {report.audit.head}.",
    )


# -- summary ------------------------------------------------------------------------------------


def state_of(report: TrialReport) -> str:
    """How far the trial is, in one sentence."""
    told = f"{report.told} of {report.slots} outcomes are recorded"
    if report.finished:
        return f"The trial is complete: {told}."
    waiting = f"{report.pending} {'is' if report.pending == 1 else 'are'} pending"
    pending = f", {waiting}" if report.pending else ""
    if report.stopped is not None:
        return f"The trial was stopped by its rules ({report.stopped}): {told}{pending}."
    return f"The trial is {report.state}: {told}{pending}."


def declared(report: TrialReport) -> str:
    """What the test at the end says; nothing before."""
    if report.declared is None:
        return ""
    what = "best" if (report.rules or {}).get("control") is None else "better than control"
    return f"Declared {what}: {', '.join(report.declared) or 'no arm'}."


def _summary(report: TrialReport) -> list[Markup]:
    parts = [html.paragraph(state_of(report) + _leading(report))]
    if report.declared is not None:
        parts.append(html.paragraph(declared(report)))
    if report.dropped:
        parts.append(html.paragraph(f"Dropped at looks: {', '.join(report.dropped)}."))
    if report.deployment is not None:
        parts.append(html.paragraph(f"Arm to deploy after the trial: {report.deployment}."))
    parts.append(
        html.facts(
            [
                ("Outcomes recorded", f"{report.told} of {report.slots}"),
                ("Pending", report.pending),
                ("Total reward", f"{report.earned:.7g}"),
                ("Upper bound at the start", digits(report.upper_bound, 3)),
                ("Best bound at the start", _best_bound(report)),
                ("Upper bound from here", digits(report.bound_from_here, 3)),
                ("Cancelled, corrected, late", _counts(report)),
                ("Log", "intact" if report.audit.ok else "NOT INTACT"),
            ]
        )
    )
    about = (
        "The bound is on the expected total reward of any policy under the priors. From here: "
        "on the expected reward of the pulls that are left, given the recorded outcomes."
    )
    if report.upper_bound is None:
        about = "No bound: the dual was not solved for this trial, whose policy needs no prices."
    parts.append(html.paragraph(about, soft=True))
    return parts


def _best_bound(report: TrialReport) -> str:
    """The smallest bound, and which it is."""
    kind = report.best_bound_is
    said = "" if kind is None else f" ({MEANINGS[kind]})"
    return f"{digits(report.best_bound, 3)}{said}"


def _leading(report: TrialReport) -> str:
    known = [(arm.best, arm.name) for arm in report.arms if arm.best is not None]
    if not known or report.told == 0:
        return ""
    chance, name = max(known)
    return f" The arm most probably best is {name}: posterior probability {percent(chance)}."


def _counts(report: TrialReport) -> str:
    return f"{report.cancelled}, {len(report.corrections)}, {len(report.late)}"


# -- results ------------------------------------------------------------------------------------


def results(report: TrialReport) -> list[Markup]:
    """Table and figure of the arms, and how to read them."""
    drawn = _drawn(report.arms)
    rows = [
        Interval(
            arm.name,
            arm.posterior_mean,
            *(arm.credible_interval or (arm.posterior_mean,) * 2),
            other=arm.rate,
            colour=solid(position),
        )
        for position, arm in drawn
    ]
    binary = all(arm.good is not None for arm in report.arms)
    what = "success probability" if binary else "mean outcome"
    label = f"Posterior mean and 95% credible interval of the {what} of each arm"
    left_out = len(report.arms) - len(drawn)
    intervals = any(arm.exact_interval is not None for arm in report.arms)
    titles = OBSERVED if binary else SEEN + (OBSERVED[len(SEEN) :] if intervals else [])
    caption = (
        "Filled points: posterior mean, with the 95% credible interval. Open points: observed "
        + ("rate." if binary else "mean.")
        + (f" The {len(drawn)} arms with the most outcomes." if left_out else "")
    )
    return [
        html.table(
            titles,
            (_observed(arm)[: len(titles)] for arm in report.arms),
            words=["Arm"],
            caption="Observed",
        ),
        html.table(
            POSTERIOR,
            (_posterior(arm, report.control) for arm in report.arms),
            words=["Arm"],
            caption="Posterior",
        ),
        html.drawing(interval_figure(rows, label=label, axis=what, x=scale(rows, binary)), caption),
        html.paragraph(
            how_to_read(report.control, RATES if binary else MEANS, by_outcome=_by_outcome(report)),
            soft=True,
        ),
    ]


def _by_outcome(report: TrialReport) -> bool:
    return (report.rules or {}).get("compare") == "outcome"


def _observed(arm: ArmResult) -> list[str]:
    return [
        arm.name,
        observed(arm),
        str(arm.pending or ""),
        digits(arm.rate, 3),
        interval(arm.exact_interval),
        interval(arm.wilson_interval),
    ]


def observed(arm: ArmResult) -> str:
    """What is on record of an arm."""
    return rounded(arm.seen) if arm.good is None else f"{arm.good} / {arm.pulls}"


def _posterior(arm: ArmResult, control: str) -> list[str]:
    known = (arm.best, arm.better_than_control)
    return [
        arm.name + (" (control)" if arm.name == control else ""),
        digits(arm.posterior_mean, 3),
        interval(arm.credible_interval),
        *map(probability, known),
    ]


def _drawn(arms: Sequence[ArmResult]) -> list[tuple[int, ArmResult]]:
    """Arms for a figure with their positions: all, or those with the most outcomes."""
    numbered = list(enumerate(arms))
    most = sorted(numbered, key=lambda each: -each[1].pulls)[:MAX_DRAWN]
    return sorted(most, key=lambda each: each[0])


# -- allocation ---------------------------------------------------------------------------------


def shares(report: TrialReport) -> list[Markup]:
    """Figure of the shares of arms over time."""
    if not report.shares:
        return [html.paragraph("No allocation has been made yet.")]
    arms = report.arms
    order = sorted(range(len(arms)), key=lambda k: -arms[k].allocated)
    kept = sorted(order[:MAX_COLOURS]) if len(arms) > MAX_COLOURS else list(range(len(arms)))
    names = [arms[k].name for k in kept]
    blocks = [(each.first, each.last, [each.shares[k] for k in kept]) for each in report.shares]
    rest = len(kept) < len(arms)
    counts = [f"{arms[k].name} {arms[k].allocated}" for k in kept]
    if rest:
        names.append(number_of(len(arms) - len(kept), "other arm"))
        blocks = [(first, last, [*some, 1.0 - sum(some)]) for first, last, some in blocks]
        counts.append(f"{names[-1]} {sum(arms[k].allocated for k in set(order) - set(kept))}")
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
    parts = [html.paragraph(_deviation_line(report))]
    if report.cancellations:
        rows = [
            [each.arm, each.by, str(each.count), "; ".join(each.reasons)]
            for each in report.cancellations
        ]
        parts.append(
            html.table(
                ["Arm", "By", "Cancelled", "Reasons"],
                rows,
                words=["Arm", "By", "Reasons"],
                caption="Cancelled allocations",
            )
        )
    if report.corrections:
        counted = {arm.name for arm in report.arms if arm.good is not None}
        rows = [
            [
                str(each.number),
                each.arm,
                _change(each, counted),
                each.by,
                _at(each.at),
                each.reason,
            ]
            for each in report.corrections[-MAX_LINES:]
        ]
        titles = ["Allocation", "Arm", "Outcome", "By", "At (UTC)", "Reason"]
        parts.append(html.table(titles, rows, words=titles[1:], caption="Corrected outcomes"))
    if report.late:
        rows = [
            [
                str(each.number),
                each.arm,
                _at(each.asked_at),
                "pending" if each.told_at is None else _at(each.told_at),
                f"{each.hours:.1f}",
            ]
            for each in report.late[-MAX_LINES:]
        ]
        titles = ["Allocation", "Arm", "Allocated (UTC)", "Recorded (UTC)", "Hours"]
        parts.append(html.table(titles, rows, words=titles[1:4], caption="Late outcomes"))
    if report.changes:
        rows = [
            [each.kind, each.by, _at(each.at), each.reason] for each in report.changes[-MAX_LINES:]
        ]
        titles = ["Change", "By", "At (UTC)", "Reason"]
        parts.append(html.table(titles, rows, words=titles, caption="Changes of the trial"))
    longest = max(len(report.corrections), len(report.late), len(report.changes))
    if longest > MAX_LINES:
        parts.append(html.paragraph(f"Lists show the latest {MAX_LINES} entries.", soft=True))
    return parts


def _deviation_line(report: TrialReport) -> str:
    pending = sum(each.told_at is None for each in report.late)
    unmasked = sum(each.kind == "unmasked" for each in report.changes)
    late = f"{number_of(len(report.late), 'outcome')} took more than {report.late_after:g} hours"
    if pending:
        late += f" ({pending} of them still pending)"
    return (
        f"{were(report.cancelled, 'allocation')} cancelled, "
        f"{were(len(report.corrections), 'outcome')} corrected, {late}, "
        f"{were(report.refused, 'contradictory request')} refused, "
        f"{were(unmasked, 'allocation')} unmasked."
    )


# -- settings and log ---------------------------------------------------------------------------


def _settings(report: TrialReport) -> list[Markup]:
    each = "" if report.pulls_per_stage == 1 else f" of {report.pulls_per_stage} pulls"
    pairs = [
        ("Policy", report.policy),
        ("Stages", f"{report.horizon}{each}"),
        ("Ties", report.ties),
        ("Seed", report.seed),
        ("Created", f"{_time(report.created_at)} by {report.created_by}"),
        ("Versions that wrote the log", ", ".join(report.versions)),
    ]
    if report.parameters:
        tuned = ", ".join(f"{name} {value:g}" for name, value in report.parameters.items())
        pairs.append(("Parameters of the policy", tuned))
    if report.deploy:
        pairs.append(("Deployment at the end", f"worth {report.deploy:g} pulls"))
    rows = [
        [
            arm.name,
            arm.prior,
            digits(arm.prior_mean, 3),
            "–" if arm.effective_sample_size is None else f"{arm.effective_sample_size:g}",
        ]
        for arm in report.arms
    ]
    return [
        html.facts(pairs),
        *_rules(report),
        html.table(
            ["Arm", "Prior", "Prior mean", "Effective sample size"],
            rows,
            words=["Arm", "Prior"],
            caption="Priors",
        ),
        html.paragraph(
            "Effective sample size: the outcomes that the prior is worth, the sum of its "
            f"pseudo-counts.{_bound_and_loss(report)}",
            soft=True,
        ),
    ]


def _bound_and_loss(report: TrialReport) -> str:
    if report.upper_bound is None:
        return ""
    bound = digits(report.upper_bound, 3)
    said = f" Upper bound on the expected total reward of any policy at the start: {bound}."
    if report.loss_so_far is None:
        return said
    loss = digits(report.loss_so_far, 4)
    return f"{said} Loss so far, shortfall and congestion against the prices: {loss}."


def _rules(report: TrialReport) -> list[Markup]:
    if report.rules is None:
        return []
    rules = Rules(**report.rules)
    said = "Rules of the design, which the trial obeys. Outcomes take as long as they take."
    return [html.paragraph(said), html.facts(rule_facts(rules)), stopping(rules)]


def _audit(report: TrialReport) -> list[Markup]:
    audit, name = report.audit, shlex.quote(report.name)
    state = "is as it was written" if audit.ok else "is NOT as it was written"
    return [
        html.paragraph(
            f"The log of {audit.events} events {state}: every hash and link, and the head, were "
            "checked when this report was made."
        ),
        html.bullets([*audit.problems, *(f"remark: {each}" for each in audit.remarks)]),
        html.paragraph(f"Head: {audit.head}"),
        html.paragraph("To check it again, and to make this report again:", soft=True),
        html.commands(
            [
                f"deco trial verify {name} --head {audit.head}",
                f"deco trial replay {name}",
                f"deco trial report {name} --control {shlex.quote(report.control)} "
                "--out report.html",
            ]
        ),
    ]


# -- words ------------------------------------------------------------------------------------


def _change(correction: Correction, counted: Collection[str]) -> str:
    """What an outcome was and is; counted: arms with good and bad outcomes."""
    before, after = correction.before, correction.after
    if correction.arm in counted and not isinstance(before, str):
        before, after = ("good" if outcome else "bad" for outcome in (before, after))
    return f"{before} to {after}"


def _at(at: str) -> str:
    return at[:16].replace("T", " ")


def _time(at: str) -> str:
    return f"{_at(at)} UTC"
