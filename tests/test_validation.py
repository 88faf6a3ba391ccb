"""The validation pack: requirements, and the report that joins them to results."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "validation.py"
ROWS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "docs" / "validation" / "requirements.toml").read_text()
)["requirement"]
AREAS = {"intended use", "allocation", "log", "masking and access", "numbers", "certificates"}


def test_rows_cover_all_areas_and_cite_tests_that_exist() -> None:
    assert len(ROWS) >= 60
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert {row["area"] for row in ROWS} == AREAS
    for test in {test for row in ROWS for test in row["tests"]}:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test


def test_clauses_are_named_as_they_are_numbered() -> None:
    clauses = {clause for row in ROWS for clause in row["clauses"]}
    assert {clause for clause in clauses if clause.startswith("21 CFR 11.")}
    assert {clause for clause in clauses if clause.startswith("ICH E6(R3) ")}
    assert all(clause.startswith(("21 CFR 11.", "ICH E6(R3) ")) for clause in clauses)


RESULTS = """<testsuites><testsuite>
<testcase file="tests/a.py" name="test_one[x]"/><testcase file="tests/a.py" name="test_one[y]">{}
</testcase></testsuite></testsuites>"""
REQUIREMENT = """[[requirement]]
id = "X-01"
area = "log"
risk = "high"
text = "Nothing is <lost>."
clauses = ["21 CFR 11.10(c)"]
tests = ["tests/a.py::{}"]
"""


@pytest.mark.parametrize(
    ("cited", "child", "result"),
    [
        ("test_one", "", "passed"),
        ("test_one", "<skipped/>", "skipped"),
        ("test_one", "<failure/>", "failed"),
        ("test_one", "<error/>", "failed"),
        ("test_two", "", "missing"),
    ],
)
def test_a_row_needs_every_case_of_its_tests_to_pass(
    tmp_path: Path, cited: str, child: str, result: str
) -> None:
    results, rows, out = (tmp_path / name for name in ("r.xml", "r.toml", "v.html"))
    results.write_text(RESULTS.format(child))
    rows.write_text(REQUIREMENT.format(cited))
    options = ["--results", results, "--requirements", rows, "--out", out]
    command = [sys.executable, TOOL, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if result == "passed" else 1)
    wanted = [] if result == "passed" else [f"X-01: tests/a.py::{cited} {result}"]
    assert json.loads(done.stdout)["failures"] == wanted
    page = out.read_text()
    assert "Nothing is &lt;lost&gt;." in page
    for words in ("commit", "SHA-256 of deploy/requirements.lock", "sbom", "seeds", "numpy "):
        assert words in page
