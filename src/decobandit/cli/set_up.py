"""`deco warmup`, `demo`, `selftest`: compile kernels ahead, try the program, check its numbers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..support.errors import InvalidFile
from .options import AsJson, Workers
from .output import check_writable, make_folder, print_json, say, written
from .problem_options import context_of

if TYPE_CHECKING:
    from ..paper.selftest import Selftest
    from ..problem import Problem
    from ..support import Check

Part: TypeAlias = Callable[[], None]
LEFT = (
    "batches, several pulls of a stage, other outcomes, last rewards and rarer policies are "
    "compiled on first use; deco warmup --all compiles them now"
)


def warmup(
    all_kernels: Annotated[
        bool,
        typer.Option("--all", help="Also kernels of rarer problems and policies."),
    ] = False,
    workers: Workers = None,
) -> None:
    """Compile kernels ahead of time and cache them on disk."""
    import time

    from ..support import worker_count

    began = time.perf_counter()
    parts = EVERYDAY + RARER if all_kernels else EVERYDAY
    for _ in _compile_in(worker_count(workers, most=len(parts)), parts):
        pass
    print(f"kernels ready ({time.perf_counter() - began:.1f} s)")
    if not all_kernels:
        print(LEFT)


def _compile_in(processes: int, parts: tuple[Part, ...]) -> Iterable[None]:
    if processes == 1:
        yield from map(_compile, parts)
        return
    from multiprocessing import get_context

    with get_context("spawn").Pool(processes, initializer=_leave_interrupts) as pool:
        yield from pool.imap_unordered(_compile, parts)


def _leave_interrupts() -> None:
    """Ignore Ctrl-C in workers; the parent ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _compile(part: Part) -> None:
    part()


def prices_and_deco() -> None:
    """Compile the dual, short and long, and DeCo."""
    from ..policies import make_policy
    from ..prices import dual_value, solve
    from ..problem import Problem, State

    problem = Problem.uniform(arms=2, horizon=4)
    solution = solve(problem)
    dual_value(problem, solution.prices)
    make_policy(problem, "deco", solution=solution).choose(State.fresh(2))
    solve(Problem.uniform(arms=2, horizon=110))


def smoothed_dual() -> None:
    """Compile the smoothed dual."""
    import numpy as np

    from ..prices.band_market import band_market
    from ..prices.descent import Smoothing
    from ..problem import Problem

    problem = Problem.uniform(arms=2, horizon=4)
    Smoothing(band_market(problem, 1), np.zeros(problem.stages), 1.0).advance()


def optima_and_gittins() -> None:
    """Compile exact optima, FH-Gittins and their values."""
    import numpy as np

    from ..evaluation import evaluate
    from ..joint import optimum, start_optimum
    from ..policies import FhGittinsPolicy, OptimalPolicy
    from ..problem import Problem

    two, three = Problem.uniform(arms=2, horizon=4), Problem.uniform(arms=3, horizon=4)
    optimum(two)
    for problem in (_two_different(), three):
        optimum(problem)
        evaluate(problem, OptimalPolicy(problem))
        evaluate(problem, FhGittinsPolicy(problem))
    start_optimum(three, 2, np.zeros(1), lambda group, pulls: np.zeros((1, pulls + 1)))


def _two_different() -> Problem:
    from ..problem import Arm, BetaBernoulli, Problem

    return Problem(arms=(Arm(name="a", prior=BetaBernoulli(2, 1)), Arm(name="b")), horizon=4)


def several_pulls() -> None:
    """Compile the optimum and Thompson sampling with several pulls per stage."""
    from ..joint import optimum
    from ..problem import Problem
    from ..simulation import simulate

    problem = Problem.uniform(arms=3, horizon=4, pulls_per_stage=2)
    optimum(problem)
    simulate(problem, ["thompson"], draws=2)


def default_policy() -> None:
    """Compile the calibrated index and its price path."""
    from ..evaluation import evaluate
    from ..policies import DEFAULT_POLICY
    from ..problem import Problem

    for problem in (Problem.uniform(arms=2, horizon=4), Problem.uniform(arms=3, horizon=4)):
        evaluate(problem, DEFAULT_POLICY)


def calibrated_states() -> None:
    """Compile calibrated indices: short, long, with a tick, with terminal rewards."""
    from ..arm import EXACT_STAGES, KnotCalibration, PricePath
    from ..evaluation import evaluate
    from ..policies import CalibratedPolicy, OptimalPolicy
    from ..problem import Arm, Problem, Terminal, terminal_table

    knots = KnotCalibration(Problem.uniform(arms=1, horizon=4))
    knots.index(0, 0, 0, 0)
    knots.stage_index(0)
    longer = Problem.uniform(arms=1, horizon=EXACT_STAGES + 1)
    CalibratedPolicy(longer, PricePath(kappa=0.1), sweeps=64).stage_index(0)
    short = Problem.uniform(arms=2, horizon=4)
    deployed = Problem.uniform(arms=2, horizon=4, terminal=Terminal(deploy=2))
    table = terminal_table(4, lambda good, bad: 0.5 * good - bad)
    lasting = Problem(arms=tuple(Arm(name=name, terminal=table) for name in "ab"), horizon=4)
    evaluate(lasting, OptimalPolicy(lasting))
    for problem in (short, deployed, lasting):
        for path in (PricePath(), PricePath(tick=0.1)):
            policy = CalibratedPolicy(problem, path)
            policy.arm_index(0, 0, (0, 0))
            policy.calibration.index(0, 0, 0, 0)
            policy.stage_index(0)


def information_bounds() -> None:
    """Compile the information bound of two and of three arms."""
    from ..bounds import information_bound
    from ..problem import Problem

    for arms in (2, 3):
        information_bound(Problem.uniform(arms=arms, horizon=4), draws=2)


def simulated_policies() -> None:
    """Compile the usual policies, a Thompson draw and the gap."""
    import numpy as np

    from ..bounds import gap
    from ..policies import COMPARED_POLICIES, make_policy
    from ..problem import Problem, State
    from ..simulation import simulate

    problem = Problem.uniform(arms=2, horizon=4)
    make_policy(problem, "thompson").choose(State.fresh(2), rng=np.random.default_rng(0))
    simulate(problem, [*COMPARED_POLICIES, "greedy", "ucb1", "kl-ucb"], draws=2)
    gap(problem, "deco", method="simulated", draws=10)


def episodes_and_markets() -> None:
    """Compile an episode and the market."""
    from ..bounds import follow_by_name
    from ..policies import Context
    from ..prices import demand
    from ..problem import Problem

    context = Context(Problem.uniform(arms=2, horizon=4))
    follow_by_name(context, "deco")
    demand(context.solution)


def rarer_policies() -> None:
    """Compile every other policy with compiled play."""
    from ..policies import POLICIES, KlUcbPolicy, policy_class, serving
    from ..problem import Problem
    from ..simulation import simulate

    problem = Problem.uniform(arms=2, horizon=4)
    kinds = {name: policy_class(name) for name in serving(problem, POLICIES)}
    compiled = [name for name, kind in kinds.items() if kind.plays_compiled()]
    simulate(problem, compiled, draws=2, per_draw=1)
    KlUcbPolicy(Problem.uniform(arms=1, horizon=110)).stage_index(100)


def batches() -> None:
    """Compile batch policies and the batch dual on a grid."""
    from ..policies import POLICIES, serving
    from ..prices import solve
    from ..problem import Problem
    from ..simulation import simulate

    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    simulate(problem, serving(problem, POLICIES), draws=2)
    solve(Problem.uniform(arms=2, horizon=2, pulls_per_stage=32, repeat=True), grid=8)


def chances_of_the_best() -> None:
    """Compile posterior probabilities: best, better than control, equivalent."""
    from ..policies import FhGittinsPolicy
    from ..policies.comparison import BetaComparison
    from ..problem import Problem, States

    problem = Problem.uniform(arms=2, horizon=4)
    states = States.of_counts(problem, [[1, 2]], [[1, 0]])
    for margin in (0.0, 0.1):
        chances = BetaComparison(problem, margin)
        chances.best(states)
        chances.better(states, 0)
        chances.alike(states)
    FhGittinsPolicy(problem).probabilities(3, states)


def other_outcomes() -> None:
    """Compile non-binary outcomes: prices, policies, an episode, batches."""
    from ..bounds import follow_by_name
    from ..policies import POLICIES, Context, MeanComparison, serving
    from ..prices import solve
    from ..problem import (
        Arm,
        DirichletCategorical,
        GammaPoisson,
        MarkovArm,
        MarkovState,
        NormalNormal,
        Problem,
        Reward,
        States,
    )
    from ..simulation import simulate

    classes = Arm(
        name="in classes", prior=DirichletCategorical((1, 2, 1)), reward=Reward(values=(0, 1, 3))
    )
    measured = Arm(name="measured", prior=NormalNormal(1, 1), noise_sd=1)
    arms = (classes, measured, Arm(name="counted", prior=GammaPoisson(2, 2)))
    solve(Problem(arms=arms, horizon=3))
    simulate(Problem(arms=arms, horizon=3), ["deco", "thompson"], draws=2)
    bounded = Problem(arms=(classes, Arm(name="binary")), horizon=3)
    simulate(bounded, serving(bounded, POLICIES), draws=2)
    chances, states = MeanComparison(bounded, 0.1), States.initial(bounded, 1)
    chances.best(states)
    chances.alike(states)
    own = MarkovArm(first="on", states={"on": MarkovState(mean=1, next={"any": (1, "on")})})
    follow_by_name(Context(Problem(arms=(Arm(name="own", prior=own),), horizon=2)), "deco")
    shared = Problem(arms=arms, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    simulate(shared, serving(shared, POLICIES), draws=2)


EVERYDAY: tuple[Part, ...] = (
    prices_and_deco,
    optima_and_gittins,
    chances_of_the_best,
    simulated_policies,
    episodes_and_markets,
    information_bounds,
    default_policy,
    smoothed_dual,
)
RARER: tuple[Part, ...] = (
    batches,
    other_outcomes,
    several_pulls,
    rarer_policies,
    calibrated_states,
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
        raise InvalidFile("the manual is not part of this installation")
    if browse:
        typer.launch(str(page))
    print(page)


# -- `deco demo`: the main job in one go, a solved problem, a recommendation and a figure ----------


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output directory.")] = Path("demo"),
) -> None:
    """Solve a small problem, recommend an arm, draw a figure."""
    from ..figures import save_figure, solution_figure
    from ..policies import DecoPolicy, recommend
    from ..problem import Problem, State
    from .recommend import print_recommendation
    from .solving import print_solution

    make_folder(out)
    context = context_of(Problem.uniform(arms=5, horizon=40), 1e-4)
    print_solution(context.solution)
    observed = State.parse("5/7,1/3,2/2,0/1,0/0")
    policy = DecoPolicy.make(context)
    print(f"\nafter {observed.total} pulls, good/pulls per arm: {observed}")
    print_recommendation(recommend(policy.problem, observed, policy))
    file = out / "prices-and-indices.png"
    save_figure(solution_figure(context.solution), file)
    print(f"\nfigure written to {file}")


# -- `deco selftest`: checks of this installation against numbers that are not ours ----------------

FAILED = 1


def selftest(
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=check_writable,
            help="Write the checks as a page (.html).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the numbers of this installation.

    Compares with published numbers and slow reference versions, in a minute or two. Exit code 1
    if a check fails.
    """
    from ..paper.selftest import CHECKS, run_checks
    from ..support import show_progress, write_whole

    checks = [*CHECKS, *_checks_of_the_log()]
    with show_progress() as told:
        found = run_checks(checks, told)
    if report is not None:
        write_whole(report, found.to_html())
        written("report", report)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)
    if not found.ok:
        raise typer.Exit(FAILED)


def _checks_of_the_log() -> list[Callable[[], Iterator[Check]]]:
    if find_spec("sqlalchemy") is not None:
        from ..trials.selftest import check_log

        return [check_log]
    say("the log of trials is not checked: the extra 'trials' is not installed")
    return []


def _show(found: Selftest) -> None:
    from .tables import print_table

    rows = [
        (area, str(len(checks)), str(sum(not check.ok for check in checks)))
        for area, checks in found.by_area().items()
    ]
    print_table("Self-test", ["area", "checks", "failed"], rows, text=["area"])
    for check in found.failed:
        print(
            f"FAILED {check.area}: {check.what}: found {check.found!r}, expected {check.rule} "
            f"{check.expected!r} within {check.tolerance:.2g} ({check.oracle})"
        )
    verdict = "all checks hold" if found.ok else f"{len(found.failed)} checks failed"
    print(f"{verdict}; {found.seconds:.0f} s")
