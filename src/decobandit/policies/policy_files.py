"""DeCo policies as JSON: a solution and its tie rule; tables are recomputed on load."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..prices import DualSolution, at_canonical_prices, read_solution, save_solution
from .deco import DecoPolicy, deco


def save_policy(policy: DecoPolicy, solution: DualSolution, path: str | Path) -> None:
    """Write a DeCo policy to a JSON file: its solution and its tie rule.

    Parameters
    ----------
    policy : DecoPolicy
        What is written.
    solution : DualSolution
        What it was made from.
    path : str or Path
        The name ends in .json.

    Raises
    ------
    ValueError
        If the policy was not made from this solution.
    ProblemError
        If the name does not end in .json.

    Examples
    --------
    >>> from decobandit import Problem, State, deco, load_policy, save_policy, solve
    >>> solution = solve(Problem.uniform(arms=3, horizon=10))
    >>> save_policy(deco(solution, ties="first"), solution, "policy.json")
    >>> load_policy("policy.json").choose(State.parse("0/1,0/0,0/0"))
    (1,)
    """
    prices = at_canonical_prices(solution).prices
    if policy.problem != solution.problem or not np.array_equal(policy.prices, prices):
        raise ValueError("the policy was not made from this solution")
    save_solution(solution, path, ties=policy.ties)


def load_policy(path: str | Path) -> DecoPolicy:
    """Read a DeCo policy from a JSON file; its tables are recomputed.

    Parameters
    ----------
    path : str or Path
        Written by `save_policy`, or by `save_solution`.

    Returns
    -------
    DecoPolicy

    Raises
    ------
    ProblemError
        As in `load_solution`.

    Examples
    --------
    >>> from decobandit import load_policy
    >>> load_policy("missing.json")
    Traceback (most recent call last):
    decobandit.problem.model_base.ProblemError: missing.json: no such file
    """
    solution, ties = read_solution(path)
    return deco(solution, ties=ties)
