"""Upper bounds that are the observed mean plus a bonus: a level of the stage times a width.

    g/n + level(t) width(n)        arms never pulled first

Where one pull is made per stage, episodes are played without tables (kernels/bound_play.py): these
would hold all states of all stages, of which an episode sees few.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from ..problem import TIE_SIGNS
from ..support import Floats
from .kernels.bound_play import play_bounds
from .kernels.episodes import Episodes
from .table import UNPULLED, BoundPolicy


class BonusPolicy(BoundPolicy):
    """Pulls the largest mean plus bonus; a subclass says what level and width are."""

    def level(self, stage: int) -> float:
        """Of all bonuses at a stage."""
        return 1.0

    @abstractmethod
    def width(self, n: Floats) -> Floats:
        """Of the bonus of arms with n pulls, n at least 1."""

    def upper_bound(self, stage: int, n: Floats, g: Floats) -> Floats:
        return np.asarray(g / n + self.level(stage) * self.width(n), dtype=np.float64)

    @property
    def has_loop(self) -> bool:
        return self.problem.pulls_per_stage == 1

    @cached_property
    def _widths(self) -> Floats:
        """By pulls, (horizon + 1,); 0 before the first."""
        return np.append(0.0, self.width(np.arange(1.0, self.problem.horizon + 1.0)))

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Play stages first..last-1 of all episodes."""
        group = self.problem.groups[0]
        levels = np.array([self.level(stage) for stage in range(first, last)])
        span = float(group.reward_good[first] - group.reward_bad[first])
        play_bounds(
            episodes, levels, self._widths, UNPULLED, self._tolerance / span,
            *TIE_SIGNS[self.ties], rng,
        )  # fmt: skip
