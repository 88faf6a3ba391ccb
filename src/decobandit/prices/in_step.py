"""One market pass over several threads: groups in parallel, in step at every stage.

A stage's price depends on all groups, so the threads meet twice a stage: once when all have
collected their states, once when one of them has found the price. Kernels release the
interpreter's lock. This pays off where one stage takes long: many stages, more than one group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Barrier

import numpy as np

from ..problem import Arms
from ..problem.kernels.layout import row_start
from ..support import Floats, heed_interrupt, pool
from .kernels.bands import Back, Bands, Forth
from .kernels.flow import fill, finish, move, offer
from .kernels.pricing import begin, bid, step
from .kernels.rounds import stage_price, stage_sale


def split(arms: Arms, bands: Bands, parts: int) -> list[tuple[slice, Arms, Bands]]:
    """Cut the groups into `parts` runs of nearly equal length."""
    edges = np.linspace(0, arms.alpha.size, parts + 1).round().astype(int)
    return [
        (part, group_slice(arms, part), band_slice(bands, part))
        for part in itertools.starmap(slice, itertools.pairwise(edges))
    ]


def group_slice(arms: Arms, part: slice) -> Arms:
    """The arrays of some groups, shared with the whole."""
    return Arms(*(array[part] for array in arms))


def band_slice(bands: Bands, part: slice) -> Bands:
    """The bands of some groups; their states stay where they are."""
    return bands._replace(
        low=bands.low[part],
        high=bands.high[part],
        left=bands.left[part],
        right=bands.right[part],
        start=bands.start[part],
        room=bands.room[part],
        settled=bands.settled[part],
    )


def run_in_step(work: Callable[[int, Barrier], None], parts: int) -> None:
    """Run work(part, barrier) in as many threads; an error in one breaks the barrier for all."""
    barrier = Barrier(parts)

    def guarded(part: int) -> None:
        try:
            work(part, barrier)
        except BaseException:
            barrier.abort()
            raise

    with pool(parts) as threads:
        threads.map(guarded, range(parts))


class _Collected:
    """Arms in parts, and the states with mass that each part collected at a stage."""

    def __init__(self, arms: Arms, bands: Bands, workers: int) -> None:
        self.parts = split(arms, bands, workers)
        self._found: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))] * workers

    def put(self, part: int, count: int, way: Back | Forth) -> None:
        """What a part has collected."""
        self._found[part] = way.key[:count], way.weight[:count]

    def all(self) -> tuple[Floats, Floats]:
        """Of all parts together: their keys and weights."""
        keys, weights = zip(*self._found, strict=True)
        return np.concatenate(keys), np.concatenate(weights)


def price_in_step(
    arms: Arms,
    bands: Bands,
    pulls: Floats,
    lowest: Floats,
    highest: Floats,
    mu: Floats,
    V: Floats,
    workers: int,
) -> None:
    """`kernels.rounds.price_leg` of all stages, over several threads."""
    found = _Collected(arms, bands, workers)

    def work(i: int, barrier: Barrier) -> None:
        part, own_arms, own_bands = found.parts[i]
        values = V[part]
        back = begin(own_arms, own_bands, values)
        for t in range(pulls.size - 1, -1, -1):
            heed_interrupt()
            found.put(i, bid(own_arms, own_bands, t, values, back), back)
            if barrier.wait() == 0:
                key, weight = found.all()
                mu[t] = stage_price(
                    key, weight, bands.settled[:, t], pulls[t], lowest[t], highest[t], mu[t]
                )
            barrier.wait()
            step(own_arms, t, mu[t], values, back)

    run_in_step(work, workers)


def clear_in_step(
    arms: Arms,
    bands: Bands,
    pulls: Floats,
    blend: float,
    mass: Floats,
    reward: Floats,
    spent: Floats,
    workers: int,
) -> int:
    """`kernels.rounds.clearing_leg` of all stages, over several threads."""
    found = _Collected(arms, bands, workers)
    total = float(arms.counts.sum())
    sale = (0.0, 0.0, 0.0, 0.0, False)
    sides = np.empty(arms.counts.size)
    narrow = 0

    def work(i: int, barrier: Barrier) -> None:
        nonlocal sale, narrow
        part, own_arms, own_bands = found.parts[i]
        forth = fill(own_arms, own_bands, mass[part], reward[part])
        for t in range(pulls.size):
            heed_interrupt()
            found.put(i, offer(own_bands, t, blend, mass[part], forth), forth)
            sides[part] = forth.sides
            if barrier.wait() == 0:
                key, weight = found.all()
                sale = stage_sale(key, weight, sides, total, pulls[t])
                narrow += sale[4]
            barrier.wait()
            price, part_at, part_sure, part_rest, _ = sale
            move(
                own_arms,
                own_bands,
                row_start(t),
                t,
                price,
                0.0,
                part_at,
                part_sure,
                part_rest,
                mass[part],
                forth,
                reward[part],
                spent[part],
            )
        finish(own_arms, mass[part], reward[part])

    run_in_step(work, workers)
    return narrow
