"""Figures and pages of paths and markets: what is on them, and that nothing overlaps."""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from decobandit.bounds import Episode, follow
from decobandit.bounds.episodes import retrace
from decobandit.figures import (
    LONGEST_NAME,
    PRICE_COLOUR,
    episode_chart,
    episode_figure,
    episode_page,
    episodes_figure,
    market_figure,
    market_page,
    save_figure,
    short_name,
)
from decobandit.figures.episodes import MOST_MARKED, arm_styles, lines_of
from decobandit.figures.palette import FRESH_COLOUR
from decobandit.policies.simple import EqualPolicy
from decobandit.prices import DualSolution, demand, solve
from decobandit.problem import Arm, BetaBernoulli, MarkovArm, MarkovState, Problem
from helpers.examples import KINDS
from helpers.refusals import refused

ALERT = "<script>alert(1)</script>"
NASTY = (ALERT, "a$b_{$", "_x & %{x} <b>y</b>", "w" * 100)


@cache
def solved(kind: str, horizon: int) -> DualSolution:
    return solve(KINDS[kind](horizon))


@cache
def episode(kind: str, horizon: int, seed: int = 1) -> Episode:
    solution = solved(kind, horizon)
    return follow(solution.problem, EqualPolicy(solution.problem), solution=solution, rng=seed)


@cache
def badly_named() -> DualSolution:
    arms = [
        Arm(name=name, prior=BetaBernoulli(good=1 + i % 2, bad=1)) for i, name in enumerate(NASTY)
    ]
    return solve(Problem(arms=tuple(arms), horizon=12))


def curves(axes: object, colour: str) -> list[np.ndarray]:
    """Data of the lines of a colour."""
    lines = axes.lines  # type: ignore[attr-defined]
    return [np.asarray(line.get_ydata()) for line in lines if to_hex(line.get_color()) == colour]


def assert_nothing_overlaps(figure: Figure) -> None:
    """The legend beside all panels, the title above them, panels apart from each other."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    panels = [axes.get_tightbbox(renderer) for axes in figure.axes]
    (legend,) = figure.legends
    frame = legend.get_window_extent(renderer)
    everything = [*panels, frame]
    title = figure.get_suptitle()
    if title:
        everything.append(figure._suptitle.get_window_extent(renderer))
    for i, one in enumerate(everything):
        assert one.width > 40 or one.height > 10
        assert one.x0 >= -1
        assert one.x1 <= figure.bbox.width + 1
        assert one.y0 >= -1
        assert one.y1 <= figure.bbox.height + 1
        for other in everything[:i]:
            apart = (
                one.x1 <= other.x0 + 1
                or other.x1 <= one.x0 + 1
                or one.y1 <= other.y0 + 1
                or other.y1 <= one.y0 + 1
            )
            assert apart


def test_panels_show_terms_index_price_and_loss() -> None:
    path = episode("heterogeneous", 12)
    expected = np.linspace(0.0, 2.0, 12)
    figure = episode_figure(path, expected)
    information, reward, index, loss = figure.axes
    for axes, values in (
        (information, path.value_of_information),
        (reward, path.expected_reward),
        (index, path.index),
    ):
        for arm, style in arm_styles([path]).items():
            begun = next(t for t, arms in enumerate(path.pulled) if arm in arms)
            (curve,) = [
                y
                for y in curves(axes, style.colour)
                if y.size == 12 - begun and np.array_equal(y, values[begun:, arm])
            ]
            assert curve.size
    (price,) = curves(index, PRICE_COLOUR)
    assert np.array_equal(price, path.prices)
    assert np.array_equal(loss.lines[0].get_ydata(), path.running_loss)
    assert np.array_equal(loss.lines[1].get_ydata(), expected)


def test_shaded_heights_add_up_to_the_loss() -> None:
    path = episode("several pulls", 12)
    bars = [c for c in episode_figure(path).axes[2].collections if isinstance(c, PolyCollection)]
    totals = [
        sum(float(np.ptp(outline.vertices[:, 1])) for outline in collection.get_paths())
        for collection in bars
    ]
    lost = [path.shortfall.sum(), path.congestion.sum()]
    assert min(lost) > 0.0
    assert totals == pytest.approx(lost, abs=1e-12)


def test_pulls_are_filled_where_good_and_open_where_bad() -> None:
    path = episode("several pulls", 12)
    marks = [line for line in episode_figure(path).axes[2].lines if line.get_marker() == "o"]
    good = sum(outcome for outcomes in path.outcomes for outcome in outcomes)
    filled = [line for line in marks if line.get_markerfacecolor() != "white"]
    opened = [line for line in marks if line.get_markerfacecolor() == "white"]
    assert sum(len(line.get_xdata()) for line in filled) == good
    assert sum(len(line.get_xdata()) for line in opened) == 24 - good


def test_fresh_arms_share_one_grey_curve() -> None:
    solution = solve(Problem.uniform(arms=20, horizon=6))
    path = retrace(
        solution.problem, [("arm-3", True), ("arm-3", True), ("arm-7", False)], solution=solution
    )
    fresh, *own = lines_of(path)
    assert fresh.fresh
    assert [(line.arm, line.stages) for line in own] == [(2, slice(0, 3))]
    figure = episode_figure(path)
    assert len(curves(figure.axes[2], FRESH_COLOUR)) == 1
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named.count("not pulled yet") == 1
    assert {name for name in named if name.startswith("arm")} == {"arm-3", "arm-7"}


@pytest.mark.parametrize(("kind", "horizon"), [("uniform", 5), ("deployed", 12), ("seasonal", 150)])
def test_nothing_overlaps(kind: str, horizon: int) -> None:
    path = episode(kind, horizon)
    assert_nothing_overlaps(episode_figure(path, np.arange(path.stages + 0.0)))


def test_nothing_overlaps_with_many_arms_or_long_names() -> None:
    solution = solve(Problem.uniform(arms=20, horizon=40))
    path = follow(solution.problem, EqualPolicy(solution.problem), solution=solution)
    assert_nothing_overlaps(episode_figure(path))
    nasty = badly_named()
    figure = episode_figure(follow(nasty.problem, EqualPolicy(nasty.problem), solution=nasty))
    assert_nothing_overlaps(figure)
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert " _x & %{x} <b>y</b>" in named
    assert r"a\$b_{\$" in named
    assert max(map(len, named)) < 40
    assert len(short_name("w" * 100)) == LONGEST_NAME


def test_long_horizons_have_no_markers() -> None:
    path = episode("seasonal", 150)
    assert path.stages > MOST_MARKED
    figure = episode_figure(path)
    assert {line.get_marker() for axes in figure.axes for line in axes.lines} == {"None"}


def test_four_runs_stand_two_by_two() -> None:
    solution = solved("uniform", 12)
    paths = [follow(solution.problem, "deco", solution=solution, rng=seed) for seed in range(4)]
    figure = episodes_figure(paths)
    assert len(figure.axes) == 12
    assert len(figure.subfigs) == 4
    assert_nothing_overlaps(figure)
    assert len(episodes_figure(paths[:1]).axes) == 3


def test_paths_without_a_loss_or_without_a_stage() -> None:
    solution = solve(Problem.uniform(arms=2, horizon=3))
    path = retrace(solution.problem, [(0, True)], solution=solution)
    low, high = episode_figure(path).axes[3].get_ylim()
    assert low < 0.0 < high
    with refused("invalid_argument", "episode"):
        episode_figure(retrace(solution.problem, [], solution=solution))
    with refused("invalid_argument", "episode"):
        episode_page(retrace(solution.problem, [], solution=solution))
    with refused("invalid_argument", "expected"):
        episode_figure(path, [])


@pytest.mark.parametrize("kind", ["uniform", "deployed", "several pulls"])
def test_the_market_has_three_panels(kind: str) -> None:
    solution = solved(kind, 12)
    figure = market_figure(demand(solution))
    assert len(figure.axes) == 3
    (price,) = curves(figure.axes[0], PRICE_COLOUR)
    assert np.array_equal(price, solution.multipliers)
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_figures_are_written(suffix: str, start: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"figure{suffix}"
    save_figure(episode_figure(episode("uniform", 12)), file)
    assert file.read_bytes().startswith(start)


class Tags(HTMLParser):
    """All tags of a page with their attributes, and its text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.text += data


def pages() -> list[str]:
    solution = badly_named()
    path = follow(solution.problem, EqualPolicy(solution.problem), solution=solution, rng=2)
    return [episode_page(path, path.running_loss), market_page(demand(solution))]


def test_pages_ask_no_other_host() -> None:
    for page in pages():
        tags = Tags(page).tags
        assert not [attrs for _, attrs in tags if {"src", "href"} & set(attrs)]
        (policy,) = [a["content"] for t, a in tags if t == "meta" and "http-equiv" in a]
        assert policy is not None
        assert policy.startswith("default-src 'none'")
        assert "http" not in policy
        assert re.search(r"Plotly\.newPlot\(", page)


def test_names_are_text_on_pages() -> None:
    path, market = pages()
    for page in (path, market):
        assert ALERT not in page
        assert "&lt;script&gt;alert(1)" in page.replace("\\u0026", "&")
    assert "a&#36;b_{&#36;" in path  # no formula
    assert "_x &amp; &#37;{x} &lt;b&gt;y" in path  # no template
    solution = badly_named()
    traced = retrace(solution.problem, [(0, True)], solution=solution, policy=ALERT)
    assert ALERT in Tags(episode_page(traced)).text
    assert ALERT not in episode_page(traced)


def test_pages_hold_the_numbers() -> None:
    path = episode("deployed", 12)
    page = episode_page(path)
    assert "Deployed after the last stage" in page
    for number in (path.prices[3], path.running_loss[-1]):
        assert repr(float(number)) in page


def test_without_plotly_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.subplots", None)
    with pytest.raises(ImportError, match=r"interactive figures need plotly.*decobandit\[plot\]"):
        episode_page(episode("uniform", 12))


def test_names_of_states_are_text_where_a_page_shows_them() -> None:
    states = {"<b>x": MarkovState(mean=0.2, next={"on": (1.0, "<b>x")})}
    arms = [Arm(name=name, prior=MarkovArm(first="<b>x", states=states)) for name in ("a", "b")]
    chart = episode_chart(follow(Problem(arms=arms, horizon=3), "greedy", rng=1))
    shown = [series.hover.numbers for series in chart.series if series.hover is not None]
    texts = {str(row[0]) for rows in shown for row in rows}
    assert texts
    assert all(text.startswith("&lt;b&gt;x/") for text in texts)
