"""The law of a mean of classes whose chances have a Dirichlet distribution.

With independent G_j ~ Gamma(a_j), the mean of classes worth v_j is sum_j v_j G_j / sum_j G_j. Let
c_j = v_j - x, Q = sum_j c_j G_j and M(s) = E exp(s Q) = prod_j (1 - c_j s)^(-a_j). Then

    P(mean <= x) = P(Q <= 0),    P(Q > 0) = 1/(2 pi i) integral of M(s) / s ds

along a path from below to above that crosses the real axis at a tilt u, 0 < u < 1 / max_j c_j; for
a tilt u < 0 it is -P(Q < 0). The tilt is near the saddle point of M, where M does not oscillate:

    s(w) = u + r (b (cosh(w) - 1) + i sinh(w))

Both halves of the path count the same, the integrand is analytic in w, and midpoints at steps of
STEP are exact to about 1e-9. r is at most the distance of u from 0 and from every 1 / c_j, and what
M needs to fall off. The path bends (b) to the side where M falls off if the weights of the classes
on one side of x are much larger than those on the other. Where weights are small, M falls off as
exp(-w sum_j a_j), its phase constant; the midpoints after the last one are a geometric sum.

Notations
    N, L, M   states; classes; points of each
    a, v      (N, L), (L,)
"""

import math

import numpy as np

from ...support.kernels.compiled import compiled

STEP = 0.12
TINY = 1e-290  # smallest distance from a value that is distinguished
NEGLIGIBLE = 1e-11  # integrand, and chances
LOPSIDED = 4.0  # ratio of weights from which on the path bends
BEND = 0.5
SETTLED = 22.0  # w after the last change of phase, at weights of 1 in all
HALVINGS = 60  # of the range of values, to a quantile
TILT_HALVINGS = 22


@compiled
def dirichlet_mean_cdf(a, v, x, found):
    """found[n, m] = P(mean <= x[n, m]) at weights a[n]; x, found (N, M)."""
    low, high = v.min(), v.max()
    for n in range(a.shape[0]):
        for m in range(x.shape[1]):
            if low < x[n, m] < high:
                found[n, m] = _below(a[n], v, x[n, m])
            else:
                found[n, m] = 1.0 if x[n, m] >= high else 0.0


@compiled
def dirichlet_mean_quantile(a, v, level, found):
    """found[n, m]: where P(mean <= x) reaches level[n, m] at weights a[n]; by bisection."""
    least, most = v.min(), v.max()
    halvings = HALVINGS if least < most else 0
    for n in range(a.shape[0]):
        for m in range(level.shape[1]):
            low, high = least, most
            for _ in range(halvings):
                x = 0.5 * (low + high)
                if not low < x < high:
                    break
                if _below(a[n], v, x) < level[n, m]:
                    low = x
                else:
                    high = x
            found[n, m] = 0.5 * (low + high)


@compiled
def _slope(a, c, u):
    """d log M / du."""
    total = 0.0
    for j in range(c.size):
        total += a[j] * c[j] / (1.0 - c[j] * u)
    return total


@compiled
def _tilt(a, c, up, down):
    """Near the saddle point of M, not too near 0; up, down: largest c_j, largest -c_j."""
    drift, square = 0.0, 0.0
    for j in range(c.size):
        drift += a[j] * c[j]
        square += a[j] * c[j] * c[j]
    end = -1.0 / down if drift > 0.0 else 1.0 / up  # M ends there
    low, high = -700.0, 25.0  # log-odds of the part of the way to the end
    for _ in range(TILT_HALVINGS):
        middle = 0.5 * (low + high)
        if (_slope(a, c, end / (1.0 + math.exp(-middle))) > 0.0) == (drift > 0.0):
            low = middle
        else:
            high = middle
    part = 1.0 / (1.0 + math.exp(-0.5 * (low + high)))
    return max(part, min(0.5 / (math.sqrt(square) * abs(end)), 0.5)) * end


@compiled
def _below(a, v, x):
    """Probability that Q <= 0."""
    scale = max(v.max() - x, x - v.min())
    c = (v - x) / scale
    up, down, over, under, nearest = 0.0, 0.0, 0.0, 0.0, 1.0
    for j in range(c.size):
        if c[j] != 0.0:
            c[j] = max(abs(c[j]), TINY) * (1.0 if c[j] > 0.0 else -1.0)
            up, down, nearest = max(up, c[j]), max(down, -c[j]), min(nearest, abs(c[j]))
            over, under = over + a[j] * (c[j] > 0.0), under + a[j] * (c[j] < 0.0)
    u = _tilt(a, c, up, down)
    log_top, r = 0.0, abs(u)
    for j in range(c.size):
        left = 1.0 - c[j] * u
        log_top -= a[j] * math.log(left)
        if c[j] != 0.0:
            r = min(r, left / abs(c[j]) / max(1.0, math.sqrt(a[j])))
    if log_top < math.log(NEGLIGIBLE):
        return 1.0 if u > 0.0 else 0.0
    b = BEND if under > LOPSIDED * over else -BEND if over > LOPSIDED * under else 0.0
    rate = over + under
    last = SETTLED - math.log(min(rate, 1.0)) - math.log(r) - math.log(nearest)
    total, term, w = 0.0, 0.0, 0.5 * STEP
    while w < last:
        sinh, cosh = math.sinh(w), math.cosh(w)
        s = complex(u + r * b * (cosh - 1.0), r * sinh)
        log_m = complex(0.0, 0.0)
        for j in range(c.size):
            log_m -= a[j] * np.log(1.0 - c[j] * s)
        value = np.exp(log_m) / s * complex(r * b * sinh, r * cosh)
        term = value.imag
        total += term
        if abs(value) < NEGLIGIBLE:
            break
        w += STEP
    total += term / math.expm1(rate * STEP)
    chance = min(STEP / math.pi * abs(total), 1.0)
    return 1.0 - chance if u > 0.0 else chance
