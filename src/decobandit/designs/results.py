"""Operating characteristics of policies in scenarios: records, and how they follow from endings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from .._version import __version__
from ..policies import REASONS, RuledPolicy
from ..problem import (
    Design,
    Problem,
    Rules,
    TieRule,
    Truth,
    check_kind_truth,
    has_unknown_means,
    share_of_best,
)
from ..support import Card, Columns, Floats, Tables, Tabular, columns_of
from ..support.frames import Shown
from ..support.records import doc, record_class
from .final_tests import Tested
from .playing import Endings, Flags

DROPPED = -np.inf  # expected reward of an arm that is not chosen
ROUNDING = 1e-12  # of true values
SPENT_QUANTILES = (0.05, 0.5, 0.95)

PerArm = tuple[float, ...]
SomeArms = tuple[float | None, ...]
Errors = Mapping[str, float | SomeArms | None]


@record_class()
class InferenceCheck:
    """Bias and coverage of one method for one arm, over simulated trials of the design."""

    method: str = doc("observed, sequence, ipw, aipw, weighted, odds ratio or p-value.")
    arm: str = doc("Name of the arm.")
    trials: int = doc("Simulated trials in which the method gives a result.")
    bias: float | None = doc("Mean of the estimate minus the truth; null without an estimate.")
    bias_se: float | None = doc("Its standard error.")
    below: float | None = doc(
        "Share of estimates below the truth, ties by halves: 0.5 if it is median-unbiased."
    )
    coverage: float | None = doc(
        "Share of 95% intervals that contain the truth; of a p-value the share above 0.05 in null "
        "scenarios. Null without an interval."
    )
    coverage_se: float | None = doc("Its standard error.")
    width: float | None = doc("Mean width of the intervals; null without one, and of odds ratios.")


@record_class()
class Characteristics:
    """Operating characteristics of a policy in a scenario.

    Lists have one entry per arm, in the order of the file.
    """

    policy: str = doc("Its name.")
    good: float = doc("Mean number of good outcomes; of non-binary outcomes, the mean reward.")
    good_sd: float = doc("Standard deviation of the same over trials.")
    pulls: PerArm = doc("Mean number of pulls of each arm.")
    pulls_sd: PerArm = doc("Standard deviation of the pulls of each arm.")
    best_share: float | None = doc(
        "Mean share of pulls that best arms get, those of the largest expected reward of a pull "
        "(of the largest mean outcome where the design compares outcomes); None where all are "
        "equal, and where an arm has states of its own."
    )
    select_best: float | None = doc(
        "Probability that at the end the largest posterior expected reward, of arms not dropped, "
        "is that of a best arm; ties count by halves. None where all arms are equal, and where an "
        "arm has states of its own."
    )
    reject: float = doc(
        "Probability that some arm is declared better than control; without a control arm, best. "
        "0 where an arm has states of its own: there is no mean to test."
    )
    reject_by_arm: PerArm = doc("The same for each arm; 0 for control.")
    reject_best: float | None = doc(
        "Probability that a best arm is declared, of those that are right to declare: better than "
        "control by the margin; without a control arm, best. None where there is none."
    )
    reject_best_by_arm: SomeArms = doc("The same for each best arm; None for the others.")
    reject_wrong: float = doc(
        "Probability that some arm is declared that is not better than control by the margin; "
        "without a control arm, one that is not best, or any where all are equal."
    )
    reject_wrong_by_arm: SomeArms = doc("The same for each such arm; None for the others.")
    size: float = doc("Mean number of pulls of a trial.")
    size_sd: float = doc("Standard deviation of the number of pulls.")
    stopped: float = doc("Probability to stop before the last stage.")
    stopped_by: Mapping[str, float] = doc(
        "Probability of each reason to stop, also at looks after the last stage."
    )
    bias: SomeArms = doc("Bias of the observed rate or mean outcome of each arm.")
    rmse: SomeArms = doc("Its root mean squared error, over trials that pull it.")
    threshold: float = doc("Level of the final test.")
    exact: bool = doc("Whether all states were followed; otherwise the numbers are simulated.")
    errors: Errors | None = doc("Standard errors by name, where simulated.")
    seconds: float = doc("Computing time.")
    predictability: float | None = doc(
        "Expected share of correct guesses of the next arm by an observer who knows the rules and "
        "all earlier outcomes: pulls guessed per pull. None in batches, and for policies whose "
        "probabilities are not known.",
        default=None,
    )
    spent: float | None = doc("Mean of the money spent; None without a budget.", default=None)
    spent_sd: float | None = doc("Standard deviation of the money spent.", default=None)
    spent_quantiles: tuple[float, ...] | None = doc(
        "5%, 50% and 95% quantiles of the money spent.", default=None
    )

    inference: tuple[InferenceCheck, ...] = doc(
        "Bias and coverage of estimates and intervals, by method and arm, simulated; empty unless "
        "asked for.",
        default=(),
    )
    inference_left_out: Mapping[str, str] = doc(
        "Methods of inference that the design does not allow, with the reason.",
        default_factory=dict,
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `x_se` is the standard error of `x`, where simulated."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        errors = values.pop("errors") or {}
        values |= {f"{name}_se": error for name, error in errors.items()}
        values["inference"] = tuple(dict(vars(one)) for one in self.inference)
        return {key: _as_list(value) for key, value in values.items()}


@dataclass(frozen=True, repr=False)
class ScenarioResult(Shown):
    """A scenario, and what policies do there."""

    name: str
    truth: tuple[Any, ...]  # as the design has it
    null: bool  # no arm is better than control; without a control arm: all arms are equal
    policies: tuple[Characteristics, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        policies = [policy.to_dict() for policy in self.policies]
        return vars(self) | {"truth": list(self.truth), "policies": policies}


@dataclass(frozen=True)
class Calibrated:
    """The smallest threshold of a policy that keeps the type I error at alpha in null scenarios.

    Where trials are simulated, it is fitted on other draws than `type_one_error` comes from.
    """

    policy: str
    alpha: float
    what: str  # test.threshold, test.alpha, or stop.superiority
    threshold: float
    type_one_error: float  # in this scenario, on fresh draws where simulated
    type_one_error_se: float  # 0 where exact
    scenario: str  # the null scenario where the error was largest when the threshold was fitted
    exact: bool
    confidence: float | None = None  # that the true error is at most alpha; None where exact

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return dict(vars(self))


@record_class()
class DesignResult(Tabular):
    """Operating characteristics of a design.

    Tables of `to_frame`: `policies`, one row for each policy in each scenario; `arms`, one for each
    arm of these; `calibration`; `inference`, one for each method and arm, where it was asked for.

    Examples
    --------
    >>> from decobandit import Design, Problem, operating_characteristics
    >>> design = Design(policies=["equal"], scenarios=[{"name": "null", "truth": [0.5, 0.5]}])
    >>> result = operating_characteristics(Problem.uniform(arms=2, horizon=6), design)
    >>> result.to_dict()["scenarios"][0]["policies"][0]["pulls"]
    [3.0, 3.0]
    """

    problem: Problem = doc("What is played.")
    design: Design = doc("Rules, policies, test and scenarios, as asked for.")
    ties: TieRule = doc("How policies break ties.")
    scenarios: tuple[ScenarioResult, ...] = doc("In the order of the design; each has `policies`.")
    calibration: tuple[Calibrated, ...] = doc(
        "Thresholds by policy, where they were calibrated.", default=()
    )
    notes: tuple[str, ...] = doc("What was left out, and why.", default=())
    interrupted: bool = doc(
        "Whether only what was finished is there: of the last policy, its first scenarios.",
        default=False,
    )

    @property
    def earned(self) -> str:
        """The meaning of `good`, in words."""
        return "good outcomes" if self.problem.is_binary else "total reward"

    @property
    def calibrated(self) -> Design:
        """The design with the thresholds that were calibrated; one for all where they agree."""
        levels = {one.policy: one.threshold for one in self.calibration}
        policies = {row.policy for scenario in self.scenarios for row in scenario.policies}
        if not levels:
            return self.design
        if len(set(levels.values())) == 1 and policies == levels.keys():
            return self.design.at_threshold(self.calibration[0].threshold)
        return self.design.model_copy(update={"thresholds": levels})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco design --json` prints them."""
        return {
            "arms": [arm.name for arm in self.problem.arms],
            "horizon": self.problem.horizon,
            "pulls_per_stage": self.problem.pulls_per_stage,
            "settings": self.design.model_dump(mode="json", exclude_none=True),
            "ties": self.ties,
            "draws": self.design.draws,
            "seed": self.design.seed,
            "version": __version__,
            "interrupted": self.interrupted,
            "notes": list(self.notes),
            "calibration": [one.to_dict() for one in self.calibration],
            "scenarios": [one.to_dict() for one in self.scenarios],
        }

    def _card(self) -> Card:
        names = ("scenario", "policy", "good", "select_best", "reject", "size", "stopped", "exact")
        every = self._policies()
        return Card(
            f"Operating characteristics: {self.problem.described()}",
            {"control": self.design.control, "seed": self.design.seed},
            {name: every[name] for name in names if name in every},
            "reject: probability of declaring an arm better; type I error in null scenarios",
        )

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return {
            "policies": self._policies,
            "arms": self._arms,
            "calibration": lambda: columns_of(
                (one.to_dict() for one in self.calibration),
                [one.name for one in fields(Calibrated)],
            ),
            "inference": self._inference,
        }

    def _rows(self) -> Iterator[tuple[ScenarioResult, Characteristics, dict[str, Any]]]:
        """Yield the policies of all scenarios, with plain values."""
        for scenario in self.scenarios:
            for row in scenario.policies:
                yield scenario, row, row.to_dict()

    def _policies(self) -> Columns:
        """Return values that are not one per arm; those of several reasons by name."""
        return columns_of(
            {"scenario": scenario.name, "null": scenario.null}
            | {key: value for key, value in tree.items() if not isinstance(value, list | dict)}
            | {f"stopped_by_{reason}": chance for reason, chance in tree["stopped_by"].items()}
            for scenario, _, tree in self._rows()
        )

    def _arms(self) -> Columns:
        return columns_of(
            {
                "scenario": scenario.name,
                "policy": row.policy,
                "arm": arm.name,
                "truth": scenario.truth[k],
            }
            | {
                key: value[k]
                for key, value in tree.items()
                if isinstance(value, list) and key != "inference"
            }
            for scenario, row, tree in self._rows()
            for k, arm in enumerate(self.problem.arms)
        )

    def _inference(self) -> Columns:
        names = ["scenario", "policy", *(one.name for one in fields(InferenceCheck))]
        rows = (
            {"scenario": scenario.name, "policy": row.policy, **vars(check)}
            for scenario, row, _ in self._rows()
            for check in row.inference
        )
        return columns_of(rows, names)


def _as_list(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


# -- from endings ---------------------------------------------------------------------------------


def chance_se(mean: Floats, trials: int) -> Floats:
    """Error of a probability; as if one trial more had gone either way, so that it is never 0."""
    p = (mean * trials + 1.0) / (trials + 2.0)
    return np.asarray(np.sqrt(p * (1.0 - p) / trials))


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean over simulated trials, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def truth_values(problem: Problem, truth: tuple[Any, ...]) -> tuple[float, ...]:
    """Return the true mean outcome of every arm; nan for one with states of its own."""
    arms = zip(problem.arm_groups, check_kind_truth(truth, problem), strict=True)
    return tuple(
        np.nan if local == () else float(group.model.mean_at(np.array(local)))
        for group, local in arms
    )


def compared_values(rules: Rules, problem: Problem, means: object) -> Floats:
    """Return what arms of these mean outcomes, (..., K), are compared by: rewards, or the outcomes.

    In units of the largest factor, so that rounding errors do not depend on the unit of rewards.
    """
    base, factor = rules.pull_values(problem)
    unit = max(float(np.abs(factor).max()), float(np.abs(base).max()))
    return np.asarray((base + factor * np.asarray(means)) / unit)


def totals(problem: Problem, ends: Endings) -> Floats:
    """Return the total of the outcomes of each arm, (S, K): good ones, or the sum.

    States of their own do not tell it: the column after their statistics does.
    """
    return _by_arm(problem, ends, "total")


def posterior_means(problem: Problem, ends: Endings) -> Floats:
    """Of each arm at the end, (S, K)."""
    return _by_arm(problem, ends, "mean")


def rewards(problem: Problem, ends: Endings) -> Floats:
    """Total reward of each trial, (S,): good outcomes, or what outcomes earn at mean factors."""
    reward = totals(problem, ends)
    if problem.is_binary:
        return np.asarray(reward.sum(axis=1))
    stages, groups = slice(0, problem.horizon), problem.arm_groups
    played = [group.played_rewards for group in groups]
    base, factor = (
        np.array([part[stages].mean() for part in x]) for x in zip(*played, strict=True)
    )
    return np.asarray((base * ends.pulls + factor * reward).sum(axis=1))


def _by_arm(problem: Problem, ends: Endings, what: str) -> Floats:
    columns = []
    for k, group in enumerate(problem.group_of_arm):
        kind = problem.groups[group].model
        local = ends.stats[:, k]
        reported = what == "total" and kind.ordered
        columns.append(
            local[:, kind.width] if reported else getattr(kind, what)(local[:, : kind.width])
        )
    return np.stack(columns, axis=1)


class _Moments(NamedTuple):
    mean: Floats
    sd: Floats


def _moments(weight: Floats, values: object) -> _Moments:
    """Mean and standard deviation over trials; values (S,) or (S, K)."""
    x = np.asarray(values, dtype=np.float64)
    mean = weight @ x
    return _Moments(mean, np.sqrt(weight @ (x - mean) ** 2))


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
    problem, w = policy.problem, ends.weight
    truth, trials = truth_values(problem, truth), len(w)
    early = (ends.reason > 0) & (ends.size < problem.horizon * problem.pulls_per_stage)
    means = {"good": rewards(problem, ends), "size": ends.size}
    chances = _rejections(policy, truth, ends, tested) | {"stopped": float(w @ early)}
    share, chances["select_best"] = _best(policy, truth, ends)
    if share is not None:
        means["best_share"] = share
    if ends.spent is not None:
        means["spent"] = ends.spent
    moments = {name: _moments(w, values) for name, values in means.items()}
    pulls, estimates = _moments(w, ends.pulls), _estimates(truth, ends, totals(problem, ends))
    values: dict[str, Any] = {name: float(one.mean) for name, one in moments.items()}
    values |= {f"{name}_sd": float(one.sd) for name, one in moments.items()}
    values.pop("best_share_sd", None)
    values.setdefault("best_share", None)
    root = np.sqrt(trials)
    errors: dict[str, Any] = {"best_share": None, "pulls": tuple((pulls.sd / root).tolist())}
    errors |= {name: float(one.sd / root) for name, one in moments.items()}
    errors |= {name: _probability_error(p, trials) for name, p in chances.items()}
    errors |= {name: estimates[f"{name}_se"] for name in ("bias", "rmse")}
    if ends.spent is not None:
        quantiles = np.quantile(ends.spent, SPENT_QUANTILES, method="inverted_cdf", weights=w)
        values["spent_quantiles"] = tuple(quantiles.tolist())
    return Characteristics(
        policy=policy.name,
        pulls=tuple(pulls.mean.tolist()),
        pulls_sd=tuple(pulls.sd.tolist()),
        stopped_by={
            name: float(w[ends.reason == code].sum()) for code, name in enumerate(REASONS) if code
        },
        bias=estimates["bias"],
        rmse=estimates["rmse"],
        threshold=policy.rules.final_test.level,
        exact=exact,
        errors=None if exact else errors,
        seconds=seconds,
        predictability=None if ends.guesses is None else ends.guesses / values["size"],
        **chances,
        **values,
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


def _best(policy: RuledPolicy, truth: Truth, ends: Endings) -> tuple[Floats | None, float | None]:
    """Share of the pulls on best arms, and P(one is chosen); None where no arm is best."""
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
    return share, float(ends.weight @ share_of_best(means))


def best_arms(values: Floats) -> Flags:
    """Whether arms have the largest of these true values, (K,)."""
    return np.asarray(values >= values.max() - ROUNDING * max(1.0, float(np.abs(values).max())))


def _estimates(truth: Truth, ends: Endings, total: Floats) -> dict[str, SomeArms]:
    """Bias and root mean squared error of observed rates, each with its error."""
    columns: list[tuple[float | None, ...]] = []
    for arm, p in enumerate(truth):
        there = (ends.pulls[:, arm] > 0) & np.isfinite(p)
        mass = float(ends.weight[there].sum())
        if mass == 0.0:
            columns.append((None,) * 4)
            continue
        off = total[there, arm] / ends.pulls[there, arm] - p
        w = ends.weight[there] / mass
        bias, square = _moments(w, off), _moments(w, off**2)
        trials, rmse = float(np.sqrt(there.sum())), float(np.sqrt(square.mean))
        spread = float(square.sd) / trials / (2.0 * rmse) if rmse > 0.0 else 0.0
        columns.append((float(bias.mean), float(bias.sd) / trials, rmse, spread))
    names = ("bias", "bias_se", "rmse", "rmse_se")
    return dict(zip(names, zip(*columns, strict=True), strict=True))
