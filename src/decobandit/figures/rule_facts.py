"""The rules of a design in words: in its report, and in the report of a trial that obeys them."""

from __future__ import annotations

from markupsafe import Markup

from ..policies import RULES
from ..problem import Rules
from .report_page import paragraph, table

STOPS = {
    "superiority": "at least: the trial stops, the arm is declared",
    "inferiority": "at most: the arm is dropped",
    "futility": "at most for every arm: the trial stops",
    "equivalence": "at least, that the arms differ by less than the margin: the trial stops",
}
VALUES = {"reward": "expected reward of a pull", "outcome": "mean outcome"}  # arms are compared by


def rule_facts(rules: Rules) -> list[tuple[str, object]]:
    """Names and values of the rules, but for stopping."""
    test = rules.final_test
    level = "threshold" if test.kind == "posterior" else "alpha"
    facts = (rule.fact(rules) for rule in RULES)
    return [
        ("Control", rules.control or "none"),
        *(fact for fact in facts if fact is not None),
        ("Delay of outcomes", "1 stage" if rules.delay == 1 else f"{rules.delay} stages"),
        ("Looks", _looks(rules)),
        ("Arms are compared by", VALUES[rules.compare]),
        ("Margin", f"{rules.margin:g}"),
        ("Final test", f"{test.kind}, {level} {test.level:g}"),
    ]


def stopping(rules: Rules) -> Markup:
    """At which probabilities looks stop the trial."""
    rows = [
        [name, f"{value:g}", STOPS[name]]
        for name, value in rules.stop.model_dump().items()
        if value is not None
    ]
    if not rows:
        return paragraph("The trial does not stop early.")
    what = "better than control by the margin" if rules.control is not None else "best"
    return table(
        ["Rule", "Probability", "What happens"], rows, words=["Rule", "What happens"],
        caption=f"Stopping, by the posterior probability that an arm is {what} "
        f"({VALUES[rules.compare]})",
    )  # fmt: skip


def _looks(rules: Rules) -> str:
    if not rules.stop.any:
        return "none"
    if rules.looks is None:
        return "after every outcome"
    return f"after {rules.looks.first} outcomes, then every {rules.looks.every}"


def number_of_pulls(number: int) -> str:
    """In words."""
    return "1 pull" if number == 1 else f"{number} pulls"
