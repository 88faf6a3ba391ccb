"""Graphs whose rows are grids of posterior means, above V, and their contractions below.

V is convex in the mean. For good and bad outcomes: let g be any number from 0 to n: the state has
the posterior Beta(alpha + g, beta + n - g), and one pull is good with p(g) = (alpha + g) / (alpha +
beta + n), linear in g. One pull later, E[f](g) = p f(g + 1) + (1 - p) f(g), and for convex f

    E[f]'' = p f''(g + 1) + (1 - p) f''(g) + 2 p' (f'(g + 1) - f'(g)) >= 0.

For counts: with r larger by one, the next count is larger by an independent one, so E[V(sum +
count)] has a second difference E[V(y + z + z') - V(y + z) - V(y + z') + V(y)] >= 0. So a step keeps
convexity; rewards of pulls are linear in the mean, the deployment's (deploy * mean - price)^+ is
convex, maxima of convex functions are convex. Terminal tables must be convex in every row: others
are refused (`arm_states.check_convex`).

On a grid, the probabilities of a step are moved to states of the next row, their mean kept. Both
ways to do so are monotone operators, and for convex f

    below: E_b[f] <= E[f] <= E_a[f] :above.

By induction from the last stage, values computed on the grid *above* are at least V in every state,
at any prices: phi computed with them bounds every policy. This is what chords do: between two
states V is replaced by its chord. Values *below* are at most V at any prices, so the minimum of
phi computed with them is at most min phi, and so is the reward of any flow that spends the units
there are, as it is at most that minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..problem import ArmModel, BernoulliModel, NormalModel, PoissonModel, normal_excess
from ..support import Cache, Floats, Ints, refuse_over
from .graph import NONE, NOWHERE, ArmGraph, starts
from .kernels.graph import LAW, RUNS, Graph
from .kernels.transitions import count_reach, count_weights, grid_weights

Flags = npt.NDArray[np.bool_]

POINTS = 512  # of the longest rows of lattices and counts, about, where nothing else is asked for
COARSEST, FINEST = -3, 6  # how often they may be halved; points of a grid are points of finer ones
CACHED_LATTICES = 16


# Good and bad outcomes in units. Points are posterior means, the same in all rows: then a unit
# leaves the mean of a state at a state, and narrow probabilities hardly move.


def good_grid(
    model: BernoulliModel, unit: int, rows: int, points: int, *, below: bool = False
) -> ArmGraph:
    """About so many states per row."""
    alpha, beta = model.good, model.bad
    of_rows, first = _good_rows(alpha, beta, unit, rows, knots_of(alpha, beta, points), below)
    start, good = starts(np.array([row.size for row in of_rows])), np.concatenate(of_rows)
    to, at = np.zeros(good.size, np.int64), np.zeros(good.size + 1, np.int64)
    weights = grid_weights(alpha, beta, unit, rows, start, good, first, below, to, at)
    pulls = np.repeat(np.arange(rows + 1) * unit, np.diff(start))
    mean = (alpha + good) / (alpha + beta + pulls)

    return ArmGraph(
        arrays=Graph(RUNS, start, mean, at, weights, to, NOWHERE, NOWHERE, False),
        model=model,
        pulls=unit,
        steps=1,
        exact=False,
        place=lambda row, stats: _numbers(of_rows, row, stats[..., 0]),
        contract=lambda: good_grid(model, unit, rows, points, below=True),
        good=good,
    )


def _numbers(of_rows: list[Floats], row: Ints, x: Floats) -> Floats:
    """Return numbers in their rows of x (...), beyond the last state as far as from that before."""
    number = np.empty(row.shape)
    for i in np.unique(row):
        here, states = row == i, of_rows[i]
        number[here] = np.interp(x[here], states, np.arange(states.size))
        over = here & (x > states[-1])
        if states.size > 1:
            beyond = (x[over] - states[-1]) / (states[-1] - states[-2])
            number[over] = states.size - 1 + beyond
    return number


def knots_of(alpha: float, beta: float, points: int) -> Floats:
    """Posterior means that are states wherever they are possible, (points,): with the prior's.

    Where V'' has no preferred place the error of chords is least for a density of points
    proportional to the cube root of the density of the mean; of a Beta(alpha, beta) this is a
    Beta((alpha + 2) / 3, (beta + 2) / 3).
    """
    from scipy.special import betaincinv  # late: most commands do not need scipy

    ranks = (np.arange(points) + 0.5) / points
    knots = betaincinv((alpha + 2.0) / 3.0, (beta + 2.0) / 3.0, ranks)
    mean = alpha / (alpha + beta)
    knots[np.argmin(np.abs(knots - mean))] = mean
    return np.unique(knots)


def _good_rows(
    alpha: float, beta: float, unit: int, rows: int, knots: Floats, below: bool
) -> tuple[list[Floats], Ints]:
    """Good outcomes of the states of every row, and the knot that the first of them is.

    Above, a row of no more whole numbers than knots has these; others have both ends beside knots.
    """
    first = np.zeros(rows + 1, dtype=np.int64)
    of_rows = []
    for i in range(rows + 1):
        n = i * unit
        if i == 0 or (n < knots.size and not below):
            of_rows.append(np.arange(n + 1.0))
            first[i] = np.searchsorted(knots, alpha / (alpha + beta)) if i == 0 else 0
            continue
        good = knots * (alpha + beta + n) - alpha
        inside = (good > 0.0) & (good < n)
        first[i] = int(np.argmax(inside))
        between = good[inside]
        of_rows.append(between if below else np.concatenate([[0.0], between, [float(n)]]))
    return of_rows, first


# Counts: the sum so far, on a grid of whole numbers. A row ends where sums seldom lead; there V
# continues as a line of its largest slope. Points are one apart where that is no more than about
# 2,000 to a row, else 2, 4, ... The contraction, where points are one apart: of the sums after a
# step, those beyond the end e count as e, and the smallest ones as one larger, so that the mean is
# kept.

SUMS = 2048  # of the longest row, at most
TAIL = 1e-7  # probability of a sum beyond the end of its row
ROOM = 1 << 12  # counts that the next one may be, at first


def count_graph(model: PoissonModel, unit: int, rows: int, refine: int) -> ArmGraph:
    """Grids with 2^refine times as many points; the sum of a unit is a count of a smaller rate."""
    shape, rate = model.shape, model.rate / unit
    coarse, tops = _ends(shape, rate, rows)
    step = np.maximum(coarse / 2.0 ** (refine - COARSEST), 1.0).astype(np.int64)
    step[tops <= SUMS * 2.0**refine] = 1  # few sums: coarser ones would merge single counts
    last = (tops / step).astype(np.int64)  # number of the last point
    sizes = last + 1
    start = starts(sizes)
    first, up = np.zeros(start[-1], np.int64), np.zeros(start[-1])
    width, weights = np.zeros(rows + 1, np.int64), []
    room = ROOM
    for n in range(rows):
        law = (shape, rate, n, int(step[n]), int(sizes[n]), int(step[n + 1]))
        while (wide := count_reach(*law, room)) == 0:
            room *= 4
            refuse_over(8.0 * room, "the law of a count", "use smaller counts")
        width[n] = wide = min(wide, int(sizes[n + 1]))
        part = np.zeros((sizes[n], wide))
        refuse_over(
            8.0 * part.size * (rows - n), f"a grid for {rows} pulls of counts", "use fewer stages"
        )
        row = slice(start[n], start[n + 1])
        count_weights(*law, int(last[n + 1]), wide, room, first[row], part, up[row])
        weights.append(part.ravel())
    pulls = np.repeat(np.arange(rows + 1.0), sizes)
    sums = np.concatenate([s * np.arange(size) for s, size in zip(step, sizes, strict=True)])
    mean = (shape + sums) / (rate + pulls) / unit
    arrays = _run_arrays(sizes, mean, width, weights, first, up / unit)

    def contract() -> ArmGraph:
        return replace(graph, arrays=_contracted(arrays, up * (rate + pulls + 1.0)), contract=None)

    graph = ArmGraph(
        arrays=arrays,
        model=model,
        pulls=unit,
        steps=1,
        exact=False,
        place=lambda row, stats: stats[..., 1] / step[row],
        contract=contract if step.max() == 1 else None,
    )
    return graph


def _run_arrays(
    sizes: Ints, mean: Floats, width: Ints, weights: list[Floats], to: Ints, up: Floats
) -> Graph:
    """Return rows of these sizes, whose states all lead to as many (`width`) neighbours."""
    at, every = starts(np.repeat(width, sizes)), np.concatenate([*weights, NOWHERE])
    return Graph(RUNS, starts(sizes), mean, at, every, to, up, np.zeros(up.size), False)


def _ends(shape: float, rate: float, rows: int) -> tuple[Floats, Floats]:
    """Spacing of the coarsest grid and the last sum, a multiple of it, of every row."""
    from scipy.stats import nbinom  # late: scipy takes half a second to load

    pulls = np.arange(1.0, rows + 1.0)
    seldom = nbinom.isf(TAIL, shape, rate / (rate + pulls)) + 1.0
    tops = np.concatenate([[0.0], seldom])
    coarse = 2.0 ** (np.ceil(np.log2(np.maximum(tops / SUMS, 1.0))) - COARSEST)
    for n in range(rows):  # what the last sum of a row is expected to lead to is in the next row
        expected = tops[n] + (shape + tops[n]) / (rate + n)
        tops[n + 1] = np.ceil(max(tops[n + 1], expected) / coarse[n + 1]) * coarse[n + 1]
    return coarse, tops


def _contracted(arrays: Graph, missing: Floats) -> Graph:
    """Return a law below the true one in convex order; missing (states,): what its mean lacks."""
    weights = arrays.weights.copy()
    for n in range(arrays.start.size - 2):
        low, high = arrays.start[n], arrays.start[n + 1]
        part = weights[arrays.at[low] : arrays.at[high]].reshape(high - low, -1)
        left = missing[low:high]
        for j in range(part.shape[1] - 1):
            shifted = np.minimum(part[:, j], left)
            part[:, j] -= shifted
            part[:, j + 1] += shifted
            left = left - shifted
    return arrays._replace(weights=weights, up=NOWHERE, down=NOWHERE)


# Any model whose posterior mean and pulls decide all else, and whose V is convex in the mean: knots
# are posterior means, the same in all rows. With G(c) = E(X - c)^+ of the next mean X, by the
# model's `excess`, the chord law has at the point y_j the probability
#
#     w_j = (G(y_{j-1}) - G(y_j)) / (y_j - y_{j-1}) - (G(y_j) - G(y_{j+1})) / (y_{j+1} - y_j).
#
# Rows above have their least mean as their first point, and what leads beyond the last point goes
# there. The contraction: X is cut to [y_L, y_J] and goes to chords, which raise G between two
# points by at most (y_{j+1} - y_j) w_j w_{j+1} / (w_j + w_{j+1}). Cutting lowers G above the mean
# by G(y_J), and E(c - X)^+ below the mean by its value at y_L: L and J are the outermost points
# where that is at least as much as chords add. Probabilities of one side then move to the mean,
# which is a knot, until the mean is kept.

WIDEN = 3.0**0.5  # knots as dense as the cube root of a normal density: its sd times this
SAME_MEAN = 1e-12  # rounding of a mean
RARE = 1e-15  # part of a mean that a law of the next one leaves out


def mean_graph(
    model: ArmModel, unit: int, rows: int, refine: int, *, below: bool = False
) -> ArmGraph:
    """Make a grid with about 512 * 2^refine knots; a unit is so many steps of one pull."""
    knots = _mean_knots(model, round(POINTS * 2.0**refine))
    of_rows = [knots[[np.searchsorted(knots, model.mean(_first(model)))]]]
    for n in range(1, rows + 1):
        least = float(model.mean(model.stats_at(n, np.array(-np.inf))))
        inside = knots[knots > least]
        of_rows.append(inside if below else np.concatenate([[least], inside]))
    sizes = np.array([row.size for row in of_rows])
    start = starts(sizes)
    to, up = np.zeros(start[-1], np.int64), np.zeros(start[-1])
    width, weights = np.zeros(rows + 1, np.int64), []
    for n, (now, later) in enumerate(pairwise(of_rows)):
        stats = model.stats_at(n, now)
        excess = model.excess(stats[:, None, :], later)
        spread = _contracted_means if below else _chords
        law, missing = spread(model.mean(stats), later, excess)
        first = (law > 0.0).argmax(axis=1)
        last = later.size - 1 - (law > 0.0)[:, ::-1].argmax(axis=1)
        width[n] = wide = int((last - first).max()) + 1
        what = f"a grid for {rows} pulls of {model.word} arms"
        refuse_over(8.0 * wide * now.size * (rows - n), what, "use fewer stages")
        first = np.minimum(first, later.size - wide)
        weights.append(np.take_along_axis(law, first[:, None] + np.arange(wide), axis=1).ravel())
        row = slice(start[n], start[n + 1])
        to[row], up[row] = first, missing

    up = NOWHERE if below else up
    return ArmGraph(
        arrays=_run_arrays(sizes, np.concatenate(of_rows), width, weights, to, up),
        model=model,
        pulls=1,
        steps=unit,
        exact=False,
        place=lambda row, stats: _numbers(of_rows, row, model.mean(stats)),
        contract=None if below else lambda: mean_graph(model, unit, rows, refine, below=True),
    )


def _first(model: ArmModel) -> Floats:
    return np.array(model.initial(), dtype=float)


def _mean_knots(model: ArmModel, points: int) -> Floats:
    """Posterior means that are states wherever they are possible, the prior's among them."""
    from scipy.special import ndtr, ndtri  # late: scipy takes half a second to load

    levels = ndtr(WIDEN * ndtri((np.arange(points) + 0.5) / points))
    knots = model.quantile(_first(model)[None, :], levels)
    mean = float(model.mean(_first(model)))
    knots[np.argmin(np.abs(knots - mean))] = mean
    return np.unique(knots)


def _chords(mean: Floats, later: Floats, G: Floats) -> tuple[Floats, Floats]:
    """Return a law on the points of the next row, (N, M), and how far steps lead beyond its end."""
    j, D = np.arange(later.size), np.maximum(G - (mean[:, None] - later), 0.0)
    last = np.minimum((RARE * mean[:, None] < G).sum(axis=1), later.size - 1)
    missing = np.take_along_axis(G, last[:, None], axis=1)
    cut = np.where(j < last[:, None], G - missing, 0.0)
    return _law(later, cut, D, later < mean[:, None]), missing[:, 0]


def _law(later: Floats, G: Floats, D: Floats, left: Flags) -> Floats:
    """Chord weights by E(X - c)^+ at points above the mean, E(c - X)^+ at those below it."""
    cells = np.diff(later)
    rise = np.where(left[:, 1:], np.diff(D, axis=1), cells + np.diff(G, axis=1)) / cells
    ends = np.zeros((len(G), 1)), np.ones((len(G), 1))
    return np.maximum(np.diff(np.concatenate([ends[0], rise, ends[1]], axis=1), axis=1), 0.0)


def _contracted_means(mean: Floats, later: Floats, G: Floats) -> tuple[Floats, Floats]:
    """As `_chords`, of the contraction: nothing lies beyond."""
    N, M = G.shape
    j, left = np.arange(M), later < mean[:, None] * (1.0 - SAME_MEAN)
    middle = left.sum(axis=1)[:, None]  # the mean is this knot
    D = np.maximum(G - (mean[:, None] - later), 0.0)
    w = _law(later, G, D, left)
    raised = np.diff(later) * w[:, :-1] * w[:, 1:] / np.maximum(w[:, :-1] + w[:, 1:], 1e-300)
    above = np.maximum.accumulate(np.where(left[:, :-1], 0.0, raised), axis=1)
    below = np.maximum.accumulate(np.where(left[:, :-1], raised, 0.0)[:, ::-1], axis=1)[:, ::-1]
    none = np.zeros((N, 1))
    high = (np.concatenate([none, above], axis=1) <= G) & (j >= middle) | (j == middle)
    low = (np.concatenate([below, none], axis=1) <= D) & left | (j == middle)
    J, L = M - 1 - high[:, ::-1].argmax(axis=1)[:, None], low.argmax(axis=1)[:, None]
    cut = np.where(j < J, G - np.take_along_axis(G, J, 1), 0.0)
    law = _law(later, cut, np.where(j > L, D - np.take_along_axis(D, L, 1), 0.0), left)
    far = later - np.take_along_axis(np.broadcast_to(later, G.shape), middle, 1)
    off = (law * far).sum(axis=1, keepdims=True)
    side = far * off > 0.0
    room = (law * np.abs(np.where(side, far, 0.0))).sum(axis=1, keepdims=True)
    part = np.where(side, np.minimum(np.abs(off) / np.maximum(room, 1e-300), 1.0), 0.0)
    np.put_along_axis(
        law, middle, np.take_along_axis(law, middle, 1) + (law * part).sum(axis=1)[:, None], 1
    )
    return law * (1.0 - part), np.zeros(N)


# Normal arms: posterior means on one lattice, with spacing h, for all numbers of steps.
#
# After n steps the variance that is left is v_n = noise^2 / (k + n), k = noise^2 / sd^2; the mean
# has moved from the prior's by N(0, sd^2 - v_n), and the next step moves it by X, N(0, v_n -
# v_{n+1}). With G(c) = E(X - c)^+ the hat of the point j h of the lattice is, in expectation,
#
#     w_j = (G((j-1) h) - 2 G(j h) + G((j+1) h)) / h                        (chords)
#
# a law on the lattice that is larger than that of X in convex order. At the ends of a row, and K h
# from the mean, what lies beyond counts as at the end, and G of the end is how far beyond. The
# contraction is the chord law of N(0, s^2), s as large as chords of its G stay below G: then it is
# smaller in convex order than X. It is cut symmetrically where the row ends.

CELLS = POINTS * 2.0**COARSEST  # of the longest row, on the coarsest lattice
REACH = 4.5  # standard deviations of a row on either side of its middle
STEP_REACH = 7.0  # of a step
MOST_LOST = 0.3  # of the variance by a contraction, in squares of the spacing
TRIED, SECTIONS = 16, 4  # of contractions at once, and how often their range is narrowed


def chord_law(h: float, sd: float, reach: int) -> Floats:
    """Probabilities of the points 0 .. reach; of what lies there or beyond; and how far beyond."""
    G = normal_excess(h * np.arange(-1.0, reach + 2.0), sd)
    inner = np.maximum((G[:-2] - 2.0 * G[1:-1] + G[2:]) / h, 0.0)
    return np.concatenate([inner, (G[:-2] - G[1:-1]) / h, G[1:-1]])


def contracted_sd(h: float, sd: float, reach: int) -> float:
    """Return the largest s whose chord law is below N(0, sd^2) in convex order, or 0."""
    from scipy.special import ndtri

    left = h * np.arange(reach + 1)
    largest, high = float(np.sqrt(max(sd**2 - MOST_LOST * h * h, 0.0))), sd
    sure = largest == 0.0
    for _ in range(SECTIONS):
        tried = np.linspace(largest, high, TRIED + 1)[1:]
        G = normal_excess(np.append(left, left[-1] + h), tried[:, None])
        slope = np.diff(G) / h
        # the chord of a cell comes closest to the curve where the slopes agree
        at = np.clip(sd * ndtri(np.clip(1.0 + slope, 0.0, 1.0)), left, left + h)
        below = np.flatnonzero(
            np.all(G[:, :-1] + slope * (at - left) <= normal_excess(at, sd), axis=1)
        )
        best = int(below[-1]) if below.size else -1
        if best + 1 < TRIED:
            high = float(tried[best + 1])
        if best >= 0:
            largest, sure = float(tried[best]), True
    return largest if sure else 0.0


def contracted_law(h: float, sd: float, reach: int) -> Floats:
    """As `chord_law`, of the contraction: nothing lies beyond, what is cut is at the end."""
    s = contracted_sd(h, sd, reach)
    if s == 0.0:
        return np.array([0.0, 0.5, 0.0])  # stays where it is
    law = chord_law(h, s, reach)
    law[2 * (reach + 1) :] = 0.0
    return law


def normal_graph(model: NormalModel, unit: int, rows: int, refine: int) -> ArmGraph:
    """On a lattice of about 512 * 2^refine points; a unit is a measurement with less noise."""
    noise, m0 = float(model.noise_sd / np.sqrt(unit)), model.prior_mean
    ratio = float(f"{model.prior_sd / noise:.14g}")  # arms that differ by a factor share it
    lattice = _CACHE.get_or_make((ratio, rows, refine), lambda: _Lattice(ratio, rows, refine))

    def place(row: Ints, stats: Floats) -> Floats:
        # of an arm whose prior mean is 0: sums less what the mean adds to them
        shift = (stats[..., 1] - m0 * stats[..., 0]) / (model.prior_pulls + stats[..., 0])
        return np.asarray(shift / (noise * lattice.spacing) + lattice.half[row])

    def shifted(arrays: Graph) -> ArmGraph:
        sizes = np.diff(arrays.at)
        within = np.arange(arrays.weights.size) - np.repeat(arrays.at[:-1], sizes)
        is_distance = 3 * within >= 2 * np.repeat(sizes, sizes)  # the last third of every law
        weights = np.where(is_distance, noise, 1.0) * arrays.weights
        arrays = arrays._replace(mean=m0 + noise * arrays.mean, weights=weights)
        return ArmGraph(arrays, model, unit, 1, False, place)

    return replace(shifted(lattice.above), contract=lambda: shifted(lattice.below))


class _Lattice:
    """Means of an arm whose prior mean is 0 and whose noise has a standard deviation of 1."""

    def __init__(self, prior_sd: float, rows: int, refine: int) -> None:
        finer = 2.0 ** (refine - COARSEST)
        of_prior = prior_sd**-2.0
        pulls = np.arange(rows + 2.0)
        left_over = 1.0 / (of_prior + pulls)
        step_sd = np.sqrt(left_over[:-1] * left_over[1:])
        row_sd = prior_sd * np.sqrt(pulls[:-1] / (of_prior + pulls[:-1]))
        h = 2.0 * REACH * max(row_sd[-1], 1e-300) / CELLS
        self.half = (np.ceil(REACH * row_sd / h - 1e-9) * finer).astype(np.int64)
        reach = (np.maximum(np.ceil(STEP_REACH * step_sd / h), 1.0) * finer).astype(np.int64)
        self.spacing = h / finer
        refuse_over(
            16.0 * float((2 * self.half + 1).sum()),
            f"a grid for {rows} pulls of a normal arm",
            "use fewer stages, or a coarser grid",
        )
        self._steps = [
            (self.spacing, float(s), int(r)) for s, r in zip(step_sd, reach, strict=True)
        ]
        self.above = self._graph([chord_law(*step) for step in self._steps], even=False)

    @cached_property
    def below(self) -> Graph:
        """The graph whose laws are contracted: a lower bound."""
        return self._graph([contracted_law(*step) for step in self._steps], even=True)

    def _graph(self, laws: Sequence[Floats], even: bool) -> Graph:
        return Graph(
            layout=LAW,
            start=starts(2 * self.half + 1),
            mean=self.spacing * np.concatenate([np.arange(-a, a + 1) for a in self.half]),
            at=starts(np.array([law.size for law in laws])),
            weights=np.concatenate(laws),
            to=NONE,
            up=NOWHERE,
            down=NOWHERE,
            even=even,
        )


_CACHE = Cache[tuple[float, int, int], _Lattice](CACHED_LATTICES)
