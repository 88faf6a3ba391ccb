"""`deco path` and `deco market`, as people and programs call them."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from decobandit.bounds import follow
from decobandit.prices import solve
from decobandit.problem import Problem
from helpers.program import deco

SMALL = ("--arms", 4, "--horizon", 12)
BRACKETS = 'horizon = 4\n[[arms]]\nname = "[red]a[/red]"\n[[arms]]\nname = "b"\n'


def test_json_has_the_path_of_the_function() -> None:
    tree = deco("path", *SMALL, "--seed", 5, "--expected", "--json").json
    solution = solve(Problem.uniform(arms=4, horizon=12))
    path = follow(solution.problem, "deco", solution=solution, rng=5)
    for name in ("pulled", "outcomes", "truth", "good"):
        assert tree[name] == path.to_dict()[name]
    for name in ("prices", "index", "running_loss"):
        assert tree[name] == path.to_dict()[name]
    value = deco("evaluate", *SMALL, "--policy", "deco", "--json").json["policies"][0]["value"]
    assert tree["expected_method"] == "exact"
    assert tree["expected_running_loss"][-1] == pytest.approx(tree["upper_bound"] - value, abs=1e-9)


def test_a_table_that_is_cut_and_a_page(tmp_path: Path) -> None:
    page = tmp_path / "path.html"
    run = deco("path", "--arms", 3, "--horizon", 60, "--policy", "thompson", "--out", page)
    assert (run.code, run.err) == (0, "")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE")
    rows = [line for line in run.out.splitlines() if "arm-" in line]
    assert len(rows) == 40
    assert "stages 20 to 39 are left out" in run.out


def test_a_whole_table_and_a_figure(tmp_path: Path) -> None:
    problem, figure = tmp_path / "problem.toml", tmp_path / "path.png"
    problem.write_text(BRACKETS, encoding="utf-8")
    run = deco("path", problem, "--policy", "equal", "--truth", "1,1", "--out", figure)
    assert (run.code, run.err) == (0, "")
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert run.out.count("[red]a[/red]") == 2  # no markup
    assert run.out.count(" good ") == 4
    assert "left out" not in run.out


def test_a_figure_is_for_dark_pages_where_its_name_says_so(tmp_path: Path) -> None:
    for name in ("episode.png", "episode-dark.png"):
        run = deco("path", "--arms", 2, "--horizon", 4, "--out", tmp_path / name)
        assert (run.code, run.err) == (0, "")
    light, dark = (imread(tmp_path / f"episode{which}.png") for which in ("", "-dark"))
    assert light.shape == dark.shape
    assert light[0, 0, :3].min() > 0.98
    assert dark[0, 0, :3].max() < 0.2


def test_the_market_is_a_table_json_and_figures(tmp_path: Path) -> None:
    tree = deco("market", *SMALL, "--json", "--out", tmp_path / "m.svg").json
    sold = [x + y for x, y in zip(tree["sold_fresh"], tree["sold_touched"], strict=True)]
    assert sold == pytest.approx([1.0] * 12, abs=1e-10)
    assert (tmp_path / "m.svg").read_text(encoding="utf-8").startswith("<?xml")
    run = deco("market", "--arms", 3, "--horizon", 50, "--out", tmp_path / "m.html")
    assert (run.code, run.err) == (0, "")
    assert "stages 20 to 29 are left out" in run.out
    assert (tmp_path / "m.html").read_text(encoding="utf-8").startswith("<!DOCTYPE")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("path", *SMALL, "--seed", -4), "seed: -4"),
        (("path", *SMALL, "--truth", "0.5,x"), "--truth: '0.5,x'"),
        (("path", *SMALL, "--out", "figure.xyz"), "must end in .png, .svg, .pdf, .html"),
        (("path", *SMALL, "--out", "/nowhere/at/all.html"), "no such directory"),
        (("market", "--arms", 3), "--arms and --horizon"),
        (("market", *SMALL, "--out", "figure.txt"), "must end in .png, .svg, .pdf, .html"),
    ],
)
def test_bad_input_ends_with_one_line(arguments: tuple[object, ...], message: str) -> None:
    run = deco(*arguments)
    assert (run.code, run.out) == (2, "")
    assert message in run.err
    assert run.err.count("\n") == 1
