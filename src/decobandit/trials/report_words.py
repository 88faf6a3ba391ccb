"""What the report of a trial says about its tables of results, and the axis of their figure."""

from __future__ import annotations

from collections.abc import Sequence

from ..figures.svg_figures import Interval

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
