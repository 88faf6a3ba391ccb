"""Posterior probabilities that compare arms: best, better than control, all alike.

For many joint states at once; each state of an arm is put on a grid once, see `kernels.posteriors`.
Accurate to 1e-8 for priors with both parameters at least `LEAST_PRIOR`. Arms whose outcomes earn
different rewards: `reward_chances.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from threading import Lock

import numpy as np
import numpy.typing as npt

from ..problem import Problem, States
from ..support import Floats, pool, worker_count
from .answers import Answers
from .kernels import posteriors
from .kernels.posteriors import Grid, Rows

Ints = npt.NDArray[np.int64]
Fill = Callable[[Rows, Ints, Floats], None]

LEAST_PRIOR = 0.25
NODES = 16
WIDTH = 2.5  # of a panel, in standard deviations of the sharpest posterior
GRADED = 30  # panels by which the ends are refined, each a third of the one before
CHUNK = 50_000  # joint states at a time: bounds the memory of rows
THREAD_STATES = 2_000  # that are worth a thread
MOST_NODES = 3_000_000  # of rows that are kept, in 96 MB at most; more are slower


class PosteriorChances:
    """Compares the arms of a problem by the posteriors of their success probabilities.

    Parameters
    ----------
    problem : Problem
        Whose priors are taken.
    margin : float
        By which an arm has to be better than another, or within which arms are alike.
    factor : float
        What a success probability is multiplied by, of every arm, to be compared: not 0. Where it
        is negative, the arm of the smallest success probability is best.
    """

    def __init__(self, problem: Problem, margin: float = 0.0, factor: float = 1.0) -> None:
        groups = [problem.groups[k] for k in problem.group_of_arm]
        self.down = factor < 0.0  # compared by probabilities of bad outcomes
        self.alpha = np.array([group.beta if self.down else group.alpha for group in groups])
        self.beta = np.array([group.alpha if self.down else group.beta for group in groups])
        margin /= abs(factor)
        priors = np.stack([self.alpha, self.beta], axis=1)
        self.priors, self.prior_of_arm = np.unique(priors, axis=0, return_inverse=True)
        self.prior_of_arm = self.prior_of_arm.reshape(-1)
        self.margin = margin
        self._lock = Lock()
        self._clear()
        none = np.zeros((0, self.alpha.size), np.int64)
        self._last_best = Answers(none, np.zeros(none.shape))
        self.total = problem.horizon * problem.pulls_per_stage
        check_priors(self.alpha, self.beta)

    def best(self, states: States) -> Floats:
        """P(best) of every arm among those allowed, (E, K); 0 for the others."""

        def chances(rows: Rows, place: Ints, found: Floats) -> None:
            posteriors.best(self.grid, rows, place, found)

        codes = self._codes_of(states)
        codes = codes if states.allowed is None else np.where(states.allowed, codes, -1)
        found = np.zeros(codes.shape)
        new = self._last_best.recall(codes, found)
        found[new] = self._by_chunk(chances, codes[new], found[new].shape)
        if len(codes) <= CHUNK:
            self._last_best = Answers(codes, found.copy())
        return found

    def better(self, states: States, control: int) -> Floats:
        """P(better than control by the margin), (E, K); 0 for control and arms not allowed."""
        codes = self._codes_of(states)
        if states.allowed is not None:
            allowed = states.allowed.copy()
            allowed[:, control] = True
            codes = np.where(allowed, codes, -1)

        def chances(rows: Rows, place: Ints, found: Floats) -> None:
            posteriors.better(self.grid, rows, place, control, found)

        return self._by_chunk(chances, codes, codes.shape)

    def alike(self, states: States) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""

        def chances(rows: Rows, place: Ints, found: Floats) -> None:
            posteriors.alike(self.grid, rows, place, found)

        codes = self._codes_of(states)
        codes = codes if states.allowed is None else np.where(states.allowed, codes, -1)
        return self._by_chunk(chances, codes, codes.shape[:1])

    # -- rows ------------------------------------------------------------------------------------

    def _by_chunk(self, chances: Fill, codes: Ints, shape: tuple[int, ...]) -> Floats:
        found = np.zeros(shape)
        for begin in range(0, len(codes), CHUNK):
            part = slice(begin, begin + CHUNK)
            with self._lock:
                place = self._places(codes[part])
                rows = self._rows
            self._in_threads(chances, rows, np.ascontiguousarray(place), found[part])
        return found

    def _in_threads(self, chances: Fill, rows: Rows, place: Ints, found: Floats) -> None:
        number = worker_count(None, most=1 + len(place) // THREAD_STATES)
        edges = np.linspace(0, len(place), number + 1).astype(int).tolist()
        with pool(number) as threads:
            threads.map(
                lambda one: chances(rows, place[slice(*one)], found[slice(*one)]), pairwise(edges)
            )

    def _places(self, codes: Ints) -> Ints:
        """Rows of all arms in all states, (E, K), -1 where the code is; new ones are filled."""
        place = self._found(codes)
        if np.any((place < 0) & (codes >= 0)):
            if self._used > MOST_NODES:  # begin anew
                self._clear()
                place[:] = -1
            self._add(np.unique(codes[(place < 0) & (codes >= 0)]))
            place = self._found(codes)
        return place

    def _codes_of(self, states: States) -> Ints:
        """A code is a state of a prior: equal arms have equal rows."""
        n = states.pulls
        good = n - states.good if self.down else states.good
        return (n * (n + 1) // 2 + good) * len(self.priors) + self.prior_of_arm

    def _found(self, codes: Ints) -> Ints:
        """The row of each code; -1 where there is none."""
        if self._codes.size == 0:
            return np.full(codes.shape, -1, np.int64)
        at = np.asarray(np.searchsorted(self._codes, codes)).clip(max=self._codes.size - 1)
        return np.where(self._codes[at] == codes, self._number[at], -1)

    def _clear(self) -> None:
        """No rows."""
        none, nodes = np.zeros(0, np.int64), np.zeros(0)
        self._codes, self._number = none, none  # sorted codes, and the row of each
        self._rows = Rows(none, none, none, nodes, nodes, none, none, none, nodes, nodes)
        self._used = self._moved_used = 0  # nodes

    def _add(self, codes: Ints) -> None:
        """Rows of new codes."""
        from scipy.special import betaln  # late: trials do not need scipy

        state, prior = np.divmod(codes, len(self.priors))
        n = ((np.sqrt(8.0 * state + 1.0) - 1.0) / 2.0 + 1e-9).astype(np.int64)
        good = state - n * (n + 1) // 2
        a, b = self.priors[prior, 0] + good, self.priors[prior, 1] + (n - good)
        log_beta, begin = betaln(a, b), self._codes.size
        first, last, moved_first, moved_last = np.empty((4, a.size), np.int64)
        posteriors.windows(self.grid, a, b, log_beta, first, last)
        posteriors.moved_windows(self.grid, first, last, moved_first, moved_last)
        own, moved = (last - first) * NODES, (moved_last - moved_first) * NODES
        start = self._used + np.cumsum(own) - own
        moved_start = self._moved_used + np.cumsum(moved) - moved
        old, used, moved_used = self._rows, self._used, self._moved_used
        self._used, self._moved_used = used + int(own.sum()), moved_used + int(moved.sum())
        rows = Rows(
            np.append(old.first, first),
            np.append(old.last, last),
            np.append(old.start, start),
            _room(old.mass, used, self._used),
            _room(old.below, used, self._used),
            np.append(old.moved_first, moved_first),
            np.append(old.moved_last, moved_last),
            np.append(old.moved_start, moved_start),
            _room(old.moved, moved_used, self._moved_used),
            _room(old.between, moved_used, self._moved_used),
        )
        posteriors.fill(self.grid, a, b, log_beta, rows, begin)
        posteriors.fill_moved(self.grid, rows, begin, begin + a.size)
        joined = np.append(self._codes, codes)
        order = np.argsort(joined)
        self._codes, self._number = (
            joined[order],
            np.append(self._number, np.arange(begin, begin + a.size))[order],
        )
        self._rows = rows

    @cached_property
    def grid(self) -> Grid:
        """Panels narrow enough for the sharpest posterior that the problem has."""
        sharpest = self.total + float((self.alpha + self.beta).max())
        panels = max(4, int(np.ceil(np.pi * np.sqrt(sharpest) / WIDTH)))
        edges = np.linspace(0.0, np.pi, panels + 1)
        halves = np.concatenate([self.alpha, self.beta]) * 2.0
        if np.any(halves != np.round(halves)):  # densities are no polynomials near the ends
            ends = edges[1] / 3.0 ** np.arange(GRADED, 0, -1)
            edges = np.concatenate([edges, ends, np.pi - ends])
        if self.margin != 0.0:  # beyond this point the margin leaves the scale: a kink
            inside = 1.0 - self.margin if self.margin > 0.0 else -self.margin
            kink = 2.0 * np.arcsin(np.sqrt(inside))
            away = edges[1] / 3.0 ** np.arange(GRADED) * np.sign(self.margin)
            edges = np.concatenate([edges, [kink], kink - away])
        return _grid(np.unique(edges.clip(0.0, np.pi)), self.margin)


def check_priors(alpha: Floats, beta: Floats) -> None:
    """Refuse priors whose posterior probabilities would not be accurate."""
    least = min(alpha.min(), beta.min())
    if least < LEAST_PRIOR:
        raise ValueError(
            f"prior: a parameter of {least:g} is too small for posterior probabilities of "
            f"designs; must be at least {LEAST_PRIOR:g}"
        )


def _room(nodes: Floats, used: int, needed: int) -> Floats:
    """The same nodes with room for as many as are needed; it grows by doubling."""
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
    moved = np.sin(theta / 2.0) ** 2 + margin
    target = 2.0 * np.arcsin(np.sqrt(np.clip(moved, 0.0, 1.0)))
    panel = np.clip(np.searchsorted(edges, target, side="right") - 1, 0, half.size - 1)
    local = (target - edges[panel]) / half[panel] - 1.0
    shift = _lagrange(x, local)
    panel = np.where(moved <= 0.0, -1, np.where(moved >= 1.0, half.size, panel))
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
