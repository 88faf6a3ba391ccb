"""Results of a simulation: the value of every policy, regret by stage, paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._version import __version__
from ..problem import Problem, truth_text
from ..support import (
    Card,
    Columns,
    Floats,
    InvalidArgument,
    Tables,
    Tabular,
    columns_of,
    constant,
)
from ..support.frames import Shown
from ..support.records import doc, record_class
from .estimators import Estimate, Estimates

OBSERVED = ("outcome", "good", "pulls")  # columns of episodes that a deployment has no values of

NO_REGRET = (
    "no regret: with states, tables of last rewards or a budget no single arm is best, even if all "
    "is known; 'deco gap' compares with every policy"
)


@dataclass(frozen=True, eq=False)
class Curve:
    """Expected cumulative regret after each stage."""

    regret: Floats  # (stages,)
    regret_se: Floats  # (stages,)

    def to_dict(self) -> dict[str, list[float]]:
        return {"regret": self.regret.tolist(), "regret_se": self.regret_se.tolist()}


@record_class(eq=False)
class PolicyResult(Shown):
    """The estimated value of one policy.

    Examples
    --------
    >>> from decobandit import Problem, simulate
    >>> result = simulate(Problem.uniform(arms=2, horizon=5), "greedy", draws=50, rng=1).results[0]
    >>> result.value_se < 0.1, result.curve.regret.shape
    (True, (5,))
    """

    policy: str = doc("Name of the policy.")
    estimates: Estimates = doc(
        "Estimates of the value; `estimates.method` names the one of smallest error."
    )
    regret: float | None = doc(
        "Regret against pulling the arms of largest mean; None where it is not defined."
    )
    curve: Curve | None = doc(
        "`curve.regret` and `curve.regret_se`, (stages,): cumulative regret after each stage."
    )
    steps: int = doc("Number of stages played, over all episodes.")
    seconds: float = doc("Duration of the simulation.")
    preparation_seconds: float = doc("Duration of the preparation of tables.")
    episodes: Columns | None = doc(
        "Columns of all pulls, if kept: see `Simulation.to_frame`.", default=None
    )

    @property
    def value(self) -> float:
        """Expected total reward, by the estimator of smallest error."""
        return self.estimates.best.value

    @property
    def value_se(self) -> float:
        """Standard error of the value."""
        return self.estimates.best.value_se

    @property
    def regret_se(self) -> float | None:
        """Standard error of the regret, which is that of the value; None where there is none."""
        return None if self.regret is None else self.value_se

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the curve."""
        return {
            "policy": self.policy,
            "value": self.value,
            "value_se": self.value_se,
            "value_se_kind": self.estimates.best.value_se_kind,
            "regret": self.regret,
            "regret_se": self.regret_se,
            "method": self.estimates.method,
            "estimates": {
                method: {"value": one.value, "value_se": one.value_se}
                for method, one in self.estimates.by_method.items()
            },
            "steps_per_second": self.steps / max(self.seconds, 1e-9),
            "preparation_seconds": self.preparation_seconds,
        }

    def __repr__(self) -> str:
        regret = "" if self.regret is None else f", regret {self.regret:.4f}"
        return f"PolicyResult({self.policy}: value {self.value:.4f} ± {self.value_se:.4f}{regret})"


@record_class(eq=False)
class Simulation(Tabular):
    """Results of all policies on the same draws.

    Tables of `to_frame`: `policies`; `stages`, the regret after each; `episodes`, every pull, where
    they were kept (`simulate(..., keep_episodes=True)`).

    Examples
    --------
    >>> from decobandit import Problem, simulate
    >>> result = simulate(Problem.uniform(arms=2, horizon=5), ["greedy", "equal"], draws=50, rng=1)
    >>> more = result.difference("greedy", "equal")
    >>> more.value > 0, more.value_se < 0.1
    (True, True)
    >>> result.to_frame(kind="pandas")["policy"].tolist()
    ['greedy', 'equal']
    """

    problem: Problem = doc("Problem that was simulated.")
    results: tuple[PolicyResult, ...] = doc("One per policy, in the order given.")
    settings: dict[str, Any] = doc("Draws, episodes per draw, seed and truth.")
    upper_bound: float | None = doc(
        "No policy earns more; None if priors are wrong or the dual was not solved."
    )
    interrupted: bool = doc(
        "Whether policies are missing because of a keyboard interrupt.",
        default=False,
    )

    def difference(self, policy: str, other: str) -> Estimate:
        """Value of one policy minus that of another, by paired draws: `value`, `value_se`."""
        one, two = (self._estimates(name) for name in (policy, other))
        if one is two:
            return Estimate(0.0, 0.0)
        return one.minus(two)

    def alike(self, policy: str, other: str) -> bool:
        """Whether two policies did not differ in any draw: an error says little then."""
        one, two = (self._estimates(name) for name in (policy, other))
        return np.array_equal(one.contributions, two.contributions)

    def _estimates(self, policy: str) -> Estimates:
        for result in self.results:
            if result.policy == policy:
                return result.estimates
        names = ", ".join(result.policy for result in self.results)
        raise InvalidArgument(
            f"no policy called {policy!r} was simulated; there are {names}", field="policy"
        )

    def __repr__(self) -> str:
        values = (f"{x.policy} {x.value:.4f} ± {x.value_se:.4f}" for x in self.results)
        return f"Simulation({self.problem.n_arms} arms: {', '.join(values)})"

    def described(self) -> str:
        """Return what was simulated, in a line."""
        settings = self.settings
        parts = [f"draws: {settings['draws']}, episodes per draw: {settings['per_draw']}"]
        if settings["truth"] is not None:
            parts.append(f"truth {', '.join(map(truth_text, settings['truth'][:8]))}")
        prior = settings["truth_prior"]
        if isinstance(prior, dict):
            kind = prior.get("kind", "Beta")
            numbers = [f"{key}={value}" for key, value in prior.items() if key != "kind"]
            if kind == "Beta":
                numbers = [f"{key}={value:g}" for key, value in prior.items()]
            parts.append(f"truth from {kind}({', '.join(numbers)})")
        if settings["true_horizon"] != self.problem.horizon:
            parts.append(f"planned {self.problem.horizon}, played {settings['true_horizon']}")
        return "; ".join([*parts, f"seed {settings['seed']}"])

    def _card(self) -> Card:
        names = ("policy", "value", "value_se", "regret", "difference", "difference_se")
        every = self._policies()
        return Card(
            f"Simulation: {self.problem.described()}",
            {"": self.described(), "no policy earns more than": self.upper_bound},
            {name: every[name] for name in names},
            f"difference: to {self.results[0].policy}, on the same draws and outcomes",
        )

    def tables(self) -> Tables:
        """Return columns by the name of the table."""
        every = {"policies": self._policies, "stages": self._stages, "episodes": self._episodes}
        absent = self.absent_tables()
        return {name: columns for name, columns in every.items() if name not in absent}

    def absent_tables(self) -> dict[str, str]:
        """Return the reason why a table is missing, by its name."""
        absent = {}
        if all(result.curve is None for result in self.results):
            absent["stages"] = NO_REGRET
        if all(result.episodes is None for result in self.results):
            absent["episodes"] = "not kept; simulate(..., keep_episodes=True) keeps them"
        return absent

    def _policies(self) -> Columns:
        return self.with_settings(self.to_dict()["results"])

    def with_settings(self, results: Iterable[dict[str, Any]]) -> Columns:
        """Return columns of results, one row each, with the settings."""
        keys = ("draws", "per_draw", "seed", "true_horizon")
        rows = ({key: result[key] for key in result if key != "estimates"} for result in results)
        return {
            **columns_of(rows),
            **constant(
                len(self.results),
                arms=self.problem.n_arms,
                horizon=self.problem.horizon,
                **{name: self.settings[name] for name in keys},
                upper_bound=self.upper_bound,
                version=__version__,
            ),
        }

    def _stages(self) -> Columns:
        return columns_of(
            {"policy": result.policy, "stage": stage, "regret": regret, "regret_se": error}
            for result in self.results
            if result.curve is not None
            for stage, (regret, error) in enumerate(
                zip(result.curve.regret.tolist(), result.curve.regret_se.tolist(), strict=True)
            )
        )

    def _episodes(self) -> Columns:
        episodes = [(one.policy, one.episodes) for one in self.results if one.episodes is not None]
        names = np.array([arm.name for arm in self.problem.arms])
        first = episodes[0][1]
        joined: dict[str, Any] = {
            name: np.concatenate([columns[name] for _, columns in episodes]) for name in first
        }
        policies = np.repeat(
            [name for name, _ in episodes], [len(one["arm"]) for _, one in episodes]
        )
        joined["arm"] = names[joined["arm"]]
        for name in OBSERVED:
            if name in joined:  # a whole number if it is good or bad, None at a deployment
                kind, column = int if self.problem.is_binary else float, joined[name]
                joined[name] = (
                    [None if math.isnan(value) else kind(value) for value in column.tolist()]
                    if np.isnan(column).any()
                    else column.astype(kind)
                )
        return {"policy": policies, **joined}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; differences are to the first policy."""
        results = []
        for result in self.results:
            gain = vars(self.difference(result.policy, self.results[0].policy))
            more = {name.replace("value", "difference"): number for name, number in gain.items()}
            results.append(result.to_dict() | more)
        return {
            **self.settings,
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "upper_bound": self.upper_bound,
            "interrupted": self.interrupted,
            "results": results,
        }


# -- policies side by side, averaged over seeds -----------------------------------------------


class Compared(Protocol):
    """Row of a table of results."""

    @property
    def policy(self) -> str: ...

    @property
    def line(self) -> str: ...  # the problem, and the scenario where there is one

    @property
    def measure(self) -> str: ...  # what is measured, the same in all rows of a table

    @property
    def compared(self) -> tuple[float, float] | None: ...  # the number and its standard error


class PolicyGrid(NamedTuple):
    """Policies side by side; a pair that has no number is left out."""

    measure: str
    lines: tuple[str, ...]  # problems
    policies: tuple[str, ...]
    found: dict[tuple[str, str], Estimate]  # by line and policy, averaged over all seeds


def policy_grid(rows: Sequence[Compared]) -> PolicyGrid:
    """Return a grid of problems and policies, averaged over seeds."""
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.compared is not None:
            cells.setdefault((row.line, row.policy), []).append(row.compared)
    found = {}
    for pair, numbers in cells.items():
        values, errors = zip(*numbers, strict=True)
        found[pair] = Estimate(sum(values) / len(values), math.hypot(*errors) / len(errors))
    lines = tuple(dict.fromkeys(row.line for row in rows))
    policies = tuple(dict.fromkeys(row.policy for row in rows))
    return PolicyGrid(rows[0].measure if rows else "", lines, policies, found)
