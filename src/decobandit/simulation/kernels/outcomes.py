"""Outcomes that are computed from keys: the same for all policies, drawn where arms are pulled.

Notations, besides those of `policies/kernels/episodes.py`
    keys (N,)        start of the stream of an arm in an episode
    first (N,)       pulls that the arm has had
    count (N,)       pulls that it has now
    below (N, L)     chance of a class or one before it; a number below the first is of class 0
"""

import math

import numpy as np

from ...policies.kernels.episodes import uniform
from ...support.kernels.compiled import compiled

SMALL_MEAN = 12.0  # of counts that are found by going through their chances
APART = np.uint64(0xD1342543DE82EF95)  # starts of the streams of single counts


@compiled(inline="always")
def class_of(below, row, u):
    """Class of a uniform number; below (rows, L)."""
    j = 0
    for i in range(below.shape[1] - 1):
        j += u >= below[row, i]
    return j


@compiled
def count_at(key, n, mean):
    """Poisson count number n of the stream that starts at `key`.

    Large means by transformed rejection (Hormann, The transformed rejection method for generating
    Poisson random variables, 1993), with a stream of its own for every count.
    """
    if mean < SMALL_MEAN:
        u, k = uniform(key, n), 0
        chance = math.exp(-mean)
        below = chance
        while u >= below and k < 200:
            k += 1
            chance *= mean / k
            below += chance
        return k
    start = key ^ (np.uint64(n + 1) * APART)
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse, accept = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)
    i = 0
    while True:
        u, v = uniform(start, i) - 0.5, uniform(start, i + 1)
        i += 2
        away = 0.5 - abs(u)
        k = int(math.floor((2.0 * a / away + b) * u + mean + 0.43)) if away > 0.0 else -1
        if away >= 0.07 and v <= accept:
            return k
        if k < 0 or (away < 0.013 and v > away):
            continue
        shape = math.log(max(v, 1e-300) * inverse / (a / (away * away) + b))
        if shape <= k * math.log(mean) - mean - math.lgamma(k + 1.0):
            return k


@compiled
def draw_uniforms(keys, first, out):
    """Draw one uniform number per key."""
    for i in range(keys.shape[0]):
        out[i] = uniform(keys[i], first[i])


@compiled
def draw_classes(keys, first, count, below, out):
    """Outcomes by class, out (N, L)."""
    for i in range(keys.shape[0]):
        for j in range(count[i]):
            out[i, class_of(below, i, uniform(keys[i], first[i] + j))] += 1.0


@compiled
def draw_counts(keys, first, count, mean, out):
    """Numbers of pulls and sums of counts, out (N, 2); mean (N,)."""
    for i in range(keys.shape[0]):
        total = 0
        for j in range(count[i]):
            total += count_at(keys[i], first[i] + j, mean[i])
        out[i, 0], out[i, 1] = float(count[i]), float(total)
