"""Episodes and markets as interactive web pages; needs the extra `plot`.

A page holds everything it needs and asks no other host for anything; its content security policy
says so to the browser. Names of arms come from users: they are escaped wherever they appear.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from ..bounds import Episode
from ..prices import Demand
from ..problem.models.base import rounded
from ..support import Floats, write_whole
from . import episode_lines as lines
from .colours import (
    AT_PRICE_COLOUR,
    CONGESTION_COLOUR,
    DASHES,
    FRESH_COLOUR,
    NEUTRAL_COLOUR,
    PRICE_COLOUR,
    SAFE_COLOURS,
    SHORTFALL_COLOUR,
)
from .page_head import HEAD
from .palette import Style

TRANSPARENT = "rgba(0,0,0,0)"
ABOVE = 20  # pixels above the first panel
LEGEND_ROW = 20.0  # pixels
LEGEND_BELOW: dict[str, Any] = {
    "orientation": "h", "yref": "container", "y": 0.0, "yanchor": "bottom",
    "entrywidth": 0.5, "entrywidthmode": "fraction", "font": {"size": 11},
}  # fmt: skip
FEW_STAGES = 10  # each has a number below the axis
GRID = "rgba(128,128,128,0.3)"
PLOTLY_DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
POLICY = Markup(
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
STYLE = Markup("""\
:root { color-scheme: light dark }
body { font-family: sans-serif; margin: 1rem auto; max-width: 75rem; padding: 0 1rem }
h1 { font-size: 1.2rem }
""")
PAGE = HEAD + Markup("""<body>
<h1>{title}</h1>
<p>{text}</p>
{figure}
</body>
</html>
""")
COUNTED, SEEN = "good/pulls: %{customdata[0]}/%{customdata[1]}", "seen: %{customdata[0]}"
HOVER = (
    f"<b>%{{meta}}</b>, stage %{{x}}<br>{COUNTED}<br>"
    "expected reward %{customdata[2]:.4f}<br>value of information %{customdata[3]:.4f}<br>"
    "index %{customdata[4]:.4f}<br>price %{customdata[5]:.4f}<extra></extra>"
)


def save_page(page: str, file: str | Path) -> None:
    """Write a page."""
    write_whole(file, page)


def episode_page(episode: Episode, expected: npt.ArrayLike | None = None) -> str:
    """One episode as a page: the panels of `episode_figure`, every point with its numbers."""
    lines.refuse_empty([episode])
    figure = episode_panels(episode, expected)
    problem = episode.problem
    seed = "" if episode.seed is None else f", seed {episode.seed}"
    title = f"{episode.policy} on {problem.n_arms} arms, horizon {problem.horizon}{seed}"
    text = (
        f"Lost in this episode: {episode.running_loss[-1]:.4f}. No policy is expected to earn more "
        f"than {episode.upper_bound:.4f}. {lines.points_text(problem)} Click on names to hide "
        "them, twice to see one alone."
    )
    if episode.deployed:
        text += f" Deployed after the last stage: {problem.arms[episode.pulled[-1][0]].name}."
    return figure_page(_named_below(figure), title, text)


def episode_panels(
    episode: Episode, expected: npt.ArrayLike | None = None, *, first: str = "value of information"
) -> Any:
    """The panels of one episode as a plotly figure; `first` is the title of the first one."""
    titles = (first, "expected reward", "index and price", "loss so far")
    figure = new_panels(titles, heights=[220.0, 220.0, 440.0, 220.0])
    styles = lines.arm_styles([episode])
    named: set[str] = set()
    seen = lines.fresh_groups([episode])
    for line in lines.lines_of(episode):
        if not line.fresh or line.group in seen:
            _add_line(figure, episode, line, styles, named)
    for arm, style in styles.items():
        _add_pulls(figure, episode, arm, style)
    _add_price(figure, episode)
    _add_loss(figure, episode, expected)
    _whole_stages(figure, episode.stages)
    return figure


def market_page(market: Demand) -> str:
    """The market as a page: the panels of `market_figure`."""
    problem, shown = market.problem, market.problem.horizon
    title = f"the market of {problem.n_arms} arms, horizon {shown}"
    text = "Expected numbers, with the pulls of every stage sold in order of index."
    if problem.stages > shown:
        text += f" Price of the deployment: {market.prices[-1]:.4f}."
    return figure_page(_named_below(market_panels(market)), title, text)


def market_panels(market: Demand) -> Any:
    """The panels of a market as a plotly figure."""
    figure = new_panels(("price and index", "expected pulls", "expected arms"), heights=[270.0] * 3)
    problem, shown = market.problem, market.problem.horizon
    _add_curve(figure, 1, market.prices[:shown], "price of a pull", PRICE_COLOUR, width=4)
    for number, name in enumerate(lines.fresh_names(market)):
        colour = FRESH_COLOUR if number == 0 else SAFE_COLOURS[number - 1]
        dash = PLOTLY_DASHES[DASHES[number % len(DASHES)]]
        _add_curve(figure, 1, market.fresh_index[number, :shown], name, colour, dash=dash)
    for row, values, name, colour in (
        (2, market.sold_fresh, "sold to fresh arms", FRESH_COLOUR),
        (2, market.sold_touched, "sold to pulled arms", CONGESTION_COLOUR),
        (3, market.above, "above the price", PRICE_COLOUR),
        (3, market.at_price, "at the price", AT_PRICE_COLOUR),
    ):
        _add_bars(figure, row, values[:shown], name, colour)
    _add_curve(figure, 3, problem.pulls[:shown], "pulls on offer", NEUTRAL_COLOUR, dash="dash")
    figure.update_layout(barmode="stack", bargap=0)
    _whole_stages(figure, shown)
    return figure


# -- what both are made of ----------------------------------------------------------------------


def new_panels(
    titles: tuple[str, ...],
    heights: list[float],
    *,
    along: str = "stage",
    apart: float = 34.0,
    below: float = 50.0,
) -> Any:
    """Panels below each other: transparent, in greys that are seen on white and on dark pages.

    Heights, the distance of panels and the room below them are in pixels. Panels share their
    horizontal axis, called `along`, if there is a name for it.
    """
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise ImportError(
            'interactive figures need plotly; install it with: pip install "decobandit[plot]"'
        ) from None
    rows = len(titles)
    inside = sum(heights) + apart * (rows - 1)
    figure = make_subplots(
        rows=rows, cols=1, shared_xaxes=bool(along), row_heights=heights,
        vertical_spacing=apart / inside,
    )  # fmt: skip
    for row, title in enumerate(titles, start=1):
        figure.update_yaxes(title_text=title, row=row, col=1)
    figure.update_xaxes(title_text=along, row=rows, col=1)
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID}
    figure.update_xaxes(axis)
    figure.update_yaxes(axis)
    figure.update_layout(
        height=inside + below + ABOVE, template="none", hovermode="closest",
        margin={"l": 70, "r": 20, "t": ABOVE, "b": below},
        paper_bgcolor=TRANSPARENT, plot_bgcolor=TRANSPARENT, font={"color": NEUTRAL_COLOUR},
        legend={"groupclick": "togglegroup", "tracegroupgap": 0, "traceorder": "normal"},
    )  # fmt: skip
    return figure


def _named_below(figure: Any) -> Any:
    """The figure with its legend under it, in two columns: on a phone there is no room beside."""
    names = sum(trace.showlegend is not False for trace in figure.data)
    room = 12.0 + LEGEND_ROW * -(-names // 2)
    below = figure.layout.margin.b + room
    return figure.update_layout(
        height=figure.layout.height + room,
        margin={"l": 56, "r": 8, "b": below},
        legend=LEGEND_BELOW,
    )


def _whole_stages(figure: Any, stages: int) -> None:
    """No half stages where there are few."""
    if stages <= FEW_STAGES:
        figure.update_xaxes(dtick=1)


def figure_page(figure: Any, title: str, text: str = "") -> str:
    """A figure of plotly as a page that needs no other file."""
    drawn = figure.to_html(
        full_html=False, include_plotlyjs=True, include_mathjax=False, div_id="figure",
        config={"displaylogo": False, "responsive": True, "showLink": False},
    )  # fmt: skip
    return str(
        PAGE.format(policy=POLICY, style=STYLE, title=title, text=text, figure=Markup(drawn))
    )


def as_text(name: str) -> str:
    """A name that plotly shows as it is: no tags, no %{} templates, no formula between $ signs."""
    return escape(name).replace("$", "&#36;").replace("%", "&#37;")


def _add_curve(
    figure: Any, row: int, values: Floats, name: str, colour: str, *, width: float = 1.8,
    dash: str = "solid",
) -> None:  # fmt: skip
    figure.add_scatter(
        x=list(range(len(values))), y=values.tolist(), mode="lines", name=as_text(name),
        line={"color": colour, "width": width, "dash": dash}, meta=as_text(name),
        hovertemplate="%{meta}, stage %{x}: %{y:.4f}<extra></extra>", row=row, col=1,
    )  # fmt: skip


def _add_bars(figure: Any, row: int, values: Floats, name: str, colour: str) -> None:
    figure.add_bar(
        x=list(range(len(values))), y=values.tolist(), name=as_text(name), meta=as_text(name),
        marker={"color": colour, "line": {"width": 0}}, opacity=0.5,
        hovertemplate="%{meta}, stage %{x}: %{y:.4f}<extra></extra>", row=row, col=1,
    )  # fmt: skip


# -- parts of an episode -------------------------------------------------------------------------


def _terms(episode: Episode) -> tuple[Floats, Floats, Floats]:
    """What the three upper panels show, each (stages, arms)."""
    return episode.value_of_information, episode.expected_reward, episode.index


def _hover(episode: Episode) -> str:
    """What is seen of an arm under the pointer."""
    return HOVER if episode.problem.is_binary else HOVER.replace(COUNTED, SEEN)


def _numbers(episode: Episode, arm: int, stages: npt.NDArray[np.int64]) -> list[list[float | str]]:
    """What HOVER shows of an arm."""
    columns = [
        episode.good, episode.pulls, episode.expected_reward, episode.value_of_information,
        episode.index,
    ]  # fmt: skip
    own = [column[stages, arm] for column in columns]
    rows = np.column_stack([*own, episode.prices[stages]]).round(6).tolist()
    if episode.seen:
        return [
            [rounded(episode.seen[t][arm]), *row[1:]] for t, row in zip(stages, rows, strict=True)
        ]
    return [[int(good), int(pulls), *rest] for good, pulls, *rest in rows]


def _add_line(
    figure: Any, episode: Episode, line: lines.Line, styles: dict[int, Style], named: set[str]
) -> None:
    """One curve in the three upper panels, with one entry in the legend."""
    if line.fresh:
        shown = name = lines.fresh_label(episode.problem, line.group)
        dash, key = PLOTLY_DASHES[DASHES[line.group % len(DASHES)]], f"group {line.group}"
        colour = FRESH_COLOUR
    else:
        name, (colour, dashes, _) = episode.problem.arms[line.arm].name, styles[line.arm]
        shown, dash, key = lines.short_name(name), PLOTLY_DASHES[dashes], f"arm {line.arm}"
    stages = np.arange(episode.stages)[line.stages]
    numbers = _numbers(episode, line.arm, stages)
    for row, values in enumerate(_terms(episode), start=1):
        figure.add_scatter(
            x=stages.tolist(), y=values[stages, line.arm].tolist(), mode="lines",
            name=as_text(shown), legendgroup=key, showlegend=key not in named,
            line={"color": colour, "width": 1.6, "dash": dash}, meta=as_text(name),
            customdata=numbers, hovertemplate=_hover(episode), row=row, col=1,
        )  # fmt: skip
        named.add(key)


def _add_pulls(figure: Any, episode: Episode, arm: int, style: Style) -> None:
    """The pulls of an arm: filled points for good outcomes, open ones for bad."""
    stages = np.flatnonzero(episode.was_pulled[: episode.problem.horizon, arm])
    if not stages.size:  # pulled as a deployment only
        return
    outcomes = [episode.favourable[t][episode.pulled[t].index(arm)] for t in stages]
    better, worse = lines.pull_labels(episode.problem)
    name, numbers = as_text(episode.problem.arms[arm].name), _numbers(episode, arm, stages)
    size = float(np.clip(260.0 / episode.stages, 3.0, 8.0))
    fills = [style.colour if good else TRANSPARENT for good in outcomes]
    for row, values in enumerate(_terms(episode), start=1):
        figure.add_scatter(
            x=stages.tolist(), y=values[stages, arm].tolist(), mode="markers",
            marker={"color": fills, "size": size, "line": {"color": style.colour, "width": 1.2}},
            legendgroup=f"arm {arm}", showlegend=False, name=name, meta=name,
            text=[better if good else worse for good in outcomes],
            customdata=numbers, hovertemplate="%{text}<br>" + _hover(episode), row=row, col=1,
        )  # fmt: skip


def _add_price(figure: Any, episode: Episode) -> None:
    """The price, and bars between it and what was lost."""
    played = min(episode.stages, episode.problem.horizon)
    _add_curve(figure, 3, episode.prices[:played], "price of a pull", PRICE_COLOUR, width=4)
    excess, pulled = episode.excess[:played], episode.was_pulled[:played]
    for name, lost, colour in (
        ("shortfall", pulled & (excess < 0.0), SHORTFALL_COLOUR),
        ("congestion", ~pulled & (excess > 0.0), CONGESTION_COLOUR),
    ):
        stages, arms = np.nonzero(lost)
        figure.add_bar(
            x=stages.tolist(), y=excess[stages, arms].tolist(),
            base=episode.prices[stages].tolist(), width=0.72, name=name,
            marker={"color": colour, "line": {"width": 0}}, opacity=0.3,
            text=[as_text(episode.problem.arms[arm].name) for arm in arms], textposition="none",
            customdata=np.abs(excess[stages, arms]).round(6).tolist(),
            hovertemplate=f"{name} at stage %{{x}}: %{{customdata:.4f}} (%{{text}})"
            "<extra></extra>", row=3, col=1,
        )  # fmt: skip
    figure.update_layout(barmode="overlay")


def _add_loss(figure: Any, episode: Episode, expected: npt.ArrayLike | None) -> None:
    _add_curve(figure, 4, episode.running_loss, "loss in this episode", NEUTRAL_COLOUR)
    for name, values, colour in (
        ("shortfall so far", episode.shortfall, SHORTFALL_COLOUR),
        ("congestion so far", episode.congestion, CONGESTION_COLOUR),
    ):
        _add_curve(figure, 4, np.cumsum(values), name, colour, width=1.2)
    if expected is not None:
        line = lines.checked_expected(episode, expected)
        _add_curve(figure, 4, line, "expected loss", NEUTRAL_COLOUR, dash="dash")
    elif episode.running_loss[-1] <= lines.NO_LOSS:
        figure.update_yaxes(range=[-0.04, 1.0], row=4, col=1)
