"""Posterior probabilities that compare arms: best, better than control, all alike.

With X_k = base_k + factor_k m_k the mean reward of arm k, and F_k its distribution function,

    P(X_k is the largest)     = integral of prod_{j != k} F_j(x) dF_k(x)
    P(X_k > X_c + margin)     = integral of F_c(x - margin) dF_k(x)
    P(all within the margin)  = sum_k integral of prod_{j != k} (F_j(x + margin) - F_j(x)) dF_k(x)

`compare_arms` picks one of two methods, both for many joint states at once:

    BetaComparison    binary arms of equal rewards, priors of at least MIN_PRIOR: to 1e-8
    MeanComparison    any outcome model and rewards, by tables of laws: to 1e-5

Tables have knots, added between two knots until the cubic between them is right in their middle,
and no two hold much probability, or are neighbouring numbers. Near the ends of the means and the
values of classes, where laws of small weights are steep, knots are spaced by powers.

Tables cannot tell apart means that are rounded to the same number, which priors far below 0.01
make likely: these share P(best).

Notations
    E, K      joint states, arms
    N, P      states, knots of all of them
    J, M      outcomes of a pull, points
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre

from ..problem import ArmModel, Problem, Rules, States
from ..support import Floats, Ints
from .allocation import in_parts
from .kernels import comparison as kernels
from .kernels.comparison import Grid, Rows
from .requirements import binary_outcomes

MIN_PRIOR = 0.25
NODES = 16
PANEL_WIDTH = 4.0  # standard deviations of the sharpest posterior
END_PANELS = 30  # by which the ends are refined, each a third of the one before
CHUNK_STATES = 50_000  # joint states whose P(best) is kept
MAX_NODES = 24_000_000  # of all rows, if no two were equal: 770 MB
STATES_PER_THREAD = 2_000
KEY_MULTIPLIER = 1_000_003
HALVINGS_OF_DIFFERENCES = 40  # of an interval around all differences
SMALLEST_STEP = 1e-290  # in which a distribution function rises from 0 to 1
FIRST_SCORES = np.linspace(-8.0, 8.0, 33)  # knots of a table, before more are added
POWERS = 10.0 ** -np.array([1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 240.0])
TOLERANCE = 1e-6  # of a distribution function between two knots
MAX_MASS = 1.0 / 32.0  # between two knots
TAIL = 1e-10  # probability beyond the last knot of an unbounded law
MAX_ROUNDS = 60
MAX_KNOTS = 2_000_000  # of all tables of a model, 48 MB; beyond, tables are computed again
Table = tuple[Floats, Floats, Floats]  # knots, values and slopes of a distribution function
Tables = tuple[Floats, Floats, Floats, Ints]  # x, f, m and start of `kernels.comparison`


def compare_arms(
    problem: Problem, margin: float = 0.0, *, rewards: bool = True, stage: int | None = None
) -> Comparison:
    """Compare arms by the rewards of a pull at one stage, or on average; else by mean outcomes."""
    base, factor = _pull_values(problem, rewards, stage)
    equal = np.ptp(base) == np.ptp(factor) == 0.0 and factor[0] != 0.0
    if equal and binary_outcomes(problem) is None:
        smallest = min(min(group.alpha, group.beta) for group in problem.groups)
        if smallest >= MIN_PRIOR:
            return BetaComparison(problem, margin, float(factor[0]))
    return MeanComparison(problem, margin, rewards=rewards, stage=stage)


def _pull_values(problem: Problem, rewards: bool, stage: int | None) -> tuple[Floats, Floats]:
    if stage is None:
        return Rules(compare="reward" if rewards else "outcome").pull_values(problem)
    groups = problem.arm_groups
    base = np.array([group.reward_base[stage] for group in groups])
    return base, np.array([group.reward_factor[stage] for group in groups])


# -- binary arms of equal rewards ---------------------------------------------------------------


class BetaComparison:
    """Comparison of the posteriors of success probabilities, on one grid for all states.

    Prior parameters must be at least MIN_PRIOR. margin: difference by which an arm must be better,
    or within which arms are equivalent. factor: reward per unit of success probability,
    the same for all arms, not 0; if it is negative, the smallest success probability is best.
    """

    def __init__(self, problem: Problem, margin: float = 0.0, factor: float = 1.0) -> None:
        groups = problem.arm_groups
        self.down = factor < 0.0  # compared by probabilities of bad outcomes
        self.sign = float(np.sign(factor))
        self.alpha = np.array([group.beta if self.down else group.alpha for group in groups])
        self.beta = np.array([group.alpha if self.down else group.beta for group in groups])
        priors = np.stack([self.alpha, self.beta], axis=1)
        self.priors, prior_of_arm = np.unique(priors, axis=0, return_inverse=True)
        self.prior_of_arm = prior_of_arm.reshape(-1)
        self.margin = margin / abs(factor)
        self.total = problem.horizon * problem.pulls_per_stage
        self._last_best = (np.zeros(0, np.int64), np.zeros((0, self.alpha.size), np.int64), priors)

    def best(self, states: States) -> Floats:
        """P(best) of every arm among those allowed, (E, K); 0 for the others."""
        codes = self._codes_of(states, states.allowed)
        # after a look, allocation asks for the same states again
        keys, probabilities = _row_keys(codes), np.zeros(codes.shape)
        last_keys, last_codes, last = self._last_best
        new = np.ones(len(codes), np.bool_)
        if last_keys.size:
            at = np.searchsorted(last_keys, keys).clip(max=last_keys.size - 1)
            new = ~np.asarray((last_codes[at] == codes).all(axis=1))
            probabilities[~new] = last[at[~new]]
        probabilities[new] = self._by_chunk(kernels.best, codes[new], probabilities[new].shape)
        if len(codes) <= CHUNK_STATES:
            order = np.argsort(keys)
            self._last_best = (keys[order], codes[order], probabilities[order])
        return probabilities

    def better(self, states: States, control: int) -> Floats:
        """P(better than control by the margin), (E, K); 0 for control and arms not allowed."""
        allowed = states.allowed
        if allowed is not None:
            allowed = allowed.copy()
            allowed[:, control] = True
        codes = self._codes_of(states, allowed)
        return self._by_chunk(partial(kernels.better, control), codes, codes.shape)

    def alike(self, states: States) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        codes = self._codes_of(states, states.allowed)
        return self._by_chunk(kernels.alike, codes, codes.shape[:1])

    # -- rows ------------------------------------------------------------------------------------

    def _by_chunk(self, kernel: Any, codes: Ints, shape: tuple[int, ...]) -> Floats:
        probabilities = np.zeros(shape)
        size = max(1, MAX_NODES // (codes.shape[1] * self.grid.weight.size))
        for begin in range(0, len(codes), size):
            part = slice(begin, begin + size)
            place, rows = self._rows(codes[part], kernel is not kernels.best)
            work = partial(kernel, self.grid, rows)
            out = probabilities[part]
            in_parts(len(place), STATES_PER_THREAD, partial(_fill, work, place, out))
        return probabilities

    def _codes_of(self, states: States, allowed: npt.NDArray[np.bool_] | None) -> Ints:
        """Codes of state and prior, (E, K): equal arms share rows; -1 for arms not allowed."""
        n = states.pulls
        good = n - states.good if self.down else states.good
        codes = (n * (n + 1) // 2 + good) * len(self.priors) + self.prior_of_arm
        return codes if allowed is None else np.where(allowed, codes, -1)

    def _rows(self, codes: Ints, margin: bool) -> tuple[Ints, Rows]:
        """Rows of all arms in all states, (E, K), and what is in them; -1 where the code is."""
        from scipy.special import betaln  # late: trials do not need scipy

        distinct, place = np.unique(codes, return_inverse=True)
        left_out = int(distinct.size and distinct[0] < 0)
        place = place.reshape(codes.shape) - left_out
        state, prior = np.divmod(distinct[left_out:], len(self.priors))
        n = ((np.sqrt(8.0 * state + 1.0) - 1.0) / 2.0 + 1e-9).astype(np.int64)
        good = state - n * (n + 1) // 2
        a, b = self.priors[prior, 0] + good, self.priors[prior, 1] + (n - good)
        log_beta, (first, last) = betaln(a, b), np.empty((2, a.size), np.int64)
        kernels.windows(self.grid, a, b, log_beta, first, last)
        nodes, shifted = self.grid.weight.size, self.grid.weight.size if margin else 0
        below, between = np.zeros((2, a.size, nodes)), np.zeros((2, a.size, shifted))
        rows = Rows(first, last, *below, *between)
        kernels.fill(self.grid, a, b, log_beta, rows)
        return place, rows

    @cached_property
    def grid(self) -> Grid:
        """Panels narrow enough for the sharpest posterior of the problem."""
        sharpest = self.total + float((self.alpha + self.beta).max())
        panels = max(4, int(np.ceil(np.pi * np.sqrt(sharpest) / PANEL_WIDTH)))
        edges = np.linspace(0.0, np.pi, panels + 1)
        halves = np.concatenate([self.alpha, self.beta]) * 2.0
        if np.any(halves != np.round(halves)):  # densities are no polynomials near the ends
            ends = edges[1] / 3.0 ** np.arange(END_PANELS, 0, -1)
            edges = np.concatenate([edges, ends, np.pi - ends])
        if self.margin != 0.0:  # beyond this point the margin leaves the scale: a kink
            inside = 1.0 - self.margin if self.margin > 0.0 else -self.margin
            kink = 2.0 * np.arcsin(np.sqrt(inside))
            away = edges[1] / 3.0 ** np.arange(END_PANELS) * np.sign(self.margin)
            edges = np.concatenate([edges, [kink], kink - away])
        return _grid(np.unique(edges.clip(0.0, np.pi)), self.margin)


def _fill(work: Any, place: Ints, out: Floats, first: int, last: int) -> None:
    work(place[first:last], out[first:last])


def _row_keys(codes: Ints) -> Ints:
    """One number for each row, to search by; rows are then compared."""
    keys = np.zeros(len(codes), np.int64)
    for column in codes.T:
        keys = keys * KEY_MULTIPLIER + column
    return keys


def _grid(edges: Floats, margin: float) -> Grid:
    x, w = legendre.leggauss(NODES)
    # Legendre coefficients of the polynomials that are 1 at one node and 0 at the others
    basis = np.linalg.inv(legendre.legvander(x, NODES - 1))
    integrals = legendre.legvander(x, NODES) @ legendre.legint(basis, lbnd=-1)
    half = np.diff(edges) / 2.0
    theta = (edges[:-1, None] + half[:, None] * (1.0 + x)).ravel()
    log_p, log_q = 2.0 * np.log(np.sin(theta / 2.0)), 2.0 * np.log(np.cos(theta / 2.0))
    with np.errstate(divide="ignore"):
        edge_p = 2.0 * np.log(np.maximum(np.sin(edges / 2.0), 0.0))
        edge_q = 2.0 * np.log(np.maximum(np.cos(edges / 2.0), 0.0))
    edge_p[-1] = edge_q[0] = 0.0
    edge_q[-1] = -np.inf  # cos(pi / 2) is not quite zero
    shifted = np.sin(theta / 2.0) ** 2 + margin
    target = 2.0 * np.arcsin(np.sqrt(np.clip(shifted, 0.0, 1.0)))
    panel = np.clip(np.searchsorted(edges, target, side="right") - 1, 0, half.size - 1)
    local = (target - edges[panel]) / half[panel] - 1.0
    shift = legendre.legvander(local, NODES - 1) @ basis
    panel = np.where(shifted <= 0.0, -1, np.where(shifted >= 1.0, half.size, panel))
    return Grid(
        edge_p,
        edge_q,
        log_p,
        log_q,
        (half[:, None] * w).ravel(),
        half,
        np.asarray(integrals, dtype=np.float64),
        panel.astype(np.int64),
        shift,
    )


# -- any outcome model --------------------------------------------------------------------------


class MeanComparison:
    """Comparison of mean rewards by tables of their laws, for any outcome model.

    Where laws are too steep for numbers to tell means apart, equal means share P(best). rewards:
    compare the reward of a pull, not the mean outcome. stage: the only one whose rewards count.
    """

    def __init__(
        self,
        problem: Problem,
        margin: float = 0.0,
        *,
        rewards: bool = False,
        stage: int | None = None,
    ) -> None:
        self.margin, self.sign = margin, 0.0
        self.groups = problem.arm_groups
        self._base, self._factor = _pull_values(problem, rewards, stage)

    def best(self, states: States) -> Floats:
        """P(best) of every arm among those allowed, (E, K); 0 for the others."""
        tables, place = self._tables(states, [0.0])
        return _best(tables, _with_allowed(place[0], states))

    def better(self, states: States, control: int) -> Floats:
        """P(better than control by the margin), (E, K); 0 for control and arms not allowed."""
        tables, place = self._tables(states, [0.0, self.margin])
        probabilities = np.zeros(place.shape[1:])
        certain = [self._is_certain(k) for k in range(len(self.groups))]
        for k in range(len(self.groups)):
            if k == control:
                continue
            if certain[k] and certain[control]:  # of equal ones, none is better
                x = tables[0][tables[3][1:] - 1]
                probabilities[:, k] = x[place[0, :, k]] > x[place[1, :, control]]
                continue
            pair = np.stack([place[0, :, k], place[1, :, control]], axis=1)
            probabilities[:, k] = _best(tables, pair)[:, 0]
        allowed = states.allowed
        return probabilities if allowed is None else np.where(allowed, probabilities, 0.0)

    def alike(self, states: States) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        tables, place = self._tables(states, [0.0, -self.margin])
        probabilities = np.zeros(place.shape[1:])
        kernels.products_of_tables(*tables, *_with_allowed(place, states), probabilities)
        return np.asarray(probabilities.sum(axis=1).clip(0.0, 1.0))

    def difference_quantiles(self, states: States, control: int, levels: Floats) -> Floats:
        """Quantiles of mean rewards minus that of control in the first state, (K, levels).

        By bisection of P(X_k - X_c <= d), at all arms and levels together; 0 for control.
        """
        (x, f, m, start), place = self._tables(states, [0.0])
        parts = [(x[i:j], f[i:j], m[i:j]) for i, j in pairwise(start)]
        arms, own = place[0, 0], place[0, 0, control]
        arm, level = (axis.ravel() for axis in np.meshgrid(arms, levels, indexing="ij"))
        low = x[start[arm]] - x[start[own + 1] - 1]
        high = x[start[arm + 1] - 1] - x[start[own]]
        pair = np.stack([arm, len(parts) + np.arange(arm.size)], axis=1)
        for _ in range(HALVINGS_OF_DIFFERENCES):
            middle = 0.5 * (low + high)
            moved = [_as_reward(parts[own], shift, 1.0) for shift in middle.tolist()]
            under = _best(joined([*parts, *moved]), pair)[:, 1] < level
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        quantiles: Floats = (0.5 * (low + high)).reshape(arms.size, -1)
        quantiles[control] = 0.0
        return quantiles

    def _is_certain(self, arm: int) -> bool:
        least, most = self.groups[arm].model.mean_range
        return bool(self._factor[arm] == 0.0 or least == most)

    def _tables(self, states: States, shifts: Sequence[float]) -> tuple[Tables, Ints]:
        """Tables of mean rewards, moved by each of the shifts; those of arms, (shifts, E, K)."""
        parts: list[Table] = []
        place = np.empty((len(shifts), len(states), len(self.groups)), np.int64)
        for k, group in enumerate(self.groups):
            base, factor = float(self._base[k]), float(self._factor[k])
            stats = states.stats[:, k, : group.model.width]
            unique, position = np.unique(stats, axis=0, return_inverse=True)
            tables = law_tables(group.model).of(unique) if factor else []
            for i, shift in enumerate(shifts):
                place[i, :, k] = len(parts) + (position.reshape(-1) if factor else 0)
                if factor:
                    parts += [_as_reward(table, base + shift, factor) for table in tables]
                else:
                    parts.append(_step(base + shift))
        return joined(parts), place


Comparison = BetaComparison | MeanComparison


def _best(tables: Tables, place: Ints) -> Floats:
    """P(largest) of the tables at place (E, K)."""
    probabilities = np.zeros(place.shape)
    kernels.products_of_tables(*tables, place, np.full_like(place, -1), probabilities)
    total = probabilities.sum(axis=1, keepdims=True)
    return np.asarray(probabilities / np.where(total > 0.0, total, 1.0))


def _with_allowed(place: Ints, states: States) -> Ints:
    return place if states.allowed is None else np.where(states.allowed, place, -1)


def _as_reward(table: Table, base: float, factor: float) -> Table:
    """Return the table of base + factor times the mean."""
    x, f, m = table
    if x.size == 2:
        return _step(base + factor * float(x[1]))
    if factor < 0.0:
        x, f, m = x[::-1], 1.0 - f[::-1], m[::-1]
    x, m = base + factor * x, m / abs(factor)
    new = np.append(True, np.diff(x) > 0.0)
    if new.all():
        return x, f, m
    x, f = x[new], np.append(f[new][:-1], f[-1])  # rounding has made some knots equal
    return x, f, slopes(np.zeros(x.size, np.int64), x, f)


def _step(x: float) -> Table:
    """Return the table of a known mean reward: a line as steep as doubles allow."""
    low = min(float(np.nextafter(x, -np.inf)), x - SMALLEST_STEP)
    return np.array([low, x]), np.array([0.0, 1.0]), np.full(2, 1.0 / (x - low))


def joined(parts: list[Table]) -> Tables:
    """Join tables, table after table; there may be none."""
    start = np.cumsum([0, *(part[0].size for part in parts)])
    x, f, m = (np.concatenate([np.empty(0), *(part[i] for part in parts)]) for i in range(3))
    return x, f, m, start


class LawTables:
    """Tables of the law of the mean of one outcome model, kept by state."""

    def __init__(self, model: ArmModel) -> None:
        self.model = model
        least, most = model.mean_range
        corners = {*getattr(model, "values", ()), least, most}
        self._corners = np.array(sorted(c for c in corners if np.isfinite(c)))
        self._kept: dict[bytes, Table] = {}
        self._knots = 0

    def of(self, stats: Floats) -> list[Table]:
        if (tables := self.model.law_knots(stats)) is not None:
            return tables
        cache, keys = self._kept, [state.tobytes() for state in stats]
        new = [i for i, key in enumerate(keys) if key not in cache]
        if new:
            if self._knots > MAX_KNOTS:
                cache, new, self._knots = {}, list(range(len(keys))), 0
            tables = self._compute(stats[new])
            cache = cache | {keys[i]: table for i, table in zip(new, tables, strict=True)}
            self._knots += sum(table[0].size for table in tables)
            self._kept = cache
        return [cache[key] for key in keys]

    def _compute(self, stats: Floats) -> list[Table]:
        least, most = self.model.mean_range
        if least == most:  # a step, as steep as numbers allow
            step = np.array([np.nextafter(least, -np.inf), least])
            return [(step, np.array([0.0, 1.0]), np.zeros(2))] * len(stats)
        row, x = self._first_knots(stats)
        f = self._below(stats, row, x)
        check = np.append(row[1:] == row[:-1], False)  # the interval after a knot
        for _ in range(MAX_ROUNDS):
            i = np.flatnonzero(check)
            mass = f[i + 1] - f[i]
            i = i[mass > TOLERANCE]
            middle = self._middles(x[i], x[i + 1])
            inside = (middle > x[i]) & (middle < x[i + 1])
            i, middle = i[inside], middle[inside]
            if not i.size:
                break
            below = self._below(stats, row[i], middle)
            off = np.abs(below - _cubic(x, f, slopes(row, x, f), i, middle)) > TOLERANCE
            again = off | (f[i + 1] - f[i] > MAX_MASS)
            check[:] = False
            check[i] = again
            row, x, f, check = (
                np.insert(old, i + 1, more)
                for old, more in ((row, row[i]), (x, middle), (f, below), (check, again))
            )
        f = np.maximum.accumulate(f + row) - row  # rounding must not let it fall
        parts, cuts = (x, f, slopes(row, x, f)), np.flatnonzero(np.diff(row)) + 1
        return list(zip(*(np.split(part, cuts) for part in parts), strict=True))

    def _below(self, stats: Floats, row: Ints, x: Floats) -> Floats:
        """Return the distribution function: 0 at the smallest mean, 1 at the largest."""
        below = self.model.cdf(stats[row], x)
        return np.asarray(np.where(x <= self.model.mean_range[0], 0.0, below))

    def _first_knots(self, stats: Floats) -> tuple[Ints, Floats]:
        """Rows and knots, sorted and different."""
        model, (least, most) = self.model, self.model.mean_range
        mean, sd = model.mean(stats), model.sd(stats)
        far = mean + FIRST_SCORES[-1] * sd
        while most == np.inf and (short := 1.0 - model.cdf(stats, far) > TAIL).any():
            far = np.where(short, mean + 2.0 * (far - mean), far)
        scores = mean[:, None] + sd[:, None] * FIRST_SCORES
        scale = np.ptp(self._corners) if np.isfinite(most) else np.abs(mean) + sd
        away = np.broadcast_to(scale, mean.shape)[:, None] * POWERS
        parts = [scores, far[:, None]]
        for corner in self._corners:
            parts += [np.full((len(mean), 1), corner), corner + away, corner - away]
        x = np.sort(np.clip(np.concatenate(parts, axis=1), least, most), axis=1)
        new = np.diff(x, axis=1, prepend=-np.inf) > 0.0
        row = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
        return row[new], x[new]

    def _middles(self, low: Floats, high: Floats) -> Floats:
        """Points between; geometric means of the distances from a corner that is near."""
        middle, corners = 0.5 * (low + high), self._corners
        if corners.size:
            place = np.searchsorted(corners, low, side="right") - 1
            base = corners[np.maximum(place, 0)]
            one, two = low - base, high - base
            near = (place >= 0) & (one > 0.0) & (two > 4.0 * one)
            root = np.sqrt(np.maximum(one, 0.0)) * np.sqrt(np.maximum(two, 0.0))
            middle = np.where(near, base + root, middle)
            place = np.searchsorted(corners, high, side="left")
            base = corners[np.minimum(place, corners.size - 1)]
            one, two = base - high, base - low
            near = ~near & (place < corners.size) & (one > 0.0) & (two > 4.0 * one)
            root = np.sqrt(np.maximum(one, 0.0)) * np.sqrt(np.maximum(two, 0.0))
            middle = np.where(near, base - root, middle)
        return middle


def slopes(row: Ints, x: Floats, f: Floats) -> Floats:
    """Slopes at knots of several tables: of parabolas through neighbours, never falling, (P,)."""
    same = row[1:] == row[:-1]
    h = np.where(same, np.diff(x), 1.0)
    rise = np.where(same, np.diff(f) / h, 0.0)
    m = np.zeros(x.size)
    m[:-1] += np.where(same, rise, 0.0)  # at the ends that of the chord
    ends = np.append(False, same) & ~np.append(same, False)
    m[ends] = rise[np.flatnonzero(ends) - 1]
    inner = np.flatnonzero(np.append(False, same) & np.append(same, False))
    before, after = rise[inner - 1], rise[inner]
    share = h[inner] / (h[inner - 1] + h[inner])
    parabola = before * share + after * (1.0 - share)
    m[inner] = np.clip(parabola, 0.0, 3.0 * np.minimum(before, after))
    return m


def _cubic(x: Floats, f: Floats, m: Floats, i: Ints, y: Floats) -> Floats:
    h, rise = x[i + 1] - x[i], f[i + 1] - f[i]
    s = (y - x[i]) / h
    return np.asarray(
        f[i] + s * rise + s * (1 - s) * ((1 - s) * (m[i] * h - rise) - s * (m[i + 1] * h - rise))
    )


@lru_cache(maxsize=32)
def law_tables(model: ArmModel) -> LawTables:
    """Return the shared tables of an outcome model."""
    return LawTables(model)


# -- laws at many points ------------------------------------------------------------------------


def _is_tabulated(model: ArmModel) -> bool:
    """Whether each value of the distribution function is an integral."""
    least, most = model.mean_range
    return model.quantiles_searched and least < most


def mean_points(model: ArmModel, stats: Floats, z: Floats) -> Floats:
    """Return about the quantiles of the mean at z (L,) of a standard normal law, (E, L)."""
    if _is_tabulated(model):
        points = model.mean(stats)[:, None] + model.sd(stats)[:, None] * z
        return np.clip(points, *model.mean_range)
    from scipy.special import ndtr  # late: scipy takes half a second to load

    return model.quantile(stats[:, None, :], ndtr(z))


def mean_cdf(model: ArmModel, stats: Floats, x: Floats) -> Floats:
    """Return P(mean <= x) in states (E, J, width) at points (E, M), (E, J, M)."""
    if not _is_tabulated(model):
        return model.cdf_ahead(stats, x[:, None, :])
    states, place = np.unique(stats.reshape(-1, stats.shape[-1]), axis=0, return_inverse=True)
    tables = joined(law_tables(model).of(states))
    below = np.empty((*stats.shape[:2], x.shape[1]))
    kernels.table_values(*tables, place.reshape(stats.shape[:2]), np.ascontiguousarray(x), below)
    return below
