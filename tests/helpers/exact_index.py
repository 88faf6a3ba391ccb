"""Indices of one arm in exact fractions: values as piecewise linear functions of the price.

A function is a list of points (price, value), and its slopes below the first and above the last.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

Lines = tuple[list[tuple[Fraction, Fraction]], Fraction, Fraction]


def line(at_zero: Fraction, slope: Fraction) -> Lines:
    return [(Fraction(0), at_zero)], slope, slope


def value_at(f: Lines, x: Fraction) -> Fraction:
    points, left, right = f
    if x <= points[0][0]:
        return points[0][1] + left * (x - points[0][0])
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1] + right * (x - points[-1][0])


def weighted(functions: Sequence[Lines], weights: Sequence[Fraction]) -> Lines:
    xs = sorted({x for f in functions for x, _ in f[0]})
    pairs = list(zip(functions, weights, strict=True))
    points = [(x, sum((w * value_at(f, x) for f, w in pairs), Fraction(0))) for x in xs]
    left, right = (sum((w * f[i] for f, w in pairs), Fraction(0)) for i in (1, 2))
    return points, left, right


def zeros(f: Lines) -> list[Fraction]:
    """Prices at which a function is zero; of an interval of them, its ends."""
    points, left, right = f
    found = [x for x, y in points if y == 0]
    found += [
        x0 + (x1 - x0) * y0 / (y0 - y1) for (x0, y0), (x1, y1) in pairwise(points) if y0 * y1 < 0
    ]
    (x0, y0), (x1, y1) = points[0], points[-1]
    found += [x0 - y0 / left] if left and y0 / left > 0 else []
    found += [x1 - y1 / right] if right and y1 / right < 0 else []
    return found


def larger(f: Lines, g: Lines) -> Lines:
    difference = weighted([f, g], [Fraction(1), Fraction(-1)])
    xs = sorted({x for x, _ in difference[0]} | set(zeros(difference)))
    below, *ys, above = (max(value_at(f, x), value_at(g, x)) for x in [xs[0] - 1, *xs, xs[-1] + 1])
    return list(zip(xs, ys, strict=True)), ys[0] - below, above - ys[-1]


def exact_indices(
    after: Callable[[Any], list[tuple[Fraction, Any]]],
    reward: Callable[[int, Any], Fraction],
    stages: int,
    *,
    deploy: Fraction = Fraction(0),
    mean: Callable[[Any], Fraction] = lambda state: Fraction(0),
    last: Callable[[Any], Fraction] = lambda state: Fraction(0),
) -> Callable[[int, Any], Fraction]:
    """Index of a state at a stage: the largest flat price at which a pull is as good as none.

    after: chances of the states that follow a pull; last: rewards after all stages.
    """

    @cache
    def value(t: int, state: Any) -> Lines:
        if t < stages:
            return larger(pulled(t, state), value(t + 1, state))
        table = line(last(state), Fraction(0))
        return larger(table, line(last(state) + deploy * mean(state), -deploy))

    @cache
    def pulled(t: int, state: Any) -> Lines:
        chances, states = zip(*after(state), strict=True)
        worth = line(reward(t, state), Fraction(-1))
        return weighted([worth, *(value(t + 1, s) for s in states)], [Fraction(1), *chances])

    def index(t: int, state: Any) -> Fraction:
        return max(
            zeros(weighted([pulled(t, state), value(t + 1, state)], [Fraction(1), Fraction(-1)]))
        )

    return index
