"""Everything that the report of a design says: characteristics, the bound, other priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    """Compute the contents of a design report; after Ctrl-C, the finished part.

    Arguments are those of `operating_characteristics`. Equal allocation is added where it is not
    listed; thresholds are calibrated for every prior.
    """
    check_problem(problem)
    design = beside_equal(design)
    settings: dict[str, Any] = {"calibrate_to": calibrate_to, "ties": ties, "tol": tol}
    result = operating_characteristics(
        problem, design, **settings, inference=True, progress=progress
    )
    fewer = design.model_copy(update={"draws": min(design.draws, SENSITIVITY_DRAWS)})
    best, results, left_out = None, dict[str, DesignResult](), list[str]()
    if result.interrupted:
        return DesignStudy(
            result, None, {}, ("bound and sensitivity to priors: interrupted",), calibrate_to, tol
        )
    steps: dict[str, Problem | None] = {"bound": None} if is_quick(problem) else {}
    if not steps:
        left_out.append("bound: it is slow here, and no policy needs it")
    for name, variant in (steps | prior_variants(problem)).items():

        def report(step: Progress, name: str = name) -> None:
            if progress is not None:
                progress(replace(step, what=f"{step.what}, {name}"))

        try:
            if variant is None:
                best = bound(problem, tol=tol, progress=progress)[0]
                continue
            found = operating_characteristics(variant, fewer, **settings, progress=report)
            if found.interrupted:
                raise KeyboardInterrupt
            results[name] = found
        except (ValueError, MemoryError) as error:
            left_out.append(f"{name}: {error}")
        except KeyboardInterrupt:
            left_out.append(f"{name} and what comes after it: interrupted")
            break
    return DesignStudy(result, best, results, tuple(left_out), calibrate_to, tol)


def beside_equal(design: Design) -> Design:
    """Return the design with equal allocation among its policies."""
    names = tuple(dict.fromkeys(design.policies or POLICIES))
    more = () if BASELINE_POLICY in names else (BASELINE_POLICY,)
    return design.model_copy(update={"policies": names + more})


# -- other priors, to see how much a design depends on them --------------------------------------


def prior_variants(problem: Problem) -> dict[str, Problem]:
    """Return the problem with uniform, with weaker and with stronger priors of the same means.

    Only success probabilities and classes have uniform priors. Variants equal to the problem are
    left out.
    """

    def with_priors(priors: list[PriorTable]) -> Problem:
        pairs = zip(problem.arms, priors, strict=True)
        arms = [arm.model_copy(update={"prior": prior}) for arm, prior in pairs]
        return problem.model_copy(update={"arms": arms})

    variants = {"uniform priors": with_priors([arm.prior.uniform() for arm in problem.arms])}
    for name, scale in SCALES.items():
        variants[name] = with_priors([arm.prior.weighted(scale) for arm in problem.arms])
    return {name: variant for name, variant in variants.items() if variant != problem}
