"""One episode as it was played: pulls, outcomes, and the index of every arm at each stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..problem import Problem
from ..problem.models.base import Outcome
from ..support import Card, Columns, Floats, Tables, Tabular, columns_of

Counts = npt.NDArray[np.int64]
Arms = tuple[int, ...]
Outcomes = tuple[Outcome, ...]


@dataclass(frozen=True, eq=False)
class Episode(Tabular):
    """The stages of one episode that have been played; of a trial under way these may be few.

    Tables of `to_frame`: `stages`; `pulls`, whose outcomes `read_outcomes` counts; `arms`, every
    arm at every stage.

    Arrays (stages, arms) describe the arms when the stage begins, before its pulls.

    Attributes
    ----------
    problem : Problem
        What was played.
    policy : str
        Name of the policy that pulled.
    upper_bound : float
        On the value of any policy.
    prices : array
        (stages,)
    pulled : tuple of tuple of int
        Per stage, positions of the arms.
    outcomes : tuple of tuple
        Per stage, True is good, others as their kind has them; empty at a deployment.
    good, bad : array
        (stages, arms) outcomes so far; none of arms of other kinds.
    expected_reward, value_of_information : array
        (stages, arms) the two terms of the index.
    truth : tuple of float or None
        Success probabilities or true means, where they are known.
    seed : int or None
        That the episode was drawn from.
    pulls : array
        (stages, arms) pulls so far.
    favourable : tuple of tuple of bool
        Per stage, whether an outcome was good, or counted at least what was expected.
    seen : tuple of tuple of str
        (stages, arms) what was observed so far, as states are written; empty where all outcomes are
        good or bad.

    Examples
    --------
    >>> from decobandit import Problem, follow
    >>> episode = follow(Problem.uniform(arms=3, horizon=5), "deco", rng=7)
    >>> episode.stages, episode.index.shape
    (5, (5, 3))
    """

    problem: Problem
    policy: str
    upper_bound: float
    prices: Floats
    pulled: tuple[Arms, ...]
    outcomes: tuple[Outcomes, ...]
    good: Counts
    bad: Counts
    expected_reward: Floats
    value_of_information: Floats
    truth: tuple[float, ...] | None = None
    seed: int | None = None
    pulls: Counts = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    favourable: tuple[tuple[bool, ...], ...] = ()
    seen: tuple[tuple[str, ...], ...] = ()

    @property
    def stages(self) -> int:
        """Stages played, the deployment included."""
        return len(self.pulled)

    @property
    def deployed(self) -> bool:
        """Whether the last stage is the deployment of an arm."""
        return self.stages > self.problem.horizon

    @cached_property
    def index(self) -> Floats:
        """What a pull of every arm is worth, (stages, arms)."""
        return self.expected_reward + self.value_of_information

    @cached_property
    def was_pulled(self) -> npt.NDArray[np.bool_]:
        """Whether an arm is pulled at a stage, (stages, arms)."""
        marks = np.zeros(self.index.shape, dtype=bool)
        for stage, arms in enumerate(self.pulled):
            marks[stage, list(arms)] = True
        return marks

    @cached_property
    def excess(self) -> Floats:
        """Index minus price, (stages, arms)."""
        return self.index - self.prices[:, None]

    @cached_property
    def shortfall(self) -> Floats:
        """What the pulled arms are worth less than the price, (stages,)."""
        return np.asarray(np.where(self.was_pulled, np.maximum(-self.excess, 0.0), 0.0).sum(axis=1))

    @cached_property
    def congestion(self) -> Floats:
        """What the arms that were left are worth more than the price, (stages,)."""
        return np.asarray(np.where(self.was_pulled, 0.0, np.maximum(self.excess, 0.0)).sum(axis=1))

    @cached_property
    def running_loss(self) -> Floats:
        """Shortfall and congestion up to and including each stage, (stages,)."""
        return np.cumsum(self.shortfall + self.congestion)

    def _card(self) -> Card:
        pulls, stages = self._pulls(), self._stages()
        costs = ("price", "running_loss")
        at_pulls = {name: [stages[name][t] for t in pulls["stage"]] for name in costs}
        return Card(
            f"Episode of {self.policy}: {self.problem.described()}",
            {"seed": self.seed, "stages played": self.stages},
            {**pulls, **at_pulls},
        )

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return {"stages": self._stages, "pulls": self._pulls, "arms": self._arms}

    def _stages(self) -> Columns:
        costs = ("shortfall", "congestion", "running_loss")
        own = {name: getattr(self, name) for name in costs}
        return {"stage": range(self.stages), "price": self.prices, **own}

    def _pulls(self) -> Columns:
        names = [arm.name for arm in self.problem.arms]
        return columns_of(  # a deployed arm has no outcome
            {"stage": stage, "arm": names[arm], "outcome": came}
            for stage, arms in enumerate(self.pulled)
            for arm, came in zip_longest(arms, self._plain_outcomes[stage])
        )

    @cached_property
    def _plain_outcomes(self) -> list[list[Outcome]]:
        """As files have them: numbers, or text where some are names."""
        named = any(isinstance(each, str) for came in self.outcomes for each in came)
        write = str if named else _number
        return [[write(each) for each in came] for came in self.outcomes]

    def _arms(self) -> Columns:
        stages, arms = self.index.shape
        own = ("expected_reward", "value_of_information", "index")
        counts = ("good", "bad") if self.problem.is_binary else ("pulls",)
        seen = {"seen": [text for row in self.seen for text in row]} if self.seen else {}
        return {
            "stage": np.repeat(np.arange(stages), arms),
            "arm": [arm.name for arm in self.problem.arms] * stages,
            **seen,
            **{name: getattr(self, name).ravel() for name in (*counts, *own)},
            "price": np.repeat(self.prices, arms),
            "pulled": self.was_pulled.ravel(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values; arms are named, arrays are lists of one row per stage."""
        names = [arm.name for arm in self.problem.arms]
        counts = ("good", "bad") if self.problem.is_binary else ("pulls",)
        arrays = {
            name: getattr(self, name).tolist()
            for name in (
                "prices",
                *counts,
                "expected_reward",
                "value_of_information",
                "index",
                "shortfall",
                "congestion",
                "running_loss",
            )
        }
        return {
            "policy": self.policy,
            "horizon": self.problem.horizon,
            "arms": names,
            "seed": self.seed,
            "truth": None if self.truth is None else list(self.truth),
            "version": __version__,
            "upper_bound": self.upper_bound,
            "deployed": self.deployed,
            "pulled": [[names[arm] for arm in arms] for arms in self.pulled],
            "outcomes": [[_number(each) for each in came] for came in self.outcomes],
            **({"seen": [list(row) for row in self.seen]} if self.seen else {}),
            **arrays,
        }

    def __repr__(self) -> str:
        lost = float(self.running_loss[-1]) if self.stages else 0.0
        return (
            f"Episode({self.policy}, {self.problem.n_arms} arms, {self.stages} stages: "
            f"shortfall {self.shortfall.sum():.4f} + congestion {self.congestion.sum():.4f} "
            f"= {lost:.4f})"
        )


def _number(outcome: Outcome) -> Outcome:
    return int(outcome) if isinstance(outcome, bool) else outcome
