"""The published numbers of the self-test, from selftest.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from pydantic import TypeAdapter


@dataclass(frozen=True)
class PublishedOptimum:
    """What the best policy earns, to so many digits."""

    arms: int
    horizon: int
    value: float
    tolerance: float
    source: str


@dataclass(frozen=True)
class SelftestNumbers:
    """The file selftest.toml."""

    policies: tuple[str, ...]  # whose values are checked
    optimum: tuple[PublishedOptimum, ...]


@cache
def selftest_numbers() -> SelftestNumbers:
    """The file, read once."""
    text = resources.files(__package__).joinpath("selftest.toml").read_text(encoding="utf-8")
    return TypeAdapter(SelftestNumbers).validate_python(tomllib.loads(text))
