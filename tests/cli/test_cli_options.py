"""One name for one option over all commands, and the options that several commands share."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command

from decobandit import optimum
from decobandit.cli.app import PANELS, app
from decobandit.cli.output import print_table
from decobandit.cli.serving import Role
from decobandit.policies.names import DEFAULT_POLICY, PAPER_POLICY, SIMULATED_POLICIES
from decobandit.problem import TIE_RULES, Problem
from decobandit.server.tokens import ROLES
from helpers.program import deco, deco_at_terminal

SMALL = ("--arms", 3, "--horizon", 6)
STATE = ("--state", "1/1,0/1,0/0")
SEVERAL = {"gap": (), "index": ("--stage", 2, "--good", 1), "recommend": STATE}
POLICIES = ("deco", "fh-gittins")
COMPUTING = (
    "solve",
    "recommend",
    "evaluate",
    "simulate",
    "optimum",
    "bound",
    "gap",
    "path",
    "market",
    "index",
)
OF_PROBLEM = {"--arms", "--horizon", "--prior-good", "--prior-bad", "--workers"}


def commands(root: Any, path: str = "") -> dict[str, Any]:
    found = {}
    for name, command in root.commands.items():
        full = f"{path} {name}".strip()
        found |= commands(command, full) if hasattr(command, "commands") else {full: command}
    return found


COMMANDS = commands(get_command(app))


def help_of(*command: str) -> str:
    """The help, on one line."""
    shown = deco(*command, "--help")
    assert (shown.code, shown.err) == (0, "")
    return " ".join(shown.out.split())


# -- several policies ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", SEVERAL)
def test_several_policies_are_the_answers_of_each(command: str) -> None:
    arguments = (command, *SMALL, *SEVERAL[command])
    one_by_one = [deco(*arguments, "--policy", name, "--json").json for name in POLICIES]
    assert [tree["policy"] for tree in one_by_one] == list(POLICIES)
    together = deco(*arguments, "--policy", ",".join(POLICIES), "--json").json
    assert together == {"results": one_by_one}
    shown = [deco(*arguments, "--policy", name).out for name in POLICIES]
    assert deco(*arguments, "--policy", ", ".join(POLICIES)).out == "\n".join(shown)


@pytest.mark.parametrize("command", [*SEVERAL, "evaluate", "simulate"])
def test_a_policy_option_may_be_repeated(command: str) -> None:
    arguments = (command, *SMALL, *SEVERAL.get(command, ()), "--json")
    if command == "simulate":
        arguments += ("--draws", 20)
    runs = [
        deco(*arguments, *given).json
        for given in (
            ("--policy", "deco,fh-gittins,deco"),
            ("--policy", "deco", "--policy", "fh-gittins"),
            ("--policy=deco,fh-gittins",),
        )
    ]
    entries = [tree.get("policies", tree.get("results")) for tree in runs]
    for each in entries:
        assert [entry["policy"] for entry in each] == list(POLICIES)
    values = [[entry.get("value", entry.get("index")) for entry in each] for each in entries]
    assert values[0] == values[1] == values[2]


@pytest.mark.parametrize("command", [("path",), ("trial", "new", "--db", "t.db")])
def test_commands_of_one_policy_refuse_several(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = deco(*command, *SMALL, "--policy", "deco,greedy")
    assert (refused.code, refused.out) == (2, "")
    (line,) = refused.err.splitlines()
    assert line.endswith("error: --policy: deco, greedy: give one policy")
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_policy_is_answered_with_the_nearest_name() -> None:
    refused = deco("evaluate", *SMALL, "--policy", "decko")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "no policy is called 'decko'; did you mean 'deco'?" in refused.err


def test_defaults_are_those_of_the_catalogue() -> None:
    for command, expected in {
        "evaluate": (DEFAULT_POLICY,),
        "gap": (DEFAULT_POLICY,),
        "recommend": (DEFAULT_POLICY,),
        "trial new": (DEFAULT_POLICY,),
        "index": (PAPER_POLICY,),
        "path": (PAPER_POLICY,),
        "simulate": SIMULATED_POLICIES,
    }.items():
        (option,) = (each for each in COMMANDS[command].params if each.name == "policy")
        assert option.show_default == ", ".join(expected)
    assert deco("gap", *SMALL, "--json").json["policy"] == "deco-calibrated"  # by auto
    assert deco("index", *SMALL, "--json").json["policy"] == PAPER_POLICY


def test_tuning_is_announced_at_a_terminal_only() -> None:
    state = ("recommend", "--arms", 2, "--horizon", 21, "--state", "1/1,0/0", "--json")
    said = "picking a policy and tuning it; --policy deco starts at once"
    assert said in deco_at_terminal(*state).err
    assert said not in deco_at_terminal(*state, "--policy", "deco").err
    assert deco(*state).err == ""


# -- options of a problem, and what they are called ---------------------------------------------


def test_every_computing_command_has_the_options_of_a_problem() -> None:
    for name in (*COMPUTING, "trial new"):
        assert {option for each in COMMANDS[name].params for option in each.opts} >= OF_PROBLEM


def test_no_option_has_two_names_in_help() -> None:
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert len(parameter.opts) == 1, f"deco {name} {parameter.opts}"


def test_a_solution_file_has_its_problem_and_its_policy(tmp_path: Path) -> None:
    file = tmp_path / "solution.json"
    assert deco("solve", *SMALL, f"--out={file}").code == 0
    for more in (("--arms", 3), ("--policy", "greedy")):
        refused = deco("recommend", file, *STATE, *more)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "a solution file has its" in refused.err
    used = deco("solve", file)
    assert (used.code, used.out) == (2, "")
    assert "is a saved solution; use it with 'deco recommend'" in used.err


# -- choices, flags, defaults -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate", *SMALL, "--ties", "coin"), "'coin' is not a rule; choose one of least-"),
        (("gap", *SMALL, "--method", "guessed"), "must be exact or simulated"),
        (("reproduce", "--scale", "enormous"), "'enormous' is not one of 'quick', 'paper'"),
        (("reproduce", "table9"), "'table9' is not one of 'table1', 'figure2'"),
        (("token", "new", "ann", "--role", "king", "--db", "t.db"), "'king' is not one of 'admin'"),
        (("simulate", *SMALL, "--workers", 0), "'--workers'"),
        (("simulate", *SMALL, "--out", "x.txt"), "'--out': x.txt: must end in .png"),
    ],
)
def test_other_choices_are_refused_in_one_line(
    arguments: tuple[object, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = deco(*arguments)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert said in refused.err
    assert list(tmp_path.iterdir()) == []


def test_choices_are_shown_and_are_those_of_the_functions() -> None:
    assert f"<{'|'.join(TIE_RULES)}>" in help_of("gap").replace("| ", "|")
    assert "<exact|simulated>" in help_of("gap")
    assert "<quick|paper>" in help_of("reproduce")
    assert "<admin|operator|viewer|app>" in help_of("token", "new")
    assert get_args(Role) == ROLES


def test_flags_have_no_type_and_defaults_are_not_swallowed() -> None:
    for words in (["bound"], ["trial", "new"], ["study", "run"], ["path"]):
        assert "<bool>" not in help_of(*words)
    assert "[default: (the best of six)" in help_of("bound")
    assert "[default: (200 on some small problems)" in help_of("simulate")
    assert "[default: (drawn, and kept)" in help_of("trial", "new")
    assert "[default: (the first)" in help_of("index")


def test_help_fits_into_80_columns_and_has_one_line_per_text() -> None:
    for name in COMMANDS:
        shown = deco(*name.split(), "-h").out
        assert max(map(len, shown.splitlines())) <= 80, name
    for name, command in COMMANDS.items():
        assert len((command.help or "").partition("\n")[0]) <= 66, name
        for param in command.params:
            assert len(param.help or "") <= 54, (name, param.name)


def test_a_command_shows_its_own_options_before_those_of_the_problem() -> None:
    shown = deco("simulate", "-h").out
    assert shown.index("--draws") < shown.index("Problem without a file:") < shown.index("--arms")


def test_the_manual_is_named_and_found() -> None:
    assert "deco docs" in deco("--help").out
    assert Path(deco("docs").out.strip()).is_file()


def test_refusals_of_options_have_a_code_and_a_field() -> None:
    for arguments, field in (
        (("solve", "--arms", "three", "--horizon", 3), "arms"),
        (("solve", *SMALL, "--unit", 2), "unit"),
        (("simulate", *SMALL, "--truth", "x"), "truth"),
        (("solve", "--conjure"), None),
    ):
        refused = deco(*arguments, "--json")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        error = json.loads(refused.out)["error"]
        assert (error["code"], error.get("field")) == ("invalid_argument", field)


def test_commands_are_shown_in_groups() -> None:
    shown = deco("--help").out
    places = [shown.index(f"{panel}:") for panel in PANELS]
    assert places == sorted(places)
    after = {name: shown.index(f"\n  {name} ") for name in COMPUTING}
    assert places[0] < after["solve"] < places[1] < after["simulate"] < places[2]


# -- files and tables ---------------------------------------------------------------------------


def test_written_files_are_acknowledged_at_a_terminal(tmp_path: Path) -> None:
    figure, page, saved = (tmp_path / name for name in ("f.png", "p.html", "s.json"))
    simulated = ("simulate", *SMALL, "--policy", "greedy", "--draws", 5)
    assert f"figure written to {figure}" in plain(deco_at_terminal(*simulated, "--out", figure).err)
    assert f"page written to {page}" in plain(deco_at_terminal("market", *SMALL, "--out", page).err)
    assert f"solution written to {saved}" in plain(
        deco_at_terminal("solve", *SMALL, "--out", saved).err
    )
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert deco("market", *SMALL, "--out", page).err == ""


def plain(text: str) -> str:
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize("width", [20, 80])
def test_no_number_is_cut_in_a_narrow_terminal(width: int) -> None:
    run = ("evaluate", *SMALL, "--policy", "explore-then-commit", "--truth", "0.1,0.2,0.30")
    tree = deco(*run, "--json").json["policies"][0]
    shown = deco(*run, more={"COLUMNS": str(width)})
    assert (shown.code, shown.err) == (0, "")
    for number in (
        f"{tree['value']:.6f}",
        f"{tree['regret']:.6f}",
        f"{tree['variance'] ** 0.5:.4f}",
    ):
        assert number in shown.out
    assert "…" not in shown.out


def test_long_words_are_folded_and_nothing_beside_them_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "a randomised comparison of three treatments in children"
    cells = ["a09c3003f4cee5d4", "deco-calibrated", "20x100", "2026-11-17"]
    for width in (40, 62, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        titles = ["trial", "id", "policy", "size", "made"]
        print_table("", titles, [[words, *cells]], text=["trial", "id", "policy", "made"])
        out = capsys.readouterr().out
        assert all(cell in out for cell in cells)
        assert all(word in out for word in words.split())
        least = 13 + sum(map(len, cells)) + 15  # the longest word, cells, and what is between them
        assert max(map(len, out.splitlines())) <= max(width, least)


def test_a_problem_of_options_is_the_problem_of_python() -> None:
    value = deco("optimum", *SMALL, "--json").json["value"]
    assert value == optimum(Problem.uniform(arms=3, horizon=6)).value


# -- negative numbers ---------------------------------------------------------------------------


def test_an_outcome_may_be_a_negative_number(tmp_path: Path) -> None:
    file, here = tmp_path / "p.toml", ("--db", tmp_path / "t.db")
    prior = 'prior = { kind = "normal", mean = 0.0, sd = 1.0 }'
    file.write_text(f'horizon = 4\n[[arms]]\nname = "a"\ncount = 2\nnoise_sd = 1.0\n{prior}\n')
    assert deco("trial", "new", file, "--policy", "greedy", "--name", "lab", *here).code == 0
    assert deco("trial", "ask", "lab", "--subject", "S", *here).code == 0
    assert deco("trial", "tell", "lab", "S", "-0.75", *here, "--json").json["outcome"] == -0.75
    why = ("--reason", "typed wrongly", *here, "--json")
    assert deco("trial", "correct", "lab", "S", "-1e-1", *why).json["outcome"] == -0.1
