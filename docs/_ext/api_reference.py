"""The Python API: which public names stand on which page, and how their docstrings are shown."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

FEW = 4  # fields that fit into one line

# where names are that `decobandit` itself does not export
ROOMS = [
    "support",
    "problem",
    "arm",
    "joint",
    "prices",
    "policies",
    "evaluation",
    "simulation",
    "bounds",
    "designs",
    "studies",
]


@dataclass(frozen=True)
class Theme:
    """One page of the API."""

    title: str
    about: str
    names: str  # with blanks between them
    module: str = "decobandit"


THEMES = {
    "model": Theme(
        "Problems and states",
        "What is to be decided, and what has been observed: [Model a problem](/guide/problem.md).",
        "Problem Arm BetaBernoulli DirichletCategorical NormalNormal NormalGamma GammaPoisson "
        "GammaExponential Chain MarkovArm MarkovState RandomHorizon Reward Segment Terminal "
        "TwoLevel terminal_table with_history State",
    ),
    "dual": Theme(
        "Prices and bounds",
        "The dual function and its minimum: [Relaxation and dual](/theory/relaxation.md).",
        "solve DualSolution dual_value DualValue OneArmValues Progress show_progress",
    ),
    "policies": Theme(
        "Policies",
        "Which arm to pull: [Choose a policy](/guide/policy.md).",
        "make_policy policy_names allow_policy recommend Recommendation Policy IndexPolicy "
        "DecoPolicy CalibratedPolicy Calibration "
        "PricePath choose_path ChosenPath RollingDecoPolicy OptimalPolicy",
    ),
    "own_policies": Theme(
        "Policies of your own",
        "What a new policy derives from: [Adding a policy](/adding-a-policy.md).",
        "Context",
        module="decobandit.policies",
    ),
    "values": Theme(
        "Values, exact and simulated",
        "What policies earn, the best that any can, and what to expect of a design: "
        "[Designs for statisticians](/guide/designs.md).",
        "optimum Optimum count_states evaluate Evaluation simulate "
        "Simulation PolicyResult load_design Design operating_characteristics DesignResult "
        "forecast Forecast load_study run_study",
    ),
    "gaps": Theme(
        "Gaps, bounds and paths",
        "How far from optimal: [Read a bound](/guide/bound.md).",
        "gap Gap bound Bounds BoundValue follow retrace Episode",
    ),
    "files": Theme(
        "Files and data frames",
        "Reading and writing. What stands in files: [File formats](/reference/files.md); frames: "
        "[Data in and out](/guide/data.md).",
        "Tabular load_problem save_problem ProblemError InvalidProblem load_solution save_solution "
        "read_outcomes DecoError InvalidArgument InvalidFile Unsupported TooLarge StudyError "
        "ClusterError __version__",
    ),
    "trials": Theme(
        "Trials",
        "Ask and tell: [Trials](/trials.md).",
        "create_trial open_trial list_trials Trial Allocation ArmPulls Status ArmStatus "
        "Summary CancellationCount ArmChange TrialLimits Event TrialReport Verification "
        "verify_export Replay replay_export outcomes_csv people_log PeopleLog open_store Store "
        "TrialError NotFound Conflict NoFreeSlot Closed LimitReached StoreError Damaged",
        module="decobandit.trials",
    ),
    "client": Theme(
        "Client",
        "Trials of a server: [The client](/server.md#the-client).",
        "Client AsyncClient RemoteTrial Answer Refused Unreachable",
        module="decobandit.client",
    ),
}


def page(theme: Theme) -> str:
    """One page: the docstrings of its names, in the order of THEMES."""
    lines = [f"# {theme.title}", "", theme.about, "", "```{eval-rst}"]
    for name in theme.names.split():
        lines += [*_directive(home(theme.module, name), name), ""]
    return "\n".join([*lines, "```", ""])


def home(module: str, name: str) -> str:
    """Return the package that exports a name: the module itself, or the lowest room that has it."""
    packages = [module, *(f"decobandit.{room}" for room in ROOMS)]
    return next(package for package in packages if name in importlib.import_module(package).__all__)


def _directive(module: str, name: str) -> list[str]:
    documented = getattr(importlib.import_module(module), name)
    if not inspect.isclass(documented):
        return [f".. auto{'function' if callable(documented) else 'data'}:: {module}.{name}"]
    if issubclass(documented, Exception):
        return [f".. autoexception:: {module}.{name}"]
    has_base = any(base.__module__.startswith(f"{module}.") for base in documented.__mro__[1:])
    inherited = ["   :inherited-members:"] if has_base else []
    return [f".. autoclass:: {module}.{name}", "   :members:", *inherited]


def short_signature(
    app: Any,
    what: str,
    name: str,
    documented: Any,
    options: Any,
    signature: str | None,
    returns: Any,
) -> tuple[str, Any] | None:
    """Types by the names they have in the sources; no long list where the fields are listed."""
    if what == "class" and is_dataclass(documented):
        names = [field.name for field in fields(documented)]
        return (f"({', '.join(names)})" if len(names) <= FEW else ""), ""
    if what == "class" and issubclass(documented, BaseModel) and "__init__" not in vars(documented):
        model_fields = documented.model_fields.items()
        parts = (
            field if a.is_required() else f"{field}={a.get_default()!r}"
            for field, a in model_fields
        )
        return f"(*, {', '.join(parts)})", ""
    if not signature:
        return None
    return _named(signature), _named(returns or "")


def _named(types: str) -> str:
    return re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", types)


def split_attributes(
    app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]
) -> None:
    """`good, bad : array` becomes an entry for each: napoleon splits parameters, not attributes."""
    entry = re.compile(r"^(\w+(?:, \w+)+)( : .*\n(?:    .*\n)+)", re.M)
    head, section, rest = "\n".join(lines).partition("Attributes\n----------\n")
    if section:
        entries, blank, later = f"{rest}\n".partition("\n\n")
        entries = entry.sub(
            lambda match: "".join(f"{each}{match[2]}" for each in match[1].split(", ")),
            f"{entries}\n",
        )
        lines[:] = f"{head}{section}{entries.rstrip()}{blank}{later}".split("\n")


def skip_member(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what pydantic adds to every model."""
    theirs = getattr(member, "__module__", None) != "decobandit.problem.model"
    return True if name.startswith("model_") and theirs else None
