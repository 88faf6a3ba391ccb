"""One arm: its prior, what its outcomes earn, its last rewards.

Descriptions of fields are read in the documents of the API, too. Other descriptions of an arm
(files, requests, studies) reuse these tables: nothing is written twice.
"""

from collections.abc import Callable

from pydantic import Field

from .fields import Name, PerStage, PriorWeight, Table, TerminalTable
from .model_base import Frozen, plain_init


class Beta(Frozen):
    """Beta prior on an arm's success probability: pseudo-counts of good and bad outcomes.

    Parameters
    ----------
    good, bad : float
        Pseudo-counts, 1e-12 or more. `Beta(1, 1)` is the uniform prior.

    Raises
    ------
    InvalidProblem
        If a count is too small, or not a number.

    Examples
    --------
    >>> from decobandit import Beta
    >>> Beta(2, 8)
    Beta(good=2.0, bad=8.0)
    """

    good: PriorWeight = Field(description="Pseudo-count of good outcomes.")
    bad: PriorWeight = Field(description="Pseudo-count of bad outcomes.")

    @plain_init
    def __init__(self, good: float, bad: float) -> None:
        super().__init__(good=good, bad=bad)


FLAT_PRIOR = Beta(1, 1)


class Reward(Frozen):
    """What an outcome earns: one number, or a sequence with one number per stage.

    Parameters
    ----------
    good, bad : float or sequence of float
        Reward of a good outcome (default 1) and of a bad one (default 0).

    Raises
    ------
    InvalidProblem
        If a reward is not a finite number.

    Examples
    --------
    >>> from decobandit import Reward
    >>> Reward(good=[1.0, 0.9, 0.81])
    Reward(good=(1.0, 0.9, 0.81), bad=0.0)
    """

    good: PerStage = Field(default=1.0, description="Of a good outcome.")
    bad: PerStage = Field(default=0.0, description="Of a bad outcome.")


class Arm(Frozen):
    """One arm.

    Parameters
    ----------
    name : str
        Printable, no comma, no blank at either end; unique in a problem.
    prior : Beta
        Of the success probability; uniform by default.
    reward : Reward
        Of an outcome; 1 for a good one and 0 for a bad one by default.
    terminal : table, optional
        Last rewards by the final state of the arm; see `terminal_table`.

    Raises
    ------
    InvalidProblem
        If a value is not allowed.

    Examples
    --------
    >>> from decobandit import Arm, Beta
    >>> Arm(name="blue", prior=Beta(2, 8)).prior.good
    2.0
    """

    name: Name = Field(description="Printable, no comma, no blank at either end; unique.")
    prior: Beta = Field(default=FLAT_PRIOR, description="Uniform where it is left out.")
    reward: Reward = Field(default=Reward(), description="1 and 0 where it is left out.")
    terminal: TerminalTable | None = Field(default=None, description="Table of last rewards.")


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
