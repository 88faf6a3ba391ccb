"""The problem: arms with beta priors, rewards, a horizon; and its groups of exchangeable arms.

Everything here is frozen and checked when it is made. Algorithms read a problem through `stages`,
`pulls` and `groups` only: arrays over stages, in which a final deployment is one more stage.

Notations
    K       number of arms
    T       horizon
    stages  T, or T + 1 when an arm is deployed at the end
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Integral, Real
from typing import Annotated, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

MAX_ARMS = 100_000
MAX_HORIZON = 10_000
MAX_NAME = 100
MAX_SIZE = 1e12  # of any number: sums over stages and arms then stay far from overflow
NAME_RULE = f"must be 1 to {MAX_NAME} printable characters, no comma, no blank at either end"

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Table = tuple[tuple[float, ...], ...]


# -- checks of single values: one rule, one sentence that begins with "must" --------------------


def refuse(rule: str, *, found: object, at: tuple[int | str, ...] = ()) -> NoReturn:
    """Raise a validation error at the place `at`, seen from the value under validation."""
    error = PydanticCustomError("not_allowed", rule)
    details = InitErrorDetails(type=error, loc=at, input=found)
    raise ValidationError.from_exception_data("problem", [details])


def is_name(value: object) -> bool:
    """Whether `value` can name an arm: see NAME_RULE."""
    return (
        isinstance(value, str)
        and 1 <= len(value) <= MAX_NAME
        and value.isprintable()
        and "," not in value
        and value == value.strip()
    )


def _name(value: object) -> str:
    return str(value) if is_name(value) else refuse(NAME_RULE, found=value)


def _real(rule: str, allowed: Callable[[float], bool]) -> Callable[[object], float]:
    def check(value: object) -> float:
        # numbers.Real covers numpy scalars; it also covers bool, which is no number here
        if isinstance(value, bool) or not isinstance(value, Real):
            refuse(rule, found=value)
        try:
            number = float(value) + 0.0  # -0.0 becomes 0.0: equal numbers have equal bytes
        except OverflowError:
            number = math.inf
        if MAX_SIZE < abs(number) < math.inf:
            refuse(f"must not exceed {MAX_SIZE:g} in size", found=value)
        return number if math.isfinite(number) and allowed(number) else refuse(rule, found=value)

    return check


def whole_number(low: int, high: int) -> Callable[[object], int]:
    rule = f"must be a whole number from {low} to {high}"

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            refuse(rule, found=value)
        return int(value) if low <= int(value) <= high else refuse(rule, found=value)

    return check


arm_count = whole_number(1, MAX_ARMS)


def _plain(value: object) -> object:
    """Numpy arrays, and lists of them, as plain lists."""
    if isinstance(value, list | tuple):
        return [row.tolist() if isinstance(row, np.ndarray) else row for row in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _triangular(table: Table) -> Table:
    for n, row in enumerate(table):
        if len(row) != n + 1:
            rule = f"must have {n + 1} numbers: one for each of 0 to {n} good outcomes"
            refuse(rule, found=row, at=(n,))
    return table


def _per_stage(value: object) -> float | tuple[float, ...]:
    value = _plain(value)
    if isinstance(value, list):
        return _NUMBERS.validate_python(value)
    return _one_number(value)


Name = Annotated[str, PlainValidator(_name)]
Number = Annotated[float, PlainValidator(_real("must be a finite number", lambda x: True))]
Positive = Annotated[float, PlainValidator(_real("must be a positive number", lambda x: x > 0))]
NotNegative = Annotated[
    float, PlainValidator(_real("must be a finite number, zero or more", lambda x: x >= 0))
]
Horizon = Annotated[int, PlainValidator(whole_number(1, MAX_HORIZON))]
ArmCount = Annotated[int, PlainValidator(arm_count)]
TerminalTable = Annotated[
    tuple[tuple[Number, ...], ...], BeforeValidator(_plain), AfterValidator(_triangular)
]
PerStage = Annotated[float | tuple[float, ...], PlainValidator(_per_stage)]

_NUMBERS = TypeAdapter[tuple[float, ...]](tuple[Number, ...])
_one_number = _real("must be a finite number, or a list with one per stage", lambda x: True)


# -- the model ----------------------------------------------------------------------------------


class Frozen(BaseModel):
    """Base of the model: immutable, no unknown fields, keyword arguments only."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Beta(Frozen):
    """Beta prior on an arm's success probability: pseudo-counts of good and bad outcomes."""

    good: Positive
    bad: Positive


_FLAT = Beta(good=1, bad=1)


class Reward(Frozen):
    """What an outcome earns: one number, or a sequence with one number per stage."""

    good: PerStage = 1.0
    bad: PerStage = 0.0


class Arm(Frozen):
    """One arm. `terminal` is an optional table of last rewards; see `terminal_table`."""

    name: Name
    prior: Beta = _FLAT
    reward: Reward = Reward()
    terminal: TerminalTable | None = None


class Terminal(Frozen):
    """After the last stage one arm is chosen: worth `deploy` times its success probability."""

    deploy: NotNegative = 0.0


def _only_positive(terminal: Terminal | None) -> Terminal | None:
    # deploy = 0 says the same as no terminal; keeping one form makes == mean the same problem
    return terminal if terminal is not None and terminal.deploy > 0 else None


Deployment = Annotated[Terminal | None, AfterValidator(_only_positive)]


def terminal_table(horizon: int, value: Callable[[int, int], float]) -> Table:
    """The table of last rewards value(good, bad): row n, for n = 0..horizon pulls, has n + 1."""
    rows = range(horizon + 1)
    return tuple(tuple(float(value(g, n - g)) for g in range(n + 1)) for n in rows)


def numbered(arm: Arm, *, count: int) -> tuple[Arm, ...]:
    """Copies of an arm, named name-1 to name-count, that share its tables."""
    # model_copy rather than Arm(...): a table is neither checked nor stored once per copy
    return tuple(arm.model_copy(update={"name": f"{arm.name}-{i + 1}"}) for i in range(count))


class Problem(Frozen):
    """A finite-horizon Bayesian bandit: at each stage pull `pulls_per_stage` different arms."""

    arms: tuple[Arm, ...]
    horizon: Horizon
    pulls_per_stage: ArmCount = 1
    terminal: Deployment = None

    @classmethod
    def uniform(
        cls,
        *,
        arms: int = 5,
        horizon: int = 20,
        prior: Beta = _FLAT,
        pulls_per_stage: int = 1,
    ) -> Self:
        """Equal arms named arm-1, arm-2, ... that earn 1 for a good outcome and 0 for a bad one."""
        copies = numbered(Arm(name="arm", prior=prior), count=arm_count(arms))
        return cls(arms=copies, horizon=horizon, pulls_per_stage=pulls_per_stage)

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        K, m = len(self.arms), self.pulls_per_stage
        if not 1 <= K <= MAX_ARMS:
            refuse(f"must be 1 to {MAX_ARMS} arms", found=K, at=("arms",))
        if m > K:
            refuse(f"must be at most the number of arms, {K}", found=m, at=("pulls_per_stage",))
        names: set[str] = set()
        for position, arm in enumerate(self.arms):
            if arm.name in names:
                at = ("arms", position, "name")
                refuse("must differ from the names of all other arms", found=arm.name, at=at)
            names.add(arm.name)
            _check_lengths(arm, position, self.horizon)
        if self.terminal is not None and any(arm.terminal is not None for arm in self.arms):
            rule = "must be 0 when an arm has a terminal table: choose one of the two forms"
            refuse(rule, found=self.terminal.deploy, at=("terminal", "deploy"))
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed, checked like a new problem."""
        # the inherited method would skip the checks and keep the groups of the old problem
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate(fields | dict(update or {}))

    @property
    def number_of_arms(self) -> int:
        """K."""
        return len(self.arms)

    @property
    def stages(self) -> int:
        """The horizon, plus one when an arm is deployed: the deployment is a stage like others."""
        return self.horizon + (self.terminal is not None)

    @property
    def pulls(self) -> FloatArray:
        """Number of arms to pull at each stage, shape (stages,); 1 at the deployment."""
        pulls = np.ones(self.stages)
        pulls[: self.horizon] = self.pulls_per_stage
        pulls.flags.writeable = False
        return pulls

    @cached_property
    def groups(self) -> "tuple[Group, ...]":
        """Exchangeable arms (same prior, reward, last reward), in order of first appearance."""
        return _groups(self)

    @property
    def group_of_arm(self) -> IntArray:
        """Position in `groups` of each arm's group, shape (K,)."""
        group_of_arm = np.empty(self.number_of_arms, dtype=np.int64)
        for number, group in enumerate(self.groups):
            group_of_arm[list(group.members)] = number
        group_of_arm.flags.writeable = False
        return group_of_arm


def _check_lengths(arm: Arm, position: int, horizon: int) -> None:
    for outcome, value in (("good", arm.reward.good), ("bad", arm.reward.bad)):
        if isinstance(value, tuple) and len(value) != horizon:
            rule = f"must be one number, or a list of {horizon}: one per stage"
            refuse(rule, found=value, at=("arms", position, "reward", outcome))
    if arm.terminal is not None and len(arm.terminal) != horizon + 1:
        rule = f"must have {horizon + 1} rows: one for each of 0 to {horizon} pulls"
        refuse(rule, found=arm.terminal, at=("arms", position, "terminal"))


# -- groups of exchangeable arms ----------------------------------------------------------------


# no == by content: arrays have none, and == of problems must not trip over their cached groups
@dataclass(frozen=True, eq=False)
class Group:
    """Exchangeable arms, and what kernels need to know of any one of them (arrays: read-only)."""

    members: tuple[int, ...]  # positions of its arms in the problem
    alpha: float  # prior good
    beta: float  # prior bad
    reward_good: FloatArray  # (stages,)
    reward_bad: FloatArray  # (stages,)
    terminal: FloatArray | None  # ((T+1)(T+2)/2,): row n, of n+1 entries, starts at n(n+1)/2

    @property
    def count(self) -> int:
        """Number of arms in the group."""
        return len(self.members)


class _Shared:
    """Read-only arrays made by `build`, one object per content: equality is then identity."""

    def __init__(self, build: Callable[[Any], FloatArray]) -> None:
        self._build = build
        self._by_source: dict[object, FloatArray] = {}
        self._by_content: dict[bytes, FloatArray] = {}

    def __call__(self, source: object) -> FloatArray:
        # numbers by value, tuples by identity: neither is read again for each of many copies
        key = source if isinstance(source, float) else ("id", id(source))
        if key not in self._by_source:
            array = self._build(source)
            array.flags.writeable = False
            self._by_source[key] = self._by_content.setdefault(array.tobytes(), array)
        return self._by_source[key]


def _groups(problem: Problem) -> tuple[Group, ...]:
    T = problem.horizon
    last_good = [] if problem.terminal is None else [problem.terminal.deploy]
    last_bad = [0.0] * len(last_good)
    good = _Shared(lambda reward: np.append(np.broadcast_to(reward, (T,)), last_good))
    bad = _Shared(lambda reward: np.append(np.broadcast_to(reward, (T,)), last_bad))
    flat = _Shared(lambda table: np.fromiter(chain.from_iterable(table), np.float64))

    members: dict[object, list[int]] = {}
    contents: dict[object, tuple[float, float, FloatArray, FloatArray, FloatArray | None]] = {}
    for position, arm in enumerate(problem.arms):
        reward_good, reward_bad = good(arm.reward.good), bad(arm.reward.bad)
        terminal = None if arm.terminal is None else flat(arm.terminal)
        # the arrays outlive this loop, so that their ids stay theirs
        key = (arm.prior.good, arm.prior.bad, id(reward_good), id(reward_bad), id(terminal))
        contents[key] = (arm.prior.good, arm.prior.bad, reward_good, reward_bad, terminal)
        members.setdefault(key, []).append(position)

    return tuple(Group(tuple(members[key]), *content) for key, content in contents.items())
