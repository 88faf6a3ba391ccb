"""The paper's statements about its figures, compared with our numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import figure3, figure4
from .published import claims

# what counts as the paper's words, printed with every verdict
COMPARABLE = 0.25  # a ratio this close to 1
VERY_CLOSE = 1.1  # times the optimum
QUITE_CLOSE = 1.5  # times the bound


@dataclass(frozen=True)
class Verdict:
    """A sentence of the paper, whether our numbers bear it out, and which numbers."""

    claim: str
    holds: str  # yes, no, in part
    because: str


def of_figure3(points: Sequence[figure3.Point]) -> list[Verdict]:
    """DeCo against other policies at the longest horizon, and against the optimum for two arms."""
    longest = max(p.stage for p in points if p.axis == "horizon")
    at = {(p.arms, p.policy): p for p in points if p.axis == "horizon" and p.stage == longest}
    arms = sorted({k for k, _ in at})
    beaten = [
        k for k in arms
        if all(at[k, "deco"].regret < at[k, rival].regret for rival in ("thompson", "kl-ucb"))
    ]  # fmt: skip
    ratios = {k: at[k, "deco"].regret / at[k, "ids"].regret for k in arms}
    close = [k for k in arms if abs(ratios[k] - 1.0) < COMPARABLE]
    verdicts = [
        Verdict(
            claims()["figure3-rivals"],
            _share(beaten, arms),
            f"horizon {longest}, DeCo / better of the two (yes: below 1 in all): "
            + _list({k: at[k, "deco"].regret / min(at[k, r].regret for r in ("thompson", "kl-ucb"))
                     for k in arms}),
        ),
        Verdict(
            claims()["figure3-ids"],
            _share(close, arms),
            f"horizon {longest}, DeCo / IDS (yes: within {COMPARABLE:.0%} in all): {_list(ratios)}",
        ),
    ]  # fmt: skip
    if (2, "optimum") in at:
        best, deco = at[2, "optimum"].regret, at[2, "deco"].regret
        verdicts.append(
            Verdict(
                claims()["figure3-optimum"],
                "yes" if deco < VERY_CLOSE * best else "no",
                f"horizon {longest}: regret {deco:.3f} ± {at[2, 'deco'].error:.3f}, optimum "
                f"{best:.3f} (exact; yes: below {VERY_CLOSE:g} times it)" + _below(at, best),
            )
        )
    if all((k, "fh-gittins") in at for k in arms):
        beside = {k: at[k, "deco"].regret / at[k, "fh-gittins"].regret for k in arms}
        near = [k for k in arms if abs(beside[k] - 1.0) < COMPARABLE]
        verdicts.append(
            Verdict(
                claims()["figure3-gittins"],
                _share(near, arms),
                f"horizon {longest}, DeCo / FH-Gittins (yes: within {COMPARABLE:.0%} in all): "
                f"{_list(beside)}; the burden is not compared here",
            )
        )
    return verdicts


def of_figure4(points: Sequence[figure4.Point]) -> list[Verdict]:
    """The bound from prices for few arms and for many."""
    bound = {(p.horizon, p.arms): p.regret for p in points if p.what == "price bound"}
    deco = {(p.horizon, p.arms): p.regret for p in points if p.what == "deco"}
    few = [key for key in bound if key[1] in (2, 5)]
    useless = [key for key in few if bound[key] <= 0.0]
    many = max(arms for _, arms in bound)
    ratios = {h: deco[h, many] / bound[h, many] for h, k in bound if k == many}
    return [
        Verdict(
            claims()["figure4-few"],
            _share(useless, few),
            "; ".join(f"horizon {h}, {k} arms: {bound[h, k]:.2f}" for h, k in few),
        ),
        Verdict(
            claims()["figure4-many"],
            "yes" if max(ratios.values()) < QUITE_CLOSE else "no",
            f"{many} arms, regret of DeCo / bound (yes: below {QUITE_CLOSE:g}): "
            + "; ".join(f"horizon {h}: {ratio:.2f}" for h, ratio in ratios.items()),
        ),
    ]


def _below(at: dict[tuple[int, str], figure3.Point], best: float) -> str:
    """A remark on policies whose simulated regret is below that of the optimum for two arms."""
    lucky = [
        f"{policy} {point.regret:.3f} ± {point.error:.3f}"
        for (arms, policy), point in at.items()
        if arms == 2 and policy != "optimum" and point.regret < best
    ]
    return f"; below it by chance, as simulated: {', '.join(lucky)}" if lucky else ""


def _share(part: Sequence[object], whole: Sequence[object]) -> str:
    return "yes" if len(part) == len(whole) else "no" if not part else "in part"


def _list(by_arms: dict[int, float]) -> str:
    return "; ".join(f"{k} arms: {value:.2f}" for k, value in by_arms.items())
