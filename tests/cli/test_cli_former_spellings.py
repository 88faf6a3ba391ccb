"""Commands call functions by the names of today, whatever still works beside them."""

import json
import subprocess
import sys
from pathlib import Path

# warnings point to the first line outside the package, so that a filter by module would miss them
PROGRAM = """
import json, sys, warnings
warnings.filterwarnings("error", message=".* goes in the next release")
from decobandit.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["deco", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(end.code)
"""
SMALL = ("--arms", "2", "--horizon", "6")
OUTCOMES = "arm,outcome\narm-1,good\n"


def run(*commands: tuple[str, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Commands one after the other, in one process, to the first that fails."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(commands)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_no_command_uses_a_spelling_that_is_deprecated(tmp_path: Path) -> None:
    (tmp_path / "pilot.csv").write_text(OUTCOMES, encoding="utf-8")
    commands: tuple[tuple[str, ...], ...] = (
        ("simulate", *SMALL, "--policy", "greedy,equal", "--draws", "60"),
        ("simulate", *SMALL, "--policy", "greedy", "--draws", "60", "--json"),
        ("gap", *SMALL, "--policy", "greedy", "--method", "simulated", "--draws", "20"),
        ("bound", *SMALL, "--draws", "20"),
        ("path", *SMALL, "--policy", "greedy", "--expected", "--json"),
        ("evaluate", *SMALL, "--policy", "greedy"),
        ("recommend", *SMALL, "--data", "pilot.csv"),
        ("trial", "new", *SMALL, "--name", "pilot", "--db", "pilot.db"),
        ("trial", "status", "pilot", "--db", "pilot.db"),
    )
    done = run(*commands, cwd=tmp_path)
    assert (done.returncode, "deprecated" in done.stderr) == (0, False), done.stderr
    assert done.stdout.splitlines()[-1].startswith("head ")  # the last one ran, too


def test_a_misspelt_policy_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    done = run(("evaluate", *SMALL, "--policy", "decko"), cwd=tmp_path)
    assert done.returncode == 2
    assert "no policy is called 'decko'; did you mean 'deco'?" in done.stderr
    assert done.stderr.count("\n") == 1
