"""Where a market clears: weighted selection by index."""

import numpy as np

from ...support.kernels.compiled import compiled

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
    """The key c with weight{key > c} < target <= weight{key >= c}, by quickselect.

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
