"""The optimality gap of a policy, stage by stage: Theorems 1 and 2.

For any admissible policy and any prices mu, with index I_t^a of each arm alone at these prices,

    upper bound - value = E sum_t [ sum over pulled arms of (mu_t - I_t^a)^+     shortfall
                                  + sum over the others of (I_t^a - mu_t)^+ ]    congestion

which is Theorem 1 with its terms sorted by sign: a pulled arm is not worth the price, or an arm
that is worth it is not pulled. Within a budget B, with a price of money lambda, or resources R_t at
prices rho_t, the index is less what the pull costs at these prices, and pulls need not be made,
which adds

    E sum_t [ mu_t (m_t - pulls of stage t) + rho_t (R_t - used at stage t) ]    unspent
    + lambda E (B - money spent)

For DeCo, which pulls the largest index, the first happens only
where no arm is worth the price, the second where several are: Theorem 2.

Exact where the states that the policy reaches can be enumerated: the terms only need the
distribution of each arm's own state, and of the states in which it is pulled. Simulated otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from .._version import __version__
from ..evaluation import Evaluation, Occupied, evaluate
from ..policies import DEFAULT_POLICY, Context, Policy, check_subject, make_policies
from ..prices import DualSolution, by_segment
from ..problem import DEFAULT_TIES, Given, Problem, TieRule, tie_rule, truth_of
from ..simulation import (
    GapTerms,
    Sampling,
    Simulation,
    Sizes,
    World,
    check_draws,
    check_sampling,
    check_sizes,
    estimate,
    no_terms,
    play,
    simulate,
    term_errors,
)
from ..support import (
    Card,
    Columns,
    Floats,
    InvalidArgument,
    Report,
    Rng,
    Tables,
    Tabular,
    TooLarge,
    columns_of,
    obeys_workers,
    read_only,
    seed_of,
    tells_progress,
    until_interrupted,
)
from ..support.records import doc, record_class
from .episodes import Episode, follow
from .upper_bounds import BoundValue, check_bound_draws
from .upper_bounds import bound as upper_bounds

TERMS = ("shortfall", "congestion", "unspent")  # the last one with a budget or resources
MAX_STATES = 2_000_000
MAX_CALLS = 4_000  # exact states of a policy that is called in each, a millisecond or more


def _column(terms: str, place: int, text: str) -> Any:
    return property(lambda self: getattr(self, terms)[:, place], doc=text)


@record_class(eq=False)
class Gap(Tabular):
    """Loss of a policy against the upper bound, by stage.

    Tables of `to_frame`: `stages`; `arms`, where the gap is exact.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> loss = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> loss.shortfall_by_stage.shape
    (4,)
    >>> round(float(loss.running_loss[-1] - loss.gap), 9)
    0.0
    """

    policy: str = doc("Name of the policy.")
    upper_bound: float = doc("Dual function at the prices.")
    value: float = doc("Value of the policy.")
    value_se: float = doc("Standard error of the value, 0 if exact.")
    terms: Floats = doc(
        "(stages, terms) expected shortfall, congestion and, with a budget or resources, what is "
        "unspent."
    )
    terms_se: Floats = doc("(stages, terms) standard errors, 0 if exact.")
    by_arm: Floats | None = doc(
        "(arms, 2) shortfall and congestion by arm, if exact; equal arms share theirs."
    )
    method: str = doc('"exact" or "simulated".')
    settings: dict[str, Any] = doc("Draws and seed of a simulation.")

    @property
    def gap(self) -> float:
        """Upper bound minus value."""
        return self.upper_bound - self.value

    @property
    def gap_se(self) -> float:
        """Standard error of the gap: that of the value, since the bound is exact."""
        return self.value_se

    @property
    def shortfall(self) -> float:
        """Expected loss by pulled arms not worth the price."""
        return math.fsum(self.terms[:, 0])

    @property
    def congestion(self) -> float:
        """Expected loss by arms worth the price that were not pulled."""
        return math.fsum(self.terms[:, 1])

    @property
    def unspent(self) -> float | None:
        """Price of pulls not made, resources not used and money not spent, expected, or None."""
        return math.fsum(self.terms[:, 2]) if self.terms.shape[1] > 2 else None

    shortfall_by_stage = _column("terms", 0, "Expected shortfall by stage, (stages,).")
    shortfall_by_stage_se = _column("terms_se", 0, "Standard errors by stage, (stages,).")
    congestion_by_stage = _column("terms", 1, "Expected congestion by stage, (stages,).")
    congestion_by_stage_se = _column("terms_se", 1, "Standard errors by stage, (stages,).")

    @property
    def running_loss(self) -> Floats:
        """Expected loss up to and including each stage, (stages,)."""
        return np.cumsum(self.terms.sum(axis=1))

    def _rows(self) -> list[dict[str, float]]:
        """Return the terms of every stage and their errors by name."""
        names = TERMS[: self.terms.shape[1]]
        errors = [f"{name}_se" for name in names]
        return [
            {"stage": t, **dict(zip((*names, *errors), row, strict=True))}
            for t, row in enumerate(np.hstack([self.terms, self.terms_se]).tolist())
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "policy": self.policy,
            "upper_bound": self.upper_bound,
            "value": self.value,
            "value_se": self.value_se,
            "gap": self.gap,
            "shortfall": self.shortfall,
            "congestion": self.congestion,
            **({} if self.unspent is None else {"unspent": self.unspent}),
            "method": self.method,
            "version": __version__,
            **self.settings,
            "by_arm": None if self.by_arm is None else self.by_arm.tolist(),
            "stages": self._rows(),
        }

    def _card(self) -> Card:
        names = ["upper_bound", "value", "value_se", "gap", "shortfall", "congestion"]
        names += ["unspent"] if self.unspent is not None else []
        return Card(
            f"Gap of {self.policy}, {self.method}",
            columns={name: [getattr(self, name)] for name in names},
            below=f"gap = {' + '.join(names[4:])}; to_frame() has them by stage",
        )

    def tables(self) -> Tables:
        """Return columns by the name of the table."""
        return {"stages": self._stages} | ({} if self.by_arm is None else {"arms": self._arms})

    def absent_tables(self) -> dict[str, str]:
        """Return why a table is absent, by its name."""
        reason = "only of an exact gap; gap(..., method='exact')"
        return {"arms": reason} if self.by_arm is None else {}

    def _stages(self) -> Columns:
        running = zip(self._rows(), self.running_loss.tolist(), strict=True)
        return columns_of(
            {"policy": self.policy, **row, "running_loss": loss} for row, loss in running
        )

    def _arms(self) -> Columns:
        assert self.by_arm is not None
        arms, (shortfall, congestion) = len(self.by_arm), self.by_arm.T
        names = {"policy": [self.policy] * arms, "arm": range(arms)}
        return {**names, "shortfall": shortfall, "congestion": congestion}

    def __repr__(self) -> str:
        parts = f"shortfall {self.shortfall:.4f} + congestion {self.congestion:.4f}"
        parts += "" if self.unspent is None else f" + unspent {self.unspent:.4f}"
        return f"Gap({self.policy}: {self.gap:.4f} = {parts}, {self.method})"


@by_segment
@obeys_workers
@tells_progress
def gap(
    problem: Problem,
    policy: Policy | str = DEFAULT_POLICY,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    method: str | None = None,
    draws: int = 1000,
    per_draw: int = 10,
    rng: Rng = 1,
    workers: int | None = None,
    progress: Report | None = None,
) -> Gap:
    """Compute the gap between a policy and the bound of a solution, by stage.

    Parameters
    ----------
    problem, policy, tol, ties
        As in `evaluate`.
    solution : DualSolution, optional
        Any prices are valid; the dual is solved here by default, to `tol`.
    method : {"exact", "simulated"}, optional
        By default exact where that is possible.
    draws, per_draw, rng, workers
        As in `simulate`, if the gap is simulated.
    progress : callable, optional
        Receives the progress of a simulation.

    Returns
    -------
    Gap

    Raises
    ------
    TooLarge
        If `method="exact"` and the policy reaches too many states.
    DecoError, TypeError
        As `evaluate`.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> loss = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> abs(loss.gap - loss.shortfall - loss.congestion) < 1e-9
    True
    """
    problem = check_subject(problem, policy)
    check_method(method)
    seed = seed_of(rng)
    check_sizes(draws, per_draw)
    context = Context(problem, tol=tol, ties=tie_rule(ties), fixed_solution=solution)
    (policy,) = make_policies(context, [policy])
    solution = context.solution
    losses = GapTerms(solution)
    if method != "simulated":
        try:
            return _exact(policy, losses, progress)
        except TooLarge:
            if method == "exact":
                raise
        except ValueError:  # infinitely many states, or arms drawn with unknown probabilities
            if method == "exact" or not (policy.draws_arms or not losses.exact):
                raise
    world = World(problem, draws=draws, per_draw=per_draw, seed=seed)
    return _simulated(policy, losses, world, workers, progress)


def check_method(method: str | None) -> None:
    """Refuse an unknown method."""
    if method not in (None, "exact", "simulated"):
        raise InvalidArgument(
            f"method: {method!r} is not allowed; must be exact or simulated", field="method"
        )


def _exact(policy: Policy, losses: GapTerms, progress: Report | None) -> Gap:
    problem = policy.problem
    arms, by_stage = np.zeros((problem.n_arms, 2)), no_terms(problem)
    pulls = np.zeros((problem.stages, problem.n_arms))  # expected

    def watch(t: int, occupied: list[Occupied]) -> None:
        if t == 0:  # started again, because merged arms had to be separated
            arms[:] = 0.0
        by_stage[t] = 0.0
        for part in occupied:
            terms = _terms(losses.net(t, part.group, part.stats), part.masses)
            arms[part.members] += terms / len(part.members)
            by_stage[t, :2] += terms
        if problem.may_wait:
            pulls[t] = 0.0
            for part in occupied:
                units = float((part.masses @ np.arange(part.masses.shape[1])).sum())
                pulls[t, part.members] += problem.unit * units / len(part.members)
            left = np.array([(problem.budget or 0.0) - np.sum(pulls[:t] * problem.costs[:t])])
            by_stage[t, 2] = float(losses.unspent(t, pulls[t : t + 1], left)[0])

    called = problem.single_binary and not policy.has_table
    limit = MAX_CALLS if called else MAX_STATES
    exact = evaluate(problem, policy, limit_states=limit, progress=progress, watch=watch)
    errors = read_only(np.zeros(by_stage.shape))
    terms = (read_only(by_stage), errors, arms)
    return Gap(exact.policy, losses.value(), exact.value, 0.0, *terms, "exact", {})


def _terms(net: Floats, masses: Floats) -> Floats:
    """Return shortfall, the cost of too many units, and congestion, that of too few, (2,).

    net (states, units + 1): worth of units less their price; masses: expected arms that get them.
    """
    units = masses.shape[1]
    lost = masses * (net.max(axis=1, keepdims=True) - net[:, :units])
    too_many = np.arange(units) > net.argmax(axis=1)[:, None]
    return np.array([lost[too_many].sum(), lost[~too_many].sum()])


def _simulated(
    policy: Policy, gap: GapTerms, world: World, workers: int | None, progress: Report | None
) -> Gap:
    """Simulate the gap; on a grid the terms miss what the grid adds to the bound."""
    check_draws(world.draws)
    turns = [(policy, world.problem.horizon)]
    played = play(turns, world, gap, workers, progress)
    sums = played.gap_terms.sum(axis=0)  # (stages, 2, 2)
    errors = term_errors(sums[..., 0], sums[..., 1], world.draws)
    estimates = estimate(played.sample())
    # the estimate that the terms add up to; `simulate` has more accurate ones
    value = estimates.by_method["gap"] if gap.exact else estimates.best
    terms = (read_only(sums[..., 0] / world.draws), read_only(errors), None)
    settings = {"draws": world.draws, "per_draw": world.per_draw, "seed": world.seed}
    return Gap(policy.name, gap.value(), value.value, value.value_se, *terms, "simulated", settings)


# -- several policies of one problem, each beside what no policy can earn --------------------------
#
# Settings are refused before the long work begins; then the policies are made, all of them, since
# one may refuse the problem. The dual is solved once, and where no policy needs it, only if that is
# quick or asked for (`Context.solution_for`).


@dataclass(frozen=True, repr=False)
class ExactComparison(Tabular):
    """Exact values of policies; a bound where they are over the prior, not at a given truth."""

    problem: Problem
    solution: DualSolution | None
    results: tuple[Evaluation, ...]
    bound: BoundValue | None
    interrupted: bool = False  # only the policies that were finished are there
    left_out: bool = False  # the bound: the dual is expensive and no policy needs it

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a certified gap only where there is a bound."""
        solution = self.solution
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "upper_bound": None if solution is None else solution.upper_bound,
            "interrupted": self.interrupted or (solution is not None and solution.interrupted),
            **({} if self.bound is None else self.bound.to_dict()),
            "policies": _with_gaps([result.to_dict() for result in self.results], self.bound),
        }

    def tables(self) -> Tables:
        """Return the tables `policies`, one row each, and `stages`, expected rewards."""
        return {
            "policies": lambda: columns_of(
                _with_gaps([result.row() for result in self.results], self.bound)
            ),
            "stages": lambda: columns_of(row for result in self.results for row in result.stages()),
        }


@dataclass(frozen=True, repr=False)
class SimulatedComparison(Tabular):
    """Simulated values of policies; a bound where their beliefs are right."""

    simulation: Simulation
    bound: BoundValue | None
    left_out: bool = False  # the bound: the dual is expensive and no policy needs it

    @property
    def interrupted(self) -> bool:
        """Whether policies are missing."""
        return self.simulation.interrupted

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a certified gap only where there is a bound."""
        tree = self.simulation.to_dict()
        if self.bound is not None:
            tree |= self.bound.to_dict()
        return tree | {"results": _with_gaps(tree["results"], self.bound)}

    def tables(self) -> Tables:
        """Return the simulation's tables; `policies` has certified gaps if there is a bound."""
        simulation = self.simulation
        return {
            **simulation.tables(),
            "policies": lambda: simulation.with_settings(self.to_dict()["results"]),
        }

    def absent_tables(self) -> dict[str, str]:
        """Return the tables that the simulation does not have."""
        return self.simulation.absent_tables()


@dataclass(frozen=True)
class ComparedEpisode:
    """Episode, and the expected gap of its policy if requested."""

    episode: Episode
    expected: Gap | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values of the episode, and the expected loss up to each stage."""
        tree, mean = self.episode.to_dict(), self.expected
        if mean is not None:
            tree["expected_running_loss"] = mean.running_loss.tolist()
            tree["expected_method"] = mean.method
        return tree


@by_segment
@tells_progress
def compare_exactly(
    context: Context,
    policies: Sequence[str],
    *,
    truth: Sequence[float] | None = None,
    bound: bool | None = None,
    bound_draws: int | None = None,
    progress: Report | None = None,
) -> ExactComparison:
    """Return the exact value of every policy, over the prior or at given success probabilities.

    bound: whether to solve the dual where no policy needs it; None: where that is quick, or
    `bound_draws` are given. bound_draws: scenarios of the information bound, as in `best_bound`.
    """
    problem = context.problem
    check_bound_draws(bound_draws)
    if truth is not None:
        truth_of(truth, problem)  # refuses what cannot be
    policy_list = make_policies(context, policies)
    results, interrupted = until_interrupted(
        lambda policy: evaluate(problem, policy, truth=truth, progress=progress), policy_list
    )
    best = None
    if not interrupted:  # after the policies: one may reach too many states
        try:
            solution = context.solution_for(_wanted(bound, bound_draws))
            if truth is None and solution is not None:
                best = upper_bounds(problem, solution=solution, draws=bound_draws)[0]
        except KeyboardInterrupt:
            interrupted = True
    solution = context.solution if context.solved else None
    left_out = truth is None and solution is None and bound is None
    return ExactComparison(problem, solution, tuple(results), best, interrupted, left_out)


@by_segment
@tells_progress
def compare_by_simulation(
    context: Context,
    policies: Sequence[str],
    *,
    bound: bool | None = None,
    bound_draws: int | None = None,
    progress: Report | None = None,
    **sampling: Unpack[Sampling],
) -> SimulatedComparison:
    """Return the value of every policy, simulated on the same draws and outcomes; see `simulate`.

    bound, bound_draws: as in `compare_exactly`.
    """
    check_bound_draws(bound_draws)
    sampling["rng"] = seed_of(sampling.get("rng", 1))
    problem = context.problem
    actual, _ = check_sampling(problem, **sampling)
    policy_list = make_policies(context, policies)
    believed = sampling.get("truth") is None and actual == problem
    solution = context.solution_for(_wanted(bound, bound_draws) if believed else False)
    simulation = simulate(
        problem,
        policy_list,
        ties=context.ties,
        solution=solution,
        bound=False,
        progress=progress,
        **sampling,
    )
    if not believed or solution is None:
        return SimulatedComparison(simulation, None, believed and bound is None)
    if simulation.interrupted:
        return SimulatedComparison(simulation, None)
    try:
        best = upper_bounds(problem, solution=solution, draws=bound_draws)[0]
    except KeyboardInterrupt:
        return SimulatedComparison(replace(simulation, interrupted=True), None)
    return SimulatedComparison(simulation, best)


@by_segment
@tells_progress
def compare_gaps(
    context: Context,
    policies: Sequence[str],
    *,
    method: str | None = None,
    progress: Report | None = None,
    **sizes: Unpack[Sizes],
) -> list[Gap]:
    """Return the gap of every policy to the bound of the same prices; see `gap`."""
    problem = context.problem
    check_method(method)
    sizes["rng"] = seed_of(sizes.get("rng", 1))
    check_sampling(problem, **sizes)
    policy_list = make_policies(context, policies)
    solution = context.solution
    return [
        gap(problem, policy, solution=solution, method=method, progress=progress, **sizes)
        for policy in policy_list
    ]


def follow_by_name(
    context: Context,
    policy: str,
    *,
    truth: Given | None = None,
    rng: Rng = 1,
    expected: bool = False,
    progress: Report | None = None,
) -> ComparedEpisode:
    """Play one episode of a policy, as `follow` does; `expected`: with the policy's gap."""
    seed = seed_of(rng)
    if truth is not None:
        truth_of(truth, context.problem)  # refuses what cannot be
    (player,) = make_policies(context, [policy])
    solution = context.solution
    episode = follow(context.problem, player, solution=solution, truth=truth, rng=seed)
    mean = None
    if expected:
        mean = gap(context.problem, player, solution=solution, rng=seed, progress=progress)
    return ComparedEpisode(episode, mean)


def _wanted(bound: bool | None, bound_draws: int | None) -> bool | None:
    """Return whether a bound is wanted: scenarios imply one."""
    return True if bound is None and bound_draws else bound


def _with_gaps(trees: list[dict[str, Any]], bound: BoundValue | None) -> list[dict[str, Any]]:
    if bound is None:
        return trees
    return [tree | {"certified_gap_percent": bound.gap_percent(tree["value"])} for tree in trees]
