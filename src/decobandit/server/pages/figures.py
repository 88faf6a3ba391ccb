"""The figures of a trial as JSON for plotly: the next decision, and the episode so far.

Names of arms come from users. Plotly reads tags in labels, so every name goes through `as_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import figures as shared
from ...bounds import MEANINGS, Episode, gap
from ...designs import EXACT_STATES, STEPS, too_slow
from ...evaluation import evaluate
from ...policies import policy_class
from ...support import Floats, TooLarge
from ...trials import ArmStatus, Status
from ...trials.settings import TrialSettings

MAX_BARS = 40  # arms in the figure of a decision: those worth most
TRANSPARENT = "rgba(0,0,0,0)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
TIGHTER = 5e-4  # less cannot be seen in three digits


# -- the next decision --------------------------------------------------------------------------


def decision_figure(status: Status, *, dark: bool) -> dict[str, Any] | None:
    """Index of each arm and the price of a pull; None where there is no decision."""
    if status.next_arm is None:
        return None
    arms = _shown_arms(status)[::-1]  # plotly draws from the bottom
    rows = list(range(len(arms)))
    bars: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": rows,
            "x": [_rounded(getattr(arm, key)) for arm in arms],
            "name": name,
            "marker": {"color": colour},
            "text": [shared.as_text(arm.name) for arm in arms],
            "textposition": "none",
            "hovertemplate": f"%{{text}}<br>{name} %{{x:.4f}}<extra></extra>",
        }
        for name, colour, key in _parts(status)
    ]
    every = [arm.name for arm in status.arms]
    called = dict(zip(every, short_names(every), strict=True))
    names = {arm.name: shared.as_text(called[arm.name]) for arm in arms}
    names[status.next_arm] = f"<b>{names.get(status.next_arm, '')}</b>"
    left = 16 + 8 * max(len(called[arm.name]) for arm in arms)
    if _has_price(status):
        bars.append(_price_line(status, len(arms)))
    # indices of some policies are not values
    is_index = status.arms[0].index is not None and not _has_information(status)
    axis = f"index of {status.policy}" if is_index else "value of a pull"
    layout = _layout(dark, 26 * len(arms) + 130) | {
        "barmode": "stack",
        "bargap": 0.3,
        "yaxis": {
            "tickvals": rows,
            "ticktext": [names[arm.name] for arm in arms],
            "automargin": True,
            "fixedrange": True,
        },
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero", "fixedrange": True},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        # one alone has no legend
        "meta": {"left": min(left, 150), "names": len(bars) if len(bars) > 1 else 0},
    }
    return {"data": _recoloured(bars) if dark else bars, "layout": layout}


def short_names(names: Sequence[str]) -> list[str]:
    """Names short enough for the figure; where long ones would look alike, they are numbered."""
    short = [shared.short_name(name) for name in names]
    if len(set(short)) == len(set(names)):
        return short
    return [
        name if len(name) <= shared.LONGEST_NAME else shared.short_name(f"{i}. {name}")
        for i, name in enumerate(names, start=1)
    ]


def describe_decision(status: Status) -> str:
    """Return the caption of the decision figure."""
    chosen = (
        "The rules of the design choose or draw the next arm: it need not have the largest index."
        if status.by_rules
        else "The arm with the largest index is next."
    )
    if _has_information(status):
        line = " The green line is the price of a pull at this stage." if _has_price(status) else ""
        bars = "Each bar is the index of an arm: expected reward plus value of information."
        return f"{bars} {chosen}{line}"
    if status.arms[0].index is not None:
        return f"Each bar is the index of an arm by the policy {status.policy}. {chosen}"
    return (
        f"Each bar is the expected reward of a pull. The policy {status.policy} decides on all "
        "arms together, or draws one."
    )


def shown_terms(status: Status) -> list[tuple[str, str]]:
    """Columns of what a pull of an arm is worth that have numbers: title, attribute of an arm."""
    keys = ("expected_reward", "value_of_information", "index")
    shown = [key for key in keys if any(getattr(arm, key) is not None for arm in status.arms)]
    return [(key.replace("_", " ").capitalize(), key) for key in shown]


def tighter_bound(status: Status) -> str:
    """Describe the smallest bound; empty if it is no smaller than that of the prices."""
    best, bound = status.best_bound, status.upper_bound
    if best is None or bound is None or status.best_bound_is is None or best >= bound - TIGHTER:
        return ""
    return MEANINGS[status.best_bound_is]


def _has_information(status: Status) -> bool:
    return status.arms[0].value_of_information is not None


def _has_price(status: Status) -> bool:
    # other policies do not decide by the prices that the trial began with
    fixed = policy_class(status.policy, places=False).at_fixed_prices
    return status.price is not None and fixed and _has_information(status)


def _parts(status: Status) -> list[tuple[str, str, str]]:
    """Name, colour and attribute of the pieces of a bar."""
    reward = ("expected reward", shared.CONGESTION_COLOUR, "expected_reward")
    if _has_information(status):
        return [reward, ("value of information", shared.INFORMATION_COLOUR, "value_of_information")]
    if status.arms[0].index is not None:
        return [("index", shared.CONGESTION_COLOUR, "index")]
    return [reward]


def _shown_arms(status: Status) -> list[ArmStatus]:
    if len(status.arms) <= MAX_BARS:
        return list(status.arms)
    worth = [arm.index if arm.index is not None else arm.expected_reward for arm in status.arms]
    best = np.argsort([-np.inf if value is None else value for value in worth])[::-1][:MAX_BARS]
    return [status.arms[k] for k in sorted(best)]


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, 6)


def _price_line(status: Status, rows: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [status.price, status.price],
        "y": [-0.5, rows - 0.5],
        "name": f"price {status.price:.4f}",
        "line": {"color": shared.PRICE_COLOUR, "width": 4},
        "hovertemplate": "price %{x:.4f}<extra></extra>",
    }


# -- the trial so far ---------------------------------------------------------------------------


def path_figure(
    path: Episode, expected: Floats | None = None, *, dark: bool
) -> dict[str, Any] | None:
    """Draw the paper's Figure 2 for this trial; None before the first recorded stage."""
    if path.stages == 0:
        return None
    figure = shared.draw_chart(shared.episode_chart(path, expected), interactive=True)
    tree: dict[str, Any] = _as_lists(figure.to_plotly_json())
    names = sum(bool(trace.get("showlegend", True)) for trace in tree["data"])
    tree["layout"] |= _layout(dark, 980) | {
        "meta": {"names": names},
        "showlegend": True,
        "legend": {"groupclick": "togglegroup", "tracegroupgap": 0},
    }
    short = short_names([arm.name for arm in path.problem.arms])
    for trace in tree["data"]:
        kind, _, number = trace.get("legendgroup", "").partition(" ")
        if kind == "arm":
            trace["name"] = shared.as_text(short[int(number)])
    return tree | {"data": _recoloured(tree["data"])} if dark else tree


def _as_lists(tree: Any) -> Any:
    """Without numpy: what JSON can hold."""
    if isinstance(tree, dict):
        return {key: _as_lists(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_as_lists(value) for value in tree]
    return tree.tolist() if isinstance(tree, np.ndarray | np.generic) else tree


def _recoloured(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _recoloured(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_recoloured(value) for value in tree]
    return shared.DARK_VARIANTS.get(tree, tree) if isinstance(tree, str) else tree


def _layout(dark: bool, height: int) -> dict[str, Any]:
    """Return the layout of both figures: transparent, in the colours of the page."""
    import plotly.io

    template = plotly.io.templates["plotly_dark" if dark else "plotly_white"].to_plotly_json()
    return {
        "template": {"layout": _as_lists(template["layout"])},
        "height": height,
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "hovermode": "closest",
        "font": {"family": FONT, "size": 13},
        "margin": {"l": 64, "r": 12, "t": 16, "b": 48},
        "dragmode": False,
    }


# -- the expected loss -------------------------------------------------------------------------


def expected_loss(settings: TrialSettings) -> Floats | None:
    """Return the expected loss up to each stage, (stages,); None if that is slow."""
    problem = settings.problem
    if too_slow(problem, policy_class(settings.policy, places=False).cost):
        return None
    policy = settings.make_policy()
    method = "simulated"
    if policy.has_table:
        try:  # on few states both take a moment; on many, this gives up soon
            evaluate(problem, policy, limit_states=EXACT_STATES)
            method = "exact"
        except TooLarge:
            pass
    draws = int(np.clip(STEPS // (4 * problem.n_arms * problem.stages), 50, 1000))
    return gap(
        problem, policy, solution=settings.solution, method=method, draws=draws, per_draw=4
    ).running_loss
