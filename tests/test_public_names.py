"""The public names: exactly those listed, all there, and quick to import."""

import importlib
import subprocess
import sys

import pytest

import decobandit

NAMES = [
    "Arm",
    "BetaBernoulli",
    "Chain",
    "DecoError",
    "Design",
    "DirichletCategorical",
    "DualSolution",
    "GammaExponential",
    "GammaPoisson",
    "InvalidArgument",
    "InvalidFile",
    "MarkovArm",
    "MarkovState",
    "NormalGamma",
    "NormalNormal",
    "Policy",
    "Problem",
    "ProblemError",
    "RandomHorizon",
    "Reward",
    "Segment",
    "State",
    "Terminal",
    "TooLarge",
    "TwoLevel",
    "Unsupported",
    "__version__",
    "allow_policy",
    "bound",
    "evaluate",
    "follow",
    "forecast",
    "gap",
    "load_design",
    "load_problem",
    "load_solution",
    "load_study",
    "make_policy",
    "operating_characteristics",
    "optimum",
    "policy_names",
    "read_outcomes",
    "recommend",
    "retrace",
    "run_study",
    "save_problem",
    "save_solution",
    "show_progress",
    "simulate",
    "solve",
    "with_history",
]


def test_public_names_are_those_listed() -> None:
    assert decobandit.__all__ == NAMES
    assert dir(decobandit) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_public_name_is_importable(name: str) -> None:
    found = getattr(decobandit, name)
    if name != "__version__":
        home = importlib.import_module(found.__module__)
        assert getattr(home, name) is found
        assert home.__name__.startswith("decobandit.")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Bandit'"):
        decobandit.Bandit  # noqa: B018


def modules_after(statement: str) -> set[str]:
    """What a fresh interpreter has imported after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_does_not_import_the_compiler() -> None:
    modules = modules_after("import decobandit")
    assert "decobandit" in modules
    assert modules.isdisjoint({"numba", "highspy", "scipy", "matplotlib"})


def test_commands_are_listed_without_arrays_and_models() -> None:
    modules = modules_after("import decobandit.cli.app")
    assert modules.isdisjoint({"numba", "numpy", "pydantic", "rich", "scipy"})


def test_problems_are_read_without_the_compiler() -> None:
    modules = modules_after("from decobandit import Problem, State, load_problem, read_outcomes")
    assert "decobandit.problem.problem_files" in modules
    assert "numba" not in modules
