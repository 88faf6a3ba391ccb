"""One episode with indices and prices: the index of every arm at each stage, and the loss.

Shortfall and congestion are the terms of Theorem 1, as in `gaps.py`, of one episode. In batches,
both are what an arm loses by units too many or too few: max_u Q(u) - u mu_t less the same at the
units that it got. Prices and indices of episodes are those of one pull. Figure 2 of the paper draws
four such episodes; `figures/episodes.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..arm import Cones, OneArmValues
from ..policies import (
    DEFAULT_POLICY,
    Context,
    DecoPolicy,
    Policy,
    check_pulls,
    check_subject,
    make_policies,
)
from ..prices import DualSolution, check_solution, whole_solution
from ..problem import (
    DEFAULT_TIES,
    Given,
    Problem,
    States,
    TieRule,
    arm_position,
    check_problem,
    refuse_features,
    tie_rule,
    truth_of,
)
from ..problem.models.base import Outcome
from ..simulation import CHUNK, GapTerms, World, outcomes_of
from ..support import (
    Card,
    Columns,
    Floats,
    Ints,
    InvalidArgument,
    Report,
    Rng,
    Tables,
    Tabular,
    columns_of,
    obeys_workers,
    refuse_over,
    seed_of,
    tells_progress,
)
from ..support.records import doc, record_class

Arms = tuple[int, ...]  # one entry per pull
Outcomes = tuple[Outcome, ...]
IndexTables = OneArmValues | Cones
Pair = tuple[int | str | None, Outcome | None]  # arm (position or name), outcome (None: deployed)


@record_class(eq=False)
class Episode(Tabular):
    """Stages of one episode that have been played; in a running trial these may be few.

    Tables of `to_frame`: `stages`; `pulls`, whose outcomes `read_outcomes` counts; `arms`, every
    arm at every stage. Arrays (stages, arms) describe the arms before the pulls of a stage.

    Examples
    --------
    >>> from decobandit import Problem, follow
    >>> episode = follow(Problem.uniform(arms=3, horizon=5), "deco", rng=7)
    >>> episode.stages, episode.index.shape
    (5, (5, 3))
    """

    problem: Problem = doc("Problem that was played.")
    policy: str = doc("Name of the policy that pulled.")
    upper_bound: float = doc("Bound on the value of any policy.")
    prices: Floats = doc("(stages,) price of a pull.")
    pulled: tuple[Arms, ...] = doc("Positions of the arms by stage, one for each pull.")
    outcomes: tuple[Outcomes, ...] = doc(
        "Outcomes of these pulls: True is good, others as in logs; empty at a deployment."
    )
    good: Ints = doc("(stages, arms) good outcomes so far; zero for non-binary arms.")
    bad: Ints = doc("(stages, arms) bad outcomes so far; zero for non-binary arms.")
    expected_reward: Floats = doc("(stages, arms) first term of the index.")
    value_of_information: Floats = doc("(stages, arms) second term of the index.")
    shortfall: Floats = doc("(stages,) loss by pulls not worth the price.")
    congestion: Floats = doc("(stages,) loss by arms worth the price that were not pulled.")
    pulls: Ints = doc("(stages, arms) pulls so far.")
    favourable: tuple[tuple[bool, ...], ...] = doc(
        "Whether an outcome was good, or counted at least its expectation."
    )
    seen: tuple[tuple[str, ...], ...] = doc(
        "(stages, arms) observations so far, as states are written; empty if all arms are binary.",
        default=(),
    )
    truth: tuple[float, ...] | None = doc(
        "Success probabilities or true means, if known.", default=None
    )
    seed: int | None = doc("Seed of a simulated episode.", default=None)
    unspent: Floats | None = doc(
        "(stages,) loss by pulls not made, resources not used and, at the end, money left; None "
        "without a budget or resources.",
        default=None,
    )

    @property
    def stages(self) -> int:
        """Stages played, the deployment included."""
        return len(self.pulled)

    @property
    def deployed(self) -> bool:
        """Whether the last stage is the deployment of an arm."""
        return self.stages > self.problem.horizon

    @cached_property
    def index(self) -> Floats:
        """Index of every arm, (stages, arms)."""
        return self.expected_reward + self.value_of_information

    @cached_property
    def was_pulled(self) -> npt.NDArray[np.bool_]:
        """Whether an arm is pulled at a stage, (stages, arms)."""
        marks = np.zeros(self.index.shape, dtype=bool)
        for stage, arms in enumerate(self.pulled):
            marks[stage, list(arms)] = True
        return marks

    @cached_property
    def excess(self) -> Floats:
        """Index minus price, (stages, arms)."""
        return self.index - self.prices[:, None]

    @cached_property
    def running_loss(self) -> Floats:
        """Shortfall, congestion and what is unspent up to and including each stage, (stages,)."""
        unspent = 0.0 if self.unspent is None else self.unspent
        return np.cumsum(self.shortfall + self.congestion + unspent)

    def _named(self, *names: str) -> dict[str, Floats]:
        return {name: getattr(self, name) for name in names}

    @property
    def _losses(self) -> tuple[str, ...]:
        unspent = () if self.unspent is None else ("unspent",)
        return ("shortfall", "congestion", *unspent, "running_loss")

    @property
    def _terms(self) -> tuple[str, ...]:
        counts = ("good", "bad") if self.problem.is_binary else ("pulls",)
        return (*counts, "expected_reward", "value_of_information", "index")

    def _card(self) -> Card:
        pulls, stages = self._pulls(), self._stages()
        costs = ("price", "running_loss")
        at_pulls = {name: [stages[name][t] for t in pulls["stage"]] for name in costs}
        return Card(
            f"Episode of {self.policy}: {self.problem.described()}",
            {"seed": self.seed, "stages played": self.stages},
            {**pulls, **at_pulls},
        )

    def tables(self) -> Tables:
        """Return columns by the name of the table."""
        return {"stages": self._stages, "pulls": self._pulls, "arms": self._arms}

    def _stages(self) -> Columns:
        return {"stage": range(self.stages), "price": self.prices, **self._named(*self._losses)}

    def _pulls(self) -> Columns:
        # outcomes as in files: numbers, or text if some are names; a deployed arm has none
        named = any(isinstance(x, str) for outcomes in self.outcomes for x in outcomes)
        write = str if named else _number
        return columns_of(
            {
                "stage": stage,
                "arm": self.problem.arms[arm].name,
                "outcome": None if outcome is None else write(outcome),
            }
            for stage, pulls in enumerate(zip(self.pulled, self.outcomes, strict=True))
            for arm, outcome in zip_longest(*pulls)
        )

    def _arms(self) -> Columns:
        stages, arms = self.index.shape
        texts = {"seen": [text for row in self.seen for text in row]} if self.seen else {}
        return {
            "stage": np.repeat(np.arange(stages), arms),
            "arm": [arm.name for arm in self.problem.arms] * stages,
            **texts,
            **{name: values.ravel() for name, values in self._named(*self._terms).items()},
            "price": np.repeat(self.prices, arms),
            "pulled": self.was_pulled.ravel(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; arms by name, arrays as lists of one row per stage."""
        names = [arm.name for arm in self.problem.arms]
        arrays = self._named("prices", *self._terms, *self._losses)
        return {
            "policy": self.policy,
            "horizon": self.problem.horizon,
            "arms": names,
            "seed": self.seed,
            "truth": None if self.truth is None else list(self.truth),
            "version": __version__,
            "upper_bound": self.upper_bound,
            "deployed": self.deployed,
            "pulled": [[names[arm] for arm in arms] for arms in self.pulled],
            "outcomes": [[_number(x) for x in outcomes] for outcomes in self.outcomes],
            **({"seen": [list(row) for row in self.seen]} if self.seen else {}),
            **{name: values.tolist() for name, values in arrays.items()},
        }

    def __repr__(self) -> str:
        lost = float(self.running_loss[-1]) if self.stages else 0.0
        size = f"{self.problem.n_arms} arms, {self.stages} stages"
        return f"Episode({self.policy}, {size}: loss {lost:.4f})"


def _number(outcome: Outcome) -> Outcome:
    return int(outcome) if isinstance(outcome, bool) else outcome


@obeys_workers
@tells_progress
def follow(
    problem: Problem,
    policy: Policy | str = DEFAULT_POLICY,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    truth: Given | None = None,
    rng: Rng = 1,
    workers: int | None = None,
    progress: Report | None = None,
) -> Episode:
    """Play one episode, with the index and the price at every stage.

    The episode is the first of `simulate` with the same seed and 128 draws or more: pulls have the
    same outcomes there.

    Parameters
    ----------
    problem, policy, tol, ties
        As in `evaluate`.
    solution : DualSolution, optional
        Prices at which arms are valued; the dual is solved to `tol` by default.
    truth : sequence, optional
        Success probabilities, as in `simulate`; drawn from the prior by default.
    rng : int or numpy.random.Generator, optional
        A seed, or a generator that gives one; `Episode.seed` has it.
    workers : int, optional
        Number of threads; all processors by default.
    progress : callable, optional
        Called with a `Progress` from time to time.

    Returns
    -------
    Episode
        All stages, the deployment included.

    Raises
    ------
    DecoError, TypeError
        As `evaluate`.

    Examples
    --------
    >>> from decobandit import Problem, follow
    >>> follow(Problem.uniform(arms=2, horizon=4), "greedy", truth=[1.0, 0.0]).pulled
    ((0,), (0,), (0,), (0,))
    """
    problem = check_subject(problem, policy)
    if isinstance(policy, Policy) and policy.problem != problem:
        raise InvalidArgument(f"policy {policy.name!r}: made for another problem", field="policy")
    context = Context(problem, tol=tol, ties=tie_rule(ties), fixed_solution=solution)
    (policy,) = make_policies(context, [policy])
    solution = context.solution
    source = _Source(problem, seed_of(rng), None if truth is None else truth_of(truth, problem))

    def decide(stage: int, states: States) -> tuple[Arms, Outcomes]:
        pulls = policy.allocate_many(stage, states.at(stage), source.rng)
        check_pulls(policy.name, problem, stage, pulls)
        arms = tuple(np.repeat(np.arange(problem.n_arms), pulls[0]).tolist())
        return arms, () if stage == problem.horizon else source.outcomes(arms, states, stage)

    relaxation = None  # the tables of DeCo at the same prices are not held twice
    if isinstance(policy, DecoPolicy) and np.array_equal(policy.prices, solution.prices):
        relaxation = policy.relaxation
    return _walk(solution, problem.stages, decide, relaxation, policy.name, source)


def retrace(
    problem: Problem,
    history: Sequence[Pair],
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    policy: str = "observed",
    relaxation: IndexTables | None = None,
) -> Episode:
    """Value the arms at prices along recorded pulls.

    Parameters
    ----------
    problem : Problem
        Problem that was played.
    history : sequence of pairs
        Pulls in their order: the arm, by position or name, and its outcome, 1 or 0, or as in logs;
        a deployment comes last, with outcome None. Pulls of an incomplete stage are left out.
        With a budget or resources (None, None) is a pull that was not made.
    solution : DualSolution, optional
        Prices at which arms are valued; the dual is solved to `tol` by default.
    tol : float
        Relative gap of the prices, if the dual is solved here.
    policy : str
        Name of the policy, for figures.
    relaxation : OneArmValues or Cones, optional
        Tables at the prices of the solution, if they have been computed.

    Returns
    -------
    Episode

    Raises
    ------
    InvalidArgument
        If the pulls cannot be those of the problem.

    Examples
    --------
    >>> from decobandit import Problem, retrace
    >>> episode = retrace(Problem.uniform(arms=2, horizon=4), [("arm-1", 1), ("arm-2", 0)])
    >>> episode.good[1].tolist()
    [1, 0]
    """
    refuse_features(check_problem(problem), "recorded episodes", "is_restless")
    if solution is None:
        solution = whole_solution(problem, tol=tol)
    check_solution(solution, problem)
    models = [group.model for group in problem.arm_groups]
    m, T = problem.pulls_per_stage, problem.horizon
    most = T * m + problem.stages - T
    if len(history) > most:
        raise InvalidArgument(
            f"history: {len(history)} pulls in all; must be at most {most}", field="history"
        )
    positions = [arm_position(problem, arm) if isinstance(arm, str) else arm for arm, _ in history]
    if None in positions and not problem.may_wait:
        rule = "every pull has an arm without a budget or resources"
        raise InvalidArgument(f"history: {rule}", field="history")
    for number, (arm, (_, outcome)) in enumerate(zip(positions, history, strict=True)):
        deployment = number >= T * m
        if arm is None and outcome is None and not deployment:
            continue
        binary = arm is None or not 0 <= arm < problem.n_arms or models[arm].counts_good
        if (outcome is None) != deployment or (binary and outcome not in (None, 0, 1)):
            rule = "must be None: a deployment" if deployment else "must be good or bad: 1 or 0"
            raise InvalidArgument(
                f"history: pull {number + 1} has outcome {outcome!r}; {rule}", field="history"
            )

    def decide(stage: int, states: States) -> tuple[Arms, Outcomes]:
        now = slice(stage * m, stage * m + (m if stage < T else 1))
        arms = tuple(arm for arm in positions[now] if arm is not None)
        if not all(0 <= arm < problem.n_arms for arm in arms):
            raise InvalidArgument(f"stage {stage}: pulls {arms}, not all are arms", field="history")
        check_pulls(policy, problem, stage, np.bincount(arms, minlength=problem.n_arms)[None])
        outcomes = [y for arm, y in history[now] if arm is not None and y is not None]
        return arms, tuple(
            bool(y) if models[arm].counts_good else models[arm].format.plain(y)
            for arm, y in zip(arms, outcomes, strict=bool(outcomes))
        )

    complete = T + (len(history) - T * m) if len(history) > T * m else len(history) // m
    return _walk(solution, complete, decide, relaxation, policy)


class _Source:
    """Outcomes of the first episode of a simulation."""

    def __init__(self, problem: Problem, seed: int, truth: Any) -> None:
        # a whole chunk, though one draw is used: outcomes are drawn after all its parameters
        world = World(problem, draws=CHUNK, per_draw=1, seed=seed, truth=truth, weighted=False)
        chunk = world.chunk(0)
        self.problem, self.rng, self._outcomes = problem, chunk.rng(), outcomes_of(problem, chunk)
        self.seed, means = seed, tuple(chunk.means[0].tolist())
        self.truth = None if np.isnan(means).any() else means

    def first(self, stats: Floats) -> None:
        """Draw first states of arms that move at rest; stats (K, W)."""
        for group, outcomes in zip(self.problem.groups, self._outcomes, strict=True):
            if group.model.restless:
                rows = outcomes.begun(self.problem.horizon)[0]
                stats[list(group.members), : group.model.width] = rows

    def rest(self, stats: Floats, arms: Arms, stage: int) -> None:
        """Move the arms that are not pulled."""
        for group, outcomes in zip(self.problem.groups, self._outcomes, strict=True):
            for member, arm in enumerate(group.members if group.model.restless else ()):
                if arm not in arms:
                    at, row = (np.zeros(1, np.int64), np.array([member])), slice(group.model.width)
                    stats[arm, row] = outcomes.rested(*at, stage, stats[None, arm, row])[0]

    def outcomes(self, arms: Arms, states: States, stage: int) -> Outcomes:
        """Draw the outcomes of pulls of these arms, in their order."""
        stats, pulls, drawn = states.stats[0].copy(), states.pulls[0].copy(), []
        for arm in arms:
            k = int(self.problem.group_of_arm[arm])
            group = self.problem.groups[k]
            model, before = group.model, stats[arm, : group.model.width]
            number = stage if model.restless else pulls[arm]
            member, n = np.array([group.members.index(arm)]), np.array([number])
            outcome = self._outcomes[k].one(np.zeros(1, np.int64), member, n, before[None])[0]
            recorded = model.format.recorded(float(outcome), tuple(before.tolist()))
            drawn.append(bool(outcome) if model.counts_good else recorded)
            stats[arm, : model.width] = model.update(before, np.asarray(outcome))
            pulls[arm] += 1
        return tuple(drawn)


def _walk(
    solution: DualSolution,
    stages: int,
    decide: Callable[[int, States], tuple[Arms, Outcomes]],
    relaxation: IndexTables | None,
    policy: str,
    source: _Source | None = None,
) -> Episode:
    """Go through the stages; decide(stage, states) returns pulls and outcomes.

    source: of what happens at rest, if the episode is simulated.
    """
    problem, K = solution.problem, solution.problem.n_arms
    refuse_over(
        7.0 * 8.0 * stages * K, f"an episode of {K} arms", "use fewer arms or a shorter horizon"
    )
    models = [group.model for group in problem.arm_groups]
    waits, shares = problem.may_wait, problem.most_pulls > problem.horizon
    losses = GapTerms(solution) if shares or waits else None
    tables = losses.tables if losses else relaxation or OneArmValues(problem, solution.prices)
    stats = States.initial(problem, 1).stats[0]
    if source is not None:
        source.first(stats)
    prices = np.array(solution.prices[:stages])
    prices[: problem.horizon] /= problem.unit
    pulled, outcomes, favourable, texts = [], [], [], []
    good, bad, pulls = np.zeros((3, stages, K), dtype=np.int64)
    ell, delta, lost = np.zeros((stages, K)), np.zeros((stages, K)), np.zeros((3, stages))
    spent = 0.0
    for t in range(stages):
        states = States(problem, stats[None].copy(), spent=np.array([spent]))
        state = states.state(0)
        good[t], bad[t], pulls[t] = state.good, state.bad, state.pulls
        keys = list(zip(problem.group_of_arm.tolist(), state.rows, strict=True))
        terms = {key: tables.terms(t, *key) for key in set(keys)}  # equal arms once
        ell[t] = [terms[key].expected_reward for key in keys]
        delta[t] = [terms[key].value_of_information for key in keys]
        if not problem.is_binary:
            texts.append(tuple(str(state).split(",")))
        arms, drawn = decide(t, states)
        counts = np.bincount(arms, minlength=K)
        if losses is not None:
            lost[: 2 + waits, t] = losses.terms(t, states, counts[None])[0]
            spent += float(counts @ problem.costs[t])
        else:
            excess = ell[t] + delta[t] - prices[t]
            lost[:2, t] = np.maximum(-excess, 0.0) @ counts, np.maximum(excess, 0.0) @ (counts == 0)
        if source is not None:
            source.rest(stats, arms, t)
        marks = []
        for arm, outcome in zip(arms, drawn, strict=bool(drawn)):
            model = models[arm]
            before = stats[arm, : model.width].copy()
            number = np.asarray(model.format.read_outcome(outcome, tuple(before.tolist())))
            value = number if model.counts_good else model.value(before, number)
            least = 1.0 if model.counts_good else model.mean(before)
            marks.append(bool(value >= least))  # good, or at least as expected
            stats[arm, : model.width] = model.update(before, number)
        pulled.append(arms)
        outcomes.append(drawn)
        favourable.append(tuple(marks))
    for array in (prices, good, bad, pulls, ell, delta, lost):
        array.flags.writeable = False
    return Episode(
        problem,
        policy,
        solution.upper_bound,
        prices,
        tuple(pulled),
        tuple(outcomes),
        good,
        bad,
        ell,
        delta,
        lost[0],
        lost[1],
        pulls,
        tuple(favourable),
        tuple(texts),
        None if source is None else source.truth,
        None if source is None else source.seed,
        lost[2] if waits else None,
    )
