"""Operating characteristics of a design: every policy in every scenario, exact where it can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..policies import BASELINE_POLICY, DEFAULT_POLICY, Context, Policy, RuledPolicy, make_policies
from ..policies import check_policies as check_names
from ..prices import by_segment
from ..problem import (
    DEFAULT_TIES,
    Design,
    Problem,
    ProblemError,
    Scenario,
    TieRule,
    check_problem,
    designed_from_dict,
    has_unknown_means,
    read_tree,
    refuse_features,
)
from ..support import InvalidArgument, Report, Stopwatch, Unsupported, obeys_workers, shown
from .calibrating import CONFIDENCE, Fit, calibrate
from .characteristics import characterise, declarable
from .endings import Endings, truth_values
from .final_tests import final_test
from .following import can_follow, follow, why_simulated
from .inference import check_inference
from .playing import play
from .results import Calibrated, Characteristics, DesignResult, ScenarioResult

POLICIES = (DEFAULT_POLICY, BASELINE_POLICY)  # where a design names none
CHECKING = 2**30  # in seeds of trials that methods of inference are checked on
FITTING = 2**31  # in seeds of trials that only thresholds are fitted on


def load_design(path: str | Path) -> tuple[Problem, Design]:
    r"""Read a problem and its design from a file.

    Parameters
    ----------
    path : str or Path
        A .toml or .json problem file with a table `design`.

    Returns
    -------
    tuple of Problem and Design

    Raises
    ------
    ProblemError
        If the file cannot be read, or has no design.

    Examples
    --------
    >>> from decobandit import load_design
    >>> lines = ["horizon = 20", "[[arms]]", 'name = "a"', "count = 2", "[design]", "burn_in = 2"]
    >>> with open("two.toml", "w") as file:
    ...     print(*lines, sep="\n", file=file)
    >>> load_design("two.toml")[1].burn_in
    2
    """
    problem, design = designed_from_dict(read_tree(path), source=str(path))
    if design is None:
        raise ProblemError(f"{path}: design: required key is missing")
    return problem, design


def check_asked(design: Design, source: str | Path | None = None) -> None:
    """Raise a ProblemError unless policies are known and there are scenarios; source: the file."""
    place = "design" if source is None else f"{source}: design"
    if not design.scenarios:
        raise ProblemError(f"{place}.scenarios: required key is missing")
    try:
        check_names(design.policies, places=False)
    except ValueError as error:
        raise ProblemError(f"{place}.policies: {error}") from None


@obeys_workers
def operating_characteristics(
    problem: Problem | tuple[Problem, Design],
    design: Design | None = None,
    *,
    calibrate_to: float | None = None,
    ties: TieRule = DEFAULT_TIES,
    tol: float = 1e-4,
    exact: bool | None = None,
    inference: bool = False,
    workers: int | None = None,
    progress: Report | None = None,
) -> DesignResult:
    """Compute the operating characteristics of each policy of a design in each scenario.

    Parameters
    ----------
    problem : Problem
        Problem to play; policies and posterior probabilities start from its priors. Or
        the pair that `load_design` returns, without `design`.
    design : Design
        Rules, policies, test and scenarios.
    calibrate_to : float, optional
        Largest type I error: for every policy, the smallest threshold that keeps it in the null
        scenarios is used. Where trials are simulated, it is fitted on other draws than those of the
        results, and keeps the type I error with a confidence of 95%.
    ties : TieRule
        How policies break ties; "random" splits them evenly.
    tol : float
        Relative gap of the prices, for policies that need them.
    exact : bool, optional
        True or False to follow all states or to simulate; by default exact where it takes seconds.
    inference : bool
        Whether to simulate bias and coverage of estimates and intervals, by method and arm.
    workers : int, optional
        Threads that compute.
    progress : callable, optional
        Called with the progress.

    Returns
    -------
    DesignResult
        After an interrupt, the finished part.

    Raises
    ------
    ValueError
        If the design has no scenario, or nothing can be calibrated.

    Examples
    --------
    >>> from decobandit import Design, Problem, operating_characteristics
    >>> design = Design(policies=["equal"], scenarios=[{"name": "one", "truth": [0.2, 0.6]}])
    >>> result = operating_characteristics(Problem.uniform(arms=2, horizon=20), design)
    >>> equal = result.scenarios[0].policies[0]
    >>> round(equal.good, 6), equal.exact, round(equal.select_best, 4)
    (8.0, True, 0.9708)
    """
    if isinstance(problem, tuple) and design is None:
        problem, design = problem
    if not isinstance(design, Design):
        raise TypeError(f"design: {shown(design)} is not a decobandit.Design")
    problem = check_problem(problem, segments=True)
    if problem.segments:
        design.check(problem)
        settings: dict[str, Any] = {
            "calibrate_to": calibrate_to,
            "ties": ties,
            "tol": tol,
            "exact": exact,
            "inference": inference,
        }
        return _in_segment(problem, design=design, rng=design.seed, progress=progress, **settings)
    refuse_features(problem, "designs", "is_restless")
    design.check(problem)
    if exact and (reason := why_simulated(problem, design)):
        raise Unsupported(f"exact: {reason}; simulate", field="exact")
    check_asked(design)
    context = Context(problem, tol=tol, ties=ties, under_rules=True)
    done = _Task(problem, design, exact, progress, inference).compute(context, calibrate_to)
    if not any(done.rows.values()):
        if done.interrupted:
            raise KeyboardInterrupt
        raise InvalidArgument("; ".join(done.notes)) from done.error
    scenarios = (
        ScenarioResult(
            one.name, one.truth, is_null(problem, design, one), tuple(done.rows[one.name])
        )
        for one in design.scenarios
    )
    levels, notes = tuple(done.levels), tuple(done.notes)
    return DesignResult(problem, design, ties, tuple(scenarios), levels, notes, done.interrupted)


@by_segment
def _in_segment(problem: Problem, *, design: Design, rng: int, **settings: Any) -> DesignResult:
    """Return the characteristics in a segment, whose trial ends after a random number of pulls."""
    return operating_characteristics(problem, design.model_copy(update={"seed": rng}), **settings)


def _calibrated(fit: Fit, alpha: float, row: Characteristics) -> Calibrated:
    """Return a threshold, with the type I error of trials that it was not fitted on."""
    error = 0.0 if row.errors is None else float(str(row.errors["reject"]))
    tested = (row.reject, error, fit.scenario.name, row.exact, None if row.exact else CONFIDENCE)
    return Calibrated(row.policy, alpha, fit.what, fit.threshold, *tested)


def characteristics_in(
    context: Context, policy: str, design: Design, scenario: Scenario, number: int
) -> Characteristics:
    """Return what one policy does in one scenario: as in a design that has it at place `number`."""
    design.check(context.problem)
    (player,) = make_policies(context, [policy], places=False)
    task = _Task(context.problem, design, None, None)
    return task.row(RuledPolicy(player, design.rules), scenario, number)


def is_null(problem: Problem, design: Design, scenario: Scenario) -> bool:
    """Whether no arm is better than control by the margin; without a control arm: all are equal.

    Never where an arm has no unknown mean.
    """
    _, right = declarable(design, problem, truth_values(problem, scenario.truth))
    return has_unknown_means(problem) and not right.any()


@dataclass
class _Finished:
    """The results computed so far."""

    rows: dict[str, list[Characteristics]]  # by scenario
    levels: list[Calibrated] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: Exception | None = None  # of the last policy that was left out
    interrupted: bool = False


@dataclass(frozen=True)
class _Task:
    """A design that is computed, policy by policy."""

    problem: Problem
    design: Design
    exact: bool | None
    progress: Report | None
    inference: bool = False

    def compute(self, context: Context, alpha: float | None) -> _Finished:
        """Compute all policies; those that fail are left out, and Ctrl-C ends it."""
        scenarios = self.design.scenarios
        done = _Finished({each.name: [] for each in scenarios})
        names = dict.fromkeys(self.design.policies or POLICIES)
        for name in names:
            rows: list[Characteristics] = []
            try:
                (player,) = make_policies(context, [name], places=False)
                if name == DEFAULT_POLICY and player.name in names:
                    continue  # what it picks is listed too
                fit, characteristics = self.policy(player, alpha)
                for scenario, row in zip(scenarios, characteristics, strict=True):
                    rows.append(row)
                    if fit is not None and fit.scenario == scenario and alpha is not None:
                        done.levels.append(_calibrated(fit, alpha, row))
            except (ValueError, MemoryError) as error:
                done.notes.append(f"{name} is left out: {error}")
                done.error = error
                continue
            except KeyboardInterrupt:
                done.interrupted = True
            for scenario, row in zip(scenarios, rows, strict=False):
                done.rows[scenario.name].append(row)
            if done.interrupted:
                break
        return done

    def policy(
        self, player: Policy, alpha: float | None
    ) -> tuple[Fit | None, Iterator[Characteristics]]:
        """Its threshold, where asked for, and its characteristics, scenario by scenario."""
        design, fit = self.design, None
        if alpha is not None:
            nulls = [one for one in design.scenarios if is_null(self.problem, design, one)]

            def ends(changed: Design, scenario: Scenario) -> tuple[RuledPolicy, Endings, bool]:
                ruled, number = RuledPolicy(player, changed.rules), design.scenarios.index(scenario)
                return ruled, *self.ends(ruled, scenario, (number, FITTING))

            fit = calibrate(design, nulls, alpha, ends)
            design = fit.design
        ruled, scenarios = RuledPolicy(player, design.rules), enumerate(design.scenarios)
        return fit, (self.row(ruled, scenario, number) for number, scenario in scenarios)

    def row(self, ruled: RuledPolicy, scenario: Scenario, number: int) -> Characteristics:
        """Characteristics in a scenario, whose random numbers are those of its number."""
        clock = Stopwatch()
        ends, exact = self.ends(ruled, scenario, (number,))
        tested = final_test(ruled, ruled.rules.final_test, ends)
        seconds = clock.seconds()
        row = characterise(ruled, scenario.truth, ends, tested, exact=exact, seconds=seconds)
        return self._with_inference(row, ruled, scenario, number) if self.inference else row

    def _with_inference(
        self, row: Characteristics, ruled: RuledPolicy, scenario: Scenario, number: int
    ) -> Characteristics:
        """Add bias and coverage of estimates and intervals, on trials of their own."""
        seed = (self.design.seed, number, CHECKING)
        null = is_null(self.problem, self.design, scenario)
        draws = self.design.draws
        checks, reasons = check_inference(ruled, scenario.truth, draws, seed, null=null)
        return replace(row, inference=checks, inference_left_out=reasons)

    def ends(
        self, ruled: RuledPolicy, scenario: Scenario, seed: tuple[int, ...]
    ) -> tuple[Endings, bool]:
        """How trials end, and whether that is exact; the seed follows that of the design."""
        exact = can_follow(ruled) if self.exact is None else self.exact
        if exact:
            return follow(ruled, scenario.truth, self.progress), True
        seed = (self.design.seed, *seed)
        return play(ruled, scenario.truth, self.design.draws, seed, self.progress), False
