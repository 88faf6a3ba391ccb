"""Rules and scenarios in the form that plans a trial: what was typed, and the table it stands for.

A field left empty is left out. Fields of scenarios are called `scenario-2` (the name in row 2) and
`truth-2-3` (the success probability of the arm in row 3); rows are counted from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...problem import FINAL_TESTS, Design
from ...support import Place, float_from, int_from
from .rendering import Form

DRAWS = "2000"  # simulated trials, unless another number is typed


@dataclass(frozen=True)
class RuleField:
    """One field: what it is called in the form, in sentences, and in the table `design`."""

    name: str
    label: str
    place: tuple[str, ...]
    kind: Literal["whole", "number", "text", "names", "test"] = "number"
    hint: str = ""


ALLOCATION = (
    RuleField("control", "Control arm", ("control",), "text", "name of an arm"),
    RuleField("burn_in", "Burn-in, pulls of every arm", ("burn_in",), "whole", "0"),
    RuleField("block", "Permuted blocks of", ("block",), "whole", "none"),
    RuleField("floor", "Least probability of an arm", ("floor",), hint="0"),
    RuleField("floor_kind", "Kind of this floor", ("floor_kind",), "text", "additive, or clip"),
    RuleField("control_share", "Share of control", ("control_share",), hint="none"),
    RuleField("max_probability", "Largest probability of an arm", ("max_probability",), hint="1"),
    RuleField("delay", "Delay of outcomes (stages)", ("delay",), "whole", "0"),
)
STOPPING = (
    RuleField("looks_first", "First look (outcomes)", ("looks", "first"), "whole", "1"),
    RuleField("looks_every", "Then every (outcomes)", ("looks", "every"), "whole", "1"),
    RuleField("superiority", "Superiority, at least", ("stop", "superiority"), hint="never"),
    RuleField("inferiority", "Inferiority, at most", ("stop", "inferiority"), hint="never"),
    RuleField("futility", "Futility, at most", ("stop", "futility"), hint="never"),
    RuleField("equivalence", "Equivalence, at least", ("stop", "equivalence"), hint="never"),
    RuleField("margin", "Margin", ("margin",), hint="0"),
    RuleField("compare_by", "Compare arms by", ("compare",), "text", "reward, or outcome"),
    RuleField("test", "Final test", ("test", "kind"), "test"),
    RuleField("level", "Threshold or alpha", ("test", "threshold"), hint="0.975, or 0.025"),
    RuleField("controls", "Controls of the test", ("controls",), "text", "all, or concurrent"),
)
PLANNING = (
    RuleField("compare", "Other policies to compare", ("policies",), "names", "equal"),
    RuleField("draws", "Simulated trials", ("draws",), "whole", DRAWS),
    RuleField("question", "Question, for the report", ("question",), "text"),
)
RULES = ALLOCATION + STOPPING
BY_NAME = {one.name: one for one in RULES + PLANNING}


@dataclass(frozen=True)
class ScenarioRow:
    """A scenario as it was typed: its name, and a probability for every row of arms."""

    name: str = ""
    truth: tuple[str, ...] = ()


@dataclass(frozen=True)
class DesignDraft:
    """Rules and scenarios as they were filled in."""

    values: Mapping[str, str] = field(default_factory=dict)  # by the name of the field
    scenarios: tuple[ScenarioRow, ...] = (ScenarioRow(),)

    @classmethod
    def of(cls, form: Form, arms: int) -> DesignDraft:
        """From a form that was sent with so many rows of arms."""
        values = {name: form.one(name).strip() for name in BY_NAME}
        names, truths = form.all("scenario"), form.all("truth")
        rows = [
            ScenarioRow(name, tuple(truths[i * arms : (i + 1) * arms]))
            for i, name in enumerate(names)
        ]
        more = [ScenarioRow()] * (bool(form.one("add_scenario")) or not rows)
        return cls(values, tuple(rows + more))

    @classmethod
    def from_design(cls, design: Design, policies: Sequence[str]) -> DesignDraft:
        """Return the text of the fields; `policies`: policies other than the one of the trial."""
        tree = design.model_dump(mode="json", exclude_defaults=True)
        values = {name: _typed(_at(tree, one.place)) for name, one in BY_NAME.items()}
        if design.test is not None:
            values |= {"test": design.test.kind, "level": _typed(_level(design))}
        values |= {"compare": ", ".join(policies), "draws": str(design.draws)}
        rows = tuple(
            ScenarioRow(one.name, tuple(f"{p:.15g}" for p in one.truth)) for one in design.scenarios
        )
        return cls(values, rows or (ScenarioRow(),))

    def padded(self, arms: int) -> DesignDraft:
        """With a probability for every row of arms."""
        rows = [replace(row, truth=(*row.truth, *[""] * arms)[:arms]) for row in self.scenarios]
        return replace(self, scenarios=tuple(rows))

    @property
    def has_rules(self) -> bool:
        """Whether a rule was typed."""
        return any(self.values.get(rule.name) for rule in RULES)

    def named(self) -> list[tuple[int, ScenarioRow]]:
        """Rows of scenarios that have a name, with their numbers."""
        return [(i, row) for i, row in enumerate(self.scenarios, 1) if row.name.strip()]

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of the fields, for a hidden form."""
        pairs = list(self.values.items())
        pairs += [("scenario", row.name) for row in self.scenarios]
        return pairs + [("truth", text) for row in self.scenarios for text in row.truth]

    def tree(self, policy: str, arms: Sequence[int], wrong: dict[str, str]) -> dict[str, Any]:
        """Return the table `design`, empty without rules and scenarios; `arms`: row numbers.

        Entries that are not numbers are listed in `wrong`, by field.
        """
        if not self.has_rules and not self.named():
            return {}
        tree: dict[str, Any] = {"draws": int(DRAWS)}
        for name, rule in BY_NAME.items():
            text = self.values.get(name, "")
            if text:
                _put(tree, self._place(rule), _read(rule, text, wrong))
        if self.values.get("level") and not self.values.get("test"):
            wrong["level"] = "choose a final test that it belongs to"
        tree["policies"] = [policy, *tree.get("policies", ())]
        tree["scenarios"] = [
            {
                "name": row.name.strip(),
                "truth": [number(f"truth-{i}-{arm}", _of(row, arm), wrong) for arm in arms],
            }
            for i, row in self.named()
        ]
        return tree

    def field_of(self, place: Place, arms: Sequence[int]) -> str:
        """Return the field of a place in the table `design`."""
        match place:
            case ("scenarios", int(i), "truth", int(arm)):
                return f"truth-{self.named()[i][0]}-{arms[arm]}"
            case ("scenarios", int(i), *_):
                return f"scenario-{self.named()[i][0]}"
            case ("test", "alpha"):
                return "level"
        names = (name for name, rule in BY_NAME.items() if rule.place == place[: len(rule.place)])
        return next(names, "control")

    def _place(self, rule: RuleField) -> tuple[str, ...]:
        if rule.name == "level" and self.values.get("test") in FINAL_TESTS[1:]:
            return ("test", "alpha")
        return rule.place


def label_of(name: str) -> str:
    """Return the label of a field of rules or scenarios in a sentence."""
    kind, _, numbers = name.partition("-")
    row, _, arm = numbers.partition("-")
    if kind == "truth":
        return f"Scenario {row}, arm {arm}"
    return f"Scenario {row}, name" if kind == "scenario" else BY_NAME[name].label


def _of(row: ScenarioRow, arm: int) -> str:
    return row.truth[arm - 1] if arm <= len(row.truth) else ""


def _read(rule: RuleField, text: str, wrong: dict[str, str]) -> Any:
    if rule.kind in ("text", "test"):
        return text
    if rule.kind == "names":
        return [name.strip() for name in text.split(",") if name.strip()]
    return number(rule.name, text, wrong, whole=rule.kind == "whole")


def number(name: str, text: str, wrong: dict[str, str], *, whole: bool = False) -> float:
    """Return the number in a field; if there is none, `wrong` says so."""
    try:
        value = int_from(text.strip()) if whole else float_from(text.strip())
        return int(value) if value == int(value) else value  # messages show 2, not 2.0
    except (ValueError, OverflowError):
        kind = "whole number" if whole else "number"
        wrong[name] = f"{text[:40]!r} is not a {kind}" if text.strip() else f"give a {kind}"
        return 0


def _put(tree: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for key in place[:-1]:
        tree = tree.setdefault(key, {})
    tree[place[-1]] = value


def _at(tree: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _level(design: Design) -> float | None:
    test = design.test
    return None if test is None else test.alpha if test.threshold is None else test.threshold


def _typed(value: Any) -> str:
    return "" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)
