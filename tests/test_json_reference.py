"""The page on JSON describes every key that a command prints, with its type, and no other."""

import csv
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import TypeAdapter

from decobandit.cli.app import app
from decobandit.cli.selftest import check_optima, run_checks
from decobandit.paper import batches, designs, figure3, figure4, restless, table1, values
from decobandit.paper.experiments import Part, Section, Verdict
from decobandit.paper.reproduction import Reproduction
from helpers.documented import ROOT
from helpers.json_runs import Printed, json_type, run_all

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import command_reference
import json_reference

KNOWN = json_reference.fields()
PLAIN = {"null", "boolean", "integer", "number", "string", "object", "file", "outcome"}
TYPES = {
    "file": {"object"},
    "number": {"number", "integer"},
    "outcome": {"number", "integer", "string"},
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Printed]:
    """What all commands print."""
    handler = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DECO_DB", raising=False)
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
            patch.setenv(name, "1")  # `deco study run` sets them: set back at the end
        runs = run_all(tmp_path_factory.mktemp("json"))
    # two minutes of checks; one group prints the same keys, by the same function
    runs |= {"deco selftest": [run_checks([check_optima]).to_dict()]}
    # minutes for all parts: one is run, and the others come from the rows that are kept
    runs["deco reproduce"].append(kept_reproduction().to_dict())
    yield runs
    signal.signal(signal.SIGINT, handler)


def kept_reproduction() -> Reproduction:
    """All parts of the kept files; batches have none."""
    kinds: dict[str, Any] = {
        "table1": table1.Row,
        "figure3": figure3.Point,
        "figure4": figure4.Point,
        "designs": designs.Row,
        "published": values.Row,
        "restless": restless.Row,
    }
    rows = {"batches": [batches.Row("flat", 10, 5, "rho", 0.0242, 0.0235, 0.0012, 1.5, 0.017)]}
    for name, kind in kinds.items():
        with open(ROOT / "docs" / "reproduction" / f"{name}.csv", encoding="utf-8") as file:
            read = [{k: v or None for k, v in row.items()} for row in csv.DictReader(file)]
        rows[name] = TypeAdapter(list[kind]).validate_python(read)
    said = [Verdict("DeCo is close to the optimum", "in part", "1.2 times its regret")]
    parts = {name: Part(own, Section(name), said) for name, own in rows.items()}
    return Reproduction("paper", Path("report.html"), parts)


def commands_with_json(root: typer.Typer, path: str = "deco") -> Iterator[str]:
    """As they are registered: not by the road of the page."""
    for one in root.registered_commands:
        assert one.callback is not None
        if "as_json" in typer.utils.get_params_from_function(one.callback):
            yield f"{path} {one.name or one.callback.__name__}"
    for group in root.registered_groups:
        assert group.typer_instance is not None
        yield from commands_with_json(
            group.typer_instance, f"{path} {group.name or group.typer_instance.info.name}"
        )


class Reader:
    """Walks what was printed along the types, and notes every field that it meets."""

    def __init__(self) -> None:
        self.printed: set[tuple[str, str]] = set()  # (command, key), null or not
        self.met: set[tuple[str, str]] = set()  # (table, key path) with a value other than null
        self.wrong: list[str] = []

    def command(self, name: str, tree: dict[str, Any]) -> None:
        table = KNOWN["command"][name]
        tables = [
            (name, table),
            *((shape, KNOWN["shape"][shape]) for shape in table.get("prints", [])),
        ]
        self.printed |= {(name, key) for key in tree}
        self.object(tree, tables, "")

    def object(
        self, tree: dict[str, Any], tables: list[tuple[str, dict[str, Any]]], place: str
    ) -> None:
        for key, value in tree.items():
            path = f"{place}.{key}" if place else key
            owners = [(name, table) for name, table in tables if path in table]
            if not owners:
                self.wrong.append(f"{tables[0][0]}: {path} is not described")
            for name, table in owners:
                if not self.fits_one(value, table[path][0], (name, table), path):
                    self.wrong.append(f"{name}: {path} is {value!r}, not {table[path][0]}")
                if value is not None:
                    self.met.add((name, path))

    def fits_one(self, value: object, kinds: str, owner: tuple[str, Any], path: str) -> bool:
        """Whether a value is of one of several types; `or` within parentheses is of entries."""
        apart = re.split(r" or (?![^(]*\))", kinds)
        return any(self.fits(value, kind, owner, path) for kind in apart)

    def fits(self, value: object, kind: str, owner: tuple[str, Any], path: str) -> bool:
        if kind in KNOWN["shape"]:
            if isinstance(value, dict):
                self.object(value, [(kind, KNOWN["shape"][kind])], "")
            return isinstance(value, dict)
        outer, _, inner = kind.partition(" of ")
        inner = re.sub(r"^\((.*)\)$", r"\1", inner)
        if outer == "list":
            return isinstance(value, list) and all(
                self.fits_one(one, inner, owner, f"{path}[]") for one in value
            )
        if outer == "map":
            return isinstance(value, dict) and all(
                self.fits_one(one, inner, owner, f"{path}{{}}") for one in value.values()
            )
        assert kind in PLAIN, kind
        if kind == "object" and isinstance(value, dict):
            self.object(value, [owner], path)
        found = json_type(value)
        return found in TYPES.get(kind, {kind})


@pytest.fixture(scope="module")
def reader(printed: Printed) -> Reader:
    made = Reader()
    for name, trees in printed.items():
        for tree in trees:
            made.command(name, tree)
    return made


def test_every_command_with_json_is_described_and_run(printed: Printed) -> None:
    registered = set(commands_with_json(app))
    assert set(KNOWN["command"]) == registered
    assert set(printed) == registered


def test_all_that_is_printed_is_described_with_its_type(reader: Reader) -> None:
    assert reader.wrong == []


def test_all_that_is_described_is_printed(reader: Reader) -> None:
    described = {
        (name, key)
        for part in KNOWN.values()
        for name, table in part.items()
        for key in json_reference.keys_of(table)
    }
    assert sorted(described - reader.met) == []
    shared = {
        (name, key)
        for name, table in KNOWN["command"].items()
        for shape in table.get("prints", [])
        for key in json_reference.keys_of(KNOWN["shape"][shape])
        if "." not in key
    }
    assert sorted(shared - reader.printed) == []  # a shape is printed whole by each of its commands


def test_every_field_has_a_type_and_a_sentence() -> None:
    for part in KNOWN.values():
        for name, table in part.items():
            for key, (kind, unit, meaning) in json_reference.keys_of(table).items():
                words = set(re.split(r" or | of |[()]", kind)) - {""}
                assert words <= PLAIN | {"list", "map", *KNOWN["shape"]}
                assert meaning.endswith("."), (name, key)
                assert "|" not in meaning + unit, (name, key)


def test_the_page_has_a_section_for_every_command_and_shared_object() -> None:
    page = json_reference.page(command_reference.program())
    assert re.findall(r"^## (deco .*)$", page, re.M) == json_reference.with_json(
        command_reference.program()
    )
    targets = set(re.findall(r"^\((json-.*)\)=$", page, re.M))
    assert set(re.findall(r"\]\(#(json-[^)]*)\)", page)) <= targets
    assert "| `policies[].value` | number | reward |" in page


def test_a_wrong_type_an_unknown_key_and_a_missing_one_are_found() -> None:
    bad = Reader()
    bad.command("deco optimum", {"value": "high", "surprise": 1})
    assert [line.split(": ")[1] for line in bad.wrong] == [
        "value is 'high', not number",
        "surprise is not described",
    ]
    assert ("deco optimum", "states") not in bad.met
