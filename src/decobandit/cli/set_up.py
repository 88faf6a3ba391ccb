"""`deco warmup`, `demo`, `selftest`: compile kernels ahead, try the program, check its numbers."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import arm, bounds, evaluation, figures, joint, policies, prices, simulation, support
from .. import problem as problems
from .options import AsJson, Workers, shown
from .output import check_writable, end_with, make_folder, print_result, print_table, say, written
from .problem_options import context_of

if TYPE_CHECKING:
    from .selftest import Selftest

LEFT = (
    "batches, several pulls per stage, non-binary outcomes, terminal rewards and rarer policies "
    "are compiled on first use; deco warmup --all compiles them now"
)


def warmup(
    all_kernels: Annotated[
        bool, typer.Option("--all", help="Also kernels of rarer problems and policies.")
    ] = False,
    workers: Workers = None,
) -> None:
    """Compile kernels ahead of time and cache them on disk."""
    began = time.perf_counter()
    parts = EVERYDAY + RARER if all_kernels else EVERYDAY
    processes = support.worker_count(workers, most=len(parts))
    if processes == 1:
        for part in parts:
            part()
    else:  # Ctrl-C is for the parent, which ends the others
        from multiprocessing import get_context

        ignore = (signal.SIGINT, signal.SIG_IGN)
        with get_context("spawn").Pool(processes, signal.signal, ignore) as pool:
            for done in [pool.apply_async(part) for part in parts]:
                done.get()
    print(f"kernels ready ({time.perf_counter() - began:.1f} s)")
    if not all_kernels:
        print(LEFT)


def _equal(arms: int, horizon: int = 4, **more: Any) -> problems.Problem:
    return problems.Problem.uniform(arms=arms, horizon=horizon, **more)


def _prices_and_deco() -> None:
    solution = prices.solve(_equal(2))
    prices.dual_value(solution.problem, solution.prices)
    deco = policies.make_policy(solution.problem, "deco", solution=solution)
    deco.choose(problems.State.fresh(2))
    prices.solve(_equal(2, 110))


def _smoothed_dual() -> None:
    import numpy as np

    from ..prices.band_market import band_market

    market = band_market(_equal(2), 1)
    market.soft_value(np.zeros(4), 1.0)
    market.soft_clear(1.0)


def _optima_and_gittins() -> None:
    import numpy as np

    a = problems.Arm(name="a", prior=problems.BetaBernoulli(2, 1))
    joint.optimum(_equal(2))
    for problem in (problems.Problem(arms=(a, problems.Arm(name="b")), horizon=4), _equal(3)):
        joint.optimum(problem)
        evaluation.evaluate(problem, policies.OptimalPolicy(problem))
        evaluation.evaluate(problem, policies.FhGittinsPolicy(problem))
    joint.optimum(_equal(3, 1))
    joint.start_optimum(_equal(3), 2, np.zeros(1), lambda group, n: np.zeros((1, n + 1)))


def _default_policy() -> None:
    for arms in (2, 3):
        evaluation.evaluate(_equal(arms), policies.DEFAULT_POLICY)
        evaluation.evaluate(_equal(arms), policies.DEFAULT_POLICY, truth=[0.5] * arms)
    bounds.bound(_equal(3), draws=2, kinds=("information",))


def _calibrated_states() -> None:
    knots = arm.KnotCalibration(_equal(1))
    knots.index(0, 0, 0, 0)
    knots.stage_index(0)
    longer = _equal(1, arm.EXACT_STAGES + 1)
    policies.CalibratedPolicy(longer, arm.PricePath(kappa=0.1), sweeps=64).stage_index(0)
    table = problems.terminal_table(4, lambda good, bad: 0.5 * good - bad)
    arms = tuple(problems.Arm(name=name, terminal=table) for name in "ab")
    lasting = problems.Problem(arms=arms, horizon=4)
    evaluation.evaluate(lasting, policies.OptimalPolicy(lasting))
    for problem in (_equal(2), _equal(2, terminal=problems.Terminal(deploy=2)), lasting):
        for path in (arm.PricePath(), arm.PricePath(tick=0.1)):
            policy = policies.CalibratedPolicy(problem, path)
            policy.arm_index(0, 0, (0, 0))
            policy.calibration.index(0, 0, 0, 0)
            policy.stage_index(0)


def _simulated_policies() -> None:
    import numpy as np

    thompson = policies.make_policy(_equal(2), "thompson")
    thompson.choose(problems.State.fresh(2), rng=np.random.default_rng(0))
    names = [*policies.COMPARED_POLICIES, "greedy", "ucb1", "kl-ucb"]
    simulation.simulate(_equal(2), names, draws=2)
    bounds.gap(_equal(2), "deco", method="simulated", draws=10)


def _episodes_and_markets() -> None:
    context = policies.Context(_equal(2))
    bounds.follow_by_name(context, "deco")
    prices.demand(context.solution)


def _rarer_policies() -> None:
    names = policies.serving(_equal(2), policies.POLICIES)
    simulation.simulate(_equal(2), names, draws=2, per_draw=1)
    policies.KlUcbPolicy(_equal(1, 110)).stage_index(100)
    simulation.simulate(_equal(3, pulls_per_stage=2), ["thompson"], draws=2)


def _batches() -> None:
    problem = _equal(2, 2, pulls_per_stage=4, unit=2, repeat=True)
    simulation.simulate(problem, policies.serving(problem, policies.POLICIES), draws=2)
    prices.solve(_equal(2, 2, pulls_per_stage=32, repeat=True), grid=8)


def _chances_of_the_best() -> None:
    from ..policies.comparison import BetaComparison

    states = problems.States.of_counts(_equal(2), [[1, 2]], [[1, 0]])
    for margin in (0.0, 0.1):
        chances = BetaComparison(_equal(2), margin)
        chances.best(states)
        chances.better(states, 0)
        chances.alike(states)
    policies.FhGittinsPolicy(_equal(2)).probabilities(3, states)


def _other_outcomes() -> None:
    prior, reward = problems.DirichletCategorical((1, 2, 1)), problems.Reward(values=(0, 1, 3))
    classes = problems.Arm(name="in classes", prior=prior, reward=reward)
    measured = problems.Arm(name="measured", prior=problems.NormalNormal(1, 1), noise_sd=1)
    arms = (classes, measured, problems.Arm(name="counted", prior=problems.GammaPoisson(2, 2)))
    prices.solve(problems.Problem(arms=arms, horizon=3))
    simulation.simulate(problems.Problem(arms=arms, horizon=3), ["deco", "thompson"], draws=2)
    bounded = problems.Problem(arms=(classes, problems.Arm(name="binary")), horizon=3)
    shared = problems.Problem(arms=arms, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    for problem in (bounded, shared):
        simulation.simulate(problem, policies.serving(problem, policies.POLICIES), draws=2)
    chances = policies.MeanComparison(bounded, 0.1)
    chances.best(problems.States.initial(bounded, 1))
    chances.alike(problems.States.initial(bounded, 1))
    always_on = {"on": problems.MarkovState(mean=1, next={"any": (1, "on")})}
    markov = problems.Arm(name="own", prior=problems.MarkovArm(first="on", states=always_on))
    bounds.follow_by_name(policies.Context(problems.Problem(arms=(markov,), horizon=2)), "deco")


def _arms_that_move_at_rest() -> None:
    wear = problems.Chain([[0.9, 0.1], [0, 1]], [[1, 0], [1, 0]], [1, 0], [0.5, -0.5])
    problem = problems.Problem.uniform(3, 3, prior=wear)
    prices.solve(problem)
    simulation.simulate(problem, policies.serving(problem, policies.POLICIES), draws=2)
    evaluation.evaluate(problem, "deco")


def _shared_resources() -> None:
    arms = tuple(problems.Arm(name=name, uses={"bed": 1}) for name in "abc")
    problem = problems.Problem(arms=arms, horizon=3, resources={"bed": 2})
    prices.solve(problem, tol=1e-7)
    simulation.simulate(problem, ["deco", "thompson"], draws=2)


EVERYDAY: tuple[Callable[[], None], ...] = (
    *(_prices_and_deco, _optima_and_gittins, _chances_of_the_best, _simulated_policies),
    *(_episodes_and_markets, _default_policy, _smoothed_dual),
)
RARER: tuple[Callable[[], None], ...] = (
    *(_batches, _other_outcomes, _rarer_policies, _calibrated_states),
    *(_arms_that_move_at_rest, _shared_resources),
)


# -- `deco docs`: where the manual is --------------------------------------------------------------

MANUALS = (  # built site, sources in a checkout, pages in an installation
    "../../docs/_build/html/index.html",
    "../../docs/index.md",
    "manual/index.md",
)


def docs(
    browse: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Print where the manual is, or open it."""
    package = Path(__file__).parents[1]
    paths = [(package / name).resolve() for name in MANUALS]
    page = next((path for path in paths if path.exists()), None)
    if page is None:
        raise support.InvalidFile("the manual is not part of this installation")
    if browse:
        typer.launch(str(page))
    print(page)


# -- `deco demo`: the main job in one go, a solved problem, a recommendation and a figure ----------


def demo(out: Annotated[Path, shown("DIR", "Output directory.")] = Path("demo")) -> None:
    """Solve a small problem, recommend an arm, draw a figure."""
    from .recommend import print_recommendation
    from .solving import print_solution

    make_folder(out)
    context = context_of(_equal(5, 40), 1e-4)
    print_solution(context.solution)
    observed = problems.State.parse("5/7,1/3,2/2,0/1,0/0")
    policy = policies.DecoPolicy.make(context)
    print(f"\nafter {observed.total} pulls, good/pulls per arm: {observed}")
    print_recommendation(policies.recommend(policy.problem, observed, policy))
    file = out / "prices-and-indices.png"
    figures.save_figure(figures.solution_figure(context.solution), file)
    print(f"\nfigure written to {file}")


# -- `deco selftest`: checks of this installation against numbers that are not ours ----------------


def selftest(
    report: Annotated[
        Path | None, shown("FILE", "Write the checks as a page (.html).", callback=check_writable)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the numbers of this installation.

    Compares with published numbers and slow reference versions in a minute or two; exits with code
    1 if a check fails.
    """
    from .selftest import CHECKS, check_log, run_checks

    checks = CHECKS
    if find_spec("sqlalchemy") is None:
        say("the log of trials is not checked: the extra 'trials' is not installed")
    else:
        checks = (*CHECKS, check_log)
    with support.show_progress() as progress:
        result = run_checks(checks, progress)
    if report is not None:
        support.write_whole(report, result.to_html())
        written("report", report)
    print_result(result, as_json, _print_selftest)
    end_with(result.ok)


def _print_selftest(result: Selftest) -> None:
    areas, failed = (
        Counter(check.area for check in checks) for checks in (result.checks, result.failed)
    )
    rows = [(area, str(number), str(failed[area])) for area, number in areas.items()]
    print_table("Self-test", ["area", "checks", "failed"], rows, text=["area"])
    for check in result.failed:
        print(
            f"FAILED {check.area}: {check.what}: found {check.found!r}, expected {check.rule} "
            f"{check.expected!r} within {check.tolerance:.2g} ({check.oracle})"
        )
    verdict = "all checks hold" if result.ok else f"{len(result.failed)} checks failed"
    print(f"{verdict}; {result.seconds:.0f} s")
