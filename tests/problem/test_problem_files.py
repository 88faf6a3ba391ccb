"""Problem files: what is written is read back, and every refusal names the file and the key."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decobandit.problem import (
    Arm,
    BetaBernoulli,
    Problem,
    ProblemError,
    Reward,
    Terminal,
    format_problem,
    is_name,
    load_problem,
    problem_from_dict,
    problem_to_dict,
    terminal_table,
)
from decobandit.problem.problem_files import Format, parse_problem, parse_tree, save_problem
from helpers.refusals import refused

EXAMPLE = """
horizon = 2
pulls_per_stage = 1

[[arms]]
name = "control"
prior = { good = 1, bad = 1 }
reward = { good = 1.0, bad = 0.0 }     # a number, or a list with one number per stage

[[arms]]
name = "dose"
reward = { good = [2, 1] }
count = 2

[terminal]
deploy = 200.0
"""
READ = Problem(
    arms=(
        Arm(name="control"),
        Arm(name="dose-1", reward=Reward(good=(2.0, 1.0))),
        Arm(name="dose-2", reward=Reward(good=(2.0, 1.0))),
    ),
    horizon=2,
    terminal=Terminal(deploy=200),
)

formats = pytest.mark.parametrize("format", get_args(Format))


# -- random problems ----------------------------------------------------------------------------

numbers = st.floats(-1e12, 1e12)
positive = st.floats(min_value=1e-12, max_value=1e12)
words = st.text(min_size=1, max_size=12) | st.sampled_from(["a", "b -", "=[]{}'\"\\", "-1", "#"])
# names that look like parts of a run are the interesting ones
names = st.builds(str.__add__, words, st.sampled_from(["", "-1", "-2", "-3"])).filter(is_name)


def arms_of(horizon: int, name: str, *, tables: bool) -> st.SearchStrategy[Arm]:
    per_stage = numbers | st.lists(numbers, min_size=horizon, max_size=horizon).map(tuple)
    rows = st.tuples(
        *(st.lists(numbers, min_size=n + 1, max_size=n + 1) for n in range(horizon + 1))
    )
    return st.builds(
        Arm,
        name=st.just(name),
        prior=st.builds(BetaBernoulli, good=positive, bad=positive),
        reward=st.builds(Reward, good=per_stage, bad=per_stage),
        terminal=st.none() | rows if tables else st.none(),
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    horizon = draw(st.integers(1, 4))
    deploy = draw(st.none() | st.builds(Terminal, deploy=st.floats(0, 1e12)))
    arms: dict[str, Arm] = {}
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        arm = draw(arms_of(horizon, name, tables=deploy is None))
        arms.setdefault(name, arm)
        for i in range(draw(st.integers(0, 3))):  # the beginning of a run, often
            copy = f"{name.removesuffix('-1')}-{i + 1}"
            if is_name(copy):
                arms.setdefault(copy, arm.model_copy(update={"name": copy}))
    pulls = draw(st.integers(1, len(arms)))
    return Problem(
        arms=tuple(arms.values()), horizon=horizon, pulls_per_stage=pulls, terminal=deploy
    )


@formats
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems())
def test_what_is_written_is_read_back(format: Format, problem: Problem) -> None:
    assert parse_problem(format_problem(problem, format=format), format=format) == problem


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems())
def test_both_formats_hold_the_tree(problem: Problem) -> None:
    tree = problem_to_dict(problem)
    assert tomllib.loads(format_problem(problem, format="toml")) == tree
    assert json.loads(format_problem(problem, format="json")) == tree
    assert problem_from_dict(tree) == problem


# -- reading and writing ------------------------------------------------------------------------


def test_example_is_read() -> None:
    assert parse_problem(EXAMPLE) == READ
    text = json.dumps(tomllib.loads(EXAMPLE))
    assert parse_problem(text, format="json") == READ


def test_written_toml_looks_like_the_example() -> None:
    assert format_problem(READ) == (
        "horizon = 2\npulls_per_stage = 1\n\n"
        '[[arms]]\nname = "control"\n'
        "prior = { good = 1.0, bad = 1.0 }\nreward = { good = 1.0, bad = 0.0 }\n\n"
        '[[arms]]\nname = "dose"\n'
        "prior = { good = 1.0, bad = 1.0 }\nreward = { good = [2.0, 1.0], bad = 0.0 }\n"
        "count = 2\n\n"
        "[terminal]\ndeploy = 200.0\n"
    )


@pytest.mark.parametrize("name", ["trial.toml", "trial.json", "TRIAL.TOML", "essai n° 1.json"])
def test_files_are_read_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save_problem(READ, path)
    assert load_problem(path) == READ
    assert load_problem(str(path)) == READ


def test_byte_order_mark_and_carriage_returns_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert load_problem(path) == READ


def written(*arms: Arm) -> list[tuple[str, int]]:
    tree = problem_to_dict(Problem(arms=arms, horizon=1))
    return [(entry["name"], entry.get("count", 1)) for entry in tree["arms"]]


def named(*names: str, prior: float = 1) -> tuple[Arm, ...]:
    return tuple(Arm(name=name, prior=BetaBernoulli(good=prior, bad=1)) for name in names)


@pytest.mark.parametrize(
    ("arms", "entries"),
    [
        (named("a-1", "a-2", "a-3"), [("a", 3)]),
        (named("a-1"), [("a-1", 1)]),
        (named("a-2", "a-3"), [("a-2", 1), ("a-3", 1)]),
        (named("a-1", "a-3"), [("a-1", 1), ("a-3", 1)]),
        (named("a-1", "a-2", "b-1", "b-2", "c"), [("a", 2), ("b", 2), ("c", 1)]),
        (named("a-1", "a-2") + named("a-3", prior=2), [("a", 2), ("a-3", 1)]),
        (named("a-1", "b", "a-2"), [("a-1", 1), ("b", 1), ("a-2", 1)]),
        (named("a-1-1", "a-1-2"), [("a-1", 2)]),
        (named("a-01", "a-02"), [("a-01", 1), ("a-02", 1)]),
        (named("-1", "-2"), [("-1", 1), ("-2", 1)]),
        (named("a -1", "a -2"), [("a -1", 1), ("a -2", 1)]),
    ],
)
def test_runs_of_numbered_arms_are_one_entry(
    arms: tuple[Arm, ...], entries: list[tuple[str, int]]
) -> None:
    assert written(*arms) == entries


@formats
def test_many_equal_arms_make_a_small_file(format: Format) -> None:
    problem = Problem.uniform(arms=100_000, horizon=5)
    text = format_problem(problem, format=format)
    assert len(text) < 300
    assert parse_problem(text, format=format) == problem


def test_copies_share_their_terminal_table() -> None:
    table = terminal_table(1, lambda good, bad: good)
    entry = {"name": "a", "terminal": table, "count": 3}
    first, *others = problem_from_dict({"horizon": 1, "arms": [entry]}).arms
    assert first.terminal == table
    assert all(other.terminal is first.terminal for other in others)


# -- refusals -----------------------------------------------------------------------------------


def refusal(tree: object) -> str:
    """The message, by way of JSON text."""
    with pytest.raises(ProblemError) as info:
        parse_problem(json.dumps(tree), format="json", source="trial.json")
    message = str(info.value)
    assert message.isprintable()  # one line
    assert message.startswith("trial.json: ")
    return message.removeprefix("trial.json: ")


def with_arm(**entry: Any) -> dict[str, Any]:
    return {"horizon": 2, "arms": [{"name": "first"}, {"name": "second"} | entry]}


NOT_WHOLE = "must be a whole number from 1 to"


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1, 2], "a list of 2 is not allowed; must be a table"),
        ({}, "horizon: required key is missing (and 1 more)"),
        ({"horizon": 2}, "arms: required key is missing"),
        ({"horizon": 2, "arms": []}, "arms: 0 is not allowed; must be 1 to 100000 arms"),
        ({"horizon": 2, "arms": {}}, "arms: a table is not allowed; must be a list"),
        ({"horizon": 2, "arms": ["a"]}, 'arms[0]: "a" is not allowed; must be a table'),
        (with_arm() | {"horizon": 0}, f"horizon: 0 is not allowed; {NOT_WHOLE} 100000"),
        (with_arm() | {"horizon": True}, f"horizon: true is not allowed; {NOT_WHOLE} 100000"),
        (with_arm() | {"horizon": 2.0}, f"horizon: 2.0 is not allowed; {NOT_WHOLE} 100000"),
        (with_arm() | {"horizon": None}, f"horizon: null is not allowed; {NOT_WHOLE} 100000"),
        (with_arm() | {"horizon": "2"}, f'horizon: "2" is not allowed; {NOT_WHOLE} 100000'),
        (
            with_arm() | {"horizon": 10**300},
            f"horizon: a huge integer is not allowed; {NOT_WHOLE} 100000",
        ),
        (
            with_arm() | {"pulls_per_stage": 3},
            "pulls_per_stage: 3 is not allowed; must be at most the number of arms, 2, unless "
            "repeat is true",
        ),
        (
            with_arm() | {"horizn": 3},
            "horizn: unknown key; "
            "allowed: horizon, pulls_per_stage, repeat, unit, arms, terminal, budget, "
            "resources, segments, design",
        ),
        (
            with_arm() | {"odd\nkey": 3},
            r'"odd\nkey": unknown key; allowed: horizon, pulls_per_stage, repeat, unit, arms, '
            "terminal, budget, resources, segments, design",
        ),
        (
            with_arm(piror={}),
            "arms[1].piror: unknown key; allowed: name, prior, priors, reward, noise_sd, drift_sd, "
            "range, available, cost, uses, terminal, "
            "count",
        ),
        (
            {"horizon": 2, "arms": [{"nam": "a"}]},
            "arms[0].nam: unknown key; allowed: name, prior, priors, reward, noise_sd, drift_sd, "
            "range, available, cost, uses, terminal, "
            "count (and 1 more)",
        ),
        (
            with_arm(prior={"good": 1, "bad": 1, "ugly": 1}),
            "arms[1].prior.ugly: unknown key; allowed: good, bad",
        ),
        (
            with_arm(reward={"god": 1}),
            "arms[1].reward.god: unknown key; allowed: good, bad, values, factor, cap",
        ),
        (
            with_arm() | {"terminal": {"deply": 1}},
            "terminal.deply: unknown key; allowed: deploy, deploy_arms",
        ),
        (with_arm(prior={"good": 1}), "arms[1].prior.bad: required key is missing"),
        (with_arm(prior=[1, 1]), "arms[1].prior: a list of 2 is not allowed; must be a table"),
        (
            with_arm(prior={"good": -1, "bad": 1}),
            "arms[1].prior.good: -1 is not allowed; must be a positive number",
        ),
        (
            with_arm(prior={"good": float("nan"), "bad": 0}),
            "arms[1].prior.good: nan is not allowed; must be a positive number (and 1 more)",
        ),
        (
            with_arm(reward={"good": float("inf")}),
            "arms[1].reward.good: inf is not allowed; "
            "must be a finite number, or a list with one per stage",
        ),
        (
            with_arm(reward={"bad": [0, False]}),
            "arms[1].reward.bad[1]: false is not allowed; must be a finite number",
        ),
        (
            with_arm(reward={"bad": [0, 1, 2]}),
            "arms[1].reward.bad: a list of 3 is not allowed; "
            "must be one number, or a list of 2: one per stage",
        ),
        (
            with_arm(terminal=[[0], [0, 0]]),
            "arms[1].terminal: a list of 2 is not allowed; "
            "must have 3 rows: one for each of 0 to 2 pulls",
        ),
        (
            with_arm(terminal=[[0], [0], [0]]),
            "arms[1].terminal[1]: a list of 1 is not allowed; "
            "must have 2 numbers: one for each of 0 to 1 good outcomes",
        ),
        (
            with_arm(terminal=[[0], [0, None]]),
            "arms[1].terminal[1][1]: null is not allowed; must be a finite number",
        ),
        (
            with_arm(name="first"),
            'arms[1].name: "first" is not allowed; must differ from the names of all other arms',
        ),
        (
            with_arm(name="a\u2028b"),
            r'arms[1].name: "a\u2028b" is not allowed; '
            "must be 1 to 100 printable characters, no blank at either end",
        ),
        (with_arm(count=0), f"arms[1].count: 0 is not allowed; {NOT_WHOLE} 100000"),
        (with_arm(count=1.0), f"arms[1].count: 1.0 is not allowed; {NOT_WHOLE} 100000"),
        (
            with_arm(count=100_000),
            "arms: 100001 is not allowed; must be 1 to 100000 arms, counts included",
        ),
        (
            with_arm() | {"terminal": {"deploy": -1}},
            "terminal.deploy: -1 is not allowed; must be a finite number, zero or more",
        ),
        (
            with_arm(terminal=[[0], [0, 1], [0, 1, 2]]) | {"terminal": {"deploy": 7}},
            "terminal.deploy: 7.0 is not allowed; "
            "must be 0 when an arm has a terminal table: choose one of the two forms",
        ),
    ],
)
def test_refusals_name_the_key_the_value_and_the_rule(tree: object, message: str) -> None:
    assert refusal(tree) == message


def test_places_are_those_of_the_file_when_entries_have_counts() -> None:
    arms = [{"name": "a", "count": 7}, {"name": "b", "count": 2}, {"name": "a-3"}]
    assert refusal({"horizon": 2, "arms": arms}).startswith('arms[2].name: "a-3" is not allowed')
    arms[1:] = [{"name": "b", "count": 2, "reward": {"good": [1]}}]
    assert refusal({"horizon": 2, "arms": arms}).startswith("arms[1].reward.good: a list of 1")


def test_numbered_names_must_still_be_names() -> None:
    assert refusal(with_arm(name="x" * 99, count=2)).startswith("arms[1].name: ")
    text = json.dumps(with_arm(name="x" * 98, count=2))
    assert len(parse_problem(text, format="json").arms) == 3


def test_long_values_are_shortened() -> None:
    message = refusal(with_arm(name="x" * 5000))
    assert len(message) < 200


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("toml", "horizon 3", "not valid TOML: Expected '=' after a key"),
        ("toml", "a = 1\nhorizon = \n", "line 2"),
        ("toml", "horizon = 3\nhorizon = 4", "not valid TOML: "),
        ("toml", "horizon = " + "[" * 100_000, "not valid TOML: "),
        ("toml", "horizon = 0x" + "f" * 6000, "horizon: a huge integer is not allowed"),
        ("toml", "horizon = nan", "horizon: nan is not allowed"),
        ("toml", "horizon = 1979-05-27", "horizon: datetime.date(1979, 5, 27) is not allowed"),
        ("json", "", "not valid JSON: Expecting value (at line 1, column 1)"),
        ("json", '{\n"horizon": 3,}', "not valid JSON: "),
        ("json", '{\n"horizon": 3 4}', "(at line 2, column 14)"),
        ("json", '{"horizon": 3, "horizon": 3}', 'not valid JSON: duplicate key "horizon"'),
        ("json", "[" * 100_000, "not valid JSON: "),
        ("json", "9" * 5000, "not valid JSON: "),
        ("json", '{"horizon": NaN}', "horizon: nan is not allowed"),
        ("json", '{"horizon": -Infinity}', "horizon: -inf is not allowed"),
        ("json", '{"horizon": 1e999}', "horizon: inf is not allowed"),
        ("json", '{"\\ud800": 1}', '"\\ud800" is not allowed'),
    ],
)
def test_unreadable_text_is_refused_in_one_line(format: Format, text: str, message: str) -> None:
    with pytest.raises(ProblemError) as info:
        parse_problem(text, format=format, source="trial")
    assert str(info.value).startswith("trial: ")
    assert message in str(info.value)
    assert len(str(info.value).splitlines()) == 1


def test_unknown_format_is_refused() -> None:
    other: Any = "yaml"
    with refused("invalid_problem"):
        parse_problem("", format=other)
    with refused("invalid_problem"):
        format_problem(READ, format=other)


@pytest.mark.parametrize("name", ["trial.yaml", "trial", ".toml", "trial.toml.bak"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with refused("invalid_problem"):
        load_problem(tmp_path / name)
    with refused("invalid_problem"):
        save_problem(READ, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"
    with pytest.raises(ProblemError) as info:
        load_problem(path)
    assert str(info.value) == f"{path}: no such file"


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with refused("invalid_problem"):
        load_problem(folder)
    with refused("invalid_problem"):
        save_problem(READ, folder)
    with pytest.raises(ProblemError, match="cannot be read: embedded null byte"):
        load_problem("a\0b.toml")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    path.write_bytes(b'horizon = "\xff"')
    with pytest.raises(ProblemError) as info:
        load_problem(path)
    assert str(info.value) == f"{path}: not UTF-8 text at byte 11"


def test_key_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    path.write_text(EXAMPLE.replace("bad = 1 }", "bad = -1 }"), encoding="utf-8")
    with pytest.raises(ProblemError) as info:
        load_problem(path)
    expected = "arms[0].prior.bad: -1 is not allowed; must be a positive number"
    assert str(info.value) == f"{path}: {expected}"


# -- long keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'question = "' + "a." * 40 + '"',
        "question = '" + "a." * 40 + "'",
        'question = """\n' + "a." * 40 + '\\"""' + "[" * 40 + '"""',
        "question = '''" + "[.{" * 40 + "'''",
        "# " + "a." * 40 + "[" * 40,
        "x = [" + "0.5, " * 40 + "]",
        "x = [\n" + "[0.5, 0.25],\n" * 40 + "]",
        ".".join("a" * 20) + " = 1.5",
        "[" + ".".join("a" * 20) + "]\nb.c = 1",
        "x = " + "[" * 20 + "]" * 20,
    ],
)
def test_dots_and_brackets_of_values_are_no_nesting(text: str) -> None:
    assert parse_tree(text, "toml") == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (".".join("a" * 21) + " = 1", 1),
        ("x = 1\n[" + ".".join("a" * 21) + "]", 2),
        ("x = 1\n\ny = " + "[" * 21 + "]" * 21, 3),
        ('"' + '\\"' * 9 + '".' * 1 + ".".join(['"b.c"'] * 20) + " = 1", 1),
    ],
)
def test_long_keys_and_deep_values_are_refused(text: str, line: int) -> None:
    with pytest.raises(ProblemError, match=rf"not valid TOML: .* \(at line {line}\)"):
        parse_tree(text, "toml")
