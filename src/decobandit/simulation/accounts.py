"""Totals of episodes: sums over the draws of one policy, gap terms, every pull if requested.

The gap terms of a stage at prices mu, whatever the policy and the model of its arms:

    sum_k  max_a (Q_t(s_k; a) - a mu_t)  -  (Q_t(s_k; a_k) - a_k mu_t)

Q_t(s; a) is what a units of an arm are worth; with single pulls, Q(s; 1) - Q(s; 0) is the index.
Their expected sum over stages is the dual function at mu minus the value of the policy; within a
budget, together with the price of pulls that are not made and of money that is left.

Columns of kept pulls
    draw, episode   the draw of the parameters, and the episode among those that share it, from 0
    stage, arm      of the pull; arms by position
    outcome         as its model has it: 1 good, 0 bad; where pulls are shared, good and pulls
    reward          what it earned. A deployed arm has no outcome, and earns by its true mean
                    (where the horizon is random, an episode has the pulls up to an end that is
                    drawn for it; estimates weigh all stages by the probability that they are
                    played, which has the same mean and a smaller error)
    truth           true success probability, or mean, of the arm in this draw
    weight          of the draw, 1 on average; where priors are nearly certain, weights differ

The mean over draws of weight times the reward of their episodes is the estimate `plain`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arm import OneArmValues, exact_bytes
from ..joint import distinct_rows
from ..policies import Policy
from ..policies.kernels.episodes import Episodes
from ..prices import DualSolution, is_quick
from ..problem import Problem, States
from ..support import Floats, Ints, refuse_over
from .estimators import Estimate, Moments, Sample, usable
from .worlds import Chunk, World

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64]
BYTES_OF_ROW = 160.0  # the rows, their parts, and both in another order
Turns = Sequence[tuple[Policy, int]]  # policies, each with the stage at which the next takes over
MOST_GAP_BYTES = 256 * 2**20  # of tables for the gap terms of batches; beyond, they are not used


def turn_of(turns: Turns, stage: int) -> Policy:
    """Return the policy that plays a stage."""
    return next((policy for policy, until in turns if stage < until), turns[-1][0])


class Played:
    """Sums over the episodes of each draw, and moments over draws; `pulls`: every pull, too."""

    def __init__(self, world: World, gap: GapTerms | None, *, pulls: bool = False) -> None:
        self.world, self.gap = world, gap
        draws, stages = world.draws, world.problem.stages
        self.reward, self.mean_reward, self.predicted, self.best = np.zeros((4, draws))
        drawn = [world.chunk(i) for i in range(world.number_of_chunks)]
        self.means = np.concatenate([chunk.means for chunk in drawn])
        self.weights = np.concatenate([chunk.weights for chunk in drawn])
        self.controls, self.control_sizes = world.controls(self.means, self.weights)
        self.pulls = np.zeros(self.means.shape)  # of every arm, over all episodes of a draw
        refuse_over(
            40.0 * world.number_of_chunks * stages,
            "regret by stage of so many draws",
            "use fewer draws",
        )
        # sums of the regret after each stage, its square, and its products with controls
        self.moments = np.zeros((world.number_of_chunks, stages, 2 + self.controls.shape[1]))
        # sums of the gap terms of each draw; of those of each stage, and of their squares
        self.gap_sums = np.zeros(draws)
        self.gap_terms = np.zeros((world.number_of_chunks, *no_terms(world.problem).shape, 2))
        self.record = PullRecord(world) if pulls else None
        self.seconds = self.preparation_seconds = 0.0

    def book(
        self,
        chunk: Chunk,
        stages: slice,
        reward: Floats,
        predicted: Floats | None,
        means: Floats,
        terms: Floats | None,
        so_far: Floats,
    ) -> None:
        """Book what some stages earned, summed over the episodes of each draw.

        reward, predicted (draws,): by outcomes and by posterior means; None: as by true means,
        means (draws, stages). terms (draws, stages, terms): of the gap. so_far (draws,): regret
        before these stages, moved to after them.
        """
        world, mine = self.world, self.world.place(chunk.number)
        earned = means.sum(axis=1)
        self.reward[mine] += reward
        self.predicted[mine] += earned if predicted is None else predicted
        self.mean_reward[mine] += earned
        best = np.empty_like(means)
        for i, t in enumerate(range(stages.start, stages.stop)):
            if i == 0 or world.changes[t]:
                now = world.best(chunk.means, t)
            best[:, i] = now
        self.best[mine] += best.sum(axis=1)
        weights = chunk.weights[:, None]
        added = weights * best - weights * (means / world.per_draw)
        regret = so_far[:, None] + np.cumsum(added, axis=1)
        so_far[:] = regret[:, -1]
        moments = self.moments[chunk.number, stages]
        moments[:, 0] += regret.sum(axis=0)
        moments[:, 1] += (regret**2).sum(axis=0)
        moments[:, 2:] += np.einsum("dt,dq->tq", regret, self.controls[mine])
        if terms is not None:
            self.gap_sums[mine] += terms.sum(axis=(1, 2))
            weighted = terms * (weights / world.per_draw)[:, None]
            self.gap_terms[chunk.number, stages, :, 0] += weighted.sum(axis=0)
            self.gap_terms[chunk.number, stages, :, 1] += (weighted**2).sum(axis=0)

    def close(self, chunk: Chunk, pulls: Floats | Ints, last: Floats | float) -> None:
        """Book pulls of every arm (draws, K) and last rewards (draws,), summed over episodes."""
        mine = self.world.place(chunk.number)
        self.pulls[mine] += pulls
        for sums in (self.reward, self.mean_reward, self.predicted):
            sums[mine] += last

    def sample(self) -> Sample:
        """Average over the episodes of each draw."""
        share, world, gap = 1.0 / self.world.per_draw, self.world, self.gap
        expected = world.expected_best
        return Sample(
            reward=self.reward * share,
            mean_reward=self.mean_reward * share,
            predicted=None if world.truth is not None else self.predicted * share,
            best=None if expected is None else self.best,
            expected_best=expected,
            gap=None if gap is None or not gap.exact else self.gap_sums * share,
            upper_bound=None if gap is None else gap.value(),
            controls=self.controls,
            control_sizes=self.control_sizes,
            weights=self.weights,
            missed=world.missed(self.means, self.weights, self.pulls * share),
        )

    def regrets(self) -> list[Estimate]:
        """Return the regret after each stage, by a regression on the controls."""
        sums = self.moments.sum(axis=0)
        used = usable(self.controls, self.control_sizes)
        controls = Moments.of(self.controls[:, used])
        sums = sums[:, [0, 1, *(2 + j for j in used)]]
        return [controls.regress(row[0], row[1], row[2:])[1] for row in sums]


def no_terms(problem: Problem) -> Floats:
    """Shortfall, congestion and, where pulls may wait, what is unspent: zeros (stages, terms)."""
    return np.zeros((problem.stages, 2 + problem.may_wait))


class GapTerms:
    """Gap terms at the prices of a solution, for arms of any model and any size of batches."""

    def __init__(self, solution: DualSolution) -> None:
        problem = self.problem = solution.problem
        self.prices, self.money_price = solution.prices, solution.budget_price or 0.0
        self.resource_prices = solution.resource_prices
        # whether the terms add up to the gap; on a grid of states, only nearly
        self.exact = all(group.model.finite for group in problem.groups)
        self.batches = problem.repeat
        grid = 0 if self.batches and self.exact else None
        priced = problem.charged(self.money_price, self.resource_prices)
        self.tables = OneArmValues(priced, self.prices, grid=grid)

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether terms add up to the gap, by tables of all states that are not too large."""
        if not all(group.model.finite for group in problem.groups):
            return False
        if not problem.is_binary:
            return is_quick(problem)
        return not problem.repeat or exact_bytes(problem) <= MOST_GAP_BYTES

    def value(self) -> float:
        return self.tables.value()

    def terms(self, stage: int, states: States, allocation: Ints) -> Floats:
        """Return shortfall, congestion and what is unspent of pulls (E, K) from these states.

        (E, terms). Shortfall: units that an arm is not worth at the price; congestion: units that
        it would be. Unspent, with a budget or resources: units that are not pulled, resources that
        are not used, and at the last stage money that is left, at their prices.
        """
        totals = np.zeros((len(allocation), 2 + self.problem.may_wait))
        for k, group in enumerate(self.problem.groups):
            stats, pulls = states.of_group(k), allocation[:, list(group.members)]
            net = self.net(stage, k, stats)
            units = pulls // self.problem.unit if stage < self.problem.horizon else pulls
            loss = net.max(axis=-1) - np.take_along_axis(net, units[..., None], axis=-1)[..., 0]
            more = units > net.argmax(axis=-1)
            totals[:, 0] += np.where(more, loss, 0.0).sum(axis=1)
            totals[:, 1] += np.where(more, 0.0, loss).sum(axis=1)
        if self.problem.may_wait:
            totals[:, 2] = self.unspent(stage, allocation, states.left)
        return totals

    def unspent(self, stage: int, pulls: Floats | Ints, left: Floats) -> Floats:
        """Return the price of what pulls (E, K) leave: units, resources; at the end money, (E,).

        left (E,): money before this stage.
        """
        problem = self.problem
        if stage >= problem.horizon:
            return np.zeros(len(pulls))
        lost = self.prices[stage] * (problem.pulls[stage] - pulls.sum(axis=1) / problem.unit)
        if self.resource_prices is not None:
            spare = problem.usable[stage] - pulls @ problem.uses
            lost += np.maximum(spare, 0.0) @ self.resource_prices[stage]
        if problem.budget is not None and stage == problem.horizon - 1:
            lost += self.money_price * (left - pulls @ problem.costs[stage])
        return np.asarray(np.maximum(lost, 0.0))  # below only by rounding

    def net(self, stage: int, k: int, stats: Floats) -> Floats:
        """Return the worth of units less their price, (..., width) -> (..., units + 1)."""
        # statistics of arms that move at rest need not be whole numbers, and tables are at hand
        counted = self.exact and not self.problem.is_restless
        rows = stats.reshape(-1, stats.shape[-1])
        first, place = distinct_rows(rows) if counted else (np.arange(len(rows)),) * 2
        rows = rows[first]
        if self.batches and stage < self.problem.horizon:
            worth = self.tables.unit_values(stage, k, rows)
        else:
            worth = np.stack([np.zeros(len(rows)), self.index(stage, k, rows)], axis=-1)
        net = worth - self.prices[stage] * np.arange(worth.shape[-1])
        return np.asarray(net[place].reshape(*stats.shape[:-1], -1))

    def index(self, stage: int, k: int, stats: Floats) -> Floats:
        """Return what a pull of arms of a group is worth before its price, (N, width) -> (N,)."""
        group = self.tables.problem.groups[k]
        if stage >= self.problem.horizon:
            rewards = group.reward_base[stage] + group.reward_factor[stage] * group.model.mean(
                stats
            )
            return np.asarray(rewards)
        return self.tables.index(stage, k, stats)


class PullRecord:
    """Pulls of one policy, added in any order by any number of threads."""

    def __init__(self, world: World) -> None:
        problem = world.problem
        most = min(problem.pulls_per_stage, problem.n_arms)
        rows = float(world.draws) * world.per_draw * problem.stages * most
        refuse_over(BYTES_OF_ROW * rows, f"{rows:.0f} pulls kept", "keep fewer draws")
        self._per_draw, self._survival = world.per_draw, problem.survival
        self._ends = world.ends()
        self._parts: list[dict[str, Column]] = []

    def add(self, episode: Ints, stage: Ints, arm: Ints, **columns: Floats | Ints) -> None:
        self._parts.append({"episode": episode, "stage": stage, "arm": arm, **columns})

    def add_actions(
        self,
        first: int,
        episodes: Episodes,
        stage: int,
        base: Floats,
        factor: Floats,
        deployed: bool,
    ) -> None:
        """Keep the actions of a block: its first episode and stage, rewards (K, B)."""
        e, b, i = np.nonzero(episodes.actions >= 0)
        action = episodes.actions[e, b, i].astype(np.int64)
        arm, outcome = action >> 1, (action & 1).astype(float)
        p = episodes.p[e, arm]
        chance = p if deployed else outcome
        self.add(
            first + e,
            stage + b,
            arm,
            outcome=np.full(e.shape, np.nan) if deployed else outcome,
            reward=base[arm, b] + factor[arm, b] * chance,
            truth=p,
        )

    def columns(self, weights: Floats) -> dict[str, Column]:
        """Return all pulls by episode, stage and arm, up to drawn ends; weights (draws,)."""
        names: Sequence[str] = list(self._parts[0])
        joined = {name: np.concatenate([part[name] for part in self._parts]) for name in names}
        played = joined["stage"] < self._ends[joined["episode"]]
        joined = {name: column[played] for name, column in joined.items()}
        joined["reward"] = joined["reward"] / self._survival[joined["stage"]]
        order = np.lexsort((joined["arm"], joined["stage"], joined["episode"]))
        rows = {name: column[order] for name, column in joined.items()}
        draw, episode = np.divmod(rows.pop("episode"), self._per_draw)
        return {"draw": draw, "episode": episode, **rows, "weight": weights[draw]}
