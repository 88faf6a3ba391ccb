"""The advantage of a pull under a flat price, for an arm with the same rewards at all stages.

If every pull has the same price, an arm that stops has no reason to restart, so the stage drops
out: the advantage depends on the posterior Beta(a, b) and the pulls h that are left. In units of
reward_good - reward_bad,

    A(c) = max over stopping times 1 <= tau <= h of E[sum of p - c over the pulls before tau].

A is convex and piecewise linear in c with slope -E[tau]: Newton's method reaches its root, the
finite-horizon Gittins index, in finitely many steps.

After k more pulls, i of them good, p = (a + i) / (a + b + k). Stopping there saves

    W(k, i) = V(k, i) - (h - k)(p - c) = (h - k)(c - p)   in a stopped state,
                                         the mean of W over both outcomes in any other.

Two things make a pass over the rows k fast. *The edge*: stopped are the states i < edge of a row,
and from row k + 1 to row k the edge falls by 0 or 1. *The coin*: multiplied with the likelihood of
its outcomes relative to that under a coin of bias c, W becomes a mean with weights c and 1 - c in
all states. Far above the edge W is too small to matter, and rows are cut there.

Notations, besides those of the package
    a, b, h    posterior, pulls left
    W          (W, dW/dc) of the states of one row, multiplied so, at positions 2i and 2i + 1
    likely     that likelihood at the highest stopped state, up to a factor that cancels
    top        W is zero from here on
"""

import math

from ...support.kernels.compiled import compiled

NEGLIGIBLE = 1e-13  # W below this is taken for zero


@compiled(fastmath={"contract"})
def _mean(row, c):
    """The mean over both outcomes; row: W of a run of states and of the one behind them.

    A slice, not the bounds of one: positions that count from 0 let the compiler use vectors.
    """
    stay = 1.0 - c
    for i in range(row.shape[0] - 2):
        row[i] = stay * row[i] + c * row[i + 2]


@compiled(inline="always")
def _row_back(a, b, h, c, k, edge, likely, top, W):
    """From row k + 1 to row k. Returns the new edge and `likely`."""
    pulls, stay = a + b + k, 1.0 - c
    if edge == 0:
        _mean(W[: 2 * top + 2], c)
        return 0, likely * stay * pulls / (b + k)
    i = edge - 1
    bads = b + k - i
    likely *= stay * pulls / bads
    stopped = likely * (h - k) * (c - (a + i) / pulls)
    if stay * W[2 * i] + c * W[2 * edge] <= stopped:
        _mean(W[2 * edge : 2 * top + 2], c)
    else:
        _mean(W[2 * i : 2 * top + 2], c)
        if i == 0:
            return 0, likely
        edge = i
        likely *= c * bads / (stay * (a + i - 1.0))
        stopped = likely * (h - k) * (c - (a + i - 1.0) / pulls)
    W[2 * edge - 2], W[2 * edge - 1] = stopped, likely * (h - k)
    return edge, likely


@compiled(inline="always")
def gain(a, b, h, c, W):
    """A(c) and E[tau]; W: work space, 2 h + 2."""
    p, k = a / (a + b), h - 1
    edge = int(math.floor(c * (a + b + k) - a)) + 1
    if edge > k:
        return p - c, 1.0
    if edge <= 0:
        return h * (p - c), float(h)
    top, likely = edge, 1.0
    W[2 * edge - 2], W[2 * edge - 1] = c - (a + edge - 1.0) / (a + b + k), 1.0
    W[2 * top] = W[2 * top + 1] = 0.0
    while k > 1 and edge <= k:
        k -= 1
        edge, likely = _row_back(a, b, h, c, k, edge, likely, top, W)
        # cutting one state per row is enough: the edge falls no faster
        if top > edge + 1 and (top > k + 1 or W[2 * top - 2] < NEGLIGIBLE):
            top -= 1
            W[2 * top] = W[2 * top + 1] = 0.0
    if edge > k:
        return p - c, 1.0
    likely *= (1.0 - c) * (a + b) / b
    saved = ((1.0 - c) * W[0] + c * W[2]) / likely
    return saved - h * (c - p), h - ((1.0 - c) * W[1] + c * W[3]) / likely
