"""Options that several commands share: how they are called, parsed, shown and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ..policies.names import POLICIES
from ..problem.tie_rules import TIE_RULES, TieRule, tie_rule
from .output import check_drawing

if TYPE_CHECKING:
    from ..problem import BetaBernoulli

    Numbers = tuple[float, ...]
else:  # typer sees the text; the option's parser makes of it what the command gets
    BetaBernoulli = Numbers = str

T = TypeVar("T")
POLICY_NAMES = ", ".join(POLICIES)


def shown(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """An option with what its value is called, and its help."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def read_by(read: Callable[[str], T], metavar: str, text: str, **settings: Any) -> Any:
    """An option whose text a function reads; what it refuses is said in its own words."""

    def parse(given: str) -> T:
        try:
            return read(given)
        except ValueError as error:
            raise typer.TyperException(str(error)) from None

    return shown(metavar, text, parser=parse, **settings)


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    from ..support import float_from

    try:
        return tuple(float_from(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option}: {text!r}; must be numbers separated by commas") from None


def _truth(text: str) -> tuple[float | str, ...]:
    """Numbers; chances of classes and nothing are left to the kind of the arm."""
    return tuple(_truth_of_arm(word.strip(), text) for word in text.split(","))


def _truth_of_arm(word: str, text: str) -> float | str:
    from ..support import float_from

    try:
        numbers = [float_from(part) for part in word.split("+")] if word != "-" else []
    except ValueError:
        rule = "must be one per arm, separated by commas: numbers, chances such as .2+.8, or -"
        raise ValueError(f"--truth: {text!r}; {rule}") from None
    return numbers[0] if len(numbers) == 1 else word


def _beta(text: str) -> BetaBernoulli:
    from ..problem import MAX_SIZE
    from ..problem import BetaBernoulli as Prior

    pair = numbers(text, "--truth-prior")
    if len(pair) != 2 or not all(0.0 < number <= MAX_SIZE for number in pair):
        raise ValueError(f"--truth-prior: {text!r}; must be two positive numbers, GOOD,BAD")
    return Prior(good=pair[0], bad=pair[1])


def _method(text: str) -> str:
    from ..bounds import check_method

    check_method(text)
    return text


def _limit_workers(context: typer.Context, workers: int | None) -> int | None:
    """Everything that the command computes keeps to the number."""
    if workers is not None:
        from ..support import limited_workers

        context.with_resource(limited_workers(workers))
    return workers


def allow_policies(names: list[str] | None) -> list[str] | None:
    """Import policies of other modules, so that files and databases may name them."""
    if names:
        from ..policies import allow_policy, check_policies

        try:
            for name in names:
                allow_policy(name)
            check_policies(names)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return names


def allowing(callback: Callable[[list[str] | None], list[str] | None]) -> Any:
    """Declare `--allow-policy`."""
    text = "Policy of another module that a file or database may name. Repeatable."
    return shown("MODULE:CLASS", text, "--allow-policy", callback=callback, show_default=False)


# -- how something is computed --------------------------------------------------------------------

Tolerance = Annotated[float, typer.Option("--tol", help="Relative gap at which to stop.")]
Ties = Annotated[
    TieRule, read_by(tie_rule, f"<{'|'.join(TIE_RULES)}>", "How index policies break ties.")
]
Truth = Annotated[
    Numbers | None,
    read_by(_truth, "P,...", "Truth of every arm in place of draws: P, .2+.8, mean, rate."),
]
TruthPrior = Annotated[
    BetaBernoulli | None,
    read_by(
        _beta, "GOOD,BAD", "Draw the true probabilities from this Beta; policies keep their priors."
    ),
]
Method = Annotated[
    str | None,
    read_by(_method, "<exact|simulated>", "How it is computed.", show_default="exact if possible"),
]
Draws = Annotated[int, typer.Option(help="Draws of the success probabilities from the prior.")]
PerDraw = Annotated[int, typer.Option(help="Episodes played with each draw.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
Bound = Annotated[
    bool | None,
    typer.Option(
        "--bound/--no-bound",
        show_default="where that is quick",
        help="Solve the dual for the bound alone, where no policy needs prices.",
    ),
]
BoundDraws = Annotated[
    int | None,
    typer.Option(
        min=0,
        show_default="200 on some small problems",
        help="Scenarios of the information bound; 0 for none.",
    ),
]
# holds for all that a command computes; the command itself need not read it
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        callback=_limit_workers,
        show_default="one per processor",
        help="Threads to compute with.",
    ),
]

# holds for the whole command, which need not read it
AllowPolicy = Annotated[list[str] | None, allowing(allow_policies)]

# -- outcomes from tables --------------------------------------------------------------------------

ArmColumn = Annotated[str, shown("NAME", "Column of --data with the arm.")]
OutcomeColumn = Annotated[
    str, shown("NAME", "Column with the outcome of one pull: good or bad, 1 or 0.")
]
GoodColumn = Annotated[
    str, shown("NAME", "Where there is no such column: good outcomes of an arm.")
]
PullsColumn = Annotated[str, shown("NAME", "With the good outcomes: all outcomes of the arm.")]

# -- where results go -----------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DRAWINGS = ".png, .svg, .pdf, or .html for an interactive page; NAME-dark.png is for dark pages."
OutFigure = Annotated[
    Path | None, shown("FILE", f"Draw the regrets: {DRAWINGS}", callback=check_drawing)
]
OutDrawing = Annotated[Path | None, shown("FILE", f"Draw it: {DRAWINGS}", callback=check_drawing)]
DATABASE = "Database of trials: an SQLite file, or postgresql://... without a password."
Db = Annotated[str | None, shown("FILE|URL", DATABASE, show_default="DECO_DB, else deco-trials.db")]


# -- How all commands of the program parse and show their options ----------------------------------

F = TypeVar("F", bound=Callable[..., Any])
# an argument such as -0.5 is no option
SIGNED_ARGUMENTS = {"ignore_unknown_options": True}


class Command(TyperCommand):
    """A command whose help shows no type beside flags."""

    def get_params(self, ctx: Any) -> Any:
        return _flags_without_a_type(super().get_params(ctx))


class Group(TyperGroup):
    """A command with commands, in the same way."""

    def get_params(self, ctx: Any) -> Any:
        return _flags_without_a_type(super().get_params(ctx))


class Commands(typer.Typer):
    """A program, or a part of one, whose commands are of this kind."""

    def __init__(self, *, cls: type[TyperGroup] | None = Group, **settings: Any) -> None:
        super().__init__(cls=cls, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **settings: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **settings)


def _flags_without_a_type(parameters: Any) -> Any:
    """A flag takes no value: help is not to show a type beside it."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters
