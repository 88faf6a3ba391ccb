"""Sample size: the smallest horizon of a power, by a scan of all horizons and by its formula."""

import json
from math import comb, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from decobandit import Arm, Design, NormalNormal, Problem, load_design
from decobandit.cli.app import app
from decobandit.designs import sample_size
from helpers.best_of_betas import best_probabilities
from helpers.refusals import refused

ALPHA, POWER = 0.1, 0.75
NULL, ALTERNATIVE = (0.3, 0.3), (0.2, 0.7)
SCENARIOS = [{"name": "null", "truth": NULL}, {"name": "works", "truth": ALTERNATIVE}]
DESIGN = Design(control="arm-1", policies=["equal"], scenarios=SCENARIOS)


def power_of(horizon: int) -> float:
    """Power of equal allocation at the largest set of tables that keeps the level, all counted."""
    n, m = horizon - horizon // 2, horizon // 2  # the first arm is pulled first
    g, h = (each.reshape(-1) for each in np.meshgrid(range(n + 1), range(m + 1), indexing="ij"))
    a, b = np.stack([g, h], 1) + 1.0, np.stack([n - g, m - h], 1) + 1.0
    better = [
        best_probabilities(x, y, np.zeros(2), np.ones(2))[1] for x, y in zip(a, b, strict=True)
    ]
    statistic = np.round(better, 10)

    def law(p: float, q: float) -> np.ndarray:
        ways = np.array([comb(n, i) * comb(m, j) for i, j in zip(g, h, strict=True)], dtype=float)
        return ways * p**g * (1 - p) ** (n - g) * q**h * (1 - q) ** (m - h)

    null, works = law(*NULL), law(*ALTERNATIVE)
    kept = [x for x in np.unique(statistic) if null[statistic >= x].sum() <= ALPHA]
    return float(works[statistic >= min(kept)].sum()) if kept else 0.0


def test_the_smallest_horizon_is_that_of_a_scan_of_all() -> None:
    powers = {n: power_of(n) for n in range(2, 22)}
    smallest = min(n for n, power in powers.items() if power >= POWER)
    found = sample_size(Problem.uniform(arms=2, horizon=18), DESIGN, power=POWER, alpha=ALPHA)
    assert found.horizon == smallest
    assert len(found.tried) > 5
    for one in found.tried:
        assert one.draws is None
        if one.horizon in powers:
            assert one.power == pytest.approx(powers[one.horizon], abs=1e-9)
            assert one.type_i_error is None or one.type_i_error <= ALPHA + 1e-12


def test_normal_arms_need_about_the_number_of_the_textbook() -> None:
    effect, power, alpha = 1.0, 0.8, 0.05
    arm = Arm(name="old", prior=NormalNormal(0.0, 100.0), noise_sd=1.0)
    problem = Problem(horizon=60, arms=[arm, arm.model_copy(update={"name": "new"})])
    scenarios = [{"name": "null", "truth": [0.0, 0.0]}, {"name": "one", "truth": [0.0, effect]}]
    design = Design(control="old", policies=["equal"], test={"kind": "z"}, scenarios=scenarios)
    textbook = 4.0 * ((norm.ppf(power) + norm.ppf(1.0 - alpha)) / effect) ** 2  # both arms
    found = sample_size(problem, design, power=power, alpha=alpha)
    assert textbook - 2.0 <= found.horizon <= textbook * 1.12  # the fitted level is below alpha
    for one in found.tried:
        exact = norm.cdf(effect * sqrt(one.horizon // 2 / 2.0) - norm.ppf(1.0 - one.threshold))
        assert one.horizon % 2 or abs(one.power - exact) < 4.5 * one.power_se


FILE = """
horizon = 12
[[arms]]
name = "control"
[[arms]]
name = "new"
[design]
policies = ["thompson", "equal"]
control = "control"
[[design.scenarios]]
name = "null"
truth = [0.3, 0.3]
[[design.scenarios]]
name = "works"
truth = [0.2, 0.8]
"""


def test_the_command_prints_the_size_and_writes_design_and_report(tmp_path: Path) -> None:
    file, saved, report = (tmp_path / name for name in ("a.toml", "b.toml", "c.html"))
    file.write_text(FILE)
    words = ["design", str(file), "--power", "0.7", "--alpha", "0.1", "--policy", "equal"]
    done = CliRunner().invoke(app, [*words, "--json", "--out", str(saved), "--report", str(report)])
    assert done.exit_code == 0, done.output
    tree = json.loads(done.stdout)
    assert tree.keys() >= {"horizon", "power", "type_i_error", "threshold", "policy", "tried"}
    assert (tree["policy"], tree["power"] >= 0.7, tree["type_i_error"] <= 0.1) == (
        "equal",
        True,
        True,
    )
    assert tree["horizon"] in [one["horizon"] for one in tree["tried"]]
    problem, design = load_design(saved)
    assert (problem.horizon, design.final_test.level) == (tree["horizon"], tree["threshold"])
    assert "<h2>Sample size</h2>" in report.read_text()
    assert "--power 0.7" in report.read_text()
    shown = CliRunner().invoke(app, words)
    assert f"{tree['horizon']} stages: power {tree['power']:.4f}" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_what_cannot_be_sized_is_refused() -> None:
    problem = Problem.uniform(arms=2, horizon=12)
    for bad in (0.0, 1.0):
        with refused("invalid_argument", "power"):
            sample_size(problem, DESIGN, power=bad)
        with refused("invalid_argument", "alpha"):
            sample_size(problem, DESIGN, power=0.8, alpha=bad)
    for part in SCENARIOS:
        with refused("invalid_argument", "power"):
            sample_size(
                problem,
                DESIGN.model_copy(update={"scenarios": Design(scenarios=[part]).scenarios}),
                power=0.8,
            )


@pytest.mark.parametrize(
    "words", [["--power", "0.8", "--calibrate", "0.05"], ["--alpha", "0.05"], ["--power", "x"]]
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, words: list[str]) -> None:
    file = tmp_path / "a.toml"
    file.write_text(FILE)
    assert CliRunner().invoke(app, ["design", str(file), *words]).exit_code == 2
