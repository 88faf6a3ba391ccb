"""Operating characteristics of a design: every policy in every scenario, exact where possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..policies import (
    BASELINE_POLICY,
    DEFAULT_POLICY,
    SAME,
    Context,
    Policy,
    RuledPolicy,
    at_least,
    make_policies,
)
from ..policies import check_policies as check_names
from ..prices import by_segment
from ..problem import (
    DEFAULT_TIES,
    EXACT_TESTS,
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
from .final_tests import final_test
from .inference import check_inference
from .playing import Endings, can_follow, follow, play, why_simulated
from .results import (
    Calibrated,
    Characteristics,
    DesignResult,
    ScenarioResult,
    characterise,
    declarable,
    truth_values,
)

Ends = Callable[[Design, Scenario], tuple[RuledPolicy, Endings, bool]]
CONFIDENCE = 0.95  # that the type I error is at most alpha, where trials are simulated
HALVINGS = 14
ROOM = 1e-12  # of probabilities that are sums
_NEVER = "--calibrate: the type I error is above {} at every threshold"
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
        settings: dict[str, Any] = {"ties": ties, "tol": tol, "exact": exact, "progress": progress}
        settings |= {"calibrate_to": calibrate_to, "inference": inference}
        return _in_segment(problem, design=design, rng=design.seed, **settings)
    refuse_features(problem, "designs", "is_restless")
    design.check(problem)
    if exact and (reason := why_simulated(problem, design)):
        raise Unsupported(f"exact: {reason}; simulate", field="exact")
    check_asked(design)
    task = _Task(problem, design, exact, progress, inference)
    return task.result(Context(problem, tol=tol, ties=ties, under_rules=True), calibrate_to, ties)


@by_segment
def _in_segment(problem: Problem, *, design: Design, rng: int, **settings: Any) -> DesignResult:
    """Return the characteristics in a segment, whose trial ends after a random number of pulls."""
    return operating_characteristics(problem, design.model_copy(update={"seed": rng}), **settings)


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


@dataclass(frozen=True)
class _Task:
    """A design that is computed, policy by policy."""

    problem: Problem
    design: Design
    exact: bool | None
    progress: Report | None
    inference: bool = False

    def result(self, context: Context, alpha: float | None, ties: TieRule) -> DesignResult:
        """Compute all policies; those that fail are left out, and Ctrl-C ends it."""
        design, names = self.design, dict.fromkeys(self.design.policies or POLICIES)
        every: list[list[Characteristics]] = [[] for _ in design.scenarios]
        levels, notes, interrupted = list[Calibrated](), list[str](), False
        failure: Exception | None = None  # of the last policy that was left out
        for name in names:
            rows: list[Characteristics] = []
            try:
                (player,) = make_policies(context, [name], places=False)
                if name == DEFAULT_POLICY and player.name in names:
                    continue  # what it picks is listed too
                fit = None if alpha is None else self.fit(player, alpha)
                ruled = RuledPolicy(player, (design if fit is None else fit.design).rules)
                for number, scenario in enumerate(design.scenarios):
                    rows.append(self.row(ruled, scenario, number))
                    if fit is not None and fit.scenario == scenario:
                        levels.append(fit.calibrated(rows[-1]))
            except (ValueError, MemoryError) as error:
                notes.append(f"{name} is left out: {error}")
                failure = error
                continue
            except KeyboardInterrupt:
                interrupted = True
            for of_scenario, row in zip(every, rows, strict=False):
                of_scenario.append(row)
            if interrupted:
                break
        if not any(every):
            if interrupted:
                raise KeyboardInterrupt
            raise InvalidArgument("; ".join(notes)) from failure
        scenarios = tuple(
            ScenarioResult(one.name, one.truth, is_null(self.problem, design, one), tuple(rows))
            for one, rows in zip(design.scenarios, every, strict=True)
        )
        done = (scenarios, tuple(levels), tuple(notes), interrupted)
        return DesignResult(self.problem, design, ties, *done)

    def fit(self, player: Policy, alpha: float) -> Fit:
        """Return the threshold of a policy, on trials of their own."""
        design = self.design
        nulls = [one for one in design.scenarios if is_null(self.problem, design, one)]

        def ends(changed: Design, scenario: Scenario) -> tuple[RuledPolicy, Endings, bool]:
            ruled, number = RuledPolicy(player, changed.rules), design.scenarios.index(scenario)
            return ruled, *self.ends(ruled, scenario, number, FITTING)

        return calibrate(design, nulls, alpha, ends)

    def row(self, ruled: RuledPolicy, scenario: Scenario, number: int) -> Characteristics:
        """Characteristics in a scenario, whose random numbers are those of its number."""
        clock, truth = Stopwatch(), scenario.truth
        ends, exact = self.ends(ruled, scenario, number)
        tested = final_test(ruled, ruled.rules.final_test, ends)
        seconds = clock.seconds()
        row = characterise(ruled, truth, ends, tested, exact=exact, seconds=seconds)
        if not self.inference:
            return row
        seed, draws = (self.design.seed, number, CHECKING), self.design.draws
        null = is_null(self.problem, self.design, scenario)
        checks, reasons = check_inference(ruled, truth, draws, seed, null=null)
        return replace(row, inference=checks, inference_left_out=reasons)

    def ends(self, ruled: RuledPolicy, scenario: Scenario, *seed: int) -> tuple[Endings, bool]:
        """How trials end, and whether that is exact; the seed follows that of the design."""
        if can_follow(ruled) if self.exact is None else self.exact:
            return follow(ruled, scenario.truth, self.progress), True
        seed = (self.design.seed, *seed)
        return play(ruled, scenario.truth, self.design.draws, seed, self.progress), False


# -- thresholds -----------------------------------------------------------------------------------
# With a test of its own, the threshold of the final test, or its alpha: all are compared on the
# same endings. Where the test is but the last look, that of superiority, which changes when trials
# stop: by bisection, on the same draws.
#
# Where trials are simulated, the threshold is fitted on draws of its own, none of which is used for
# reported numbers. It is the smallest at which no more trials declare an arm than would, with
# probability 1 - CONFIDENCE, if the type I error were alpha: an upper confidence limit of the error
# is then at most alpha. Several null scenarios share 1 - CONFIDENCE.


class NoThreshold(InvalidArgument):
    """The type I error is too large at every threshold."""


class Fit(NamedTuple):
    """A threshold, and the null scenario in which it declares an arm most often."""

    what: str  # key of the design that is set
    threshold: float
    scenario: Scenario
    design: Design  # with the threshold
    alpha: float

    def calibrated(self, row: Characteristics) -> Calibrated:
        """Return the threshold, with the type I error of trials that it was not fitted on."""
        error = 0.0 if row.errors is None else float(str(row.errors["reject"]))
        sure = None if row.exact else CONFIDENCE
        tested = (row.reject, error, self.scenario.name, row.exact, sure)
        return Calibrated(row.policy, self.alpha, self.what, self.threshold, *tested)


def calibrate(design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends) -> Fit:
    """Fit the threshold of a policy; `ends`: how trials of a changed design end in a scenario."""
    if not 0.0 < alpha < 1.0:
        raise InvalidArgument(f"--calibrate: {alpha} is not allowed; must be above 0 and below 1")
    if not nulls:
        raise InvalidArgument("--calibrate: no scenario is a null scenario; add one to the design")
    if design.final_test.kind in EXACT_TESTS:
        raise InvalidArgument(
            f"--calibrate: the test {design.final_test.kind} keeps its alpha: there is nothing to"
        )
    key = design.threshold_key
    fit = _by_bisection if key == "stop.superiority" else _by_quantile
    level, scenario = fit(design, nulls, alpha, ends)
    return Fit(key, level, scenario, design.at_threshold(level), alpha)


def _room(alpha: float, design: Design, scenarios: int, exact: bool) -> float:
    """Probability, or share of simulated trials, that may declare an arm.

    The upper confidence limit of Clopper and Pearson of such a share is at most alpha.
    """
    if exact:
        return alpha
    from scipy.stats import binom  # late: scipy takes half a second to load

    tail, draws = (1.0 - CONFIDENCE) / scenarios, design.draws
    most = int(binom.ppf(tail, draws, alpha))
    most -= int(binom.cdf(most, draws, alpha) > tail)
    if most < 0:
        least = int(np.ceil(np.log(tail) / np.log1p(-alpha)))
        raise InvalidArgument(
            f"--calibrate: {draws} simulated trials are too few to show a type I error of at most "
            f"{alpha}; must be at least {least}, better many more"
        )
    return most / draws


def _by_quantile(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[float, Scenario]:
    """Return the final test's threshold, from the distribution of its largest statistic.

    Of p-values, one minus them.
    """
    test, laws, room = design.final_test, [], alpha
    by_p = test.kind != "posterior"
    for scenario in nulls:
        ruled, endings, exact = ends(design, scenario)
        room = _room(alpha, design, len(nulls), exact)
        tested = final_test(ruled, test, endings)
        rivals = endings.allowed.copy()
        if ruled.control is not None:
            rivals[:, ruled.control] = False
        statistic = 1.0 - tested.statistic if by_p else tested.statistic
        largest = np.where(rivals, statistic, 0.0).max(axis=1)
        early = tested.decided & endings.declared.any(axis=1)
        largest[tested.decided] = -np.inf
        largest[early] = np.inf  # declared at a look, whatever the threshold
        share = float(endings.weight[early].sum())
        if share > room + ROOM:
            raise NoThreshold(
                f"--calibrate: in scenario {scenario.name!r} looks alone declare an arm with "
                f"probability {share:.4f}; raise stop.superiority"
            )
        laws.append((largest, endings.weight))
    level = float(np.nextafter(0.0, 1.0))
    for values, weight in laws:
        order = np.argsort(values)[::-1]
        over = np.flatnonzero(np.cumsum(weight[order]) > room + ROOM)
        if over.size and values[order[over[0]]] > -np.inf:
            # just above the value at which too many reach it
            level = max(level, float(min(values[order[over[0]]] + 2.0 * SAME, 1.0 - ROOM)))
    errors = [float(weight[at_least(x, level)].sum()) for x, weight in laws]
    if max(errors) > room + ROOM:
        raise NoThreshold(_NEVER.format(alpha))
    return 1.0 - level if by_p else level, nulls[int(np.argmax(errors))]


def _by_bisection(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[float, Scenario]:
    """Return the threshold of superiority at looks and at the end."""

    def largest_error_at(level: float) -> Scenario | None:
        """Return the null scenario of the largest error, or None where that is too large."""
        changed = design.at_threshold(level)
        errors, room = [], alpha
        for scenario in nulls:
            ruled, endings, exact = ends(changed, scenario)
            room = _room(alpha, design, len(nulls), exact)
            declared = final_test(ruled, changed.final_test, endings).declared.any(axis=1)
            errors.append(float(endings.weight[declared].sum()))
        return nulls[int(np.argmax(errors))] if max(errors) <= room + ROOM else None

    low, high = 0.0, 1.0 - ROOM
    scenario = largest_error_at(high)
    if scenario is None:
        raise NoThreshold(_NEVER.format(alpha))
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        at_middle = largest_error_at(middle)
        if at_middle is None:
            low = middle
        else:
            high, scenario = middle, at_middle
    return high, scenario
