"""Priors of other outcomes than good or bad: classes, measurements, counts, a table of states.

Which of them an arm has is said by `kind`; a prior without one is a `Beta`. What can be observed of
an arm of each kind, and what follows from it: `problem/models/`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ..support import refuse
from .fields import Chance, FirstError, FirstErrorOfTable, Number, PositiveNumber, PriorWeight, Word
from .model_base import Frozen, plain_init

MOST_CLASSES = 20
MOST_OWN_STATES = 10_000
SUM_TOLERANCE = 1e-9  # of chances that are to sum to 1


class Categorical(Frozen):
    """Dirichlet prior on the chances of classes: a pseudo-count of each.

    Parameters
    ----------
    counts : sequence of float
        Pseudo-counts, 1e-12 or more, one per class, at least two.

    Examples
    --------
    >>> from decobandit import Arm, Categorical, Payoff
    >>> arm = Arm(name="a", prior=Categorical([1, 1, 1]), reward=Payoff(values=[0, 1, 3]))
    >>> arm.prior.counts
    (1.0, 1.0, 1.0)
    """

    kind: Literal["categorical"] = "categorical"
    counts: Annotated[tuple[PriorWeight, ...], FirstError()] = Field(
        description="Pseudo-counts of the classes.",
        json_schema_extra={"minItems": 2, "maxItems": MOST_CLASSES},
    )

    @plain_init
    def __init__(self, counts: Any, *, kind: Any = "categorical") -> None:
        super().__init__(kind=kind, counts=counts)

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if not 2 <= len(self.counts) <= MOST_CLASSES:
            rule = f"must be 2 to {MOST_CLASSES} pseudo-counts"
            refuse(rule, found=self.counts, at=("counts",))
        return self


class Normal(Frozen):
    """Normal prior on the mean of an arm's outcomes, which are normal with a known `noise_sd`.

    Parameters
    ----------
    mean, sd : float
        Of the arm's mean; the standard deviation is positive.

    Examples
    --------
    >>> from decobandit import Arm, Normal
    >>> Arm(name="a", prior=Normal(mean=0, sd=1), noise_sd=2).noise_sd
    2.0
    """

    kind: Literal["normal"] = "normal"
    mean: Number = Field(description="Expected mean of the outcomes.")
    sd: PositiveNumber = Field(description="Standard deviation of that mean.")

    @plain_init
    def __init__(self, mean: float, sd: float, *, kind: Any = "normal") -> None:
        super().__init__(kind=kind, mean=mean, sd=sd)


class Gamma(Frozen):
    """Gamma prior on the mean of Poisson counts: like `shape` events seen in `rate` pulls.

    Parameters
    ----------
    shape, rate : float
        The expected count of a pull is shape / rate; both 1e-12 or more.

    Examples
    --------
    >>> from decobandit import Arm, Gamma
    >>> Arm(name="a", prior=Gamma(shape=2, rate=1)).prior.shape
    2.0
    """

    kind: Literal["gamma"] = "gamma"
    shape: PriorWeight = Field(description="Events seen before, as if.")
    rate: PriorWeight = Field(description="Pulls in which they were seen, as if.")

    @plain_init
    def __init__(self, shape: float, rate: float, *, kind: Any = "gamma") -> None:
        super().__init__(kind=kind, shape=shape, rate=rate)


class OwnState(Frozen):
    """A state of an arm of your own: what a pull earns, and where it leads.

    Parameters
    ----------
    mean : float
        Expected reward of a pull.
    next : mapping
        By the name of an outcome: its chance, and the state that follows. Chances sum to 1.

    Examples
    --------
    >>> from decobandit import OwnState
    >>> OwnState(mean=0.5, next={"hit": (0.5, "up"), "miss": (0.5, "down")}).mean
    0.5
    """

    mean: Number = Field(description="Expected reward of a pull.")
    next: Annotated[dict[Word, tuple[Chance, Word]], FirstErrorOfTable] = Field(
        description="By outcome: its chance, and the state that follows."
    )

    @model_validator(mode="after")
    def _check_chances(self) -> Self:
        total = math.fsum(chance for chance, _ in self.next.values())
        if abs(total - 1.0) > SUM_TOLERANCE:
            refuse("must have chances that sum to 1", found=total, at=("next",))
        return self


class OwnStates(Frozen):
    """An arm of your own: named states, and the chances of going from one to another by a pull.

    Parameters
    ----------
    first : str
        The state of an arm that has not been pulled.
    states : mapping
        By name, an `OwnState` or a table of `mean` and `next`.

    Examples
    --------
    >>> from decobandit import OwnStates
    >>> arm = OwnStates(
    ...     first="new",
    ...     states={
    ...         "new": {"mean": 0.5, "next": {"hit": (0.5, "good"), "miss": (0.5, "bad")}},
    ...         "good": {"mean": 0.8, "next": {"any": (1.0, "good")}},
    ...         "bad": {"mean": 0.2, "next": {"any": (1.0, "bad")}},
    ...     },
    ... )
    >>> sorted(arm.states)
    ['bad', 'good', 'new']
    """

    kind: Literal["states"] = "states"
    first: Word = Field(description="State of an arm that has not been pulled.")
    states: Annotated[dict[Word, OwnState], FirstErrorOfTable] = Field(
        description="The states by name."
    )

    def __hash__(self) -> int:
        return hash((self.first, tuple(self.states)))

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if len(self.states) > MOST_OWN_STATES:
            rule = f"must be at most {MOST_OWN_STATES} states"
            refuse(rule, found=len(self.states), at=("states",))
        _check_known(self.first, self.states, ("first",))
        for name, state in self.states.items():
            for outcome, (_, to) in state.next.items():
                _check_known(to, self.states, ("states", name, "next", outcome, 1))
        return self


def _check_known(name: str, states: Mapping[str, OwnState], at: tuple[int | str, ...]) -> None:
    if name not in states:
        refuse(f"must be one of the states: {', '.join(list(states)[:8])}", found=name, at=at)
