"""The figures of a trial as trees for plotly's script: the next decision, and the path so far.

Names of arms come from users. Plotly reads tags in labels, so every name goes through `as_text`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..evaluation import TooManyStates, evaluate
from ..gaps import gap
from ..path_lines import (
    CONGESTION_COLOUR,
    LONGEST_NAME,
    SHORTFALL_COLOUR,
    short_name,
)
from ..path_pages import as_text, path_panels
from ..paths import Path
from ..planning import EXACT_STATES, MOST_TABLES, SLOW, STEPS
from ..plots import PRICE_COLOUR
from ..policies.base import IndexPolicy
from ..trials import ArmStatus, Status, Trial

Floats = npt.NDArray[np.float64]
MOST_BARS = 40  # arms in the figure of a decision: those worth most
INFORMATION_COLOUR = "#e0a030"
DARK = {  # colours that are hard to see on a dark page
    "black": "#e8ece9", "white": "#1c2220", PRICE_COLOUR: "#5cc483", CONGESTION_COLOUR: "#7fb0e6",
    SHORTFALL_COLOUR: "#f09a86", "#1a2f6b": "#8fa4ee", "#7a0044": "#e06aa5", "#8c564b": "#c08a7e",
    "#1f77b4": "#4aa3e0",
}  # fmt: skip
CLEAR = "rgba(0,0,0,0)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
KEPT = 64  # expectations


# -- the next decision --------------------------------------------------------------------------


def decision_figure(status: Status, *, dark: bool) -> dict[str, Any] | None:
    """What a pull of each arm is worth, against the price; None where there is no decision."""
    if status.next_arm is None:
        return None
    parts = _parts(status)
    arms = _shown_arms(status)[::-1]  # plotly draws from the bottom
    rows = list(range(len(arms)))
    bars = [
        {
            "type": "bar", "orientation": "h", "y": rows, "x": [_round(read(arm)) for arm in arms],
            "name": name, "marker": {"color": colour}, "text": [as_text(arm.name) for arm in arms],
            "textposition": "none",
            "hovertemplate": f"%{{text}}<br>{name} %{{x:.4f}}<extra></extra>",
        }
        for name, colour, read in parts
    ]  # fmt: skip
    every = [arm.name for arm in status.arms]
    called = dict(zip(every, short_names(every), strict=True))
    short = [called[arm.name] for arm in arms]
    names = [as_text(name) for name in short]
    chosen = [
        f"<b>{n}</b>" if a.name == status.next_arm else n for n, a in zip(names, arms, strict=True)
    ]
    left = 16 + 8 * max(len(name) for name in short)
    layout = _layout(dark, 26 * len(arms) + 130) | {
        "barmode": "stack", "bargap": 0.3,
        "yaxis": {"tickvals": rows, "ticktext": chosen, "automargin": True, "fixedrange": True},
        "xaxis": {"title": {"text": "worth of a pull"}, "rangemode": "tozero", "fixedrange": True},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "meta": {"left": min(left, 150), "names": 3},
    }  # fmt: skip
    if _has_price(status):
        bars.append(_price_line(status.price, len(arms)))
    return _themed({"data": bars, "layout": layout}, dark)


def short_names(names: Sequence[str]) -> list[str]:
    """Names that leave room for the figure; where long ones begin alike, they are numbered."""
    short = [short_name(name) for name in names]
    if len(set(short)) == len(set(names)):
        return short
    return [
        name if len(name) <= LONGEST_NAME else short_name(f"{i}. {name}")
        for i, name in enumerate(names, start=1)
    ]


def describe_decision(status: Status) -> str:
    """What the bars are."""
    if _has_information(status):
        line = " The green line is the price of a pull at this stage." if _has_price(status) else ""
        return (
            "Each bar is what a pull is worth now: what it is expected to earn, and what it "
            f"teaches. The largest is next.{line}"
        )
    if status.arms[0].index is not None:
        return (
            f"Each bar is the index of an arm by the policy {status.policy}; the largest is next."
        )
    return (
        f"Each bar is the expected reward of a pull. The policy {status.policy} decides on all "
        "arms together, or draws one."
    )


def _has_information(status: Status) -> bool:
    return status.arms[0].value_of_information is not None


def _has_price(status: Status) -> bool:
    # other policies do not decide by the prices that the trial began with
    return status.price is not None and status.policy == "deco" and _has_information(status)


def _parts(status: Status) -> list[tuple[str, str, Any]]:
    """Name, colour and value of the pieces of a bar."""
    reward = ("expected reward", CONGESTION_COLOUR, lambda arm: arm.expected_reward)
    if _has_information(status):
        information = lambda arm: arm.value_of_information  # noqa: E731
        return [reward, ("value of information", INFORMATION_COLOUR, information)]
    if status.arms[0].index is not None:
        return [("index", CONGESTION_COLOUR, lambda arm: arm.index)]
    return [reward]


def _shown_arms(status: Status) -> list[ArmStatus]:
    """All arms in their order, or the MOST_BARS worth most."""
    if len(status.arms) <= MOST_BARS:
        return list(status.arms)
    worth = [arm.index if arm.index is not None else arm.expected_reward for arm in status.arms]
    best = np.argsort([-np.inf if each is None else each for each in worth])[::-1][:MOST_BARS]
    return [status.arms[k] for k in sorted(best)]


def _round(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, 6)


def _price_line(price: float | None, rows: int) -> dict[str, Any]:
    assert price is not None
    return {
        "type": "scatter", "mode": "lines", "x": [price, price], "y": [-0.5, rows - 0.5],
        "name": f"price {price:.4f}", "line": {"color": PRICE_COLOUR, "width": 4},
        "hovertemplate": "price %{x:.4f}<extra></extra>",
    }  # fmt: skip


# -- the trial so far ---------------------------------------------------------------------------


def path_figure(path: Path, expected: Floats | None = None, *, dark: bool) -> dict[str, Any] | None:
    """The paper's Figure 2 of this trial; None before the first stage is told."""
    if path.stages == 0:
        return None
    figure = path_panels(path, expected, first="information")
    tree: dict[str, Any] = figure.to_plotly_json()
    tree = _plain(tree)
    tree["layout"] |= _layout(dark, 980)
    tree["layout"]["meta"] = {"names": sum(bool(t.get("showlegend", True)) for t in tree["data"])}
    tree["layout"]["showlegend"] = True
    short = short_names([arm.name for arm in path.problem.arms])
    for trace in tree["data"]:
        kind, _, number = trace.get("legendgroup", "").partition(" ")
        if kind == "arm":
            trace["name"] = as_text(short[int(number)])
    return _themed(tree, dark)


def _plain(tree: Any) -> Any:
    """Without numpy: what JSON can hold."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree]
    return tree.tolist() if isinstance(tree, np.ndarray | np.generic) else tree


def _themed(tree: dict[str, Any], dark: bool) -> dict[str, Any]:
    if dark:
        tree["data"] = _recoloured(tree["data"])
    return tree


def _recoloured(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _recoloured(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_recoloured(value) for value in tree]
    return DARK.get(tree, tree) if isinstance(tree, str) else tree


def _layout(dark: bool, height: int) -> dict[str, Any]:
    """What both figures share: they lie on the page, in its colours."""
    import plotly.io

    template = plotly.io.templates["plotly_dark" if dark else "plotly_white"].to_plotly_json()
    return {
        "template": {"layout": _plain(template["layout"])},
        "height": height, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR, "hovermode": "closest",
        "font": {"family": FONT, "size": 13}, "margin": {"l": 64, "r": 12, "t": 16, "b": 48},
        "dragmode": False,
    }  # fmt: skip


# -- what was to be expected --------------------------------------------------------------------


class Expectations:
    """The expected loss after each stage, computed once per plan and kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Floats | None] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, trial: Trial) -> bool:
        """Whether it takes no time."""
        return trial.plan.tables_hash in self._kept

    def of(self, trial: Trial) -> Floats | None:
        """Expected loss up to each stage, (stages,); None where that would take long."""
        name = trial.plan.tables_hash
        if name not in self._kept:
            found = _expected(trial)
            with self._lock:
                self._kept[name] = found
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return self._kept.get(name)


def _expected(trial: Trial) -> Floats | None:
    problem = trial.problem
    tables = len(problem.groups) * problem.stages**3
    if trial.policy in SLOW or (trial.policy != "deco" and tables > MOST_TABLES):
        return None
    policy = trial.plan.make_policy()
    method = "simulated"
    if isinstance(policy, IndexPolicy) and hasattr(policy, "stage_index"):
        try:  # on few states both take a moment; on many, this gives up soon
            evaluate(policy, limit_states=EXACT_STATES)
            method = "exact"
        except TooManyStates:
            pass
    draws = int(np.clip(STEPS // (4 * problem.number_of_arms * problem.stages), 50, 1000))
    return gap(policy, solution=trial.solution, method=method, draws=draws, per_draw=4).running
