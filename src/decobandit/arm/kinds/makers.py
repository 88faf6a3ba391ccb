"""Which rows an arm of a kind has."""

from __future__ import annotations

from functools import singledispatch

from ...problem import ArmModel, Binary, Classes, Counted, Measured, Own
from ...support import Cache
from .count_rows import count_rows
from .exact_rows import binary_rows, class_rows, own_rows
from .normal_rows import normal_rows
from .rows import ArmRows

KEPT = 64  # kinds of arms


@singledispatch
def make_rows(kind: ArmModel, rows: int, refine: int) -> ArmRows:
    """Rows 0 .. `rows` of an arm; grids with 2^refine times as many points."""
    raise TypeError(f"{kind.word} arms have no rows of states")


make_rows.register(Binary, lambda kind, rows, refine: binary_rows(kind, rows))
make_rows.register(Classes, lambda kind, rows, refine: class_rows(kind, rows))
make_rows.register(Own, lambda kind, rows, refine: own_rows(kind, rows))
make_rows.register(Measured, normal_rows)
make_rows.register(Counted, count_rows)

_CACHE = Cache[tuple[ArmModel, int, int], ArmRows](KEPT)


def arm_rows(kind: ArmModel, rows: int, refine: int = 0) -> ArmRows:
    """The states of an arm that may take `rows` pulls; one object for all arms of a kind."""
    return _CACHE.get_or_make((kind, rows, refine), lambda: make_rows(kind, rows, refine))
