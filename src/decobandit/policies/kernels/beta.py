"""Tails of the Beta distribution and its upper quantiles.

    S(x) = P(p > x) = I_{1-x}(b, a)         p ~ Beta(a, b), I the regularised incomplete beta
                                            function
    w(x) = x^a (1-x)^b / B(a, b)            = x (1-x) times the density

I_x(a, b) is w(x) over a continued fraction: Didonato and Morris, Significant digit computation of
the incomplete beta function ratios, ACM TOMS 18, 1992. The smaller of both tails has it
converge fast and keeps all digits of small tails.

scipy.special.betainccinv agrees to 1e-12 at most levels, in 1.1 to 1.9 times the time. It is not
used because Bayes-UCB takes levels up to 700, where it is off by up to 0.04 or not a number (from
100 on), and because slopes need 1 - x to all digits, which would be a second root.

Notations
    v       level, minus the logarithm of a tail: S(x) = exp(-v)
    y       log(x / (1-x)). Its density is logconcave for all a, b > 0, and so log S is concave in y
"""

import math

from ...support.kernels.compiled import compiled

ROUNDING = 1e-16
MOST_TERMS = 100_000  # about the square root of a + b is needed at worst
MOST_STEPS = 200
CLOSE = 1e-5  # steps are of third order: one this small against the shape is the last
LEAST, MOST = -700.0, 40.0  # of y; outside, x is 0 or 1


@compiled(inline="always")
def _stirling_rest(z):
    """log Gamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2), z at least 20."""
    s = 1.0 / (z * z)
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s / 1680.0))) / z


@compiled
def log_beta(a, b):
    """log B(a, b); for large arguments without the difference of their large log Gamma."""
    least, most = min(a, b), max(a, b)
    both = least + most
    if most < 20.0:
        return math.lgamma(least) + math.lgamma(most) - math.lgamma(both)
    ratio = -(most - 0.5) * math.log1p(least / most) - least * (math.log(both) - 1.0)
    return math.lgamma(least) + ratio + _stirling_rest(most) - _stirling_rest(both)


@compiled
def fraction(a, b, x):
    """w(x) / I_x(a, b), by Lentz's method; for x up to about (a+1) / (a+b+2)."""
    below = 1.0 / (a + 1.0)
    value = a * (a - (a + b) * x + 1.0) * below
    c, d = value, 0.0
    for m in range(1, MOST_TERMS):
        part = m * (b - m) * x * below
        top = (a + m - 1.0) * (a + b + m - 1.0) * x * below * part
        below_next = 1.0 / (a + 2.0 * m + 1.0)
        bottom = m + part + (a + m) * (a - (a + b) * x + 1.0 + m * (2.0 - x)) * below_next
        d = 1.0 / (bottom + top * d)
        c = bottom + top / c
        value *= c * d
        if abs(c * d - 1.0) <= 2.0 * ROUNDING:
            break
        below = below_next
    return value


@compiled
def upper_tail(a, b, x, rest, w):
    """S(x), from rest = 1 - x and w(x)."""
    if w == 0.0:
        return 1.0 if x * (a + b) < a else 0.0
    if rest * (a + b + 2.0) <= b + 1.0:
        return w / fraction(b, a, rest)
    return 1.0 - w / fraction(a, b, x)


@compiled(inline="always")
def curved(correction):
    """What Halley's method divides a step of Newton's by, kept near 1: far out it would creep."""
    return min(max(1.0 + correction, 0.5), 2.0)


@compiled(inline="always")
def normal_quantile(v):
    """z with P(Z > z) = exp(-v) for a standard normal Z, to 0.0005: a start for other quantiles.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23.
    """
    tail = math.exp(-v)
    t = math.sqrt(2.0 * (v if tail <= 0.5 else -math.log(-math.expm1(-v))))
    top, bottom = 2.515517 + t * (0.802853 + t * 0.010328), t * (0.189269 + t * 0.001308)
    z = t - top / (1.0 + t * (1.432788 + bottom))
    return z if tail <= 0.5 else -z


@compiled(inline="always")
def quantile_start(a, b, log_b, v, z):
    """y near the upper quantile of level v.

    Abramowitz and Stegun 26.5.22; where a density has a pole, the power with which a tail begins.
    """
    if a > 1.0 and b > 1.0:
        p, q = 1.0 / (2.0 * a - 1.0), 1.0 / (2.0 * b - 1.0)
        h, s = 2.0 / (p + q), (z * z - 3.0) / 6.0
        shift = z * math.sqrt(h + s) / h - (p - q) * (s + 5.0 / 6.0 - 2.0 / (3.0 * h))
        return math.log(a / b) + 2.0 * shift
    log_rest = (math.log(b) + log_b - v) / b
    if log_rest < -0.7:
        return -log_rest
    return min((math.log(-math.expm1(-v)) + math.log(a) + log_b) / a, 0.0)


@compiled(inline="always")
def upper_quantile(a, b, v, z):
    """x with S(x) = exp(-v), then its first and second derivative by v; z = normal_quantile(v).

    Halley's method on log S(y) + v, within a bracket; slopes are by y, r = dy/dv = S/w.
    """
    if v <= 0.0:
        return 0.0, 0.0, 0.0
    log_b = log_beta(a, b)
    low, high = LEAST, MOST
    y = min(max(quantile_start(a, b, log_b, v, z), low), high)
    x = 0.0
    for _ in range(MOST_STEPS):
        x, rest = 1.0 / (1.0 + math.exp(-y)), 1.0 / (1.0 + math.exp(y))
        log_x = -math.log1p(math.exp(-y))
        w = math.exp(a * log_x + b * (log_x - y) - log_b)
        tail = upper_tail(a, b, x, rest, w)
        if tail <= 0.0 or w == 0.0:  # far out: halve
            low, high = (low, y) if tail <= 0.5 else (y, high)
            step = 0.5 * (low + high) - y
            rate = 1.0
        else:
            excess, hazard, slope = math.log(tail) + v, w / tail, a - (a + b) * x
            low, high = (y, high) if excess > 0.0 else (low, y)
            newton = excess / hazard
            step = newton / curved(0.5 * newton * (slope + hazard))
            rate = hazard + abs(slope) + math.sqrt((a + b) * x * rest)
        last = abs(step) * rate <= CLOSE or high - low <= 1e-13
        if not low <= y + step <= high:
            step = 0.5 * (low + high) - y
        y += step
        if last:
            break
    return _with_slopes(a, b, y, v, log_b)


@compiled(inline="always")
def _with_slopes(a, b, y, v, log_b):
    """x, dx/dv, d2x/dv2 at the solution y."""
    x, rest = 1.0 / (1.0 + math.exp(-y)), 1.0 / (1.0 + math.exp(y))
    log_x = -math.log1p(math.exp(-y))
    w = math.exp(a * log_x + b * (log_x - y) - log_b)
    if w == 0.0 or y <= LEAST + 1.0 or y >= MOST - 1.0:
        return (0.0 if y < 0.0 else 1.0), 0.0, 0.0
    r, slope = math.exp(-v) / w, a - (a + b) * x
    first = x * rest * r
    return x, first, first * ((rest - x) * r - 1.0 - slope * r)


@compiled
def upper_quantiles(a, b, v, out):
    """Quantile and slopes of every Beta(a[i], b[i]); out (states, 3)."""
    z = normal_quantile(v)
    for i in range(a.size):
        out[i, 0], out[i, 1], out[i, 2] = upper_quantile(a[i], b[i], v, z)
