"""The paper's figures at a very small scale, and the page that compares."""

import csv
import re
from base64 import b64decode
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from matplotlib.image import imread

from decobandit import make_policy
from decobandit.figures import episodes_figure
from decobandit.joint import optimum
from decobandit.paper import figure2, figure3, figure4, table1
from decobandit.paper.experiments import Runs, Section, published, reproduction_page
from decobandit.prices import solve
from decobandit.problem import Problem, best_mean_reward
from helpers.program import deco as run_deco
from helpers.values import evaluated

SMALL_3 = figure3.Sizes((2, 3), (4, 6), Runs(80, 2), Runs(40, 1))
SMALL_4 = figure4.Sizes((2, 4), (5,), Runs(80, 2), 2, 20)


@pytest.fixture(scope="module")
def points_3(tmp_path_factory: pytest.TempPathFactory) -> list[figure3.Point]:
    return figure3.run(SMALL_3, tmp_path_factory.mktemp("figure3"))


def test_figure_3_has_the_regrets_of_all_policies(points_3: list[figure3.Point]) -> None:
    found = {(p.arms, p.policy, p.stage): p for p in points_3 if p.axis == "horizon"}
    policies = (*figure3.KNOW_THE_HORIZON, *figure3.IGNORE_THE_HORIZON)
    assert set(found) == {
        *((k, policy, t) for k in (2, 3) for policy in policies for t in (4, 6)),
        (2, "optimum", 4),
        (2, "optimum", 6),
    }
    for arms in (2, 3):
        problem = Problem.uniform(arms=arms, horizon=6)
        point, exact = found[arms, "deco", 6], evaluated(make_policy(problem, "deco")).regret
        assert point.regret == pytest.approx(exact, abs=4.5 * point.error)
    two = Problem.uniform(arms=2, horizon=6)
    best = (best_mean_reward(two) or 0.0) - optimum(two).value
    assert found[2, "optimum", 6].regret == pytest.approx(best, abs=1e-12)


def test_figure_3_is_drawn_over_horizons_and_stages(points_3: list[figure3.Point]) -> None:
    figure = figure3.plot(SMALL_3, points_3)
    assert len(figure.axes) == 4
    assert [axes.get_ylabel() for axes in figure.axes] == ["2 arms", "3 arms"] * 2
    assert [axes.get_xlabel() for axes in figure.axes[1::2]] == ["horizon", "stage of 6"]


def test_cells_are_not_computed_twice(tmp_path: Path) -> None:
    sizes = figure3.Sizes((2,), (3,), Runs(20, 1), Runs(20, 1))
    first = figure3.run(sizes, tmp_path)
    written = {file: file.stat().st_mtime_ns for file in tmp_path.glob("2-*.json")}
    told: list[tuple[int, int]] = []
    assert figure3.run(sizes, tmp_path, lambda at: told.append((at.done, at.total))) == first
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("2-*.json")} == written
    assert told[-1] == (7, 7)


def test_rows_and_bounds_are_not_computed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replace(published(), table1=published().table1[:1])
    monkeypatch.setattr(table1, "published", lambda: first)
    rows, points = table1.run("quick", tmp_path), figure4.run(SMALL_4, tmp_path)

    def fail(*settings: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(table1, "_rows", fail)
    monkeypatch.setattr(figure4, "_bounds", fail)
    assert table1.run("quick", tmp_path) == rows
    assert figure4.run(SMALL_4, tmp_path) == points
    with pytest.raises(AssertionError, match="computed again"):
        table1.run("paper", tmp_path)  # other settings


def test_figure_4_has_regrets_above_the_bounds(tmp_path: Path) -> None:
    points = figure4.run(SMALL_4, tmp_path)
    by_what = {(p.arms, p.what): p for p in points}
    assert set(by_what) == {
        *((k, what) for k in (2, 4) for what in (*figure4.POLICIES, "price bound")),
        (2, "information bound"),
    }
    bound = 4 / 5 * 5 - solve(Problem.uniform(arms=4, horizon=5)).upper_bound
    assert by_what[4, "price bound"].regret == pytest.approx(bound, abs=1e-9)
    for point in points:
        if point.what in figure4.POLICIES:
            least = by_what[point.arms, "price bound"].regret
            assert point.regret > least - 4.5 * point.error
    assert len(figure4.plot(SMALL_4, points).axes) == 1


def test_figure_2_reads_off_what_paths_lost() -> None:
    paths = figure2.run(3, 6)
    points = figure2.score(paths)
    assert len(points) == 24
    for seed, path in zip(figure2.SEEDS, paths, strict=True):
        lost = sum(p.shortfall + p.congestion for p in points if p.seed == seed)
        assert lost == pytest.approx(path.running_loss[-1], abs=1e-12)
    assert len(episodes_figure(paths).axes) == 12


def test_claims_are_judged_by_the_numbers() -> None:
    def point(policy: str, regret: float) -> figure3.Point:
        return figure3.Point(2, policy, "horizon", 50, regret, 0.01)

    rivals = [point("thompson", 5.0), point("kl-ucb", 4.0), point("ids", 2.0)]
    good = figure3.verdicts([point("deco", 2.1), point("optimum", 2.0), *rivals])
    assert [verdict.holds for verdict in good] == ["yes", "yes", "yes"]
    bad = figure3.verdicts([point("deco", 4.5), point("optimum", 2.0), *rivals])
    assert [verdict.holds for verdict in bad] == ["no", "no", "no"]
    lucky = figure3.verdicts(
        [point("deco", 4.5), point("optimum", 2.0), point("fh-gittins", 1.9), *rivals]
    )
    assert lucky[-1].holds == "no"  # more than twice the regret of FH-Gittins
    assert "by chance, as simulated: fh-gittins 1.900 ± 0.010" in lucky[2].because
    assert all("yes:" in verdict.because for verdict in lucky)

    def bar(arms: int, what: str, regret: float) -> figure4.Point:
        return figure4.Point(100, arms, what, regret, 0.0)

    points = [bar(2, "price bound", -1.0), bar(5, "price bound", 0.5), bar(40, "price bound", 9.0)]
    points += [bar(k, "deco", 10.0) for k in (2, 5, 40)]
    assert [verdict.holds for verdict in figure4.verdicts(points)] == ["in part", "yes"]


def test_page_has_the_papers_numbers_beside_ours() -> None:
    rows = table1._rows(published().table1[0], quick=True)
    sections = [table1.section(rows), Section("<script>alert(1)</script>")]
    page = reproduction_page("deco reproduce <b>", sections)
    assert "6.409 (optimum)" in page
    assert "6.409643" in page
    assert "+0.0006" in page
    assert f"{rows[0].deco_simulated:.4f} ± {rows[0].deco_error:.4f}" in page
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


def test_command_writes_data_figures_and_the_page(tmp_path: Path) -> None:
    run = run_deco("reproduce", "figure2", "--out", tmp_path)
    assert (run.code, run.err) == (0, "")
    assert {file.name for file in tmp_path.iterdir()} == {
        "figure2.csv",
        "figure2.png",
        "figure2-dark.png",
        "figure2.svg",
        "report.html",
    }
    light, dark = (imread(tmp_path / f"figure2{which}.png") for which in ("", "-dark"))
    assert light.shape == dark.shape
    assert light[0, 0, :3].min() > 0.98  # white ground
    assert dark[0, 0, :3].max() < 0.15
    with open(tmp_path / "figure2.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 4 * figure2.HORIZONS["quick"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    pictures = re.findall('(?:src|srcset)="data:image/png;base64,([^"]+)"', page)
    shown = [imread(BytesIO(b64decode(picture)))[0, 0, :3].max() for picture in pictures]
    assert (shown[0] < 0.15, shown[1] > 0.98) == (True, True)  # on dark screens, elsewhere


def test_unknown_part_is_refused(tmp_path: Path) -> None:
    run = run_deco("reproduce", "figure9", "--out", tmp_path)
    assert (run.code, run.out) == (2, "")
    assert "'figure9' is not one of 'table1'" in run.err
