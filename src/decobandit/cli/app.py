"""Program `deco`: commands, version, and one line per error."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import Annotated, NoReturn

import typer

from .._version import __version__
from ..support.errors import DecoError, error_dict
from ..support.lazy import explain_missing_extras
from ..support.timing import show_compiling
from ..support.workers import raise_between_kernels
from . import INTERRUPTED, trial_records  # noqa: F401  # which adds its commands to trial
from .comparing import evaluate, gap, path, simulate
from .design import design
from .options import Commands
from .recommend import index, recommend
from .serving import audit, keys, serve, token
from .set_up import demo, docs, selftest, warmup
from .solving import bound, certify, market, optimum, solve
from .study import reproduce, study
from .trial import trial

_interrupted: list[int] = []  # signals received
BAD_INPUT = 2

app = Commands(
    name="deco",
    help="Finite-horizon Bayesian bandits: certified bounds and the DeCo policy.\n\n"
    "The manual: deco docs",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"deco {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


PANELS: dict[str, tuple[Callable[..., None] | Commands, ...]] = {
    "Plan and solve": (design, solve, recommend, market, optimum, bound, certify),
    "Compare policies": (evaluate, simulate, gap, path, index),
    "Trials and server": (trial, serve, token, keys, audit),
    "Studies and reproduction": (study, reproduce),
    "Set-up": (docs, demo, warmup, selftest),
}
for panel, members in PANELS.items():
    for member in members:
        if isinstance(member, Commands):
            app.add_typer(member, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(member)


REWORDED = {  # phrases of typer and pydantic
    ": Value error, ": ": ",
    "Input should be a valid integer, unable to parse string as an integer": "must be a whole "
    "number",
    "Input should be a valid number, unable to parse string as a number": "must be a number",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
}


def _fail(context: str, message: str, error: BaseException, code: str) -> NoReturn:
    """Print one line on standard error, with --json also the error object, and exit."""
    text = message.removeprefix("Invalid value: ")
    for theirs, ours in REWORDED.items():
        text = text.replace(theirs, ours, 1)
    text = " ".join(text.split())
    print(f"{context}: error: {text}", file=sys.stderr)
    if "--json" in sys.argv:
        param = getattr(error, "param", None)  # the option that the parser refused
        option = re.match(r"--([\w-]+)", text)
        field = param.name if param else getattr(error, "field", None)
        if field is None and option:
            field = option[1].replace("-", "_")
        code = getattr(error, "code", code)
        print(json.dumps(error_dict(DecoError(text, code=code, field=field))))
    raise SystemExit(BAD_INPUT)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # a compiler that is interrupted may lose the exception and fail in some other way
    _interrupted.append(number)
    raise_between_kernels(number, frame)


def run() -> None:
    """Run the program. Bad input ends with exit code 2 and one line on standard error."""
    signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):  # what it cannot show is a question mark, no error
        if isinstance(stream, TextIOWrapper):
            with suppress(OSError):  # where a pipe was put in the place of a file
                stream.reconfigure(errors="replace")
    if sys.stderr.isatty():
        show_compiling(sys.stderr)
    try:
        with explain_missing_extras():
            code = app(standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        _fail(
            context.command_path if context else "deco",
            error.format_message(),
            error,
            "invalid_argument",
        )
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        raise SystemExit(1) from None
    except OSError as error:
        text = f"{error.filename or 'file'}: {error.strerror or error}"
        _fail("deco", text, error, "invalid_file")
    except (ValueError, ImportError, MemoryError) as error:
        if not _interrupted:
            code = "too_large" if isinstance(error, MemoryError) else "invalid"
            _fail("deco", str(error) or type(error).__name__, error, code)
        code = INTERRUPTED
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception:
        if not _interrupted:
            raise
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("deco: interrupted", file=sys.stderr)
    raise SystemExit(code or 0)
