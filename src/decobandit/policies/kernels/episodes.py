"""Simulated episodes of one chunk of draws: the arrays that every policy's kernel plays on.

Outcomes are indexed by pull: the j-th outcome of an arm in an episode is the same whatever policy
pulls it, and whenever. It is read from a stream of its own, SplitMix64 started at the key of that
arm in that episode (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).

Notations
    K, m    arms; most pulls of a stage
    e, d    episode and draw: per_draw episodes in a row share the parameters of draw d
    b       stage within the block of stages that is being played
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...support.kernels.compiled import compiled

Floats = npt.NDArray[np.float64]
NO_ACTION = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Episodes(NamedTuple):
    """Parameters, states, and what was done in the stages of a block."""

    p: Floats  # (episodes, K) true success probabilities; a division per pull to share them is slow
    keys: npt.NDArray[np.uint64]  # (episodes, K) starts of the outcome streams
    pulls: npt.NDArray[np.int32]  # (episodes, K)
    good: npt.NDArray[np.int32]  # (episodes, K)
    actions: npt.NDArray[np.int32]  # (episodes, stages of the block, m): 2 arm + outcome, or none
    per_draw: int


@compiled
def uniform(key, n):
    """Number n, from 0, of the stream that starts at `key`: uniform on [0, 1)."""
    z = key + np.uint64(n + 1) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 1.1102230246251565e-16


@compiled
def pull(episodes, e, b, i, arm):
    """Pull number i of stage b: record the action, move the state. Returns the outcome."""
    n = episodes.pulls[e, arm]
    outcome = 1 if uniform(episodes.keys[e, arm], n) < episodes.p[e, arm] else 0
    episodes.pulls[e, arm] = n + 1
    episodes.good[e, arm] += outcome
    episodes.actions[e, b, i] = 2 * arm + outcome
    return outcome
