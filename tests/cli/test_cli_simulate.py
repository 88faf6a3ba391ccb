"""`deco simulate`, as people and programs call it."""

from pathlib import Path

import pytest

from decobandit.support import read_rows
from helpers.program import deco

BASE = ("simulate", "--arms", 4, "--horizon", 12, "--draws", 300, "--per-draw", 4)
KEYS = {"policy", "value", "value_se", "regret", "regret_se", "steps_per_second"}


def test_json_has_the_figures_of_every_policy() -> None:
    tree = deco(*BASE, "--policy", "deco,greedy", "--seed", 5, "--json").json
    assert [result["policy"] for result in tree["results"]] == ["deco", "greedy"]
    assert all(set(result) >= KEYS for result in tree["results"])
    assert (tree["draws"], tree["per_draw"], tree["seed"]) == (300, 4, 5)
    assert tree["version"]
    exact = deco("evaluate", "--arms", 4, "--horizon", 12, "--policy", "deco,greedy", "--json").json
    for found, known in zip(tree["results"], exact["policies"], strict=True):
        assert 0.0 < found["value_se"] < 0.05
        assert found["value"] == pytest.approx(known["value"], abs=4.5 * found["value_se"])
        assert found["regret"] == pytest.approx(known["regret"], abs=4.5 * found["regret_se"])


def test_the_same_seed_gives_the_same_numbers() -> None:
    def numbers(*more: object) -> list[float]:
        tree = deco(*BASE, "--policy", "greedy,ucb1", "--json", *more).json
        return [result["value"] for result in tree["results"]]

    assert numbers("--workers", 1) == numbers("--workers", 2)
    assert numbers() != numbers("--seed", 2)


def test_a_table_for_people_and_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "regret.png"
    run = deco(*BASE, "--policy", "fh-gittins,ucb1", "--out", figure)
    assert (run.code, run.err) == (0, "")
    assert "gain: over fh-gittins" in run.out
    assert "no policy can earn more than" in run.out
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_wrong_beliefs_and_other_horizons_are_simulated() -> None:
    prior = deco(*BASE, "--policy", "greedy", "--truth-prior", "2,5", "--json").json
    assert prior["truth_prior"] == {"good": 2.0, "bad": 5.0}
    assert prior["upper_bound"] is None
    early, late = (
        deco(*BASE, "--policy", "fh-gittins", "--true-horizon", end, "--json").json
        for end in (6, 15)
    )
    assert early["results"][0]["value"] < late["results"][0]["value"]
    fixed = deco(*BASE, "--policy", "greedy", "--truth", "0.1,0.2,0.3,0.4", "--json").json
    assert fixed["results"][0]["value"] < 0.4 * 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "nobody"), "no policy is called 'nobody'"),
        (("--draws", 1), "draws: 1"),
        (("--per-draw", 0), "per_draw: 0"),
        (("--seed", -4), "seed: -4"),
        (("--truth-prior", "2"), "--truth-prior: '2'"),
        (("--truth-prior", "0,1"), "must be two positive numbers"),
        (("--truth-prior", "nan,1"), "must be two positive numbers"),
        (("--truth", "0.5,x"), "--truth: '0.5,x'"),
        (("--truth", "0.5"), "truth: 1 given"),
        (("--ties", "coin"), "'coin' is not a rule"),
        (("--out", "/nowhere/at/all.png"), "no such directory"),
        (("--out", "figure.xyz"), "must end in .png"),
        (("--true-horizon", 0), "'--true-horizon'"),
        (("--workers", 0), "'--workers'"),
        (("--bound-draws", 1), "bound draws: 1"),
    ],
)
def test_bad_input_ends_with_one_line(arguments: tuple[object, ...], message: str) -> None:
    run = deco(*BASE, *arguments)
    assert run.code == 2
    assert run.out == ""
    assert message in run.err
    assert run.err.count("\n") == 1


def test_a_bound_from_too_few_scenarios_is_refused_before_the_work() -> None:
    run = deco("evaluate", "--arms", 3, "--horizon", 5, "--bound-draws", 20)
    assert (run.code, run.out) == (2, "")
    assert "must be 0, or 50 or more" in run.err


def test_every_pull_is_written_to_a_file(tmp_path: Path) -> None:
    for name in ("episodes.csv", "episodes.parquet"):
        run = deco(*BASE, "--policy", "greedy,equal", "--json", "--episodes", tmp_path / name)
        rows = [row for _, row in read_rows(tmp_path / name).each]
        assert len(rows) == 2 * 300 * 4 * 12
        for result in run.json["results"]:
            earned = [
                float(row["reward"] or 0) for row in rows if row["policy"] == result["policy"]
            ]
            plain = sum(earned) / 1200
            assert plain == pytest.approx(result["estimates"]["plain"]["value"], rel=1e-12)
    refused = deco(*BASE, "--episodes", tmp_path / "episodes.xlsx")
    assert refused.code == 2
    assert "must end in .csv or .parquet" in refused.err


def test_figures_of_results_are_drawn_as_pictures_and_as_pages(tmp_path: Path) -> None:
    small = ("--arms", 2, "--horizon", 6)
    design = tmp_path / "design.toml"
    design.write_text(
        'horizon = 6\n[[arms]]\nname = "a"\n[[arms]]\nname = "b"\n[design]\npolicies = ["equal"]\n'
        '[[design.scenarios]]\nname = "one"\ntruth = [0.5, 0.9]\n'
    )
    for command in (
        ("simulate", *small, "--policy", "greedy,equal", "--draws", 20),
        ("gap", *small, "--policy", "greedy,deco"),
        ("design", design),
    ):
        for name, start in (("x.png", b"\x89PNG"), ("x.html", b"<!DOCTYPE html>")):
            run = deco(*command, "--out", tmp_path / name)
            assert (run.code, run.err) == (0, "")
            assert (tmp_path / name).read_bytes().startswith(start)
        assert "https://" not in (tmp_path / "x.html").read_text().partition("<script")[0]


def test_the_usual_policies_are_those_that_serve_the_problem() -> None:
    tree = deco("simulate", "--arms", 2, "--horizon", 2, "--batch", 2, "--draws", 50, "--json").json
    assert [each["policy"] for each in tree["results"]] == ["deco", "thompson"]


def test_policies_that_do_the_same_are_called_the_same() -> None:
    # with one pull left both take the largest mean; equal takes arms in turn
    common = ("--prior-good", "2", "--draws", "20", "--per-draw", "5")
    run = deco(
        "simulate", "--arms", "2", "--horizon", "1", "--policy", "greedy,fh-gittins", *common
    )
    assert "same" in run.out.partition("fh-gittins")[2].splitlines()[0]
    assert "same: earned the same as greedy in all 100 episodes" in run.out
    run = deco(*common, "--horizon", "4", "--policy", "greedy,equal")
    assert "same: earned" not in run.out
