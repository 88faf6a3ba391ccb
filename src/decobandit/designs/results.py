"""Operating characteristics of policies in scenarios, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .._version import __version__
from ..problem import Design, Problem, TieRule
from ..support import Card, Columns, Tables, Tabular, columns_of
from ..support.frames import Shown
from ..support.records import doc, record_class

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
        "Expected share of correct guesses of the next arm by somebody who knows the rules and all "
        "earlier outcomes: pulls guessed per pull. None in batches, and for policies whose "
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
        return {
            "name": self.name,
            "truth": list(self.truth),
            "null": self.null,
            "policies": [policy.to_dict() for policy in self.policies],
        }


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
            "reject: probability to declare an arm better; type I error in null scenarios",
        )

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return {
            "policies": self._policies,
            "arms": self._arms,
            "calibration": self._calibration,
            "inference": self._inference,
        }

    def _policies(self) -> Columns:
        return columns_of(
            {"scenario": scenario.name, "null": scenario.null, **_single(row.to_dict())}
            for scenario in self.scenarios
            for row in scenario.policies
        )

    def _arms(self) -> Columns:
        return columns_of(
            {
                "scenario": scenario.name,
                "policy": row.policy,
                "arm": arm.name,
                "truth": scenario.truth[k],
                **_of_arm(row.to_dict(), k),
            }
            for scenario in self.scenarios
            for row in scenario.policies
            for k, arm in enumerate(self.problem.arms)
        )

    def _inference(self) -> Columns:
        names = ["scenario", "policy", *(one.name for one in fields(InferenceCheck))]
        rows = (
            {"scenario": scenario.name, "policy": row.policy, **vars(check)}
            for scenario in self.scenarios
            for row in scenario.policies
            for check in row.inference
        )
        return columns_of(rows, names)

    def _calibration(self) -> Columns:
        names = [one.name for one in fields(Calibrated)]
        return columns_of((one.to_dict() for one in self.calibration), names)


def _single(tree: dict[str, Any]) -> dict[str, Any]:
    """Values that are not one per arm; those of several reasons by the name of each."""
    values = {key: value for key, value in tree.items() if not isinstance(value, list | dict)}
    return values | {
        f"stopped_by_{reason}": chance for reason, chance in tree["stopped_by"].items()
    }


def _of_arm(tree: dict[str, Any], k: int) -> dict[str, Any]:
    lists = ((key, value) for key, value in tree.items() if key != "inference")
    return {key: value[k] for key, value in lists if isinstance(value, list)}


def _as_list(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
