"""Arms that move at rest: ties by the shares of the relaxed solution, and Whittle's index.

Fixed priorities between states whose index is the price are known to fail with many arms: the
relaxed solution pulls a part x_t(s) of the arms in each of them. DeCo keeps to these parts
(`kernels/index_play.py`).

Whittle's index of a state is the price of a pull at which pulling and resting are equally good in
the long run, by the average reward per stage; Whittle, Restless bandits, 1988. It is defined where
states, once they are not worth a pull, stay so as the price rises: the chain is *indexable*. The
price rises from where all states are worth a pull. While the set of those that are worth it is A,
gain g and bias h of pulling in A are linear in the price,

    h = r_A - price 1_A - g + P_A h        advantage = r1 - price - r0 + (P1 - P0) h

so that the next price at which a state leaves A follows from two linear systems. The chain is
indexable if no advantage outside A is ever positive.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arm import ChainStates, long_run_chain
from ..problem import DEFAULT_TIES, ArmModel, Problem, States, TieRule
from ..support import Floats, Ints, Unsupported
from .index_policy import IndexPolicy
from .kernels.index_play import mix_ties
from .requirements import restless_arms, steady_rewards

TIE_WIDTH = 1e-3  # an index this close to the price is a tie, in units of the largest reward
ROUNDING = 1e-9  # of advantages, in units of the largest reward


def chain_places(chains: ChainStates, states: States) -> tuple[Ints, Floats]:
    """Return states of every arm among those of all groups, and their weights, (E, K, J)."""
    groups = states.problem.groups
    parts = [chains.places(k, states.of_group(k)) for k in range(len(groups))]
    shape = (*states.stats.shape[:2], max(code.shape[-1] for code, _ in parts))
    codes, weights = np.zeros(shape, np.int64), np.zeros(shape)
    for group, (code, weight) in zip(groups, parts, strict=True):
        arms = list(group.members)
        codes[:, arms, : code.shape[-1]] = code
        weights[:, arms, : code.shape[-1]] = weight
    return codes, weights


def mixed_ties(
    chains: ChainStates, states: States, values: Floats, price: float, share: Floats, scale: float
) -> Floats:
    """Return the values (E, K) with ties at the price in the order of shares; beliefs have none."""
    if not chains.exact:
        return values
    values = np.array(values, dtype=float, order="C")
    codes = np.ascontiguousarray(chain_places(chains, states)[0][..., 0])
    mix_ties(codes, price, TIE_WIDTH * scale, share, values)
    return values


class WhittlePolicy(IndexPolicy):
    """Pulls the arms of largest Whittle index.

    Refused if an arm is not indexable, or its long-run reward depends on where it begins.
    """

    name = "whittle"
    symmetric = True
    serves_restless = True
    requires = (restless_arms, steady_rewards)

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        self.check_serves(problem)
        super().__init__(problem, ties=ties)
        self._indices  # noqa: B018  # refuses arms that are not indexable at once

    @cached_property
    def _indices(self) -> list[Floats]:
        tables = []
        for group in self.problem.groups:
            name = self.problem.arms[group.members[0]].name
            tables.append(whittle_indices(group.model, float(group.played_rewards[1][0]), name))
        return tables

    def is_steady(self, first: int, last: int) -> bool:
        return True

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        chain = long_run_chain(self.problem.groups[group].model)
        state, weight = chain.places(np.asarray(stats))
        return np.asarray((weight * self._indices[group][state]).sum(axis=-1))


def whittle_indices(model: ArmModel, factor: float = 1.0, name: str = "chain") -> Floats:
    """Return Whittle's index of every state, (S,), by the average reward; refuse other chains."""
    chain = long_run_chain(model)
    moves = [_matrix(chain.rest), _matrix(chain.pull)]
    rest, pull = factor * chain.rest_reward, factor * chain.reward
    size, scale = rest.size, float(np.abs(np.concatenate([rest, pull])).max()) or 1.0
    worth, index = np.ones(size, np.bool_), np.zeros(size)
    price, slack = -np.inf, ROUNDING * scale
    while worth.any():
        constant, slope = _advantages(worth, moves, rest, pull, name)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(worth & (slope < -ROUNDING), constant / -slope, np.inf)
        after = float(ends.min())
        if not np.isfinite(after) or after < price - slack:
            raise _not_indexable(name)
        at_ends = [constant + slope * x for x in (price, after) if np.isfinite(x)]
        bound = slack * max(1.0, size)
        if any(((x < -bound) & worth | (x > bound) & ~worth).any() for x in at_ends):
            raise _not_indexable(name)
        leaving = worth & (ends <= after + slack)
        index[leaving] = after
        worth, price = worth & ~leaving, max(price, after)
    constant, slope = _advantages(worth, moves, rest, pull, name)
    if ((constant + slope * price > ROUNDING * scale * size) | (slope > ROUNDING)).any():
        raise _not_indexable(name)
    return index


def _matrix(moves: tuple[Ints, Ints, Floats]) -> Floats:
    ways, to, probabilities = moves
    matrix = np.zeros((ways.size, ways.size))
    np.add.at(matrix, (np.repeat(np.arange(ways.size), ways), to), probabilities)
    return matrix


def _advantages(
    worth: npt.NDArray[np.bool_], moves: list[Floats], rest: Floats, pull: Floats, name: str
) -> tuple[Floats, Floats]:
    """Advantage of a pull in every state, constant + slope * price, where `worth` ones are made."""
    size = rest.size
    P = np.where(worth[:, None], moves[1], moves[0])
    # unknown: the bias of all states but the first, which is 0, and in its place the gain
    system = np.eye(size) - P
    system[:, 0] = 1.0
    if np.linalg.cond(system) > 1.0 / ROUNDING:
        raise Unsupported(
            f"policy 'whittle' needs one long-run reward from every state; that of arm {name!r} "
            "depends on where it begins; use 'deco'",
            field="policy",
        )
    earned = np.stack([np.where(worth, pull, rest), np.where(worth, -1.0, 0.0)], axis=1)
    bias = np.linalg.solve(system, earned)
    bias[0] = 0.0
    constant, slope = ((moves[1] - moves[0]) @ bias).T
    return constant + pull - rest, slope - 1.0


def _not_indexable(name: str) -> Unsupported:
    return Unsupported(
        f"policy 'whittle' needs arms whose states stop being worth a pull for good as its price "
        f"rises; arm {name!r} is not indexable; use 'deco'",
        field="policy",
    )
