"""Outcomes of a batch: of every arm in every episode, so many of its stream as it is pulled.

Notations as in `policies/kernels/episodes.py`
    given (E, K)        pulls of this stage
    pulls, good (E, K)  states, moved over the stage
    found (E, K)        good outcomes of this stage
"""

from ...policies.kernels.episodes import uniform
from ...support.kernels.compiled import compiled


@compiled
def pull_batch(p, keys, given, first, last, pulls, good, found):
    """Pull the arms of episodes first .. last - 1 as often as is given."""
    for e in range(first, last):
        for a in range(given.shape[1]):
            n, count = pulls[e, a], 0
            for i in range(given[e, a]):
                count += uniform(keys[e, a], n + i) < p[e, a]
            found[e, a] = count
            good[e, a] += count
            pulls[e, a] = n + given[e, a]
