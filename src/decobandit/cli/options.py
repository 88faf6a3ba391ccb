"""Options shared by several commands, and the layout of help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ..policies.names import POLICIES
from ..problem.ties import TIE_RULES, TieRule, tie_rule
from ..support import InvalidArgument
from .output import FIGURES, LATEX, PAGES, ending_in

if TYPE_CHECKING:
    from ..problem import BetaBernoulli

    Numbers = tuple[float, ...]
else:  # typer sees the text; the option's parser makes of it what the command gets
    BetaBernoulli = Numbers = str

T = TypeVar("T")
POLICY_NAMES = ", ".join(POLICIES)


def shown(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """Return a typer option with a metavar and a help text."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def argument(metavar: str, text: str, **settings: Any) -> Any:
    """Return a typer argument with a metavar and a help text."""
    return typer.Argument(metavar=metavar, help=text, **settings)


def read_by(read: Callable[[str], T], metavar: str, text: str, **settings: Any) -> Any:
    """Return a typer option with a custom parser; ValueErrors become CLI errors."""

    def parse(word: str) -> T:
        try:
            return read(word)
        except ValueError as error:
            raise typer.TyperException(str(error)) from None

    return shown(metavar, text, parser=parse, **settings)


def _truth(text: str) -> tuple[float | str, ...]:
    """Numbers; chances of classes and nothing are left to the kind of the arm."""
    from ..support import float_from

    def truth_of_arm(word: str) -> float | str:
        numbers = [float_from(part) for part in word.split("+")] if word != "-" else []
        return numbers[0] if len(numbers) == 1 else word

    try:
        return tuple(truth_of_arm(word.strip()) for word in text.split(","))
    except ValueError:
        rule = "must be one per arm, separated by commas: numbers, chances such as .2+.8, or -"
        raise InvalidArgument(f"--truth: {text!r}; {rule}") from None


def _beta(text: str) -> BetaBernoulli:
    from ..problem import MAX_SIZE
    from ..problem import BetaBernoulli as Prior
    from ..support import float_from

    try:
        good, bad = map(float_from, text.split(","))
        if min(good, bad) > 0.0 and max(good, bad) <= MAX_SIZE:
            return Prior(good=good, bad=bad)
    except ValueError:
        pass
    raise InvalidArgument(f"--truth-prior: {text!r}; must be two positive numbers, GOOD,BAD")


def _method(text: str) -> str:
    from ..bounds import check_method

    check_method(text)
    return text


def _limit_workers(context: typer.Context, workers: int | None) -> int | None:
    """Limit the threads of everything that the command computes."""
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
    """Declare the option `--allow-policy`."""
    text = "External policy to allow; repeatable."
    return shown("MODULE:CLASS", text, "--allow-policy", callback=callback, show_default=False)


# -- how something is computed --------------------------------------------------------------------

Tolerance = Annotated[float, typer.Option("--tol", help="Relative duality gap to reach.")]
Ties = Annotated[TieRule, read_by(tie_rule, f"<{'|'.join(TIE_RULES)}>", "Tie-breaking rule.")]
Truth = Annotated[
    Numbers | None, read_by(_truth, "P,...", "True mean of each arm; class probabilities as .2+.8.")
]
TruthPrior = Annotated[
    BetaBernoulli | None, read_by(_beta, "GOOD,BAD", "Beta distribution of the true probabilities.")
]
Method = Annotated[
    str | None,
    read_by(_method, "<exact|simulated>", "How to compute it.", show_default="exact if possible"),
]
Draws = Annotated[int, typer.Option(help="Draws of the parameters.")]
PerDraw = Annotated[int, typer.Option(help="Episodes per draw.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Bound = Annotated[
    bool | None,
    typer.Option(
        "--bound/--no-bound",
        show_default="if quick",
        help="Solve the dual even if no policy needs it.",
    ),
]
BoundDraws = Annotated[
    int | None,
    typer.Option(
        min=0, show_default="200 on some small problems", help="Scenarios of the information bound."
    ),
]
# these two hold for all that a command does; the command itself need not read them
Workers = Annotated[
    int | None,
    shown(
        "N", "Number of threads.", min=1, callback=_limit_workers, show_default="one per processor"
    ),
]
AllowPolicy = Annotated[list[str] | None, allowing(allow_policies)]

# -- outcomes from tables --------------------------------------------------------------------------

ArmColumn = Annotated[str, shown("NAME", "Column of --data with the arm.")]
OutcomeColumn = Annotated[str, shown("NAME", "Column with the outcome of one pull.")]
GoodColumn = Annotated[str, shown("NAME", "Column with the number of good outcomes.")]
PullsColumn = Annotated[str, shown("NAME", "Column with the number of pulls.")]

# -- where results go -----------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DRAWN = (*FIGURES, *PAGES)
OutFigure = Annotated[
    Path | None,
    shown(
        "FILE", "Figure: .png, .svg, .pdf, .html; table: .tex.", callback=ending_in(*DRAWN, *LATEX)
    ),
]
OutTable = Annotated[Path | None, shown("FILE", "LaTeX table: .tex.", callback=ending_in(*LATEX))]
OutDrawing = Annotated[
    Path | None,
    shown("FILE", "Figure: .png, .svg, .pdf, interactive .html.", callback=ending_in(*DRAWN)),
]
OutCertificate = Annotated[
    Path, shown("FILE", "Write the certificate (.json).", callback=ending_in(".json"))
]
Db = Annotated[
    str | None,
    shown(
        "FILE|URL", "SQLite file or postgresql:// URL.", show_default="DECO_DB, else deco-trials.db"
    ),
]


# -- Commands whose help fits into 80 columns ------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])
# an argument such as -0.5 is no option
SIGNED_ARGUMENTS = {"ignore_unknown_options": True}
NAME_COLUMNS = 25  # of a line of help
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose help has one section per panel: its own options first."""

    def get_params(self, ctx: Any) -> Any:
        return _with_metavars(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        params = self.get_params(ctx)
        kinds = {"argument": "Arguments", "option": "Options"}
        panels = [
            getattr(one, "rich_help_panel", None) or kinds[one.param_type_name] for one in params
        ]
        records = [one.get_help_record(ctx) for one in params]
        _write_panels(formatter, zip(panels, records, strict=True))
        if any(param.name == "policy" for param in params):
            with formatter.section("Policies"):
                formatter.write_text(f"{POLICY_NAMES}; or package.module:Class")


class Group(TyperGroup):
    """A group of commands, listed by panel."""

    def get_params(self, ctx: Any) -> Any:
        return _with_metavars(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        visible = [(name, one) for name, one in commands if one is not None and not one.hidden]
        panels = [getattr(one, "rich_help_panel", None) or "Commands" for _, one in visible]
        texts = [(name, one.get_short_help_str(99)) for name, one in visible]
        _write_panels(formatter, zip(panels, texts, strict=True))


class Commands(typer.Typer):
    """A Typer program, or a part of one, with these commands and groups."""

    def __init__(self, *, cls: type[TyperGroup] | None = Group, **settings: Any) -> None:
        super().__init__(cls=cls, rich_markup_mode=None, context_settings=HELP_OPTIONS, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **settings: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **settings)


def _write_panels(formatter: Any, rows: Iterable[tuple[str, tuple[str, str] | None]]) -> None:
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for panel, record in rows:
        if record is not None:
            panels.setdefault(panel, []).append(record)
    for panel, records in panels.items():
        if records:
            with formatter.section(panel):
                formatter.write_dl(records, col_max=NAME_COLUMNS)


def _with_metavars(params: Any) -> Any:
    """Name the values of numbers N or X, and none for flags."""
    for param in params:
        kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.metavar is None and kind in (int, float):
            param.metavar = "N" if kind is int else "X"
    return params


R = TypeVar("R")
# options that close the list of every command, in this order
LAST = ("ties", "tol", "workers", "key", "by", "allow_policy", "db", "as_json")


def taking(
    make: Callable[..., Any],
) -> Callable[[Callable[Concatenate[Any, ...], R]], Callable[..., R]]:
    """Give a command what `make` makes of its own options.

    They join those of the command, as if it had declared them; what is made is the command's first
    argument, open while it runs if it is a context manager:

        def problem_from(problem: ProblemFile = None, arms: Arms = None) -> Problem: ...

        @taking(problem_from)
        def optimum(problem: Problem, as_json: AsJson = False) -> None: ...

    is a command with a file, `--arms` and `--json`. `make` may be built in the same way.
    """
    parameters = options_of(make)

    def decorate(command: Callable[Concatenate[Any, ...], R]) -> Callable[..., R]:
        def run(**options: Any) -> R:
            value = make(**{one.name: options.pop(one.name) for one in parameters})
            is_open = isinstance(value, AbstractContextManager)
            with value if is_open else nullcontext(value) as opened:
                return command(opened, **options)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__module__ = command.__module__
        return with_options(run, [*parameters, *options_of(command, after=1)])

    return decorate


def options_of(function: Callable[..., object], *, after: int = 0) -> list[Parameter]:
    """Parameters with their types, without the first `after`, which need not be known here."""
    parameters = list(inspect.signature(function).parameters.values())[after:]
    names = getattr(inspect.unwrap(function), "__globals__", {})
    return [
        parameter.replace(annotation=eval(parameter.annotation, names))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in parameters
        if parameter.kind is not Parameter.VAR_KEYWORD
    ]


def option(name: str, kind: Any, default: Any = None) -> Parameter:
    """Return an option whose declaration depends on the command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def with_options(function: Callable[..., R], options: Iterable[Parameter]) -> Callable[..., R]:
    """Give a function the signature that typer reads."""
    named = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    named.sort(key=lambda one: LAST.index(one.name) if one.name in LAST else -1)
    function.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in named}
    return function
