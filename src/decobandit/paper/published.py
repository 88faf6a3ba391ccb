"""Numbers printed in the paper, and of others: batches, designs, values, restless arms."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
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


@cache
def published() -> Published:
    """Return the numbers of published.toml."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(Published).validate_python(tomllib.loads(text))
