"""Random small problems whose exact values are known, and errors of `simulate` in units of its own.

A z-score is an estimate minus the exact value, over the standard error that is printed. Where
errors are true, z-scores have a standard deviation of about 1 and hardly ever exceed 5. Exact
values are those of `evaluate`, and for arms whose states it does not enumerate (normal, Poisson,
batches of non-binary arms) those of `enumerated`, state by state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import nbinom, norm

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    MarkovState,
    NormalNormal,
    Policy,
    Problem,
    Reward,
    Terminal,
    evaluate,
    simulate,
    solve,
)
from decobandit.policies import Context, make_policies
from decobandit.problem import States, terminal_table

Rng = np.random.Generator
Floats = npt.NDArray[np.float64]


# -- problems -----------------------------------------------------------------------------------


def _weight(rng: Rng) -> float:
    """A parameter of a beta prior: 1e-6 to 1e6, often an ordinary one."""
    if rng.random() < 0.4:
        return float(rng.choice([0.5, 1.0, 2.0, 3.0]))
    return float(f"{10.0 ** rng.uniform(-6, 6):.2g}")


def _beta_arm(rng: Rng, number: int, prior: BetaBernoulli, **fields: Any) -> Arm:
    """An arm with a random reward: the same for both outcomes, or larger for bad ones, at times."""
    kind = rng.random()
    good, bad = [(1.0, 0.0), (1.0, -1.0), (1.2, 0.2), (0.7, 0.7)][int(rng.integers(4))]
    if kind < 0.3:
        good, bad = rng.normal(size=2).round(2).tolist()
    return Arm(name=f"arm-{number}", prior=prior, reward=Reward(good=good, bad=bad), **fields)


def extreme_priors(rng: Rng) -> Problem:
    """Parameters from 1e-6 to 1e6, rewards 1 and 0."""
    arms = [
        Arm(name=f"arm-{i}", prior=BetaBernoulli(_weight(rng), _weight(rng)))
        for i in range(rng.integers(2, 4))
    ]
    return Problem(arms=arms, horizon=int(rng.integers(2, 9)))


def unequal_rewards(rng: Rng) -> Problem:
    """The same with other rewards, at times by stage."""
    arms = [
        _beta_arm(rng, i, BetaBernoulli(_weight(rng), _weight(rng)))
        for i in range(int(rng.integers(2, 4)))
    ]
    return Problem(arms=arms, horizon=int(rng.integers(2, 9)))


def deployments(rng: Rng) -> Problem:
    """The same with a deployment."""
    problem = unequal_rewards(rng)
    deploy = float(rng.choice([0.5, 5.0, 100.0]))
    return Problem(arms=problem.arms, horizon=problem.horizon, terminal=Terminal(deploy=deploy))


def terminal_tables(rng: Rng) -> Problem:
    """The same with last rewards in tables."""
    horizon = int(rng.integers(2, 6))
    arms = []
    for i in range(int(rng.integers(2, 4))):
        shift = rng.normal()
        table = terminal_table(horizon, lambda g, b: float(np.sin(1.3 * g + 0.7 * b + shift)))  # noqa: B023
        arms.append(_beta_arm(rng, i, BetaBernoulli(_weight(rng), _weight(rng)), terminal=table))
    return Problem(arms=arms, horizon=horizon)


def batches(rng: Rng) -> Problem:
    """Pulls of a stage shared freely, at times with a deployment."""
    arms = [
        _beta_arm(rng, i, BetaBernoulli(_weight(rng), _weight(rng)))
        for i in range(int(rng.integers(2, 4)))
    ]
    deploy = Terminal(deploy=float(rng.choice([5.0, 50.0]))) if rng.random() < 0.5 else None
    return Problem(
        arms=arms,
        horizon=int(rng.integers(1, 4)),
        pulls_per_stage=int(rng.integers(2, 5)),
        repeat=True,
        terminal=deploy,
    )


def ordinary(rng: Rng) -> Problem:
    """Priors between 0.5 and 10, rewards 1 and 0."""
    arms = [
        Arm(name=f"arm-{i}", prior=BetaBernoulli(*rng.uniform(0.5, 10.0, 2).round(1).tolist()))
        for i in range(int(rng.integers(2, 5)))
    ]
    return Problem(arms=arms, horizon=int(rng.integers(5, 13)))


def _deploy(rng: Rng) -> Terminal | None:
    return Terminal(deploy=float(rng.choice([2.0, 20.0]))) if rng.random() < 0.4 else None


def classes(rng: Rng) -> Problem:
    """Two to four classes, pseudo-counts from 1e-3 to 1e3."""
    arms = []
    for i in range(int(rng.integers(2, 4))):
        size = int(rng.integers(2, 5))
        counts = [float(f"{10.0**x:.2g}") for x in rng.uniform(-3, 3, size)]
        if rng.random() < 0.5:
            counts = [1.0] * size
        values = rng.normal(size=size).round(2).tolist()
        if rng.random() < 0.2:
            values[-1] = 50.0
        arms.append(
            Arm(name=f"arm-{i}", prior=DirichletCategorical(counts), reward=Reward(values=values))
        )
    return Problem(arms=arms, horizon=int(rng.integers(2, 5)), terminal=_deploy(rng))


def own_states(rng: Rng) -> Problem:
    """Arms that are Markov chains of four states, some with rare transitions."""
    arms, names = [], ["a", "b", "c", "d"]
    for i in range(int(rng.integers(2, 4))):
        states = {}
        for name in names:
            rare = 10.0 ** rng.uniform(-5, -0.5)
            first, second = rng.choice(names, size=2).tolist()
            states[name] = MarkovState(
                mean=round(float(rng.normal()), 2),
                next={"usual": (1.0 - rare, first), "rare": (rare, second)},
            )
        arms.append(Arm(name=f"arm-{i}", prior=MarkovArm(first="a", states=states)))
    return Problem(arms=arms, horizon=int(rng.integers(2, 6)))


def normal_arms(rng: Rng) -> Problem:
    """Normal measurements, standard deviations of priors from 1e-6 to 1e2."""
    arms = [
        Arm(
            name=f"arm-{i}",
            prior=NormalNormal(round(float(rng.normal()), 1), float(10.0**spread)),
            noise_sd=float(rng.choice([0.3, 1.0, 4.0])),
        )
        for i, spread in enumerate(rng.uniform(-6, 2, int(rng.integers(2, 4))) * rng.choice([0, 1]))
    ]
    return Problem(arms=arms, horizon=int(rng.integers(1, 3)), terminal=_deploy(rng))


def poisson_arms(rng: Rng) -> Problem:
    """Counts, with rates from rare to large."""
    arms = [
        Arm(name=f"arm-{i}", prior=GammaPoisson(float(rng.choice([0.05, 0.5, 2, 10])), float(rate)))
        for i, rate in enumerate(10.0 ** rng.uniform(-0.5, 2, int(rng.integers(2, 4))))
    ]
    return Problem(arms=arms, horizon=int(rng.integers(1, 4)), terminal=_deploy(rng))


def kind_batches(rng: Rng) -> Problem:
    """Classes and own states in batches."""
    problem = classes(rng) if rng.random() < 0.5 else own_states(rng)
    return Problem(
        arms=problem.arms[:2], horizon=2, pulls_per_stage=2, repeat=True, terminal=problem.terminal
    )


FAMILIES: dict[str, Callable[[Rng], Problem]] = {
    each.__name__.replace("_", " "): each
    for each in (
        ordinary,
        extreme_priors,
        unequal_rewards,
        deployments,
        terminal_tables,
        batches,
        classes,
        own_states,
        normal_arms,
        poisson_arms,
        kind_batches,
    )
}
POLICIES = {
    "binary": ("deco", "deco-calibrated", "fh-gittins", "greedy", "thompson", "equal"),
    "batches": ("deco", "greedy", "equal"),
    "other": ("deco", "deco-calibrated", "fh-gittins", "greedy", "equal"),
    "other batches": ("deco", "greedy", "equal"),
}


# -- exact values -------------------------------------------------------------------------------


def enumerated(policy: Any, *, points: int = 300) -> float:
    """Value of a policy for non-binary arms that does not draw, state by state.

    Outcomes of normal arms are `points` quantiles of equal probability; those of Poisson arms all
    but 1e-12.
    """
    problem = policy.problem
    chance, value = np.ones(1), 0.0
    stats = States.initial(problem, 1).stats.copy()
    for stage in range(problem.stages):
        chosen = policy.allocate_many(stage, States(problem, stats))
        last = stage == problem.stages - 1
        number = int(chosen.max())
        for _ in range(number):
            for arm in range(problem.n_arms):
                kind = policy.groups[arm].model
                now = np.flatnonzero(chosen[:, arm] > 0)
                group = policy.groups[arm]
                base, factor = group.reward_base[stage], group.reward_factor[stage]
                seen = stats[now, arm, : kind.width]
                value += float(chance[now] @ (base + factor * kind.mean(seen)))
                chosen[now, arm] -= 1
                if stage == problem.horizon or (last and number == 1):
                    continue
                if now.size:
                    chance, stats, chosen = _pulled(kind, arm, now, chance, stats, chosen, points)
    return value


def _pulled(
    kind: Any, arm: int, now: Any, chance: Floats, stats: Floats, chosen: Any, points: int
) -> tuple[Floats, Floats, Any]:
    """All states after a pull of an arm in some of them."""
    others = np.setdiff1d(np.arange(len(chance)), now)
    known = stats[:, arm, : kind.width]
    rows, weights, after = [others], [chance[others]], [known[others]]
    for i in now.tolist():
        p, following = _following(kind, known[i], points)
        rows.append(np.full(len(p), i))
        weights.append(chance[i] * p)
        after.append(following)
    row = np.concatenate(rows)
    moved = stats[row]
    moved[:, arm, : kind.width] = np.concatenate(after)
    return np.concatenate(weights), moved, chosen[row].copy()


def _following(kind: Any, stats: Floats, points: int) -> tuple[Floats, Floats]:
    if kind.finite:
        chances, after = kind.transitions(stats)
        return chances[chances > 0.0], after[chances > 0.0]
    if kind.word.startswith("normal"):
        sd = np.hypot(kind.sd(stats), kind.noise_sd)
        outcomes = kind.mean(stats) + sd * norm.ppf((np.arange(points) + 0.5) / points)
        chances = np.full(points, 1.0 / points)
    else:
        shape, rate = kind.shape + stats[1], kind.rate + stats[0]
        outcomes = np.arange(nbinom.isf(1e-12, shape, rate / (rate + 1.0)) + 1)
        chances = nbinom.pmf(outcomes, shape, rate / (rate + 1.0))
    return chances, kind.update(np.tile(stats, (len(outcomes), 1)), outcomes.astype(float))


def exact_value(policy: Policy) -> float:
    """By `evaluate` or state by state."""
    problem = policy.problem
    finite = all(group.model.finite for group in problem.groups)
    if not problem.is_binary and (problem.repeat or not finite):
        return enumerated(policy)
    return evaluate(problem, policy, workers=1).value


# -- z-scores -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """One estimate of one run."""

    family: str
    problem: int
    policy: str
    what: str  # "value", "difference", a method
    seed: int
    estimate: float
    exact: float
    standard_error: float
    kind: str  # what the error is from: "spread" or "range"

    @property
    def z(self) -> float:
        """Error in units of its standard error."""
        return (self.estimate - self.exact) / max(self.standard_error, 1e-300)


def policies_of(problem: Problem) -> tuple[str, ...]:
    """Names of policies to compare."""
    if problem.repeat:
        return POLICIES["batches" if problem.is_binary else "other batches"]
    return POLICIES["binary" if problem.is_binary else "other"]


def scores(
    family: str, number: int, seeds: range, *, policies: int = 2, **sizes: int
) -> Iterator[Score]:
    """Of a random problem and some of its policies, over seeds: values and differences."""
    rng = np.random.default_rng([list(FAMILIES).index(family), number])
    problem = FAMILIES[family](rng)
    names = rng.permutation(policies_of(problem)).tolist()
    solution = solve(problem, workers=1)
    made = make_policies(Context(problem, fixed_solution=solution), names[:policies])
    chosen = [(each, exact_value(each)) for each in made]
    for seed in seeds:
        found = simulate(problem, made, rng=seed, workers=1, solution=solution, **sizes)
        for result, (_, value) in zip(found.results, chosen, strict=True):
            best = result.estimates.best
            yield Score(
                family,
                number,
                result.policy,
                "value",
                seed,
                best.value,
                value,
                best.value_se,
                best.value_se_kind,
            )
        for (one, x), (two, y) in itertools.pairwise(chosen):
            gain = found.difference(one.name, two.name)
            yield Score(
                family,
                number,
                f"{one.name} - {two.name}",
                "difference",
                seed,
                gain.value,
                x - y,
                gain.value_se,
                gain.value_se_kind,
            )
