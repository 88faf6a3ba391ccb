"""The notebooks run, and what they show is found again by a second road."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from decobandit import State, evaluate

FOLDER = Path(__file__).parents[1] / "notebooks"
FILES = sorted(path.stem for path in FOLDER.glob("*.py"))
Names = dict[str, Any]


def check_statistician(names: Names) -> None:
    found = names["characteristics"]
    for scenario in found.scenarios:
        for each in scenario.policies:
            assert sum(each.pulls) == pytest.approx(60)  # all patients, none stopped early
            good = sum(n * p for n, p in zip(each.pulls, scenario.truth, strict=True))
            assert each.good == pytest.approx(good, abs=5 * 60**0.5 / 400**0.5)
            if scenario.null:
                assert each.reject <= 0.05
    assert "Is one of the doses better than control?" in names["page"]
    assert names["arms"].scenario.nunique() == 3
    assert isinstance(names["figure"], Figure)


def check_engineer(names: Names) -> None:
    given, state = names["hours"], names["state"]
    assert all(sum(hour[arm] for arm in names["RATES"]) == 200 for hour in given)
    assert list(state.pulls) == [sum(hour[arm] for hour in given) for arm in names["RATES"]]
    assert isinstance(state, State)
    assert names["checked"].ok
    assert names["replayed"].ok
    assert state.pulls[2] == max(state.pulls)  # the best variant got most


def check_researcher(names: Names) -> None:
    problem, best, solution = names["problem"], names["best"].value, names["solution"]
    assert best <= names["tightest"].value + 1e-9 <= solution.upper_bound + 2e-9
    for gap in names["gaps"]:
        assert gap.value <= best + 1e-9
        assert gap.value == pytest.approx(evaluate(problem, gap.policy).value, abs=1e-9)
        assert gap.value + np.sum(gap.running_loss[-1]) == pytest.approx(solution.upper_bound)
    exact = {gap.policy: gap.value for gap in names["gaps"]}
    for result in names["simulation"].results:
        if result.policy in exact:
            away = 4.5 * result.value_se
            assert result.value == pytest.approx(exact[result.policy], abs=away)


CHECKS: dict[str, Callable[[Names], None]] = {
    "plot_1_statistician": check_statistician,
    "plot_2_engineer": check_engineer,
    "plot_3_researcher": check_researcher,
}


def test_every_notebook_is_checked() -> None:
    assert sorted(CHECKS) == FILES


@pytest.mark.parametrize("name", FILES)
def test_notebooks_run_and_are_right(name: str) -> None:
    matplotlib.use("agg")
    CHECKS[name](runpy.run_path(str(FOLDER / f"{name}.py")))


@pytest.mark.parametrize("name", FILES)
def test_lines_of_code_fit_the_page(name: str) -> None:
    lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 100
