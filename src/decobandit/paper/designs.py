"""Designs against published numbers: BinaryBandit.jl, Whittle's index, adaptr, FLGI, normal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import hypot
from pathlib import Path

from ..designs import Characteristics, operating_characteristics
from ..designs.designing import CONFIDENCE
from ..joint import optimum
from ..policies import allow_policy
from ..policies.flgi import ForwardGittinsPolicy
from ..problem import (
    Arm,
    BetaBernoulli,
    Design,
    FinalTest,
    Looks,
    NormalNormal,
    Problem,
    Scenario,
    Stop,
)
from ..support import Report
from .experiments import Part, PublishedDesign, Section, Table, Task, computed, published

DRAWS = {"quick": 500, "paper": 10_000}
ADAPTR_SECONDS = 33.1  # for 1,000 trials, on two cores, by its README
ERRORS = 3.0  # that simulated numbers may be apart
TWO_ARMS = (0.3, 0.5)
NEOSPHERE = (0.29, 0.458, 0.168, 0.24)
BLOCK, PULLS = 9, 417
NORMAL_MEANS, NOISE, NORMAL_PULLS = (0.155, 0.529), 0.64, 72
NORMAL_BLOCKS, TYPE_ONE = (1, 2, 9, 18), 0.05
PRIOR = 2.0  # Beta(2, 2): pulls are counted with 4 more for every arm


@dataclass(frozen=True)
class Row:
    """A published number and ours; errors are 0 where numbers are exact."""

    case: str
    quantity: str
    source: str
    published: float
    published_error: float
    ours: float
    ours_error: float
    agrees: bool


Number = tuple[float, float]  # and its standard error


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute all cases, and the time of adaptr's; read finished ones from `folder`."""
    draws = DRAWS[scale]
    settings = {"draws": draws}
    tasks = [Task(name, settings, partial(_rows, *case, draws)) for name, case in CASES.items()]
    rows = computed("designs", tasks, Row, folder, progress)
    seconds = Task("adaptr-seconds", settings, partial(_seconds, draws))
    (ours,) = computed("designs", [seconds], float, folder)
    sources = dict.fromkeys(f"{row.case}: {row.source}" for row in rows)
    time_note = (
        f"Of adaptr's example, 1,000 trials take {ours:.2f} CPU s here, {ADAPTR_SECONDS:g} s on "
        f"two cores by its README, on another machine: {ADAPTR_SECONDS / ours:.0f} times."
    )
    text = (time_note, *NOTES, f"Sources: {'; '.join(sources)}.")
    table = Table(HEADER, list(map(_line, rows)), words=("case", "quantity", "agrees"))
    return Part(rows, Section("Designs: operating characteristics", text, (table,)))


def _rows(case: str, compute: Callable[[int], list[Number]], draws: int) -> list[Row]:
    printed = [design for design in published().designs if design.case == case]
    return [_row(*pair) for pair in zip(printed, compute(draws), strict=True)]


def _row(printed: PublishedDesign, ours: Number) -> Row:
    value, error = ours
    room = printed.within + ERRORS * hypot(printed.error, error)
    return Row(
        printed.case,
        printed.quantity,
        printed.source,
        printed.value,
        printed.error,
        value,
        error,
        abs(value - printed.value) <= room,
    )


# -- the cases ----------------------------------------------------------------------------------


def _policy(problem: Problem, design: Design) -> Characteristics:
    """Return the only policy of the only scenario; ties are broken at random."""
    return operating_characteristics(problem, design, ties="random").scenarios[0].policies[0]


def _truth(*truth: float) -> tuple[Scenario, ...]:
    return (Scenario(name="truth", truth=truth),)


def _sixty(draws: int) -> list[Number]:
    problem = Problem.uniform(arms=2, horizon=60)
    best = _policy(problem, Design(policies=("optimal",), scenarios=_truth(*TWO_ARMS)))
    return [(optimum(problem).value, 0.0), (best.good, 0.0), (best.good_sd**2, 0.0)]


def _whittle(draws: int) -> list[Number]:
    problem = Problem.uniform(arms=2, horizon=148)
    truth = _truth(*TWO_ARMS)
    index = _policy(problem, Design(policies=("fh-gittins",), scenarios=truth))
    even = _policy(problem, Design(policies=("equal",), floor=0.5, scenarios=truth))
    share = _counted(index.pulls[1], problem.horizon, 2, 2.0)
    numbers = (index.good, index.good_sd, share, even.good, even.good_sd)
    return [(number, 0.0) for number in numbers]


def _adaptr(draws: int) -> list[Number]:
    trials = adaptr_trials(draws)
    numbers = [(trials.size, float(trials.size_sd) / draws**0.5)]
    for reason in ("superiority", "equivalence"):
        p = trials.stopped_by[reason]
        numbers.append((p, (p * (1.0 - p) / draws) ** 0.5))
    return numbers


def adaptr_trials(draws: int) -> Characteristics:
    """Its example: 300 of 2,000 first, then looks at every 100, outcomes of the last 100 out."""
    problem = Problem.uniform(arms=3, horizon=20, pulls_per_stage=100, repeat=True)
    design = Design(
        policies=("thompson",),
        burn_in=133,
        floor=0.2,
        floor_kind="clip",
        delay=1,
        looks=Looks(first=300, every=100),
        stop=Stop(superiority=0.9814318, inferiority=0.0185682, equivalence=0.9),
        margin=0.05,
        draws=draws,
        scenarios=_truth(0.75, 0.75, 0.75),
    )
    return _policy(problem, design)


def _seconds(draws: int) -> list[float]:
    adaptr_trials(20)  # compiles
    began = time.process_time()
    adaptr_trials(draws)
    return [1000.0 / draws * (time.process_time() - began)]


def _flgi(draws: int) -> list[Number]:
    """417 pulls are 46 blocks and three pulls: a third of the way to 47 blocks."""
    few, many = _blocks(46, draws), _blocks(47, draws)
    numbers = []
    for one, more in zip(few, many, strict=True):
        good = one.good + (more.good - one.good) / 3.0
        numbers.append((good, one.good_sd / draws**0.5))
    best, more = few[0], many[0]
    deviation = best.good_sd + (more.good_sd - best.good_sd) / 3.0
    pulls = best.pulls[1] + (more.pulls[1] - best.pulls[1]) / 3.0
    share = _counted(pulls, PULLS, 4, 2.0 * PRIOR)
    return [
        numbers[0],
        (deviation, deviation / (2.0 * draws) ** 0.5),
        (share, best.pulls_sd[1] / (PULLS + 8.0 * PRIOR) / draws**0.5),
        numbers[1],
    ]


def _blocks(number: int, draws: int) -> list[Characteristics]:
    """Simulate the trial in blocks: at its rates, and with all rates equal to the first."""
    arms = tuple(Arm(name=f"arm-{k + 1}", prior=BetaBernoulli(PRIOR, PRIOR)) for k in range(4))
    problem = Problem(arms=arms, horizon=number, pulls_per_stage=BLOCK, repeat=True)
    null = Scenario(name="null", truth=(NEOSPHERE[0],) * 4)
    design = Design(policies=("flgi",), draws=draws, scenarios=(*_truth(*NEOSPHERE), null))
    result = operating_characteristics(problem, design, ties="random")
    return [scenario.policies[0] for scenario in result.scenarios]


class PatientGittinsPolicy(ForwardGittinsPolicy):
    """As Williamson and Villar discount it."""

    name = "flgi"
    discount = 0.995


def _normal(draws: int) -> list[Number]:
    """Priors worth one observation of zero; the z-test keeps a type I error of 5%.

    The error of its level shows in the power: by what the power would be at one error more.
    """
    from scipy.stats import beta  # late: scipy takes half a second to load

    arms = tuple(
        Arm(name=name, prior=NormalNormal(0.0, NOISE), noise_sd=NOISE)
        for name in ("control", "new")
    )
    scenarios = (
        Scenario(name="null", truth=(NORMAL_MEANS[0],) * 2),
        Scenario(name="truth", truth=NORMAL_MEANS),
    )
    policy = f"{__name__}:PatientGittinsPolicy"
    allow_policy(policy)
    design = Design(
        policies=(policy,),
        control="control",
        draws=draws,
        scenarios=scenarios,
        test=FinalTest(kind="z", alpha=TYPE_ONE),
    )

    def power(block: int, alpha: float) -> float:
        problem = Problem(
            arms=arms, horizon=NORMAL_PULLS // block, pulls_per_stage=block, repeat=True
        )
        # the level that errs in this share of the fitted trials, without a confidence limit
        limit = float(beta.ppf(CONFIDENCE, alpha * draws + 1.0, (1.0 - alpha) * draws))
        result = operating_characteristics(problem, design, calibrate_to=limit)
        return result.scenarios[1].policies[0].reject

    error = (TYPE_ONE * (1.0 - TYPE_ONE) / draws) ** 0.5
    numbers = []
    for block in NORMAL_BLOCKS:
        p, more = power(block, TYPE_ONE), power(block, TYPE_ONE + error)
        numbers.append((p, hypot((p * (1.0 - p) / draws) ** 0.5, more - p)))
    return numbers


def _counted(pulls: float, size: int, arms: int, per_unit: float) -> float:
    """Return an arm's share with `per_unit` prior observations per arm counted as pulls."""
    return (pulls + per_unit) / (size + per_unit * arms)


# by the name of their file: what published.toml calls it, and its numbers in the order there
CASES: dict[str, tuple[str, Callable[[int], list[Number]]]] = {
    "binary-bandit": ("two arms, 60 pulls, uniform priors", _sixty),
    "whittle": ("two arms, 148 pulls, at (0.3, 0.5)", _whittle),
    "adaptr": ("example of adaptr, 3 arms", _adaptr),
    "flgi": ("forward-looking Gittins index, 4 arms, 417 pulls in blocks of 9", _flgi),
    "normal": ("two normal arms of sd 0.64, 72 pulls, at (0.155, 0.529)", _normal),
}


# -- what is written ----------------------------------------------------------------------------

NOTES = (
    f"Exact numbers agree to 1e-9, simulated ones within {ERRORS:g} standard errors of both. "
    "Errors of published numbers that are printed without one are those of 10,000 trials (Whittle "
    "index), of 1,000 (forward-looking index), and of 50,000 (normal arms).",
    "Two arms, 148 pulls: ours are exact, ties by halves, and agree to 1e-10 with a recursion of "
    "its own whose indices are exact to 1e-15: 70.66689 good outcomes, sd 8.18574, share .88740. "
    "Errors of the indices show in the mean: rounded to three digits they give 70.66718. The "
    "published share counts the two observations of every uniform prior as pulls; so does ours.",
    "Forward-looking Gittins index: discounted by .99, priors Beta(2, 2); the published share "
    "counts their four observations of every arm as pulls, and so does ours. 417 pulls are 46 "
    "blocks of 9 and three pulls more: a third of the way from 46 to 47 blocks.",
    "Two normal arms: forward-looking Gittins index, discounted by .995, priors worth one "
    "observation of zero. This setting is ours: we have not read it in the paper, but found it "
    "among ten by the power in blocks of 1; the other three blocks were not used for that. Nor "
    "have we read there the 50,000 trials. The level of the z-test is calibrated to a type I error "
    "of .05 at means of .155; its error is counted.",
)
HEADER = ("case", "quantity", "published", "ours", "agrees")


def _line(row: Row) -> tuple[str, ...]:
    shown = []
    for value, error in ((row.published, row.published_error), (row.ours, row.ours_error)):
        shown.append(f"{value:.12g}" if error == 0.0 else f"{value:.5g} ± {error:.2g}")
    return (row.case, row.quantity, *shown, "yes" if row.agrees else "no")
