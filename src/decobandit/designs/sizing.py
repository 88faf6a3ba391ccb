"""Smallest horizon at which a design has a power, at a given type I error.

Power is the probability of declaring a best arm (`reject_best`), the smallest over the scenarios
that have an arm to declare. The threshold is calibrated at every horizon that is tried. If trials
are simulated, all horizons use common random numbers.

Horizons are tried until two neighbours miss and reach the power, guided by the normal
approximation, in which the probit of the power grows with the square root of the horizon.
Exact power is not monotone but a sawtooth: the horizons below are tried too, until a number of them
in a row miss the power. If trials are simulated, fewer of them give an approximate horizon, then
horizons are tried in steps of 1%: finer steps are lost in the errors of simulation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import NormalDist
from typing import Any

from ..problem import (
    DEFAULT_TIES,
    EXACT_TESTS,
    Design,
    Problem,
    TieRule,
    check_problem,
    true_problem,
)
from ..support import (
    InvalidArgument,
    Progress,
    Report,
    Tables,
    Tabular,
    TooLarge,
    Unsupported,
    columns_of,
    obeys_workers,
    silent,
)
from ..support.records import doc, record_class
from .designing import POLICIES, NoThreshold, check_asked, is_null, operating_characteristics
from .results import Characteristics, DesignResult

MAX_STAGES = 20_000  # of a horizon that is tried
MISSES = 12  # in a row below the smallest horizon, to end the search; one where simulated
COARSE_DRAWS, COARSE_STEPS = 2000, 20  # to come near: trials, and steps of a horizon
FINE_STEPS = 100  # of a horizon, where trials are simulated
MAX_GROWTH = 4.0  # of the horizon from one guess to the next, and of its inverse
NORMAL = NormalDist()
MIN_TAIL = 1e-6  # of a power that is turned into a probit


@record_class()
class TriedHorizon:
    """Power and type I error of a design at one horizon."""

    horizon: int = doc("Stages.")
    power: float = doc("Probability to declare a best arm, smallest over the alternatives.")
    power_se: float = doc("Its standard error; 0 if exact.")
    type_i_error: float | None = doc("Largest of the null scenarios; None without a threshold.")
    threshold: float | None = doc("As calibrated; None if every threshold exceeds alpha.")
    draws: int | None = doc("Simulated trials; None if all states were enumerated.")


Computed = tuple[TriedHorizon, DesignResult | None]


@record_class()
class SampleSize(Tabular):
    """The smallest horizon at which a design has a power."""

    policy: str = doc("Its name.")
    target: float = doc("Power that was asked for.")
    alpha: float = doc("Largest type I error.")
    best: TriedHorizon = doc("The smallest horizon that reaches the power.")
    tried: tuple[TriedHorizon, ...] = doc("All horizons that were tried, in their order.")
    result: DesignResult = doc("Operating characteristics at this horizon.")

    @property
    def horizon(self) -> int:
        """The smallest horizon that reaches the power."""
        return self.best.horizon

    @property
    def calibrate_to(self) -> float | None:
        """Level to calibrate to; None where the test keeps it by itself."""
        return None if self.result.design.final_test.kind in EXACT_TESTS else self.alpha

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco design --power --json` prints them."""
        return {
            **asdict(self.best),
            "policy": self.policy,
            "target": self.target,
            "alpha": self.alpha,
            "seed": self.result.design.seed,
            "tried": [asdict(one) for one in self.tried],
        }

    def tables(self) -> Tables:
        """Return the table `tried`, one row for each horizon."""
        return {"tried": lambda: columns_of(asdict(one) for one in self.tried)}


@obeys_workers
def sample_size(
    problem: Problem,
    design: Design,
    *,
    power: float,
    alpha: float = 0.05,
    policy: str | None = None,
    ties: TieRule = DEFAULT_TIES,
    tol: float = 1e-4,
    workers: int | None = None,
    progress: Report | None = None,
) -> SampleSize:
    """Return the smallest horizon at which a policy declares a best arm with probability `power`.

    The threshold is calibrated to `alpha` at every horizon; the first one tried is that of the
    problem. policy: by default the first of the design. Others as in `operating_characteristics`.
    """
    check_problem(problem, segments=True)
    if problem.segments:
        raise Unsupported(
            "--power: a problem with segments has a clock for each; size them one by one",
            field="power",
        )
    check_asked(design)
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0.0 < value < 1.0:
            raise InvalidArgument(
                f"--{name}: {value} is not allowed; must be above 0 and below 1", field=name
            )
    nulls = [is_null(problem, design, scenario) for scenario in design.scenarios]
    if all(nulls) or not any(nulls):
        missing = "has an arm to declare" if any(nulls) else "is a null scenario"
        raise InvalidArgument(f"--power: no scenario {missing}; add one", field="power")
    name = policy or (design.policies or POLICIES)[0]
    one = design.model_copy(update={"policies": (name,), "thresholds": None})
    settings: dict[str, Any] = {"ties": ties, "tol": tol}
    return _Search(problem, one, power, alpha, settings, progress or silent).run()


@dataclass
class _Search:
    """The horizons tried so far."""

    problem: Problem
    design: Design
    power: float
    alpha: float
    settings: dict[str, Any]
    progress: Report
    results: dict[tuple[int, int], Computed] = field(default_factory=dict)  # by draws, horizon

    def run(self) -> SampleSize:
        """Search from the horizon of the problem, at first with fewer trials."""
        design, full = self.design, self.design.draws
        first = 0 if design.looks is None else design.looks.first
        outcomes = max(design.burn_in * self.problem.n_arms, first)
        least = max(1, ceil(outcomes / self.problem.pulls_per_stage))  # that the rules allow
        near = max(self.problem.horizon, least)
        if full > COARSE_DRAWS:
            self._draw(COARSE_DRAWS)
            near = self._bracket(near, least, COARSE_STEPS)
            self._draw(full)
        horizon = self._below(self._bracket(near, least, FINE_STEPS), least)
        best, result = self.results[full, horizon]
        assert result is not None
        tried = tuple(self.results[key][0] for key in sorted(self.results))
        policy = result.scenarios[0].policies[0].policy
        return SampleSize(policy, self.power, self.alpha, best, tried, result)

    def _draw(self, draws: int) -> None:
        """Simulate this number of trials from now on; exact numbers stay."""
        exact = {n: one for (_, n), one in self.results.items() if one[0].draws is None}
        self.design = self.design.model_copy(update={"draws": draws})
        self.results |= {(draws, n): one for n, one in exact.items()}

    def _bracket(self, guess: int, least: int, steps: int) -> int:
        """Return a horizon that reaches the power; one step below, it is missed."""
        low, high, step = 0, 0, 1
        while high == 0 or high - low > step:
            if self._at(guess).power >= self.power:
                high = guess
            else:
                low = guess
            if low >= MAX_STAGES:
                raise TooLarge(
                    f"--power: {self._at(low).power:.3f} at {low} stages; no horizon up to "
                    f"{MAX_STAGES} reaches {self.power}",
                    field="power",
                )
            if high == least:
                break
            if high:
                step = 1 if self._at(high).draws is None else max(1, high // steps)
            low = max(low, least - 1)
            guess = self._guess(guess, low, high)
        return high

    def _guess(self, last: int, low: int, high: int) -> int:
        """Return the next horizon: probits of power less the level's are as the square root."""
        level = NORMAL.inv_cdf(1.0 - self.alpha)
        at = self._at(last).power
        reached = NORMAL.inv_cdf(min(max(at, MIN_TAIL), 1.0 - MIN_TAIL)) + level
        ratio = (NORMAL.inv_cdf(self.power) + level) / max(reached, 1e-3)
        guess = round(last * min(max(ratio * abs(ratio), 1.0 / MAX_GROWTH), MAX_GROWTH))
        if high == 0:
            return min(max(guess, low + max(1, low // 10)), MAX_STAGES)
        room = max((high - low) // 4, 1)
        return min(max(guess, low + room), high - room)

    def _below(self, horizon: int, least: int) -> int:
        """Return the smallest horizon below that reaches the power too, of its neighbours."""
        smallest, tried, misses = horizon, horizon - 1, 0
        while tried >= least and misses < MISSES and self._at(tried).draws is None:
            reaches = self._at(tried).power >= self.power
            smallest, misses = (tried, 0) if reaches else (smallest, misses + 1)
            tried -= 1
        return smallest

    def _at(self, horizon: int) -> TriedHorizon:
        """Compute a horizon, once."""
        key = self.design.draws, horizon
        if key not in self.results:
            self.progress(Progress("sample size", len(self.results), None, f"{horizon} stages"))
            self.results[key] = self._computed(horizon)
        return self.results[key][0]

    def _computed(self, horizon: int) -> Computed:
        problem, design = true_problem(self.problem, None, horizon), self.design
        keeps_level = design.final_test.kind in EXACT_TESTS
        if keeps_level:
            design = design.at_threshold(self.alpha)
        level = None if keeps_level else self.alpha
        try:
            result = operating_characteristics(problem, design, calibrate_to=level, **self.settings)
        except InvalidArgument as error:
            if not isinstance(error.__cause__, NoThreshold):
                raise
            return TriedHorizon(horizon, 0.0, 0.0, None, None, None), None
        if result.interrupted:
            raise KeyboardInterrupt
        rows = [(scenario.null, scenario.policies[0]) for scenario in result.scenarios]
        power, power_se = min(_declares_best(row) for null, row in rows if not null)
        type_i_error = max(row.reject for null, row in rows if null)
        draws = None if all(row.exact for _, row in rows) else result.design.draws
        threshold = rows[0][1].threshold
        return TriedHorizon(horizon, power, power_se, type_i_error, threshold, draws), result


def _declares_best(row: Characteristics) -> tuple[float, float]:
    """Return the probability of declaring a best arm, and its standard error."""
    error = None if row.errors is None else row.errors["reject_best"]
    assert row.reject_best is not None
    return row.reject_best, error if isinstance(error, float) else 0.0
