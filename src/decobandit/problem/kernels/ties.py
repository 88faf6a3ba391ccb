"""Which of several tied arms is pulled; the rules are those of `problem.ties`.

Notations
    by_pulls, by_position   TIE_SIGNS of a rule: sign of the pulls wanted, then of the position;
                            by_position 0: uniformly at random
    rank                    by_pulls times the pulls of an arm: the lowest is wanted
    least                   the largest score less a tolerance: arms from here on are tied
"""

from ...support.kernels.compiled import compiled

NO_RANK = 2**62  # above all ranks


@compiled(inline="always")
def wins_tie(rank, lowest, by_position):
    """Whether an arm is taken before the best of those that stand before it, of rank `lowest`."""
    return rank < lowest + (by_position < 0)


@compiled
def preferred(score, pulls, e, least, by_pulls, by_position):
    """Choose by the tie rule among arms whose score is at least `least`; pulls (E, arms)."""
    best, lowest = 0, NO_RANK
    for a in range(score.shape[0]):
        rank = by_pulls * pulls[e, a]
        # & on purpose: without branches, which could not be predicted
        taken = (score[a] >= least) & wins_tie(rank, lowest, by_position)
        best = a if taken else best
        lowest = rank if taken else lowest
    return best


@compiled
def drawn(score, least, rng):
    """Choose at random among arms whose score is at least `least`."""
    best, tied = 0, 0
    for a in range(score.shape[0]):
        if score[a] >= least:
            tied += 1
            if rng.random() * tied < 1.0:
                best = a
    return best


@compiled(inline="always")
def tie_winner(score, pulls, e, least, by_pulls, by_position, rng):
    """The arm that is pulled of those whose score is at least `least`."""
    if by_position == 0:
        arm = drawn(score, least, rng)
    else:
        arm = preferred(score, pulls, e, least, by_pulls, by_position)
    return arm
