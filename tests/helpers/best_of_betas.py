"""P(best) of binary arms of any rewards and priors, by quadrature over log-odds, to about 1e-11."""

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre
from scipy.special import betainc, betaln, digamma, expit, log_expit, polygamma

Floats = npt.NDArray[np.float64]
NODES = 16
_BENDS = np.array([-40.0, -8.0, -2.0, 2.0, 8.0, 40.0])
# F_c begins and ends like a power of the distance to the ends of another arm's rewards
_STEPS = np.concatenate([[-np.inf], np.arange(-36.0, 37.0, 3.0), [np.inf]])
_SCORES = np.array([-9.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 9.0])
EXPONENTIAL_TAIL = 4.0  # parameter up to which a tail is much longer than that of a normal law
_TAILS = np.array([1.0, 3.0, 9.0, 20.0, 36.0])  # of exponential tails: beyond is below 1e-15
_MAX_LOG_ODDS = 500.0  # log-odds beyond which p or 1-p are powers, as far as a double can tell
_SAME_END = 4.0 * np.finfo(float).eps  # ends of rewards that differ by less are the same end


def best_probabilities(a: Floats, b: Floats, low: Floats, span: Floats) -> Floats:
    """P(largest low + span p) of every arm, p ~ Beta(a, b); all arrays (arms,).

    Integrals over log-odds, where the densities are analytic with exponential tails. Arms of equal
    certain rewards, span = 0, share the probability evenly.
    """
    rows = np.stack([np.where(span > 0, a, 1.0), np.where(span > 0, b, 1.0), low, span], axis=1)
    kinds, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    certain = kinds[:, 3] == 0.0
    floor = np.where(certain, kinds[:, 2], -np.inf).max()
    laws, numbers = kinds[~certain], counts[~certain]
    chances = np.zeros(len(laws))
    for ends in np.unique(laws[:, 2:], axis=0):  # arms of equal rewards at the same points
        y, weights = _points(laws, ends, floor)
        below = np.stack([cdf(k[0], k[1], _rescaled(y, ends, k[2:])) for k in laws])
        for i in np.flatnonzero((laws[:, 2:] == ends).all(axis=1)):
            rivals = numbers - (np.arange(len(laws)) == i)
            density = _density(*laws[i, :2], y)
            chances[i] = (density * (below ** rivals[:, None]).prod(axis=0)) @ weights
    probabilities = np.zeros(len(kinds))
    probabilities[~certain] = chances
    at_floor = certain & (kinds[:, 2] == floor)
    below_floor = [cdf(k[0], k[1], _log_odds(floor, k[2:]))[0] for k in laws]
    probabilities[at_floor] = np.prod(np.array(below_floor) ** numbers) / counts[at_floor]
    probabilities = probabilities[place.reshape(-1)]
    return np.asarray(probabilities / probabilities.sum(), dtype=np.float64)


def _points(laws: Floats, ends: Floats, floor: float) -> tuple[Floats, Floats]:
    """Return nodes and weights in the log-odds of arms of these rewards, for all laws."""
    cuts = [_BENDS]
    for a, b, *other in laws:
        cuts.append(_rescaled(_knots(a, b), np.array(other), ends))
        if not np.array_equal(other, ends):
            cuts.append(_rescaled(_STEPS, np.array(other), ends))
    same = (laws[:, 2:] == ends).all(axis=1)
    reach = np.concatenate([_knots(a, b) for a, b in laws[same, :2]])
    low, high = reach.min(), reach.max()
    if floor > -np.inf:
        low = max(low, _log_odds(floor, ends)[0])
    edges = np.unique(np.concatenate(cuts).clip(low, max(low, high)))
    x, w = legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2.0
    return (edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel()


def _knots(a: float, b: float) -> Floats:
    """Log-odds between which the law of a draw from Beta(a, b) is smooth; all but 1e-15 of it."""
    sd = np.sqrt(polygamma(1, a) + polygamma(1, b))
    tails = [sign * _TAILS / c for sign, c in ((-1.0, a), (1.0, b)) if c < EXPONENTIAL_TAIL]
    bend = np.log((a + 0.5) / (b + 0.5)) + _BENDS  # where the tails of small parameters end
    knots = np.concatenate([digamma(a) - digamma(b) + sd * _SCORES, *tails])
    return np.append(knots, bend.clip(knots.min(), knots.max()))


def _density(a: float, b: float, y: Floats) -> Floats:
    return np.exp(a * log_expit(y) + b * log_expit(-y) - betaln(a, b))  # type: ignore[no-any-return]


def _log_odds(value: float, ends: Floats) -> Floats:
    """Log-odds of the p at which an arm of these rewards earns `value`; infinite beyond, (1,)."""
    p = np.clip(np.array([(value - ends[0]) / ends[1]]), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def _rescaled(y: Floats, here: Floats, there: Floats) -> Floats:
    """Log-odds at which an arm of rewards `there` earns what one of rewards `here` earns at y.

    Distances from the ends of the rewards, not the rewards: near an end that both have in common
    these would be rounded to it, and nearly all draws are there if a and b are small.
    """
    if np.array_equal(here, there):
        return y
    (low, span), (other_low, other_span) = here, there
    bottom, top = low - other_low, other_low + other_span - low - span
    least = _SAME_END * np.abs([low, other_low, low + span, other_low + other_span]).max()
    with np.errstate(divide="ignore", invalid="ignore"):
        rises, falls = (
            log_p + np.log(span / other_span)
            if abs(offset) <= least
            else np.log(np.maximum((offset + span * np.exp(log_p)) / other_span, 0.0))
            for offset, log_p in ((bottom, log_expit(y)), (top, log_expit(-y)))
        )
        odds = rises - falls
    return np.where(np.isneginf(rises), -np.inf, np.where(np.isneginf(falls), np.inf, odds))


def cdf(a: float, b: float, y: Floats) -> Floats:
    """Distribution function of Beta(a, b) at log-odds y, without loss near either end.

    The tail of y up to 0 is p^a / (a B(a, b)) if p is too small for a double.
    """
    low, away = y < 0.0, -np.abs(y)
    one, other = np.where(low, a, b), np.where(low, b, a)
    with np.errstate(over="ignore"):
        power = np.exp(one * away - np.log(one) - betaln(a, b))
    tail = np.where(away < -_MAX_LOG_ODDS, power, betainc(one, other, expit(away)))
    return np.where(low, tail, 1.0 - tail)
