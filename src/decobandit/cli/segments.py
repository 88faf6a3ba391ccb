"""Tables of results by segment, and in all."""

from __future__ import annotations

from .. import problem as problems
from .tables import print_table

COLUMNS = {
    "segment": "segment",
    "share": "share",
    "budget": "money",
    "scenario": "scenario",
    "policy": "policy",
    "good": "good",
    "size": "pulls",
    "reject": "P(declared)",
    "value": "value",
    "value_se": "± s.e.",
    "own_clock_value": "on own clock",
    "regret": "regret",
    "gap": "gap",
    "upper_bound": "upper bound",
    "own_clock_bound": "own-clock bound",
    "trivial": "best arms known",
}
DIGITS = {"share": 4, "budget": 3}
WORDS = ("segment", "scenario", "policy")


def print_segments(result: problems.BySegment) -> None:
    """Print a row per segment, or per segment and policy, and the rows in all."""
    rows = result.rows()
    shown = [key for key in COLUMNS if any(row.get(key) not in (None, 0.0) for row in rows)]
    lines: list[list[str] | None] = []
    for number, row in enumerate(rows):
        if number and row["segment"] != rows[number - 1]["segment"]:
            lines.append(None)
        cells = [_cell(key, row.get(key)) for key in shown]
        if row.get("reject_at_most") is not None:
            cells[shown.index("reject")] = f"<= {_text(row['reject_at_most'])}"
        lines.append(cells)
    print_table(result.problem.described(), [COLUMNS[key] for key in shown], lines, text=WORDS)
    total = rows[-1]
    if total.get("upper_bound") is not None:
        print(f"no policy can earn more than {total['upper_bound']:.6f} in all;")
        print(f"policies that decide by their own segment only: {total['own_clock_bound']:.6f}")
    elif "own_clock_value" in total:
        print("value: of the best policy, which also looks at the calendar")
    if "value_se" in shown:
        print("±: one standard error; segments are simulated independently")
    if "reject" in shown:
        print("P(declared): some arm is declared; in all, in some segment: at most the sum")
    if "budget" in shown:
        print("money: of each segment, split at one price of money; a segment never spends more")


def _cell(key: str, value: object) -> str:
    return f"{value:.{DIGITS.get(key, 6)}g}" if key in DIGITS else _text(value)


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
