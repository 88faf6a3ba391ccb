"""Posterior probabilities that compare arms: best, better than control, all alike.

With X_k = base_k + factor_k m_k the mean reward of arm k, and F_k its distribution function,

    P(X_k is the largest)     = integral of prod_{j != k} F_j(x) dF_k(x)
    P(X_k > X_c + margin)     = integral of F_c(x - margin) dF_k(x)
    P(all within the margin)  = sum_k integral of prod_{j != k} (F_j(x + margin) - F_j(x)) dF_k(x)

`compare_arms` picks one of two methods, both for many joint states at once:

    BetaComparison    binary arms of equal rewards, priors of at least MIN_PRIOR: to 1e-8
    MeanComparison    any outcome model and rewards, by tables of laws (`mean_laws.py`): to 1e-5

`best_probabilities` has P(best) of binary arms of any rewards and priors to about 1e-12, in one
state: exact evaluation of Thompson sampling, and reports.

Notations
    E, K      joint states, arms
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ..problem import Problem, Rules, States
from ..support import Floats, Ints, InvalidArgument
from .allocation import in_parts
from .kernels import comparison as kernels
from .kernels.comparison import Grid, Rows
from .mean_laws import Table, Tables, joined, law_tables, slopes
from .requirements import binary_outcomes

MIN_PRIOR = 0.25
NODES = 16
PANEL_WIDTH = 4.0  # standard deviations of the sharpest posterior
END_PANELS = 30  # by which the ends are refined, each a third of the one before
CHUNK_STATES = 50_000  # joint states at a time: bounds the memory of rows
STATES_PER_THREAD = 2_000
MAX_NODES = 3_000_000  # of rows in memory, 96 MB; beyond, rows are computed again
KEY_MULTIPLIER = 1_000_003
Fill = Callable[[Grid, Rows, Ints, Floats], None]
HALVINGS_OF_DIFFERENCES = 32  # of an interval of some standard deviations
SMALLEST_STEP = 1e-290  # in which a distribution function rises from 0 to 1


def compare_arms(
    problem: Problem, margin: float = 0.0, *, rewards: bool = True, stage: int | None = None
) -> Comparison:
    """Return the comparison of arms by the rewards of a pull, at one stage or on average.

    rewards=False: by mean outcomes.
    """
    base, factor = _pull_values(problem, rewards, stage)
    equal = np.ptp(base) == np.ptp(factor) == 0.0 and factor[0] != 0.0
    if equal and fits_beta(problem):
        return BetaComparison(problem, margin, float(factor[0]))
    return MeanComparison(problem, margin, rewards=rewards, stage=stage)


def _pull_values(problem: Problem, rewards: bool, stage: int | None) -> tuple[Floats, Floats]:
    """Return base and factor, (arms,) each."""
    if stage is None:
        return Rules(compare="reward" if rewards else "outcome").pull_values(problem)
    groups = problem.arm_groups
    base = np.array([group.reward_base[stage] for group in groups])
    return base, np.array([group.reward_factor[stage] for group in groups])


def fits_beta(problem: Problem) -> bool:
    """Whether arms are binary, and the parameters of their priors not too small for the grid."""
    return binary_outcomes(problem) is None and _smallest_prior(problem) >= MIN_PRIOR


def _smallest_prior(problem: Problem) -> float:
    return min(min(group.alpha, group.beta) for group in problem.groups)


# -- binary arms of equal rewards ---------------------------------------------------------------


class BetaComparison:
    """Comparison of the posteriors of success probabilities, on one grid for all states.

    Priors below MIN_PRIOR are refused. margin: difference by which an arm must be better, or within
    which arms are alike. factor: reward per unit of success probability, the same for all arms, not
    0; if it is negative, the arm of the smallest success probability is best.
    """

    def __init__(self, problem: Problem, margin: float = 0.0, factor: float = 1.0) -> None:
        smallest = _smallest_prior(problem)
        if smallest < MIN_PRIOR:
            raise InvalidArgument(
                f"prior: a parameter of {smallest:g} is too small for posterior probabilities of "
                f"designs; must be at least {MIN_PRIOR:g}",
                field="prior",
            )
        groups = problem.arm_groups
        self.down = factor < 0.0  # compared by probabilities of bad outcomes
        self.alpha = np.array([group.beta if self.down else group.alpha for group in groups])
        self.beta = np.array([group.alpha if self.down else group.beta for group in groups])
        priors = np.stack([self.alpha, self.beta], axis=1)
        self.priors, prior_of_arm = np.unique(priors, axis=0, return_inverse=True)
        self.prior_of_arm = prior_of_arm.reshape(-1)
        self.margin = margin / abs(factor)
        self.total = problem.horizon * problem.pulls_per_stage
        self._lock = Lock()
        self._clear()
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

        def fill(grid: Grid, rows: Rows, place: Ints, probabilities: Floats) -> None:
            kernels.better(grid, rows, place, control, probabilities)

        return self._by_chunk(fill, codes, codes.shape)

    def alike(self, states: States) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        codes = self._codes_of(states, states.allowed)
        return self._by_chunk(kernels.alike, codes, codes.shape[:1])

    # -- rows ------------------------------------------------------------------------------------

    def _by_chunk(self, fill: Fill, codes: Ints, shape: tuple[int, ...]) -> Floats:
        probabilities = np.zeros(shape)
        for begin in range(0, len(codes), CHUNK_STATES):
            part = slice(begin, begin + CHUNK_STATES)
            with self._lock:
                place, rows = np.ascontiguousarray(self._places(codes[part])), self._rows
            work = partial(self._fill_part, fill, rows, place, probabilities[part])
            in_parts(len(place), STATES_PER_THREAD, work)
        return probabilities

    def _fill_part(
        self, fill: Fill, rows: Rows, place: Ints, out: Floats, first: int, last: int
    ) -> None:
        fill(self.grid, rows, place[first:last], out[first:last])

    def _codes_of(self, states: States, allowed: npt.NDArray[np.bool_] | None) -> Ints:
        """Codes of state and prior, (E, K): equal arms share rows; -1 for arms not allowed."""
        n = states.pulls
        good = n - states.good if self.down else states.good
        codes = (n * (n + 1) // 2 + good) * len(self.priors) + self.prior_of_arm
        return codes if allowed is None else np.where(allowed, codes, -1)

    def _places(self, codes: Ints) -> Ints:
        """Rows of all arms in all states, (E, K); missing ones are filled. -1 where the code is."""
        place = self._rows_of(codes)
        missing = (place < 0) & (codes >= 0)
        if missing.any():
            if self._used[0] > MAX_NODES:
                self._clear()
                missing = codes >= 0
            self._add(np.unique(codes[missing]))
            place = self._rows_of(codes)
        return place

    def _rows_of(self, codes: Ints) -> Ints:
        """Row of each code; -1 where there is none."""
        if self._codes.size == 0:
            return np.full(codes.shape, -1, np.int64)
        at = np.asarray(np.searchsorted(self._codes, codes)).clip(max=self._codes.size - 1)
        return np.where(self._codes[at] == codes, self._number[at], -1)

    def _clear(self) -> None:
        none, nodes = np.zeros(0, np.int64), np.zeros(0)
        self._codes, self._number = none, none  # sorted codes, and the row of each
        self._rows = Rows(none, none, none, nodes, nodes, none, none, none, nodes, nodes)
        self._used = [0, 0]  # nodes, and shifted ones

    def _add(self, codes: Ints) -> None:
        from scipy.special import betaln  # late: trials do not need scipy

        state, prior = np.divmod(codes, len(self.priors))
        n = ((np.sqrt(8.0 * state + 1.0) - 1.0) / 2.0 + 1e-9).astype(np.int64)
        good = state - n * (n + 1) // 2
        a, b = self.priors[prior, 0] + good, self.priors[prior, 1] + (n - good)
        log_beta, begin = betaln(a, b), self._codes.size
        windows = np.empty((4, a.size), np.int64)
        kernels.windows(self.grid, a, b, log_beta, *windows[:2])
        kernels.shifted_windows(self.grid, *windows)
        fields: list[npt.NDArray[Any]] = []
        for i, (first, last) in enumerate((windows[:2], windows[2:])):  # at nodes; with the margin
            old, size, used = self._rows[5 * i : 5 * i + 5], (last - first) * NODES, self._used[i]
            self._used[i] += int(size.sum())
            new = first, last, used + np.cumsum(size) - size
            fields += [np.append(*pair) for pair in zip(old[:3], new, strict=True)]
            fields += [_grown(nodes, used, self._used[i]) for nodes in old[3:]]
        rows = Rows(*fields)
        kernels.fill(self.grid, a, b, log_beta, rows, begin)
        kernels.fill_shifted(self.grid, rows, begin, begin + a.size)
        numbers = np.append(self._number, np.arange(begin, begin + a.size))
        joined = np.append(self._codes, codes)
        order = np.argsort(joined)
        self._codes, self._number, self._rows = joined[order], numbers[order], rows

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


def _row_keys(codes: Ints) -> Ints:
    """One number for each row, to search by; rows are then compared."""
    keys = np.zeros(len(codes), np.int64)
    for column in codes.T:
        keys = keys * KEY_MULTIPLIER + column
    return keys


def _grown(nodes: npt.NDArray[Any], used: int, needed: int) -> npt.NDArray[Any]:
    """Return the nodes with enough capacity; it grows by doubling."""
    if needed <= nodes.size:
        return nodes
    wide = np.empty(max(needed, 2 * nodes.size))
    wide[:used] = nodes[:used]
    return wide


def _grid(edges: Floats, margin: float) -> Grid:
    x, w = np.polynomial.legendre.leggauss(NODES)
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
    shift = _lagrange(x, local)
    panel = np.where(shifted <= 0.0, -1, np.where(shifted >= 1.0, half.size, panel))
    return Grid(
        edge_p,
        edge_q,
        log_p,
        log_q,
        (half[:, None] * w).ravel(),
        half,
        _integrals(x),
        panel.astype(np.int64),
        shift,
    )


def _lagrange(nodes: Floats, x: Floats) -> Floats:
    """Polynomials that are 1 at one node and 0 at the others, at points x; (x, nodes)."""
    gaps = nodes[:, None] - nodes
    np.fill_diagonal(gaps, 1.0)
    values = np.ones((x.size, nodes.size))
    for k in range(nodes.size):
        for m in range(nodes.size):
            if m != k:
                values[:, k] *= (x - nodes[m]) / gaps[k, m]
    return values


def _integrals(nodes: Floats) -> Floats:
    """Integral from -1 to node i of the polynomial that is 1 at node k; (i, k)."""
    y, w = np.polynomial.legendre.leggauss(NODES)
    half = (nodes + 1.0) / 2.0
    points = -1.0 + half[:, None] * (1.0 + y)
    values = _lagrange(nodes, points.ravel()).reshape(nodes.size, NODES, nodes.size)
    return np.asarray(np.einsum("iyk,y->ik", values, w) * half[:, None])


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
        self.margin = margin
        self.groups = problem.arm_groups
        self._base, self._factor = _pull_values(problem, rewards, stage)

    def best(self, states: States) -> Floats:
        """P(best) of every arm among those allowed, (E, K); 0 for the others."""
        tables, place = self._tables(states, [0.0])
        probabilities = np.zeros(place.shape[1:])
        kernels.best_of_tables(*tables, _with_allowed(place[0], states), probabilities)
        return probabilities

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
            both = np.empty(pair.shape)
            kernels.best_of_tables(*tables, pair, both)
            probabilities[:, k] = both[:, 0]
        allowed = states.allowed
        return probabilities if allowed is None else np.where(allowed, probabilities, 0.0)

    def alike(self, states: States) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        tables, place = self._tables(states, [0.0, -self.margin])
        probabilities = np.zeros(len(states))
        kernels.alike_of_tables(*tables, *_with_allowed(place, states), probabilities)
        return probabilities

    def difference_quantiles(self, states: States, control: int, levels: Floats) -> Floats:
        """Quantiles of mean rewards minus that of control in the first state, (K, levels).

        By bisection of P(X_k - X_c <= d), at all arms and levels together; 0 for control.
        """
        (x, f, m, start), place = self._tables(states, [0.0])
        parts = [(x[i:j], f[i:j], m[i:j]) for i, j in pairwise(start)]
        parts = [parts[k] for k in place[0, 0]]
        arm, level = (
            each.ravel() for each in np.meshgrid(range(len(parts)), levels, indexing="ij")
        )
        low, high = np.array(
            [_difference_ends(parts[k], parts[control], p) for k, p in zip(arm, level, strict=True)]
        ).T
        pair = np.stack([arm, len(parts) + np.arange(arm.size)], axis=1)
        both = np.empty(pair.shape)
        for _ in range(HALVINGS_OF_DIFFERENCES):
            middle = 0.5 * (low + high)
            moved = [_as_reward(parts[control], shift, 1.0) for shift in middle.tolist()]
            kernels.best_of_tables(*joined([*parts, *moved]), pair, both)
            below = both[:, 1] < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        quantiles: Floats = (0.5 * (low + high)).reshape(len(parts), -1)
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


def _difference_ends(one: Table, other: Table, level: float) -> tuple[float, float]:
    """Return ends between which the quantile of the difference of two independent laws is.

    Each of the two is beyond its own end with at most a quarter of the probability of the tail.
    """
    below, above = 0.25 * level, 0.25 * (1.0 - level)
    low, high = _knots_around(one, below, 1.0 - above)
    least, most = _knots_around(other, above, 1.0 - below)
    return low - most, high - least


def _knots_around(table: Table, low: float, high: float) -> tuple[float, float]:
    """Return the last knot with at most the probability low below, the first with at least high."""
    x, f, _ = table
    first = max(int(np.searchsorted(f, low, side="right")) - 1, 0)
    last = min(int(np.searchsorted(f, high, side="left")), x.size - 1)
    return float(x[first]), float(x[last])


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


# -- binary arms of any rewards, one state -----------------------------------------------------


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = np.array([1e-15, 1e-11, 1e-7, 1e-4, 0.01, 0.1, 0.4])
_BENDS = np.array([-40.0, -8.0, 0.0, 8.0, 40.0])  # of log p and log 1-p: for small a and b
# F_c begins and ends like a power of the distance to the ends of another arm's rewards
_STEPS = np.concatenate([[-np.inf], np.arange(-36.0, 37.0, 3.0), [np.inf]])
_MAX_LOG_ODDS = 500.0  # log-odds beyond which p or 1-p are powers, as far as a double can tell
_LARGE_PARAMETER = 1e4  # from which on quantiles are found by bisection: betaincinv is far off
_HALVINGS = 80
_SAME_END = 4.0 * np.finfo(float).eps  # ends of rewards that differ by less are the same end
# kinds of arms from which on all are integrated at the same points, if rewards agree
_COMMON_POINTS_KINDS = 12
_MAX_PIECES = 700  # of that integral


def best_probabilities(a: Floats, b: Floats, low: Floats, span: Floats) -> Floats:
    """P(largest low + span p) of every arm, p ~ Beta(a, b); all arrays (arms,).

    Arms of equal certain rewards, span = 0, share the probability evenly.
    """
    rows = np.stack([np.where(span > 0, a, 1.0), np.where(span > 0, b, 1.0), low, span], axis=1)
    kinds, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    varying = kinds[:, 3] > 0.0
    floor = np.where(varying, -np.inf, kinds[:, 2]).max()  # deterministic rewards
    equal = varying.all() and np.ptp(kinds[:, 2:], axis=0).max() == 0.0
    many = equal and len(kinds) >= _COMMON_POINTS_KINDS
    probabilities = _best_at_common_points(kinds, counts) if many else np.zeros(len(kinds))
    for i, kind in enumerate(() if many else kinds):
        if varying[i]:
            rivals = counts - (np.arange(len(kinds)) == i)
            probabilities[i] = _probability(kind, kinds[varying], rivals[varying], floor)
        elif kind[2] == floor:
            below = [cdf(k[0], k[1], _odds(np.array([floor]), k))[0] for k in kinds]
            probabilities[i] = np.prod(np.where(varying, below, 1.0) ** counts) / counts[i]
    probabilities = probabilities[place.reshape(-1)]
    return np.asarray(probabilities / probabilities.sum(), dtype=np.float64)


def _best_at_common_points(kinds: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """Return P(best) of many laws of equal rewards: each law is evaluated at every point once."""
    cuts = np.unique(np.concatenate([_BENDS, *(_quantiles(a, b) for a, b in kinds[:, :2])]))
    if cuts.size > _MAX_PIECES:
        cuts = cuts[np.linspace(0, cuts.size - 1, _MAX_PIECES + 1).astype(np.int64)]
    half = np.diff(cuts)[:, None] / 2.0
    y, weights = (cuts[:-1, None] + half * (1.0 + _NODES)).ravel(), (half * _WEIGHTS).ravel()
    below = np.stack([cdf(a, b, y) for a, b in kinds[:, :2]])
    powers = below ** counts[:, None]
    # products of all but one: of those before it, times those after it
    before, after = np.ones_like(powers), np.ones_like(powers)
    np.cumprod(powers[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumprod(powers[:0:-1], axis=0)[::-1]
    density = np.stack([_density(a, b, y) for a, b in kinds[:, :2]])
    same_kind = below ** (counts[:, None] - 1)  # others of its own kind
    return np.asarray((density * before * after * same_kind) @ weights, dtype=np.float64)


def _probability(kind: Floats, kinds: Floats, rivals: npt.NDArray[np.int64], floor: float) -> float:
    """Return P(best) of one arm against `rivals` arms of each law, and against `floor`."""
    a, b = kind[:2]
    points = [_quantiles(a, b), _BENDS]
    for other in kinds:
        points.append(_rescale(_quantiles(other[0], other[1]), other, kind))
        if _differ(other, kind):
            points.append(_rescale(_STEPS, other, kind))
    least, most = points[0][0], points[0][-1]
    if floor > -np.inf:
        least = max(least, float(_odds(np.array(floor), kind)))
    if least >= most:
        return 0.0
    cuts = np.unique(np.concatenate(points).clip(least, most))
    half = np.diff(cuts)[:, None] / 2.0
    y = (cuts[:-1, None] + half * (1.0 + _NODES)).ravel()
    density = _density(a, b, y)
    for other, count in zip(kinds, rivals, strict=True):
        if count:
            density *= cdf(other[0], other[1], _rescale(y, kind, other)) ** count
    return float(density @ (half * _WEIGHTS).ravel())


def _density(a: float, b: float, y: Floats) -> Floats:
    from scipy.special import betaln, log_expit  # late: trials do not need scipy

    return np.exp(a * log_expit(y) + b * log_expit(-y) - betaln(a, b))  # type: ignore[no-any-return]


def _odds(value: Floats, kind: Floats) -> Floats:
    """Log-odds of the p at which an arm of this kind earns `value`; infinite beyond its ends."""
    p = np.clip((value - kind[2]) / kind[3] if kind[3] > 0 else np.zeros_like(value), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def _rescale(y: Floats, here: Floats, there: Floats) -> Floats:
    """Log-odds at which an arm of the kind `there` earns what one `here` earns at y.

    Distances from the ends of the rewards, not the rewards: near an end that both have in common
    these would be rounded to it, and nearly all draws are there if a and b are small.
    """
    from scipy.special import log_expit

    if not _differ(here, there):
        return y
    low, high = here[2] - there[2], there[2] + there[3] - here[2] - here[3]
    least = _SAME_END * np.abs([here[2], there[2], here[2] + here[3], there[2] + there[3]]).max()
    rises = _log_distance(low, here[3], there[3], log_expit(y), least)
    falls = _log_distance(high, here[3], there[3], log_expit(-y), least)
    with np.errstate(invalid="ignore"):
        odds = rises - falls
    return np.where(np.isneginf(rises), -np.inf, np.where(np.isneginf(falls), np.inf, odds))


def _log_distance(offset: float, span: float, unit: float, log_p: Floats, least: float) -> Floats:
    """Return log((offset + span p) / unit), -inf if that is not positive."""
    if abs(offset) <= least:
        return np.asarray(log_p + np.log(span / unit))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum((offset + span * np.exp(log_p)) / unit, 0.0)))


def _differ(one: Floats, other: Floats) -> bool:
    return bool(one[2] != other[2] or one[3] != other[3])


def cdf(a: float, b: float, y: Floats) -> Floats:
    """Distribution function of Beta(a, b) at log-odds y, without loss near either end."""
    below = np.asarray(y, dtype=np.float64).copy()
    left, right = y < 0.0, y >= 0.0
    below[left] = _lower_tail(a, b, y[left])
    below[right] = 1.0 - _lower_tail(b, a, -y[right])
    return below


def _lower_tail(a: float, b: float, y: Floats) -> Floats:
    """Return the quantile for y up to 0: p^a / (a B(a, b)) if p is too small for a double."""
    from scipy.special import betainc, betaln, expit

    with np.errstate(over="ignore"):
        power = np.exp(a * y - np.log(a) - betaln(a, b))
    return np.asarray(
        np.where(y < -_MAX_LOG_ODDS, power, betainc(a, b, expit(y))), dtype=np.float64
    )


@lru_cache(maxsize=10_000)
def _quantiles(a: float, b: float) -> Floats:
    """Log-odds at which the distribution function of Beta(a, b) has the levels, and one minus."""
    return np.concatenate([_lower(a, b), -_lower(b, a)[::-1]])


def _lower(a: float, b: float) -> Floats:
    from scipy.special import betaincinv, betaln

    if max(a, b) > _LARGE_PARAMETER:
        return _bisected(a, b)
    p = betaincinv(a, b, _LEVELS)
    with np.errstate(divide="ignore"):
        exact = np.log(p) - np.log1p(-p)
    power = (np.log(_LEVELS) + np.log(a) + betaln(a, b)) / a
    return np.asarray(
        np.where(p < 1e-200, np.minimum(power, -_MAX_LOG_ODDS), exact), dtype=np.float64
    )


def _bisected(a: float, b: float) -> Floats:
    """Return the quantile for large parameters, by bisection."""
    from scipy.special import betainc, betaincc, betaln, expit

    low, high = np.full(_LEVELS.size, -_MAX_LOG_ODDS), np.full(_LEVELS.size, _MAX_LOG_ODDS)
    for _ in range(_HALVINGS):
        y = (low + high) / 2.0
        below = np.where(y < 0.0, betainc(a, b, expit(y)), betaincc(b, a, expit(-y)))
        low, high = np.where(below < _LEVELS, y, low), np.where(below < _LEVELS, high, y)
    power = (np.log(_LEVELS) + np.log(a) + betaln(a, b)) / a
    return np.asarray(
        np.where(high <= 1e-6 - _MAX_LOG_ODDS, np.minimum(power, -_MAX_LOG_ODDS), high)
    )
