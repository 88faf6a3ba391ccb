"""The paper's Figure 2, and the market view: figures, returned and never shown.

Of each arm, over the stages: value of information, expected reward, and their sum, the index,
against the price. What was lost can be read off the last of these: the distance between price and
pulled arm where that is below (shortfall), and between price and other arms above (congestion).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .paths import Path
from .plots import PRICE_COLOUR, new_figure
from .problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
COLOURS = (  # no green, which is the price's, and no grey, which is that of fresh arms
    "#1f77b4", "#ff7f0e", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#1a2f6b",
    "#b8860b", "#7a0044",
    "#6baed6", "#fdae6b", "#fb6a6a", "#c49cde", "#c49c94", "#f4a6cf", "#7fd6e0", "#6a7fc1",
    "#dfc04d", "#c2185b",
)  # fmt: skip
COLOURS_PER_DASH = 10  # the lighter half is dashed, too
DASHES = ("solid", "dashed", "dashdot", "dotted")
FRESH_COLOUR = "#8a8a8a"
SHORTFALL_COLOUR = "#c0392b"
CONGESTION_COLOUR = "#2c5fa8"
MOST_MARKED = 120  # stages; more markers than this hide each other
MOST_NAMED = 20  # arms in a legend
LONGEST_NAME = 22  # characters in a legend
NO_LOSS = 1e-9


class Style(NamedTuple):
    """How an arm is drawn, the same in all panels."""

    colour: str
    dashes: str


def arm_styles(paths: Sequence[Path]) -> dict[int, Style]:
    """A style for every arm that is pulled in any of the paths, in their order in the problem."""
    pulled = sorted({arm for path in paths for arms in path.pulled for arm in arms})
    return {
        arm: Style(COLOURS[i % len(COLOURS)], DASHES[(i // COLOURS_PER_DASH) % len(DASHES)])
        for i, arm in enumerate(pulled)
    }


def short_name(name: str) -> str:
    """An arm's name that leaves room for the figure."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def as_text(text: str) -> str:
    """Text as it is: no formula between $ signs, and not hidden for a leading underscore."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


class Line(NamedTuple):
    """A piece of a curve: some arm, or fresh arms of a group, over some stages."""

    arm: int  # for fresh arms, any of them
    fresh: bool
    group: int
    stages: slice


def lines_of(path: Path) -> Iterator[Line]:
    """The curves of a path: arms of a group share one until their first pull, then have their own.

    The deployment is left out: its rewards are of another size.
    """
    played = min(path.stages, path.problem.horizon)
    pulls = (path.good + path.bad)[:played]
    begun = np.argmax(pulls > 0, axis=0)  # stage at which the first outcome is known
    rested = ~np.any(pulls > 0, axis=0)
    begun[rested] = played
    for number, group in enumerate(path.problem.groups):
        members = np.array(group.members)
        longest = members[np.argmax(begun[members])]
        yield Line(int(longest), True, number, slice(0, int(begun[longest])))
    for arm in np.flatnonzero(~rested):
        # from the stage of its first pull, so that the curve leaves the shared one there
        first = int(begun[arm]) - 1
        yield Line(int(arm), False, int(path.problem.group_of_arm[arm]), slice(first, played))


def fresh_groups(paths: Sequence[Path]) -> list[int]:
    """Groups whose shared curve can be seen: two stages at least."""
    lines = [line for path in paths for line in lines_of(path)]
    return sorted({line.group for line in lines if line.fresh and line.stages.stop > 1})


def fresh_label(problem: Problem, group: int) -> str:
    """What the shared curve of a group's fresh arms is called."""
    if len(problem.groups) == 1:
        return "not pulled yet"
    members = problem.groups[group].members
    more = f" (+{len(members) - 1})" if len(members) > 1 else ""
    return f"not pulled yet: {short_name(problem.arms[members[0]].name)}{more}"


def checked_expected(path: Path, expected: npt.ArrayLike) -> Floats:
    """The expected loss after each stage of a path."""
    line = np.asarray(expected, dtype=float)
    if line.ndim != 1 or line.size < path.stages:
        raise ValueError(f"expected: shape {line.shape}; must be one number per stage")
    return line[: path.stages]


def path_figure(path: Path, expected: npt.ArrayLike | None = None) -> Figure:
    """One episode in four panels: the two terms, the index with the price, and the loss so far.

    `expected` (stages,): what the policy is expected to have lost after each stage, such as
    `gap(policy, solution).running`; drawn beside what was lost here.
    """
    _refuse_empty([path])
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
    panels[0].set_title(_title(path), fontsize="medium")
    lines = panels[3].get_legend_handles_labels()
    _name_arms(figure, [path], styles, list(zip(*lines, strict=True)))
    return figure


def paths_figure(paths: Sequence[Path]) -> Figure:
    """The paper's arrangement: the three upper panels of each run, runs two by two.

    The same arm has the same colour in all runs.
    """
    _refuse_empty(paths)
    rows = -(-len(paths) // 2)
    figure = new_figure(figsize=(12.0, 5.6 * rows))
    parts = np.atleast_2d(figure.subfigures(rows, min(2, len(paths)), wspace=0.03)).ravel()
    styles = arm_styles(paths)
    for number, (part, path) in enumerate(zip(parts, paths, strict=False), start=1):
        panels = part.subplots(3, 1, sharex=True, height_ratios=(1, 1, 1.5))
        _draw_terms(panels, path, styles)
        lost = f"{path.running_loss[-1]:.3f}"
        panels[0].set_title(f"run {number}: {path.policy}, loss {lost}", fontsize="medium")
        for axes, text in zip(panels, ("information", "reward", "index"), strict=True):
            axes.set_ylabel(text)
            axes.tick_params(labelsize="small")
        part.align_ylabels(panels)
        panels[2].set_xlabel("stage")
    _name_arms(figure, paths, styles)
    return figure


def _refuse_empty(paths: Sequence[Path]) -> None:
    if not paths or any(path.stages == 0 for path in paths):
        raise ValueError("nothing has been pulled yet: no figure")


def _title(path: Path) -> str:
    problem = path.problem
    where = "" if path.seed is None else f", seed {path.seed}"
    lines = [
        f"{path.policy} on {problem.number_of_arms} arms, horizon {problem.horizon}{where}",
        f"lost along this path {path.running_loss[-1]:.4f}; "
        f"no policy is expected to earn more than {path.upper_bound:.4f}",
    ]
    if path.deployed:
        name = short_name(problem.arms[path.pulled[-1][0]].name)
        lines.append(as_text(f"deployed after the last stage: {name}"))
    return "\n".join(lines)


# -- panels -------------------------------------------------------------------------------------


def _draw_terms(panels: Sequence[Axes], path: Path, styles: dict[int, Style]) -> None:
    """Value of information, expected reward, and index with price and loss."""
    played = min(path.stages, path.problem.horizon)
    width = 1.6 if played <= MOST_MARKED else 1.0
    for axes, values in zip(
        panels, (path.value_of_information, path.expected_reward, path.index), strict=True
    ):
        for line in lines_of(path):
            style = _style(line, styles)
            stages = np.arange(played)[line.stages]
            axes.plot(stages, values[line.stages, line.arm], linewidth=width, **style)
        _mark_pulls(axes, path, values, styles, played)
        axes.grid(alpha=0.25)
        axes.set_xlim(-0.6, played - 0.4)
        axes.xaxis.get_major_locator().set_params(integer=True)
    _draw_price(panels[2], path, played)


def _style(line: Line, styles: dict[int, Style]) -> dict[str, Any]:
    if line.fresh:
        dashes = DASHES[line.group % len(DASHES)]
        return {"color": FRESH_COLOUR, "linestyle": dashes, "zorder": 1.8}
    style = styles[line.arm]
    return {"color": style.colour, "linestyle": style.dashes, "alpha": 0.9}


def _mark_pulls(
    axes: Axes, path: Path, values: Floats, styles: dict[int, Style], played: int
) -> None:
    """Pulled arms: filled where the outcome was good, open where it was bad.

    Over long horizons a thick line along the stages at which an arm is pulled, instead.
    """
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
        size = float(np.clip(260.0 / played, 2.6, 6.5))
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
        handle = Line2D([], [], color=style.colour, linestyle=style.dashes, linewidth=1.8)
        entries.append((handle, as_text(short_name(problem.arms[arm].name))))
    nothing = Line2D([], [], linestyle="none")
    if len(styles) > MOST_NAMED:
        entries.append((nothing, f"… and {len(styles) - MOST_NAMED} more arms"))
    for group in fresh_groups(paths)[: len(DASHES)]:
        dashes = DASHES[group % len(DASHES)]
        handle = Line2D([], [], color=FRESH_COLOUR, linestyle=dashes, linewidth=1.8)
        entries.append((handle, as_text(fresh_label(problem, group))))
    if max(min(path.stages, problem.horizon) for path in paths) <= MOST_MARKED:
        dot = {"linestyle": "none", "marker": "o", "markersize": 6, "markeredgecolor": "black"}
        entries.append((Line2D([], [], markerfacecolor="black", **dot), "pulled, good"))
        entries.append((Line2D([], [], markerfacecolor="white", **dot), "pulled, bad"))
    else:
        entries.append((Line2D([], [], color="black", linewidth=3.0), "pulled (thick)"))
    entries.append((Patch(color=SHORTFALL_COLOUR, alpha=0.3, linewidth=0), "shortfall"))
    entries.append((Patch(color=CONGESTION_COLOUR, alpha=0.3, linewidth=0), "congestion"))
    handles, labels = zip(*entries, *more, strict=True)
    figure.legend(handles, labels, loc="outside right center", fontsize="small")
