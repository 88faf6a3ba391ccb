"""The arms of largest value in many episodes, ties by a rule without chance."""

from ...problem.kernels.ties import preferred
from ...support.kernels.compiled import compiled

TAKEN = -1e308  # value of an arm that is pulled already


@compiled
def pull_largest(values, pulls, number, tolerance, by_pulls, by_position, given):
    """given[e, k] = 1 for the `number` arms of largest value; values (E, K) are used up."""
    for e in range(values.shape[0]):
        for _ in range(number):
            least = values[e].max() - tolerance
            arm = preferred(values[e], pulls, e, least, by_pulls, by_position)
            given[e, arm] = 1
            values[e, arm] = TAKEN
