"""Why an arm was chosen, in one sentence.

The sentence is stored with the decision, and `replay` compares it: it must not change for decisions
that are on record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..problem import TieRule

MAX_NAMES = 3  # of tied arms that are called by their names
MAX_SHARED = 5  # arms of a batch that are called by their names
RULES: dict[TieRule, str] = {
    "least-pulled": "the least pulled is taken, then the first",
    "most-pulled": "the most pulled is taken, then the first",
    "first": "the first is taken",
    "last": "the last is taken",
    "random": "one of them is drawn at random",
}


def number(value: float) -> str:
    """Four digits are enough to compare; what rounding left of a zero is one."""
    return f"{round(value, 12) + 0.0:.4g}"


def largest(
    name: str, what: str, value: float, parts: tuple[float, float] | None, *, left: bool
) -> str:
    """What an arm has most of; parts: expected reward and value of information, if it has these."""
    if parts is not None:
        reward, information = map(number, parts)
        what = f"expected reward {reward} + value of information {information} = {what}"
    return f"{name}: {what} {number(value)}, the largest{' of the arms left in this stage' * left}"


def compared(price: float) -> str:
    return f"the price is {number(price)}"


def tie(others: Sequence[str], rule: TieRule) -> str:
    """Which arms were as good, and why this one; nothing where there were none."""
    if not others:
        return ""
    if len(others) > MAX_NAMES:
        named = f"{len(others)} other arms"
    else:
        named = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
    return f"tied with {named}: {RULES[rule]}"


def drawn(name: str, policy: str, count: int) -> str:
    """Of a policy that draws its arms."""
    first = f", after {_outcomes(count)} had been drawn" if count else ""
    return f"{name}: drawn at random by {policy}{first}"


def shared(counts: Mapping[str, int], policy: str) -> str:
    """Pulls of the arms that get most of a batch, the largest first."""
    given = sorted(((n, name) for name, n in counts.items() if n), key=lambda one: -one[0])
    named = ", ".join(f"{name} {n}" for n, name in given[:MAX_SHARED])
    others = given[MAX_SHARED:]
    arms = "1 other arm" if len(others) == 1 else f"{len(others)} other arms"
    rest = f", {arms} {sum(n for n, _ in others)}" if others else ""
    return f"{policy}: {named}{rest} of {sum(counts.values())} pulls"


def drawn_first(count: int) -> str:
    """Of a policy that draws pulls, after the outcomes that were pending."""
    first = f", after {_outcomes(count)} had been drawn" if count else ""
    return f"drawn at random{first}"


def averaged(count: int, draws: int) -> str:
    """What was done about open outcomes; `draws`: 0 where all possibilities were looked at."""
    if not count:
        return ""
    return f"averaged over {f'{draws} draws of ' * bool(draws)}{_outcomes(count)}"


def _outcomes(count: int) -> str:
    return f"{count} open outcome{'s' * (count > 1)}"


def sentence(*parts: str) -> str:
    return "; ".join(filter(None, parts))
