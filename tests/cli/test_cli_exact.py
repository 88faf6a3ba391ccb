"""The commands for exact values, through the installed program."""

from pathlib import Path

import pytest

from decobandit.cli.options import POLICY_NAMES
from decobandit.policies import POLICIES
from helpers.program import deco, deco_at_terminal, json_object
from helpers.reference import REFERENCE


def test_optimum_prints_the_reference_value() -> None:
    result = deco("optimum", "--arms", 3, "--horizon", 10, "--json").json
    assert result["value"] == pytest.approx(6.409642857142857, abs=1e-12)
    assert result["states"] > 0
    assert result["seconds"] >= 0


def test_evaluate_lists_every_policy_beside_the_bound() -> None:
    names = ["deco", "deco-calibrated", "deco-rolling", "fh-gittins", "optimal"]
    result = deco(
        "evaluate", "--policy", ",".join(names), "--arms", 3, "--horizon", 8, "--json"
    ).json
    rows = result["policies"]
    assert [row["policy"] for row in rows] == names
    values = {row["policy"]: row["value"] for row in rows}
    for row in rows:
        assert row["value"] <= values["optimal"] + 1e-12
        assert row["regret"] == pytest.approx(8 * 3 / 4 - row["value"], abs=1e-9)
    assert values["optimal"] <= result["upper_bound"]
    assert values["deco-calibrated"] >= values["fh-gittins"]


def test_evaluate_at_a_known_truth_reports_moments() -> None:
    result = deco(
        "evaluate", "--policy", "deco", "--arms", 2, "--horizon", 1, "--truth", "0.3,0.5", "--json"
    ).json
    (row,) = result["policies"]  # one pull of the first arm: the tie of two fresh arms
    assert row["value"] == pytest.approx(0.3)
    assert row["variance"] == pytest.approx(0.21)
    assert row["arm_pulls"] == pytest.approx([1, 0])


@pytest.mark.parametrize("values", REFERENCE["fh_gittins_index"]["values"][:8])
def test_index_prints_the_published_gittins_index(values: list[float]) -> None:
    good, bad, remaining, expected = values
    result = deco(
        "index",
        "--policy",
        "fh-gittins",
        "--arms",
        2,
        "--horizon",
        remaining,
        "--prior-good",
        good,
        "--prior-bad",
        bad,
        "--stage",
        0,
        "--good",
        0,
        "--bad",
        0,
        "--json",
    ).json
    assert result["index"] == pytest.approx(expected, abs=6e-7)


def test_index_of_a_later_state_is_that_of_a_better_known_arm() -> None:
    later = deco(
        "index",
        "--policy",
        "fh-gittins",
        "--arms",
        1,
        "--horizon",
        13,
        "--stage",
        3,
        "--good",
        1,
        "--bad",
        2,
        "--json",
    )
    fresh = deco(
        "index",
        "--policy",
        "fh-gittins",
        "--arms",
        1,
        "--horizon",
        10,
        "--prior-good",
        2,
        "--prior-bad",
        3,
        "--json",
    )
    index = later.json["index"]
    assert index == pytest.approx(fresh.json["index"], abs=1e-10)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["optimum", "--arms", 15, "--horizon", 60], "states"),
        (["evaluate", "--policy", "ucb9", "--arms", 2, "--horizon", 3], "ucb9"),
        (["evaluate", "--arms", 2, "--horizon", 3, "--truth", "0.5"], "truth"),
        (["evaluate", "--arms", 2, "--horizon", 3, "--truth", "0.5,x"], "--truth"),
        (["evaluate", "--arms", 2, "--horizon", 3, "--truth", "0.5,1.5"], "1.5"),
        (["evaluate", "--arms", 2, "--horizon", 3, "--ties", "none"], "ties"),
        (["index", "--policy", "optimal", "--arms", 2, "--horizon", 3], "optimal"),
        (["index", "--arms", 2, "--horizon", 3, "--stage", 3], "stage"),
        (["index", "--arms", 2, "--horizon", 3, "--stage", 1, "--good", 1, "--bad", 1], "stage 1"),
        (["index", "--arms", 2, "--horizon", 3, "--arm", "x"], "'x'"),
        (["reproduce", "table9"], "table9"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[object], culprit: str) -> None:
    run = deco(*arguments)
    assert run.code == 2
    assert run.out == ""
    assert len(run.err.strip().splitlines()) == 1
    assert culprit in run.err
    assert "Traceback" not in run.err


def test_help_names_every_policy() -> None:
    assert tuple(POLICY_NAMES.split(", ")) == tuple(POLICIES)


def test_after_the_last_stage_the_arm_to_deploy_is_named(tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(
        'horizon = 3\n[[arms]]\nname = "a"\n[[arms]]\nname = "b"\n[terminal]\ndeploy = 10.0\n'
    )
    by_deco = ("recommend", file, "--policy", "deco", "--state", "0/1,2/2", "--json")
    result = deco(*by_deco).json
    assert (result["arm"], result["deploy"], result["stage"]) == ("b", True, 3)
    index = {arm["name"]: arm["index"] for arm in result["arms"]}
    assert index == pytest.approx({"a": 10 / 3, "b": 10 * 3 / 4})
    assert deco("recommend", file, "--state", "0/1,2/2").out.endswith("deploy: b\n")


def test_a_signal_ends_an_evaluation_with_the_policies_that_are_finished() -> None:
    stopped = deco_at_terminal(
        "evaluate",
        "--arms",
        2,
        "--horizon",
        140,
        "--policy",
        "equal,thompson",
        "--truth",
        "0.3,0.5",
        "--json",
        interrupt_at="thompson",
    )
    answer = json_object(stopped.out)
    assert (stopped.code, answer["interrupted"]) == (0, True)
    assert [each["policy"] for each in answer["policies"]] == ["equal"]
    assert answer["policies"][0]["value"] == pytest.approx(70 * 0.8)
    assert "interrupted: these are the policies that were finished" in stopped.err
    assert "Traceback" not in stopped.err
