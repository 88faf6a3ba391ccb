"""The Python API: which public names stand on which page, and how their docstrings are shown."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

FEW = 4  # fields that fit into one line
ALIASES = {"Floats": "array", "FloatArray": "array", "IntArray": "array", "Counts": "array"}


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
        "Problem Arm Beta Reward Terminal terminal_table State",
    ),
    "dual": Theme(
        "Prices and bounds",
        "The dual function and its minimum: [Relaxation and dual](/theory/relaxation.md).",
        "solve DualSolution dual_value DualValue Relaxation show_progress",
    ),
    "policies": Theme(
        "Policies",
        "Which arm to pull: [Choose a policy](/guide/policy.md).",
        "Policy IndexPolicy Workbench deco DecoPolicy fh_gittins CalibratedPolicy Calibration "
        "PricePath choose_path ChosenPath RollingDecoPolicy OptimalPolicy",
    ),
    "values": Theme(
        "Values, exact and simulated",
        "What policies earn, and the best that any can.",
        "optimum Optimum count_states TooLarge evaluate Evaluation simulate Simulation "
        "PolicyResult",
    ),
    "gaps": Theme(
        "Gaps, bounds and paths",
        "How far from optimal: [Read a bound](/guide/bound.md).",
        "gap Gap information_bound InformationBound best_bound BestBound follow retrace Path",
    ),
    "files": Theme(
        "Files",
        "Reading and writing. What stands in them: [File formats](/reference/files.md).",
        "load_problem save_problem ProblemError load_solution save_solution load_policy "
        "save_policy read_outcomes __version__",
    ),
    "trials": Theme(
        "Trials",
        "Ask and tell: [Trials](/trials.md).",
        "create_trial open_trial list_trials Trial Allocation Status ArmStatus Summary Event "
        "Verification verify_export Replay outcomes_csv open_store Store TrialError NotFound "
        "Conflict NoFreeSlot StoreError Damaged",
        module="decobandit.trials",
    ),
}


def page(theme: Theme) -> str:
    """One page: the docstrings of its names, in the order of THEMES."""
    lines = [f"# {theme.title}", "", theme.about, "", "```{eval-rst}"]
    for name in theme.names.split():
        lines += [*_directive(theme.module, name), ""]
    return "\n".join([*lines, "```", ""])


def _directive(module: str, name: str) -> list[str]:
    found = getattr(importlib.import_module(module), name)
    if not inspect.isclass(found):
        return [f".. auto{'function' if callable(found) else 'data'}:: {module}.{name}"]
    if issubclass(found, Exception):
        return [f".. autoexception:: {module}.{name}"]
    return [f".. autoclass:: {module}.{name}", "   :members:"]


def short_signature(
    app: Any, what: str, name: str, found: Any, options: Any, signature: str | None, returns: Any
) -> tuple[str, Any] | None:
    """Types by the names they have in the sources; no long list where the fields are listed."""
    if what == "class" and is_dataclass(found):
        names = [field.name for field in fields(found)]
        return (f"({', '.join(names)})" if len(names) <= FEW else ""), ""
    if what == "class" and issubclass(found, BaseModel):
        own = found.model_fields.items()
        known = (field if a.is_required() else f"{field}={a.get_default()!r}" for field, a in own)
        return f"(*, {', '.join(known)})", ""
    if not signature:
        return None
    return _named(signature), _named(returns or "")


def _named(types: str) -> str:
    return re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", types)


def list_fields(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Fields of dataclasses are explained by comments beside them: these join the docstring."""
    if what != "class" or not isinstance(found, type) or not is_dataclass(found):
        return
    source = inspect.getsource(found)
    for field in fields(found):
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
        for alias, words in ALIASES.items():
            kind = re.sub(rf"\b{alias}\b", words, kind)
        comment = re.search(rf"^    {field.name}: [^#\n]*# (.*)$", source, re.M)
        lines += ["", f"* ``{field.name}``: *{kind}*" + (f"; {comment[1]}" if comment else "")]


def skip_member(
    app: Any, what: str, name: str, found: Any, skip: bool, options: Any
) -> bool | None:
    """What pydantic adds to every model is no part of our interface."""
    return True if name.startswith("model_") and name != "model_copy" else None
