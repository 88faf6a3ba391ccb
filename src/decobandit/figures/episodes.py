"""The paper's Figure 2: figures of episodes, returned and never shown.

Of each arm, over the stages: value of information, expected reward, and their sum, the index,
against the price. What was lost can be read off the last of these: the distance between price and
pulled arm where that is below (shortfall), and between price and other arms above (congestion).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..bounds import Episode
from ..prices import Demand
from ..problem import Problem
from ..problem.models.base import rounded
from ..support import Floats, InvalidArgument
from .palette import (
    CONGESTION_COLOUR,
    DASHES,
    FRESH_COLOUR,
    NEUTRAL_COLOUR,
    PRICE_COLOUR,
    SHORTFALL_COLOUR,
    Style,
    arm_style,
)
from .plots import WIDTH, legend_below, literal, new_figure
from .web_pages import (
    PLOTLY_DASHES,
    TRANSPARENT,
    add_curve,
    as_text,
    figure_page,
    named_below,
    new_panels,
    whole_stages,
)

LONGEST_NAME = 22  # characters in a legend
MOST_GROUPS = 8  # kinds of fresh arms that are drawn
NO_LOSS = 1e-9  # less is rounding, which is not magnified


def arm_styles(episodes: Sequence[Episode]) -> dict[int, Style]:
    """Return a style for every pulled arm, in the problem's order."""
    pulled = sorted({arm for episode in episodes for arms in episode.pulled for arm in arms})
    return {arm: arm_style(i) for i, arm in enumerate(pulled)}


def pull_labels(problem: Problem) -> tuple[str, str]:
    """Return the labels of filled and open points."""
    if problem.is_binary:
        return "pulled, good", "pulled, bad"
    return "pulled, at least as expected", "pulled, less than expected"


def points_text(problem: Problem) -> str:
    """Explain filled and open points in a sentence."""
    if problem.is_binary:
        return "Filled points are pulls with a good outcome, open points pulls with a bad one."
    return (
        "Filled points are pulls whose outcome counted at least what was expected, open points "
        "pulls whose outcome counted less."
    )


def short_name(name: str) -> str:
    """Shorten an arm's name for a figure."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


class Line(NamedTuple):
    """A piece of a curve: some arm, or fresh arms of a group, over some stages."""

    arm: int  # for fresh arms, any of them
    fresh: bool
    group: int
    stages: slice


def lines_of(episode: Episode) -> Iterator[Line]:
    """Yield the curves; arms of a group share one until their first pull.

    The deployment is left out: its rewards are of another size.
    """
    played = min(episode.stages, episode.problem.horizon)
    pulls = episode.pulls[:played]
    begun = np.argmax(pulls > 0, axis=0)  # stage at which the first outcome is known
    rested = ~np.any(pulls > 0, axis=0)
    begun[rested] = played
    for number, group in enumerate(episode.problem.groups):
        members = np.array(group.members)
        longest = members[np.argmax(begun[members])]
        yield Line(int(longest), True, number, slice(0, int(begun[longest])))
    for arm in np.flatnonzero(~rested):
        # from the stage of its first pull, so that the curve leaves the shared one there
        first = int(begun[arm]) - 1
        yield Line(int(arm), False, int(episode.problem.group_of_arm[arm]), slice(first, played))


def fresh_groups(episodes: Sequence[Episode]) -> list[int]:
    """Return the groups whose shared curve has at least two stages."""
    lines = [line for episode in episodes for line in lines_of(episode)]
    return sorted({line.group for line in lines if line.fresh and line.stages.stop > 1})


def fresh_label(problem: Problem, group: int) -> str:
    """Return the label of the shared curve of a group's fresh arms."""
    if len(problem.groups) == 1:
        return "not pulled yet"
    members = problem.groups[group].members
    more = f" (+{len(members) - 1})" if len(members) > 1 else ""
    return f"fresh: {short_name(problem.arms[members[0]].name)}{more}"


def fresh_names(market: Demand) -> list[str]:
    """Return the labels of the curves of fresh arms."""
    problem = market.problem
    if len(problem.groups) == 1:
        return ["index of a fresh arm"]
    firsts = [problem.arms[group.members[0]].name for group in problem.groups[:MOST_GROUPS]]
    return [f"fresh: {short_name(name)}" for name in firsts]


def refuse_empty(episodes: Sequence[Episode]) -> None:
    """Refuse episodes without pulls."""
    if not episodes or any(episode.stages == 0 for episode in episodes):
        raise InvalidArgument("episode: no pulls yet, nothing to draw", field="episode")


def checked_expected(episode: Episode, expected: npt.ArrayLike) -> Floats:
    """Return the expected loss after each stage, checked."""
    line = np.asarray(expected, dtype=float)
    if line.ndim != 1 or line.size < episode.stages:
        raise InvalidArgument(
            f"expected: shape {line.shape}; must be one number per stage", field="expected"
        )
    return line[: episode.stages]


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MARKED = 120  # stages; more markers than this hide each other
MOST_NAMED = 20  # arms in a legend


def episode_figure(
    episode: Episode, expected: npt.ArrayLike | None = None, *, interactive: bool = False
) -> Figure | Any:
    """Draw one episode: the two terms, the index with the price, and the cumulative loss.

    `expected` (stages,): what the policy is expected to have lost after each stage, such as
    `gap(problem, policy, solution=solution).running_loss`; drawn beside what was lost here.
    `interactive`: a figure of plotly in place of one of matplotlib.
    """
    refuse_empty([episode])
    if interactive:
        return episode_panels(episode, expected)
    figure = new_figure(figsize=(WIDTH, 9.5))
    panels = figure.subplots(4, 1, sharex=True, height_ratios=(1, 1, 1.6, 0.9))
    styles = arm_styles([episode])
    _draw_terms(panels[:3], episode, styles, scale=0.8)
    _draw_loss(panels[3], episode, expected)
    for axes, text in zip(
        panels,
        ("value of\ninformation", "expected\nreward", "index and price", "loss so far"),
        strict=True,
    ):
        axes.set_ylabel(text)
    figure.align_ylabels(panels)
    panels[3].set_xlabel("stage")
    figure.suptitle(_title(episode), fontsize="medium")
    lines = panels[3].get_legend_handles_labels()
    _name_arms(figure, [episode], styles, list(zip(*lines, strict=True)))
    return figure


def episodes_figure(episodes: Sequence[Episode]) -> Figure:
    """Draw the three upper panels of each run, two runs side by side, as in the paper.

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
    """Draw value of information, expected reward, and index with price.

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
    """Mark pulls: filled if the outcome was good or as expected, else open.

    Over long horizons a thick line along the stages at which an arm is pulled, instead.
    """
    played = min(episode.stages, episode.problem.horizon)
    marks = episode.was_pulled[:played]
    for arm, style in styles.items():
        stages = np.flatnonzero(marks[:, arm])
        if played > MOST_MARKED:
            ends = np.minimum(stages[:, None] + [0, 1], played - 1)
            axes.plot(
                *_broken(ends, values[ends, arm]),
                color=style.colour,
                linewidth=2.2,
                solid_capstyle="butt",
                zorder=2.6,
            )
            continue
        good = np.array(
            [episode.favourable[t][episode.pulled[t].index(arm)] for t in stages], dtype=bool
        )
        for selected, fill in ((good, style.colour), (~good, "white")):
            axes.plot(
                stages[selected],
                values[stages[selected], arm],
                linestyle="none",
                marker="o",
                markersize=size,
                markeredgecolor=style.colour,
                markerfacecolor=fill,
                markeredgewidth=min(1.2, 0.25 * size),
                zorder=3,
            )


def _broken(x: npt.NDArray[np.int64], y: Floats) -> tuple[Floats, Floats]:
    """Join pieces (pieces, 2) into one line with gaps."""
    gap = np.full((len(x), 1), np.nan)
    return np.hstack([x, gap]).ravel(), np.hstack([y, gap]).ravel()


def _draw_price(axes: Axes, episode: Episode, played: int) -> None:
    """Draw the price and the loss at each stage."""
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
    """Draw cumulative shortfall plus congestion, and the expected loss."""
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
    """Add the legend below: price, arms, marks and shades."""
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


# -- pages -------------------------------------------------------------------------------------

COUNTED, SEEN = "good/pulls: %{customdata[0]}/%{customdata[1]}", "seen: %{customdata[0]}"
HOVER = (
    f"<b>%{{meta}}</b>, stage %{{x}}<br>{COUNTED}<br>"
    "expected reward %{customdata[2]:.4f}<br>value of information %{customdata[3]:.4f}<br>"
    "index %{customdata[4]:.4f}<br>price %{customdata[5]:.4f}<extra></extra>"
)


def episode_page(episode: Episode, expected: npt.ArrayLike | None = None) -> str:
    """Return one episode as an interactive page."""
    refuse_empty([episode])
    figure = episode_panels(episode, expected)
    problem = episode.problem
    seed = "" if episode.seed is None else f", seed {episode.seed}"
    title = f"{episode.policy} on {problem.n_arms} arms, horizon {problem.horizon}{seed}"
    text = (
        f"Lost in this episode: {episode.running_loss[-1]:.4f}. No policy is expected to earn more "
        f"than {episode.upper_bound:.4f}. {points_text(problem)} Click on names to hide "
        "them, twice to see one alone."
    )
    if episode.deployed:
        text += f" Deployed after the last stage: {problem.arms[episode.pulled[-1][0]].name}."
    return figure_page(named_below(figure), title, text)


def episode_panels(
    episode: Episode, expected: npt.ArrayLike | None = None, *, first: str = "value of information"
) -> Any:
    """Return one episode as a plotly figure; `first` is the title of the first panel."""
    titles = (first, "expected reward", "index and price", "loss so far")
    figure = new_panels(titles, heights=[220.0, 220.0, 440.0, 220.0])
    styles = arm_styles([episode])
    named: set[str] = set()
    fresh = fresh_groups([episode])
    for line in lines_of(episode):
        if not line.fresh or line.group in fresh:
            _add_line(figure, episode, line, styles, named)
    for arm, style in styles.items():
        _add_pulls(figure, episode, arm, style)
    _add_price(figure, episode)
    _add_loss(figure, episode, expected)
    whole_stages(figure, episode.stages)
    return figure


def _terms(episode: Episode) -> tuple[Floats, Floats, Floats]:
    """Return the values of the three upper panels, each (stages, arms)."""
    return episode.value_of_information, episode.expected_reward, episode.index


def _hover(episode: Episode) -> str:
    """Return the hover template of an arm."""
    return HOVER if episode.problem.is_binary else HOVER.replace(COUNTED, SEEN)


def _numbers(episode: Episode, arm: int, stages: npt.NDArray[np.int64]) -> list[list[float | str]]:
    """Return the hover data of an arm, by stage."""
    columns = [
        episode.good,
        episode.pulls,
        episode.expected_reward,
        episode.value_of_information,
        episode.index,
    ]
    numbers = [column[stages, arm] for column in columns]
    rows = np.column_stack([*numbers, episode.prices[stages]]).round(6).tolist()
    if episode.seen:
        return [
            [rounded(episode.seen[t][arm]), *row[1:]] for t, row in zip(stages, rows, strict=True)
        ]
    return [[int(good), int(pulls), *rest] for good, pulls, *rest in rows]


def _add_line(
    figure: Any, episode: Episode, line: Line, styles: dict[int, Style], named: set[str]
) -> None:
    """Add one curve to the three upper panels, with one legend entry."""
    if line.fresh:
        shown = name = fresh_label(episode.problem, line.group)
        dash, key = PLOTLY_DASHES[DASHES[line.group % len(DASHES)]], f"group {line.group}"
        colour = FRESH_COLOUR
    else:
        name, (colour, dashes, _) = episode.problem.arms[line.arm].name, styles[line.arm]
        shown, dash, key = short_name(name), PLOTLY_DASHES[dashes], f"arm {line.arm}"
    stages = np.arange(episode.stages)[line.stages]
    numbers = _numbers(episode, line.arm, stages)
    for row, values in enumerate(_terms(episode), start=1):
        figure.add_scatter(
            x=stages.tolist(),
            y=values[stages, line.arm].tolist(),
            mode="lines",
            name=as_text(shown),
            legendgroup=key,
            showlegend=key not in named,
            line={"color": colour, "width": 1.6, "dash": dash},
            meta=as_text(name),
            customdata=numbers,
            hovertemplate=_hover(episode),
            row=row,
            col=1,
        )
        named.add(key)


def _add_pulls(figure: Any, episode: Episode, arm: int, style: Style) -> None:
    """Add the pulls of an arm: filled points for good outcomes, open for bad."""
    stages = np.flatnonzero(episode.was_pulled[: episode.problem.horizon, arm])
    if not stages.size:  # pulled as a deployment only
        return
    outcomes = [episode.favourable[t][episode.pulled[t].index(arm)] for t in stages]
    better, worse = pull_labels(episode.problem)
    name, numbers = as_text(episode.problem.arms[arm].name), _numbers(episode, arm, stages)
    size = float(np.clip(260.0 / episode.stages, 3.0, 8.0))
    fills = [style.colour if good else TRANSPARENT for good in outcomes]
    for row, values in enumerate(_terms(episode), start=1):
        figure.add_scatter(
            x=stages.tolist(),
            y=values[stages, arm].tolist(),
            mode="markers",
            marker={"color": fills, "size": size, "line": {"color": style.colour, "width": 1.2}},
            legendgroup=f"arm {arm}",
            showlegend=False,
            name=name,
            meta=name,
            text=[better if good else worse for good in outcomes],
            customdata=numbers,
            hovertemplate="%{text}<br>" + _hover(episode),
            row=row,
            col=1,
        )


def _add_price(figure: Any, episode: Episode) -> None:
    """Add the price and bars for the loss."""
    played = min(episode.stages, episode.problem.horizon)
    add_curve(figure, 3, episode.prices[:played], "price of a pull", PRICE_COLOUR, width=4)
    excess, pulled = episode.excess[:played], episode.was_pulled[:played]
    for name, lost, colour in (
        ("shortfall", pulled & (excess < 0.0), SHORTFALL_COLOUR),
        ("congestion", ~pulled & (excess > 0.0), CONGESTION_COLOUR),
    ):
        stages, arms = np.nonzero(lost)
        figure.add_bar(
            x=stages.tolist(),
            y=excess[stages, arms].tolist(),
            base=episode.prices[stages].tolist(),
            width=0.72,
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            opacity=0.3,
            text=[as_text(episode.problem.arms[arm].name) for arm in arms],
            textposition="none",
            customdata=np.abs(excess[stages, arms]).round(6).tolist(),
            hovertemplate=f"{name} at stage %{{x}}: %{{customdata:.4f}} (%{{text}})<extra></extra>",
            row=3,
            col=1,
        )
    figure.update_layout(barmode="overlay")


def _add_loss(figure: Any, episode: Episode, expected: npt.ArrayLike | None) -> None:
    add_curve(figure, 4, episode.running_loss, "loss in this episode", NEUTRAL_COLOUR)
    for name, values, colour in (
        ("shortfall so far", episode.shortfall, SHORTFALL_COLOUR),
        ("congestion so far", episode.congestion, CONGESTION_COLOUR),
    ):
        add_curve(figure, 4, np.cumsum(values), name, colour, width=1.2)
    if expected is not None:
        line = checked_expected(episode, expected)
        add_curve(figure, 4, line, "expected loss", NEUTRAL_COLOUR, dash="dash")
    elif episode.running_loss[-1] <= NO_LOSS:
        figure.update_yaxes(range=[-0.04, 1.0], row=4, col=1)
