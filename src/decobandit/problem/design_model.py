"""A design: the rules around a policy, and the questions asked of it. The table `design` of a file.

Rules are what a trial obeys too: burn-in, floor, cap, share of the control arm, delay, looks,
stopping and the test at the end; what they do is in `policies/rules.py`. Scenarios, policies and
draws are for planning: `designs/`.
"""

from collections.abc import Sequence
from functools import reduce
from math import isfinite
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ..support import Floats, Ints, refuse
from .best_arm import pull_rewards
from .fields import (
    MAX_NAME,
    TEXT_SCHEMA,
    UNPRINTABLE,
    Checked,
    FirstError,
    Frozen,
    InvalidProblem,
    Name,
    Number,
    Probability,
    allowed_if,
    at_most,
    choice,
    fraction,
    is_title,
    whole_number,
)
from .model import Problem

MAX_DRAWS = 10_000_000
MAX_QUESTION = 2000
MAX_POLICIES = 100
MAX_SCENARIOS = 1000
MAX_BLOCK = 1000
LARGEST_SEED = 2**53  # that every reader of JSON keeps

Count = Annotated[int, whole_number(0, 1_000_000)]
Positive = Annotated[int, whole_number(1, 1_000_000)]
Level = Annotated[float, fraction("must be a number above 0 and below 1", 0.0, 1.0, open_ends=True)]

FinalTestName = Literal["posterior", "fisher", "conditional", "unconditional", "z", "t", "welch"]
FINAL_TESTS = get_args(FinalTestName)
EXACT_TESTS = ("conditional", "unconditional")  # of the design itself: they keep their level
MEAN_TESTS = ("z", "t", "welch")
Comparison = Annotated[Literal["reward", "outcome"], choice("reward", "outcome")]
FloorKind = Annotated[Literal["additive", "clip"], choice("additive", "clip")]
Controls = Annotated[Literal["all", "concurrent"], choice("all", "concurrent")]


def _is_question(value: object) -> bool:
    if not isinstance(value, str) or len(value) > MAX_QUESTION:
        return False
    return value == value.encode("utf-8", "ignore").decode("utf-8")


def _block(value: Any) -> int | tuple[int, ...]:
    sizes: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    whole = all(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
    if not sizes or not whole or min(sizes) < 1 or max(sizes) > MAX_BLOCK:
        refuse(f"must be a whole number from 1 to {MAX_BLOCK}, or a list of them", found=value)
    return tuple(sizes) if isinstance(value, list | tuple) else int(value)


_SIZE = {"type": "integer", "minimum": 1, "maximum": MAX_BLOCK}
Block = Annotated[
    Any, Checked(_block, {"anyOf": [_SIZE, {"type": "array", "items": _SIZE, "minItems": 1}]})
]
_QUESTION_RULE = f"must be text of at most {MAX_QUESTION} characters"
Question = Annotated[
    str, allowed_if(_QUESTION_RULE, _is_question, type="string", maxLength=MAX_QUESTION)
]
_TITLE_RULE = f"must be 1 to {MAX_NAME} printable characters"
Title = Annotated[
    str, allowed_if(_TITLE_RULE, is_title, **TEXT_SCHEMA, pattern=f"^[^{UNPRINTABLE}]+$")
]


class Looks(Frozen):
    """Times of looks: recorded outcomes before the first look, and between two."""

    first: Positive = Field(description="Known outcomes at the first look.")
    every: Positive = Field(default=1, description="Known outcomes between looks.")


class Stop(Frozen):
    """Probabilities at which a look stops the trial, or drops an arm; None: never.

    With a control arm they are probabilities to beat it by the margin; without, to be best. Arms
    are compared by what `compare` of the rules says.
    """

    superiority: Level | None = Field(default=None, description="At least: stop, declare the arm.")
    inferiority: Level | None = Field(default=None, description="At most: drop the arm.")
    futility: Level | None = Field(default=None, description="At most for all arms: stop.")
    equivalence: Level | None = Field(
        default=None, description="At least, that the arms differ by less than the margin: stop."
    )

    @property
    def any(self) -> bool:
        """Whether a look can change anything."""
        return any(getattr(self, name) is not None for name in type(self).model_fields)


class FinalTest(Frozen):
    """The test at the end.

    posterior: an arm is declared where its probability is at least `threshold`. fisher: Fisher's
    exact test of each arm against control, one-sided, at `alpha`. conditional: the exact test of
    the design itself given the number of good outcomes, at `alpha`; two arms. z, t, welch: of
    measurements, each arm's mean against that of control, one-sided, at `alpha`; z with known
    noise, t with one unknown variance, welch with one for each arm. All of them test in the
    direction of the larger reward, unless arms are compared by their outcomes.
    """

    kind: Annotated[FinalTestName, choice(*FINAL_TESTS)] = Field(
        default="posterior", description="posterior, fisher, conditional, z, t or welch."
    )
    threshold: Level | None = Field(
        default=None, description="Of a posterior test: probability at which an arm is declared."
    )
    alpha: Level | None = Field(default=None, description="Level of the other tests, one-sided.")

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        used, other = ("threshold", "alpha") if self.kind == "posterior" else ("alpha", "threshold")
        if getattr(self, other) is not None:
            rule = f"must be left out: the test {self.kind} has {used}"
            refuse(rule, found=getattr(self, other), at=(other,))
        return self

    @property
    def level(self) -> float:
        """The threshold or alpha, or what is usual."""
        level = self.threshold if self.kind == "posterior" else self.alpha
        return level if level is not None else 0.975 if self.kind == "posterior" else 0.025


def _true(value: object) -> float | tuple[float, ...] | str:
    """Read the truth of an arm, a number or chances of classes; the outcome model has its range."""
    if value == "-":
        return "-"
    numbers: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    for x in numbers:
        if isinstance(x, bool) or not isinstance(x, int | float) or not isfinite(float(str(x))):
            refuse("must be a number, or a list of chances of classes", found=x)
    truth = tuple(float(str(x)) for x in numbers)
    return truth if numbers is value else truth[0]


_CHANCES = {"type": "array", "items": {"type": "number"}}
TrueValue = Annotated[
    Any,
    Checked(_true, {"anyOf": [{"type": "number"}, _CHANCES, {"type": "string", "const": "-"}]}),
]


class Scenario(Frozen):
    """A truth that may hold, one per arm."""

    name: Title = Field(description="What it is called.")
    truth: Annotated[tuple[TrueValue, ...], FirstError()] = Field(
        description="Success probability of every arm; mean, rate, chances of classes; "
        '"-" for an arm with states of its own, whose chances are known.'
    )


class Rules(Frozen):
    """Rules of a trial, whatever its policy."""

    control: Name | None = Field(default=None, description="The arm that others are compared with.")
    burn_in: Count = Field(
        default=0, description="Pulls of every arm before the policy decides, in random order."
    )
    block: Block | None = Field(
        default=None,
        description="Size of permuted blocks of equal allocation (policy equal, burn-in); of a "
        "list, sizes are drawn.",
    )
    block_seed: Count | None = Field(
        default=None, description="Seed of drawn block sizes; a trial draws its own."
    )
    floor: Probability = Field(default=0.0, description="Least probability of every arm.")
    floor_kind: FloorKind = Field(
        default="additive",
        description="additive: with n arms that may be pulled, floor + (1 - n floor) times the "
        "policy's probability; clip: smaller probabilities are raised to the floor.",
    )
    control_share: Probability | None = Field(default=None, description="Probability of control.")
    max_probability: Probability | None = Field(
        default=None,
        description="Largest probability of every arm, after the burn-in; what a policy gives "
        "beyond it goes to the other arms in proportion.",
    )
    delay: Count = Field(default=0, description="Stages until an outcome is recorded.")
    looks: Looks | None = Field(default=None, description="After every outcome if left out.")
    stop: Stop = Field(default=Stop(), description="When a look stops the trial or drops an arm.")
    margin: Number = Field(
        default=0.0,
        description="Difference to beat control by, or within which arms are equivalent.",
    )
    compare: Comparison = Field(
        default="reward", description="Quantity to compare: reward of a pull, or outcome."
    )
    test: FinalTest | None = Field(
        default=None, description="Final test; one more look if left out."
    )
    controls: Controls = Field(
        default="all",
        description="Pulls of control that the test compares an arm with: all, or concurrent, at "
        "stages at which the arm is available.",
    )
    thresholds: dict[str, Level] | None = Field(
        default=None,
        description="Thresholds of single policies, calibrated: in place of that of the test, or "
        "of superiority where there is no test.",
    )

    @property
    def rules(self) -> "Rules":
        """Rules alone, without what a design has only for planning."""
        return Rules(**{name: getattr(self, name) for name in Rules.model_fields})

    @property
    def final_test(self) -> FinalTest:
        """The test; where none is given, one more look at the threshold of superiority."""
        return self.test or FinalTest(threshold=self.stop.superiority)

    @property
    def threshold_key(self) -> str:
        """The key of the threshold that decides: of the test, or of looks where there is none."""
        if self.test is None and self.stop.superiority is not None:
            return "stop.superiority"
        return "test.threshold" if self.final_test.kind == "posterior" else "test.alpha"

    def at_threshold(self, level: float) -> Self:
        """Return the rules with this threshold for every policy."""
        table, key = self.threshold_key.split(".")
        settings: Frozen = self.stop if table == "stop" else self.final_test
        changed = settings.model_copy(update={key: level})
        return self.model_copy(update={table: changed, "thresholds": None})

    def of_policy(self, name: str) -> Self:
        """Return the rules with the threshold of a policy."""
        level = (self.thresholds or {}).get(name)
        if level is not None:
            return self.at_threshold(level)
        return self if self.thresholds is None else self.model_copy(update={"thresholds": None})

    def looks_between(self, before: int | Ints, now: int | Ints) -> npt.NDArray[np.bool_]:
        """Whether a look falls due when the known outcomes grow from `before` to `now`, (...)."""
        return np.asarray((self._look_after(before) <= now) & self.stop.any)

    def next_look(self, known: int) -> int | None:
        """Return the known outcomes at the first look after these; None without looks."""
        return int(self._look_after(known)) if self.stop.any else None

    def _look_after(self, known: int | Ints) -> Ints:
        looks = self.looks or Looks(first=1)
        made = np.maximum((np.asarray(known) - looks.first) // looks.every + 1, 0)
        return np.asarray(looks.first + made * looks.every)

    def pull_values(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return base and factor, (arms,): arms are compared by base + factor times mean."""
        if self.compare == "outcome":
            return np.zeros(problem.n_arms), np.ones(problem.n_arms)
        return pull_rewards(problem)

    def one_value(self, problem: Problem) -> bool:
        """Whether outcomes count the same for all arms, and are not all worth the same."""
        base, factor = self.pull_values(problem)
        return bool(np.ptp(base) == np.ptp(factor) == 0.0 and factor[0] != 0.0)

    def control_of(self, problem: Problem) -> int | None:
        """Position of the control arm."""
        if self.control is None:
            return None
        return [arm.name for arm in problem.arms].index(self.control)

    def check(self, problem: Problem) -> None:
        """Refuse rules that do not suit the problem or have no effect."""
        self.check_possible(problem)
        high, pulls = self.stop.superiority, problem.horizon * problem.pulls_per_stage
        for name in ("inferiority", "futility"):
            low = getattr(self.stop, name)
            below = high is None or low is None or low < high
            self._need(below, f"stop.{name}", f"must be below superiority, {high}")
        rule = f"must be at most {pulls}, the pulls of the trial: later looks are not reached"
        self._need(self.looks is None or self.looks.first <= pulls, "looks.first", rule)

    def check_possible(self, problem: Problem) -> None:
        """Refuse rules that cannot be obeyed; trials on record may have rules without effect."""
        need, share, has_share = (
            self._need,
            self.control_share or 0.0,
            self.control_share is not None,
        )
        if not has_unknown_means(problem):
            rule = "must be left out: an arm with states of its own has no unknown mean to compare"
            for name in ("stop", "looks", "test"):
                need(getattr(self, name) == Rules.model_fields[name].default, name, rule)
        arms, pulls = problem.n_arms, problem.horizon * problem.pulls_per_stage
        names = [None, *(arm.name for arm in problem.arms)]
        need(self.control in names, "control", "must be the name of an arm")
        rule = f"must be at most {pulls // arms}: {pulls} pulls, {arms} arms"
        need(self.burn_in * arms <= pulls, "burn_in", rule)
        room, sharing = 1.0 - share, arms - has_share
        if self.floor * sharing > room + 1e-12:
            rule = f"must be at most {room / sharing:.4g}: {sharing} arms share {room:g}"
            need(False, "floor", rule)
        if self.block is not None:
            whole = all(size % arms == 0 for size in self.block_sizes())
            need(whole, "block", f"must be a multiple of {arms}, the number of arms")
            need(not has_share, "block", "must be left out where control has a share of its own")
            rule = "must be left out where a stage has several pulls"
            need(problem.pulls_per_stage == 1, "block", rule)
        if self.max_probability is not None:
            least = max((1.0 - share) / max(sharing, 1), share, self.floor)
            rule = f"must be at least {least:.4g}, so that {arms} arms can share all pulls"
            need(self.max_probability >= least - 1e-12, "max_probability", rule)
        if self.control is None:
            need(not has_share, "control_share", "must stand with control")
            need(self.stop.futility is None, "stop.futility", "must stand with control")
        if problem.pulls_per_stage > problem.most_per_stage:
            several = "where a stage pulls several different arms"
            need(self.floor == 0, "floor", f"must be 0 {several}")
            need(not has_share, "control_share", f"must be left out {several}")
            need(self.max_probability is None, "max_probability", f"must be left out {several}")
            rule = f"must be left out {several}: too few of them would be left"
            need(self.stop.inferiority is None, "stop.inferiority", rule)
        self._check_comparison(problem)
        self._check_test(problem)

    def _need(self, fits: object, path: str, rule: str) -> None:
        """Refuse the value at a path, such as stop.futility, unless it fits."""
        if not fits:
            place = tuple(path.split("."))
            _refused(place, rule, reduce(getattr, place, self))

    def _check_comparison(self, problem: Problem) -> None:
        base, factor = self.pull_values(problem)
        rule = "must be outcome: pulls of every arm earn the same whatever the outcome"
        self._need(factor.any(), "compare", rule)
        ends = np.array([group.model.mean_range for group in problem.arm_groups]).T
        ends = base + np.where(factor == 0.0, 0.0, factor * ends)
        most = float(ends.max() - ends.min())
        rule = f"must be a number between {-most:g} and {most:g}"
        self._need(-most < self.margin < most, "margin", rule)
        equivalent = self.stop.equivalence is None or self.margin > 0
        rule = "must be positive where trials stop for equivalence"
        self._need(equivalent, "margin", rule)

    def _check_test(self, problem: Problem) -> None:
        need, kind = self._need, self.final_test.kind
        if self.controls == "concurrent":
            need(self.control is not None, "controls", "must stand with control")
            rule = "must be all where looks stop trials or drop arms: they compare with all"
            need(not self.stop.any, "controls", rule)
            need(kind not in EXACT_TESTS, "controls", f"must be all for the {kind} test")
        rule = "must be another one: z needs normal priors, t and welch normal-gamma priors"
        if kind not in MEAN_TESTS:
            rule = "must be posterior, or z, t or welch of measurements: others are of binary "
            rule += "outcomes"
        suits = all(kind in group.model.final_tests for group in problem.groups)
        need(suits, "test.kind", rule)
        if kind == "posterior":
            return
        rule = "must be posterior where there is no control"
        need(self.control is not None, "test.kind", rule)
        single = problem.n_arms == 2 and problem.pulls_per_stage == 1 and self.delay == 0
        rule = "must be posterior or fisher but for two arms, one pull per stage and no delay"
        need(kind not in EXACT_TESTS or single, "test.kind", rule)
        if kind not in MEAN_TESTS:  # equal success probabilities must be what arms earn
            rule = f"must be 0 for the test {kind}, which has no margin"
            need(self.margin == 0.0, "margin", rule)
            rule = (
                "must be posterior where outcomes of arms earn different rewards: a larger success "
                'probability is not a larger reward there; or set compare = "outcome"'
            )
            need(self.one_value(problem), "test.kind", rule)

    def block_sizes(self) -> tuple[int, ...]:
        """Return the sizes that blocks may have; none without blocks."""
        if self.block is None:
            return ()
        return self.block if isinstance(self.block, tuple) else (self.block,)


class Design(Rules):
    """Rules, policies, a test and scenarios: what `deco design` computes.

    Examples
    --------
    >>> from decobandit import Design
    >>> design = Design(burn_in=5, floor=0.1, stop={"superiority": 0.99})
    >>> design.final_test.level
    0.99
    """

    policies: Annotated[tuple[Annotated[str, Field(strict=True)], ...], at_most(MAX_POLICIES)] = (
        Field(
            default=(),
            description="Names of policies to compare.",
            json_schema_extra={"maxItems": MAX_POLICIES},
        )
    )
    draws: Annotated[int, whole_number(1, MAX_DRAWS)] = Field(
        default=10_000, description="Number of simulated trials, if the design is not exact."
    )
    seed: Annotated[int, whole_number(0, LARGEST_SEED)] = Field(
        default=1, description="Seed of the simulation."
    )
    scenarios: Annotated[tuple[Scenario, ...], at_most(MAX_SCENARIOS)] = Field(
        default=(),
        description="Possible true success probabilities.",
        json_schema_extra={"maxItems": MAX_SCENARIOS},
    )
    question: Question = Field(default="", description="Research question, for the report.")

    def check_possible(self, problem: Problem) -> None:
        super().check_possible(problem)
        names: set[str] = set()
        for i, scenario in enumerate(self.scenarios):
            place = ("scenarios", i)
            if len(scenario.truth) != problem.n_arms:
                rule = f"must have {problem.n_arms} numbers: one per arm"
                _refused((*place, "truth"), rule, scenario.truth)
            for k, (group, truth) in enumerate(
                zip(problem.arm_groups, scenario.truth, strict=True)
            ):
                try:
                    group.model.format.read_truth(truth)
                except ValueError as error:
                    rule = (
                        str(error)
                        .partition("; ")[2]
                        .replace("between 0 and 1", "a number from 0 to 1")
                    )
                    is_integer = isinstance(truth, float) and truth.is_integer()
                    _refused((*place, "truth", k), rule, int(truth) if is_integer else truth)
            if scenario.name in names:
                _refused((*place, "name"), "must differ from other scenarios", scenario.name)
            names.add(scenario.name)


NO_UNKNOWN_MEANS = (
    "an arm with states of its own has no unknown mean: no arm is best, and none is declared"
)


def has_unknown_means(problem: Problem) -> bool:
    """Whether every arm has an unknown mean: what looks, tests and best arms are about."""
    return not any(group.model.ordered for group in problem.groups)


def _refused(place: tuple[str | int, ...], rule: str, value: object) -> None:
    try:
        refuse(rule, found=value, at=("design", *place))
    except ValueError as error:
        details = error.errors(include_url=False)  # type: ignore[attr-defined]
        raise InvalidProblem.of(details, Design) from None
