"""The self-test holds here, and says so where a number is wrong."""

import math
from collections.abc import Iterator

import pytest

from decobandit import joint
from decobandit.cli.selftest import (
    CHECKS,
    Check,
    check_log,
    check_optima,
    odd_problem,
    run_checks,
)
from decobandit.paper import plain_oracles as plain
from decobandit.problem import Problem
from helpers import oracles
from helpers.program import deco


def test_all_checks_hold_and_every_area_is_there() -> None:
    found = run_checks([*CHECKS, check_log])
    assert found.failed == []
    assert found.ok
    areas = {"optimum", "dual", "index", "evaluation", "simulation", "Thompson", "bound"}
    assert {check.area for check in found.checks} == areas | {"trial log"}
    page = found.to_html()
    assert "http" not in page.replace("http-equiv", "")  # nothing from outside
    assert page.count(">holds</td>") == len(found.checks)
    assert found.installed["decobandit"] in page


def test_a_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = joint.optimum

    class Wrong:
        def __init__(self, problem: Problem) -> None:
            self.value = right(problem).value * (1 + 1e-8)

    monkeypatch.setattr(joint, "optimum", Wrong)
    found = run_checks([check_optima])
    assert not found.ok
    assert {check.what for check in found.failed} >= {"optimum of 2 arms, 60 pulls"}
    assert "<strong>FAILED</strong>" in found.to_html()
    assert f"{len(found.failed)} of {len(found.checks)} checks failed" in found.to_html()


@pytest.mark.parametrize("found", [math.nan, 1.01, 0.99, math.inf])
def test_a_check_fails_outside_its_tolerance(found: float) -> None:
    assert not Check("a", "b", "c", 1.0, found, 0.001).ok


@pytest.mark.parametrize(
    ("rule", "found", "ok"),
    [
        ("at least", 0.9, False),
        ("at least", 1.1, True),
        ("at most", 1.1, False),
        ("at most", 1.0, True),
    ],
)
def test_bounds_are_checked_on_their_side(rule: str, found: float, ok: bool) -> None:
    assert Check("a", "b", "c", 1.0, found, 1e-9, rule).ok is ok  # type: ignore[arg-type]


def test_no_check_at_all_is_no_success() -> None:
    def none() -> Iterator[Check]:
        yield from ()

    assert not run_checks([none]).ok


def test_the_plain_versions_agree_with_those_of_the_tests() -> None:
    problem = odd_problem()
    assert plain.dual_minimum(problem) == pytest.approx(oracles.occupancy_lp(problem), abs=1e-9)
    # two arms, two pulls: 1/2, then 2/3 after a good outcome and another arm's 1/2 after a bad one
    two = Problem.uniform(arms=2, horizon=2)
    assert plain.value(two) == pytest.approx(0.5 + (2 / 3 + 1 / 2) / 2, abs=1e-12)
    assert plain.value(two, lambda stage, state: (0,)) == pytest.approx(1.0, abs=1e-12)
    # two stages, Beta(1, 1): the certain reward is 5/9, by hand
    assert plain.stopping_index(1, 1, (1.0, 1.0)) == pytest.approx(5 / 9, abs=1e-12)


def test_the_command_refuses_a_file_that_cannot_be_written() -> None:
    done = deco("selftest", "--report", "/no/such/folder/report.html")
    assert done.code == 2
    assert "no such directory" in done.err
    assert done.err.count("\n") == 1
