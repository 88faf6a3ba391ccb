"""Which of two arms an optimal policy pulls, in every state of every stage.

    W_t(s) = max_a gain_a + E[ W_{t+1} after a pull of a ]

Notations
    state   (n1, g1, g2) at stage t, n2 = t - n1; in order as in `problem.kernels.two_arms`
    choice  0: arm 1 is better; 1: arm 2; 2: they are tied, within tolerance
"""

from ...problem.kernels.two_arms import slab_starts
from ...problem.kernels.worth import expected_reward
from ...support.kernels.compiled import compiled


@compiled
def last_values(t, terminal1, terminal2, values):
    """Last rewards of the states after the last stage; terminal (slab,) each."""
    i = 0
    for n1 in range(t + 1):
        for g1 in range(n1 + 1):
            for g2 in range(t - n1 + 1):
                n2 = t - n1
                values[i] = terminal1[n1 * (n1 + 1) // 2 + g1] + terminal2[n2 * (n2 + 1) // 2 + g2]
                i += 1


@compiled
def step_choices(t, alpha, beta, good, bad, after, tolerance, relative, values, choice):
    """Values and choices of a stage from the values after it; alpha, beta, good, bad (2,)."""
    own, later = slab_starts(t), slab_starts(t + 1)
    for n1 in range(t + 1):
        n2 = t - n1
        for g1 in range(n1 + 1):
            p1 = (alpha[0] + g1) / (alpha[0] + beta[0] + n1)
            gain1 = expected_reward(p1, bad[0], good[0])
            up = later[n1 + 1] + g1 * (n2 + 1)
            same = later[n1] + g1 * (n2 + 2)
            for g2 in range(n2 + 1):
                p2 = (alpha[1] + g2) / (alpha[1] + beta[1] + n2)
                first = gain1 + p1 * after[up + n2 + 1 + g2] + (1.0 - p1) * after[up + g2]
                second = (
                    expected_reward(p2, bad[1], good[1])
                    + p2 * after[same + g2 + 1]
                    + (1.0 - p2) * after[same + g2]
                )
                top = max(first, second)
                at = own[n1] + g1 * (n2 + 1) + g2
                least = top - max(tolerance, relative * abs(top))
                values[at] = top
                choice[at] = 2 if min(first, second) >= least else 0 if first > second else 1
