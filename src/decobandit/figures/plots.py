"""Figures. Functions return them; nothing is shown, and only `save_figure` writes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ..arm import OneArmValues
from ..prices import DualSolution
from ..support import write_whole
from .colours import DARK_GROUND, DARK_TEXT, DASHES, PRICE_COLOUR, SAFE_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = ((0, 0), (1, 1), (0, 1), (4, 5), (6, 10))  # good / pulls of the arms that are drawn

DPI = 150
DARK_ENDING = "-dark"
WIDTH = 6.4  # inches: letters stay readable where the figure is as wide as a phone
LEGEND_COLUMNS, LEGEND_LETTERS = 3, 94  # at most; letters beside each other in all
LEGEND_SAMPLE = 11  # letters that a line and the space around it take

# what parts of figures have colours, as `get_` and `set_` call them
_COLOURED = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def new_figure(figsize: tuple[float, float]) -> Figure:
    """An empty figure, of so many inches, whose parts keep out of each other's way."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'figures need matplotlib; install it with: pip install "decobandit[plot]"'
        ) from None
    return Figure(layout="constrained", figsize=figsize)


def legend_below(figure: Figure, handles: Iterable[Any], labels: Iterable[str]) -> None:
    """What lines and colours mean, below all panels, so that these keep the whole width."""
    names = list(labels)
    figure.legend(
        list(handles), names, loc="outside lower center", ncols=_columns(names), fontsize="small",
        handlelength=3.2,
    )  # fmt: skip


def _columns(names: list[str]) -> int:
    """As many columns as fit in the width of a figure."""
    for columns in range(LEGEND_COLUMNS, 1, -1):
        parts = np.array_split(np.array([len(name) for name in names]), columns)
        if sum(max(part, default=0) + LEGEND_SAMPLE for part in parts) <= LEGEND_LETTERS:
            return columns
    return 1


def literal(text: str) -> str:
    """Text as it is: no formula between $ signs, and not hidden for a leading underscore."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def save_figure(figure: Figure, path: str | Path, *, dark: bool = False) -> None:
    """Write a figure; the suffix says the format (.png, .svg, .pdf). `dark`: for a dark page."""
    file = Path(path) if Path(path).suffix else Path(f"{path}.png")
    content = io.BytesIO()
    drawn = for_dark_pages(figure) if dark else figure
    drawn.savefig(content, format=file.suffix.removeprefix("."), dpi=DPI)
    write_whole(file, content.getvalue())


def dark_name(path: Path) -> Path:
    """What the variant of a figure for dark pages is called: `figure.png`, `figure-dark.png`."""
    return path.with_stem(f"{path.stem}{DARK_ENDING}")


def small_png(figure: Figure, *, dark: bool = False, dpi: int = DPI) -> bytes:
    """A figure as PNG of 256 colours: a third of the size, for files that are kept or embedded."""
    from PIL import Image  # matplotlib needs it, too

    full, content = io.BytesIO(), io.BytesIO()
    (for_dark_pages(figure) if dark else figure).savefig(full, format="png", dpi=dpi)
    few = Image.open(full).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE)
    few.save(content, format="png", optimize=True)
    return content.getvalue()


def for_dark_pages(figure: Figure) -> Figure:
    """A copy with light letters and lines on a dark ground; data keep their colours."""
    from matplotlib.colors import to_rgb

    changed = {to_rgb("black"): to_rgb(DARK_TEXT), to_rgb("white"): to_rgb(DARK_GROUND)}
    copy: Figure = pickle.loads(pickle.dumps(figure))
    for artist in copy.findobj():
        for part in _COLOURED:
            now = getattr(artist, f"get_{part}", lambda: None)()
            if _is_one_colour(now) and to_rgb(now) in changed:
                alpha = now[3:] if isinstance(now, tuple) else ()
                getattr(artist, f"set_{part}")((*changed[to_rgb(now)], *alpha))
    for axes in copy.axes:
        axes.tick_params(which="both", colors=DARK_TEXT)
    return copy


def _is_one_colour(value: object) -> TypeGuard[str | tuple[float, float, float, float]]:
    """Not an array of them, nor "none"."""
    return (isinstance(value, str) and value != "none") or (
        isinstance(value, tuple) and len(value) == 4
    )


def solution_figure(solution: DualSolution) -> Figure:
    """Price path, and how the index of an arm of the first group is made up over the stages.

    Like Figure 2 of the paper: value of information, expected reward, and index against the price;
    here for arms that rest in a given state, over all stages at which they can be in it.
    """
    figure = new_figure(figsize=(WIDTH, 8.5))
    information, reward, index = figure.subplots(3, 1, sharex=True)
    problem, relaxation = solution.problem, OneArmValues(solution.problem, solution.prices)
    horizon = problem.horizon
    drawn = [(good, pulls) for good, pulls in STATES if pulls < horizon]
    for number, (good, pulls) in enumerate(drawn):
        stages = np.arange(pulls, horizon)
        terms = [relaxation.terms(t, 0, (good, pulls - good)) for t in stages[::-1]][::-1]
        style: dict[str, Any] = {
            "color": SAFE_COLOURS[number], "linestyle": DASHES[number % len(DASHES)],
            "label": f"{good}/{pulls}", "linewidth": 1.5,
        }  # fmt: skip
        information.plot(stages, [term.value_of_information for term in terms], **style)
        reward.plot(stages, [term.expected_reward for term in terms], **style)
        index.plot(stages, [term.index for term in terms], **style)
    index.plot(
        solution.multipliers, color=PRICE_COLOUR, linewidth=3, alpha=0.6, label="price", zorder=0
    )
    information.set_ylabel("value of information")
    reward.set_ylabel("expected reward")
    index.set_ylabel("index, and price of a pull")
    index.set_xlabel("stage")
    information.set_title(
        f"{problem.n_arms} arms, horizon {horizon}: arms resting in a state (good/pulls)\n"
        f"no policy earns more than {solution.upper_bound:.4f}"
    )
    for axes in (information, reward, index):
        axes.grid(alpha=0.25)
    legend_below(figure, *index.get_legend_handles_labels())
    return figure
