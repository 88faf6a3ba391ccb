"""One round of the market: prices going backward, clearing going forward, all groups together.

Both passes are a loop over steps of one stage: collect states (`bid`, `offer`), look at all of them
together (`stage_price`, `stage_sale`), go on (`step`, `move`). `prices.in_step` drives the same
steps from several threads.
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled
from .flow import fill, finish, move, offer
from .pricing import begin, bid, room_for_states, step
from .selection import clear, in_order, margin


@compiled
def stage_price(key, weight, settled, pulls, lowest, highest, before):
    """The price at which the masses `weight`, and those settled (G,), spend the pulls of a stage.

    lowest, highest: the prices that the bands reach; one that must leave them stops there. `before`
    where there is nothing to choose: any price will do.
    """
    price, _ = margin(key, weight, pulls - in_order(settled))
    price = min(max(price, lowest), highest)
    return price if np.isfinite(price) else before


@compiled
def stage_sale(key, weight, sides, total, pulls):
    """What `clear` answers where sides (G,) are pulled in any case, and whether a band was narrow.

    That is: too narrow to order all that had to be pulled.
    """
    price, part, sure, rest = clear(key, weight, in_order(sides), total, pulls)
    return price, part, sure, rest, sure < 1.0 or rest > 0.0


@compiled
def price_pass(arms, bands, pulls, lowest, highest, mu, V):
    """Backward: mu_t is the price at which the remembered masses spend pulls[t]; fills mu and V.

    lowest, highest (T,): as in `stage_price`.
    """
    low, high, ramp = begin(arms, V)
    key, weight = room_for_states(arms)
    for t in range(pulls.shape[0] - 1, -1, -1):
        count = bid(arms, bands, t, V, key, weight)
        mu[t] = stage_price(
            key[:count], weight[:count], bands.settled[:, t], pulls[t], lowest[t], highest[t], mu[t]
        )  # fmt: skip
        step(arms, t, mu[t], V, low, high, ramp)


@compiled
def clearing_pass(arms, bands, pulls, blend, mass, reward, spent):
    """Forward: exactly pulls[t] spent at every stage. Fills reward (G,) and spent (G, T).

    Returns the number of stages at which a band was too narrow.
    """
    first, last = fill(arms, mass, reward)
    key, weight = room_for_states(arms)
    sides = np.empty(arms.counts.shape[0])
    total, narrow = arms.counts.sum(), 0
    for t in range(pulls.shape[0]):
        count = offer(bands, t, blend, mass, first, last, sides, key, weight)
        price, part, sure, rest, too_narrow = stage_sale(
            key[:count], weight[:count], sides, total, pulls[t]
        )  # fmt: skip
        narrow += too_narrow
        move(
            arms, bands, row_start(t), t, price, 0.0, part, sure, rest, mass, first, last, reward,
            spent,
        )  # fmt: skip
    finish(arms, mass, reward)
    return narrow
