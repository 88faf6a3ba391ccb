"""Policies simulated on common draws and common outcomes, compared with small errors.

Per policy, stages are played in blocks: for an index policy a block is a table, laid out once and
used by all episodes; for any policy the gap terms of a block are read from such a table of DeCo's
indices. Chunks of draws run in threads; sums are taken in the order of chunks, so that results do
not depend on the number of threads.

A policy is played by the first of these that it has
    play(episodes, first, last, rng)   a compiled loop of its own, for the stages first..last-1
    stage_index(stage)                 the largest index of a table
    choose(stage, state, rng)          a question per episode and stage: slow
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._version import __version__
from .dual import DualSolution, solve
from .estimators import Estimate, Estimates, estimate
from .evaluation import check_truth
from .playing import Played, Player, Progress, play
from .policies.base import Policy
from .problem import Beta, Problem
from .relaxation import Relaxation
from .worlds import World, true_problem

Floats = npt.NDArray[np.float64]
MOST_EPISODES = 10_000_000
GAP_TOLERANCE = 1e-3  # of the dual that the gap terms are taken from: any prices will do


@dataclass(frozen=True, eq=False)
class Curve:
    """Expected cumulative regret after each stage."""

    regret: Floats  # (stages,)
    standard_error: Floats  # (stages,)

    def to_dict(self) -> dict[str, list[float]]:
        return {"regret": self.regret.tolist(), "regret_se": self.standard_error.tolist()}


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """What one policy earns, estimated; `regret` is None where it is not defined."""

    policy: str
    estimates: Estimates
    regret: float | None
    curve: Curve | None
    steps: int
    seconds: float  # of playing and booking
    preparation_seconds: float  # of tables

    @property
    def value(self) -> float:
        return self.estimates.best.value

    @property
    def value_se(self) -> float:
        return self.estimates.best.standard_error

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the curve."""
        return {
            "policy": self.policy,
            "value": self.value,
            "value_se": self.value_se,
            "regret": self.regret,
            "regret_se": None if self.regret is None else self.value_se,
            "method": self.estimates.method,
            "estimates": {
                method: {"value": found.value, "value_se": found.standard_error}
                for method, found in self.estimates.by_method.items()
            },
            "steps_per_second": self.steps / max(self.seconds, 1e-9),
            "preparation_seconds": self.preparation_seconds,
        }

    def __repr__(self) -> str:
        regret = "" if self.regret is None else f", regret {self.regret:.4f}"
        return f"PolicyResult({self.policy}: value {self.value:.4f} ± {self.value_se:.4f}{regret})"


@dataclass(frozen=True, eq=False)
class Simulation:
    """Results of all policies on the same draws."""

    problem: Problem
    results: tuple[PolicyResult, ...]
    settings: dict[str, Any]
    upper_bound: float | None  # on what any policy earns; None where beliefs are wrong
    interrupted: bool = False

    def difference(self, policy: str, other: str) -> Estimate:
        """Value of one policy minus that of another, by paired draws."""
        one, two = (self._estimates(name) for name in (policy, other))
        each = one.contributions - two.contributions
        error = float(np.std(each, ddof=1)) / np.sqrt(each.size) if each.size > 1 else np.inf
        inflation = max(one.inflation, two.inflation)
        return Estimate(float(each.mean()), float(inflation * error))

    def _estimates(self, policy: str) -> Estimates:
        for result in self.results:
            if result.policy == policy:
                return result.estimates
        known = ", ".join(result.policy for result in self.results)
        raise ValueError(f"no policy called {policy!r} was simulated; there are {known}")

    def __repr__(self) -> str:
        lines = "".join(f"\n  {result!r}" for result in self.results)
        return f"Simulation({self.problem.number_of_arms} arms, {self.settings}){lines}"

    def described(self) -> str:
        """What was simulated, in a line."""
        settings = self.settings
        parts = [f"draws: {settings['draws']}, episodes per draw: {settings['per_draw']}"]
        if settings["truth"] is not None:
            parts.append(f"truth {', '.join(f'{p:g}' for p in settings['truth'][:8])}")
        prior = settings["truth_prior"]
        if isinstance(prior, dict):
            parts.append(f"truth from Beta(good={prior['good']:g}, bad={prior['bad']:g})")
        if settings["true_horizon"] != self.problem.horizon:
            parts.append(f"planned {self.problem.horizon}, played {settings['true_horizon']}")
        return "; ".join([*parts, f"seed {settings['seed']}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values; differences are to the first policy."""
        results = []
        for result in self.results:
            gain = self.difference(result.policy, self.results[0].policy)
            results.append(
                result.to_dict()
                | {"difference": gain.value, "difference_se": gain.standard_error}
            )  # fmt: skip
        return {
            **self.settings,
            "arms": self.problem.number_of_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "upper_bound": self.upper_bound,
            "interrupted": self.interrupted,
            "results": results,
        }


def simulate(
    problem: Problem,
    policies: Sequence[Policy],
    *,
    draws: int = 1000,
    per_draw: int = 10,
    seed: int = 1,
    threads: int | None = None,
    solution: DualSolution | None = None,
    truth: Sequence[float] | None = None,
    truth_prior: Beta | Sequence[Beta] | None = None,
    true_horizon: int | None = None,
    afterwards: Sequence[Policy] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Simulation:
    """Simulate policies that were made for `problem`, all on the same draws and outcomes.

    `draws` times the parameters are drawn from the prior, and each time `per_draw` episodes are
    played. `solution`: the dual whose prices the gap terms are taken from; solved here where it is
    not given. `truth`: fixed success probabilities instead. `truth_prior`: where the parameters
    really come from. `true_horizon`: the stages that are really played; where these are more than
    planned, `afterwards` has for each policy the one that takes over after the planned stages,
    made for the problem with the true horizon. Ctrl-C keeps the policies that are finished.
    """
    check_sizes(draws, per_draw, seed)
    _check_policies(problem, policies)
    actual = true_problem(problem, truth_prior, true_horizon)
    known = None if truth is None else check_truth(truth, problem)
    if known is not None and truth_prior is not None:
        raise ValueError("truth and truth_prior: give one of the two")
    if actual.horizon > problem.horizon and len(afterwards or ()) != len(policies):
        raise ValueError("afterwards: a policy for each of the policies, beyond the horizon")
    for successor in afterwards or ():
        if successor.problem.horizon != actual.horizon:
            raise ValueError(f"afterwards: {successor.name!r} is not made for the true horizon")
    world = World(actual, draws=draws, per_draw=per_draw, seed=seed, truth=known)
    gap = None
    if known is None and actual == problem:
        solution = solve(problem, tol=GAP_TOLERANCE) if solution is None else solution
        gap = Relaxation(problem, solution.prices)
    results = []
    interrupted = False
    for i, policy in enumerate(policies):
        later = afterwards[i] if afterwards and actual.horizon > problem.horizon else None
        try:
            results.append(_result(policy, later, world, problem.horizon, gap, threads, progress))
        except KeyboardInterrupt:
            if not results:
                raise
            interrupted = True
            break
    settings = {
        "draws": draws, "per_draw": per_draw, "seed": seed, "truth": known,
        "truth_prior": _plain(truth_prior), "true_horizon": actual.horizon,
    }  # fmt: skip
    bound = None if gap is None else gap.value()
    return Simulation(problem, tuple(results), settings, bound, interrupted)


def _result(
    policy: Policy, later: Policy | None, world: World, planned: int, gap: Relaxation | None,
    threads: int | None, progress: Callable[[Progress], None] | None,
) -> PolicyResult:  # fmt: skip
    players = [Player(policy, until=planned)]
    if later is not None:
        players.append(Player(later, until=world.problem.horizon))
    played = play(players, world, gap, threads, progress)
    found = estimate(played.sample(world, gap))
    best = world.expected_best
    return PolicyResult(
        policy=policy.name,
        estimates=found,
        regret=None if best is None else best - found.best.value,
        curve=None if best is None else _curve(played),
        steps=world.draws * world.per_draw * world.problem.stages,
        seconds=played.seconds,
        preparation_seconds=played.preparation_seconds,
    )


def _curve(played: Played) -> Curve:
    found = [moments.regress()[1] for moments in played.regret_moments()]
    return Curve(
        np.array([each.value for each in found]),
        np.array([each.standard_error for each in found]),
    )


def _check_policies(problem: Problem, policies: Sequence[Policy]) -> None:
    """Refuse what cannot be compared: nothing, names, equal names, policies of other problems."""
    names = set[str]()
    for policy in policies:
        if isinstance(policy, str) or not hasattr(policy, "choose"):
            raise ValueError(f"policies: {policy!r} is no policy; see Workbench(problem).policy")
        if policy.problem != problem:
            raise ValueError(f"policies: {policy.name!r} was made for another problem")
        if policy.name in names:
            raise ValueError(f"policies: two are called {policy.name!r}; rename one")
        names.add(policy.name)
    if not names:
        raise ValueError("policies: none given; must be one or more")


def check_sizes(draws: int, per_draw: int, seed: int) -> None:
    """Refuse numbers that make no simulation."""
    if draws < 2:
        raise ValueError(f"draws: {draws} is not allowed; must be 2 or more, for an error bar")
    if per_draw < 1:
        raise ValueError(f"per_draw: {per_draw} is not allowed; must be 1 or more")
    if draws * per_draw > MOST_EPISODES:
        raise ValueError(
            f"draws x per_draw: {draws * per_draw} episodes; must be at most {MOST_EPISODES}"
        )
    if seed < 0:
        raise ValueError(f"seed: {seed} is not allowed; must be zero or more")


def _plain(prior: Beta | Sequence[Beta] | None) -> Any:
    if prior is None or isinstance(prior, Beta):
        return None if prior is None else prior.model_dump()
    return [each.model_dump() for each in prior]
