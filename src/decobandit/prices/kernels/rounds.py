"""One round of the market: prices going backward, clearing going forward, all groups together.

Both passes are a loop over steps of one stage: collect states (`bid`, `offer`), look at all of them
together (`stage_price`, `stage_sale`), go on (`step`, `move`); some stages at a time, in legs.
`band_market` drives the same steps from several threads. A stage clears by weighted selection.
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled
from .flow import move, offer
from .pricing import bid, step

ROUNDING = 1e-9  # masses below this, in arms, are rounding


@compiled(inline="always")
def in_order(parts):
    """Sum of the groups' parts, first to last: the same digits however threads share the groups."""
    total = 0.0
    for part in parts:
        total += part
    return total


@compiled
def margin(key, weight, target):
    """Select the key c with weight{key > c} < target <= weight{key >= c}, by quickselect.

    Returns c and the part of weight{key == c} that is needed to reach the target, in [0, 1].
    Keys and weights are permuted. Target <= 0: (inf, 0). Too little weight: (-inf, 1), where what
    is missing is more than rounding.
    """
    if target <= 0.0:
        return np.inf, 0.0
    first, last = 0, key.shape[0] - 1
    while first <= last:
        pivot = key[(first + last) // 2]
        above, equal = first, first
        heavy, tied = 0.0, 0.0
        # three-way partition: [first, above) > pivot, [above, equal) == pivot, the rest below
        for i in range(first, last + 1):
            k, w = key[i], weight[i]
            if k > pivot:
                heavy += w
                key[i], weight[i] = key[equal], weight[equal]
                key[equal], weight[equal] = key[above], weight[above]
                key[above], weight[above] = k, w
                above += 1
                equal += 1
            elif k == pivot:
                tied += w
                key[i], weight[i] = key[equal], weight[equal]
                key[equal], weight[equal] = k, w
                equal += 1
        if heavy >= target:
            last = above - 1
        elif heavy + tied >= target:
            return pivot, (target - heavy) / tied
        else:
            target -= heavy + tied
            first = equal
            if first > last and target < ROUNDING:
                return pivot, 1.0
    return -np.inf, 1.0


@compiled(inline="always")
def clear(key, weight, sure, total, target):
    """How to spend exactly `target` pulls: (price, part at it, part of sure, part of the rest).

    `sure` is the mass that is pulled whatever the price, `total` all mass there is. Where the keys
    cannot make up the target, the answer is still feasible: pull the sure mass in part only, or
    every key and a part of everything else.
    """
    if sure > target:
        return np.inf, 0.0, target / sure, 0.0
    price, part = margin(key, weight, target - sure)
    if price > -np.inf:
        return price, part, 1.0, 0.0
    missing = target - sure - weight.sum()
    rest = total - sure - weight.sum()
    if missing <= 0.0 or rest <= 0.0:  # the target is all there is, up to rounding
        return price, 1.0, 1.0, 0.0
    return price, 1.0, 1.0, min(1.0, missing / rest)


@compiled
def stage_price(key, weight, settled, pulls, lowest, highest, before):
    """Return the price at which the masses `weight`, and those settled (G,), spend the pulls.

    lowest, highest: the prices that the bands reach; one that must leave them stops there. `before`
    where there is nothing to choose: any price will do.
    """
    price, _ = margin(key, weight, pulls - in_order(settled))
    price = min(max(price, lowest), highest)
    return price if np.isfinite(price) else before


@compiled
def stage_sale(key, weight, sides, total, pulls):
    """Return `clear` with sides (G,) pulled in any case, and whether a band was too narrow.

    That is: too narrow to order all that had to be pulled.
    """
    price, part, sure, rest = clear(key, weight, in_order(sides), total, pulls)
    return price, part, sure, rest, sure < 1.0 or rest > 0.0


@compiled
def price_leg(arms, bands, pulls, lowest, highest, mu, V, back, start, stop):
    """Back from stage `start` to `stop`: mu_t is where the remembered masses spend pulls[t].

    Fills mu and V. lowest, highest (T,): as in `stage_price`.
    """
    for t in range(start - 1, stop - 1, -1):
        count = bid(arms, bands, t, V, back)
        key, weight, settled = back.key[:count], back.weight[:count], bands.settled[:, t]
        mu[t] = stage_price(key, weight, settled, pulls[t], lowest[t], highest[t], mu[t])
        step(arms, t, mu[t], V, back)


@compiled
def clearing_leg(arms, bands, pulls, blend, mass, reward, spent, forth, start, stop):
    """Forward from stage `start` to `stop`: exactly pulls[t] spent. Adds to reward, fills spent.

    Returns the number of stages at which a band was too narrow.
    """
    total, narrow = arms.counts.sum(), 0
    for t in range(start, stop):
        count = offer(bands, t, blend, mass, forth)
        price, part, sure, rest, too_narrow = stage_sale(
            forth.key[:count], forth.weight[:count], forth.sides, total, pulls[t]
        )
        narrow += too_narrow
        move(arms, bands, row_start(t), t, price, 0.0, part, sure, rest, mass, forth, reward, spent)
    return narrow
