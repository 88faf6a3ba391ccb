"""One arm: its prior, what its outcomes earn, its last rewards.

Descriptions of fields are read in the documents of the API, too. Other descriptions of an arm
(files, requests, studies) reuse these tables: nothing is written twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, Union, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from ..support import refuse
from .fields import FirstError, Name, Number, PerStage, PositiveNumber, Table, TerminalTable
from .model_base import Frozen
from .models.base import ArmModel
from .models.bernoulli import BetaBernoulli
from .models.categorical import DirichletCategorical
from .models.markov import MarkovArm
from .models.normal import NormalNormal
from .models.poisson import GammaPoisson

# an outcome model is registered here: `kind` in files is that of its prior
AnyPrior = BetaBernoulli | DirichletCategorical | NormalNormal | GammaPoisson | MarkovArm

FLAT_PRIOR = BetaBernoulli(1, 1)
NOT_YET = "not yet for {} arms: only for good and bad outcomes"


class Reward(Frozen):
    """What an outcome earns: one number, or a sequence with one number per stage.

    Parameters
    ----------
    good, bad : float or sequence of float
        Reward of a good outcome (default 1) and of a bad one (default 0).

    Examples
    --------
    >>> from decobandit import Reward
    >>> Reward(good=[1.0, 0.9, 0.81])
    Reward(good=(1.0, 0.9, 0.81), bad=0.0)
    """

    per_stage: ClassVar[tuple[str, ...]] = ("good", "bad")  # fields with a number per stage

    good: PerStage = Field(default=1.0, description="Of a good outcome.")
    bad: PerStage = Field(default=0.0, description="Of a bad outcome.")


class Payoff(Frozen):
    """What outcomes other than good or bad earn: their value times a factor, which is 1.

    Parameters
    ----------
    values : sequence of float, optional
        Of classes: the value of each. Other outcomes are numbers, their own value.
    factor : float or sequence of float
        What the value of an outcome is multiplied by: one number, or one per stage.

    Examples
    --------
    >>> from decobandit import Payoff
    >>> Payoff(values=[0, 1, 3]).factor
    1.0
    """

    per_stage: ClassVar[tuple[str, ...]] = ("factor",)

    values: Annotated[tuple[Number, ...], FirstError()] | None = Field(
        default=None, description="Of classes, one each."
    )
    factor: PerStage = Field(default=1.0, description="Of the value of an outcome.")


@dataclass(frozen=True, eq=False)
class OneOf:
    """Annotation of a type: a member, or a table that `choose` gives a member for.

    Errors have the places of one member: pydantic's own unions tell the errors of every member, or
    put a tag into the place of an error.
    """

    members: tuple[type[BaseModel], ...]
    choose: Callable[[Mapping[str, Any]], tuple[type[BaseModel], Mapping[str, Any]]]
    usual: type[BaseModel]  # its errors are worded as anywhere else

    def _check(self, value: object) -> BaseModel:
        # tables of files first: whether a dict is a model, or a Mapping, takes long to find out
        if type(value) is not dict:
            if isinstance(value, self.members):
                return value
            if not isinstance(value, Mapping):
                return self.usual.model_validate(value)
        member, table = self.choose(value)
        if member is not self.usual:
            unknown = [key for key in table if key not in member.model_fields]
            if unknown:
                rule = f"must be left out: the keys are {', '.join(member.model_fields)}"
                refuse(rule, found=table[unknown[0]], at=(unknown[0],))
        return member.model_validate(table)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        union = handler.generate_schema(Union[self.members])  # noqa: UP007
        return core_schema.no_info_plain_validator_function(self._check, metadata={"union": union})

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(core["metadata"]["union"])


_PRIORS: dict[str, type[BaseModel]] = {
    prior.model_fields["kind"].default if "kind" in prior.model_fields else "beta": prior
    for prior in get_args(AnyPrior)
}


def _prior_class(table: Mapping[str, Any]) -> tuple[type[BaseModel], Mapping[str, Any]]:
    kind = table.get("kind", "beta")
    if not isinstance(kind, str) or kind not in _PRIORS:
        refuse(f"must be one of {', '.join(_PRIORS)}", found=kind, at=("kind",))
    if kind == "beta":  # may be left out: the class has no such field
        return BetaBernoulli, {key: value for key, value in table.items() if key != "kind"}
    return _PRIORS[kind], table


def _reward_class(table: Mapping[str, Any]) -> tuple[type[BaseModel], Mapping[str, Any]]:
    return (Payoff if Payoff.model_fields.keys() & table.keys() else Reward), table


Prior = Annotated[AnyPrior, OneOf(get_args(AnyPrior), _prior_class, BetaBernoulli)]
ArmReward = Annotated[Reward | Payoff, OneOf((Reward, Payoff), _reward_class, Reward)]

# optional fields of arms and rewards: where they belong
_LEFT_OUT = {
    "values": "must be left out: values are for classes, the prior is {}",
    "noise_sd": "must be left out unless the prior is normal",
    "range": "must be left out unless outcomes are measurements or counts",
    "terminal": "must be left out: tables of last rewards are for good and bad outcomes",
}


class Arm(Frozen):
    """One arm.

    Parameters
    ----------
    name : str
        Printable, no blank at either end; unique in a problem.
    prior : BetaBernoulli, DirichletCategorical, NormalNormal, GammaPoisson or MarkovArm
        Of the success probability, uniform by default; or of other outcomes than good or bad.
    reward : Reward or Payoff
        Of an outcome; 1 for a good one and 0 for a bad one by default. A `Payoff` where outcomes
        are not good or bad.
    noise_sd : float, optional
        Of normal outcomes, and needed there: their standard deviation around the arm's mean.
    range : tuple of two float, optional
        Of measurements and counts: lowest and highest plausible outcome of a pull. A trial refuses
        others unless they are confirmed.
    terminal : table, optional
        Last rewards by the final state of the arm; see `terminal_table`.

    Examples
    --------
    >>> from decobandit import Arm, BetaBernoulli
    >>> Arm(name="blue", prior=BetaBernoulli(2, 8)).prior.good
    2.0
    """

    name: Name = Field(description="Printable, no blank at either end; unique.")
    prior: Prior = Field(default=FLAT_PRIOR, description="Uniform where it is left out.")
    reward: ArmReward = Field(default=Reward(), description="1 and 0 where it is left out.")
    noise_sd: PositiveNumber | None = Field(default=None, description="Of normal outcomes.")
    range: tuple[Number, Number] | None = Field(
        default=None, description="Lowest and highest plausible measurement or count."
    )
    terminal: TerminalTable | None = Field(default=None, description="Table of last rewards.")

    @model_validator(mode="after")
    def _check_fit(self) -> Self:
        usual = self.noise_sd is None and self.range is None
        if type(self.prior) is BetaBernoulli and type(self.reward) is Reward and usual:
            return self
        _check_reward(self)
        for name, rule in _LEFT_OUT.items():
            at = (name,) if name in type(self).model_fields else ("reward", name)
            value = getattr(self if len(at) == 1 else self.reward, name, None)
            if value is not None and name not in self.prior.arm_fields:
                refuse(rule.format(getattr(self.prior, "kind", "beta")), found=value, at=at)
        if self.range is not None and not self.range[0] < self.range[1]:
            rule = "must be the lowest and the highest plausible outcome, in this order"
            refuse(rule, found=self.range, at=("range",))
        self.prior.check_arm(self)
        return self

    @property
    def beta(self) -> BetaBernoulli:
        """The prior of good and bad outcomes; a ValueError where there are others."""
        if not isinstance(self.prior, BetaBernoulli):
            raise ValueError(f"{self.name}: {NOT_YET.format(self.prior.kind)}")
        return self.prior

    @property
    def outcome_reward(self) -> Reward:
        """The rewards of good and bad outcomes; a ValueError where there are others."""
        assert self.beta
        assert isinstance(self.reward, Reward)
        return self.reward


def _check_reward(arm: Arm) -> None:
    """Rewards of the form that the prior asks for; the usual one where none is given."""
    prior, reward = arm.prior, arm.reward
    if isinstance(prior, BetaBernoulli):
        if isinstance(reward, Payoff):
            rule = "must have good and bad: values and factor are for other outcomes"
            refuse(rule, found=reward.model_dump(), at=("reward",))
        return
    if isinstance(reward, Reward):
        if "reward" in arm.model_fields_set and reward != Reward():
            rule = f"must have a factor, not good and bad: the prior is {prior.kind}"
            refuse(rule, found=reward.model_dump(), at=("reward",))
        object.__setattr__(arm, "reward", Payoff())


def model_of(arm: Arm) -> ArmModel:
    """Return the outcome model of an arm."""
    return arm.prior.arm_model(arm)


def terminal_table(horizon: int, value: Callable[[int, int], float]) -> Table:
    """The table of last rewards of an arm, for `Arm(terminal=...)`.

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
    >>> from decobandit import terminal_table
    >>> terminal_table(2, lambda good, bad: good - bad)
    ((0.0,), (-1.0, 1.0), (-2.0, 0.0, 2.0))
    """
    rows = range(horizon + 1)
    return tuple(tuple(float(value(g, n - g)) for g in range(n + 1)) for n in rows)


def numbered(arm: Arm, *, count: int) -> tuple[Arm, ...]:
    """Copies of an arm, named name-1 to name-count, that share its tables."""
    # model_copy rather than Arm(...): a table is neither checked nor stored once per copy
    return tuple(arm.model_copy(update={"name": f"{arm.name}-{i + 1}"}) for i in range(count))
