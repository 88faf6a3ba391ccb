"""Answers about many joint states, kept so that the next question need not compute them again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..support import Floats, Ints

MIX = 1_000_003  # multiplier of the keys of rows


class Answers:
    """The last chances that were asked for: after a look, allocation asks for the same again.

    codes, chances (E, K): a code for the state of each arm, -1 where it is left out.
    """

    def __init__(self, codes: Ints, chances: Floats) -> None:
        keys = self._keys(codes)
        order = np.argsort(keys)
        self.keys, self.codes, self.chances = keys[order], codes[order], chances[order]

    def recall(self, codes: Ints, chances: Floats) -> npt.NDArray[np.bool_]:
        """Fill in what is known; which rows are not, (E,)."""
        if self.keys.size == 0:
            return np.ones(len(codes), np.bool_)
        at = np.searchsorted(self.keys, self._keys(codes)).clip(max=self.keys.size - 1)
        same = np.asarray((self.codes[at] == codes).all(axis=1))
        chances[same] = self.chances[at[same]]
        return ~same

    @staticmethod
    def _keys(codes: Ints) -> Ints:
        """One number for each row, by which it is looked for; rows are then compared."""
        keys = np.zeros(len(codes), np.int64)
        for column in codes.T:
            keys = keys * MIX + column
        return keys
