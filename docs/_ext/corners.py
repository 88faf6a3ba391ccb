"""Every verb in every corner: computed by trying it, on problems of two arms and two stages.

`python docs/_ext/corners.py` writes docs/reference/corners.md; `tests/test_corners.py` tries again
and compares. A verb that is not there for a corner refuses in one sentence, which the page quotes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

PAGE = Path(__file__).parents[1] / "reference" / "corners.md"
HEAD = """\
# Supported combinations

Which functions support which problems, by outcome model, each with single pulls (1), several
different arms per stage (2) and batches in units (b). The table is computed by running every
function on a small problem of every combination (`python docs/_ext/corners.py`), and a test checks
it. `+` means supported; a letter refers to an error message below. The last columns are binary
arms with a random end, with windows, with a shortlist, with a budget, with resources
and with segments.

"""
SHAPES = {
    "1": {"pulls_per_stage": 1},
    "2": {"pulls_per_stage": 2},
    "b": {"pulls_per_stage": 4, "repeat": True, "unit": 2},
}
TRUTHS = {
    "binary": [0.3, 0.5, 0.6],
    "categorical": [[0.2, 0.3, 0.5]] * 3,
    "normal": [0.1, 0.0, 0.4],
    "normal-gamma": [[0.1, 1.0], [0.0, 1.0], [0.4, 2.0]],
    "Poisson": [1.0, 2.0, 1.5],
    "exponential": [1.0, 2.0, 1.5],
    "Markov": ["-"] * 3,
    "mixed": [0.3, [0.2, 0.3, 0.5], "-"],
    "restless": ["-"] * 3,
    "two-level": ["-"] * 3,
    "drift": [0.1, 0.0, 0.4],
}


@cache
def arm_of(outcome: str) -> Callable[[int], Any]:
    """Make an arm of a kind of outcome, by its number."""
    from decobandit import (
        Arm,
        BetaBernoulli,
        Chain,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        MarkovArm,
        MarkovState,
        NormalGamma,
        NormalNormal,
        Reward,
        TwoLevel,
    )

    steps = {
        "new": MarkovState(mean=0.5, next={"good": (0.5, "worn"), "bad": (0.5, "new")}),
        "worn": MarkovState(mean=0.2, next={"stay": (1.0, "worn")}),
    }
    arms: dict[str, Callable[[int], Any]] = {
        "binary": lambda k: Arm(name=f"a{k}", prior=BetaBernoulli(1 + k, 2)),
        "categorical": lambda k: Arm(
            name=f"a{k}",
            prior=DirichletCategorical([1 + k, 1, 1]),
            reward=Reward(values=[0, 0.5, 1]),
        ),
        "normal": lambda k: Arm(name=f"a{k}", prior=NormalNormal(0.1 * k, 1.0), noise_sd=1.0),
        "normal-gamma": lambda k: Arm(name=f"a{k}", prior=NormalGamma(0.1 * k, 1, 2, 2)),
        "Poisson": lambda k: Arm(name=f"a{k}", prior=GammaPoisson(2 + k, 2)),
        "exponential": lambda k: Arm(name=f"a{k}", prior=GammaExponential(3 + k, 2)),
        "Markov": lambda k: Arm(name=f"a{k}", prior=MarkovArm(first="new", states=steps)),
        "restless": lambda k: Arm(
            name=f"a{k}",
            prior=Chain([[0.9, 0.1], [0.2, 0.8]], [[1, 0], [0.7, 0.3]], [1, 0], [0.5, 0.1 * k]),
        ),
    }
    arms["two-level"] = lambda k: Arm(
        name=f"a{k}", prior=TwoLevel(low=0.2, high=0.6, up=0.05, down=0.1, start=0.3 + 0.1 * k)
    )
    arms["drift"] = lambda k: Arm(
        name=f"a{k}", prior=NormalNormal(0.1 * k, 1.0), noise_sd=1.0, drift_sd=0.3
    )
    mixed = ("binary", "categorical", "Markov")
    arms["mixed"] = lambda k: arms[mixed[k % 3]](k)
    return arms[outcome]


LETTERS = ascii_uppercase + ascii_lowercase  # of refusals
FAILED = "fails:"  # in place of a refusal: the test does not accept it
FEATURES: dict[str, dict[str, Any]] = {
    "random end": {"horizon": {"survival": [1.0, 0.6]}},
    "windows": {},
    "shortlist": {"terminal": {"deploy": 2.0, "deploy_arms": 2}},
    "budget": {"budget": 6.0},
    "resources": {"resources": {"nurse": 4.0}},
    "segments": {"segments": [{"name": "EU", "share": 0.4}, {"name": "US", "share": 0.6}]},
}
ARM_FEATURES = {
    "windows": lambda k: {"available": [1, 2] if k == 2 else None},
    "budget": lambda k: {"cost": 1.0 + k},
    "resources": lambda k: {"uses": {"nurse": 1.0 + k}},
}
OUTCOMES = (*TRUTHS, *FEATURES)


def problem_of(outcome: str, shape: str) -> Any:
    """Three arms, two stages."""
    from decobandit import Problem

    own = ARM_FEATURES.get(outcome, lambda k: {})
    kind = "binary" if outcome in FEATURES else outcome
    arms = [{**dict(arm_of(kind)(k)), **own(k)} for k in range(3)]
    return Problem(arms=arms, **{"horizon": 2} | SHAPES[shape] | FEATURES.get(outcome, {}))


def _truth(outcome: str) -> Any:
    return TRUTHS["binary" if outcome in FEATURES else outcome]


# -- verbs --------------------------------------------------------------------------------------


def _simulated(problem: Any, policies: Any = ("greedy", "equal"), **options: Any) -> Any:
    from decobandit import simulate

    policies = ("greedy",) if problem.may_wait else policies
    sizes = {"draws": 20, "per_draw": 2, "rng": 1}
    return simulate(problem, list(policies), **(sizes | options))


def _state(problem: Any) -> Any:
    from decobandit import State

    return State.before(problem)


def _design(problem: Any, outcome: str, **options: Any) -> Any:
    from decobandit import Design, operating_characteristics

    scenarios = [{"name": "likely", "truth": _truth(outcome)}]
    design = Design(policies=["greedy", "equal"], draws=20, seed=1, scenarios=scenarios)
    return operating_characteristics(problem, design, **options)


def _trial(problem: Any, outcome: str) -> Any:
    from decobandit.trials import create_trial, open_store

    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "t.db") as store:
        trial = create_trial(problem, policy="greedy", db=store, seed=1)
        allocation = trial.ask(segment="EU") if problem.segments else trial.ask()
        assert allocation.id
        report = trial.verify()
        assert report.ok
    return report


def _check(value: float) -> None:
    assert math.isfinite(value)


def _moments(variance: float | None) -> None:
    if variance is None:
        raise ValueError(
            "no variance over all segments: their numbers of visitors depend on each other"
        )
    _check(variance)


def _verbs() -> dict[str, Callable[[Any, str], Any]]:
    import decobandit as deco

    def result(problem: Any, **options: Any) -> Any:
        simulated = _simulated(problem, **options)
        return simulated["EU"].results[0] if problem.segments else simulated.results[0]

    def information(problem: Any) -> float:
        found = deco.bound(problem, draws=20, kinds=("lagrangian", "information"))
        return float((found["EU"] if problem.segments else found).information)

    return {
        "solve": lambda p, o: _check(deco.solve(p).upper_bound),
        "recommend": lambda p, o: deco.recommend(p, _state(p)),
        "optimum": lambda p, o: _check(deco.optimum(p).value),
        "evaluate": lambda p, o: _check(deco.evaluate(p, "greedy").value),
        "evaluate, at a truth": lambda p, o: deco.evaluate(p, "greedy", truth=_truth(o)),
        "evaluate, moments": lambda p, o: _moments(
            getattr(deco.evaluate(p, "greedy", truth=_truth(o)), "variance", None)
        ),
        "simulate": lambda p, o: _check(result(p).value),
        "simulate, regret curve": lambda p, o: _simulated(p).to_frame("stages"),
        "simulate, at a truth": lambda p, o: result(p, truth=_truth(o)),
        "simulate, another horizon": lambda p, o: result(p, true_horizon=3),
        "gap": lambda p, o: _check(deco.gap(p, "greedy").gap),
        "gap, simulated": lambda p, o: deco.gap(p, "greedy", method="simulated", draws=200),
        "bound": lambda p, o: _check(deco.bound(p).best_bound),
        "bound, information": lambda p, o: _check(information(p)),
        "path": lambda p, o: deco.follow(p, "greedy", rng=1),
        "index": lambda p, o: deco.make_policy(p, "deco").index(0, 0, _first(p)),
        "design, exact": lambda p, o: _design(p, o, exact=True),
        "design, simulated": lambda p, o: _design(p, o, exact=False),
        "trial": _trial,
    }


def _first(problem: Any) -> Any:
    import numpy as np

    return np.array(problem.groups[0].model.initial(), dtype=float)[None]


def tried(verb: Callable[[Any, str], Any], outcome: str, shape: str) -> str:
    """Empty where the verb answers; else the sentence of its refusal."""
    try:
        verb(problem_of(outcome, shape), outcome)
    except ValueError as error:
        return str(error).splitlines()[0]
    except Exception as error:
        return f"{FAILED} {type(error).__name__}: {error}"
    return ""


# -- the page -----------------------------------------------------------------------------------


def table() -> dict[str, dict[tuple[str, str], str]]:
    """By verb: what `tried` says in every corner."""
    return {
        name: {(o, s): tried(verb, o, s) for o in OUTCOMES for s in SHAPES}
        for name, verb in _verbs().items()
    }


def page(cells: dict[str, dict[tuple[str, str], str]]) -> str:
    """The table in Markdown, with the refusals below."""
    letters: dict[str, str] = {}
    rows = []
    for name, row in cells.items():
        marks = []
        for outcome in OUTCOMES:
            signs = ""
            for shape in SHAPES:
                note = row[outcome, shape]
                signs += letters.setdefault(note, LETTERS[len(letters)]) if note else "+"
            marks.append(f"`{signs}`")
        rows.append(f"| {name} | {' | '.join(marks)} |")
    head = [f"| | {' | '.join(OUTCOMES)} |", "|---" * (1 + len(OUTCOMES)) + "|"]
    notes = [f"- `{letter}`: {sentence}" for sentence, letter in letters.items()]
    return HEAD + "\n".join([*head, *rows, "", *notes]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(table()), encoding="utf-8")
