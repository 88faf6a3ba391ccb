"""`deco selftest`: numbers and log of this machine beside published ones and obvious versions.

Every check compares a number of the package with one that the package did not compute: printed in
a publication (OPTIMA), found by `paper/plain_oracles.py`, or by hashlib and sqlite3.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from .. import bounds, evaluation, joint, policies, prices, simulation, support
from .._version import __version__
from ..figures.report_page import paragraph, report_page, section, table
from ..paper import plain_oracles as plain
from ..problem import Arm, BetaBernoulli, Problem, Reward, State, States, TieRule

BY_RECURSION = "recursion over all states, plain Python"
BY_PROGRAM = "linear program over occupations, HiGHS"
EXACT = 1e-9  # of sums of a few thousand doubles
TIES: TieRule = "first"
OPTIMA = (  # of two arms with uniform priors: pulls, value, its accuracy, where it is published
    (10, 6.021785714, 5e-10, "tables of info-relax-sampling"),
    (60, 38.562343246635564, 1e-9, "README of BinaryBandit.jl"),
    (200, 131.094081, 5e-7, "tables of info-relax-sampling"),
)
STANDARD_ERRORS = 4.0  # that an estimate may be off by
PULLS = 12  # of the trial whose log is checked


@dataclass(frozen=True)
class Check:
    """Comparison of a computed number with an independent one."""

    area: str
    what: str
    oracle: str  # where the expected number comes from
    expected: float
    found: float
    tolerance: float  # by how much they may differ, or the bound may be missed
    rule: Literal["equal", "at least", "at most"] = "equal"

    @property
    def ok(self) -> bool:
        """Whether the check holds; False for nan."""
        apart = self.found - self.expected
        apart = {"equal": abs(apart), "at least": -apart, "at most": apart}[self.rule]
        return apart <= self.tolerance


Checks = Callable[[], Iterator[Check]]


def odd_problem() -> Problem:
    """Return three arms that differ in everything, over five stages."""
    return Problem(
        horizon=5,
        arms=(
            Arm(name="a", prior=BetaBernoulli(1, 1), reward=Reward(good=(0.9, 1.0, 1.1, 1.2, 1.3))),
            Arm(name="b", prior=BetaBernoulli(0.4, 1.6), reward=Reward(good=2.5, bad=-0.1)),
            Arm(name="c", prior=BetaBernoulli(5, 4)),
        ),
    )


def check_optima() -> Iterator[Check]:
    """Check exact optima against published and obvious ones."""
    for horizon, published, tolerance, source in OPTIMA:
        value = joint.optimum(Problem.uniform(arms=2, horizon=horizon)).value
        what = f"optimum of 2 arms, {horizon} pulls"
        yield Check("optimum", what, source, published, value, tolerance)
    pairs = Problem.uniform(arms=3, horizon=4, pulls_per_stage=2)
    for problem, name in (
        (odd_problem(), "three different arms, 5 pulls"),
        (pairs, "3 arms, 4 stages of 2 pulls"),
    ):
        value = joint.optimum(problem).value
        what = f"optimum of {name}"
        yield Check("optimum", what, BY_RECURSION, plain.value(problem), value, EXACT)


def _check_dual() -> Iterator[Check]:
    for problem, name in (
        (odd_problem(), "three different arms, 5 pulls"),
        (Problem.uniform(arms=5, horizon=10), "5 arms, 10 pulls"),
        (Problem.uniform(arms=4, horizon=6, pulls_per_stage=2), "4 arms, 6 stages of 2 pulls"),
    ):
        minimum, solution = plain.dual_minimum(problem), prices.solve(problem, tol=1e-6)
        upper, lower = solution.upper_bound, solution.lower_bound
        assert lower is not None  # good and bad outcomes have exact states
        what = f"bound of the dual, {name}"
        yield Check("dual", f"upper {what}", BY_PROGRAM, minimum, upper, EXACT, "at least")
        yield Check("dual", f"lower {what}", BY_PROGRAM, minimum, lower, EXACT, "at most")
        yield Check("dual", f"upper {what}", BY_PROGRAM, minimum, upper, 1e-6 * minimum)
        best = joint.optimum(problem).value
        yield Check("dual", f"upper {what}", "the exact optimum", best, upper, EXACT, "at least")


def _check_indices() -> Iterator[Check]:
    for good, bad, left in ((1, 1, 10), (2, 1, 20), (1, 3, 15), (2.5, 0.5, 12)):
        problem = Problem.uniform(arms=1, horizon=left, prior=BetaBernoulli(good, bad))
        index = policies.FhGittinsPolicy(problem).arm_index(0, 0, (0, 0)).index
        expected = plain.stopping_index(good, bad, (1.0,) * left)
        what = f"FH-Gittins index of Beta({good:g}, {bad:g}), {left} pulls left"
        yield Check("index", what, "bisection on stopping, plain Python", expected, index, 1e-8)


def _check_values() -> Iterator[Check]:
    problem = Problem.uniform(arms=3, horizon=6)
    names = ["deco", "fh-gittins", "greedy", "ucb1"]
    played = simulation.simulate(problem, names, draws=2000, per_draw=2, rng=20, ties=TIES)
    for name, result in zip(names, played.results, strict=True):
        policy, estimate = policies.make_policy(problem, name, ties=TIES), result.estimates.best
        expected, exact = (
            plain.value(problem, partial(_choice, policy)),
            evaluation.evaluate(problem, policy).value,
        )
        what = f"value of {name}, 3 arms, 6 pulls"
        yield Check("evaluation", what, BY_RECURSION, expected, exact, EXACT)
        error, what = STANDARD_ERRORS * estimate.value_se, f"simulated {what}"
        yield Check("simulation", what, BY_RECURSION, expected, estimate.value, error)


def _choice(policy: policies.Policy, stage: int, state: plain.State) -> tuple[int, ...]:
    good, bad = tuple(g for _, g in state), tuple(n - g for n, g in state)
    return policy.select(stage, State.of_counts(good, bad))


def _check_chances() -> Iterator[Check]:
    from scipy.integrate import quad
    from scipy.stats import beta

    policy = policies.make_policy(Problem.uniform(arms=3, horizon=20), "thompson")
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


def _check_bounds() -> Iterator[Check]:
    kinds = ("lagrangian", "trivial", "information")
    for arms, horizon in ((2, 10), (3, 8)):
        problem = Problem.uniform(arms=arms, horizon=horizon)
        best = bounds.bound(problem, draws=400, rng=3, kinds=kinds).best
        expected = plain.value(problem)
        what = f"information-relaxation bound, {arms} arms, {horizon} pulls"
        yield Check("bound", what, BY_RECURSION, expected, best, 0.0, "at least")


def check_log() -> Iterator[Check]:
    """Run a trial to its end, hash its chain independently, and edit one event."""
    from .. import trials
    from ..trials.errors import Damaged

    area, name = "trial log", "selftest"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "selftest.db"
        with trials.open_store(file) as store:
            problem = Problem.uniform(arms=3, horizon=PULLS)
            trial = trials.create_trial(problem, name=name, db=store, seed=5)
            for number in range(PULLS):
                trial.tell(trial.ask().id, number % 2)
            bodies = _edit(file, flip=False)
            recorded = sum(json.loads(body)["kind"] == "told" for body in bodies)
            yield Check(area, "outcomes on disk", "read by sqlite3", PULLS, recorded, 0.0)
            hashes = [hashlib.sha256(body.encode()).hexdigest() for body in bodies]
            previous = [json.loads(body)["previous"] for body in bodies]
            broken = sum(a != b for a, b in zip(hashes, previous[1:], strict=False))
            yield Check(area, "broken links of the chain", "SHA-256 of hashlib", 0, broken, 0.0)
            verified, again = trial.verify().ok, trial.replay().ok
            yield Check(area, "log verified", "the log itself", 1, verified, 0.0)
            yield Check(area, "decisions made again alike", "the log itself", 1, again, 0.0)
        _edit(file, flip=True)
        with trials.open_store(file) as store:
            try:
                intact = trials.open_trial(name, db=store).verify().ok
            except Damaged:
                intact = False
            yield Check(area, "edited log called intact", "an edit by sqlite3", 0, intact, 0.0)


def _edit(file: Path, *, flip: bool) -> list[str]:
    """Return the events on disk; flip the first outcome."""
    with closing(sqlite3.connect(file)) as connection, connection:
        rows = connection.execute("select seq, body from events order by seq").fetchall()
        for seq, body in rows if flip else ():
            event = json.loads(body)
            if event["kind"] == "told":
                event["data"]["outcome"] = 1 - event["data"]["outcome"]
                text = json.dumps(event, sort_keys=True, separators=(",", ":"))
                connection.execute("update events set body = ? where seq = ?", (text, seq))
                break
    return [body for _, body in rows]


CHECKS: tuple[Checks, ...] = (
    *(check_optima, _check_dual, _check_indices, _check_values, _check_chances, _check_bounds),
)


# -- What was installed, checked, expected and found -----------------------------------------------

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
    """The checks of one run, with the versions and the system."""

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

    def to_dict(self) -> dict[str, object]:
        """Return the result as plain values, for JSON."""
        checks = [asdict(check) | {"ok": check.ok} for check in self.checks]
        return {**asdict(self), "ok": self.ok, "version": __version__, "checks": checks}

    def to_html(self) -> str:
        """Return one self-contained page; checks that failed are bold."""

        def row(check: Check) -> Sequence[str]:
            rule = "" if check.rule == "equal" else f"{check.rule} "
            numbers = (f"{rule}{check.expected:.10g}", f"{check.found:.10g}")
            verdict = (f"{check.tolerance:.1g}", "holds" if check.ok else "FAILED")
            cells = (check.what, check.oracle, *numbers, *verdict)
            return cells if check.ok else [*map(Markup("<strong>{}</strong>").format, cells)]

        number, failed = len(self.checks), len(self.failed)
        verdict = f"All {number} checks hold" if self.ok else f"{failed} of {number} checks failed"
        packages = ("package", "version")
        parts = [
            section(verdict, paragraph(ABOUT)),
            *(
                section(area.capitalize(), table(TITLES, map(row, checks), words=WORD_TITLES))
                for area, checks in groupby(self.checks, attrgetter("area"))
            ),
            section("Installed", table(packages, self.installed.items(), words=packages)),
        ]
        about = f"{self.made_at[:19].replace('T', ' ')} UTC, in {self.seconds:.0f} s"
        title = f"decobandit {__version__}: self-test"
        return report_page(title, parts, about=about, footer="deco selftest --report FILE")


def run_checks(groups: Sequence[Checks], progress: support.Report | None = None) -> Selftest:
    """Run all checks, one group after the other."""
    began, checks = time.perf_counter(), list[Check]()
    for done, group in enumerate(groups):
        (progress or support.silent)(support.Progress("selftest", done, len(groups)))
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
