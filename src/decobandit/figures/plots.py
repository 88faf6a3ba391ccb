"""Figures. Functions return them; nothing is shown, and only `save_figure` writes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..arm import Relaxation
from ..prices import DualSolution
from ..simulation import Compared, Simulation, policy_grid
from ..support import write_whole
from .colours import PRICE_COLOUR

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = ((0, 0), (1, 1), (0, 1), (4, 5), (6, 10))  # good / pulls of the arms that are drawn
STATE_COLOURS = ("C0", "C1", "C3", "C4", "C5")  # no green


def new_figure(figsize: tuple[float, float]) -> Figure:
    """An empty figure, of so many inches, whose parts keep out of each other's way."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'figures need matplotlib; install it with: pip install "decobandit[plot]"'
        ) from None
    return Figure(layout="constrained", figsize=figsize)


def literal(text: str) -> str:
    """Text as it is: no formula between $ signs, and not hidden for a leading underscore."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure; the suffix says the format (.png, .svg, .pdf)."""
    file = Path(path) if Path(path).suffix else Path(f"{path}.png")
    content = io.BytesIO()
    figure.savefig(content, format=file.suffix.removeprefix("."), dpi=150)
    write_whole(file, content.getvalue())


def solution_figure(solution: DualSolution) -> Figure:
    """Price path, and how the index of an arm of the first group is made up over the stages.

    Like Figure 2 of the paper: value of information, expected reward, and index against the price;
    here for arms that rest in a given state, over all stages at which they can be in it.
    """
    figure = new_figure(figsize=(8.0, 9.0))
    information, reward, index = figure.subplots(3, 1, sharex=True)
    problem, relaxation = solution.problem, Relaxation(solution.problem, solution.prices)
    horizon = problem.horizon
    drawn = [(good, pulls) for good, pulls in STATES if pulls < horizon]
    for colour, (good, pulls) in zip(STATE_COLOURS, drawn, strict=False):
        stages = np.arange(pulls, horizon)
        terms = [relaxation.terms(t, 0, good, pulls - good) for t in stages[::-1]][::-1]
        style = {"color": colour, "label": f"{good}/{pulls}", "linewidth": 1.5}
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
        f"{problem.number_of_arms} arms, horizon {horizon}: arms resting in a state (good/pulls)\n"
        f"no policy earns more than {solution.upper_bound:.4f}"
    )
    for axes in (information, reward, index):
        axes.grid(alpha=0.25)
    figure.legend(*index.get_legend_handles_labels(), loc="outside right center")
    return figure


MARKERS = "osD^vP*X"
LINES = ("-", "--", "-.", ":")  # so that twelve curves differ in print too


def regret_figure(simulation: Simulation) -> Figure:
    """Expected cumulative regret of every policy over the stages, with bands of two errors.

    Policies stand in the legend as their curves end, largest regret first.
    """
    drawn = [result for result in simulation.results if result.curve is not None]
    if not drawn:
        raise ValueError("regret is not defined where arms have tables of last rewards: no figure")
    figure = new_figure(figsize=(8.0, 5.0))
    axes = figure.subplots()
    last = {result.policy: result.curve.regret[-1] for result in drawn if result.curve}
    for number, result in enumerate(drawn):
        assert result.curve is not None
        stages = np.arange(1, result.curve.regret.size + 1)
        regret, error = result.curve.regret, 2.0 * result.curve.regret_se
        colour = f"C{number % 10}"
        axes.plot(
            stages, regret, label=result.policy, color=colour, linestyle=LINES[number % 4],
            linewidth=1.5,
        )  # fmt: skip
        axes.fill_between(
            stages, regret - error, regret + error, color=colour, alpha=0.2, linewidth=0
        )
    axes.set_xlabel("stages played")
    axes.set_ylabel("expected regret so far, ± 2 s.e.")
    axes.set_title(
        f"{simulation.problem.number_of_arms} arms, horizon {simulation.problem.horizon}\n"
        f"{simulation.described()}",
        fontsize="medium",
    )
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    axes.grid(alpha=0.25)
    lines, names = axes.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: -last[names[i]])
    figure.legend([lines[i] for i in order], [names[i] for i in order], loc="outside right center")
    return figure


def study_figure(rows: Sequence[Compared], title: str) -> Figure:
    """What policies are compared by in every problem of a study, with two errors to either side.

    That is regret; in the scenarios of a design, good outcomes.
    """
    grid = policy_grid(rows)
    lines, policies = grid.lines, grid.policies
    if not grid.found:
        raise ValueError("no cell of the study has a regret: no figure")
    figure = new_figure(figsize=(8.0, 1.5 + 0.12 * len(lines) * (len(policies) + 2)))
    axes = figure.subplots()
    for number, policy in enumerate(policies):
        of_line = [(i, grid.found.get((name, policy))) for i, name in enumerate(lines)]
        found = [(i, each) for i, each in of_line if each is not None]
        place = [-i + 0.35 - 0.7 * number / max(len(policies) - 1, 1) for i, _ in found]
        axes.errorbar(
            [each.value for _, each in found], place,
            xerr=[2.0 * each.error for _, each in found], label=policy,
            fmt=MARKERS[number % len(MARKERS)],
            color=f"C{number % 10}", markersize=5, linewidth=1.2, capsize=2,
        )  # fmt: skip
    axes.set_yticks([-i for i in range(len(lines))], list(map(literal, lines)))
    for i in range(1, len(lines)):
        axes.axhline(0.5 - i, color="0.85", linewidth=0.8)
    axes.set_ylim(0.5 - len(lines), 0.5)
    axes.set_xlim(0.0, None)
    axes.set_xlabel(f"expected {grid.measure}, ± 2 s.e.")
    axes.set_title(title)
    axes.grid(axis="x", alpha=0.25)
    figure.legend(loc="outside right center")
    return figure
