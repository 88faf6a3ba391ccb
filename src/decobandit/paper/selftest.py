"""Checks of the numbers on this machine, against published ones and slow, obvious versions.

Every check compares a number of the package with one that the package did not compute: printed in
a publication (OPTIMA), or found by `plain_oracles.py`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from markupsafe import Markup

from .._version import __version__
from ..figures.report_page import Cell, paragraph, report_page, section, table
from ..problem import Arm, BetaBernoulli, Problem, Reward, TieRule
from ..support import Check, Progress, Report
from . import plain_oracles as plain

if TYPE_CHECKING:
    from ..policies import Policy

BY_RECURSION = "recursion over all states, plain Python"
BY_PROGRAM = "linear program over occupations, HiGHS"
EXACT = 1e-9  # of sums of a few thousand doubles
TIES: TieRule = "first"
POLICIES = ("deco", "fh-gittins", "greedy", "ucb1")  # whose values are checked
OPTIMA = (  # of two arms with uniform priors: pulls, value, its accuracy, where it is published
    (10, 6.021785714, 5e-10, "tables of info-relax-sampling"),
    (60, 38.562343246635564, 1e-9, "README of BinaryBandit.jl"),
    (200, 131.094081, 5e-7, "tables of info-relax-sampling"),
)
STANDARD_ERRORS = 4.0  # that an estimate may be off by


def odd_problem() -> Problem:
    """Three arms that differ in everything, over five stages."""
    return Problem(
        horizon=5,
        arms=(
            Arm(name="a", prior=BetaBernoulli(1, 1), reward=Reward(good=(0.9, 1.0, 1.1, 1.2, 1.3))),
            Arm(name="b", prior=BetaBernoulli(0.4, 1.6), reward=Reward(good=2.5, bad=-0.1)),
            Arm(name="c", prior=BetaBernoulli(5, 4)),
        ),
    )


def check_optima() -> Iterator[Check]:
    """Check exact optima against the stored numbers."""
    from ..joint import optimum

    for horizon, published, tolerance, source in OPTIMA:
        value = optimum(Problem.uniform(arms=2, horizon=horizon)).value
        what = f"optimum of 2 arms, {horizon} pulls"
        yield Check("optimum", what, source, published, value, tolerance)
    for problem, what in (
        (odd_problem(), "optimum of three different arms, 5 pulls"),
        (
            Problem.uniform(arms=3, horizon=4, pulls_per_stage=2),
            "optimum of 3 arms, 4 stages of 2 pulls",
        ),
    ):
        value = optimum(problem).value
        yield Check("optimum", what, BY_RECURSION, plain.value(problem), value, EXACT)


def check_dual() -> Iterator[Check]:
    """Check both bounds on the dual minimum, and the upper bound on the optimum."""
    from ..joint import optimum
    from ..prices import solve

    for problem, name in (
        (odd_problem(), "three different arms, 5 pulls"),
        (Problem.uniform(arms=5, horizon=10), "5 arms, 10 pulls"),
        (Problem.uniform(arms=4, horizon=6, pulls_per_stage=2), "4 arms, 6 stages of 2 pulls"),
    ):
        minimum, solution = plain.dual_minimum(problem), solve(problem, tol=1e-6)
        upper, lower = solution.upper_bound, solution.lower_bound
        assert lower is not None  # good and bad outcomes have exact states
        what = f"bound of the dual, {name}"
        yield Check("dual", f"upper {what}", BY_PROGRAM, minimum, upper, EXACT, "at least")
        yield Check("dual", f"lower {what}", BY_PROGRAM, minimum, lower, EXACT, "at most")
        yield Check("dual", f"upper {what}", BY_PROGRAM, minimum, upper, 1e-6 * minimum)
        best = optimum(problem).value
        yield Check("dual", f"upper {what}", "the exact optimum", best, upper, EXACT, "at least")


def check_indices() -> Iterator[Check]:
    """Check finite-horizon Gittins indices."""
    from ..policies import FhGittinsPolicy

    for good, bad, left in ((1, 1, 10), (2, 1, 20), (1, 3, 15), (2.5, 0.5, 12)):
        problem = Problem.uniform(arms=1, horizon=left, prior=BetaBernoulli(good, bad))
        index = FhGittinsPolicy(problem).arm_index(0, 0, (0, 0)).index
        expected = plain.stopping_index(good, bad, (1.0,) * left)
        what = f"FH-Gittins index of Beta({good:g}, {bad:g}), {left} pulls left"
        yield Check("index", what, "bisection on stopping, plain Python", expected, index, 1e-8)


def check_values() -> Iterator[Check]:
    """Check exact and simulated values of policies."""
    from ..evaluation import evaluate
    from ..policies import make_policy
    from ..simulation import simulate

    problem = Problem.uniform(arms=3, horizon=6)
    names = list(POLICIES)
    simulated = {
        result.policy: result.estimates.best
        for result in simulate(problem, names, draws=2000, per_draw=2, rng=20, ties=TIES).results
    }
    for name in names:
        policy = make_policy(problem, name, ties=TIES)
        expected = plain.value(problem, _choices(policy))
        exact = evaluate(problem, policy).value
        what = f"value of {name}, 3 arms, 6 pulls"
        yield Check("evaluation", what, BY_RECURSION, expected, exact, EXACT)
        estimate, what = simulated[name], f"simulated {what}"
        error = STANDARD_ERRORS * estimate.value_se
        yield Check("simulation", what, BY_RECURSION, expected, estimate.value, error)


def _choices(policy: Policy) -> Callable[[int, plain.State], tuple[int, ...]]:
    from ..problem import State

    def choose(stage: int, state: plain.State) -> tuple[int, ...]:
        good = tuple(g for _, g in state)
        bad = tuple(n - g for n, g in state)
        return policy.select(stage, State(good, bad))

    return choose


def check_chances() -> Iterator[Check]:
    """Check the probabilities of Thompson sampling by SciPy's quadrature."""
    from scipy.integrate import quad
    from scipy.stats import beta

    from ..policies import make_policy
    from ..problem import State, States

    policy = make_policy(Problem.uniform(arms=3, horizon=20), "thompson")
    states = States.of(policy.problem, [State.parse("3/5,2/2,1/5")])
    probabilities = policy.probabilities(12, states)[0]
    laws = [beta(4, 3), beta(3, 1), beta(2, 5)]
    for k, law in enumerate(laws):
        one, two = (other for other in laws if other is not law)

        def density(x: float, law=law, one=one, two=two) -> float:  # type: ignore[no-untyped-def]
            return float(law.pdf(x) * one.cdf(x) * two.cdf(x))

        expected = quad(density, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12)[0]
        what = f"probability that arm {k + 1} of 3/5, 2/2, 1/5 is best"
        yield Check("Thompson", what, "SciPy's quad", expected, probabilities[k], 1e-9)


def check_bounds() -> Iterator[Check]:
    """Check that the information bound is not below the optimum."""
    from ..bounds import information_bound

    for arms, horizon in ((2, 10), (3, 8)):
        problem = Problem.uniform(arms=arms, horizon=horizon)
        bounds = information_bound(problem, draws=400, rng=3)
        expected = plain.value(problem)
        what = f"information-relaxation bound, {arms} arms, {horizon} pulls"
        yield Check("bound", what, BY_RECURSION, expected, bounds.best, 0.0, "at least")


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    check_optima,
    check_dual,
    check_indices,
    check_values,
    check_chances,
    check_bounds,
)


# -- Runs the checks of the self-test and writes what was installed, checked, expected and found

# what numbers depend on, besides our own code
PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "highspy", "pydantic", "sqlalchemy")
TITLES = ("checked", "against", "expected", "found", "within", "verdict")
WORD_TITLES = ("checked", "against", "verdict")
ABOUT = (
    "Each number below was computed on this machine and compared with one that decobandit did not "
    "compute: published by others, found by a slow version in plain Python, by a linear program, "
    "or by another library. Estimates may be off by four standard errors."
)


@dataclass(frozen=True)
class Selftest:
    """The checks of one run, and where it was made."""

    checks: tuple[Check, ...]
    installed: dict[str, str]
    made_at: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether all checks hold and there is at least one."""
        return bool(self.checks) and not self.failed

    @property
    def failed(self) -> list[Check]:
        """Checks that did not pass."""
        return [check for check in self.checks if not check.ok]

    def by_area(self) -> dict[str, list[Check]]:
        """Return the checks by area, in order."""
        areas: dict[str, list[Check]] = {}
        for check in self.checks:
            areas.setdefault(check.area, []).append(check)
        return areas

    def to_dict(self) -> dict[str, object]:
        """Return the result as plain values, for JSON."""
        return {
            "ok": self.ok,
            "version": __version__,
            "made_at": self.made_at,
            "seconds": self.seconds,
            "installed": self.installed,
            "checks": [check.to_dict() for check in self.checks],
        }

    def to_html(self) -> str:
        """Return one self-contained page."""
        number, failed = len(self.checks), len(self.failed)
        verdict = f"All {number} checks hold" if self.ok else f"{failed} of {number} checks failed"
        title = f"decobandit {__version__}: self-test"
        about = f"{self.made_at[:19].replace('T', ' ')} UTC, in {self.seconds:.0f} s"
        areas = (
            section(
                area[0].upper() + area[1:], table(TITLES, map(_cells, checks), words=WORD_TITLES)
            )
            for area, checks in self.by_area().items()
        )
        parts = [
            section(verdict, paragraph(ABOUT)),
            *areas,
            section("Installed", self._installed()),
        ]
        return report_page(title, parts, about=about, footer="deco selftest --report FILE")

    def _installed(self) -> Markup:
        return table(("package", "version"), self.installed.items(), words=("package", "version"))


def _cells(check: Check) -> tuple[Cell, ...]:
    """Return a check as a row, bold if it failed."""
    rule = "" if check.rule == "equal" else f"{check.rule} "
    cells: tuple[Cell, ...] = (
        check.what,
        check.oracle,
        f"{rule}{check.expected:.10g}",
        f"{check.found:.10g}",
        f"{check.tolerance:.1g}",
        "holds" if check.ok else "FAILED",
    )
    return cells if check.ok else tuple(map(Markup("<strong>{}</strong>").format, cells))


def run_checks(
    groups: Sequence[Callable[[], Iterator[Check]]], progress: Report | None = None
) -> Selftest:
    """Run all checks, one group after the other."""
    began, checks = time.perf_counter(), list[Check]()
    for done, group in enumerate(groups):
        if progress is not None:
            progress(Progress("selftest", done, len(groups)))
        checks.extend(group())
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Selftest(tuple(checks), installed(), at, time.perf_counter() - began)


def installed() -> dict[str, str]:
    """Return the versions of the program, Python, system and packages."""
    versions = {
        "decobandit": __version__,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions
