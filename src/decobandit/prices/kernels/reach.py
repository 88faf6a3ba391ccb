"""Which states arms can be in, as long as prices stay where the bands were laid for.

A state is left only by a pull, and pulled only in a band or on a pulled side. Bands are cut to the
states that can be reached so: arms of which there are many are seldom pulled, and nearly all of
their states are never seen. Per row the reached states are an interval that may be too wide.
"""

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled


@compiled
def reach_leg(bands, first, last, start, stop):
    """Cut the bands of the stages from `start` to `stop`.

    first, last (G, T+2): per row the interval of reached states, taken on by one stage at a time.
    """
    for t in range(start, stop):
        base = row_start(t)
        for k in range(first.shape[0]):
            for n in range(t, -1, -1):  # descending: what enters row n+1 now is not pulled twice
                low, high = bands.low[k, base + n], bands.high[k, base + n]
                a, b = first[k, n], last[k, n]
                if b < a:
                    bands.low[k, base + n], bands.high[k, base + n] = 0, -1
                    continue
                lowest = a if bands.left[k, base + n] else max(a, low)
                highest = b if bands.right[k, base + n] else min(b, high)
                if lowest <= highest:
                    first[k, n + 1] = min(first[k, n + 1], lowest)
                    last[k, n + 1] = max(last[k, n + 1], highest + 1)
                bands.low[k, base + n] = min(max(low, a), b + 1)
                bands.high[k, base + n] = max(min(high, b), bands.low[k, base + n] - 1)
