"""Draws in chunks, each with random streams of its own: the same for any number of workers."""

from __future__ import annotations

import numpy as np

from ..support import streams_of


class Chunked:
    """What worlds share. Chunks are numbered from 0; the last one may be shorter."""

    def __init__(self, draws: int, chunk_draws: int, seed: int) -> None:
        self.draws, self.chunk_draws, self.seed = draws, chunk_draws, seed
        self._seeds = np.random.SeedSequence(seed).spawn(-(-draws // chunk_draws))

    @property
    def number_of_chunks(self) -> int:
        """Chunks of draws."""
        return len(self._seeds)

    def opened(self, number: int) -> tuple[np.random.Generator, np.random.SeedSequence, int]:
        """Generator of a chunk's draws, seed of policies that draw, and how many draws it has."""
        own, policy = streams_of(self._seeds[number], 2)
        size = min(self.chunk_draws, self.draws - number * self.chunk_draws)
        return np.random.default_rng(own), policy, size
