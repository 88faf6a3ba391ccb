"""One colour and line per policy, told apart by everybody, on white and on dark pages."""

import itertools
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from decobandit import Design, Problem, gap, operating_characteristics, policy_names, simulate
from decobandit.figures import (
    characteristics_figure,
    figure_page,
    gap_figure,
    marked_policy,
    policy_style,
    policy_styles,
    regret_figure,
    save_figure,
    study_figure,
)
from decobandit.figures import palette as named
from decobandit.figures.charts import PLOTLY_DASHES, SYMBOLS, for_dark_pages
from decobandit.figures.design_report import characteristics
from decobandit.figures.palette import arm_style
from decobandit.figures.svg_figures import share_figure
from decobandit.policies.names import COMPARED_POLICIES, POLICIES, SIMULATED_POLICIES

Floats = np.ndarray
# Machado, Oliveira and Fernandes (2009), severity 1: what is seen of linear RGB
SEEN = {
    "usual": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)
OKABE_ITO = ("#0072B2", "#D55E00", "#CC79A7", "#56B4E9", "#E69F00", "#009E73")


def linear(colour: str) -> Floats:
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> Floats:
    """CIE 1976 of linear RGB."""
    x = XYZ @ rgb / (XYZ @ np.ones(3))
    f = np.where(x > 0.008856, np.cbrt(np.maximum(x, 1e-12)), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, two: str, eyes: str) -> float:
    seen = [lab(np.clip(np.array(SEEN[eyes]) @ linear(each), 0.0, 1.0)) for each in (one, two)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def contrast(one: str, two: str) -> float:
    """As the accessibility guidelines (WCAG 2) define it."""
    light, dark = sorted((float(XYZ[1] @ linear(each)) for each in (one, two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("eyes", SEEN)
def test_colours_are_told_apart_by_everybody(eyes: str) -> None:
    used = (*named.SAFE_COLOURS, named.PRICE_COLOUR)
    least = min(distance(*pair, eyes) for pair in itertools.combinations(used, 2))
    known = min(distance(*pair, eyes) for pair in itertools.combinations(OKABE_ITO, 2))
    assert least >= min(known, 20.0)  # no worse than the palette that is often recommended


def test_every_colour_is_seen_on_white_and_on_dark_pages() -> None:
    every = [value for key, value in vars(named).items() if key.endswith("_COLOUR")]
    assert len(every) >= 7
    for colour in (*named.SAFE_COLOURS, *every):
        assert contrast(colour, "white") >= 3.0, colour
        assert contrast(colour, named.DARK_GROUND) >= 3.0, colour
    for old, new in named.DARK_VARIANTS.items():
        assert contrast(new, named.DARK_GROUND) > contrast(old, named.DARK_GROUND) > 3.0


def test_every_policy_has_its_own_line() -> None:
    styles = policy_styles(policy_names())
    assert len({(each.colour, each.dashes) for each in styles.values()}) == len(policy_names())
    for usual in (SIMULATED_POLICIES, COMPARED_POLICIES):
        assert len({policy_style(name).colour for name in usual}) == len(usual)
        assert len({policy_style(name).marker for name in usual}) == len(usual)


def test_a_policy_is_drawn_alike_whatever_it_is_drawn_with() -> None:
    for name in policy_names():
        assert policy_styles(["greedy", "mine", name, "thompson"])[name] == policy_style(name)


def test_policies_from_outside_take_what_is_left_by_their_names() -> None:
    mine = [f"mine-{i}" for i in range(4)]
    styles = policy_styles(mine)
    assert len({(each.colour, each.dashes) for each in styles.values()}) == 4
    known = policy_styles(list(POLICIES)).values()
    taken = {(each.colour, each.dashes) for each in known}
    assert not taken & {(each.colour, each.dashes) for each in styles.values()}
    assert policy_style("mine-0") == policy_style("mine-0") == styles["mine-0"]
    assert len(policy_styles([f"other-{i}" for i in range(100)])) == 100


def test_arms_have_their_own_lines_too() -> None:
    assert len({arm_style(i)[:2] for i in range(28)}) == 28


# -- the same line in every figure ----------------------------------------------------------------

PROBLEM = Problem.uniform(arms=2, horizon=6)
NAMES = ("greedy", "thompson", "deco")


class Row:
    """One cell of a study."""

    line, measure = "a $ problem", "regret"

    def __init__(self, policy: str) -> None:
        self.policy, self.compared = policy, (1.0, 0.1)


def figures(interactive: bool) -> dict[str, object]:
    simulation = simulate(PROBLEM, NAMES, draws=30)
    design = Design(
        policies=list(NAMES),
        scenarios=[{"name": "null", "truth": [0.5, 0.5]}, {"name": "<b>", "truth": [0.5, 0.9]}],
    )
    return {
        "regret": regret_figure(simulation, interactive=interactive),
        "gap": gap_figure([gap(PROBLEM, name) for name in NAMES], interactive=interactive),
        "design": characteristics_figure(
            operating_characteristics(PROBLEM, design), interactive=interactive
        ),
        "study": study_figure([Row(name) for name in NAMES], "few", interactive=interactive),
    }


def test_matplotlib_draws_policies_in_their_colours_with_labelled_axes() -> None:
    for kind, figure in figures(interactive=False).items():
        drawn = {}
        for handle, name in zip(*figure.axes[0].get_legend_handles_labels(), strict=True):
            line = handle[0] if isinstance(handle, tuple) else handle
            drawn[name] = line
        assert set(drawn) == set(NAMES), kind
        for name, line in drawn.items():
            style = policy_style(name)
            assert to_hex(line.get_color()) == style.colour
            if kind in ("regret", "gap"):
                assert (
                    line.get_linestyle()
                    == {"solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":"}[style.dashes]
                )
            else:
                assert line.get_marker() == style.marker
        for axes in figure.axes:
            assert axes.get_xlabel() or axes.get_shared_x_axes().get_siblings(axes)
            assert axes.get_ylabel() or axes.get_yticklabels()


def test_plotly_draws_the_same_and_escapes_names() -> None:
    for kind, figure in figures(interactive=True).items():
        shown = [each for each in figure.data if each.showlegend]
        assert sorted(each.name for each in shown) == sorted(NAMES), kind
        for each in shown:
            style = policy_style(each.name)
            if kind in ("regret", "gap"):
                assert each.line.color == style.colour
                assert each.line.dash == PLOTLY_DASHES[style.dashes]
            else:
                assert each.marker.color == style.colour
                assert each.marker.symbol == SYMBOLS[style.marker]
        assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
        page = figure_page(figure, "<i>", "a & b")
        assert "<title>&lt;i&gt;</title>" in page
        assert "a &amp; b" in page
        assert "<b>" not in page.partition("<h1>")[0]


def test_tables_of_reports_mark_policies_by_the_same_line() -> None:
    design = Design(policies=list(NAMES), scenarios=[{"name": "one", "truth": [0.5, 0.9]}])
    page = "".join(characteristics(operating_characteristics(PROBLEM, design)))
    for name in NAMES:
        assert str(marked_policy(name)) in page
        assert f'fill="{policy_style(name).colour}"' in page  # its point in the figures
    assert "&lt;b&gt;" in marked_policy("<b>")


def test_a_figure_for_dark_pages_has_light_letters_and_the_same_data(tmp_path: object) -> None:
    figure = regret_figure(simulate(PROBLEM, NAMES, draws=30))
    dark = for_dark_pages(figure)
    assert to_hex(figure.get_facecolor()) == "#ffffff"  # the original stays
    assert to_hex(dark.get_facecolor()) == named.DARK_GROUND
    assert to_hex(dark.axes[0].get_facecolor()) == named.DARK_GROUND
    assert to_hex(dark.axes[0].xaxis.label.get_color()) == named.DARK_TEXT
    assert to_hex(dark.legends[0].get_frame().get_facecolor()) == named.DARK_GROUND
    for one, two in zip(figure.axes[0].lines, dark.axes[0].lines, strict=True):
        assert one.get_color() == two.get_color()
        assert np.array_equal(one.get_ydata(), two.get_ydata())
    save_figure(figure, f"{tmp_path}/dark.png", dark=True)
    save_figure(figure, f"{tmp_path}/light.png")
    from matplotlib.image import imread

    assert (
        imread(f"{tmp_path}/dark.png")[0, 0].mean() < 0.4 < imread(f"{tmp_path}/light.png")[0, 0, 0]
    )


def test_all_others_have_a_colour_of_their_own_among_shares() -> None:
    names = [f"arm {k}" for k in range(len(named.SAFE_COLOURS))] + ["13 others"]
    block = (1, 10, [1.0 / len(names)] * len(names))
    drawn = share_figure(names, [block], label="shares", rest=True)
    boxes = re.findall(r'<rect [^>]*fill="([^"]+)"', drawn)
    lines = re.findall(r'stroke="([^"]+)" stroke-width="4"', drawn)
    assert len(set(boxes)) == len(names)
    assert boxes == lines  # as the legend says


def test_twelve_arms_are_told_apart_among_shares() -> None:
    names = [f"arm {k}" for k in range(12)]
    drawn = share_figure(names, [(1, 24, [1.0 / 12] * 12)], label="shares")
    boxes = re.findall(r'<rect [^>]*fill="(#\w{6})(\w*)"([^>]*)', drawn)
    areas = {(colour, pale, "stroke-dasharray" in more) for colour, pale, more in boxes}
    assert len(boxes) == len(areas) == 12
    assert all(bool(pale) == dashed for _, pale, dashed in areas)
    lines = re.findall(r'stroke="(#\w+)" stroke-width="4"([^>]*)', drawn)
    legend = [(colour, "stroke-dasharray" in more) for colour, more in lines]
    assert legend == [(colour, bool(pale)) for colour, pale, _ in boxes]  # as the areas


def test_shares_of_few_allocations_are_counted_in_whole_ones() -> None:
    for last in (1, 2, 3, 7):
        drawn = share_figure(["a", "b"], [(1, last, [0.5, 0.5])], label="shares")
        below = re.findall(r'text-anchor="middle"[^>]*>([\d.]+)<', drawn)
        assert below[0] == "0"
        assert below == [str(round(float(tick))) for tick in below]
