"""Index policies played by tables over the states of arms; totals of episodes in blocks of stages.

Notations, besides those of `policies/kernels/episodes.py`
    K, T, S, L         arms, stages, states of all parts of the table, outcomes of a state
    table_of (K,)      part of the table of an arm: one for each pair of a belief and a truth
    begin, law (parts,)  its first state and law
    place (S,)         of the indices of a state: that of stage t is at place + t, so that an arm
                       that rests reads consecutive memory
    links (S, L)       state after an outcome; of counts: the state after 0, most that fit
    theta (draws, K, L)  chance of a class or one before it; of counts, their mean
    below (S, L)       the same by state, where states decide; else (0, 0)
    values (parts, L)  what a class counts; a count counts itself, a state its mean
    mean, last (S,)    expected value of the next outcome; last reward
    index, excess      of all states and stages that they are reached at; excess: the index at the
                       prices less these, or empty
    base, factor (K, T)  rewards
    means (draws, K)   true means; nan where the state has the mean
    good, bad (K, B), mu (B,)  rewards and prices of a block of B stages
"""

import numpy as np

from ...policies.kernels.episodes import uniform
from ...policies.kernels.index_play import two_largest
from ...problem.kernels.layout import expected_reward, spot
from ...problem.kernels.ties import tie_winner
from ...support.kernels.compiled import compiled
from .outcomes import class_of, count_at

BY_CLASS, BY_STATE, BY_COUNT = 0, 1, 2
SIDE = 16  # episodes side by side: what one of them waits for in memory, others do not


@compiled
def play_tables(draws, tables, rewards, tie_rule, rng, sums):
    """Play all episodes of a chunk; False where a sum of counts leaves the table.

    draws: keys, per_draw, theta, means. tables: those above, from table_of to excess. rewards:
    base, factor, pulls of each stage, horizon. tie_rule: tolerance, by_pulls, by_position. sums:
    over the episodes of a draw, of reward, predicted, last_reward (draws,), pulls (draws, K),
    stage_means (draws, T), terms (draws, T, 2): shortfall and congestion, or empty.
    """
    keys, per_draw, theta, means = draws
    table_of, begin, law, place, links, below, values, mean, last, index, excess = tables
    base, factor, counts, horizon = rewards
    tolerance, by_pulls, by_position = tie_rule
    reward, predicted, last_reward, pulls, stage_means, terms = sums
    E, K = keys.shape
    T = counts.shape[0]
    state, run = np.empty((SIDE, K), np.int64), np.empty((SIDE, K), np.uint64)
    made, score = np.empty((SIDE, K), np.int64), np.empty(K)
    with_gap = terms.shape[0] > 0
    for first in range(0, E, SIDE):
        side = min(SIDE, E - first)
        for q in range(side):
            for a in range(K):
                state[q, a], made[q, a] = begin[table_of[a]], 0
                run[q, a] = np.uint64(place[state[q, a]])
        for t in range(T):
            now = np.uint64(t)
            for q in range(side):
                e, crowd, expected = first + q, 0.0, 0.0
                d = e // per_draw
                for a in range(K):
                    score[a] = index[run[q, a] + now]
                if with_gap:
                    for a in range(K):
                        crowd += max(excess[run[q, a] + now], 0.0)
                for _ in range(counts[t]):
                    arm, largest, second = two_largest(score)
                    least = largest - tolerance
                    if second >= least:
                        arm = tie_winner(score, made, q, least, by_pulls, by_position, rng)
                    score[arm] = -np.inf
                    s, n, part = state[q, arm], made[q, arm], table_of[arm]
                    kind = law[part]
                    if with_gap:
                        x = excess[run[q, arm] + now]
                        terms[d, t, 0] += max(-x, 0.0)
                        crowd -= max(x, 0.0)
                    true = mean[s] if kind == BY_STATE else means[d, arm]
                    fixed, more = base[arm, t], factor[arm, t]
                    expected += fixed + more * true
                    predicted[d] += fixed + more * mean[s]
                    if t == horizon:
                        reward[d] += fixed + more * true
                        continue
                    if kind == BY_COUNT:
                        outcome = count_at(keys[e, arm], n, theta[d, arm, 0])
                        if outcome > links[s, 1]:
                            return False
                        s = links[s, 0] + outcome
                        reward[d] += fixed + more * outcome
                    elif kind == BY_CLASS:
                        j = class_of(theta[d], arm, uniform(keys[e, arm], n))
                        s = links[s, j]
                        reward[d] += fixed + more * values[part, j]
                    else:
                        s = links[s, class_of(below, s, uniform(keys[e, arm], n))]
                        reward[d] += fixed + more * true
                    state[q, arm], made[q, arm], run[q, arm] = s, n + 1, np.uint64(place[s])
                stage_means[d, t] += expected
                if with_gap:
                    terms[d, t, 1] += max(crowd, 0.0)
        for q in range(side):
            d = (first + q) // per_draw
            for a in range(K):
                last_reward[d] += last[state[q, a]]
                pulls[d, a] += made[q, a]
    return True


@compiled
def book(episodes, good, bad, deployed, reward, stage_means):
    """Add up what the actions of a block earned, per draw.

    reward (draws,): sums over the draw's episodes of what the outcomes earn. stage_means (draws,
    B): of what the pulled arms earn on average, by stage. A deployed arm earns by its success
    probability in both.
    """
    E, B, m = episodes.actions.shape
    for e in range(E):
        d = e // episodes.per_draw
        for b in range(B):
            mean = 0.0
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action < 0:
                    continue
                arm = action >> 1
                expected = expected_reward(episodes.p[e, arm], bad[arm, b], good[arm, b])
                mean += expected
                if deployed:
                    reward[d] += expected
                else:
                    reward[d] += good[arm, b] if action & 1 else bad[arm, b]
            stage_means[d, b] += mean


@compiled
def book_gap(episodes, pulls, successes, index, mu, most, group, terms):
    """Add the gap terms of a block, and move (pulls, successes) (episodes, K) through it.

    index: table of a block at the prices, as `lay_out` makes it. terms (draws, B, 2): shortfall,
    (mu - index)^+ of arms that are pulled, and congestion, (index - mu)^+ of the others.
    """
    E, B, m = episodes.actions.shape
    K = group.shape[0]
    pulled, state = np.zeros(K, np.bool_), np.empty(K, np.int64)
    for e in range(E):
        d = e // episodes.per_draw
        for a in range(K):
            state[a] = spot(successes[e, a], pulls[e, a] - successes[e, a], most)
        for b in range(B):
            for i in range(m):
                if episodes.actions[e, b, i] >= 0:
                    pulled[episodes.actions[e, b, i] >> 1] = True
            for a in range(K):
                excess = index[group[a], state[a], b] - mu[b]
                if pulled[a]:
                    terms[d, b, 0] += max(-excess, 0.0)
                else:
                    terms[d, b, 1] += max(excess, 0.0)
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action >= 0:
                    a = action >> 1
                    pulled[a] = False
                    pulls[e, a] += 1
                    successes[e, a] += action & 1
                    state[a] = spot(successes[e, a], pulls[e, a] - successes[e, a], most)
