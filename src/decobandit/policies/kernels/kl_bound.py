"""The largest success probability that n observations with g good ones do not rule out.

max q  with  n kl(g/n, q) <= v,        kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))
"""

import math

from ...support.kernels.compiled import compiled

ACCURACY = 1e-12  # of the bound; the last step of Newton's method is far below it
NEAR_ONE = 1e-14  # bounds closer to 1 cannot be distinguished
MOST_STEPS = 100


@compiled(inline="always")
def kl_upper_bound(p, level):
    """The largest q with kl(p, q) <= level: Newton's method from above.

    kl(p, .) is convex and grows to the right of p, so that steps from above stay above. Above are
    Pinsker's bound p + sqrt(level / 2), and what is left when p log q is dropped from kl.
    """
    if p >= 1.0 or level <= 0.0:
        return p
    other = 1.0 - p
    negentropy = other * math.log(other) + (p * math.log(p) if p > 0.0 else 0.0)
    dropped = -math.expm1((negentropy - level) / other)
    if p == 0.0 or dropped >= 1.0 - NEAR_ONE:
        return dropped
    q = min(p + math.sqrt(level / 2.0), dropped)
    for _ in range(MOST_STEPS):
        gap = q - p
        excess = -p * math.log1p(gap / p) - other * math.log1p(-gap / other) - level
        step = excess * q * (1.0 - q) / gap
        q -= step
        if abs(step) <= ACCURACY:
            break
    return q


@compiled
def kl_upper_bounds(n, g, v, out):
    """Bound, then its first and second derivative by v, of every state; out (states, 3)."""
    for i in range(n.size):
        p = g[i] / n[i] if n[i] > 0.0 else 1.0
        q = kl_upper_bound(p, v / n[i]) if n[i] > 0.0 else 1.0
        out[i, 0], out[i, 1], out[i, 2] = q, 0.0, 0.0
        if p < q < 1.0:
            first = q * (1.0 - q) / (q - p)
            out[i, 1] = first / n[i]
            out[i, 2] = out[i, 1] * (1.0 - 2.0 * q - first) / (q - p) / n[i]
