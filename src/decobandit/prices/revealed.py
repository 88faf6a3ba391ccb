"""Arms of unknown variance in the dual: every policy knows their standard deviations.

A policy that knows the standard deviation s of an arm's outcomes from the start earns at least as
much, and at prices mu the arm is then worth E V[mu](s), V the value of an arm of normal outcomes
with noise s and a normal prior of standard deviation s / sqrt(pulls). The posterior mean of that
arm is m + s Z, the law of Z independent of s: the reward of a rule that follows Z is linear in s,
and V, their maximum, is convex in s. It does not fall in s, as any rule may ignore Z. Hence

    above   s is shared by the grid points around it (chords); below the first point it is raised
            to it; beyond the last one V rises by at most E Z^+ <= 0.4 / sqrt(pulls) a pull
    below   s is replaced by its mean in every cell of the grid (Jensen)

An arm becomes several arms of known variance, each a part of one: the dual function of these is an
upper bound on every policy at any prices.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..problem import Group, NormalGammaModel, NormalModel, Problem
from ..support import Floats, Unsupported

GRID_SCORES = np.concatenate([np.arange(-3.0, 3.0, 0.5), np.arange(3.0, 6.1, 1.0)])
POSITIVE_PART = 0.39894229  # E Z^+ of a standard normal Z, rounded up


def revealed_groups(problem: Problem, *, below: bool = False) -> tuple[tuple[Group, ...], float]:
    """Return groups of arms of known variance, and what their values leave out of the dual."""
    groups, left_out = list[Group](), 0.0
    pulls = np.full(problem.stages, float(problem.most_units * problem.unit))
    pulls[problem.horizon :] = 1.0
    for group in problem.groups:
        model = group.model
        if not isinstance(model, NormalGammaModel):
            groups.append(group)
            continue
        if problem.may_wait:
            raise Unsupported(
                "bounds of arms of unknown variance: not with a budget or resources", field="prior"
            )
        mean, root = model.prior_mean, float(np.sqrt(model.prior_pulls))
        if below:
            sds, weights = sd_means(model)
        else:
            sds, weights, beyond = sd_chords(model)
            slope = POSITIVE_PART * float(pulls @ np.abs(group.reward_factor)) / root
            left_out += beyond * group.count * slope
        groups += [
            replace(group, model=NormalModel(mean, sd / root, sd), weight=weight)
            for sd, weight in zip(sds.tolist(), weights.tolist(), strict=True)
        ]
    return tuple(groups), left_out


def sd_chords(model: NormalGammaModel) -> tuple[Floats, Floats, float]:
    """Return grid points of the sd with weights by chords, and E (sd - last point)^+."""
    points = _points(model)
    probability, mean = _beyond(model, points)
    beyond = mean - points * probability
    slope = np.diff(beyond) / np.diff(points)  # rises from -1 to 0
    weights = np.diff(np.concatenate([[-1.0], slope, [0.0]]))
    return points, np.maximum(weights, 0.0), float(beyond[-1])


def sd_means(model: NormalGammaModel) -> tuple[Floats, Floats]:
    """Return means of the sd in the cells between grid points, and the cells' probabilities."""
    edges = np.concatenate([[0.0], _points(model), [np.inf]])
    probability, part = (-np.diff(tail) for tail in _beyond(model, edges))
    possible = probability > 0.0
    return part[possible] / probability[possible], probability[possible]


def _points(model: NormalGammaModel) -> Floats:
    """Quantiles of the standard deviation at normal scores."""
    from scipy.special import gammaincinv, ndtr  # late: scipy takes half a second to load

    precision: Floats = gammaincinv(model.shape, ndtr(-GRID_SCORES)) / model.rate
    return 1.0 / np.sqrt(precision)


def _beyond(model: NormalGammaModel, sd: Floats) -> tuple[Floats, Floats]:
    """Return P(standard deviation > sd), and its expectation where it is above sd, (N,) each."""
    from scipy.special import gammainc, gammaln

    a = model.shape
    mean = np.sqrt(model.rate) * np.exp(gammaln(a - 0.5) - gammaln(a))
    with np.errstate(divide="ignore"):
        precision = model.rate / np.square(sd)  # in units of its rate
    return np.asarray(gammainc(a, precision)), np.asarray(mean * gammainc(a - 0.5, precision))
