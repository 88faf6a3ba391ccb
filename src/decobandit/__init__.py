"""Finite-horizon Bayesian bandits by decomposition and coordination (DeCo).

Reading order: problem -> market -> search -> dual -> relaxation -> policies -> evaluation.
Names are imported on first use, so that `import decobandit` does not wait for the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .calibration import Calibration, PricePath
    from .dual import DualSolution, DualValue, dual_value, solve
    from .evaluation import Evaluation, evaluate
    from .joint_optimum import Optimum, TooLarge, count_states, optimum
    from .outcomes import read_outcomes
    from .path_search import ChosenPath, choose_path
    from .policies import (
        CalibratedPolicy,
        DecoPolicy,
        IndexPolicy,
        OptimalPolicy,
        Policy,
        RollingDecoPolicy,
        deco,
        fh_gittins,
    )
    from .problem import Arm, Beta, Problem, Reward, Terminal, terminal_table
    from .problem_files import ProblemError, load_problem, save_problem
    from .progress import show_progress
    from .registry import Workbench
    from .relaxation import Relaxation
    from .simulation import PolicyResult, Simulation, simulate
    from .solution_files import load_policy, load_solution, save_policy, save_solution
    from .state import State

_HOME = {
    "Arm": "problem",
    "Beta": "problem",
    "CalibratedPolicy": "policies",
    "Calibration": "calibration",
    "ChosenPath": "path_search",
    "DecoPolicy": "policies",
    "DualSolution": "dual",
    "DualValue": "dual",
    "Evaluation": "evaluation",
    "IndexPolicy": "policies",
    "OptimalPolicy": "policies",
    "Optimum": "joint_optimum",
    "Policy": "policies",
    "PolicyResult": "simulation",
    "PricePath": "calibration",
    "Problem": "problem",
    "ProblemError": "problem_files",
    "Relaxation": "relaxation",
    "Reward": "problem",
    "RollingDecoPolicy": "policies",
    "Simulation": "simulation",
    "State": "state",
    "Terminal": "problem",
    "TooLarge": "joint_optimum",
    "Workbench": "registry",
    "choose_path": "path_search",
    "count_states": "joint_optimum",
    "deco": "policies",
    "dual_value": "dual",
    "evaluate": "evaluation",
    "fh_gittins": "policies",
    "load_policy": "solution_files",
    "load_problem": "problem_files",
    "load_solution": "solution_files",
    "optimum": "joint_optimum",
    "read_outcomes": "outcomes",
    "save_policy": "solution_files",
    "save_problem": "problem_files",
    "save_solution": "solution_files",
    "show_progress": "progress",
    "simulate": "simulation",
    "solve": "dual",
    "terminal_table": "problem",
}

__all__ = [
    "Arm",
    "Beta",
    "CalibratedPolicy",
    "Calibration",
    "ChosenPath",
    "DecoPolicy",
    "DualSolution",
    "DualValue",
    "Evaluation",
    "IndexPolicy",
    "OptimalPolicy",
    "Optimum",
    "Policy",
    "PolicyResult",
    "PricePath",
    "Problem",
    "ProblemError",
    "Relaxation",
    "Reward",
    "RollingDecoPolicy",
    "Simulation",
    "State",
    "Terminal",
    "TooLarge",
    "Workbench",
    "__version__",
    "choose_path",
    "count_states",
    "deco",
    "dual_value",
    "evaluate",
    "fh_gittins",
    "load_policy",
    "load_problem",
    "load_solution",
    "optimum",
    "read_outcomes",
    "save_policy",
    "save_problem",
    "save_solution",
    "show_progress",
    "simulate",
    "solve",
    "terminal_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'decobandit' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
