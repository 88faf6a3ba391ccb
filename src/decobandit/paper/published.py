"""What the paper printed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class PublishedRow:
    """A row of Table 1; None where the paper has no figure."""

    arms: int
    horizon: int
    deco: float
    bf: float | None = None
    fh: float | None = None


def table1() -> tuple[PublishedRow, ...]:
    """The seven rows of Table 1."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(PublishedRow(**row) for row in tomllib.loads(text)["table1"])
