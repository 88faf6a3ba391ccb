"""Checks of the numbers on this machine, against published ones and slow, obvious versions.

Every check compares a number of the package with one that the package did not compute: printed in
a publication (`selftest.toml`), or found by `plain_oracles.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..problem import Arm, Beta, Problem, Reward, TieRule
from ..support import Check
from . import plain_oracles as plain
from .selftest_numbers import selftest_numbers

if TYPE_CHECKING:
    from ..policies import Policy

BY_RECURSION = "recursion over all states, plain Python"
BY_PROGRAM = "linear program over occupations, HiGHS"
EXACT = 1e-9  # of sums of a few thousand doubles
TIES: TieRule = "first"
STANDARD_ERRORS = 4.0  # that an estimate may be off by


def odd_problem() -> Problem:
    """Three arms that differ in everything, over five stages."""
    return Problem(
        horizon=5,
        arms=(
            Arm(name="a", prior=Beta(1, 1), reward=Reward(good=(0.9, 1.0, 1.1, 1.2, 1.3))),
            Arm(name="b", prior=Beta(0.4, 1.6), reward=Reward(good=2.5, bad=-0.1)),
            Arm(name="c", prior=Beta(5, 4)),
        ),
    )


def check_optima() -> Iterator[Check]:
    """Exact optima."""
    from ..joint import optimum

    for row in selftest_numbers().optimum:
        problem = Problem.uniform(arms=row.arms, horizon=row.horizon)
        what = f"optimum of {row.arms} arms, {row.horizon} pulls"
        found = optimum(problem).value
        yield Check("optimum", what, row.source, row.value, found, row.tolerance)
    for problem, what in (
        (odd_problem(), "optimum of three different arms, 5 pulls"),
        (
            Problem.uniform(arms=3, horizon=4, pulls_per_stage=2),
            "optimum of 3 arms, 4 stages of 2 pulls",
        ),
    ):
        found = optimum(problem).value
        yield Check("optimum", what, BY_RECURSION, plain.value(problem), found, EXACT)


def check_dual() -> Iterator[Check]:
    """Both certified bounds on the minimum of the dual, and the bound on every policy."""
    from ..joint import optimum
    from ..prices import solve

    for problem, name in (
        (odd_problem(), "three different arms, 5 pulls"),
        (Problem.uniform(arms=5, horizon=10), "5 arms, 10 pulls"),
        (Problem.uniform(arms=4, horizon=6, pulls_per_stage=2), "4 arms, 6 stages of 2 pulls"),
    ):
        minimum, found = plain.dual_minimum(problem), solve(problem, tol=1e-6)
        upper, lower = found.upper_bound, found.lower_bound
        assert lower is not None  # good and bad outcomes have exact states
        what = f"bound of the dual, {name}"
        yield Check("dual", f"upper {what}", BY_PROGRAM, minimum, upper, EXACT, "at least")
        yield Check("dual", f"lower {what}", BY_PROGRAM, minimum, lower, EXACT, "at most")
        yield Check("dual", f"upper {what}", BY_PROGRAM, minimum, upper, 1e-6 * minimum)
        best = optimum(problem).value
        yield Check("dual", f"upper {what}", "the exact optimum", best, upper, EXACT, "at least")


def check_indices() -> Iterator[Check]:
    """Finite-horizon Gittins indices."""
    from ..policies import fh_gittins

    for good, bad, left in ((1, 1, 10), (2, 1, 20), (1, 3, 15), (2.5, 0.5, 12)):
        problem = Problem.uniform(arms=1, horizon=left, prior=Beta(good, bad))
        found = fh_gittins(problem).arm_index(0, 0, 0, 0).index
        expected = plain.stopping_index(good, bad, (1.0,) * left)
        what = f"FH-Gittins index of Beta({good:g}, {bad:g}), {left} pulls left"
        yield Check("index", what, "bisection on stopping, plain Python", expected, found, 1e-8)


def check_values() -> Iterator[Check]:
    """Exact values of policies, and their estimates by simulation."""
    from ..evaluation import evaluate
    from ..policies import make_policy
    from ..simulation import simulate

    problem = Problem.uniform(arms=3, horizon=6)
    names = selftest_numbers().policies
    simulated = {
        each.policy: each.estimates.best
        for each in simulate(problem, names, draws=2000, per_draw=2, rng=20, ties=TIES).results
    }
    for name in names:
        policy = make_policy(problem, name, ties=TIES)
        expected = plain.value(problem, _choices(policy))
        exact = evaluate(problem, policy).value
        what = f"value of {name}, 3 arms, 6 pulls"
        yield Check("evaluation", what, BY_RECURSION, expected, exact, EXACT)
        found, what = simulated[name], f"simulated {what}"
        error = STANDARD_ERRORS * found.value_se
        yield Check("simulation", what, BY_RECURSION, expected, found.value, error)


def _choices(policy: Policy) -> Callable[[int, plain.State], tuple[int, ...]]:
    from ..problem import State

    def choose(stage: int, state: plain.State) -> tuple[int, ...]:
        good = tuple(g for _, g in state)
        bad = tuple(n - g for n, g in state)
        return policy.select(stage, State(good, bad))

    return choose


def check_chances() -> Iterator[Check]:
    """Probabilities that Thompson sampling pulls with, by an integral of SciPy's."""
    from scipy.integrate import quad
    from scipy.stats import beta

    from ..policies import make_policy
    from ..problem import State

    policy = make_policy(Problem.uniform(arms=3, horizon=20), "thompson")
    chances = dict(policy.distribution(12, State.parse("3/5,2/2,1/5")))
    laws = [beta(4, 3), beta(3, 1), beta(2, 5)]
    for k, law in enumerate(laws):
        one, two = (other for other in laws if other is not law)

        def density(x: float, law=law, one=one, two=two) -> float:  # type: ignore[no-untyped-def]
            return float(law.pdf(x) * one.cdf(x) * two.cdf(x))

        expected = quad(density, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12)[0]
        what = f"probability that arm {k + 1} of 3/5, 2/2, 1/5 is best"
        yield Check("Thompson", what, "SciPy's quad", expected, chances[(k,)], 1e-9)


def check_bounds() -> Iterator[Check]:
    """The information-relaxation bound is none below the optimum."""
    from ..bounds import information_bound

    for arms, horizon in ((2, 10), (3, 8)):
        problem = Problem.uniform(arms=arms, horizon=horizon)
        found = information_bound(problem, draws=400, rng=3)
        expected = plain.value(problem)
        what = f"information-relaxation bound, {arms} arms, {horizon} pulls"
        yield Check("bound", what, BY_RECURSION, expected, found.best, 0.0, "at least")


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    check_optima, check_dual, check_indices, check_values, check_chances, check_bounds,
)  # fmt: skip
