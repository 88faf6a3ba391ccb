"""Figures of results: regret, gaps by stage, operating characteristics, studies.

Returned, never shown: of matplotlib, or with `interactive=True` of plotly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bounds import Gap
from ..designs import DesignResult
from ..simulation import Compared, Simulation, policy_grid
from .charts import Chart, Panel, Series
from .palette import Style, policy_styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = 2.0  # standard errors to either side
# of a design: what is drawn of every policy, and what it is called
DRAWN = {
    "good": "",  # good outcomes, or the total reward
    "reject": "P(declared better): power, or type I error",
    "select_best": "P(a best arm is selected)",
}


def regret_figure(simulation: Simulation, *, interactive: bool = False) -> Figure | Any:
    """Expected cumulative regret of every policy over the stages, with bands of two errors.

    Policies stand in the legend as their curves end, largest regret first.

    Parameters
    ----------
    simulation : Simulation
        What `simulate` found.
    interactive : bool
        A figure of plotly in place of one of matplotlib.

    Returns
    -------
    matplotlib.figure.Figure or plotly.graph_objects.Figure

    Examples
    --------
    >>> from decobandit import Problem, simulate
    >>> from decobandit.figures import regret_figure
    >>> found = simulate(Problem.uniform(arms=2, horizon=5), ["deco", "greedy"], draws=20)
    >>> [line.get_label() for line in regret_figure(found).axes[0].lines]
    ['greedy', 'deco']
    """
    drawn = [(each.policy, each.curve) for each in simulation.results if each.curve is not None]
    if not drawn:
        raise ValueError("regret is not defined where arms have tables of last rewards: no figure")
    styles = policy_styles(name for name, _ in drawn)
    drawn.sort(key=lambda pair: -pair[1].regret[-1])
    series = tuple(
        Series(
            name, styles[name], np.arange(1.0, curve.regret.size + 1), curve.regret,
            ERRORS * curve.regret_se,
        )
        for name, curve in drawn
    )  # fmt: skip
    title = f"{simulation.problem.described()}\n{simulation.described()}"
    panel = Panel("expected regret so far, ± 2 s.e.", series)
    return _drawn(Chart(title, "stages played", (panel,)), interactive)


def gap_figure(gaps: Gap | Sequence[Gap], *, interactive: bool = False) -> Figure | Any:
    """The expected loss of policies by stage: up to each stage, its shortfall, its congestion.

    Parameters
    ----------
    gaps : Gap or sequence of Gap
        What `gap` found, of one policy or several of one problem.
    interactive : bool
        A figure of plotly in place of one of matplotlib.

    Returns
    -------
    matplotlib.figure.Figure or plotly.graph_objects.Figure

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> from decobandit.figures import gap_figure
    >>> figure = gap_figure(gap(Problem.uniform(arms=2, horizon=5), "greedy"), interactive=True)
    >>> len(figure.data)
    3
    """
    found = [gaps] if isinstance(gaps, Gap) else list(gaps)
    if not found:
        raise ValueError("no gaps: no figure")
    styles = policy_styles(each.policy for each in found)
    parts = {
        "running_loss": "expected loss so far",
        "shortfall_by_stage": "shortfall per stage",
        "congestion_by_stage": "congestion per stage",
    }
    panels = tuple(
        Panel(label, tuple(_of_stages(each, name, styles[each.policy]) for each in found))
        for name, label in parts.items()
    )
    title = f"loss to the bound, {found[0].upper_bound:.4f} ({found[0].method})"
    return _drawn(Chart(title, "stage", panels), interactive)


def _of_stages(found: Gap, name: str, style: Style) -> Series:
    values = getattr(found, name)
    errors = getattr(found, f"{name}_se", None)
    at = np.arange(float(values.size))
    return Series(found.policy, style, at, values, None if errors is None else ERRORS * errors)


def characteristics_figure(found: DesignResult, *, interactive: bool = False) -> Figure | Any:
    """Operating characteristics: one row per scenario, one point per policy, with two errors.

    Parameters
    ----------
    found : DesignResult
        What `operating_characteristics` found.
    interactive : bool
        A figure of plotly in place of one of matplotlib.

    Returns
    -------
    matplotlib.figure.Figure or plotly.graph_objects.Figure

    Examples
    --------
    >>> from decobandit import Design, Problem, operating_characteristics
    >>> from decobandit.figures import characteristics_figure
    >>> design = Design(policies=["equal"], scenarios=[{"name": "one", "truth": [0.5, 0.9]}])
    >>> found = operating_characteristics(Problem.uniform(arms=2, horizon=6), design)
    >>> len(characteristics_figure(found).axes)
    3
    """
    policies = list(dict.fromkeys(each.policy for one in found.scenarios for each in one.policies))
    styles = policy_styles(policies)
    rows = tuple(each.name + (" (null)" if each.null else "") for each in found.scenarios)
    panels = tuple(
        Panel(
            label, tuple(_of_scenarios(found, name, each, styles[each]) for each in policies), rows
        )
        for name, label in (DRAWN | {"good": f"{found.earned} per trial"}).items()
    )
    return _drawn(Chart(found.problem.described(), "", panels), interactive)


def _of_scenarios(found: DesignResult, name: str, policy: str, style: Style) -> Series:
    points = [
        (row, value, (each.errors or {}).get(name) or 0.0)
        for row, scenario in enumerate(found.scenarios)
        for each in scenario.policies
        if each.policy == policy and (value := getattr(each, name)) is not None
    ]
    at, values, errors = np.array(points, dtype=float).reshape(-1, 3).T
    return Series(policy, style, at, values, ERRORS * errors)


def study_figure(
    rows: Sequence[Compared], title: str, *, interactive: bool = False
) -> Figure | Any:
    """What policies are compared by in every problem of a study, with two errors to either side.

    That is regret; in the scenarios of a design, good outcomes.

    Parameters
    ----------
    rows : sequence of Row
        Finished cells of a study.
    title : str
        Of the figure.
    interactive : bool
        A figure of plotly in place of one of matplotlib.

    Returns
    -------
    matplotlib.figure.Figure or plotly.graph_objects.Figure
    """
    grid = policy_grid(rows)
    if not grid.found:
        raise ValueError("no cell of the study has a regret: no figure")
    styles = policy_styles(grid.policies)
    series = []
    for policy in grid.policies:
        pairs = [(i, grid.found.get((line, policy))) for i, line in enumerate(grid.lines)]
        known = [(i, each.value, each.value_se) for i, each in pairs if each is not None]
        at, values, errors = np.array(known, dtype=float).reshape(-1, 3).T
        series.append(Series(policy, styles[policy], at, values, ERRORS * errors))
    panel = Panel(f"expected {grid.measure}, ± 2 s.e.", tuple(series), grid.lines)
    return _drawn(Chart(title, "", (panel,)), interactive)


def _drawn(chart: Chart, interactive: bool) -> Figure | Any:
    """The chart as a figure of matplotlib, or of plotly where it is to be interactive."""
    if interactive:
        from .chart_pages import plotly_chart

        return plotly_chart(chart)
    from .chart_figures import matplotlib_chart

    return matplotlib_chart(chart)
