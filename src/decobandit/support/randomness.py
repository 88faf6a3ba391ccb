"""Random numbers are handed in as `rng=`: a seed, or a generator, as NumPy does it.

What is simulated has a seed of its own, a whole number that results report: from it the same
numbers can be had again. A generator gives one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Rng: TypeAlias = "int | np.random.Generator | None"
LARGEST_SEED = 2**53  # that every reader of JSON keeps
_RULE = "must be a seed (a whole number, zero or more), a numpy.random.Generator, or None"


def seed_of(rng: Rng) -> int:
    """The seed of a simulation.

    A whole number is the seed itself; a generator is asked for one number, which is; None stands
    for a seed that nobody chose, different each time.
    """
    import numpy as np

    if rng is None or isinstance(rng, np.random.Generator):
        return int((rng or np.random.default_rng()).integers(LARGEST_SEED))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        from .validation import shown

        raise TypeError(f"rng: {shown(rng)} is not allowed; {_RULE}")
    if rng < 0:
        raise ValueError(f"seed: {rng} is not allowed; must be zero or more")
    return int(rng)


def streams_of(seed: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """Seeds of streams that follow from one: as `spawn` gives, but the same at every call."""
    import numpy as np

    own = ((*seed.spawn_key, i) for i in range(number))
    return [np.random.SeedSequence(seed.entropy, spawn_key=key) for key in own]


def generator_of(rng: Rng) -> np.random.Generator:
    """A generator: the one given, or that of a seed."""
    import numpy as np

    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_of(rng))
