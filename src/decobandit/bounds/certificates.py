"""Certificates of upper bounds: a problem, prices and a bound that anybody can check.

`certificate_checker.py` computes the dual function again, from the certificate alone.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np

from ..prices import DualSolution
from ..problem import Chain, MarkovArm, Problem, problem_to_dict
from ..support import Floats, Ints, InvalidArgument

FORMAT = "decobandit-certificate-1"
KINDS = ("beta", "categorical", "states", "chain")  # of priors


def certificate(solution: DualSolution) -> dict[str, Any]:
    """Return the certificate of a solution's upper bound as plain values.

    Keys `format`, `problem` (as in problem files; a random horizon as its probabilities, arms with
    states as their matrices), `prices` and `bound` (hexadecimal), and `sha256` of problem and
    prices. Problems that the checker does not follow are refused.
    """
    problem = solution.problem
    check_certifiable(problem)
    tree = problem_to_dict(problem)
    if problem.random_horizon is not None:
        tree["horizon"] = {"survival": list(problem.random_horizon.probabilities)}
    for entry in tree["arms"]:
        if entry["prior"].get("kind") == "states":
            entry["prior"] = _matrices(entry["prior"])
    every = solution.prices.tolist()
    if solution.budget_price is not None:
        every.append(solution.budget_price)
    prices = [price.hex() for price in every]
    text = json.dumps([tree, prices], sort_keys=True)
    return {
        "format": FORMAT,
        "problem": tree,
        "prices": prices,
        "bound": float(solution.upper_bound).hex(),
        "sha256": sha256(text.encode()).hexdigest(),
    }


def check_certifiable(problem: Problem) -> None:
    """Refuse a problem that the checker does not follow."""
    advice = "deco solve gives its bound without a certificate"
    for name in ("resources", "segments"):
        if getattr(problem, name):
            raise InvalidArgument(f"{name}: not in certificates; {advice}", field=name)
    for arm in problem.arms:
        kind = getattr(arm.prior, "kind", "beta")
        if kind not in KINDS:
            raise InvalidArgument(
                f"arm {arm.name!r}: {kind} arms are not in certificates; {advice}", field="prior"
            )


def _matrices(table: dict[str, Any]) -> dict[str, Any]:
    """Return the prior of an arm with named states as a chain."""
    arrays = MarkovArm(**table).arrays()

    def matrix(chances: Floats, after: Ints) -> Floats:
        dense = np.zeros((len(chances), len(arrays.names)))
        np.add.at(dense, (np.arange(len(chances))[:, None], after), chances)
        return dense

    rest, pull = (matrix(side.probabilities, side.after) for side in (arrays.rest, arrays.pull))
    chain = Chain(rest, pull, arrays.rest_reward, arrays.reward, arrays.first)
    return chain.model_dump(mode="json")
