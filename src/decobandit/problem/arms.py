"""One arm: its prior, what its outcomes earn, its last rewards.

Other descriptions of an arm (files, requests, studies) reuse these tables.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ..support import InvalidArgument, refuse
from .fields import (
    CheckedAs,
    FirstError,
    Frozen,
    Name,
    NotNegative,
    Number,
    PerStage,
    PositiveNumber,
    Table,
    TerminalTable,
    Uses,
    Windows,
)
from .models.base import ArmModel, PriorTable
from .models.bernoulli import BetaBernoulli, TwoLevel
from .models.categorical import DirichletCategorical
from .models.gamma import GammaExponential, GammaPoisson
from .models.markov import Chain, MarkovArm
from .models.normal import NormalGamma, NormalNormal

# an outcome model is registered here: `kind` in files is that of its prior
AnyPrior = (
    BetaBernoulli
    | DirichletCategorical
    | NormalNormal
    | NormalGamma
    | GammaPoisson
    | GammaExponential
    | MarkovArm
    | Chain
    | TwoLevel
)

FLAT_PRIOR = BetaBernoulli(1, 1)
OUTCOME_KEYS = ("good", "bad")  # of rewards of good and bad outcomes
VALUE_KEYS = ("values", "factor", "cap")  # of rewards of any other outcomes
NOT_YET = "not yet for {} arms: only for good and bad outcomes"


class Reward(Frozen):
    """Reward of an outcome: `good` and `bad`, or the value of any other outcome times a factor.

    Examples
    --------
    >>> from decobandit import Reward
    >>> Reward(good=[1.0, 0.9, 0.81])
    Reward(good=(1.0, 0.9, 0.81), bad=0.0)
    >>> Reward(values=[0, 1, 3])
    Reward(values=(0.0, 1.0, 3.0), factor=1.0)
    """

    good: PerStage = Field(default=1.0, description="Reward of a good outcome.")
    bad: PerStage = Field(default=0.0, description="Reward of a bad outcome.")
    values: Annotated[tuple[Number, ...], FirstError()] | None = Field(
        default=None, description="Value of each class; all other outcomes are numbers."
    )
    factor: PerStage = Field(
        default=1.0,
        description="Multiplies the value of an outcome: one number, or one per stage.",
    )
    cap: PositiveNumber | None = Field(
        default=None,
        description="Largest value of a survival time: later times count as this one.",
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """Fields of the form in use: good and bad, or those of other outcomes."""
        return VALUE_KEYS if self.model_fields_set & set(VALUE_KEYS) else OUTCOME_KEYS

    @property
    def per_stage(self) -> tuple[str, ...]:
        """Fields of the form in use that may have a number per stage."""
        return ("factor",) if self.keys is VALUE_KEYS else OUTCOME_KEYS

    @model_validator(mode="before")
    @classmethod
    def _check_form(cls, tree: Any) -> Any:
        if isinstance(tree, Mapping) and any(key in tree for key in VALUE_KEYS):
            for key in OUTCOME_KEYS:
                if key in tree:
                    rule = f"must be left out: the keys are {', '.join(VALUE_KEYS)}"
                    refuse(rule, found=tree[key], at=(key,))
        return tree

    @model_serializer(mode="wrap")
    def _form_only(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if key in self.keys}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for key, value in super().__repr_args__():
            if key in self.keys and value is not None:
                yield key, value


_PRIORS: dict[str, type[PriorTable]] = {
    prior.model_fields["kind"].default if "kind" in prior.model_fields else "beta": prior
    for prior in get_args(AnyPrior)
}


def _prior_of(value: object) -> PriorTable:
    """Read a prior, or the table of one, whose `kind` may be left out for beta."""
    # tables of files first: to find out whether a dict is a model, or a Mapping, is slow
    if type(value) is not dict:
        if isinstance(value, PriorTable):
            return value
        if not isinstance(value, Mapping):
            return BetaBernoulli.model_validate(value)
    kind = value.get("kind", "beta")
    if not isinstance(kind, str) or kind not in _PRIORS:
        refuse(f"must be one of {', '.join(_PRIORS)}", found=kind, at=("kind",))
    prior = _PRIORS[kind]
    if prior is BetaBernoulli:
        return prior.model_validate({key: value[key] for key in value if key != "kind"})
    for key in value:
        if key not in prior.model_fields:
            rule = f"must be left out: the keys are {', '.join(prior.model_fields)}"
            refuse(rule, found=value[key], at=(key,))
    return prior.model_validate(value)


# pydantic's own unions tell the errors of every member, or put a tag into the place of an error
Prior = Annotated[AnyPrior, CheckedAs(_prior_of, AnyPrior)]

# optional fields of arms and rewards: where they belong
_LEFT_OUT = {
    "values": "must be left out: values are for classes, the prior is {}",
    "cap": "must be left out unless outcomes are survival times, the prior is {}",
    "noise_sd": "must be left out unless the prior is normal",
    "drift_sd": "must be left out unless the prior is normal",
    "range": "must be left out unless outcomes are numbers",
    "terminal": "must be left out: tables of last rewards are for good and bad outcomes",
}


class Arm(Frozen):
    """An option of the problem: name, prior and rewards.

    Examples
    --------
    >>> from decobandit import Arm, BetaBernoulli
    >>> Arm(name="blue", prior=BetaBernoulli(2, 8)).prior.good
    2.0
    """

    name: Name = Field(description="Printable, no blank at either end; unique in a problem.")
    prior: Prior = Field(
        default=FLAT_PRIOR,
        description="Prior of an outcome model; by default uniform on the success probability.",
    )
    priors: dict[Name, Prior] | None = Field(
        default=None,
        description="Priors by segment, of the model of prior, which holds in all other segments.",
    )
    reward: Reward = Field(
        default=Reward(),
        description="By default 1 if good, 0 if bad, and the value of any other outcome.",
    )
    noise_sd: PositiveNumber | None = Field(
        default=None,
        description="Standard deviation of normal outcomes around the mean; required for them.",
    )
    drift_sd: NotNegative | None = Field(
        default=None,
        description="Standard deviation of the step that a normal mean takes after every stage, "
        "whether the arm is pulled or not: a random walk.",
    )
    range: tuple[Number, Number] | None = Field(
        default=None,
        description="Lowest and highest plausible measurement or count. A trial refuses others "
        "unless they are confirmed.",
    )
    available: Windows | None = Field(
        default=None,
        description="Stages at which it can be pulled, [from, to) or several such windows; it can "
        "be deployed after them.",
    )
    cost: PerStage | None = Field(
        default=None,
        description="Cost of a pull, paid from the budget: one number, or one per stage.",
    )
    uses: Uses | None = Field(
        default=None, description="Amount of each resource that a pull uses; 0 if not named."
    )
    terminal: TerminalTable | None = Field(
        default=None, description="Last rewards by the final state; see terminal_table."
    )

    def is_available(self, horizon: int) -> NDArray[np.bool_]:
        """Whether the arm can be pulled at each stage, (horizon,)."""
        inside = np.zeros(horizon, np.bool_)
        for first, end in ((0, horizon),) if self.available is None else self.available:
            inside[first:end] = True
        return inside

    @model_validator(mode="after")
    def _check_fit(self) -> Self:
        if self.cost is not None and np.min(self.cost, initial=0.0) < 0.0:
            refuse("must be zero or more", found=self.cost, at=("cost",))
        self._check_priors()
        usual = (self.noise_sd, self.drift_sd, self.range) == (None, None, None)
        if type(self.prior) is BetaBernoulli and self.reward.keys is OUTCOME_KEYS and usual:
            return self
        _check_reward(self)
        for name, rule in _LEFT_OUT.items():
            at = (name,) if name in type(self).model_fields else ("reward", name)
            value = getattr(self if len(at) == 1 else self.reward, name, None)
            if value is not None and name not in self.prior.arm_fields:
                refuse(rule.format(self.prior.kind), found=value, at=at)
        if self.range is not None and not self.range[0] < self.range[1]:
            rule = "must be the lowest and the highest plausible outcome, in this order"
            refuse(rule, found=self.range, at=("range",))
        self.prior.check_arm(self)
        return self

    def _check_priors(self) -> None:
        for name, prior in (self.priors or {}).items():
            if type(prior) is not type(self.prior):
                rule = f"must be of the kind of the arm's prior, {self.prior.kind}"
                refuse(rule, found=prior.kind, at=("priors", name, "kind"))
            prior.check_arm(self)

    @property
    def restless(self) -> bool:
        """Whether the arm also moves while it is not pulled."""
        return self.prior.restless or bool(self.drift_sd)

    @property
    def beta(self) -> BetaBernoulli:
        """Beta prior of a binary arm; a ValueError for any other outcome model."""
        if not isinstance(self.prior, BetaBernoulli):
            raise InvalidArgument(f"{self.name}: {NOT_YET.format(self.prior.kind)}")
        return self.prior


def _check_reward(arm: Arm) -> None:
    """Refuse rewards of another form than the prior needs; fill in the default."""
    prior, reward = arm.prior, arm.reward
    counted = reward.keys is OUTCOME_KEYS
    if isinstance(prior, BetaBernoulli):
        if not counted:
            rule = "must have good and bad: values and factor are for other outcomes"
            refuse(rule, found=reward.model_dump(), at=("reward",))
    elif counted:
        if "reward" in arm.model_fields_set and reward != Reward():
            rule = f"must have a factor, not good and bad: the prior is {prior.kind}"
            refuse(rule, found=reward.model_dump(), at=("reward",))
        object.__setattr__(arm, "reward", Reward(factor=1.0))


def model_of(arm: Arm) -> ArmModel:
    """Return the outcome model of an arm."""
    return arm.prior.arm_model(arm)


def terminal_table(horizon: int, value: Callable[[int, int], float]) -> Table:
    """Return the table of last rewards of an arm, for `Arm(terminal=...)`.

    Parameters
    ----------
    horizon : int
        That of the problem.
    value : callable
        `value(good, bad)` is the last reward of an arm with these outcomes.

    Returns
    -------
    tuple of tuple of float
        Row n, for n = 0 to `horizon` pulls, has one number for each of 0 to n good outcomes.

    Examples
    --------
    >>> from decobandit.problem import terminal_table
    >>> terminal_table(2, lambda good, bad: good - bad)
    ((0.0,), (-1.0, 1.0), (-2.0, 0.0, 2.0))
    """
    rows = range(horizon + 1)
    return tuple(tuple(float(value(g, n - g)) for g in range(n + 1)) for n in rows)


def numbered(arm: Arm, *, count: int) -> tuple[Arm, ...]:
    """Return copies of an arm, named name-1 to name-count, that share its tables."""
    # model_copy rather than Arm(...): a table is neither checked nor stored once per copy
    return tuple(arm.model_copy(update={"name": f"{arm.name}-{i + 1}"}) for i in range(count))
