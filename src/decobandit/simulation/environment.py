"""A problem as a Gymnasium environment: one step is one stage. Needs the extra `gym`.

    import gymnasium
    import decobandit.simulation.environment
    env = gymnasium.make("decobandit/Bandit-v0", problem=problem)

The parameters of the arms are drawn from the prior at every reset, so the expected return of a
policy in the environment is its value in the problem: bounds and exact values apply to any agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ..policies import GreedyPolicy
from ..problem import Problem, States, check_problem, is_paid
from ..support import Floats, Ints, InvalidArgument
from .playing import EpisodeArms
from .worlds import World

ID = "decobandit/Bandit-v0"
Observation = dict[str, Any]


def register() -> None:
    """Register the environment, once: on import of this module and by the entry point."""
    if ID not in gymnasium.registry:
        gymnasium.register(id=ID, entry_point=f"{__name__}:{BanditEnv.__name__}")


class BanditEnv(gymnasium.Env[Observation, Any]):
    """A bandit problem, played stage by stage.

    An observation is a table: `stage`, the number of stages so far; `statistics` (arms, width), the
    sufficient statistics of every arm; `action_mask` (arms,), 1 for arms that can be pulled and
    paid at this stage. With a budget there is also `left`, the money that is left.

    An action is an arm where a stage has one pull. In batches it is one arm per unit of pulls.
    Where a stage pulls several different arms it is one priority per arm, and the arms of highest
    priority are pulled. Where pulls need not all be made (a budget, resources), the action `arms`
    is no pull, and arms of negative priority are not pulled.

    The reward of a step is that of the stage. The last step adds the terminal rewards, and a
    deployment of the arms with the largest posterior mean. A random end is drawn at reset.

    problem: a `Problem`, or its table as in a problem file; by default 3 uniform arms and 20 pulls.
    `step` refuses an arm that cannot be pulled or paid with an `InvalidArgument`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, problem: Problem | Mapping[str, Any] | None = None) -> None:
        if problem is None:
            problem = Problem.uniform(3, 20)
        if isinstance(problem, Mapping):
            problem = Problem(**problem)
        self.problem = check_problem(problem)
        K, width = problem.n_arms, max(group.model.width for group in problem.groups)
        observed: dict[str, spaces.Space[Any]] = {
            "stage": spaces.Box(0, problem.horizon, (1,), np.int64),
            "statistics": spaces.Box(-np.inf, np.inf, (K, width), np.float64),
            "action_mask": spaces.MultiBinary(K),
        }
        if problem.budget is not None:
            observed["left"] = spaces.Box(-np.inf, problem.budget, (1,), np.float64)
        self.observation_space = spaces.Dict(observed)
        choices = K + problem.may_wait
        if problem.repeat:
            self.action_space: spaces.Space[Any] = spaces.MultiDiscrete([choices] * problem.units)
        elif problem.pulls_per_stage == 1:
            self.action_space = spaces.Discrete(choices)
        else:
            self.action_space = spaces.Box(-1.0, 1.0, (K,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw the parameters of the arms, their first states and the end."""
        super().reset(seed=seed)
        self._stage, self._spent = 0, 0.0
        self._end = int(np.sum(self.np_random.random() < self.problem.survival))
        self._end = min(max(self._end, 1), self.problem.horizon)
        drawn = int(self.np_random.integers(2**63))
        world = World(self.problem, draws=1, per_draw=1, seed=drawn, weighted=False)
        self._arms = EpisodeArms(world, world.chunk(0))
        return self._observation(), {"problem": self.problem.described()}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pull the arms of an action and return what they earn."""
        pulls = self._pulls(action)
        self._spent += float(pulls @ self.problem.costs[self._stage])
        reward = (
            self._arms.step(self._stage, pulls[None])[0, 0] / self.problem.survival[self._stage]
        )
        self._stage += 1
        ended = self._stage >= self._end
        if ended:  # terminal rewards, and those of a deployment of the largest posterior means
            reward += self._arms.last_rewards()[0]
            if self.problem.terminal is not None:
                states, end = States(self.problem, self._arms.stats), self.problem.horizon
                best = GreedyPolicy(self.problem).allocate_many(end, states)
                reward += self._arms.step(end, best)[0, 0]
        return self._observation(), float(reward), ended, False, {"pulls": pulls}

    # -- actions ------------------------------------------------------------------------------

    def _pulls(self, action: Any) -> Ints:
        """Return the pulls of every arm, (K,); refuse those that cannot be made."""
        problem, able = self.problem, self._mask().astype(bool)
        pulls = np.zeros(problem.n_arms + 1, dtype=np.int64)
        if not self.action_space.contains(action):
            raise InvalidArgument(
                f"action {action!r}; must be in {self.action_space}", field="action"
            )
        if isinstance(self.action_space, spaces.Box):
            return self._by_priority(np.asarray(action), able)
        np.add.at(pulls, np.atleast_1d(action), problem.unit)
        pulls = pulls[:-1]
        cost = float(pulls @ problem.costs[self._stage])
        if np.any(pulls[~able]) or not self._is_possible(pulls, cost):
            raise InvalidArgument(
                f"action {action!r} at stage {self._stage}: an arm cannot be pulled, or not be "
                "paid; `action_mask` has those that can",
                field="action",
            )
        return pulls

    def _by_priority(self, priority: Floats, able: Any) -> Ints:
        """Pull arms from the highest priority on, as long as they can be pulled and paid."""
        problem, pulls = self.problem, np.zeros(self.problem.n_arms, dtype=np.int64)
        for k in np.argsort(-priority, kind="stable"):
            if pulls.sum() == problem.pulls_per_stage or (problem.may_wait and priority[k] < 0.0):
                break
            pulls[k] = able[k]
            if not self._is_possible(pulls, float(pulls @ problem.costs[self._stage])):
                pulls[k] = 0
        return pulls

    def _is_possible(self, pulls: Ints, cost: float) -> bool:
        """Whether money and resources suffice for these pulls."""
        problem, left = self.problem, self._left()
        over = bool(problem.overdrawn(self._stage, pulls[None])[0])
        return not over and (left is None or bool(is_paid(cost, left)))

    def _left(self) -> float | None:
        return None if self.problem.budget is None else self.problem.budget - self._spent

    # -- observations -------------------------------------------------------------------------

    def _mask(self) -> Any:
        """Return 1 for arms that can be pulled and paid at this stage, (K,)."""
        if self._stage >= self._end:
            return np.zeros(self.problem.n_arms, np.int8)
        able = self.problem.available_at(self._stage)
        left = self._left()
        if left is not None:
            able = able & is_paid(self.problem.unit * self.problem.costs[self._stage], left)
        return able.astype(np.int8)

    def _observation(self) -> Observation:
        observation: Observation = {
            "stage": np.array([self._stage], np.int64),
            "statistics": self._arms.stats[0].copy(),
            "action_mask": self._mask(),
        }
        if self.problem.budget is not None:
            observation["left"] = np.array([self._left()])
        return observation


register()
