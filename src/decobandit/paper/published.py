"""What the paper printed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


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
    return tuple(PublishedRow(**row) for row in _tree()["table1"])


def claims() -> dict[str, str]:
    """What the paper says of figures whose numbers it does not print."""
    return dict(_tree()["claims"])


def _tree() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
