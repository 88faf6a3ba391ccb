"""Operating characteristics from the endings of trials."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..policies import REASONS, RuledPolicy
from ..problem import FinalTest, Truth, has_unknown_means, share_of_best
from ..support import Floats
from .endings import (
    Endings,
    Flags,
    chance_se,
    compared_values,
    posterior_means,
    rewards,
    totals,
    truth_values,
)
from .final_tests import Tested
from .results import Characteristics, Errors, PerArm

DROPPED = -np.inf  # expected reward of an arm that is not chosen
ROUNDING = 1e-12  # of true values
SPENT_QUANTILES = (0.05, 0.5, 0.95)


class _Moments(NamedTuple):
    mean: Floats
    sd: Floats


def characterise(
    policy: RuledPolicy,
    truth: Truth,
    test: FinalTest,
    ends: Endings,
    tested: Tested,
    *,
    exact: bool,
    seconds: float,
) -> Characteristics:
    """All that is reported of a policy in a scenario."""
    w, size = ends.weight, ends.size
    truth = truth_values(policy.problem, truth)
    good, pulls = _moments(w, rewards(policy.problem, ends)), _moments(w, ends.pulls)
    length = _moments(w, size)
    stages = policy.problem.horizon * policy.problem.pulls_per_stage
    stopped = _moments(w, (ends.reason > 0) & (size < stages))
    reject, by_arm = _moments(w, tested.declared.any(axis=1)), _moments(w, tested.declared)
    share, chosen = _best(policy, truth, ends)
    bias, bias_se, rmse, rmse_se = _estimates(truth, ends, totals(policy.problem, ends))
    trials = np.sqrt(len(w))
    errors: Errors = {
        "good": float(good.sd / trials),
        "pulls": _arms(pulls.sd / trials),
        "best_share": None if share is None else float(share.sd / trials),
        "select_best": None if chosen is None else float(chance_se(chosen.mean, len(w))),
        "reject": float(chance_se(reject.mean, len(w))),
        "reject_by_arm": _arms(chance_se(by_arm.mean, len(w))),
        "size": float(length.sd / trials),
        "stopped": float(chance_se(stopped.mean, len(w))),
        "bias": bias_se,
        "rmse": rmse_se,
    }
    money: dict[str, Any] = {}
    if ends.spent is not None:
        spent = _moments(w, ends.spent)
        errors = {**errors, "spent": float(spent.sd / trials)}
        quantiles = np.quantile(ends.spent, SPENT_QUANTILES, method="inverted_cdf")
        money = {"spent": float(spent.mean), "spent_sd": float(spent.sd)}
        money["spent_quantiles"] = tuple(quantiles.tolist())
    reasons = {
        name: float(w[ends.reason == code].sum()) for code, name in enumerate(REASONS) if code
    }
    return Characteristics(
        policy=policy.name,
        good=float(good.mean),
        good_sd=float(good.sd),
        pulls=_arms(pulls.mean),
        pulls_sd=_arms(pulls.sd),
        best_share=None if share is None else float(share.mean),
        select_best=None if chosen is None else float(chosen.mean),
        reject=float(reject.mean),
        reject_by_arm=_arms(by_arm.mean),
        size=float(length.mean),
        size_sd=float(length.sd),
        stopped=float(stopped.mean),
        stopped_by=reasons,
        bias=bias,
        rmse=rmse,
        threshold=test.level,
        exact=exact,
        errors=None if exact else errors,
        seconds=seconds,
        **money,
    )


def _moments(weight: Floats, values: object) -> _Moments:
    """Mean and standard deviation over trials; values (S,) or (S, K)."""
    x = np.asarray(values, dtype=np.float64)
    mean = weight @ x
    return _Moments(mean, np.sqrt(weight @ (x - mean) ** 2))


def _arms(values: Floats) -> PerArm:
    return tuple(float(value) for value in values)


def _best(
    policy: RuledPolicy, truth: Truth, ends: Endings
) -> tuple[_Moments | None, _Moments | None]:
    """Share of the pulls on best arms, and whether one is chosen; None where no arm is best."""
    rules, problem = policy.rules, policy.problem
    if not has_unknown_means(problem):
        return None, None
    best = best_arms(compared_values(rules, problem, truth))
    if best.all():
        return None, None
    expected = compared_values(rules, problem, posterior_means(problem, ends))
    expected = np.where(ends.allowed, expected, DROPPED)
    means = [(expected[:, arm], float(is_best), 1) for arm, is_best in enumerate(best)]
    share = ends.pulls[:, best].sum(axis=1) / np.maximum(ends.size, 1)
    return _moments(ends.weight, share), _moments(ends.weight, share_of_best(means))


def best_arms(values: Floats) -> Flags:
    """Whether arms have the largest of these true values, (K,)."""
    return np.asarray(values >= values.max() - ROUNDING * max(1.0, float(np.abs(values).max())))


_Some = tuple[float | None, ...]


def _estimates(truth: Truth, ends: Endings, total: Floats) -> tuple[_Some, _Some, _Some, _Some]:
    """Bias and root mean squared error of observed rates, each with its error."""
    columns: list[tuple[float | None, float | None, float | None, float | None]] = []
    for arm, p in enumerate(truth):
        there = (ends.pulls[:, arm] > 0) & np.isfinite(p)
        mass = float(ends.weight[there].sum())
        if mass == 0.0:
            columns.append((None, None, None, None))
            continue
        off = total[there, arm] / ends.pulls[there, arm] - p
        w = ends.weight[there] / mass
        bias, square = _moments(w, off), _moments(w, off**2)
        trials = float(np.sqrt(there.sum()))
        rmse = float(np.sqrt(square.mean))
        spread = float(square.sd) / trials / (2.0 * rmse) if rmse > 0.0 else 0.0
        columns.append((float(bias.mean), float(bias.sd) / trials, rmse, spread))
    bias_of, bias_se, rmse_of, rmse_se = zip(*columns, strict=True)
    return bias_of, bias_se, rmse_of, rmse_se
