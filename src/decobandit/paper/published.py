"""Numbers printed in the paper, and of others: batches, designs, values, restless arms."""

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
class PublishedBatches:
    """Simple regret of five policies in batches of 100 pulls, by Che and Namkoong."""

    arms: int
    horizon: int
    uniform: float
    thompson: float
    top_two: float
    myopic: float
    rho: float


@dataclass(frozen=True)
class PublishedDesign:
    """A number of a design or of restless arms.

    `error` is its standard error, 0 where it is exact to `within`.
    """

    case: str
    source: str
    quantity: str
    value: float
    error: float = 0.0
    within: float = 0.0


@dataclass(frozen=True)
class PublishedValues:
    """Total reward of policies with uniform priors; `error` is the standard error of each."""

    horizon: int
    arms: int
    error: float
    policies: dict[str, float]


@dataclass(frozen=True)
class Published:
    """The file published.toml."""

    table1: tuple[PublishedRow, ...]
    batches: tuple[PublishedBatches, ...]
    designs: tuple[PublishedDesign, ...]
    values: tuple[PublishedValues, ...]
    restless: tuple[PublishedDesign, ...]
    claims: dict[str, str]


def table1() -> tuple[PublishedRow, ...]:
    """Return the seven rows of Table 1."""
    return _published().table1


def batches() -> tuple[PublishedBatches, ...]:
    """Return the four cells of batches."""
    return _published().batches


def designs() -> tuple[PublishedDesign, ...]:
    """Return the numbers of designs by case."""
    return _published().designs


def values() -> tuple[PublishedValues, ...]:
    """Return the six cells of values."""
    return _published().values


def restless() -> tuple[PublishedDesign, ...]:
    """Return the numbers of restless arms by case."""
    return _published().restless


def claims() -> dict[str, str]:
    """Return the paper's statements about figures without printed numbers."""
    return dict(_published().claims)


def _published() -> Published:
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(Published).validate_python(tomllib.loads(text))
