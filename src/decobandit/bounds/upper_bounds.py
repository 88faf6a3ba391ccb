"""Upper bounds on the value of every policy: one function each, in the table `BOUNDS`.

A function returns its bound, or None if the bound is undefined or too slow. `bound` computes
all of them, best first: the exact optimum before any other, then by value. An estimate counts with
three standard errors.

The joint bound: at any prices nu and any joint state x of stage s, at most

    U_nu(x) = sum over arms of V_s^a[nu](x_a) + sum_{t >= s} m_t nu_t

is earned from s on, and so is the minimum over several price paths. The exact optimum of the first
s stages with these last rewards bounds every policy, without sampling error; with the prices of the
dual among the paths it is never above the dual upper bound. Paths are nu = base + f (mu - base),
base the smallest reward of a pull of the stage; size alone decides s (`exact_stages`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._version import __version__
from ..arm import OneArmValues
from ..joint import exact_stages, optimum, start_optimum, states_of_arms
from ..prices import DualSolution, by_segment, check_solution, whole_solution
from ..problem import Problem, best_mean_bound, check_problem, refuse_features
from ..simulation import Estimate
from ..support import (
    Card,
    Columns,
    Floats,
    InvalidArgument,
    Report,
    Rng,
    Tables,
    Tabular,
    Unsupported,
    columns_of,
    obeys_workers,
)
from ..support.frames import Shown
from ..support.records import doc, record_class
from .information_bounds import MAX_POPS, check_settings, estimate_bound

STANDARD_ERRORS = 3.0  # added to an estimate before it counts as a bound
PRICE_FACTORS = np.linspace(0.5, 1.25, 16)  # f of the price paths; 1 is one of them
MAX_TABLE_STATES = 3e9  # of the arms' tables of all paths, about a second
MIN_PATHS = 3
DEFAULT_DRAWS = 200
MAX_DEFAULT_WORK = 400  # arms times stages up to which scenarios take a second or so
MIN_JOINT_SHARE = 1 / 3  # of the stages: a joint bound over more is rarely above that of scenarios
MIN_SCENARIOS = 50  # with fewer, the standard error is not reliable


@record_class()
class BoundValue(Shown):
    """One upper bound: no policy earns more.

    Examples
    --------
    >>> from decobandit import Problem, bound
    >>> best = bound(Problem.uniform(arms=2, horizon=4))[0]
    >>> best.kind, round(best.gap_percent(2.25), 1)
    ('optimum', 1.2)
    """

    value: float = doc(
        "The bound; an estimate plus three standard errors where `estimate` is given."
    )
    kind: str = doc('"optimum", "joint", "lagrangian", "trivial" or "information".')
    estimate: float | None = doc("Estimate of a simulated bound.", default=None)
    estimate_se: float | None = doc("Standard error of the estimate.", default=None)
    details: Mapping[str, Any] = doc(
        "Further JSON values of this bound.", default_factory=dict, repr=False, compare=False
    )

    @property
    def meaning(self) -> str:
        """Meaning of the bound, in a few words."""
        return MEANINGS[self.kind]

    def gap_percent(self, value: float) -> float | None:
        """Return how far a value is below the bound, in percent of the bound."""
        return 100.0 * (self.value - value) / abs(self.value) if self.value else None

    def to_dict(self) -> dict[str, Any]:
        """Return the keys `best_bound` and `best_bound_is`, as commands print them."""
        return {"best_bound": self.value, "best_bound_is": self.kind}


@dataclass(eq=False)
class _Request:
    """Problem and settings of `bound`; the dual is solved when first needed."""

    problem: Problem
    known_solution: DualSolution | None
    tol: float
    kinds: Collection[str] | None
    draws: int | None
    estimate: Callable[..., tuple[Estimate, dict[str, Any]]]  # `estimate_bound`, with its settings
    progress: Report | None

    @cached_property
    def solution(self) -> DualSolution:
        if self.known_solution is not None:
            return self.known_solution
        return whole_solution(self.problem, tol=self.tol, progress=self.progress)

    @cached_property
    def exact_stages(self) -> int:
        """First stages whose joint states can be followed in a second or so."""
        return exact_stages(self.problem)


def _optimum(request: _Request) -> BoundValue | None:
    """Compute the exact optimum, if it takes a second or so."""
    problem = request.problem
    # where costs change over the stages, money spent does not follow from the pulls
    changing = np.ptp(problem.costs[: problem.horizon], axis=0).any()
    if changing or request.exact_stages < problem.stages:
        return None
    value = optimum(problem, progress=request.progress).value
    return BoundValue(value, "optimum", details={"exact_stages": problem.stages})


def _joint(request: _Request) -> BoundValue | None:
    """Compute the joint bound; its exact stages do not know what is spent, or share resources."""
    problem, stage = request.problem, request.exact_stages
    if problem.may_wait or not 0 < stage < problem.stages:
        return None
    paths = price_paths(problem, request.solution.prices)
    if len(paths) < MIN_PATHS:
        return None
    tables = [OneArmValues(problem, path, kept_bytes=0) for path in paths]
    layers, arm_of = states_of_arms(problem), [group.members[0] for group in problem.groups]

    def ends(group: int, pulls: int) -> Floats:
        stats = layers[arm_of[group]].layer(pulls)
        return np.stack([table.values_of(stage, group, stats) for table in tables])

    fixed = paths[:, stage:] @ problem.pulls[stage:]
    value = start_optimum(problem, stage, fixed, ends, progress=request.progress)
    return BoundValue(value, "joint", details={"exact_stages": stage})


def _lagrangian(request: _Request) -> BoundValue:
    """Return the dual function at the prices."""
    return BoundValue(request.solution.upper_bound, "lagrangian")


def _trivial(request: _Request) -> BoundValue | None:
    """Compute the reward of the best arms, if they are known."""
    value = best_mean_bound(request.problem)
    return None if value is None else BoundValue(value, "trivial")


def _information(request: _Request) -> BoundValue | None:
    """Estimate the bound of known outcomes; by default only where it is cheap and useful."""
    problem, draws = request.problem, request.draws
    variances_known = all(group.model.known_variance for group in problem.groups)
    if request.kinds is not None:  # named: a refusal says why
        refuse_features(problem, "information bound", "is_restless")
        if not variances_known:
            raise Unsupported(f"the information bound: {NO_VARIANCE}", field="prior")
    if problem.is_restless or not variances_known:
        return None
    if draws is None:
        small = problem.n_arms * problem.stages <= MAX_DEFAULT_WORK
        useful = request.exact_stages < MIN_JOINT_SHARE * problem.stages
        draws = DEFAULT_DRAWS if problem.single_binary and small and useful else 0
    if not draws:
        return None
    estimate, details = request.estimate(problem, request.solution, draws=draws)
    upper = estimate.value + STANDARD_ERRORS * estimate.value_se
    return BoundValue(upper, "information", estimate.value, estimate.value_se, details)


NO_VARIANCE = "its penalty needs values of single arms, and there are none for unknown variances"
BOUNDS: dict[str, Callable[[_Request], BoundValue | None]] = {
    "optimum": _optimum,
    "joint": _joint,
    "lagrangian": _lagrangian,
    "trivial": _trivial,
    "information": _information,
}
MEANINGS = {
    "optimum": "the exact optimum",
    "joint": "joint bound, exact over the first stages and from prices after them",
    "lagrangian": "Lagrangian bound, from the prices",
    "trivial": "expected reward of always pulling the best arms",
    "information": "information-relaxation bound, estimate plus three standard errors",
}


@record_class(eq=False)
class Bounds(Tabular, Sequence[BoundValue]):
    """All bounds of a problem, best first; a sequence of `BoundValue`.

    Table of `to_frame`: `bounds`.

    Examples
    --------
    >>> from decobandit import Problem, bound
    >>> [each.kind for each in bound(Problem.uniform(arms=2, horizon=4))]
    ['optimum', 'lagrangian', 'trivial']
    """

    problem: Problem = doc("Problem that is bounded.")
    values: tuple[BoundValue, ...] = doc("Bounds, best first; the exact optimum before any other.")

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[BoundValue]:
        return iter(self.values)

    def __getattr__(self, name: str) -> Any:
        """Return a value of `to_dict`: `best`, `best_is`, `lagrangian`, `information_se`, ..."""
        if not name.startswith("_") and name in (tree := self.to_dict()):
            return tree[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def of(self, *kinds: str) -> BoundValue | None:
        """Return the bound of one of these kinds; None if none was computed."""
        return next((value for value in self.values if value.kind in kinds), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `deco bound --json` prints them."""
        lagrangian, trivial = self.of("lagrangian"), self.of("trivial")
        joint, estimated = self.of("optimum", "joint"), self.of("information")
        details = {key: x for value in self.values for key, x in value.details.items()}
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "lagrangian": None if lagrangian is None else lagrangian.value,
            "information": None if estimated is None else estimated.estimate,
            "information_se": None if estimated is None else estimated.estimate_se,
            "trivial": None if trivial is None else trivial.value,
            "joint": None if joint is None else joint.value,
            "exact_stages": 0,
            "best": self.values[0].value,
            "best_is": self.values[0].kind,
            **self.values[0].to_dict(),
            **details,
        }

    def tables(self) -> Tables:
        """Return the table `bounds`."""
        return {"bounds": self._rows}

    def _rows(self) -> Columns:
        keys = ("kind", "value", "estimate", "estimate_se", "meaning")
        return columns_of({key: getattr(value, key) for key in keys} for value in self.values)

    def _card(self) -> Card:
        return Card(f"Upper bounds: {self.problem.described()}", columns=self._rows())

    def __repr__(self) -> str:
        shown = ", ".join(f"{value.kind} {value.value:.4f}" for value in self.values)
        return f"Bounds({shown})"


@by_segment
@obeys_workers
def bound(
    problem: Problem,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    draws: int | None = None,
    rng: Rng = 1,
    weight: float | None = None,
    pops: int = MAX_POPS,
    kinds: Collection[str] | None = None,
    workers: int | None = None,
    progress: Report | None = None,
) -> Bounds:
    """Compute all upper bounds on the value of every policy, best first.

    Parameters
    ----------
    problem : Problem
        Problem to bound.
    solution : DualSolution, optional
        Prices and their bound; the dual is solved to `tol` by default.
    tol : float
        Relative gap of the prices, if the dual is solved here.
    draws : int, optional
        Scenarios of the information bound, 0 for none. By default 200 for small problems of single
        binary pulls whose joint bound follows less than a third of the stages.
    rng : int or numpy.random.Generator, optional
        Seed of the scenarios, or a generator that gives one.
    weight : float, optional
        Weight of the penalty of the information bound, 0 to 1; the best of six by default.
    pops : int
        Nodes after which the search in a scenario stops, for a valid but larger bound.
    kinds : collection of str, optional
        Bounds to compute; all by default. The information bound, if named, is refused where there
        is none.
    workers, progress
        As in `solve`.

    Returns
    -------
    Bounds

    Raises
    ------
    DecoError
        If a setting is not allowed, or scenarios need too much memory.

    Examples
    --------
    >>> from decobandit import Problem, bound
    >>> bound(Problem.uniform(arms=8, horizon=50))[0].kind
    'joint'
    """
    check_problem(problem)
    check_settings(draws, weight, pops)
    if solution is not None:
        check_solution(solution, problem)
    estimate = partial(
        estimate_bound, rng=rng, weight=weight, pops=pops, workers=workers, progress=progress
    )
    request = _Request(problem, solution, tol, kinds, draws, estimate, progress)
    wanted = [compute for kind, compute in BOUNDS.items() if kinds is None or kind in kinds]
    values = [value for compute in wanted if (value := compute(request)) is not None]
    values.sort(key=lambda value: (value.kind != "optimum", value.value))
    return Bounds(problem, tuple(values))


def check_bound_draws(draws: int | None) -> None:
    """Refuse scenarios too few for a reliable standard error."""
    if draws is not None and 0 != draws < MIN_SCENARIOS:
        raise InvalidArgument(
            f"bound draws: {draws} is not allowed; must be 0, or {MIN_SCENARIOS} or more",
            field="bound_draws",
        )


def price_paths(problem: Problem, prices: Floats) -> Floats:
    """Return the dual's prices and as many paths around them as fit, (paths, stages)."""
    states = len(problem.groups) * problem.stages**3 / 6.0
    number = int(min(PRICE_FACTORS.size, MAX_TABLE_STATES / states))
    near = np.sort(np.argsort(np.abs(PRICE_FACTORS - 1.0), kind="stable")[:number])
    base = np.min([np.minimum(*group.rewards) for group in problem.groups], axis=0)
    return np.asarray(base + PRICE_FACTORS[near, None] * (prices - base))
