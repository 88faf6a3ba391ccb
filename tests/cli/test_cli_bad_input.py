"""Bad input to the program: exit code 2, one line that names the culprit, nothing else."""

import json
from pathlib import Path

import pytest

from helpers.program import deco

THREE = 'horizon = 10\n[[arms]]\nname = "arm"\ncount = 3\n'
IN_PAIRS = 'horizon = 4\npulls_per_stage = 2\n[[arms]]\nname = "arm"\ncount = 4\n'
FILES = {
    "three.toml": THREE,
    "pairs.toml": IN_PAIRS,
    "broken.toml": "horizon = = 3",
    "broken.json": "{",
    "empty.toml": "",
    "unknown-key.toml": "colour = 1\n" + THREE,
    "nan.json": '{"horizon": 3, "arms": [{"name": "a", "prior": {"good": NaN, "bad": 1}}]}',
    "problem.yaml": THREE,
    "list.json": "[1, 2]",
    "solution.json": '{"multipliers": [1, 2]}',
    "empty.csv": "",
    "columns.csv": "arm,result\narm-1,1\n",
    "unknown-arm.csv": "arm,outcome\narm-1,1\narm-9,1\n",
    "outcome.csv": "arm,outcome\narm-1,maybe\n",
    "short.csv": "arm,outcome\narm-1\n",
    "long.csv": "arm,outcome\n" + "arm-1,1\n" * 11,
    "binary.csv": "arm,outcome\narm-1,\x00\n",
}
BAD = [
    # the file
    ("solve missing.toml", "missing.toml: no such file"),
    ("solve broken.toml", "broken.toml: not valid TOML"),
    ("solve broken.json", "broken.json: not valid JSON"),
    ("solve empty.toml", "empty.toml: horizon"),
    ("solve unknown-key.toml", "colour: unknown key"),
    ("solve nan.json", "arms[0].prior.good: nan"),
    ("solve problem.yaml", "must be .toml or .json"),
    ("solve list.json", "must be a table"),
    ("solve .", "is a directory; give a file"),
    ("recommend solution.json --state 0/0", "solution.json: format"),
    ("recommend missing.json --state 0/0", "missing.json: no such file"),
    # options in its place
    ("solve", "--arms and --horizon"),
    ("solve --arms 3", "--arms and --horizon"),
    ("solve --horizon 3", "--arms and --horizon"),
    ("solve --prior-good 2", "--arms and --horizon"),
    ("solve three.toml --arms 3", "not both"),
    ("solve three.toml --prior-good 2", "not both"),
    ("solve --arms 0 --horizon 3", "--arms: 0"),
    ("solve --arms -1 --horizon 3", "--arms: -1"),
    ("solve --arms 3 --horizon 0", "--horizon: 0"),
    ("solve --arms 3 --horizon 1000000", "--horizon: 1000000"),
    ("solve --arms three --horizon 3", "--arms"),
    ("solve --arms 2.5 --horizon 3", "--arms"),
    ("solve --arms ٣ --horizon 3", "--arms"),
    ("simulate three.toml --truth ٠.٥,0.5,0.5", "--truth: '٠.٥,0.5,0.5'"),
    ("simulate three.toml --truth 0.5,0_1,0.5", "--truth: '0.5,0_1,0.5'"),
    ("simulate three.toml --truth-prior ١,2", "--truth-prior: '١,2'"),
    ("solve --arms 3 --horizon", "--horizon"),
    ("solve --arms 3 --horizon 3 --prior-good nan", "--prior-good: nan"),
    ("solve --arms 3 --horizon 3 --prior-bad 0", "--prior-bad: 0"),
    ("solve --arms 3 --horizon 3 --prior-bad inf", "--prior-bad: inf"),
    ("solve --arms 3 --horizon 3 --tol -1", "tol: -1"),
    ("solve --arms 3 --horizon 3 --tol nan", "tol: nan"),
    ("solve --arms 3 --horizon 3 --json --tol inf", "tol: inf"),
    ("solve --arms 3 --horizon 3 --out missing/solution.json", "missing"),
    ("solve --arms 3 --horizon 3 --out .", "directory"),
    ("solve --arms 3 --horizon 3 --out three.toml/solution.json", "three.toml"),
    ("solve --arms 3 --horizon 3 --out solution.txt", ".json"),
    ("solve --arms three --horizon 3", "'--arms': must be a whole number"),
    ("solve --arms 3 --horizon 3 --tol small", "'--tol': must be a number"),
    ("simulate --arms 3 --horizon 3 --workers 0", "'--workers': must be at least 1"),
    # observations
    ("recommend three.toml", "--state"),
    ("recommend three.toml --state 0/0,0/0,0/0 --data empty.csv", "one of them"),
    ("recommend three.toml --state 2/1,0/0,0/0", "2 good of 1 pulls"),
    ("recommend three.toml --state 5/6,5/5,0/0", "at most 10"),
    ("recommend three.toml --state 5/5,5/5,0/0", "nothing is left"),
    ("recommend three.toml --state 0/0,0/0", "2 arms; must be 3"),
    ("recommend three.toml --state -1/2,0/0,0/0", "must be good/pulls"),
    ("recommend three.toml --state many", "state: 1 arms; must be 3"),
    ("index three.toml --state many", "state: 'many'; must be good/pulls"),
    ("recommend pairs.toml --state 1/1,0/0,0/0,0/0", "multiple of 2"),
    ("recommend pairs.toml --state 1/2,0/0,0/0,0/0", "at most once per stage"),
    ("recommend three.toml --data missing.csv", "missing.csv: no such file"),
    ("recommend three.toml --data .", "cannot be read"),
    ("recommend three.toml --data empty.csv", "no column 'arm'"),
    ("recommend three.toml --data columns.csv", "no column 'outcome'"),
    ("recommend three.toml --data unknown-arm.csv", "line 3: no arm is called 'arm-9'"),
    ("recommend three.toml --data outcome.csv", 'line 2: outcome "maybe"'),
    ("recommend three.toml --data short.csv", 'line 2: outcome ""'),
    ("recommend three.toml --data long.csv", "at most 10"),
    ("recommend three.toml --data binary.csv", "binary.csv"),
    # the program itself
    ("conjure", "conjure"),
    ("--conjure", "--conjure"),
    ("solve --conjure", "--conjure"),
    ("solve three.toml three.toml", "three.toml"),
    ("warmup now", "now"),
    ("demo --out three.toml", "three.toml"),
]


@pytest.mark.parametrize(("line", "culprit"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_refused_in_one_line(
    line: str, culprit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    refused = deco(*line.split())
    assert refused.code == 2
    (message,) = refused.err.splitlines()
    if "--json" in line:
        error = json.loads(refused.out)["error"]
        assert message.endswith(error["message"])
        assert error["code"] == "invalid_argument"
    else:
        assert refused.out == ""
    assert message.startswith("deco")
    assert culprit in message
    assert "Traceback" not in message
    assert {file.name for file in tmp_path.iterdir()} == FILES.keys()


def test_what_a_stream_cannot_show_is_no_error() -> None:
    """As where output goes to a file in a code page of one country."""
    shown = deco(
        "recommend",
        "--arms",
        2,
        "--horizon",
        3,
        "--state",
        "1/1,0/0",
        "--policy",
        "equal",
        more={"PYTHONIOENCODING": "ascii"},
    )
    assert (shown.code, shown.err) == (0, "")
    assert "arm-2" in shown.out
