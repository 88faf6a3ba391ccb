"""The law of a mean of classes whose chances have a Dirichlet distribution.

With independent G_j ~ Gamma(a_j), the mean of classes worth v_j is sum_j v_j G_j / sum_j G_j, and

    P(mean <= x) = P(sum_j c_j G_j <= 0),      c_j = v_j - x
                 = 1/2 - 1/pi integral_0^inf Im f(t) / t dt,   f(t) = prod_j (1 - i c_j t)^(-a_j)

(Gil-Pelaez). t = sinh(w) / s with s^2 = sum_j a_j c_j^2 / min(1, sum_j a_j): the integrand is even
and analytic in w, so that midpoints at steps of STEP are exact to about 1e-8. It dies off like
exp(-w sum_j a_j), its phase constant; what is left after the last midpoint is the integral of that.
Far from the mean the chance is 0 or 1 by Chernoff's bound.

Notations
    N, L, M   states; classes; points of each
    a, v      (N, L), (L,)
"""

import math

from ...support.kernels.compiled import compiled

STEP = 0.12
TURN = 2.0  # of the phase, that a step may make
SMALL = 2.0 * math.log(1e5)  # minus twice the logarithm of an integrand where steps may be longer
FAR = 20.0  # w from which they may be, too
FAINT = 1e-9  # the integrand, where it ends
LEAST = math.log(1e-10)  # chances below it are 0
MOST = 2000  # points of the integral
HALVINGS = 40  # of the range of values, to a quantile


@compiled
def dirichlet_mean_cdf(a, v, x, found):
    """found[n, m] = P(mean <= x[n, m]) at weights a[n]; x, found (N, M)."""
    low, high = v.min(), v.max()
    for n in range(a.shape[0]):
        for m in range(x.shape[1]):
            if low < x[n, m] < high:
                found[n, m] = _below(a[n], v, x[n, m], low, high)
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
                if _below(a[n], v, x, least, most) < level[n, m]:
                    low = x
                else:
                    high = x
            found[n, m] = 0.5 * (low + high)


@compiled
def _below(a, v, x, low, high):
    drift, square = 0.0, 0.0
    for j in range(v.size):
        drift += a[j] * (v[j] - x)
        square += a[j] * (v[j] - x) * (v[j] - x)
    # E exp(-u Q) bounds the chance of the other side of 0, whatever u > 0 (or < 0, from above)
    if drift > 0.0:
        u = min(drift / square, 0.95 / (x - low))
    else:
        u = max(drift / square, 0.95 / (x - high))
    bound = 0.0
    for j in range(v.size):
        bound -= a[j] * math.log1p(u * (v[j] - x))
    if bound < LEAST:
        return 0.0 if drift > 0.0 else 1.0
    return _inverted(a, v, x, math.sqrt(square / min(a.sum(), 1.0)))


@compiled(inline="always")
def _step(a, v, x, scale):
    """Of the midpoints: at most TURN of a phase wherever the integrand is larger than SMALL."""
    step, w = STEP, 0.5
    while w < FAR:
        size, speed, t = 0.0, 0.0, math.sinh(w) / scale
        for j in range(v.size):
            z = t * (v[j] - x)
            size += a[j] * math.log1p(z * z)
            speed += a[j] * z / (1.0 + z * z)
        if size > SMALL:
            break
        step = min(step, TURN / max(abs(speed), 1.0))
        w += 0.5
    return step


@compiled(inline="always")
def _inverted(a, v, x, scale):
    total, step = 0.0, _step(a, v, x, scale)
    size, phase = 0.0, 0.0
    for k in range(MOST):
        w = (k + 0.5) * step
        t = math.sinh(w)
        size, phase = 0.0, 0.0
        for j in range(v.size):
            z = t * (v[j] - x) / scale
            size += a[j] * math.log1p(z * z)
            phase += a[j] * math.atan(z)
        size = math.exp(-0.5 * size) * math.cosh(w) / t
        total += size * math.sin(phase)
        if size < FAINT:
            break
    rate = 0.0  # at which the integrand dies off
    for j in range(v.size):
        if v[j] != x:
            rate += a[j]
    total += size * math.exp(-0.5 * rate * step) / (rate * step) * math.sin(phase)
    return min(max(0.5 - step / math.pi * total, 0.0), 1.0)
