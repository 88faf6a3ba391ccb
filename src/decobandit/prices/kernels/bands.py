"""The bandit market as arrays: groups of exchangeable arms, and the states near the price.

All groups are in one market. A mass counts arms: a group of 5 starts with mass 5 in state (0, 0),
and a pull splits the mass of a state over its two successors.

Per stage and row, a *band* [low, high] of states is stored: those whose index may fall on
either side of the price. Outside it the sign of index - price is settled, the same on the whole
side: `left` for g < low, `right` for g > high (1: pulled, 0: not). A band of full rows is always
correct; a narrow one saves time and memory on long horizons, and a wrong one still gives valid
bounds, only weaker ones.
"""

from typing import NamedTuple

from ...support import Flags, Floats, Ints


class Bands(NamedTuple):
    """Bands of all rows; row n of stage t stands at t(t+1)/2 + n."""

    low: Ints  # (G, rows) first state of the band
    high: Ints  # (G, rows) last one; empty where high < low
    left: Flags  # (G, rows) states below the band are pulled
    right: Flags  # (G, rows) states above the band are pulled
    start: Ints  # (G, rows) position of the band's first state in index and share
    index: Floats  # type: ignore[assignment]  # (states,) index of each state, written going back
    share: Floats  # (states,) mass of each state, averaged over the forward passes so far
    room: Ints  # (G,) states of a group at one stage, at most
    settled: Floats  # (G, T) mass on pulled sides, averaged likewise


class Back(NamedTuple):
    """What a backward pass carries from one stage to the next, and its work space."""

    low: Ints  # (G, T+1) first state of a row with V != 0
    high: Ints  # (G, T+1) last one
    ramp: Floats  # (T+1,) 0, 1, 2, ...
    key: Floats  # (room,) index of each state that is collected
    weight: Floats  # (room,) its mass


class Forth(NamedTuple):
    """The same of a forward pass."""

    first: Ints  # (G, T+2) first state of a row with mass
    last: Ints  # (G, T+2) last one
    sides: Floats  # (G,) mass on pulled sides at this stage
    key: Floats
    weight: Floats
