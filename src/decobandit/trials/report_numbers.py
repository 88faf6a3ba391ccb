"""Numbers of reports as text."""

from __future__ import annotations


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
