"""The paper's Figure 2: figures of episodes, returned and never shown.

Of each arm, over the stages: value of information, expected reward, and their sum, the index,
against the price. What was lost can be read off the last of these: the distance between price and
pulled arm where that is below (shortfall), and between price and other arms above (congestion).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..bounds import Episode
from ..support import Floats
from .colours import CONGESTION_COLOUR, DASHES, FRESH_COLOUR, PRICE_COLOUR, SHORTFALL_COLOUR
from .episode_lines import (
    NO_LOSS,
    Line,
    arm_styles,
    checked_expected,
    fresh_groups,
    fresh_label,
    lines_of,
    pull_labels,
    refuse_empty,
    short_name,
)
from .palette import Style
from .plots import WIDTH, legend_below, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MARKED = 120  # stages; more markers than this hide each other
MOST_NAMED = 20  # arms in a legend


def episode_figure(
    episode: Episode, expected: npt.ArrayLike | None = None, *, interactive: bool = False
) -> Figure | Any:
    """One episode in four panels: the two terms, the index with the price, and the loss so far.

    `expected` (stages,): what the policy is expected to have lost after each stage, such as
    `gap(problem, policy, solution=solution).running_loss`; drawn beside what was lost here.
    `interactive`: a figure of plotly in place of one of matplotlib.
    """
    refuse_empty([episode])
    if interactive:
        from .web_pages import episode_panels

        return episode_panels(episode, expected)
    figure = new_figure(figsize=(WIDTH, 9.5))
    panels = figure.subplots(4, 1, sharex=True, height_ratios=(1, 1, 1.6, 0.9))
    styles = arm_styles([episode])
    _draw_terms(panels[:3], episode, styles, scale=0.8)
    _draw_loss(panels[3], episode, expected)
    for axes, text in zip(
        panels, ("value of\ninformation", "expected\nreward", "index and price", "loss so far"),
        strict=True,
    ):  # fmt: skip
        axes.set_ylabel(text)
    figure.align_ylabels(panels)
    panels[3].set_xlabel("stage")
    figure.suptitle(_title(episode), fontsize="medium")
    lines = panels[3].get_legend_handles_labels()
    _name_arms(figure, [episode], styles, list(zip(*lines, strict=True)))
    return figure


def episodes_figure(episodes: Sequence[Episode]) -> Figure:
    """The paper's arrangement: the three upper panels of each run, runs two by two.

    The same arm has the same colour in all runs.
    """
    refuse_empty(episodes)
    rows = -(-len(episodes) // 2)
    figure = new_figure(figsize=(1.35 * WIDTH, 5.0 * rows))
    parts = figure.subfigures(rows, min(2, len(episodes)), wspace=0.03, squeeze=False).ravel()
    styles = arm_styles(episodes)
    for number, (part, episode) in enumerate(zip(parts, episodes, strict=False), start=1):
        panels = part.subplots(3, 1, sharex=True, height_ratios=(1, 1, 1.5))
        _draw_terms(panels, episode, styles, scale=0.5)
        title = literal(f"run {number}: {episode.policy}, loss {episode.running_loss[-1]:.3f}")
        panels[0].set_title(title, fontsize="medium")
        for axes, text in zip(panels, ("information", "reward", "index"), strict=True):
            axes.set_ylabel(text)
            axes.tick_params(labelsize="small")
        part.align_ylabels(panels)
        panels[2].set_xlabel("stage")
    _name_arms(figure, episodes, styles)
    return figure


def _title(episode: Episode) -> str:
    problem = episode.problem
    where = "" if episode.seed is None else f", seed {episode.seed}"
    lines = [
        literal(f"{episode.policy} on {problem.n_arms} arms, horizon {problem.horizon}{where}"),
        f"lost in this episode {episode.running_loss[-1]:.4f}; "
        f"no policy is expected to earn more than {episode.upper_bound:.4f}",
    ]
    if episode.deployed:
        name = short_name(problem.arms[episode.pulled[-1][0]].name)
        lines.append(literal(f"deployed after the last stage: {name}"))
    return "\n".join(lines)


# -- panels -------------------------------------------------------------------------------------


def _draw_terms(
    panels: Sequence[Axes], episode: Episode, styles: dict[int, Style], *, scale: float = 1.0
) -> None:
    """Value of information, expected reward, and index with price and loss.

    `scale`: how wide the panels are, 1 where they fill the figure.
    """
    played = min(episode.stages, episode.problem.horizon)
    width = 1.6 if played <= MOST_MARKED else 1.0
    for axes, values in zip(
        panels, (episode.value_of_information, episode.expected_reward, episode.index), strict=True
    ):
        for line in lines_of(episode):
            style = _style(line, styles)
            stages = np.arange(played)[line.stages]
            axes.plot(stages, values[line.stages, line.arm], linewidth=width, **style)
        _mark_pulls(axes, episode, values, styles, float(np.clip(260.0 * scale / played, 2.4, 6.5)))
        axes.grid(alpha=0.25)
        axes.set_xlim(-0.6, played - 0.4)
        axes.locator_params(axis="x", integer=True)
    _draw_price(panels[2], episode, played)


def _style(line: Line, styles: dict[int, Style]) -> dict[str, Any]:
    if line.fresh:
        dashes = DASHES[line.group % len(DASHES)]
        return {"color": FRESH_COLOUR, "linestyle": dashes, "zorder": 1.8}
    style = styles[line.arm]
    return {"color": style.colour, "linestyle": style.dashes, "alpha": 0.9}


def _mark_pulls(
    axes: Axes, episode: Episode, values: Floats, styles: dict[int, Style], size: float
) -> None:
    """Pulled arms: filled where the outcome was good or as expected, open elsewhere.

    Over long horizons a thick line along the stages at which an arm is pulled, instead.
    """
    played = min(episode.stages, episode.problem.horizon)
    marks = episode.was_pulled[:played]
    for arm, style in styles.items():
        stages = np.flatnonzero(marks[:, arm])
        if played > MOST_MARKED:
            ends = np.minimum(stages[:, None] + [0, 1], played - 1)
            axes.plot(
                *_broken(ends, values[ends, arm]), color=style.colour, linewidth=2.2,
                solid_capstyle="butt", zorder=2.6,
            )  # fmt: skip
            continue
        good = np.array(
            [episode.favourable[t][episode.pulled[t].index(arm)] for t in stages], dtype=bool
        )
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


def _draw_price(axes: Axes, episode: Episode, played: int) -> None:
    """The price, and the distances to it that are lost, stage by stage."""
    from matplotlib.collections import PolyCollection

    axes.plot(episode.prices[:played], color=PRICE_COLOUR, linewidth=3.5, alpha=0.65, zorder=1.9)
    half = 0.36 if played <= MOST_MARKED else 0.5
    lost = np.where(episode.was_pulled, episode.excess < 0.0, episode.excess > 0.0)[:played]
    for pulls, colour in ((True, SHORTFALL_COLOUR), (False, CONGESTION_COLOUR)):
        bars = [
            [(t - half, low), (t - half, high), (t + half, high), (t + half, low)]
            for t, arm in np.argwhere(lost & (episode.was_pulled[:played] == pulls))
            for low, high in [sorted((float(episode.prices[t]), float(episode.index[t, arm])))]
        ]
        # several arms above the price lie over each other and make the colour darker
        axes.add_collection(
            PolyCollection(bars, facecolor=colour, edgecolor="none", alpha=0.25, zorder=1.5)
        )


def _draw_loss(axes: Axes, episode: Episode, expected: npt.ArrayLike | None) -> None:
    """Running totals: shortfall, congestion on top of it, and what was to be expected."""
    stages = np.arange(episode.stages)
    shortfall, total = np.cumsum(episode.shortfall), episode.running_loss
    axes.fill_between(stages, shortfall, color=SHORTFALL_COLOUR, alpha=0.3, linewidth=0)
    axes.fill_between(stages, shortfall, total, color=CONGESTION_COLOUR, alpha=0.3, linewidth=0)
    axes.plot(stages, total, color="black", linewidth=1.4, label="loss in this episode")
    top = float(total[-1])
    if expected is not None:
        line = checked_expected(episode, expected)
        axes.plot(line, color="black", linewidth=1.4, linestyle="dashed", label="expected loss")
        top = max(top, float(line[-1]))
    if episode.deployed:
        axes.axvline(episode.problem.horizon, color=FRESH_COLOUR, linestyle="dotted", zorder=0)
        axes.set_xlim(-0.6, episode.stages - 0.4)
    top = top if top > NO_LOSS else 1.0  # rounding is not magnified
    axes.set_ylim(-0.04 * top, 1.08 * top)  # an episode without loss is seen above the frame
    axes.grid(alpha=0.25)


def _name_arms(
    figure: Figure,
    episodes: Sequence[Episode],
    styles: dict[int, Style],
    more: Sequence[tuple[Any, str]] = (),
) -> None:
    """A legend below: price, arms, how pulls are marked, what is shaded."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    problem = episodes[0].problem
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=PRICE_COLOUR, linewidth=3.5, alpha=0.65), "price of a pull")
    ]
    for arm, style in list(styles.items())[:MOST_NAMED]:
        handle = _curve(style.colour, style.dashes)
        entries.append((handle, literal(short_name(problem.arms[arm].name))))
    nothing = Line2D([], [], linestyle="none")
    if len(styles) > MOST_NAMED:
        entries.append((nothing, f"… and {len(styles) - MOST_NAMED} more arms"))
    for group in fresh_groups(episodes)[: len(DASHES)]:
        handle = _curve(FRESH_COLOUR, DASHES[group % len(DASHES)])
        entries.append((handle, literal(fresh_label(problem, group))))
    if max(min(episode.stages, problem.horizon) for episode in episodes) <= MOST_MARKED:
        dot: dict[str, Any] = {"linestyle": "none", "marker": "o", "markeredgecolor": "black"}
        for fill, label in zip(("black", "white"), pull_labels(problem), strict=True):
            entries.append((Line2D([], [], markerfacecolor=fill, **dot), label))
    else:
        entries.append((Line2D([], [], color="black", linewidth=3.0), "pulled (thick)"))
    entries.append((Patch(color=SHORTFALL_COLOUR, alpha=0.3, linewidth=0), "shortfall"))
    entries.append((Patch(color=CONGESTION_COLOUR, alpha=0.3, linewidth=0), "congestion"))
    handles, labels = zip(*entries, *more, strict=True)
    legend_below(figure, handles, labels)


def _curve(colour: str, dashes: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=dashes, linewidth=1.8)  # type: ignore[arg-type]
