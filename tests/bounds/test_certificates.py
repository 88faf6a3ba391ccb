"""Certificates: true ones are accepted, false ones refused, by a checker that stands alone."""

import ast
import copy
import json
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Chain,
    NormalNormal,
    Problem,
    ProblemError,
    Terminal,
    solve,
)
from decobandit.bounds import certificate, certificate_checker
from decobandit.bounds.certificate_checker import Dual, check
from decobandit.prices import dual_value
from decobandit.problem import problem_from_dict
from helpers.certifiable import RANDOM, random_problems
from helpers.program import deco
from helpers.refusals import refused

CHECKER = Path(certificate_checker.__file__)
Tree = dict[str, Any]


def certified(problem: Problem, **settings: Any) -> Tree:
    """A certificate as a file holds it."""
    tree: Tree = json.loads(json.dumps(certificate(solve(problem, **settings))))
    return tree


def phi(tree: Tree) -> Fraction | float:
    """The dual function, as the checker computes it."""
    return Dual(tree["problem"], [float.fromhex(price) for price in tree["prices"]]).total


def alone(tmp_path: Path, tree: object) -> subprocess.CompletedProcess[str]:
    """Run a copy of the checker without any package."""
    copied, file = tmp_path / "checker.py", tmp_path / "cert.json"
    shutil.copy(CHECKER, copied)
    file.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    command = [sys.executable, "-I", "-S", str(copied), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# -- by hand ------------------------------------------------------------------------------------


def written_by_hand(price: float, bound: float, horizon: int = 1) -> Tree:
    arm = {"name": "a", "prior": {"good": 1, "bad": 2}, "reward": {"good": 1, "bad": 0}}
    problem = {"horizon": horizon, "pulls_per_stage": 1, "arms": [{**arm, "count": 2}]}
    return {
        "format": "decobandit-certificate-1",
        "problem": problem,
        "prices": [price.hex()] * horizon,
        "bound": bound.hex(),
    }


def test_one_stage_by_hand() -> None:
    """Two arms that are good with probability 1/3, at a price of 1/4: 2 (1/3 - 1/4) + 1/4."""
    tree = written_by_hand(0.25, 0.5)
    assert phi(tree) == Fraction(2, 3) - Fraction(1, 4)
    assert check(tree) == 0.5


def test_two_stages_by_hand() -> None:
    """After a good outcome the arm is good with probability 1/2, after a bad one with 1/4."""
    price = Fraction(3, 8)
    again = Fraction(1, 3) * (Fraction(1, 2) - price)  # pulled again only after a good outcome
    value = max(Fraction(0), Fraction(1, 3) - price + again)
    assert phi(written_by_hand(float(price), 1.0, horizon=2)) == 2 * value + 2 * price


def test_the_least_bound_is_accepted_and_one_below_is_not() -> None:
    tree = written_by_hand(0.25, 1.0)
    exact = float(phi(tree))  # 5/12, between two numbers
    above = exact if Fraction(exact) >= Fraction(5, 12) else float(np.nextafter(exact, 1.0))
    assert check({**tree, "bound": above.hex()}) == above
    with pytest.raises(ValueError, match="below the dual function"):
        check({**tree, "bound": float(np.nextafter(above, 0.0)).hex()})


# -- random ones ----------------------------------------------------------------------------------


def test_no_true_certificate_is_refused() -> None:
    for problem in random_problems(RANDOM, seed=30):
        tree = certified(problem, tol=1e-3)
        assert check(tree) == float.fromhex(tree["bound"])


def _doctored(tree: Tree, way: int, rng: np.random.Generator) -> Tree:
    """A certificate with one change that makes its claim stronger, or another one."""
    tree = copy.deepcopy(tree)
    problem, prices = tree["problem"], tree["prices"]
    arm = problem["arms"][int(rng.integers(len(problem["arms"])))]
    if way == 0:
        bound = float.fromhex(tree["bound"])
        tree["bound"] = (bound - 1e-9 * max(1.0, abs(bound))).hex()
    elif way == 1:
        at = int(rng.integers(len(prices)))
        prices[at] = (float.fromhex(prices[at]) + float(rng.uniform(0.5, 2.0))).hex()
    elif way == 2:
        problem["pulls_per_stage"] += problem.get("unit", 1)
    elif way == 3 and "good" in arm["prior"]:
        arm["prior"]["good"] += 1.0
    elif way == 3 and "counts" in arm["prior"]:
        best = int(np.argmax(arm["reward"]["values"]))
        arm["prior"]["counts"][best] += 1.0
    elif "values" in arm["reward"]:
        arm["reward"]["values"] = [x + 0.25 for x in arm["reward"]["values"]]
    elif "reward" in arm["prior"]:
        arm["prior"]["reward"] = [x + 0.25 for x in arm["prior"]["reward"]]
    else:
        for key in ("good", "bad"):
            old = arm["reward"][key]
            arm["reward"][key] = [x + 0.25 for x in old] if isinstance(old, list) else old + 0.25
    return tree


def test_doctored_certificates_are_refused() -> None:
    """By the digest always; without it, whenever the claim has become false by a second road."""
    refusals, ways = 0, 5
    for i, problem in enumerate(random_problems(max(RANDOM // 10, 4 * ways), seed=31)):
        rng = np.random.default_rng([32, i])
        tree = certified(problem, tol=1e-6)
        false = _doctored(tree, i % ways, rng)
        with pytest.raises(ValueError, match=r"sha256|below|not|wrong"):
            check(false)
        del false["sha256"]
        if not _is_false(false):
            continue
        refusals += 1
        with pytest.raises(ValueError, match="below the dual function"):
            check(false)
    assert refusals >= 2 * ways


def _is_false(tree: Tree) -> bool:
    """Whether the compiled dual function is above the bound."""
    prices = [float.fromhex(price) for price in tree["prices"]]
    try:
        problem = problem_from_dict(tree["problem"])
    except ProblemError:  # more pulls than arms: nobody states a bound of that
        return False
    money = prices.pop() if problem.budget is not None else 0.0
    value = dual_value(problem, prices, budget_price=money).value
    bound = float.fromhex(tree["bound"])
    return value > bound + 1e-11 * max(1.0, abs(bound))


# -- long ones, and grids -----------------------------------------------------------------------


def test_rounding_up_is_above_the_exact_value_and_close(monkeypatch: pytest.MonkeyPatch) -> None:
    for problem in random_problems(14, seed=33):
        tree = certified(problem, tol=1e-2)
        exact = Fraction(phi(tree))
        with monkeypatch.context() as patched:
            patched.setattr(certificate_checker, "EXACT_PULLS", 0)
            above = Fraction(phi(tree))
            assert check(tree) == float.fromhex(tree["bound"])
        assert 0 <= above - exact <= Fraction(1, 10**12) * (1 + abs(exact))


def test_long_horizons_are_computed_with_upward_rounding() -> None:
    arms = [Arm(name="a", prior=BetaBernoulli(1.3, 0.7)), Arm(name="b")]
    tree = certified(Problem(horizon=80, arms=arms, terminal=Terminal(deploy=40.0)))
    assert check(tree) == float.fromhex(tree["bound"])
    assert float(phi(tree)) == pytest.approx(float.fromhex(tree["bound"]), rel=1e-11)


def test_a_bound_from_a_grid_holds_for_all_states() -> None:
    problem = Problem.uniform(3, 4, pulls_per_stage=24, unit=12, repeat=True)
    tree = certified(problem, grid=32)
    assert check(tree) == float.fromhex(tree["bound"])
    assert float(phi(tree)) < float.fromhex(tree["bound"]) * (1.0 - 1e-7)


# -- the program ----------------------------------------------------------------------------------


def test_the_checker_stands_alone(tmp_path: Path) -> None:
    tree = certified(Problem.uniform(3, 6))
    passed = alone(tmp_path, tree)
    assert (passed.returncode, passed.stderr) == (0, "")
    assert repr(float.fromhex(tree["bound"])) in passed.stdout
    failed = alone(tmp_path, {**tree, "bound": (1.0).hex()})
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "below the dual function" in failed.stderr


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"format": "x", "problem": {}, "prices": []}', "{" * 500]
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    failed = alone(tmp_path, text)
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("bound",), "nan"),
        (("prices", 0), "inf"),
        (("prices",), []),
        (("problem", "horizon"), 5),
        (("problem", "pulls_per_stage"), 0),
        (("problem", "segments"), [{"name": "a"}]),
        (("problem", "arms", 0, "prior", "good"), -1.0),
        (("problem", "arms", 0, "prior"), {"kind": "normal", "mean": 0.0, "sd": 1.0}),
        (("problem", "arms", 0, "count"), 0),
        (("problem", "arms", 0, "reward", "cap"), 1.0),
    ],
)
def test_what_proves_nothing_is_refused(
    tmp_path: Path, place: tuple[str | int, ...], value: object
) -> None:
    tree = certified(Problem.uniform(3, 6))
    del tree["sha256"]
    part: Any = tree
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    assert alone(tmp_path, tree).returncode == 1


def test_the_checker_is_one_short_file_of_the_standard_library() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 150
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported <= set(sys.stdlib_module_names)


def test_running_it_from_the_package_loads_no_compiler(tmp_path: Path) -> None:
    code = (
        "import sys, decobandit.bounds.certificate_checker; "
        "print('numba' in sys.modules or 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_certify_writes_what_the_checker_reads(tmp_path: Path) -> None:
    file = tmp_path / "cert.json"
    assert deco("certify", "--arms", 3, "--horizon", 6, "--out", file).code == 0
    tree = json.loads(file.read_text())
    assert tree["format"] == "decobandit-certificate-1"
    assert len(tree["prices"]) == 6
    assert check(tree) == pytest.approx(float(phi(tree)), rel=1e-11)


def test_what_cannot_be_checked_is_not_certified() -> None:
    normal = Problem.uniform(2, 3, prior=NormalNormal(0, 1), noise_sd=1.0)
    with refused("invalid_argument", "prior"):
        certificate(solve(normal))


def test_a_first_state_may_be_a_number() -> None:
    moves = [[0.5, 0.5], [0.25, 0.75]]
    prior = Chain(moves, moves, [0.0, 0.0], [1.0, 0.5], first=1)
    tree = certified(Problem.uniform(2, 1, prior=prior))
    price = Fraction(float.fromhex(tree["prices"][0]))
    assert phi(tree) == 2 * max(Fraction(0), Fraction(1, 2) - price) + price
