"""Finite-horizon Bayesian bandits by decomposition and coordination (DeCo).

Reading order: problem -> market -> search -> dual -> relaxation -> policies -> evaluation.
Names are imported on first use, so that `import decobandit` does not wait for the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .best_bounds import BestBound, best_bound
    from .calibration import Calibration, PricePath
    from .dual import DualSolution, DualValue, dual_value, solve
    from .evaluation import Evaluation, evaluate
    from .gaps import Gap, gap
    from .information_bounds import InformationBound, information_bound
    from .joint_optimum import Optimum, TooLarge, count_states, optimum
    from .outcomes import read_outcomes
    from .path_search import ChosenPath, choose_path
    from .paths import Path, follow, retrace
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
    "BestBound": "best_bounds",
    "Beta": "problem",
    "CalibratedPolicy": "policies",
    "Calibration": "calibration",
    "ChosenPath": "path_search",
    "DecoPolicy": "policies",
    "DualSolution": "dual",
    "DualValue": "dual",
    "Evaluation": "evaluation",
    "Gap": "gaps",
    "IndexPolicy": "policies",
    "InformationBound": "information_bounds",
    "OptimalPolicy": "policies",
    "Optimum": "joint_optimum",
    "Path": "paths",
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
    "best_bound": "best_bounds",
    "choose_path": "path_search",
    "count_states": "joint_optimum",
    "deco": "policies",
    "dual_value": "dual",
    "evaluate": "evaluation",
    "fh_gittins": "policies",
    "follow": "paths",
    "gap": "gaps",
    "information_bound": "information_bounds",
    "load_policy": "solution_files",
    "load_problem": "problem_files",
    "load_solution": "solution_files",
    "optimum": "joint_optimum",
    "read_outcomes": "outcomes",
    "retrace": "paths",
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
    "BestBound",
    "Beta",
    "CalibratedPolicy",
    "Calibration",
    "ChosenPath",
    "DecoPolicy",
    "DualSolution",
    "DualValue",
    "Evaluation",
    "Gap",
    "IndexPolicy",
    "InformationBound",
    "OptimalPolicy",
    "Optimum",
    "Path",
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
    "best_bound",
    "choose_path",
    "count_states",
    "deco",
    "dual_value",
    "evaluate",
    "fh_gittins",
    "follow",
    "gap",
    "information_bound",
    "load_policy",
    "load_problem",
    "load_solution",
    "optimum",
    "read_outcomes",
    "retrace",
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
