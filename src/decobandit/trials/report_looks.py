"""The looks of a trial in its report: probabilities, and what each look came to."""

from __future__ import annotations

from markupsafe import Markup

from ..figures import report_page as html
from ..figures.design_report import VALUES
from .report import TrialReport
from .report_numbers import probability

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
