"""The program: answers as JSON and as tables, progress, interruption, start-up."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import decobandit
from decobandit.prices.canonical import canonical_prices
from decobandit.problem import Problem, load_problem
from helpers.oracles import OneArm
from helpers.program import DECO, PATIENCE, Run, deco, deco_at_terminal, json_object
from helpers.reference import REFERENCE

COMMANDS = {"solve", "recommend", "demo", "warmup"}
SOLVE_KEYS = {
    "arms",
    "horizon",
    "upper_bound",
    "lower_bound",
    "relative_gap",
    "multipliers",
    "oracle_calls",
    "seconds",
}
RECOMMEND_KEYS = {"arm", "stage", "price", "arms"}
ARM_KEYS = {"name", "good", "bad", "expected_reward", "value_of_information", "index"}
MINIMUM = {(K, T): value for K, T, value in REFERENCE["dual_minimum"]["values"]}

THREE = """
horizon = 10
[[arms]]
name = "arm"
count = 3
"""
MIXED = """
horizon = 6

[[arms]]
name = "control"
prior = { good = 2.5, bad = 1 }

[[arms]]
name = "dose"
reward = { good = [3, 3, 2, 2, 1, 1], bad = -1 }
count = 2

[terminal]
deploy = 20.0
"""
IN_PAIRS = """
horizon = 4
pulls_per_stage = 2
[[arms]]
name = "arm"
count = 4
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def index_of(arm: dict[str, Any]) -> float:
    return float(arm["index"])


# -- solve --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arms", "horizon"), [(2, 10), (15, 20), (5, 40)])
def test_solve_brackets_the_dual_minimum(arms: int, horizon: int) -> None:
    answer = deco("solve", "--arms", arms, "--horizon", horizon, "--json").json
    assert answer.keys() >= SOLVE_KEYS
    assert (answer["arms"], answer["horizon"]) == (arms, horizon)
    upper, lower = answer["upper_bound"], answer["lower_bound"]
    assert lower - 1e-6 <= MINIMUM[arms, horizon] <= upper + 1e-6  # known to six digits
    assert answer["relative_gap"] == pytest.approx((upper - lower) / upper, abs=1e-12)
    assert answer["relative_gap"] <= 1e-4
    assert len(answer["multipliers"]) == horizon
    assert answer["oracle_calls"] >= 1
    assert answer["seconds"] >= 0


def test_solve_goes_as_far_as_the_tolerance_asks() -> None:
    gaps = [
        deco("solve", "--arms", 5, "--horizon", 40, "--tol", tol, "--json").json["relative_gap"]
        for tol in (1e-2, 1e-6)
    ]
    assert gaps[1] <= 1e-6 < gaps[0] <= 1e-2


def test_solve_takes_priors_from_options() -> None:
    # a single arm is pulled at every stage, and each pull earns the prior mean
    answer = deco(
        "solve", "--arms", 1, "--horizon", 7, "--prior-good", 3, "--prior-bad", 1.5, "--json"
    ).json
    assert answer["upper_bound"] == pytest.approx(7 * 3 / 4.5)
    assert answer["lower_bound"] == pytest.approx(7 * 3 / 4.5)


def test_options_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = write(tmp_path / "three.toml", THREE)
    tree = {"horizon": 10, "arms": [{"name": "arm", "count": 3}]}
    file = write(tmp_path / "three.json", json.dumps(tree))
    answers = [
        deco("solve", *source, "--json").json
        for source in ([toml], [file], ["--arms", 3, "--horizon", 10])
    ]
    for answer in answers:
        answer.pop("seconds")
    assert answers[0] == answers[1] == answers[2]


def test_deployment_is_worth_its_weight(tmp_path: Path) -> None:
    # one arm: one pull at its mean of 1/4, then 200 times that mean
    problem = write(
        tmp_path / "deploy.toml",
        'horizon = 1\n[[arms]]\nname = "a"\nprior = { good = 1, bad = 3 }\n'
        "[terminal]\ndeploy = 200\n",
    )
    answer = deco("solve", problem, "--json").json
    assert answer["upper_bound"] == pytest.approx(201 / 4)
    assert answer["lower_bound"] == pytest.approx(201 / 4)
    assert len(answer["multipliers"]) == answer["horizon"] == 1


def test_solution_is_printed_for_people() -> None:
    shown = deco("solve", "--arms", 5, "--horizon", 20)
    assert (shown.code, shown.err) == (0, "")
    assert "14.70" in shown.out  # the bound: 14.7019 is the minimum
    assert "5 arms, horizon 20" in shown.out


def test_saved_solution_decides_like_its_problem(tmp_path: Path) -> None:
    problem, saved = write(tmp_path / "mixed.toml", MIXED), tmp_path / "solution.json"
    answer = deco("solve", problem, "--out", saved, "--json").json
    assert json_object(saved.read_text(encoding="utf-8"))["multipliers"] == answer["multipliers"]
    state = ("--state", "1/2,0/0,1/1", "--json")
    by_deco = deco("recommend", problem, "--policy", "deco", *state).json
    assert deco("recommend", saved, *state).json == by_deco


# -- recommend ----------------------------------------------------------------------------------


def test_recommendation_has_the_largest_index() -> None:
    answer = deco(
        "recommend",
        "--policy",
        "deco",
        "--arms",
        3,
        "--horizon",
        10,
        "--state",
        "3/5,0/0,2/2",
        "--json",
    ).json
    assert answer.keys() >= RECOMMEND_KEYS
    assert answer["stage"] == 7
    assert answer["arm"] == max(answer["arms"], key=index_of)["name"]
    for arm, (good, pulls) in zip(answer["arms"], [(3, 5), (0, 0), (2, 2)], strict=True):
        assert arm.keys() >= ARM_KEYS
        assert (arm["good"], arm["bad"]) == (good, pulls - good)
        # a good outcome earns 1, a bad one nothing: the posterior mean under a flat prior
        assert arm["expected_reward"] == pytest.approx((good + 1) / (pulls + 2))
        total = arm["expected_reward"] + arm["value_of_information"]
        assert arm["index"] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_price_is_the_canonical_one_of_the_stage(tol: float) -> None:
    problem = ("--arms", 4, "--horizon", 12, "--tol", tol, "--json")
    prices = canonical_prices(Problem.uniform(arms=4, horizon=12))
    assert prices is not None
    for stage, state in [(0, "0/0,0/0,0/0,0/0"), (11, "5/6,1/2,0/1,2/2")]:
        answer = deco("recommend", *problem, "--policy", "deco", "--state", state).json
        assert (answer["stage"], answer["price"]) == (stage, prices[stage])


def test_nothing_is_left_to_learn_at_the_last_stage() -> None:
    problem = ("--policy", "deco", "--arms", 2, "--horizon", 3)
    answer = deco("recommend", *problem, "--state", "1/1,0/1", "--json").json
    assert [arm["value_of_information"] for arm in answer["arms"]] == [0, 0]
    assert [arm["index"] for arm in answer["arms"]] == pytest.approx([2 / 3, 1 / 3])
    assert answer["arm"] == "arm-1"


def test_indices_are_those_of_the_equation(tmp_path: Path) -> None:
    file, saved = write(tmp_path / "mixed.toml", MIXED), tmp_path / "solution.json"
    deco("solve", file, "--out", saved, "--json")
    answer = deco("recommend", saved, "--state", "1/2,0/0,1/1", "--json").json
    problem = load_problem(file)
    prices = canonical_prices(problem)
    assert prices is not None
    for arm, shown in zip(problem.arms, answer["arms"], strict=True):
        by_hand = OneArm(problem, arm, prices)
        state = (3, shown["good"] + shown["bad"], shown["good"])
        assert shown["name"] == arm.name
        assert shown["expected_reward"] == pytest.approx(by_hand.ell(*state))
        assert shown["value_of_information"] == pytest.approx(by_hand.delta(*state), abs=1e-12)
    assert answer["arm"] == max(answer["arms"], key=index_of)["name"]


def test_outcomes_in_a_file_count_like_a_state(tmp_path: Path) -> None:
    problem = write(tmp_path / "three.toml", THREE)
    outcomes = [
        ("arm-1", "good"),
        ("arm-3", "0"),
        ("arm-1", "bad"),
        ("arm-1", "1"),
        ("arm-3", "Good"),
    ]
    with open(tmp_path / "outcomes.csv", "w", newline="", encoding="utf-8") as file:
        # columns in any order, and others beside them
        csv.writer(file).writerows(
            [
                ("when", "outcome", "arm"),
                *((i, outcome, arm) for i, (arm, outcome) in enumerate(outcomes)),
            ]
        )
    from_file = deco("recommend", problem, "--data", tmp_path / "outcomes.csv", "--json").json
    assert from_file == deco("recommend", problem, "--state", "2/3,0/0,1/2", "--json").json


def test_no_outcomes_yet_is_the_first_stage(tmp_path: Path) -> None:
    data = write(tmp_path / "outcomes.csv", "arm,outcome\n")
    answer = deco("recommend", "--arms", 2, "--horizon", 5, "--data", data, "--json").json
    assert answer["stage"] == 0


def test_several_pulls_per_stage_choose_as_many_arms(tmp_path: Path) -> None:
    problem = write(tmp_path / "pairs.toml", IN_PAIRS)
    answer = deco("recommend", problem, "--state", "1/1,1/2,0/1,0/0", "--json").json
    assert answer["stage"] == 2
    ranked = sorted(answer["arms"], key=index_of, reverse=True)
    assert answer["chosen"] == [arm["name"] for arm in ranked[:2]]
    assert answer["arm"] == answer["chosen"][0]


def test_recommendation_is_printed_for_people() -> None:
    shown = deco("recommend", "--arms", 3, "--horizon", 10, "--state", "3/5,0/0,2/2")
    assert (shown.code, shown.err) == (0, "")
    assert "pull: arm-3" in shown.out
    assert "Beta(4, 3)" in shown.out  # the posterior of the first arm


def test_names_are_shown_as_they_are_written(tmp_path: Path) -> None:
    names = ["[red]dose", "[/]", "β 20%"]
    arms = "".join(f'[[arms]]\nname = "{name}"\n' for name in names)
    problem = write(tmp_path / "names.toml", "horizon = 3\n" + arms)
    shown = deco("recommend", problem, "--state", "0/0,0/0,0/0")
    assert (shown.code, shown.err) == (0, "")
    assert all(name in shown.out for name in names)


# -- progress and interruption ------------------------------------------------------------------

LONG = ("solve", "--arms", 20, "--horizon", 500)


def test_progress_is_shown_at_a_terminal_only() -> None:
    at_terminal, off = deco_at_terminal(*LONG, "--json"), deco(*LONG, "--json")
    assert at_terminal.code == 0
    assert "bound" in at_terminal.err
    assert "gap" in at_terminal.err
    answers = [json_object(at_terminal.out), off.json]
    for answer in answers:
        answer.pop("seconds")
    assert answers[0] == answers[1]


def test_ctrl_c_while_the_program_is_loaded_is_no_error() -> None:
    code = (
        "import builtins, os, signal\n"
        "from decobandit.cli import main\n"
        "load = builtins.__import__\n"
        "def loading(name, *rest):\n"
        "    if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = loading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "deco: interrupted\n")


def test_interruption_returns_the_best_solution_so_far() -> None:
    stopped = deco_at_terminal(*LONG, "--tol", 0, "--json", interrupt_at="bound")
    assert stopped.code == 0
    answer = json_object(stopped.out)
    assert answer["interrupted"] is True
    assert "interrupted" in stopped.err
    upper, lower = answer["upper_bound"], answer["lower_bound"]
    assert lower <= 465.93  # the dual minimum is 465.92
    assert upper >= 465.91
    assert answer["relative_gap"] == pytest.approx((upper - lower) / upper)
    assert len(answer["multipliers"]) == 500


@pytest.mark.parametrize("command", ["index", "gap", "market", "path"])
def test_ctrl_c_in_a_search_for_prices_ends_the_command_that_needs_them(command: str) -> None:
    stopped = deco_at_terminal(command, *LONG[1:], "--tol", 0, interrupt_at="bound")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.rstrip().endswith("deco: interrupted")
    assert "best solution" not in stopped.err  # nothing went on with it
    assert "Traceback" not in stopped.err


# -- the program as a whole ---------------------------------------------------------------------


def test_version_is_that_of_the_package() -> None:
    assert deco("--version") == Run(0, f"deco {decobandit.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], []], ids=["asked", "no command"])
def test_help_lists_every_command(arguments: list[str]) -> None:
    shown = deco(*arguments)
    assert (shown.code, shown.err) == (0, "")
    assert set(shown.out.split()) >= COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str) -> None:
    shown = deco(command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert f"deco {command}" in shown.out


def test_help_does_not_wait_for_heavy_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", DECO, "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    # a line is "import time: self | cumulative | module"
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()
    }
    assert "decobandit" in imported
    heavy = {"numba", "numpy", "scipy", "pydantic", "highspy", "matplotlib", "llvmlite"}
    assert imported & heavy == set()


def test_warmup_says_that_kernels_are_ready() -> None:
    done = deco("warmup")
    assert (done.code, done.err) == (0, "")
    assert "ready" in done.out
    assert "deco warmup --all" in done.out  # what is left, and how to have it


def test_demo_draws_a_figure(tmp_path: Path) -> None:
    done = deco("demo", "--out", tmp_path / "new" / "demo")
    assert (done.code, done.err) == (0, "")
    (figure,) = (tmp_path / "new" / "demo").iterdir()
    assert figure.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert str(figure) in done.out.replace("\n", "")
    assert "pull: arm-" in done.out


@pytest.mark.parametrize(
    ("missing", "extra", "code"),
    [
        ("sqlalchemy", "trials", "from decobandit.trials import open_store"),
        ("httpx", "client", "from decobandit.client import Client"),
        ("cryptography", "trials", "import sys; sys.argv = ['deco', 'keys', 'new', 'x']; main()"),
        ("fastapi", "server", "import sys; sys.argv = ['deco', 'serve']; main()"),
    ],
)
def test_a_missing_extra_is_named_with_its_pip_command(
    tmp_path: Path, missing: str, extra: str, code: str
) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None\nfrom decobandit.cli import main\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    *_, message = done.stderr.strip().splitlines()
    how = f"{missing} is not installed; install it with: pip install 'decobandit[{extra}]'"
    assert message.endswith(how)
    assert ("Traceback" in done.stderr) == ("main()" not in code)


def test_missing_matplotlib_names_the_pip_command(tmp_path: Path) -> None:
    (tmp_path / "matplotlib").mkdir()
    write(tmp_path / "matplotlib" / "__init__.py", "raise ImportError('not installed')\n")
    refused = deco("demo", "--out", tmp_path / "demo", more={"PYTHONPATH": str(tmp_path)})
    assert refused.code == 2
    (message,) = refused.err.splitlines()
    assert 'pip install "decobandit[plot]"' in message
