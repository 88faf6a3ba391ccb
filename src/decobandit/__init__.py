"""Finite-horizon Bayesian bandits by decomposition and coordination (DeCo).

Reading order: problem -> market -> search -> dual -> relaxation -> policies.
Names are imported on first use, so that `import decobandit` does not wait for the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .dual import DualSolution, DualValue, dual_value, solve
    from .outcomes import read_outcomes
    from .policies import DecoPolicy, IndexPolicy, Policy, deco
    from .problem import Arm, Beta, Problem, Reward, Terminal, terminal_table
    from .problem_files import ProblemError, load_problem, save_problem
    from .progress import show_progress
    from .relaxation import Relaxation
    from .solution_files import load_policy, load_solution, save_policy, save_solution
    from .state import State

_HOME = {
    "Arm": "problem",
    "Beta": "problem",
    "DecoPolicy": "policies",
    "DualSolution": "dual",
    "DualValue": "dual",
    "IndexPolicy": "policies",
    "Policy": "policies",
    "Problem": "problem",
    "ProblemError": "problem_files",
    "Relaxation": "relaxation",
    "Reward": "problem",
    "State": "state",
    "Terminal": "problem",
    "deco": "policies",
    "dual_value": "dual",
    "load_policy": "solution_files",
    "load_problem": "problem_files",
    "load_solution": "solution_files",
    "read_outcomes": "outcomes",
    "save_policy": "solution_files",
    "save_problem": "problem_files",
    "save_solution": "solution_files",
    "show_progress": "progress",
    "solve": "dual",
    "terminal_table": "problem",
}

__all__ = [
    "Arm",
    "Beta",
    "DecoPolicy",
    "DualSolution",
    "DualValue",
    "IndexPolicy",
    "Policy",
    "Problem",
    "ProblemError",
    "Relaxation",
    "Reward",
    "State",
    "Terminal",
    "__version__",
    "deco",
    "dual_value",
    "load_policy",
    "load_problem",
    "load_solution",
    "read_outcomes",
    "save_policy",
    "save_problem",
    "save_solution",
    "show_progress",
    "solve",
    "terminal_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'decobandit' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
