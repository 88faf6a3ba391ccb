"""A check of the program on this machine: what was expected, by whom, what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Rule = Literal["equal", "at least", "at most"]


@dataclass(frozen=True)
class Check:
    """One comparison of a number of ours with one that is not ours.

    Attributes
    ----------
    area : str
        What part of the program it belongs to.
    what : str
        What is compared.
    oracle : str
        Where the expected number comes from.
    expected, found : float
        The two numbers.
    tolerance : float
        By how much they may differ, or the bound may be missed.
    rule : str
        Whether `found` is to be equal to `expected`, at least or at most that.
    """

    area: str
    what: str
    oracle: str
    expected: float
    found: float
    tolerance: float
    rule: Rule = "equal"

    @property
    def ok(self) -> bool:
        """Whether it holds; not where the number found is none."""
        apart = self.found - self.expected
        if self.rule == "at least":
            return apart >= -self.tolerance
        if self.rule == "at most":
            return apart <= self.tolerance
        return abs(apart) <= self.tolerance

    def to_dict(self) -> dict[str, object]:
        """Plain values, with the verdict."""
        return asdict(self) | {"ok": self.ok}
