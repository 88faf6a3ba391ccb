"""One round of the market: prices going backward, clearing going forward, all groups together."""

import numpy as np
from numba import njit

from .flow import fill, finish, move, offer
from .layout import row_start
from .pricing import begin, bid, step
from .selection import clear, in_order, margin


@njit(cache=True, nogil=True)
def price_pass(arms, bands, pulls, lowest, highest, mu, V):
    """Backward: mu_t is the price at which the remembered masses spend pulls[t]; fills mu and V.

    lowest, highest (T,): the prices that the bands reach; one that must leave them stops there.
    """
    groups, T = arms.reward_good.shape
    low = np.empty((groups, T + 1), np.int64)
    high = np.empty((groups, T + 1), np.int64)
    ramp = np.arange(T + 1.0)
    key = np.empty(groups * row_start(T + 1))
    weight = np.empty(groups * row_start(T + 1))
    begin(arms, V, low, high)
    for t in range(T - 1, -1, -1):
        count = bid(arms, bands, t, V, key, weight)
        sure = in_order(bands.settled[:, t])
        price, _ = margin(key[:count], weight[:count], pulls[t] - sure)
        price = min(max(price, lowest[t]), highest[t])
        if np.isfinite(price):  # otherwise there is nothing to choose: any price will do
            mu[t] = price
        step(arms, t, mu[t], V, low, high, ramp)


@njit(cache=True, nogil=True)
def clearing_pass(arms, bands, pulls, blend, mass, reward, spent):
    """Forward: exactly pulls[t] spent at every stage. Fills reward (G,) and spent (G, T).

    Returns the number of stages at which a band was too narrow to order all that had to be pulled.
    """
    groups, T = arms.reward_good.shape
    first = np.empty((groups, T + 2), np.int64)
    last = np.empty((groups, T + 2), np.int64)
    key = np.empty(groups * row_start(T + 1))
    weight = np.empty(groups * row_start(T + 1))
    fill(arms, mass, first, last)
    reward[:] = 0.0
    sides = np.empty(groups)
    narrow = 0
    total = arms.counts.sum()
    for t in range(T):
        count = offer(bands, t, blend, mass, first, last, sides, key, weight)
        price, part, sure, rest = clear(
            key[:count], weight[:count], in_order(sides), total, pulls[t]
        )  # fmt: skip
        narrow += sure < 1.0 or rest > 0.0
        move(
            arms, bands, t, price, 0.0, part, sure, rest, mass, first, last, reward, spent
        )  # fmt: skip
    finish(arms, mass, reward)
    return narrow
