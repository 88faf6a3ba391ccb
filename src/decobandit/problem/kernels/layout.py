"""Arms as kernels see them: where a state lives in a flat array, and what a pull is worth.

A state of one arm, (n, g): pulls and good outcomes, is at `row_start(n)` + g.

    worth = reward_bad + p spread  +  p v(n+1, g+1) + (1-p) v(n+1, g) - v(n, g)
            expected reward, ell      what the outcome adds to v: delta

with spread = reward_good - reward_bad and p the chance of a good outcome.
    v = V_{t+1}, values at later prices    the index: delta is the value of information
    v = terminal rewards                   what a pull earns in all (`joint`)
"""

from typing import NamedTuple

from ...support import Floats
from ...support.kernels.compiled import compiled


class Arms(NamedTuple):
    """G groups of exchangeable arms over T stages; `slab` counts the states with n <= T.

    It stands among the kernels because compiled code reads the fields by their order.
    """

    alpha: Floats  # (G,) prior weight of good
    beta: Floats  # (G,) prior weight of bad
    counts: Floats  # (G,) arms in the group
    reward_good: Floats  # (G, T)
    reward_bad: Floats  # (G, T)
    terminal: Floats  # (G, slab) V_T


@compiled(inline="always")
def row_start(n):
    """Position of state (n, 0); also the number of states with fewer than n pulls."""
    return n * (n + 1) // 2


def slab_size(pulls: int) -> int:
    """Number of states with at most `pulls` pulls."""
    return (pulls + 1) * (pulls + 2) // 2


@compiled
def spot(good, bad, most):
    """Position of a state among all with at most `most` pulls, in order of bad, then good outcomes.

    One more good outcome is the next position: runs of them read on in memory.
    """
    return bad * (most + 1) - bad * (bad - 1) // 2 + good


@compiled(inline="always")
def worth(p, bad, spread, own, after_bad, after_good):
    """Worth of a pull; own, after_bad, after_good: v(n, g), v(n+1, g), v(n+1, g+1)."""
    return bad + after_bad - own + p * (spread + after_good - after_bad)


@compiled(inline="always")
def expected_reward(p, bad, good):
    """Reward of a pull, where good and bad outcomes earn so much: `worth` without v."""
    return bad + p * (good - bad)
