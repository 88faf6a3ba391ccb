"""Restless arms compared with published numbers: Whittle indices, relaxed rewards, our policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..policies import make_policy
from ..policies.restless import whittle_indices
from ..prices import solve
from ..problem import Arm, Chain, MarkovModel, Problem
from ..support import Report, Unsupported
from .experiments import (
    Part,
    PublishedDesign,
    Runs,
    Section,
    Table,
    Task,
    computed,
    played,
    published,
)

DRAWS = {"quick": 5, "paper": 200}
TOLERANCE = 1e-5  # relative gap of our bounds
SEED = 1
POLICIES = ("deco", "deco-rolling", "whittle", "greedy")
INDEX, INDEXABLE = "Whittle index", "indexable"

# with one arm in five pulled, an optimal policy keeps turning
CIRCULANT = Chain(
    [[0.5, 0, 0, 0.5], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]],
    [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]],
    [-1, 0, 0, 1],
    [-1, 0, 0, 1],
    first=[0.25] * 4,
)


def random_chain(
    rng: np.random.Generator,
    states: int,
    *,
    alpha: float = 0.5,
    first: int | Sequence[float] | None = None,
    resting: bool = True,
) -> Chain:
    """Return a chain with Dirichlet rows and uniform rewards."""
    rest, pull = (rng.dirichlet(np.full(states, alpha), size=states) for _ in range(2))
    rest_reward = rng.random(states) if resting else np.zeros(states)
    first = int(rng.integers(states)) if first is None else first
    return Chain(rest, pull, rest_reward, rng.random(states), first=first)


def dense_chain(states: int, seed: int) -> Chain:
    """Return the chain of `random_restless(dim=states, seed=seed)` of markovianbandit-pkg."""
    rng = np.random.RandomState(seed)
    moves = rng.exponential(size=(states, 2, states))
    moves /= moves.sum(axis=2, keepdims=True)
    rewards = rng.rand(states, 2)
    return Chain(moves[:, 0], moves[:, 1], rewards[:, 0], rewards[:, 1])


def different_chains(types: int, per_type: int, states: int, stages: int, seed: int) -> Problem:
    """Return random chains of several types, a tenth of them pulled."""
    rng = np.random.default_rng(seed)
    chains = [random_chain(rng, states) for _ in range(types)]
    arms = tuple(
        Arm(name=f"chain-{k + 1}-{i + 1}", prior=chain)
        for k, chain in enumerate(chains)
        for i in range(per_type)
    )
    return Problem(arms=arms, horizon=stages, pulls_per_stage=types * per_type // 10)


def hard_chains(seed: int) -> Problem:
    """Return 100 equal random chains of 8 states over 50 stages, half of them pulled."""
    chain = random_chain(np.random.default_rng(seed), 8)
    return Problem.uniform(arms=100, horizon=50, prior=chain, pulls_per_stage=50)


def chain_problem(case: str) -> Problem:
    """Return the problem of a case with policies."""
    kind, number = case.split("-")
    if kind == "circulant":
        return Problem.uniform(arms=100, horizon=int(number), prior=CIRCULANT, pulls_per_stage=20)
    if kind == "different":
        return different_chains(10, 10, 10, 50, int(number))
    return hard_chains(int(number))


@dataclass(frozen=True)
class Row:
    """One of our numbers, with the reference number if there is one."""

    case: str
    quantity: str
    source: str | None  # of the reference
    reference: float | None
    ours: float
    ours_error: float  # 0 where ours is exact
    agrees: bool | None


def cells(scale: str) -> dict[str, list[PublishedDesign]]:
    """Return the references by case, which are computed at every scale."""
    by_case: dict[str, list[PublishedDesign]] = {}
    for row in published().restless:
        by_case.setdefault(row.case, []).append(row)
    return by_case


def run(scale: str, folder: Path | None = None, progress: Report | None = None) -> list[Row]:
    """Compute all cases; read finished ones from `folder`."""
    draws = DRAWS[scale]
    settings = {"draws": draws, "tol": TOLERANCE, "seed": SEED}
    tasks = [
        Task(case, settings, partial(_rows, case, references, draws))
        for case, references in cells(scale).items()
    ]
    return computed("restless", tasks, Row, folder, progress)


def _rows(case: str, references: list[PublishedDesign], draws: int) -> list[Row]:
    if references[0].quantity.startswith((INDEX, INDEXABLE)):
        numbers = _index_numbers(case)
        return [_row(*pair) for pair in zip(references, numbers, strict=True)]
    problem = chain_problem(case)
    solution = solve(problem, tol=TOLERANCE)
    bound = solution.upper_bound
    rows = [_row(references[0], bound / problem.n_arms)]
    for name in POLICIES:
        try:
            policy = make_policy(problem, name, solution=solution)
        except Unsupported:
            continue
        (result,) = played(problem, policy, Runs(draws), seed=SEED)
        share, error = result.value / bound, result.value_se / bound
        rows.append(Row(case, f"{name}, part of the bound", None, None, share, error, None))
    return rows


def _row(reference: PublishedDesign, ours: float) -> Row:
    agrees = abs(ours - reference.value) <= reference.within
    source, value = reference.source, reference.value
    return Row(reference.case, reference.quantity, source, value, ours, 0.0, agrees)


def _index_numbers(case: str) -> list[float]:
    """Return the Whittle index of every state; 0 if there is none."""
    kind, *numbers = case.split("-")
    chain = CIRCULANT if kind == "circulant" else dense_chain(*map(int, numbers))
    try:
        return [float(index) for index in whittle_indices(MarkovModel(chain))]
    except Unsupported:
        return [0.0]


# -- what is written ----------------------------------------------------------------------------

NOTES = (
    "circulant: four states, 100 arms, 20 of them pulled at each of 10 or 50 stages. dense-n-s: "
    "random_restless(dim=n, seed=s) of markovianbandit-pkg. different-s: ten types of ten arms, "
    "ten states, transitions Dirichlet(.5), uniform rewards, 50 stages, 10 pulled. hard-s: 100 "
    "equal such arms of eight states, 50 stages, 50 pulled. s: seed.",
    f"The bound is certified to {TOLERANCE:g}; it agrees if it differs from the linear program by "
    "no more than 1e-5 of it (circulant: 1e-8). The linear program is not a publication: it was "
    "solved by HiGHS from matrices of its own.",
    "No package that we know of has values of policies over a finite horizon to compare ours with: "
    "they are beside the bound. - : a chain is not indexable.",
)
HEADER = ("case", "quantity", "reference", "ours", "agrees", "source")
PLAYED = ("case", "bound per arm", *POLICIES)


def _compared(row: Row) -> tuple[str, ...]:
    numbers = (f"{row.reference:.10g}", f"{row.ours:.10g}")
    agrees = "yes" if row.agrees else "no"
    return (row.case, row.quantity, *numbers, agrees, row.source or "")


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute all cases: our policies against the bound, bounds and indices against references."""
    rows = run(scale, folder, progress)
    references = [row for row in rows if row.reference is not None]
    bounds = {row.case: row.ours for row in references}
    shares: dict[str, dict[str, str]] = {}  # by case and policy
    for row in rows:
        if row.reference is None:
            policy, _ = row.quantity.split(",")
            text = f"{100.0 * row.ours:.2f} ± {100.0 * row.ours_error:.2f} %"
            shares.setdefault(row.case, {})[policy] = text
    lines = [
        (case, f"{bounds[case]:.6f}", *(by_policy.get(name, "-") for name in POLICIES))
        for case, by_policy in shares.items()
    ]
    caption = "Our policies, in percent of the certified bound (± one standard error)"
    words = ("case", "quantity", "agrees", "source")
    compared = list(map(_compared, references))
    tables = (
        Table(PLAYED, lines, ("case",), caption),
        Table(HEADER, compared, words, "Bounds and Whittle indices"),
    )
    return Part(rows, Section("Restless arms", NOTES, tables))
