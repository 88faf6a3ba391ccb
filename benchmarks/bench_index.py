"""What the calibrated index loses to the exact optimum, in percent of what FH-Gittins loses.

Uniform priors, default settings, exact values. `make bench` takes a few pairs (arms, horizon).
`python -m benchmarks index` with DECO_BENCH_PAIRS=all in the environment takes all 377 with 3 to 15
arms and 12 to 40 stages, an hour of CPU time. They are kept one by one in
docs/reproduction/index_losses.csv: a run computes those that are not there yet. Without the file
all are computed anew.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from decobandit import Problem
from decobandit.evaluation import evaluate
from decobandit.joint import optimum
from decobandit.support import write_whole

from .rows import Row, at_most

ARMS, HORIZONS = range(3, 16), range(12, 41)
CHOSEN = range(12, 24)  # stages of the problems on which the candidates of the path were chosen
FEW = ((3, 12), (15, 12), (3, 20), (5, 20), (3, 25), (6, 28), (3, 40), (15, 33))
MOST = 40.0  # percent
ROUNDING = 1e-10  # losses below it are none
KEPT = Path(__file__).parents[1] / "docs" / "reproduction" / "index_losses.csv"


@dataclass(frozen=True)
class Loss:
    """The exact values of one problem; without them, the reason."""

    arms: int
    horizon: int
    optimum: float | None
    calibrated: float | None
    fh_gittins: float | None
    refused: str = ""

    @property
    def percent(self) -> float | None:
        """Of FH-Gittins' loss; None where that is nothing, or a value is missing."""
        if self.optimum is None or self.calibrated is None or self.fh_gittins is None:
            return None
        lost = self.optimum - self.fh_gittins
        return 100.0 * (self.optimum - self.calibrated) / lost if lost > ROUNDING else None


def run() -> list[Row]:
    """A row for each of a few pairs; or summaries of all."""
    wanted = os.environ.get("DECO_BENCH_PAIRS", "few")
    if wanted not in {"few", "all"}:
        raise SystemExit(f"DECO_BENCH_PAIRS is {wanted!r}; give few or all")
    if wanted == "few":
        return [row_of(loss(arms, horizon)) for arms, horizon in FEW]
    return summaries(all_losses())


def loss(arms: int, horizon: int) -> Loss:
    """One problem; the optimum may be refused for memory."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    try:
        best = optimum(problem).value
    except ValueError as error:
        return Loss(arms, horizon, None, None, None, str(error))
    ours, gittins = (evaluate(problem, name).value for name in ("deco-calibrated", "fh-gittins"))
    return Loss(arms, horizon, best, ours, gittins)


def all_losses(kept: Path = KEPT, compute: Callable[[int, int], Loss] = loss) -> list[Loss]:
    """All problems, by arms and horizon; those not in the file are computed, short ones first."""
    found = {(one.arms, one.horizon): one for one in read(kept)}
    for pair in ((arms, horizon) for horizon in HORIZONS for arms in ARMS):
        if pair not in found:
            print(f"measuring: index {pair}", file=sys.stderr)
            found[pair] = compute(*pair)
            write_whole(kept, text(found[each] for each in sorted(found)))
    return [found[each] for each in sorted(found)]


def text(losses: Iterable[Loss]) -> str:
    """Losses as CSV, each with its percentage."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow([*(field.name for field in fields(Loss)), "percent"])
    for one in losses:
        lines.writerow([*astuple(one), "" if one.percent is None else f"{one.percent:.2f}"])
    return written.getvalue()


def read(file: Path) -> list[Loss]:
    """Losses that were kept; none without the file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_loss_of(entry) for entry in csv.DictReader(lines)]


def _loss_of(entry: dict[str, str]) -> Loss:
    values = (
        float(entry[name]) if entry[name] else None
        for name in ("optimum", "calibrated", "fh_gittins")
    )
    return Loss(int(entry["arms"]), int(entry["horizon"]), *values, entry["refused"])


def row_of(one: Loss) -> Row:
    """The row of one problem."""
    what = f"loss of the calibrated index ({one.arms}, {one.horizon}), of FH-Gittins' loss"
    if one.percent is None:
        return Row(what, float("nan"), "%", one.refused or "FH-Gittins is optimal", None, None)
    return at_most(what, max(one.percent, 0.0), "%", MOST)


def summaries(losses: list[Loss]) -> list[Row]:
    """Mean and largest percentage: horizons of the choice of candidates, the others, all."""
    seen = [one for one in losses if one.horizon in CHOSEN]
    other = [one for one in losses if one.horizon not in CHOSEN]
    few = [one for one in other if one.arms <= 5]
    named = {
        f"up to {CHOSEN[-1]} stages": seen,
        f"{CHOSEN.stop} to {HORIZONS[-1]} stages": other,
        f"{CHOSEN.stop} to {HORIZONS[-1]} stages, up to 5 arms": few,
        "all": losses,
    }
    rows = [row for name, part in named.items() for row in summary(name, part)]
    missing = sum(bool(one.refused) for one in losses)
    return [*rows, at_most("problems whose optimum was refused", float(missing), "", 0.0)]


def summary(name: str, losses: list[Loss]) -> list[Row]:
    """Mean and largest percentage of some problems."""
    known = {one: one.percent for one in losses if one.percent is not None}
    worst = max(known, key=lambda one: known[one])
    what = f"loss of the calibrated index, of FH-Gittins' loss, {len(known)} problems, {name}"
    mean = sum(known.values()) / len(known)
    return [
        Row(f"{what}: mean", mean, "%", "", None, None),
        at_most(f"{what}: largest, at ({worst.arms}, {worst.horizon})", known[worst], "%", MOST),
    ]
