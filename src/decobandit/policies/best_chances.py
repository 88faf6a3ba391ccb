"""Probability of each arm to have the largest mean reward, by quadrature.

With X_a = low_a + span_a p_a and p_a ~ Beta(a, b),

    P(X_a is the largest) = integral of f_a(p) prod_{c != a} F_c((X_a - low_c) / span_c)

taken over the log-odds y = log p / (1 - p), where the density p^a (1-p)^b / B(a, b) is smooth
however small a and b are. The integral is cut at quantiles of all arms, and where the reward of
another arm begins and ends; each piece is integrated by Gauss-Legendre quadrature.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..support import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = np.array([1e-15, 1e-11, 1e-7, 1e-4, 0.01, 0.1, 0.4])
_BENDS = np.array([-40.0, -8.0, 0.0, 8.0, 40.0])  # of log p and log 1-p: for small a and b
# F_c begins and ends like a power of the distance to the ends of another arm's rewards
_STEPS = np.concatenate([[-np.inf], np.arange(-36.0, 37.0, 3.0), [np.inf]])
_FAR = 500.0  # log-odds beyond which p or 1-p are powers, as far as a double can tell
_LARGE = 1e4  # parameters from which on quantiles are found by bisection: betaincinv is far off
_HALVINGS = 80
_SAME = 4.0 * np.finfo(float).eps  # ends of rewards that differ by less are the same end
_MANY = 12  # kinds of arms from which on all are integrated at the same points, if rewards agree
_MOST_PIECES = 700  # of that integral


def best_chances(a: Floats, b: Floats, low: Floats, span: Floats) -> Floats:
    """Chance of every arm to have the largest low + span p, p ~ Beta(a, b); all arrays (arms,).

    Arms whose reward does not vary, span = 0, share the chance of being best evenly with others of
    the same reward.
    """
    rows = np.stack([np.where(span > 0, a, 1.0), np.where(span > 0, b, 1.0), low, span], axis=1)
    kinds, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    varying = kinds[:, 3] > 0.0
    floor = np.where(varying, -np.inf, kinds[:, 2]).max()  # deterministic rewards
    if len(kinds) >= _MANY and varying.all() and np.ptp(kinds[:, 2:], axis=0).max() == 0.0:
        chances = _chances_at_common_points(kinds, counts)[place.reshape(-1)]
        return np.asarray(chances / chances.sum(), dtype=np.float64)
    chances = np.zeros(len(kinds))
    for i, kind in enumerate(kinds):
        if varying[i]:
            others = counts - (np.arange(len(kinds)) == i)
            chances[i] = _chance(kind, kinds[varying], others[varying], floor)
        elif kind[2] == floor:
            below = [cdf(own[0], own[1], _odds(np.array([floor]), own))[0] for own in kinds]
            chances[i] = np.prod(np.where(varying, below, 1.0) ** counts) / counts[i]
    chances = chances[place.reshape(-1)]
    return np.asarray(chances / chances.sum(), dtype=np.float64)


def _chances_at_common_points(kinds: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """Chances of many kinds of the same rewards: F of every kind is needed at every point once."""
    cuts = np.unique(np.concatenate([_BENDS, *(_quantiles(a, b) for a, b in kinds[:, :2])]))
    if cuts.size > _MOST_PIECES:
        cuts = cuts[np.linspace(0, cuts.size - 1, _MOST_PIECES + 1).astype(np.int64)]
    half = np.diff(cuts)[:, None] / 2.0
    y, weights = (cuts[:-1, None] + half * (1.0 + _NODES)).ravel(), (half * _WEIGHTS).ravel()
    below = np.stack([cdf(a, b, y) for a, b in kinds[:, :2]])
    powers = below ** counts[:, None]
    # products of all but one: of those before it, times those after it
    before, after = np.ones_like(powers), np.ones_like(powers)
    np.cumprod(powers[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumprod(powers[:0:-1], axis=0)[::-1]
    density = np.stack([_density(a, b, y) for a, b in kinds[:, :2]])
    own = below ** (counts[:, None] - 1)  # others of its own kind
    return np.asarray((density * before * after * own) @ weights, dtype=np.float64)


def _chance(kind: Floats, kinds: Floats, others: npt.NDArray[np.int64], floor: float) -> float:
    """Chance of one arm against `others` many of each kind, and against `floor`."""
    a, b = kind[:2]
    points = [_quantiles(a, b), _BENDS]
    for other in kinds:
        points.append(_moved(_quantiles(other[0], other[1]), other, kind))
        if _differ(other, kind):
            points.append(_moved(_STEPS, other, kind))
    least, most = points[0][0], points[0][-1]
    if floor > -np.inf:
        least = max(least, float(_odds(np.array(floor), kind)))
    if least >= most:
        return 0.0
    cuts = np.unique(np.concatenate(points).clip(least, most))
    half = np.diff(cuts)[:, None] / 2.0
    y = (cuts[:-1, None] + half * (1.0 + _NODES)).ravel()
    density = _density(a, b, y)
    for other, count in zip(kinds, others, strict=True):
        if count:
            density *= cdf(other[0], other[1], _moved(y, kind, other)) ** count
    return float(density @ (half * _WEIGHTS).ravel())


def _density(a: float, b: float, y: Floats) -> Floats:
    """Density of the log-odds y of a Beta(a, b)."""
    from scipy.special import betaln, log_expit  # late: trials do not need scipy

    return np.exp(a * log_expit(y) + b * log_expit(-y) - betaln(a, b))  # type: ignore[no-any-return]


def _odds(value: Floats, kind: Floats) -> Floats:
    """Log-odds of the p at which an arm of this kind earns `value`; infinite beyond its ends."""
    p = np.clip((value - kind[2]) / kind[3] if kind[3] > 0 else np.zeros_like(value), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def _moved(y: Floats, here: Floats, there: Floats) -> Floats:
    """Log-odds at which an arm of the kind `there` earns what one `here` earns at y.

    Distances from the ends of the rewards, not the rewards: near an end that both have in common
    these would be rounded to it, and nearly all draws are there if a and b are small.
    """
    from scipy.special import log_expit

    if not _differ(here, there):
        return y
    low, high = here[2] - there[2], there[2] + there[3] - here[2] - here[3]
    least = _SAME * np.abs([here[2], there[2], here[2] + here[3], there[2] + there[3]]).max()
    rises = _log_distance(low, here[3], there[3], log_expit(y), least)
    falls = _log_distance(high, here[3], there[3], log_expit(-y), least)
    with np.errstate(invalid="ignore"):
        odds = rises - falls
    return np.where(np.isneginf(rises), -np.inf, np.where(np.isneginf(falls), np.inf, odds))


def _log_distance(offset: float, span: float, unit: float, log_p: Floats, least: float) -> Floats:
    """log of (offset + span p) / unit, -inf where that is not positive."""
    if abs(offset) <= least:
        return np.asarray(log_p + np.log(span / unit))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum((offset + span * np.exp(log_p)) / unit, 0.0)))


def _differ(one: Floats, other: Floats) -> bool:
    """Whether two kinds have different rewards."""
    return bool(one[2] != other[2] or one[3] != other[3])


def cdf(a: float, b: float, y: Floats) -> Floats:
    """Distribution function of Beta(a, b) at log-odds y, without loss near either end."""
    below = np.asarray(y, dtype=np.float64).copy()
    left, right = y < 0.0, y >= 0.0
    below[left] = _lower_tail(a, b, y[left])
    below[right] = 1.0 - _lower_tail(b, a, -y[right])
    return below


def _lower_tail(a: float, b: float, y: Floats) -> Floats:
    """The same for y up to 0: p^a / (a B(a, b)) where p is too small for a double."""
    from scipy.special import betainc, betaln, expit

    with np.errstate(over="ignore"):
        power = np.exp(a * y - np.log(a) - betaln(a, b))
    return np.asarray(np.where(y < -_FAR, power, betainc(a, b, expit(y))), dtype=np.float64)


@lru_cache(maxsize=10_000)
def _quantiles(a: float, b: float) -> Floats:
    """Log-odds at which the distribution function of Beta(a, b) has the levels, and one minus."""
    return np.concatenate([_lower(a, b), -_lower(b, a)[::-1]])


def _lower(a: float, b: float) -> Floats:
    from scipy.special import betaincinv, betaln

    if max(a, b) > _LARGE:
        return _bisected(a, b)
    p = betaincinv(a, b, _LEVELS)
    with np.errstate(divide="ignore"):
        exact = np.log(p) - np.log1p(-p)
    power = (np.log(_LEVELS) + np.log(a) + betaln(a, b)) / a
    return np.asarray(np.where(p < 1e-200, np.minimum(power, -_FAR), exact), dtype=np.float64)


def _bisected(a: float, b: float) -> Floats:
    """The same for large parameters."""
    from scipy.special import betainc, betaincc, betaln, expit

    low, high = np.full(_LEVELS.size, -_FAR), np.full(_LEVELS.size, _FAR)
    for _ in range(_HALVINGS):
        y = (low + high) / 2.0
        below = np.where(y < 0.0, betainc(a, b, expit(y)), betaincc(b, a, expit(-y)))
        low, high = np.where(below < _LEVELS, y, low), np.where(below < _LEVELS, high, y)
    power = (np.log(_LEVELS) + np.log(a) + betaln(a, b)) / a
    return np.asarray(np.where(high <= 1e-6 - _FAR, np.minimum(power, -_FAR), high))
