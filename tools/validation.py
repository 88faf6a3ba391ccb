"""Join requirements to the results of the tests that show them, and write validation.html.

    python tools/validation.py [--results RESULTS.xml] [--out validation.html]

Without --results the cited tests are run first. Exit code 1 if a cited test is missing, was skipped
or failed. Needs the development environment to run tests, else the standard library.
"""

import argparse
import html
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "docs" / "validation" / "requirements.toml"
FILES = ("deploy/requirements.lock", "deploy/sbom.cdx.json", "docs/validation/requirements.toml")
SEEDS = (
    "Random tests draw from fixed seeds in their files; hypothesis is derandomised in the suite."
)
STYLE = (
    "body{font:15px system-ui;margin:2rem auto;max-width:72rem}table{border-collapse:collapse}"
    "td,th{border:1px solid #bbb;padding:.3rem .5rem;text-align:left;vertical-align:top}"
    ".no{background:#fdd}code{font-size:90%}"
)


class Outcome(NamedTuple):
    """Result of all cases of a test: passed, skipped, failed or missing."""

    result: str
    cases: int


def requirements(file: Path = REQUIREMENTS) -> list[dict]:
    """Read the rows; a SystemExit names a wrong one."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["requirement"]
    ids = [row["id"] for row in rows]
    for row in rows:
        missing = {"id", "area", "risk", "text", "clauses", "tests"} - set(row)
        if missing or not row["tests"] or row["risk"] not in ("high", "medium", "low"):
            sys.exit(f"{file.name}: {row.get('id')}: wrong or missing keys {sorted(missing)}")
    if len(set(ids)) < len(ids):
        sys.exit(f"{file.name}: an id is used twice")
    return rows


def run_tests(rows: list[dict], results: Path) -> None:
    """Run the cited tests, and write their results as JUnit XML."""
    cited = sorted({test for row in rows for test in row["tests"]})
    known = [test for test in cited if defined(test)]
    command = [sys.executable, "-m", "pytest", "-q", "-o", "junit_family=xunit1"]
    subprocess.run([*command, f"--junit-xml={results}", *known], cwd=ROOT, check=False)


def defined(test: str) -> bool:
    """Whether a test is in its file."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.exists() and re.search(rf"def {name}\(", path.read_text("utf-8")) is not None


def outcomes(results: Path) -> dict[str, Outcome]:
    """Read JUnit XML: the worst result of all cases of every test."""
    order = ("passed", "skipped", "failed")
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        file = case.get("file") or case.get("classname", "").replace(".", "/") + ".py"
        test = f"{file}::{case.get('name', '').partition('[')[0]}"
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "passed"
        result = "skipped" if "skipped" in kinds else result
        before = found.get(test, Outcome("passed", 0))
        worst = max(before.result, result, key=order.index)
        found[test] = Outcome(worst, before.cases + 1)
    return found


def environment() -> list[tuple[str, str]]:
    """Return what the results depend on: commit, interpreter, machine, packages, files."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    packages = sorted({f"{x.name} {x.version}" for x in importlib.metadata.distributions()})
    changes = "none" if not git("status", "--porcelain") else "uncommitted changes"
    pairs = [
        ("commit", git("rev-parse", "HEAD") or "unknown"),
        ("changes since the commit", changes),
        ("made at", datetime.now(UTC).isoformat(timespec="seconds")),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("seeds", SEEDS),
    ]
    for name in FILES:
        path = ROOT / name
        text = sha256(path.read_bytes()).hexdigest() if path.exists() else "missing"
        pairs.append((f"SHA-256 of {name}", text))
    return [*pairs, ("installed", ", ".join(packages))]


def page(rows: list[dict], found: dict[str, Outcome], about: list[tuple[str, str]]) -> str:
    """Return the report as one self-contained page."""
    none = Outcome("missing", 0)
    lines = []
    for row in rows:
        tests = [(test, found.get(test, none)) for test in row["tests"]]
        ok = all(one.result == "passed" for _, one in tests)
        shown = "<br>".join(
            f"{html.escape(one.result)} ({one.cases}): <code>{html.escape(test)}</code>"
            for test, one in tests
        )
        cells = [row["id"], row["area"], row["risk"], row["text"], ", ".join(row["clauses"])]
        text = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f"<tr{'' if ok else ' class=no'}>{text}<td>{shown}</td></tr>")
    pairs = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in about
    )
    wrong = failures(rows, found)
    said = "All requirements are shown by passing tests." if not wrong else "; ".join(wrong)
    titles = "".join(
        f"<th>{title}</th>" for title in ("Id", "Area", "Risk", "Requirement", "Clauses", "Tests")
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Validation</title>'
        f"<style>{STYLE}</style><h1>Validation report of decobandit</h1>"
        f"<p><strong>{html.escape(said)}</strong> {len(rows)} requirements.</p>"
        f"<h2>Environment</h2><table>{pairs}</table>"
        f"<h2>Requirements and results</h2><table><tr>{titles}</tr>{''.join(lines)}</table>"
        "</html>\n"
    )


def failures(rows: list[dict], found: dict[str, Outcome]) -> list[str]:
    """Return the cited tests that do not show their requirement, one phrase each."""
    none = Outcome("missing", 0)
    return [
        f"{row['id']}: {test} {found.get(test, none).result}"
        for row in rows
        for test in row["tests"]
        if found.get(test, none).result != "passed"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, help="JUnit XML of a run of the tests")
    parser.add_argument("--out", type=Path, default=ROOT / "validation.html")
    parser.add_argument("--requirements", type=Path, default=REQUIREMENTS)
    given = parser.parse_args()
    rows = requirements(given.requirements)
    results = given.results
    if results is None:
        results = ROOT / "validation-results.xml"
        run_tests(rows, results)
    found = outcomes(results)
    given.out.write_text(page(rows, found, environment()), encoding="utf-8")
    wrong = failures(rows, found)
    summary = {"requirements": len(rows), "failures": wrong, "report": given.out.name}
    print(json.dumps(summary, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
