"""How ties between arms are broken.

Arms whose indices differ by at most 1e-12 of the problem's largest number are tied.
    least-pulled  the arm pulled least so far, then the first (default)
    most-pulled   the arm pulled most so far, then the first
    first         the arm that stands first in the problem
    last          the arm that stands last
    random        uniformly among the tied arms, with the caller's random generator
least-pulled, most-pulled and random use the states of the arms before their positions. As long as
the states decide, exchangeable arms stay exchangeable, and exact evaluation merges them.

Compiled loops apply the same rules through TIE_SIGNS. `deco --help` shows the rules: numpy is
imported late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from ..support import InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..support import Floats
    from .model import Problem

TieRule = Literal["least-pulled", "most-pulled", "first", "last", "random"]
TIE_RULES: tuple[TieRule, ...] = get_args(TieRule)
DEFAULT_TIES: TieRule = "least-pulled"


def tie_rule(text: str) -> TieRule:
    """Return the tie rule of this name."""
    for rule in TIE_RULES:
        if rule == text:
            return rule
    raise InvalidArgument(
        f"ties: {text!r} is not a rule; choose one of {', '.join(TIE_RULES)}", field="ties"
    )


TIE_TOLERANCE = 1e-12
# as kernels see a rule: sign of the pulls that are wanted, then of the position; 0, 0 is at random
TIE_SIGNS: dict[TieRule, tuple[int, int]] = {
    "first": (0, 1),
    "last": (0, -1),
    "least-pulled": (1, 1),
    "most-pulled": (-1, 1),
    "random": (0, 0),
}


def tie_tolerance(problem: Problem) -> float:
    """Return the difference below which indices are equal."""
    largest = max(group.largest_reward for group in problem.groups)
    return TIE_TOLERANCE * (largest or 1.0)


def tied_arms(values: Floats, allowed: npt.ArrayLike, tolerance: float) -> npt.NDArray[np.intp]:
    """Positions of the arms that share the largest value of those allowed, in their order."""
    import numpy as np

    arms = np.asarray(allowed, dtype=np.intp)
    candidates = values[arms]
    return np.asarray(arms[candidates >= candidates.max() - tolerance], dtype=np.intp)


def break_tie(
    tied: npt.NDArray[np.intp],
    pulls: Sequence[int],
    rule: TieRule,
    rng: np.random.Generator | None = None,
) -> int:
    """Return the arm that the rule takes of tied ones (positions, ascending); pulls (arms,)."""
    if len(tied) == 1:
        return int(tied[0])
    by_pulls, by_position = TIE_SIGNS[rule]
    if (by_pulls, by_position) == (0, 0):
        if rng is None:
            raise InvalidArgument("ties are broken at random: pass a random generator as rng")
        return int(rng.choice(tied))
    return int(min(tied, key=lambda arm: (by_pulls * pulls[arm], by_position * arm)))
