"""Figures of results: regret, gaps, characteristics, studies, solutions, markets, batches.

Returned, never shown: of matplotlib, or with `interactive=True` of plotly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arm import OneArmValues
from ..bounds import Gap
from ..designs import DesignResult
from ..designs.playing import drawn_parameters
from ..policies import PAPER_POLICY, Policy, make_policy
from ..prices import Demand, DualSolution
from ..problem import States
from ..simulation import Compared, Simulation, policy_grid
from ..support import Floats, InvalidArgument, Rng, Unsupported, generator_of
from .charts import FIRM, LIGHT, Chart, Panel, Series, draw_chart, figure_page
from .episodes import fresh_names
from .palette import (
    AT_PRICE_COLOUR,
    CONGESTION_COLOUR,
    DASHES,
    FRESH_COLOUR,
    NEUTRAL_COLOUR,
    PRICE_COLOUR,
    SAFE_COLOURS,
    Style,
    policy_styles,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = ((0, 0), (1, 1), (0, 1), (4, 5), (6, 10))  # good / pulls of the arms that are drawn
RANKS = 5  # arms of a batch that are drawn one by one, the best first; the others together
EPISODES = 400
ERRORS = 2.0  # standard errors to either side
# of a design: what is drawn of every policy, and what it is called
DRAWN = {
    "good": "",  # good outcomes, or the total reward
    "reject": "P(declared better): power, or type I error",
    "select_best": "P(a best arm is selected)",
}


def regret_figure(simulation: Simulation, *, interactive: bool = False) -> Figure | Any:
    """Draw the cumulative regret of every policy, with bands of two standard errors.

    Policies stand in the legend as their curves end, largest regret first.
    """
    drawn = [(one.policy, one.curve) for one in simulation.results if one.curve is not None]
    if not drawn:
        raise Unsupported("regret is not defined for arms with terminal reward tables: no figure")
    styles = policy_styles(name for name, _ in drawn)
    drawn.sort(key=lambda pair: -pair[1].regret[-1])
    series = tuple(
        Series(
            name,
            styles[name],
            np.arange(1.0, curve.regret.size + 1),
            curve.regret,
            ERRORS * curve.regret_se,
        )
        for name, curve in drawn
    )
    title = f"{simulation.problem.described()}\n{simulation.described()}"
    panel = Panel("expected regret so far, ± 2 s.e.", series)
    return draw_chart(Chart(title, "stages played", (panel,)), interactive)


def gap_figure(gaps: Gap | Sequence[Gap], *, interactive: bool = False) -> Figure | Any:
    """Draw the expected loss by stage of one policy or several: total, shortfall, congestion."""
    gap_list = [gaps] if isinstance(gaps, Gap) else list(gaps)
    if not gap_list:
        raise InvalidArgument("gaps: empty, nothing to draw", field="gaps")
    styles = policy_styles(one.policy for one in gap_list)
    parts = {
        "running_loss": "expected loss so far",
        "shortfall_by_stage": "shortfall per stage",
        "congestion_by_stage": "congestion per stage",
    }
    panels = []
    for name, label in parts.items():
        series = []
        for one in gap_list:
            values, errors = getattr(one, name), getattr(one, f"{name}_se", None)
            band = None if errors is None else ERRORS * errors
            at = np.arange(float(values.size))
            series.append(Series(one.policy, styles[one.policy], at, values, band))
        panels.append(Panel(label, tuple(series)))
    title = f"loss to the bound, {gap_list[0].upper_bound:.4f} ({gap_list[0].method})"
    return draw_chart(Chart(title, "stage", tuple(panels)), interactive)


def characteristics_figure(result: DesignResult, *, interactive: bool = False) -> Figure | Any:
    """Draw operating characteristics: a row per scenario, a point per policy."""
    policies = list(
        dict.fromkeys(policy.policy for one in result.scenarios for policy in one.policies)
    )
    styles, panels = policy_styles(policies), []
    rows = tuple(
        scenario.name + (" (null)" if scenario.null else "") for scenario in result.scenarios
    )
    for name, label in (DRAWN | {"good": f"{result.earned} per trial"}).items():
        points: dict[str, list[tuple[Any, ...]]] = {policy: [] for policy in policies}
        for row, scenario in enumerate(result.scenarios):
            for one in scenario.policies:
                value, error = getattr(one, name), (one.errors or {}).get(name) or 0.0
                if value is not None:
                    points[one.policy].append((row, value, error))
        series = (_of_rows(policy, styles[policy], points[policy]) for policy in policies)
        panels.append(Panel(label, tuple(series), rows))
    return draw_chart(Chart(result.problem.described(), "", tuple(panels)), interactive)


def _of_rows(name: str, style: Style, points: Sequence[tuple[Any, ...]]) -> Series:
    """Return a series from rows, values and standard errors."""
    at, values, errors = np.array(points, dtype=float).reshape(-1, 3).T
    return Series(name, style, at, values, ERRORS * errors)


def study_figure(
    rows: Sequence[Compared], title: str, *, interactive: bool = False
) -> Figure | Any:
    """Draw the regret of every problem of a study, or good outcomes of designs, ± 2 s.e."""
    grid = policy_grid(rows)
    if not grid.found:
        raise InvalidArgument("rows: no cell of the study has a regret", field="rows")
    styles = policy_styles(grid.policies)
    series = []
    for policy in grid.policies:
        pairs = [(i, grid.found.get((line, policy))) for i, line in enumerate(grid.lines)]
        points = [(i, one.value, one.value_se) for i, one in pairs if one is not None]
        series.append(_of_rows(policy, styles[policy], points))
    panel = Panel(f"expected {grid.measure}, ± 2 s.e.", tuple(series), grid.lines)
    return draw_chart(Chart(title, "", (panel,)), interactive)


# -- solutions and markets ----------------------------------------------------------------------


def solution_figure(solution: DualSolution, *, interactive: bool = False) -> Figure | Any:
    """Draw prices and the terms of the index for arms of the first group.

    Like Figure 2 of the paper: value of information, expected reward, and index against the price;
    here for arms that rest in a given state, over all stages at which they can be in it.
    """
    problem, values_of = solution.problem, OneArmValues(solution.problem, solution.prices)
    horizon = problem.horizon
    labels = {
        "value_of_information": "value of information",
        "expected_reward": "expected reward",
        "index": "index, and price of a pull",
    }
    curves: dict[str, list[Series]] = {name: [] for name in labels}
    curves["index"].append(_price_curve(solution.multipliers))
    for number, (good, pulls) in enumerate((g, n) for g, n in STATES if n < horizon):
        stages = np.arange(pulls, horizon)
        terms = [values_of.terms(t, 0, (good, pulls - good)) for t in stages[::-1]][::-1]
        style = Style(SAFE_COLOURS[number], DASHES[number % len(DASHES)])
        for name, drawn in curves.items():
            values = np.array([getattr(term, name) for term in terms])
            drawn.append(Series(f"{good}/{pulls}", style, stages.astype(float), values))
    panels = [Panel(label, tuple(curves[name]), from_zero=False) for name, label in labels.items()]
    title = (
        f"{problem.n_arms} arms, horizon {horizon}: arms resting in a state (good/pulls)\n"
        f"no policy earns more than {solution.upper_bound:.4f}"
    )
    return draw_chart(Chart(title, "stage", tuple(panels)), interactive)


def _price_curve(prices: Floats) -> Series:
    style = Style(PRICE_COLOUR, DASHES[0])
    at = np.arange(float(prices.size))
    return Series("price of a pull", style, at, prices, width=3.5, opacity=0.65)


def market_figure(market: Demand, *, interactive: bool = False) -> Figure | Any:
    """Draw price, pulls sold, and arms worth the price, by stage."""
    problem, shown = market.problem, market.problem.horizon
    last = "" if problem.stages == shown else f"; price of the deployment {market.prices[-1]:.4f}"
    title = f"the market of {problem.n_arms} arms, horizon {shown}{last}"
    return draw_chart(Chart(title, "stage", market_panels(market)), interactive)


def market_panels(market: Demand) -> tuple[Panel, ...]:
    """Return the panels of a market, without the deployment."""
    problem, shown = market.problem, market.problem.horizon
    at = np.arange(float(shown))

    def bars(name: str, colour: str, values: Floats) -> Series:
        style = Style(colour, DASHES[0])
        return Series(name, style, at, values[:shown], kind="bars", opacity=LIGHT)

    prices = [_price_curve(market.prices[:shown])]
    for number, name in enumerate(fresh_names(market)):
        colour = FRESH_COLOUR if number == 0 else SAFE_COLOURS[number - 1]
        style = Style(colour, DASHES[number % len(DASHES)])
        prices.append(Series(name, style, at, market.fresh_index[number, :shown], width=1.5))
    pulls = problem.pulls[:shown].astype(float)
    offer = Series("pulls on offer", Style(NEUTRAL_COLOUR, DASHES[1]), at, pulls, width=1.4)
    sold = (
        bars("sold to fresh arms", FRESH_COLOUR, market.sold_fresh),
        bars("sold to pulled arms", CONGESTION_COLOUR, market.sold_touched),
    )
    worth = (
        bars("above the price", PRICE_COLOUR, market.above),
        bars("at the price", AT_PRICE_COLOUR, market.at_price),
        offer,
    )
    return (
        Panel("price and index", tuple(prices), from_zero=False),
        Panel("expected pulls", sold),
        Panel("expected arms", worth),
    )


def market_page(market: Demand) -> str:
    """Return the market as an interactive page."""
    problem, shown = market.problem, market.problem.horizon
    title = f"the market of {problem.n_arms} arms, horizon {shown}"
    text = "Expected numbers, with the pulls of every stage sold in order of index."
    if problem.stages > shown:
        text += f" Price of the deployment: {market.prices[-1]:.4f}."
    figure = draw_chart(Chart("", "stage", market_panels(market)), interactive=True)
    return figure_page(figure, title, text)


# -- batches ------------------------------------------------------------------------------------


def expected_shares(
    policy: Policy,
    *,
    truth: Sequence[float] | None = None,
    episodes: int = EPISODES,
    rng: Rng = 1,
) -> Floats:
    """Return the average share of the arms in every batch, (horizon, arms), best arm first.

    Over the prior, or at given success probabilities.
    """
    problem, draw = policy.problem, generator_of(rng)
    rates = None if truth is None else tuple(truth)
    p = np.hstack(drawn_parameters(draw, episodes, problem, rates))
    order = np.argsort(-p, axis=1, kind="stable")
    pulls, good = np.zeros((2, *p.shape), dtype=np.int64)
    shares = np.empty((problem.horizon, problem.n_arms))
    for stage in range(problem.horizon):
        units = policy.allocate_many(stage, States.of_counts(problem, pulls, good), draw)
        shares[stage] = np.take_along_axis(units, order, axis=1).mean(axis=0)
        good += draw.binomial(units, p)
        pulls += units
    return shares / problem.pulls_per_stage


def batch_figure(
    solution: DualSolution,
    policy: str | Policy = PAPER_POLICY,
    *,
    truth: Sequence[float] | None = None,
    rng: Rng = 1,
    interactive: bool = False,
) -> Figure | Any:
    """Draw the shares of a policy in every batch, and the prices."""
    problem = solution.problem
    player = make_policy(problem, policy, solution=solution)
    shares = expected_shares(player, truth=truth, rng=rng)
    at = np.arange(1.0, problem.horizon + 1)
    drawn = min(RANKS, problem.n_arms)
    names = ["best arm", *(f"arm ranked {rank}" for rank in range(2, drawn + 1))]
    columns, colours = list(shares.T[:drawn]), list(SAFE_COLOURS[:drawn])
    if problem.n_arms > RANKS:
        names.append(f"{problem.n_arms - RANKS} others")
        columns.append(1.0 - shares[:, :drawn].sum(axis=1))
        colours.append(FRESH_COLOUR)
    bars = tuple(
        Series(name, Style(colour, DASHES[0]), at, values, kind="bars", opacity=FIRM)
        for name, colour, values in zip(names, colours, columns, strict=True)
    )
    prices = replace(_price_curve(solution.multipliers / problem.unit), at=at)
    where = "arms by true rank, over the prior" if truth is None else "at the given truth"
    title = (
        f"{player.name}: {problem.n_arms} arms, {problem.horizon} batches of "
        f"{problem.pulls_per_stage} ({where})\n"
        f"no policy earns more than {solution.upper_bound:.4f}"
    )
    panels = (
        Panel("share of the batch", bars, height=1.2),
        Panel("price of a pull", (prices,), from_zero=False, height=0.6),
    )
    return draw_chart(Chart(title, "batch", panels), interactive)
