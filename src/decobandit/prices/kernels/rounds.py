"""One round of the market: prices going backward, clearing going forward, all groups together.

Both passes are a loop over steps of one stage: collect states (`bid`, `offer`), look at all of them
together (`stage_price`, `stage_sale`), go on (`step`, `move`); some stages at a time, in legs.
`prices.in_step` drives the same steps from several threads.
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled
from .flow import move, offer
from .pricing import bid, step
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
def price_leg(arms, bands, pulls, lowest, highest, mu, V, back, start, stop):
    """Back from stage `start` to `stop`: mu_t is where the remembered masses spend pulls[t].

    Fills mu and V. lowest, highest (T,): as in `stage_price`.
    """
    for t in range(start - 1, stop - 1, -1):
        count = bid(arms, bands, t, V, back)
        mu[t] = stage_price(
            back.key[:count],
            back.weight[:count],
            bands.settled[:, t],
            pulls[t],
            lowest[t],
            highest[t],
            mu[t],
        )
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
