"""The problem of a command, a file or options, and its policies by name.

A new option of a problem is added here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal, TypeVar

import typer

from .. import policies, prices, support
from .. import problem as problems
from ..policies.names import PAPER_POLICY
from ..problem.ties import DEFAULT_TIES
from .options import (
    Ties,
    Tolerance,
    Workers,
    argument,
    option,
    options_of,
    shown,
    taking,
    with_options,
)
from .output import note

ProblemFile = Annotated[Path | None, argument("PROBLEM", "Problem file (.toml, .json).")]
SourceFile = Annotated[Path | None, argument("PROBLEM|SOLUTION", "Problem file or saved solution.")]
OneSegment = Annotated[str | None, shown("NAME", "Only this segment, on its own clock.")]


def _problem_option(metavar: str, text: str, default: str | None = None) -> Any:
    """Option of a problem without a file; all are in one panel of the help."""
    panel, shown_default = "Problem without a file", default or False
    return shown(metavar, text, rich_help_panel=panel, show_default=shown_default)


@dataclass(frozen=True)
class Source:
    """A problem, with prices and tie rule where it came from a saved solution."""

    problem: problems.Problem
    solution: prices.DualSolution | None = None
    ties: problems.TieRule | None = None
    design: problems.Design | None = None  # in a problem file


def from_problem(
    problem: ProblemFile = None,
    arms: Annotated[int | None, _problem_option("K", "Number of equal arms.")] = None,
    horizon: Annotated[int | None, _problem_option("T", "Number of stages.")] = None,
    horizon_law: Annotated[
        str | None, _problem_option("LAW", "Random horizon, such as geometric:mean=50,most=400.")
    ] = None,
    prior_good: Annotated[
        float | None, _problem_option("A", "Prior weight of good outcomes.", "1")
    ] = None,
    prior_bad: Annotated[
        float | None, _problem_option("B", "Prior weight of bad outcomes.", "1")
    ] = None,
    batch: Annotated[
        int | None, _problem_option("M", "Pulls per stage, shared among arms.")
    ] = None,
    unit: Annotated[
        int | None, _problem_option("U", "Pulls of a batch that go to one arm together.")
    ] = None,
    deploy: Annotated[
        float | None, _problem_option("N", "Uses of the arm that is deployed at the end.")
    ] = None,
    deploy_arms: Annotated[
        int | None, _problem_option("M", "Number of arms deployed at the end.", "1")
    ] = None,
    reward_good: Annotated[
        float | None, _problem_option("R", "Reward of a good outcome.", "1")
    ] = None,
    reward_bad: Annotated[
        float | None, _problem_option("R", "Reward of a bad outcome.", "0")
    ] = None,
    segment: OneSegment = None,
    workers: Workers = None,
) -> Source:
    """Return the problem of a file or of options, and its design."""
    fields = _without_none(
        arms=arms,
        horizon=horizon if horizon_law is None else _law(horizon_law),
        prior=_without_none(good=prior_good, bad=prior_bad),
        pulls_per_stage=batch,
        repeat=None if batch is None else True,
        unit=unit,
        terminal=_without_none(deploy=deploy, deploy_arms=deploy_arms),
        reward=_without_none(good=reward_good, bad=reward_bad),
    )
    if "prior" in fields:
        fields["prior"] = {"good": 1.0, "bad": 1.0} | fields["prior"]
    if problem is not None and fields:
        raise typer.BadParameter("give a problem file, or --arms and --horizon, not both")
    if problem is not None:
        return _read(problem, segment)
    if segment is not None:
        raise typer.BadParameter("--segment: segments are those of a problem file; give one")
    if arms is None or "horizon" not in fields:
        raise typer.BadParameter("give a problem file, or both --arms and --horizon")
    if horizon is not None and horizon_law is not None:
        raise typer.BadParameter("give one of --horizon and --horizon-law")
    if unit is not None and batch is None:
        raise typer.BadParameter("--unit: says how a batch is shared; give --batch too")
    try:
        return Source(problems.EqualArms(**fields).problem())
    except problems.InvalidProblem as error:
        raise problems.ProblemError(error.line(_option_of_field)) from None


def _option_of_field(place: support.Place) -> str:
    """("prior", "good") is --prior-good."""
    words = [str(word) for word in place if word != "terminal"]
    return "--batch" if words == ["pulls_per_stage"] else f"--{'-'.join(words).replace('_', '-')}"


def _read(file: Path, segment: str | None) -> Source:
    """Return the problem of a file, or of one of its segments."""
    if _is_saved(file):
        raise typer.BadParameter(f"{file}: is a saved solution; use it with 'deco recommend'")
    problem, design = problems.designed_from_dict(problems.read_tree(file), source=str(file))
    if segment is not None:
        problem = problem.segment(segment)
        rule = "bounds hold for policies that decide by this segment only"
        note(f"{segment} on its own clock: {rule}")
    return Source(problem, design=design)


def _is_saved(file: Path) -> bool:
    return file.suffix.lower() == ".json" and prices.is_solution(problems.read_tree(file))


def _law(text: str) -> problems.RandomHorizon:
    try:
        return problems.RandomHorizon.parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"--horizon-law: {str(error).removeprefix('horizon: ')}") from None


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != {}}


def problem_from(**options: Any) -> problems.Problem:
    """Return the problem of a file or of options."""
    return from_problem(**options).problem


def from_problem_or_solution(problem: SourceFile = None, **options: Any) -> Source:
    """Return a problem, or a saved solution with its problem."""
    if problem is None or not _is_saved(problem):
        return from_problem(problem, **options)
    if any(value is not None for name, value in options.items() if name != "workers"):
        raise typer.BadParameter(
            "a solution file has its problem and its prices: no --arms, --horizon"
        )
    solution, ties = prices.read_solution(problem)
    return Source(solution.problem, solution, ties)


_options = options_of(from_problem)
with_options(problem_from, _options)
with_options(from_problem_or_solution, [*options_of(from_problem_or_solution), *_options[1:]])
takes_problem = taking(problem_from)


def context_of(problem: problems.Problem, tol: float, **settings: Any) -> policies.Context:
    """Return the context of policies; it solves the dual on first use, with progress."""
    return policies.Context(problem, tol=tol, solver=solve_shown, **settings)


def solve_shown(
    problem: problems.Problem, tol: float, grid: int | None = None
) -> prices.DualSolution:
    """Solve with progress on standard error where that is a terminal."""
    with support.show_progress() as report:
        return prices.solve(problem, tol=tol, grid=grid, progress=report)


# -- The policies of a command, by name, and what they are made from -------------------------------

QUICK_STAGES = 20  # up to which a price path is tuned in a second or so
R = TypeVar("R")
Saved = Literal["refused", "prices", "policy"]  # what a saved solution is to a command


@dataclass(frozen=True)
class Chosen:
    """Policies by name, and the problem, tie rule and prices that they are made from."""

    context: policies.Context
    policies: tuple[str, ...]
    design: problems.Design | None = None  # in the problem file

    @property
    def rules(self) -> problems.Rules | None:
        return None if self.design is None else self.design.rules

    @property
    def policy(self) -> str:
        return self.policies[0]


def takes_policies(
    *default: str, several: bool = True, saved: Saved = "refused"
) -> Callable[[Callable[Concatenate[Chosen, ...], R]], Callable[..., R]]:
    """Give a command its policies; `saved`: what it takes of a solution file."""

    def choose(
        source: Source, policy: list[str] | None, ties: problems.TieRule, tol: float
    ) -> Chosen:
        settings: dict[str, Any] = {"ties": ties, "fixed_solution": source.solution}
        if saved == "policy" and source.solution is not None:
            if policy is not None:
                rule = "has its policy, DeCo at its prices: no --policy"
                raise typer.BadParameter(f"a solution file {rule}")
            settings["ties"] = source.ties
            return Chosen(context_of(source.problem, tol, **settings), (PAPER_POLICY,))
        serving = policies.serving(source.problem, default)
        names = serving or default
        if policy is not None:
            listed = (name.strip() for text in policy for name in text.split(","))
            names = tuple(dict.fromkeys(listed))
        if not several and len(names) > 1:
            raise typer.BadParameter(f"--policy: {', '.join(names)}: give one policy")
        policies.check_policies(names)
        tunes = policy is None and source.problem.stages > QUICK_STAGES
        if tunes and any(policies.policy_class(name).is_tuned for name in names):
            note(f"picking a policy and tuning it; --policy {PAPER_POLICY} starts at once")
        return Chosen(context_of(source.problem, tol, **settings), names, source.design)

    many = ("NAME,...", "Policies, separated by commas.")
    named = shown(*(many if several else ("NAME", "Policy.")), show_default=", ".join(default))
    extra = [
        option("source", Source),
        option("policy", Annotated[list[str] | None, named]),
        option("ties", Ties, DEFAULT_TIES),
        option("tol", Tolerance, 1e-4),
    ]
    source = from_problem if saved == "refused" else from_problem_or_solution
    make: Callable[..., Chosen] = taking(source)(with_options(choose, extra))
    return taking(make)
