"""Bands of states, and passes backward through the market.

All groups are in one market. A mass counts arms: a group of 5 starts with mass 5 in state (0, 0),
and a pull splits the mass of a state over its two successors.

Per stage and row, a *band* [low, high] of states is stored: those whose index may fall on either
side of the price. Outside it the sign of index - price is settled, the same on the whole side:
`left` for g < low, `right` for g > high (1: pulled, 0: not). A band of full rows is always correct;
a narrow one saves time and memory on long horizons, and a wrong one gives valid but weaker bounds.
A state is left only by a pull, and pulled only in a band or on a pulled side: bands are cut to the
states that can be reached so (`reach_leg`).

Going backward, the price of stage t is set when all later prices are known. It is the index at
which the remembered masses (`bands.share`) spend exactly the pulls of that stage: the market
clears, given where the arms were found in the forward passes before.

Forward, two ways to decide what is pulled. Clearing: states in order of their index until the pulls
of the stage are spent, the last one in part; a feasible point of the relaxed problem, whose reward
is therefore below the dual minimum. Relaxed: states with index above the price; pulls minus what
they spend is then the gradient of the dual function.

Both passes are a loop over steps of one stage: collect states (`bid`, `offer`), look at all of them
together (`stage_price`, `stage_sale`), go on (`step`, `move`). They are made in legs of some stages
(`support.legs`): `begin` or `fill`, then one leg after the other, and `finish`. `band_market`
drives the same steps from several threads.
"""

from typing import NamedTuple

import numpy as np

from ...arm.kernels.backward import alive_rows, rewarding, step_row
from ...problem.kernels.layout import row_start, worth
from ...support import Flags, Floats, Ints
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled

ROUNDING = 1e-9  # masses below this, in arms, are rounding


class Bands(NamedTuple):
    """Bands of all rows; row n of stage t stands at t(t+1)/2 + n."""

    low: Ints  # (G, rows) first state of the band
    high: Ints  # (G, rows) last one; empty where high < low
    left: Flags  # (G, rows) states below the band are pulled
    right: Flags  # (G, rows) states above the band are pulled
    start: Ints  # (G, rows) position of the band's first state in index and share
    index: Floats  # type: ignore[assignment]  # (states,) index of each state, written going back
    share: Floats  # (states,) mass of each state, averaged over the forward passes so far
    room: Ints  # (G,) states of a group at one stage, at most
    settled: Floats  # (G, T) mass on pulled sides, averaged likewise


class Back(NamedTuple):
    """State that a backward pass carries from one stage to the next, and its work space."""

    low: Ints  # (G, T+1) first state of a row with V != 0
    high: Ints  # (G, T+1) last one
    ramp: Floats  # (T+1,) 0, 1, 2, ...
    key: Floats  # (room,) index of each state that is collected
    weight: Floats  # (room,) its mass


class Forth(NamedTuple):
    """State and work space of a forward pass."""

    first: Ints  # (G, T+2) first state of a row with mass
    last: Ints  # (G, T+2) last one
    sides: Floats  # (G,) mass on pulled sides at this stage
    key: Floats
    weight: Floats


@compiled(inline="always")
def room_for_states(bands):
    """key, weight: room for all states that a stage may collect."""
    room = bands.room.sum()
    return np.empty(room), np.empty(room)


@compiled
def bid(arms, bands, t, V, back):
    """Write the index of all band states at stage t (V is V_{t+1}); collect those with mass.

    Returns the number collected in back.key and back.weight.
    """
    key, weight = back.key, back.weight
    count = 0
    base = row_start(t)
    for k in range(arms.alpha.shape[0]):
        alpha, beta = arms.alpha[k], arms.beta[k]
        bad = arms.reward_bad[k, t]
        spread = arms.reward_good[k, t] - bad
        for n in range(t + 1):
            first, last = bands.low[k, base + n], bands.high[k, base + n]
            if last < first:
                continue
            inverse = 1.0 / (alpha + beta + n)
            own = V[k, row_start(n) :]
            following = V[k, row_start(n + 1) :]
            at = bands.start[k, base + n] - first
            for g in range(first, last + 1):
                x = worth(
                    (alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1]
                )
                bands.index[at + g] = x
                if bands.share[at + g] > 0.0:
                    key[count] = x
                    weight[count] = bands.share[at + g]
                    count += 1
    return count


@compiled
def step(arms, t, price, V, back):
    """Take V from stage t+1 to stage t at this price."""
    touched = 0
    for k in range(arms.alpha.shape[0]):
        spread = arms.reward_good[k, t] - arms.reward_bad[k, t]
        for n in range(t + 1):
            arm = (arms.alpha[k], arms.beta[k], arms.reward_bad[k, t], spread)
            touched += step_row(*arm, price, n, V[k], back.low[k], back.high[k], back.ramp)
    return touched


@compiled
def begin(arms, bands, V):
    """V = V_T, and what a pass carries from there."""
    groups, T = arms.reward_good.shape
    low = np.empty((groups, T + 1), np.int64)
    high = np.empty((groups, T + 1), np.int64)
    for k in range(groups):
        copy(arms.terminal[k], V[k])
        alive_rows(V[k], T, low[k], high[k])
    key, weight = room_for_states(bands)
    return Back(low, high, np.arange(T + 1.0), key, weight)


@compiled
def value_leg(arms, bands, mu, V, back, start, stop):
    """From stage `start` back to `stop` at given prices; writes the index of band states, too."""
    for t in range(start - 1, stop - 1, -1):
        bid(arms, bands, t, V, back)
        step(arms, t, mu[t], V, back)


@compiled(inline="always")
def _row_band(alpha, beta, bad, spread, price, width, n, V, low, high):
    """(low, high, left, right) of one row: the hull of the states within `width` of the price.

    low, high (T+1,): states with V != 0. Any change of sign lies in the hull or at its empty place.
    """
    own = V[row_start(n) :]
    following = V[row_start(n + 1) :]
    first, last = 0, n
    if spread > 0.0 and low[n] > 0:
        # below all live states the index is ell: nothing there is within reach of the price
        reach, _ = rewarding(alpha, alpha + beta + n, bad, spread, price - width, n)
        first = max(0, min(low[n], low[n + 1] - 1, reach if reach <= n else n) - 1)
    inverse = 1.0 / (alpha + beta + n)
    left = right = False
    a, b = n + 1, n
    for g in range(first, n + 1):
        x = (
            worth((alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1])
            - price
        )
        if g == first:
            left = x > 0.0
        if abs(x) <= width or (x > 0.0) != left:
            a = g
            break
    for g in range(last, a - 1, -1):
        x = (
            worth((alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1])
            - price
        )
        if g == last:
            right = x > 0.0
        b = g
        if abs(x) <= width or (x > 0.0) != right:
            break
        b = g - 1
    return a, b, left, right


@compiled
def band_leg(arms, mu, width, bands, V, back, start, stop):
    """From stage `start` back to `stop`, marking per row the states within `width` of the price.

    Fills low, high, left and right of the bands.
    """
    for t in range(start - 1, stop - 1, -1):
        base = row_start(t)
        for k in range(arms.alpha.shape[0]):
            alpha, beta, bad = arms.alpha[k], arms.beta[k], arms.reward_bad[k, t]
            spread = arms.reward_good[k, t] - bad
            for n in range(t + 1):
                a, b, lower, upper = _row_band(
                    alpha, beta, bad, spread, mu[t], width, n, V[k], back.low[k], back.high[k]
                )
                bands.low[k, base + n], bands.high[k, base + n] = a, b
                bands.left[k, base + n], bands.right[k, base + n] = lower, upper
        step(arms, t, mu[t], V, back)


@compiled
def reach_leg(bands, first, last, start, stop):
    """Cut the bands of the stages from `start` to `stop`.

    first, last (G, T+2): per row the interval of reached states, taken on by one stage at a time.
    """
    for t in range(start, stop):
        base = row_start(t)
        for k in range(first.shape[0]):
            for n in range(t, -1, -1):  # descending: what enters row n+1 now is not pulled twice
                low, high = bands.low[k, base + n], bands.high[k, base + n]
                a, b = first[k, n], last[k, n]
                if b < a:
                    bands.low[k, base + n], bands.high[k, base + n] = 0, -1
                    continue
                lowest = a if bands.left[k, base + n] else max(a, low)
                highest = b if bands.right[k, base + n] else min(b, high)
                if lowest <= highest:
                    first[k, n + 1] = min(first[k, n + 1], lowest)
                    last[k, n + 1] = max(last[k, n + 1], highest + 1)
                bands.low[k, base + n] = min(max(low, a), b + 1)
                bands.high[k, base + n] = max(min(high, b), bands.low[k, base + n] - 1)


# -- forward -----------------------------------------------------------------------------------


@compiled
def fresh(arms, mass, reward):
    """All arms fresh, nothing earned; first, last (G, T+2): states of a row that have mass."""
    groups, T = arms.reward_good.shape
    first = np.full((groups, T + 2), T + 2, np.int64)
    last = np.full((groups, T + 2), -1, np.int64)
    mass[:] = 0.0
    reward[:] = 0.0
    for k in range(groups):
        mass[k, 0] = arms.counts[k]
        first[k, 0] = last[k, 0] = 0
    return first, last


@compiled
def fill(arms, bands, mass, reward):
    """All arms fresh, and what a pass carries from there."""
    first, last = fresh(arms, mass, reward)
    key, weight = room_for_states(bands)
    return Forth(first, last, np.empty(arms.counts.size), key, weight)


@compiled
def offer(bands, t, blend, mass, forth):
    """Collect the band states with mass at stage t, and blend all masses into the averages.

    Fills forth.sides. Returns the number collected in forth.key and forth.weight.
    """
    first, last, key, weight = forth.first, forth.last, forth.key, forth.weight
    count = 0
    base = row_start(t)
    for k in range(mass.shape[0]):
        side = 0.0
        for n in range(t + 1):
            low, high = bands.low[k, base + n], bands.high[k, base + n]
            if high < low and last[k, n] < first[k, n]:
                continue
            own = mass[k, row_start(n) :]
            if bands.left[k, base + n]:
                for g in range(first[k, n], min(low, last[k, n] + 1)):
                    side += own[g]
            if bands.right[k, base + n]:
                for g in range(max(high + 1, first[k, n]), last[k, n] + 1):
                    side += own[g]
            at = bands.start[k, base + n] - low
            for g in range(low, high + 1):
                bands.share[at + g] += blend * (own[g] - bands.share[at + g])
                if own[g] > 0.0:
                    key[count] = bands.index[at + g]
                    weight[count] = own[g]
                    count += 1
        bands.settled[k, t] += blend * (side - bands.settled[k, t])
        forth.sides[k] = side
    return count


@compiled
def _pull(p, inverse, part, own, after_bad, after_good):
    """Move the same part of every mass along a piece of a row; p is that of its first state.

    Returns (mass moved, good outcomes among it).
    """
    pulled, good = 0.0, 0.0
    for g in range(own.shape[0]):
        x = own[g] * part
        if x > 0.0:
            y = x * (p + g * inverse)
            own[g] -= x
            after_bad[g] += x - y
            after_good[g] += y
            pulled += x
            good += y
    return pulled, good


@compiled(inline="always")
def _pull_band(p, inverse, deal, index, own, after_bad, after_good):
    """Pull states by their index: all above the price, a part of those within slack of it.

    deal: price, slack and that part.
    """
    price, slack, at_price = deal
    pulled, good = 0.0, 0.0
    for g in range(own.shape[0]):
        distance = index[g] - price
        if own[g] > 0.0 and distance >= -slack:
            part = 1.0 if distance > slack else at_price
            here = slice(g, g + 1)
            after = (own[here], after_bad[here], after_good[here])
            x, y = _pull(p + g * inverse, inverse, part, *after)
            pulled += x
            good += y
    return pulled, good


@compiled(inline="always")
def _move_row(alpha, inverse, low, high, sides, deal, index, own, following, first, last):
    """Pull one row: parts `sides` left and right of its band [low, high]; deal: `_pull_band`.

    Returns (mass pulled, good outcomes among it, first and last state that was pulled).
    """
    pulled, good = 0.0, 0.0
    left, right = sides
    a, b = last + 1, first - 1
    low, high = max(low, first), min(high, last)
    if left > 0.0 and first < low:
        end = min(low, last + 1)
        after = (own[first:end], following[first:end], following[first + 1 : end + 1])
        pulled, good = _pull((alpha + first) * inverse, inverse, left, *after)
        a, b = first, end - 1
    if low <= high:
        p, band = (alpha + low) * inverse, own[low : high + 1]
        after_bad, after_good = following[low : high + 1], following[low + 1 : high + 2]
        x, y = _pull_band(p, inverse, deal, index, band, after_bad, after_good)
        if x > 0.0:
            pulled, good = pulled + x, good + y
            a, b = min(a, low), high
    start, end = max(high + 1, first), last + 1
    if right > 0.0 and start < end:
        after = (own[start:end], following[start:end], following[start + 1 : end + 1])
        x, y = _pull((alpha + start) * inverse, inverse, right, *after)
        pulled, good = pulled + x, good + y
        a, b = min(a, start), last
    return pulled, good, a, b


@compiled
def move(arms, bands, base, t, price, slack, at_price, sure, rest, mass, forth, reward, spent):
    """Pull at stage t: band states above the price, `at_price` of those within slack of it.

    Pulled sides move by the part `sure`, the other sides by `rest` (1 and 0 unless a band was too
    narrow to clear). base: where the rows of the stage begin in the bands. Adds to reward (G,) and
    fills spent (G, T) at t.
    """
    first, last = forth.first, forth.last
    for k in range(mass.shape[0]):
        bad = arms.reward_bad[k, t]
        spread = arms.reward_good[k, t] - bad
        spent[k, t] = 0.0
        for n in range(t, -1, -1):  # descending: what enters row n+1 now is not pulled twice
            if last[k, n] < first[k, n]:
                continue
            row = base + n
            start = bands.start[k, row] + max(0, first[k, n] - bands.low[k, row])
            sides = (
                sure if bands.left[k, row] else rest,
                sure if bands.right[k, row] else rest,
            )
            inverse = 1.0 / (arms.alpha[k] + arms.beta[k] + n)
            low, high, deal = bands.low[k, row], bands.high[k, row], (price, slack, at_price)
            own, following = mass[k, row_start(n) :], mass[k, row_start(n + 1) :]
            index, begin, end = bands.index[start:], first[k, n], last[k, n]
            pulled, good, a, b = _move_row(
                arms.alpha[k], inverse, low, high, sides, deal, index, own, following, begin, end
            )
            if pulled > 0.0:
                reward[k] += pulled * bad + good * spread
                spent[k, t] += pulled
                first[k, n + 1] = min(first[k, n + 1], a)
                last[k, n + 1] = max(last[k, n + 1], b + 1)


@compiled
def finish(arms, mass, reward):
    """Add the terminal rewards of the final masses to reward (G,)."""
    for k in range(mass.shape[0]):
        for i in range(arms.terminal.shape[1]):
            reward[k] += arms.terminal[k, i] * mass[k, i]


@compiled
def relaxed_leg(arms, bands, mu, slack, at_price, mass, reward, spent, forth, start, stop):
    """Go forward from stage `start` to `stop` under the relaxed policy at prices mu."""
    for t in range(start, stop):
        deal = (mu[t], slack, at_price, 1.0, 0.0)
        move(arms, bands, row_start(t), t, *deal, mass, forth, reward, spent)


# -- a stage of all groups ---------------------------------------------------------------------


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
