"""The page docs/performance.md, from what a run has kept."""

from __future__ import annotations

from typing import Any

HEADINGS = {
    "answers": "Whole answers",
    "backward": "One arm, backward",
    "batches": "Batches",
    "bounds": "Bounds and policies",
    "certificates": "Certificates",
    "default": "The default policy",
    "designs": "Designs",
    "dual": "The dual",
    "exact": "Exact values",
    "gittins": "Finite-horizon Gittins indices",
    "growth": "Growth",
    "index": "Losses of the calibrated index",
    "kinds": "Other outcomes",
    "many_trials": "Many trials in one database",
    "start": "The first minute",
    "simulation": "Simulation",
    "errors": "Standard errors of simulations",
    "trials": "Trials",
}
HEAD = """# Performance

Written by `make bench`; do not edit. What stands beside our figure was measured in the same run on
the same machine, or is a limit that we have set ourselves. A ratio says how many times better ours
is. Packages that stand beside us run in environments of their own, one copy per core.

"""
COLUMNS = ("what", "ours", "beside it", "its figure", "ratio", "target", "met")
MET = {None: "", True: "yes", False: "**no**"}


def page(kept: dict[str, Any]) -> str:
    """Machine, date, what was missed, and a table per benchmark."""
    parts = [HEAD, circumstances(kept), missed(kept["rows"])]
    for name in dict.fromkeys(row["benchmark"] for row in kept["rows"]):
        rows = [row for row in kept["rows"] if row["benchmark"] == name]
        parts.append(f"\n## {HEADINGS.get(name, name.capitalize())}\n\n{table(rows)}")
    return "".join(parts)


def circumstances(kept: dict[str, Any]) -> str:
    """Where, when and with what."""
    machine = kept["machine"]
    size = f"{machine['cores']} cores, {machine['memory_gib']} GiB"
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    facts = (
        ("date", kept["date"]),
        ("machine", f"{machine['processor']}, {size}"),
        ("system", machine["system"]),
        ("versions", versions),
        ("the run took", f"{kept['seconds']:.0f} s"),
    )
    return "".join(f"- {name}: {value}\n" for name, value in facts)


def missed(rows: list[dict[str, Any]]) -> str:
    """The targets that were not met, by name."""
    judged = [row for row in rows if row["met"] is not None]
    short = [row for row in judged if not row["met"]]
    lines = [f"\nTargets met: {len(judged) - len(short)} of {len(judged)}."]
    if short:
        lines.append(" Not met:\n\n" + "\n".join(f"- {sentence(row)}" for row in short))
    return "".join(lines) + "\n"


def sentence(row: dict[str, Any]) -> str:
    """A row that missed its target, in words."""
    beside = "" if row["beside"] == "limit" else f" beside {row['beside']}"
    ratio = "" if row["ratio"] is None else f" (ratio {figure(row['ratio'])})"
    return f"{row['what']}{beside}: {measure(row['ours'], row['unit'])}{ratio}; {row['target']}"


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *map(cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """What is printed of a row, in the terminal and on the page."""
    theirs = row["beside_value"]
    return (
        row["what"],
        measure(row["ours"], row["unit"]),
        row["beside"].replace("|", "/"),
        "" if theirs is None else measure(theirs, row["unit"]),
        "" if row["ratio"] is None else figure(row["ratio"]),
        row["target"],
        MET[row["met"]],
    )


def measure(value: float, unit: str) -> str:
    """A figure and its unit."""
    return f"{figure(value)} {unit}".strip()


def figure(value: float) -> str:
    """Three digits, without exponents where people can do without."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
