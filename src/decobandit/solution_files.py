"""Solution files: a problem, its multipliers and what was certified about them, as JSON.

A policy is saved in the same way, with its tie rule: tables are recomputed on load, so the file is
small, can be read by a person, and decides exactly as the policy that wrote it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ._version import __version__
from .dual import DualSolution
from .policies.base import DEFAULT_TIES, TieRule
from .policies.deco import DecoPolicy, deco
from .problem_files import ProblemError, problem_from_dict, problem_to_dict, read_tree

FORMAT = "decobandit-solution-1"
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _SolutionFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["decobandit-solution-1"]
    version: str
    problem: dict[str, Any]
    multipliers: list[Finite]
    deployment_price: Finite | None = None
    upper_bound: Finite
    lower_bound: Finite
    tol: Annotated[Finite, Field(ge=0)]
    oracle_calls: Annotated[int, Field(ge=0)]
    seconds: Annotated[Finite, Field(ge=0)]
    interrupted: bool
    ties: TieRule = DEFAULT_TIES


def save_solution(
    solution: DualSolution, path: str | Path, *, ties: TieRule = DEFAULT_TIES
) -> None:
    """Write a solution; the file appears whole or not at all."""
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise ProblemError(f"{path}: solutions are JSON; the name must be .json at its end")
    tree = {
        "format": FORMAT,
        "version": __version__,
        "problem": problem_to_dict(solution.problem),
        "multipliers": solution.multipliers.tolist(),
        "deployment_price": solution.deployment_price,
        "upper_bound": solution.upper_bound,
        "lower_bound": solution.lower_bound,
        "tol": solution.tol,
        "oracle_calls": solution.oracle_calls,
        "seconds": solution.seconds,
        "interrupted": solution.interrupted,
        "ties": ties,
    }
    partial = target.with_name(target.name + ".partial")
    partial.write_text(json.dumps(tree, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(partial, target)


def load_solution(path: str | Path) -> DualSolution:
    """Read a solution written by `save_solution`."""
    return _read(path)[0]


def save_policy(policy: DecoPolicy, solution: DualSolution, path: str | Path) -> None:
    """Write a DeCo policy: its solution and its tie rule."""
    if policy.problem != solution.problem or not np.array_equal(policy.prices, solution.prices):
        raise ValueError("the policy was not made from this solution")
    save_solution(solution, path, ties=policy.ties)


def load_policy(path: str | Path) -> DecoPolicy:
    """Read a DeCo policy; its tables are recomputed."""
    solution, ties = _read(path)
    return deco(solution, ties=ties)


def is_solution(tree: object) -> bool:
    """Whether parsed JSON claims to be a solution file (as against a problem file)."""
    return isinstance(tree, dict) and "multipliers" in tree


def _read(path: str | Path) -> tuple[DualSolution, TieRule]:
    source = str(path)
    try:
        file = _SolutionFile.model_validate(read_tree(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        raise ProblemError(f"{source}: {key}: {first['msg']}") from None
    problem = problem_from_dict(file.problem, source=f"{source}: problem")
    if len(file.multipliers) != problem.horizon:
        raise ProblemError(
            f"{source}: multipliers: {len(file.multipliers)} numbers; must have one per stage, "
            f"{problem.horizon}"
        )
    if (file.deployment_price is None) != (problem.stages == problem.horizon):
        raise ProblemError(f"{source}: deployment_price: must be there exactly when deploy is")
    if file.lower_bound > file.upper_bound:
        raise ProblemError(f"{source}: lower_bound: must not exceed upper_bound")
    solution = DualSolution(
        problem=problem,
        multipliers=np.array(file.multipliers),
        deployment_price=file.deployment_price,
        upper_bound=file.upper_bound,
        lower_bound=file.lower_bound,
        tol=file.tol,
        oracle_calls=file.oracle_calls,
        seconds=file.seconds,
        interrupted=file.interrupted,
        history=(),
    )
    return solution, file.ties
