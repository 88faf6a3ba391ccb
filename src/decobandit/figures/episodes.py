"""The paper's Figure 2: figures of episodes, returned and never shown.

Of each arm, over the stages: value of information, expected reward, and their sum, the index,
against the price. What was lost can be read off the last of these: the distance between price and
pulled arm where that is below (shortfall), and between price and other arms above (congestion).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..bounds import Episode
from ..prices import Demand
from ..problem import Problem
from ..problem.models.base import rounded
from ..support import Floats, InvalidArgument
from .charts import Chart, Hover, Panel, Series, as_text, draw_chart, figure_page, matplotlib_charts
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_NAME = 22  # characters in a legend
MOST_GROUPS = 8  # kinds of fresh arms that are drawn
MOST_MARKED = 120  # stages; more markers than this hide each other
NO_LOSS = 1e-9  # less is rounding, which is not magnified
SHADED = 0.3  # opacity of losses
COUNTED, SEEN = "good/pulls: %{customdata[0]}/%{customdata[1]}", "seen: %{customdata[0]}"
HOVER = (
    f"<b>%{{meta}}</b>, stage %{{x}}<br>{COUNTED}<br>"
    "expected reward %{customdata[2]:.4f}<br>value of information %{customdata[3]:.4f}<br>"
    "index %{customdata[4]:.4f}<br>price %{customdata[5]:.4f}"
)
SPAN_HOVER = "%{meta} at stage %{x}: %{customdata[0]:.4f} (%{customdata[1]})"


def arm_styles(episodes: Sequence[Episode]) -> dict[int, Style]:
    """Return a style for every pulled arm, in the problem's order."""
    pulled = sorted({arm for episode in episodes for arms in episode.pulled for arm in arms})
    return {arm: arm_style(i) for i, arm in enumerate(pulled)}


def pull_labels(problem: Problem) -> tuple[str, str, str]:
    """Return the labels of filled and open points, and a sentence that explains them."""
    if problem.is_binary:
        text = "Filled points are pulls with a good outcome, open points pulls with a bad one."
        return "pulled, good", "pulled, bad", text
    text = (
        "Filled points are pulls whose outcome counted at least what was expected, open points "
        "pulls whose outcome counted less."
    )
    return "pulled, at least as expected", "pulled, less than expected", text


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
    played = _played(episode)
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


def _refuse_empty(*episodes: Episode) -> None:
    if not episodes or any(episode.stages == 0 for episode in episodes):
        raise InvalidArgument("episode: no pulls yet, nothing to draw", field="episode")


def episode_figure(
    episode: Episode, expected: npt.ArrayLike | None = None, *, interactive: bool = False
) -> Figure | Any:
    """Draw one episode: the two terms, the index with the price, and the cumulative loss.

    `expected` (stages,): what the policy is expected to have lost after each stage, such as
    `gap(problem, policy, solution=solution).running_loss`; drawn beside the loss of this episode.
    `interactive`: a figure of plotly in place of one of matplotlib.
    """
    _refuse_empty(episode)
    title = (
        f"{_title(episode)}\nlost in this episode {episode.running_loss[-1]:.4f}; "
        f"no policy is expected to earn more than {episode.upper_bound:.4f}"
    )
    if episode.deployed:
        title += f"\ndeployed after the last stage: {short_name(_last_name(episode))}"
    return draw_chart(replace(episode_chart(episode, expected), title=title), interactive)


def episodes_figure(episodes: Sequence[Episode]) -> Figure:
    """Draw the three upper panels of each run, two runs side by side, as in the paper.

    The same arm has the same colour in all runs.
    """
    _refuse_empty(*episodes)
    styles, charts = arm_styles(episodes), []
    for number, episode in enumerate(episodes, start=1):
        title = f"run {number}: {episode.policy}, loss {episode.running_loss[-1]:.3f}"
        panels = _term_panels(episode, styles, scale=0.6)
        panels = (*panels[:2], replace(panels[2], series=(*panels[2].series, *_samples(episode))))
        charts.append(Chart(title, "stage", panels))
    return matplotlib_charts(charts)


def episode_page(episode: Episode, expected: npt.ArrayLike | None = None) -> str:
    """Return one episode as an interactive page."""
    _refuse_empty(episode)
    text = (
        f"Lost in this episode: {episode.running_loss[-1]:.4f}. No policy is expected to earn more "
        f"than {episode.upper_bound:.4f}. {pull_labels(episode.problem)[2]} Click on names to hide "
        "them, twice to see one alone."
    )
    if episode.deployed:
        text += f" Deployed after the last stage: {_last_name(episode)}."
    figure = draw_chart(episode_chart(episode, expected), interactive=True)
    return figure_page(figure, _title(episode), text)


def _title(episode: Episode) -> str:
    problem = episode.problem
    seed = "" if episode.seed is None else f", seed {episode.seed}"
    return f"{episode.policy} on {problem.n_arms} arms, horizon {problem.horizon}{seed}"


def _last_name(episode: Episode) -> str:
    return episode.problem.arms[episode.pulled[-1][0]].name


# -- panels -------------------------------------------------------------------------------------


def episode_chart(episode: Episode, expected: npt.ArrayLike | None = None) -> Chart:
    """Return the panels of one episode: two terms, the index with the price, the loss."""
    terms = _term_panels(episode, arm_styles([episode]))
    return Chart("", "stage", (*terms, _loss_panel(episode, expected)))


def _term_panels(
    episode: Episode, styles: dict[int, Style], *, scale: float = 1.0
) -> tuple[Panel, ...]:
    """Return value of information, expected reward, and index with price; scale: of points."""
    played = _played(episode)
    lines = [line for line in lines_of(episode) if not line.fresh or line.stages.stop > 1]
    size = scale * float(np.clip(260.0 / played, 3.0, 6.5))

    def drawn(values: Floats) -> list[Series]:
        pulls = [_pulls(episode, values, arm, style, size) for arm, style in styles.items()]
        curves = [_curve(episode, values, line, styles) for line in lines]
        return [*curves, *(series for series in pulls if series.at.size)]

    price = _stages_curve("price of a pull", episode.prices[:played], PRICE_COLOUR, width=3.5)
    index = [*_losses(episode), replace(price, opacity=0.65), *drawn(episode.index)]
    panels = {
        "value of\ninformation": (drawn(episode.value_of_information), 0.75),
        "expected\nreward": (drawn(episode.expected_reward), 0.75),
        "index and price": (index, 1.4),
    }
    return tuple(
        Panel(label, tuple(series), from_zero=False, height=height)
        for label, (series, height) in panels.items()
    )


def _played(episode: Episode) -> int:
    return min(episode.stages, episode.problem.horizon)


def _stages_curve(
    name: str, values: Floats, colour: str, *, width: float = 1.5, dashes: str = "solid"
) -> Series:
    return Series(name, Style(colour, dashes), np.arange(float(len(values))), values, width=width)


def _curve(episode: Episode, values: Floats, line: Line, styles: dict[int, Style]) -> Series:
    """Return the curve of an arm, or that of fresh arms."""
    stages = np.arange(episode.stages)[line.stages]
    if line.fresh:
        name = title = fresh_label(episode.problem, line.group)
        style, key = Style(FRESH_COLOUR, DASHES[line.group % len(DASHES)]), f"group {line.group}"
    else:
        title = episode.problem.arms[line.arm].name
        name, style, key = short_name(title), styles[line.arm], f"arm {line.arm}"
    hover = _hover(episode, line.arm, stages, title)
    at, shown = stages.astype(float), values[stages, line.arm]
    return Series(name, style, at, shown, width=1.4, opacity=0.9, key=key, hover=hover)


def _pulls(episode: Episode, values: Floats, arm: int, style: Style, size: float) -> Series:
    """Return the pulls of an arm: points that are filled if the outcome was good or as expected.

    Over long horizons a thick line along the stages at which an arm is pulled, instead.
    """
    played, name = _played(episode), episode.problem.arms[arm].name
    stages = np.flatnonzero(episode.was_pulled[:played, arm])
    outcomes: list[str] = []
    kind: dict[str, Any] = {"width": 2.2}
    if played > MOST_MARKED:  # of every piece both ends and a gap
        stages = np.minimum(stages[:, None] + [0, 1, 1], played - 1).ravel()
    else:
        good = [episode.favourable[t][episode.pulled[t].index(arm)] for t in stages]
        better, worse, _ = pull_labels(episode.problem)
        outcomes = [better if outcome else worse for outcome in good]
        kind = {"kind": "points", "width": size, "filled": np.array(good, dtype=np.bool_)}
    at, shown = stages.astype(float), values[stages, arm]
    if not outcomes:
        at[2::3] = shown[2::3] = np.nan
    kind |= {"key": f"arm {arm}", "hover": _hover(episode, arm, stages, name, outcomes)}
    return Series(short_name(name), Style(style.colour, DASHES[0]), at, shown, **kind)


def _losses(episode: Episode) -> list[Series]:
    """Return spans from the price to pulled arms below it, and to other arms above it."""
    played, names = _played(episode), [as_text(arm.name) for arm in episode.problem.arms]
    excess, pulled = episode.excess[:played], episode.was_pulled[:played]
    spans = []
    for name, lost, colour in (
        ("shortfall", pulled & (excess < 0.0), SHORTFALL_COLOUR),
        ("congestion", ~pulled & (excess > 0.0), CONGESTION_COLOUR),
    ):
        at, arms = np.nonzero(lost)
        sizes = np.abs(excess[at, arms]).round(6).tolist()
        numbers = [[size, names[arm]] for size, arm in zip(sizes, arms, strict=True)]
        spans.append(
            Series(
                name,
                Style(colour, DASHES[0]),
                at.astype(float),
                episode.index[at, arms],
                kind="spans",
                width=0.72 if played <= MOST_MARKED else 1.0,
                opacity=SHADED,
                base=episode.prices[at],
                hover=Hover(SPAN_HOVER, numbers),
            )
        )
    return spans


def _loss_panel(episode: Episode, expected: npt.ArrayLike | None) -> Panel:
    """Return cumulative shortfall plus congestion, and the expected loss."""
    counts = float(episode.running_loss[-1] > NO_LOSS)
    total = counts * episode.running_loss
    series = [_stages_curve("loss in this episode", total, NEUTRAL_COLOUR)]
    if expected is not None:
        line = np.asarray(expected, dtype=float)
        if line.ndim != 1 or line.size < episode.stages:
            raise InvalidArgument(
                f"expected: shape {line.shape}; must be one number per stage", field="expected"
            )
        line = line[: episode.stages]
        series.append(_stages_curve("expected loss", line, NEUTRAL_COLOUR, dashes="dashed"))
    for name, loss, colour in (
        ("shortfall", episode.shortfall, SHORTFALL_COLOUR),
        ("congestion", episode.congestion, CONGESTION_COLOUR),
    ):
        bars = _stages_curve(name, counts * np.cumsum(loss), colour)
        series.append(replace(bars, kind="bars", opacity=SHADED))
    return Panel("loss so far", (*series, *_samples(episode)), from_zero=False, height=0.75)


def _samples(episode: Episode) -> list[Series]:
    """Return samples of filled and open points, or of thick lines, for the legend."""
    nothing, style = np.array([np.nan]), Style(NEUTRAL_COLOUR, DASHES[0])
    if _played(episode) > MOST_MARKED:
        return [Series("pulled (thick)", style, nothing, nothing, width=3.0)]
    marks = zip(pull_labels(episode.problem)[:2], (True, False), strict=True)
    return [
        Series(name, style, nothing, nothing, None, "points", 6.0, filled=np.array([good]))
        for name, good in marks
    ]


def _hover(
    episode: Episode,
    arm: int,
    stages: npt.NDArray[np.int64],
    name: str,
    outcomes: Sequence[str] = (),
) -> Hover:
    """Return what a page shows of an arm at stages."""
    good, pulls = episode.good[stages, arm].tolist(), episode.pulls[stages, arm].tolist()
    texts = [as_text(rounded(row[arm])) for row in episode.seen]  # of users: names of states
    states = [texts[t] for t in stages] if episode.seen else good
    terms = (episode.expected_reward, episode.value_of_information, episode.index)
    columns = np.column_stack([*(term[stages, arm] for term in terms), episode.prices[stages]])
    rows = zip(states, pulls, columns.round(6).tolist(), outcomes or [""] * len(good), strict=True)
    template = HOVER if episode.problem.is_binary else HOVER.replace(COUNTED, SEEN)
    if outcomes:
        template = "%{customdata[6]}<br>" + template
    return Hover(template, [[one, n, *terms, text] for one, n, terms, text in rows], name)
