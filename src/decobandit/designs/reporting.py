"""Everything that the report of a design says: characteristics, the bound, other priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import Any

from ..bounds import BoundValue, bound
from ..policies import BASELINE_POLICY
from ..prices import is_quick
from ..problem import (
    DEFAULT_TIES,
    Design,
    PriorTable,
    Problem,
    TieRule,
    check_problem,
)
from ..support import Progress, Report, obeys_workers
from ..support.records import doc, record_class
from .designing import POLICIES, operating_characteristics
from .results import DesignResult
from .sizing import SampleSize

SCALES = {"half the effective sample sizes": 0.5, "twice the effective sample sizes": 2.0}
SENSITIVITY_DRAWS = 2000  # trials that are simulated with each of the other priors


@record_class()
class DesignStudy:
    """The content of a design report."""

    result: DesignResult = doc("Operating characteristics, equal allocation among them.")
    bound: BoundValue | None = doc("On the expected total reward of any policy, under the priors.")
    sensitivity: Mapping[str, DesignResult] = doc(
        "The same design with other priors, by what is different; fewer trials are simulated."
    )
    left_out: tuple[str, ...] = doc("What is missing, and why.")
    calibrate_to: float | None
    tol: float

    def command(self, file: str, report: str, size: SampleSize | None = None) -> str:
        """Return the command that computes it again from its file, with the search for a size."""
        design = self.result.design
        words = ["deco", "design", file, "--draws", design.draws, "--seed", design.seed]
        words += ["--ties", self.result.ties, "--tol", f"{self.tol:g}"]
        if size is not None:
            words += ["--power", size.target, "--alpha", size.alpha, "--policy", size.policy]
        elif self.calibrate_to is not None:
            words += ["--calibrate", self.calibrate_to]
        return " ".join(quote(str(word)) for word in [*words, "--report", report])


@obeys_workers
def study_design(
    problem: Problem,
    design: Design,
    *,
    calibrate_to: float | None = None,
    ties: TieRule = DEFAULT_TIES,
    tol: float = 1e-4,
    workers: int | None = None,
    progress: Report | None = None,
) -> DesignStudy:
    """Compute what the report of a design says.

    Parameters
    ----------
    problem : Problem
        What is played.
    design : Design
        Rules, policies, test and scenarios. Equal allocation is added where it is not listed.
    calibrate_to, ties, tol, workers, progress
        As in `operating_characteristics`. Thresholds are calibrated for every prior.

    Returns
    -------
    DesignStudy
        After Ctrl-C, what was finished.

    Examples
    --------
    >>> from decobandit import Design, Problem
    >>> from decobandit.designs.reporting import study_design
    >>> design = Design(policies=["thompson"], scenarios=[{"name": "one", "truth": [0.2, 0.6]}])
    >>> result = study_design(Problem.uniform(arms=2, horizon=6), design)
    >>> [each.policy for each in result.result.scenarios[0].policies]
    ['thompson', 'equal']
    >>> list(result.sensitivity)
    ['half the effective sample sizes', 'twice the effective sample sizes']
    """
    check_problem(problem)
    design = beside_equal(design)
    settings: dict[str, Any] = {"calibrate_to": calibrate_to, "ties": ties, "tol": tol}
    result = operating_characteristics(
        problem, design, **settings, inference=True, progress=progress
    )
    fewer = design.model_copy(update={"draws": min(design.draws, SENSITIVITY_DRAWS)})
    variants = prior_variants(problem)
    parts: dict[str, Callable[[], Any]] = {}
    results, left_out = dict[str, Any](), list[str]()
    if result.interrupted:
        left_out, variants = ["bound and sensitivity to priors: interrupted"], {}
    elif is_quick(problem):
        parts["bound"] = lambda: bound(problem, tol=tol, progress=progress)[0]
    else:
        left_out.append("bound: it is slow here, and no policy needs it")
    for name, variant in variants.items():
        parts[name] = partial(_variant, name, variant, fewer, settings, progress)
    for name, compute in parts.items():
        try:
            results[name] = compute()
        except (ValueError, MemoryError) as error:
            left_out.append(f"{name}: {error}")
        except KeyboardInterrupt:
            left_out.append(f"{name} and what comes after it: interrupted")
            break
    best = results.pop("bound", None)
    return DesignStudy(result, best, results, tuple(left_out), calibrate_to, tol)


def beside_equal(design: Design) -> Design:
    """Return the design with equal allocation among its policies."""
    names = tuple(dict.fromkeys(design.policies or POLICIES))
    more = () if BASELINE_POLICY in names else (BASELINE_POLICY,)
    return design.model_copy(update={"policies": names + more})


def _variant(
    label: str, problem: Problem, design: Design, settings: dict[str, Any], progress: Report | None
) -> DesignResult:
    """Return the operating characteristics with other priors."""

    def report(step: Progress) -> None:
        if progress is not None:
            progress(replace(step, what=f"{step.what}, {label}"))

    result = operating_characteristics(problem, design, **settings, progress=report)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


# -- other priors, to see how much a design depends on them --------------------------------------


def prior_variants(problem: Problem) -> dict[str, Problem]:
    """Return the problem with uniform, with weaker and with stronger priors of the same means.

    Only success probabilities and classes have uniform priors. Variants equal to the problem are
    left out.

    Parameters
    ----------
    problem : Problem
        As it is planned.

    Returns
    -------
    dict
        Problems by what is different in them.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.designs.reporting import prior_variants
    >>> list(prior_variants(Problem.uniform(arms=2, horizon=5)))
    ['half the effective sample sizes', 'twice the effective sample sizes']
    """

    def with_priors(priors: list[PriorTable]) -> Problem:
        pairs = zip(problem.arms, priors, strict=True)
        arms = [arm.model_copy(update={"prior": prior}) for arm, prior in pairs]
        return problem.model_copy(update={"arms": arms})

    variants = {"uniform priors": with_priors([arm.prior.uniform() for arm in problem.arms])}
    for name, scale in SCALES.items():
        variants[name] = with_priors([arm.prior.weighted(scale) for arm in problem.arms])
    return {name: variant for name, variant in variants.items() if variant != problem}
