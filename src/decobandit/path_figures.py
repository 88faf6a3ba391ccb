"""The paper's Figure 2, and the market view: figures, returned and never shown.

Of each arm, over the stages: value of information, expected reward, and their sum, the index,
against the price. What was lost can be read off the last of these: the distance between price and
pulled arm where that is below (shortfall), and between price and other arms above (congestion).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .path_lines import (
    CONGESTION_COLOUR,
    DASHES,
    FRESH_COLOUR,
    SHORTFALL_COLOUR,
    Line,
    Style,
    arm_styles,
    checked_expected,
    fresh_groups,
    fresh_label,
    lines_of,
    refuse_empty,
    short_name,
)
from .paths import Path
from .plots import PRICE_COLOUR, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
MOST_MARKED = 120  # stages; more markers than this hide each other
MOST_NAMED = 20  # arms in a legend
NO_LOSS = 1e-9


def as_text(text: str) -> str:
    """Text as it is: no formula between $ signs, and not hidden for a leading underscore."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def path_figure(path: Path, expected: npt.ArrayLike | None = None) -> Figure:
    """One episode in four panels: the two terms, the index with the price, and the loss so far.

    `expected` (stages,): what the policy is expected to have lost after each stage, such as
    `gap(policy, solution=solution).running`; drawn beside what was lost here.
    """
    refuse_empty([path])
    figure = new_figure(figsize=(9.0, 10.5))
    panels = figure.subplots(4, 1, sharex=True, height_ratios=(1, 1, 1.6, 0.9))
    styles = arm_styles([path])
    _draw_terms(panels[:3], path, styles)
    _draw_loss(panels[3], path, expected)
    for axes, text in zip(
        panels, ("value of\ninformation", "expected\nreward", "index and price", "loss so far"),
        strict=True,
    ):  # fmt: skip
        axes.set_ylabel(text)
    figure.align_ylabels(panels)
    panels[3].set_xlabel("stage")
    figure.suptitle(_title(path), fontsize="medium")
    lines = panels[3].get_legend_handles_labels()
    _name_arms(figure, [path], styles, list(zip(*lines, strict=True)))
    return figure


def paths_figure(paths: Sequence[Path]) -> Figure:
    """The paper's arrangement: the three upper panels of each run, runs two by two.

    The same arm has the same colour in all runs.
    """
    refuse_empty(paths)
    rows = -(-len(paths) // 2)
    figure = new_figure(figsize=(12.0, 5.6 * rows))
    parts = figure.subfigures(rows, min(2, len(paths)), wspace=0.03, squeeze=False).ravel()
    styles = arm_styles(paths)
    for number, (part, path) in enumerate(zip(parts, paths, strict=False), start=1):
        panels = part.subplots(3, 1, sharex=True, height_ratios=(1, 1, 1.5))
        _draw_terms(panels, path, styles, scale=0.7)
        title = as_text(f"run {number}: {path.policy}, loss {path.running_loss[-1]:.3f}")
        panels[0].set_title(title, fontsize="medium")
        for axes, text in zip(panels, ("information", "reward", "index"), strict=True):
            axes.set_ylabel(text)
            axes.tick_params(labelsize="small")
        part.align_ylabels(panels)
        panels[2].set_xlabel("stage")
    _name_arms(figure, paths, styles)
    return figure


def _title(path: Path) -> str:
    problem = path.problem
    where = "" if path.seed is None else f", seed {path.seed}"
    lines = [
        as_text(
            f"{path.policy} on {problem.number_of_arms} arms, horizon {problem.horizon}{where}"
        ),
        f"lost along this path {path.running_loss[-1]:.4f}; "
        f"no policy is expected to earn more than {path.upper_bound:.4f}",
    ]
    if path.deployed:
        name = short_name(problem.arms[path.pulled[-1][0]].name)
        lines.append(as_text(f"deployed after the last stage: {name}"))
    return "\n".join(lines)


# -- panels -------------------------------------------------------------------------------------


def _draw_terms(
    panels: Sequence[Axes], path: Path, styles: dict[int, Style], *, scale: float = 1.0
) -> None:
    """Value of information, expected reward, and index with price and loss.

    `scale`: how wide the panels are, 1 where they fill the figure.
    """
    played = min(path.stages, path.problem.horizon)
    width = 1.6 if played <= MOST_MARKED else 1.0
    for axes, values in zip(
        panels, (path.value_of_information, path.expected_reward, path.index), strict=True
    ):
        for line in lines_of(path):
            style = _style(line, styles)
            stages = np.arange(played)[line.stages]
            axes.plot(stages, values[line.stages, line.arm], linewidth=width, **style)
        _mark_pulls(axes, path, values, styles, float(np.clip(260.0 * scale / played, 2.4, 6.5)))
        axes.grid(alpha=0.25)
        axes.set_xlim(-0.6, played - 0.4)
        axes.locator_params(axis="x", integer=True)
    _draw_price(panels[2], path, played)


def _style(line: Line, styles: dict[int, Style]) -> dict[str, Any]:
    if line.fresh:
        dashes = DASHES[line.group % len(DASHES)]
        return {"color": FRESH_COLOUR, "linestyle": dashes, "zorder": 1.8}
    style = styles[line.arm]
    return {"color": style.colour, "linestyle": style.dashes, "alpha": 0.9}


def _mark_pulls(
    axes: Axes, path: Path, values: Floats, styles: dict[int, Style], size: float
) -> None:
    """Pulled arms: filled where the outcome was good, open where it was bad.

    Over long horizons a thick line along the stages at which an arm is pulled, instead.
    """
    played = min(path.stages, path.problem.horizon)
    marks = path.was_pulled[:played]
    for arm, style in styles.items():
        stages = np.flatnonzero(marks[:, arm])
        if played > MOST_MARKED:
            ends = np.minimum(stages[:, None] + [0, 1], played - 1)
            axes.plot(
                *_broken(ends, values[ends, arm]), color=style.colour, linewidth=2.2,
                solid_capstyle="butt", zorder=2.6,
            )  # fmt: skip
            continue
        good = np.array([path.outcomes[t][path.pulled[t].index(arm)] for t in stages], dtype=bool)
        for seen, fill in ((good, style.colour), (~good, "white")):
            axes.plot(
                stages[seen], values[stages[seen], arm], linestyle="none", marker="o",
                markersize=size, markeredgecolor=style.colour, markerfacecolor=fill,
                markeredgewidth=min(1.2, 0.25 * size), zorder=3,
            )  # fmt: skip


def _broken(x: npt.NDArray[np.int64], y: Floats) -> tuple[Floats, Floats]:
    """Separate pieces (pieces, 2) as one line: a gap after each."""
    gap = np.full((len(x), 1), np.nan)
    return np.hstack([x, gap]).ravel(), np.hstack([y, gap]).ravel()


def _draw_price(axes: Axes, path: Path, played: int) -> None:
    """The price, and the distances to it that are lost, stage by stage."""
    from matplotlib.collections import PolyCollection

    axes.plot(path.prices[:played], color=PRICE_COLOUR, linewidth=3.5, alpha=0.65, zorder=1.9)
    half = 0.36 if played <= MOST_MARKED else 0.5
    lost = np.where(path.was_pulled, path.excess < 0.0, path.excess > 0.0)[:played]
    for pulls, colour in ((True, SHORTFALL_COLOUR), (False, CONGESTION_COLOUR)):
        bars = [
            [(t - half, low), (t - half, high), (t + half, high), (t + half, low)]
            for t, arm in np.argwhere(lost & (path.was_pulled[:played] == pulls))
            for low, high in [sorted((float(path.prices[t]), float(path.index[t, arm])))]
        ]
        # several arms above the price lie over each other and make the colour darker
        axes.add_collection(
            PolyCollection(bars, facecolor=colour, edgecolor="none", alpha=0.25, zorder=1.5)
        )


def _draw_loss(axes: Axes, path: Path, expected: npt.ArrayLike | None) -> None:
    """Running totals: shortfall, congestion on top of it, and what was to be expected."""
    stages = np.arange(path.stages)
    shortfall, total = np.cumsum(path.shortfall), path.running_loss
    axes.fill_between(stages, shortfall, color=SHORTFALL_COLOUR, alpha=0.3, linewidth=0)
    axes.fill_between(stages, shortfall, total, color=CONGESTION_COLOUR, alpha=0.3, linewidth=0)
    axes.plot(stages, total, color="black", linewidth=1.4, label="loss on this path")
    top = float(total[-1])
    if expected is not None:
        line = checked_expected(path, expected)
        axes.plot(line, color="black", linewidth=1.4, linestyle="dashed", label="expected loss")
        top = max(top, float(line[-1]))
    if path.deployed:
        axes.axvline(path.problem.horizon, color=FRESH_COLOUR, linestyle="dotted", zorder=0)
        axes.set_xlim(-0.6, path.stages - 0.4)
    top = top if top > NO_LOSS else 1.0  # rounding is not magnified
    axes.set_ylim(-0.04 * top, 1.08 * top)  # a path without loss is seen above the frame
    axes.grid(alpha=0.25)


def _name_arms(
    figure: Figure,
    paths: Sequence[Path],
    styles: dict[int, Style],
    more: Sequence[tuple[Any, str]] = (),
) -> None:
    """A legend outside: price, arms, how pulls are marked, what is shaded."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    problem = paths[0].problem
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=PRICE_COLOUR, linewidth=3.5, alpha=0.65), "price of a pull")
    ]
    for arm, style in list(styles.items())[:MOST_NAMED]:
        handle = _curve(style.colour, style.dashes)
        entries.append((handle, as_text(short_name(problem.arms[arm].name))))
    nothing = Line2D([], [], linestyle="none")
    if len(styles) > MOST_NAMED:
        entries.append((nothing, f"… and {len(styles) - MOST_NAMED} more arms"))
    for group in fresh_groups(paths)[: len(DASHES)]:
        handle = _curve(FRESH_COLOUR, DASHES[group % len(DASHES)])
        entries.append((handle, as_text(fresh_label(problem, group))))
    if max(min(path.stages, problem.horizon) for path in paths) <= MOST_MARKED:
        dot: dict[str, Any] = {"linestyle": "none", "marker": "o", "markeredgecolor": "black"}
        entries.append((Line2D([], [], markerfacecolor="black", **dot), "pulled, good"))
        entries.append((Line2D([], [], markerfacecolor="white", **dot), "pulled, bad"))
    else:
        entries.append((Line2D([], [], color="black", linewidth=3.0), "pulled (thick)"))
    entries.append((Patch(color=SHORTFALL_COLOUR, alpha=0.3, linewidth=0), "shortfall"))
    entries.append((Patch(color=CONGESTION_COLOUR, alpha=0.3, linewidth=0), "congestion"))
    handles, labels = zip(*entries, *more, strict=True)
    figure.legend(handles, labels, loc="outside right center", fontsize="small")


def _curve(colour: str, dashes: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=dashes, linewidth=1.8)  # type: ignore[arg-type]
