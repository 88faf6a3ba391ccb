"""Files that keep the habits of the project: workflows, hooks, templates, vision."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
JOBS = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def test_workflow_covers_pythons_systems_and_lowest_dependencies() -> None:
    linux, elsewhere = (JOBS[name]["strategy"]["matrix"] for name in ("test", "test-elsewhere"))
    assert linux["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert set(elsewhere["os"]) == {"macos-latest", "windows-latest"}
    assert {"os": "ubuntu-latest", "python": "3.11", "target": "test-lowest"} in linux["include"]


def test_workflow_calls_targets_and_folders_that_exist() -> None:
    matrix = JOBS["test"]["strategy"]["matrix"]
    targets = {*matrix["target"], *(row["target"] for row in matrix["include"])}
    assert commands("check") == ["make check"]
    assert commands("test") == ["make ${{ matrix.target }}"]
    for target in {"check", *targets}:
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target
    folders = re.findall(r"tests/\w+", " ".join(commands("test-elsewhere")))
    assert len(folders) == 10
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_hooks_run_the_checks_of_make_check() -> None:
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    assert recipe is not None
    tools = re.findall(r"\$\(BIN\)/(\w+(?: check| format)?)", recipe[1])
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = [re.sub(r"^\.venv/bin/| --.*$", "", hook["entry"]) for hook in local["hooks"]]
    assert hooks == tools


def test_issue_forms_ask_for_what_is_needed() -> None:
    for name in ("bug", "feature"):
        form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
        assert form["name"]
        assert form["description"]
        assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_vision_is_short_and_says_what_is_never_done() -> None:
    lines = [line for line in (ROOT / "VISION.md").read_text().splitlines() if line.strip()]
    assert len(lines) <= 12
    text = " ".join(lines)
    for topic in ("contextual", "neural", "average-reward", "off-policy"):
        assert topic in text


def test_quick_tests_have_files_of_every_room() -> None:
    files = (ROOT / "tests/quick.txt").read_text().split()
    assert all((ROOT / file).is_file() for file in files)
    rooms = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    assert rooms <= {file.split("/")[1] for file in files}
