"""Operating characteristics from the endings of trials."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..policies import REASONS, RuledPolicy
from ..problem import Problem, Rules, Truth, has_unknown_means, share_of_best
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
from .results import Characteristics, Errors, PerArm, SomeArms

DROPPED = -np.inf  # expected reward of an arm that is not chosen
ROUNDING = 1e-12  # of true values
SPENT_QUANTILES = (0.05, 0.5, 0.95)


class _Moments(NamedTuple):
    mean: Floats
    sd: Floats


def characterise(
    policy: RuledPolicy,
    truth: Truth,
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
    rejections = _rejections(policy, truth, ends, tested)
    share, chosen = _best(policy, truth, ends)
    bias, bias_se, rmse, rmse_se = _estimates(truth, ends, totals(policy.problem, ends))
    trials = np.sqrt(len(w))
    errors: Errors = {
        "good": float(good.sd / trials),
        "pulls": _arms(pulls.sd / trials),
        "best_share": None if share is None else float(share.sd / trials),
        "select_best": None if chosen is None else float(chance_se(chosen.mean, len(w))),
        **{name: _probability_error(p, len(w)) for name, p in rejections.items()},
        "size": float(length.sd / trials),
        "stopped": float(chance_se(stopped.mean, len(w))),
        "bias": bias_se,
        "rmse": rmse_se,
    }
    money: dict[str, Any] = {}
    if ends.spent is not None:
        spent = _moments(w, ends.spent)
        errors = {**errors, "spent": float(spent.sd / trials)}
        quantiles = np.quantile(ends.spent, SPENT_QUANTILES, method="inverted_cdf", weights=w)
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
        size=float(length.mean),
        size_sd=float(length.sd),
        stopped=float(stopped.mean),
        stopped_by=reasons,
        bias=bias,
        rmse=rmse,
        threshold=policy.rules.final_test.level,
        exact=exact,
        errors=None if exact else errors,
        seconds=seconds,
        predictability=None if ends.guesses is None else ends.guesses / float(length.mean),
        **rejections,
        **money,
    )


def _rejections(policy: RuledPolicy, truth: Truth, ends: Endings, tested: Tested) -> dict[str, Any]:
    """Return probabilities to declare some arm, a best one, a wrong one; and by arm."""
    best, right = declarable(policy.rules, policy.problem, truth)
    wrong = ~right
    if policy.control is not None:
        wrong[policy.control] = False
    rejections: dict[str, Any] = {}
    every = {"reject": np.ones_like(best), "reject_best": best, "reject_wrong": wrong}
    for name, arms in every.items():
        declared = tested.declared & arms
        some = float(ends.weight @ declared.any(axis=1))
        by_arm = (ends.weight @ declared).tolist()
        marked = zip(by_arm, arms.tolist(), strict=True)
        rejections[name] = some if name != "reject_best" or best.any() else None
        rejections[f"{name}_by_arm"] = tuple(p if mark else None for p, mark in marked)
    return rejections


def _probability_error(probability: Any, trials: int) -> Any:
    """Return the standard error of a probability, or of those of all arms; None stays."""
    if isinstance(probability, tuple):
        return tuple(_probability_error(p, trials) for p in probability)
    return None if probability is None else float(chance_se(probability, trials))


def _moments(weight: Floats, values: object) -> _Moments:
    """Mean and standard deviation over trials; values (S,) or (S, K)."""
    x = np.asarray(values, dtype=np.float64)
    mean = weight @ x
    return _Moments(mean, np.sqrt(weight @ (x - mean) ** 2))


def _arms(values: Floats) -> PerArm:
    return tuple(float(value) for value in values)


def declarable(rules: Rules, problem: Problem, means: object) -> tuple[Flags, Flags]:
    """Return the best arms to declare, and all arms that are right to declare, (K,) each.

    With a control arm, those are right that are better than it by the margin at these true mean
    outcomes; without one, the best arms unless all are equal. Arms without an unknown mean: none.
    """
    none = np.zeros(problem.n_arms, np.bool_)
    if not has_unknown_means(problem):
        return none, none
    control, values = rules.control_of(problem), compared_values(rules, problem, means)
    if control is None:
        best = best_arms(values)
        right = none if best.all() else best
        return right, right
    base, factor = rules.pull_values(problem)
    worth = base + factor * np.asarray(means)
    room = ROUNDING * max(1.0, float(np.abs(worth).max()))
    right = worth > worth[control] + rules.margin + room
    right[control] = False
    best = none.copy()
    if right.any():
        best[right] = best_arms(values[right])
    return best, right


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


def _estimates(truth: Truth, ends: Endings, total: Floats) -> tuple[SomeArms, ...]:
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
