"""The numbers printed in the paper."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

from pydantic import TypeAdapter


@dataclass(frozen=True)
class PublishedRow:
    """A row of Table 1; None where the paper has no figure."""

    arms: int
    horizon: int
    deco: float
    bf: float | None = None
    fh: float | None = None


@dataclass(frozen=True)
class Published:
    """The file published.toml."""

    table1: tuple[PublishedRow, ...]
    claims: dict[str, str]


def table1() -> tuple[PublishedRow, ...]:
    """The seven rows of Table 1."""
    return _published().table1


def claims() -> dict[str, str]:
    """What the paper says of figures whose numbers it does not print."""
    return dict(_published().claims)


def _published() -> Published:
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(Published).validate_python(tomllib.loads(text))
