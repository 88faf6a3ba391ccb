"""Every pull of every simulated episode, kept where that is asked for.

    draw, episode   the draw of the parameters, and the episode among those that share it, from 0
    stage, arm      of the pull; arms by position
    outcome         as its kind has it: 1 good, 0 bad; where pulls are shared, good and pulls
    reward          what it earned. A deployed arm has no outcome, and earns by its true mean
    truth           true success probability, or mean, of the arm in this draw
    weight          of the draw, 1 on average; where priors are nearly certain, weights differ

The mean over draws of weight times the reward of their episodes is the estimate `plain`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..policies.kernels.episodes import Episodes
from ..problem import Problem
from ..support import Floats, Ints, refuse_over

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64]
BYTES_OF_ROW = 160.0  # the rows, their parts, and both in another order


class Drawn(Protocol):
    """What is played: so many draws with so many episodes each."""

    problem: Problem
    draws: int
    per_draw: int


class PullRecord:
    """The pulls of one policy, added in any order, by any number of threads."""

    def __init__(self, world: Drawn) -> None:
        problem = world.problem
        most = min(problem.pulls_per_stage, problem.n_arms)
        rows = float(world.draws) * world.per_draw * problem.stages * most
        refuse_over(BYTES_OF_ROW * rows, f"{rows:.0f} pulls kept", "keep fewer draws")
        self._per_draw = world.per_draw
        self._parts: list[dict[str, Column]] = []

    def add(self, episode: Ints, stage: Ints, arm: Ints, **columns: Floats | Ints) -> None:
        """Some pulls; episodes are numbered through all draws."""
        self._parts.append({"episode": episode, "stage": stage, "arm": arm, **columns})

    def add_actions(
        self, first: int, episodes: Episodes, stage: int, good: Floats, bad: Floats, deployed: bool
    ) -> None:
        """The actions of a block: its first episode and stage, rewards (K, B) of its stages."""
        e, b, i = np.nonzero(episodes.actions >= 0)
        action = episodes.actions[e, b, i].astype(np.int64)
        arm, outcome = action >> 1, (action & 1).astype(float)
        p = episodes.p[e, arm]
        chance = p if deployed else outcome
        self.add(
            first + e, stage + b, arm, outcome=np.full(e.shape, np.nan) if deployed else outcome,
            reward=bad[arm, b] + (good - bad)[arm, b] * chance, truth=p,
        )  # fmt: skip

    def columns(self, weights: Floats) -> dict[str, Column]:
        """All pulls, episode by episode and stage by stage; weights (draws,)."""
        joined = {
            name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]
        }
        order = np.lexsort((joined["stage"], joined["episode"]))
        rows = {name: column[order] for name, column in joined.items()}
        draw, episode = np.divmod(rows.pop("episode"), self._per_draw)
        return {"draw": draw, "episode": episode, **rows, "weight": weights[draw]}
