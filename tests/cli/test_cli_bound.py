"""`deco bound`, as people and programs call it."""

from pathlib import Path

import pytest

from helpers.program import deco, deco_at_terminal

BASE = ("bound", "--arms", 2, "--horizon", 12, "--draws", 300)
KEYS = {
    "arms",
    "horizon",
    "version",
    "lagrangian",
    "information",
    "information_se",
    "trivial",
    "joint",
    "exact_stages",
    "best",
    "best_is",
    "weight",
    "draws",
    "seed",
    "stopped_early",
    "seconds",
}


def test_json_has_all_bounds_and_settings() -> None:
    tree = deco(*BASE, "--seed", 4, "--workers", 1, "--json").json
    assert set(tree) == KEYS | {"best_bound", "best_bound_is"}
    assert (tree["best_bound"], tree["best_bound_is"]) == (tree["best"], tree["best_is"])
    assert (tree["arms"], tree["horizon"], tree["draws"], tree["seed"]) == (2, 12, 300, 4)
    assert tree["trivial"] == pytest.approx(8.0)
    exact = deco("optimum", "--arms", 2, "--horizon", 12, "--json").json["value"]
    assert exact - 3 * tree["information_se"] < tree["information"] < tree["lagrangian"]
    assert (tree["best_is"], tree["exact_stages"]) == ("optimum", 12)
    assert tree["best"] == tree["joint"] == pytest.approx(exact, abs=1e-12)
    again = deco(*BASE, "--seed", 4, "--weight", tree["weight"], "--json").json
    assert again["information"] == tree["information"]


def test_without_an_optimum_the_smallest_bound_is_the_best() -> None:
    tree = deco("bound", "--arms", 7, "--horizon", 45, "--draws", 50, "--json").json
    assert tree["best_is"] == "joint"
    assert tree["exact_stages"] < 45
    estimate = tree["information"] + 3 * tree["information_se"]
    assert tree["best"] == tree["joint"] < min(tree["lagrangian"], tree["trivial"], estimate)


def test_a_table_for_people(tmp_path: Path) -> None:
    file = tmp_path / "problem.toml"
    file.write_text(
        'horizon = 8\n[[arms]]\nname = "x"\n[[arms]]\nname = "y"\nprior = { good = 2, bad = 1 }\n'
    )
    run = deco_at_terminal("bound", file, "--draws", 400)
    assert run.code == 0
    for word in ("lagrangian", "information", "optimum (best)", "trivial", "400 scenarios, seed 1"):
        assert word in run.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--weight", 2), "weight: 2.0"),
        (("--draws", 1), "draws: 1"),
    ],
)
def test_bad_input_ends_with_one_line(arguments: tuple[object, ...], message: str) -> None:
    run = deco(*BASE, *arguments)
    assert run.code == 2
    assert run.out == ""
    assert message in run.err
    assert run.err.count("\n") == 1
