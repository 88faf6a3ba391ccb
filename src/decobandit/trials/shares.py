"""Shares of the arms over time: in blocks of consecutive allocations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

MOST_BLOCKS, LEAST_LENGTH = 12, 5


@dataclass(frozen=True)
class ShareBlock:
    """Shares of the arms in a block of consecutive allocations.

    Attributes
    ----------
    first : int
        Number of its first allocation, cancelled ones not counted, from 1.
    last : int
        Number of its last one.
    shares : tuple[float, ...]
        Share of every arm, in the order of the problem.

    Examples
    --------
    >>> _ = trial.ask()
    >>> trial.report().shares[0].shares
    (1.0, 0.0)
    """

    first: int
    last: int
    shares: tuple[float, ...]


def share_blocks(arms: Sequence[int], n_arms: int, *, whole: int = 1) -> tuple[ShareBlock, ...]:
    """At most twelve blocks of about equal length; `arms`: the arm of every allocation.

    whole: pulls that a block has all or none of, those of a stage.
    """
    n = len(arms) // whole
    number = min(MOST_BLOCKS, -(-n // (LEAST_LENGTH if whole == 1 else 1)))
    ends = (whole * np.linspace(0, n, number + 1).round().astype(int)).tolist()
    blocks = []
    for start, end in pairwise(ends):
        counts = np.bincount(np.asarray(arms[start:end], dtype=np.int64), minlength=n_arms)
        shares = tuple((counts / (end - start)).tolist())
        blocks.append(ShareBlock(start + 1, end, shares))
    return tuple(blocks)
