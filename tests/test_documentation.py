"""The documentation says all there is to say, and what it shows runs.

`documented.py` has the convention of pages. Whether the whole site builds without a warning is for
`make docs` to say.
"""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from starlette.routing import Route

import decobandit
import decobandit.client
import decobandit.trials
from decobandit.cli import main
from decobandit.cli.app import app as program
from decobandit.policies import POLICIES
from helpers import documented
from helpers.documented import ROOT, Page

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import api_reference
import command_reference
import rest_reference

PAGES = {page.name: page for page in documented.pages()}
# what is not run here, and why; of these the arguments and options are checked
TOO_LONG = {
    "reproduce": "minutes; test_paper.py runs its parts",
    "serve": "does not end by itself; test_web_serve.py runs it",
    "warmup": "compiles for a minute; `make test` begins with it",
    "simulate --arms 10": "a minute, and hours; other pages simulate smaller problems",
    "simulate --arms 5 --horizon 10": "1,000 pulls of 1,000 draws; other pages simulate smaller",
    "study run few.toml --scheduler": "needs a cluster; test_cluster.py has one",
    "study run docs/robustness/wrong-prior.toml": "an hour",
    "study show wrong-prior": "shows what took an hour",
}


def too_long(command: tuple[str, ...]) -> bool:
    return any(" ".join(command).startswith(begin) for begin in TOO_LONG)


# -- nothing is missing ---------------------------------------------------------------------------


def registered(app: typer.Typer, path: str = "deco") -> Iterator[str]:
    """Names of all commands, as they are registered: not by the road of the reference."""
    for one in app.registered_commands:
        assert one.callback is not None
        yield f"{path} {one.name or one.callback.__name__}"
    for group in app.registered_groups:
        assert group.typer_instance is not None
        name = f"{path} {group.name or group.typer_instance.info.name}"
        yield name
        yield from registered(group.typer_instance, name)


def test_every_command_is_in_the_reference() -> None:
    page = command_reference.page(command_reference.program())
    sections = set(re.findall(r"^## (deco.*)$", page, re.M))
    assert sections == {"deco", *registered(program)}


def test_every_option_is_in_the_reference_with_its_meaning() -> None:
    root = command_reference.program()
    sections = command_reference.page(root).split("\n## ")[1:]
    for (name, command), section in zip(command_reference.commands(root), sections, strict=True):
        assert section.startswith(f"{name}\n")
        for parameter in command.params:
            word = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
            assert parameter.help, f"{name} {parameter.name} has no help"
            if getattr(parameter, "hidden", False):  # the old name of another option
                assert str(word) not in section
                continue
            assert str(word).replace("|", "\\|") in section


@pytest.mark.parametrize("package", [decobandit, decobandit.trials, decobandit.client])
def test_every_public_name_is_in_the_reference(package: Any) -> None:
    themes = [t for t in api_reference.THEMES.values() if t.module == package.__name__]
    shown = "".join(map(api_reference.page, themes))
    names = re.findall(rf"^\.\. auto\w+:: {re.escape(package.__name__)}\.(\w+)$", shown, re.M)
    assert sorted(names) == sorted(package.__all__)  # each once


@pytest.mark.parametrize("package", [decobandit, decobandit.trials, decobandit.client])
def test_every_public_name_has_a_docstring(package: Any) -> None:
    silent = [name for name in package.__all__ if not getattr(package, name).__doc__]
    assert silent == []


def test_every_route_is_in_the_reference(tmp_path: Path) -> None:
    from decobandit.server.app import create_app

    with decobandit.trials.open_store(tmp_path / "empty.db") as store:
        routes = [
            r for r in every_route(create_app(store)) if r.path.startswith(("/api/v1/", "/ofrep/"))
        ]
    served = {
        f"{method} {route.path}"
        for route in routes
        for method in (route.methods or set()) - {"HEAD", "OPTIONS"}
    }
    page = rest_reference.page(rest_reference.openapi())
    shown = set(re.findall(r"^### ([A-Z]+ /.*)$", page, re.M))
    assert shown == served - {"GET /api/v1/openapi.json"}
    assert len(shown) > 10


def every_route(app: Any) -> Iterator[Route]:
    """Routes, those of routers that are included as a whole among them."""
    for route in app.routes:
        if isinstance(route, Route):
            yield route
        elif hasattr(route, "original_router"):
            yield from every_route(route.original_router)


def test_the_parts_of_the_reference_are_linked() -> None:
    linked = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    assert [f"generated/api/{name}" in linked for name in api_reference.THEMES] == [True] * 9


# -- what is shown runs ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, with no database of trials in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DECO_DB", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    handler = signal.getsignal(signal.SIGINT)
    yield tmp_path
    signal.signal(signal.SIGINT, handler)


def run(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the program here: one process for all is what keeps this quick."""
    monkeypatch.setattr(sys, "argv", ["deco", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, f"deco {' '.join(command)}"


def write_files(page: Page, folder: Path) -> None:
    for name, text in page.files.items():
        (folder / name).write_text(text, encoding="utf-8")


def runnable() -> dict[str, list[tuple[str, ...]]]:
    """By page; what needs no file and stands on a page before is not run twice."""
    seen: set[tuple[str, ...]] = set()
    kept: dict[str, list[tuple[str, ...]]] = {}
    for page in PAGES.values():
        for command in page.commands:
            if command not in seen and not too_long(command):
                kept.setdefault(page.name, []).append(command)
            if "--arms" in command and "--db" not in command:
                seen.add(command)
    return kept


@pytest.mark.parametrize("name", runnable())
def test_the_commands_of_a_page_run(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files(PAGES[name], folder)
    allocation = ""
    for command in runnable()[name]:
        told = tuple(allocation if word == "ALLOCATION" else word for word in command)
        run(told, monkeypatch)
        shown = capsys.readouterr().out
        if command[:2] == ("trial", "ask"):
            (allocation,) = re.findall(r"allocation (\w+)", shown)


LONG = sorted({c for page in PAGES.values() for c in page.commands if too_long(c)})


@pytest.mark.parametrize("command", LONG, ids=" ".join)
def test_commands_that_run_long_have_the_options_that_are_shown(command: tuple[str, ...]) -> None:
    parser, words = command_reference.program(), list(command)
    while getattr(parser, "commands", None):
        parser = parser.commands[words.pop(0)]
    assert parser.make_context(command[0], words).params is not None


def test_no_reason_is_left_without_a_command() -> None:
    texts = [" ".join(command) for command in LONG]
    assert [begin for begin in TOO_LONG if not any(t.startswith(begin) for t in texts)] == []


# adding-a-policy.md and trials.md are run, and looked at closer, by test_docs.py
OWN = [n for n in PAGES if n.split("/")[1:2] in (["start"], ["guide"]) or n == "README.md"]


@pytest.mark.parametrize("name", [name for name in OWN if PAGES[name].python])
def test_the_python_examples_of_a_page_run(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(PAGES[name], folder)
    names: dict[str, Any] = {"__name__": "example"}
    for example in PAGES[name].python:
        exec(example, names)


def test_the_example_of_the_theory_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "theory"))
    (example,) = PAGES["docs/theory/index.md"].python
    exec(example, {})
    assert capsys.readouterr().out.startswith("5.2145")


# -- the convention itself ------------------------------------------------------------------------


def test_commands_and_files_are_found_in_a_page() -> None:
    page = documented.parse(
        "page.md",
        "```console\n$ deco solve a.toml   # why\nprinted\n$ deco gap \\\n  a.toml\n$ ls\n```\n"
        "```{code-block} toml\n:caption: a.toml\n\nhorizon = 1\n```\n"
        "```\ndeco index\nmake demo\n```\n```text\ndeco COMMAND\n```\n",
    )
    assert page.commands == (("solve", "a.toml"), ("gap", "a.toml"), ("index",))
    assert page.files == {"a.toml": "horizon = 1\n"}


def test_the_readme_counts_the_policies() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{len(POLICIES)} of them" in readme
