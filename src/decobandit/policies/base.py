"""The policy protocol: every method that the package calls on a policy, with defaults.

A policy has to say which arms it pulls (`select`). The rest is optional, and each part is used
where a policy has it:

    stage_index     of index policies, index of every state of an arm, as a table: exact evaluation
                    and simulation then run compiled
    play            a compiled loop of its own for simulated episodes
    weigh           what each arm is worth while outcomes are pending, where no arm has an index of
                    its own: trials
    allocate_many   pulls of every arm in many states at once
    probabilities   the share of a stage's pulls that each arm gets on average, likewise: designs,
                    and exact evaluation of a randomised policy

One class serves every outcome model and batch size; `refusal` names what it does not support.

`make` creates the policy for a problem when it is given by name, from a `Context`: problem, tie
rule, and prices, which are solved when needed. To add a policy: docs/adding-a-policy.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..prices import DualSolution, at_canonical_prices, check_solution, is_quick, solve
from ..problem import (
    DEFAULT_TIES,
    Problem,
    Rules,
    State,
    States,
    Stats,
    TieRule,
    check_problem,
)
from ..support import Card, Floats, Ints, InvalidArgument, Once, Shown, Unsupported
from .allocation import (
    Allotments,
    ArmIndex,
    Cost,
    Random,
    Ways,
    Weighed,
    restricted,
    stage_after,
)
from .comparison import Comparison, compare_arms
from .names import POLICIES
from .requirements import NOT_RESTLESS, Requirement

if TYPE_CHECKING:
    from ..arm import Cones
    from .kernels.episodes import Episodes


@dataclass(frozen=True, eq=False)
class Context:
    """Settings of the policies of one problem. The dual is solved once, when a policy asks.

    Parameters
    ----------
    problem : Problem
        Problem that the policies are created for.
    tol : float
        Relative gap of the prices.
    ties : TieRule
        How ties are broken.
    parameters : mapping, optional
        What a tuned policy was tuned to before (`Policy.record`).
    path_states : int, optional
        States that a policy may reach for price paths to be compared exactly; by default the limit
        of `choose_path`.
    solver : callable
        `solver(problem, tol)` solves the dual when it is first needed.
    fixed_solution : DualSolution, optional
        Solution of the dual, if it has been solved already.
    under_rules : bool
        Whether the rules of a design will bind the policy, which may drop arms or delay outcomes.
    play_fixed : bool
        Whether DeCo plays the prices that are given, as on record in a trial, and not the canonical
        ones of the problem.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.policies import Context, DecoPolicy
    >>> context = Context(Problem.uniform(arms=3, horizon=10))
    >>> DecoPolicy.make(context).name, context.solved
    ('deco', True)
    """

    problem: Problem
    tol: float = 1e-4
    ties: TieRule = DEFAULT_TIES
    parameters: Mapping[str, float] | None = None
    path_states: int | None = None
    solver: Callable[[Problem, float], DualSolution] = lambda problem, tol: solve(problem, tol=tol)
    fixed_solution: DualSolution | None = None
    under_rules: bool = False
    play_fixed: bool = False
    _solved: Once[DualSolution] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.fixed_solution is not None:
            check_solution(self.fixed_solution, self.problem)
        object.__setattr__(self, "_solved", Once(self._solve))

    def _solve(self) -> DualSolution:
        if self.fixed_solution is not None:
            return self.fixed_solution
        solution = self.solver(check_problem(self.problem), self.tol)
        if solution.interrupted:  # as in `whole_solution`, for any solver
            raise KeyboardInterrupt
        return solution

    @property
    def solution(self) -> DualSolution:
        """Prices and bounds; the first who asks waits for the search."""
        return self._solved()

    @property
    def played(self) -> DualSolution:
        """Solution at the prices that DeCo uses, which do not depend on the tolerance."""
        as_solved = self.play_fixed or self.problem.may_wait
        return self.solution if as_solved else at_canonical_prices(self.solution)

    def solution_for(self, bound: bool | None = None) -> DualSolution | None:
        """Return the solution for a bound: if it is there, asked for, or by default quick."""
        wanted = is_quick(self.problem) if bound is None else bound
        return self.solution if self.solved or wanted else None

    @property
    def solved(self) -> bool:
        return self.fixed_solution is not None or self._solved.made

    @property
    def interrupted(self) -> bool:
        """Whether the prices that were given are of a search that was stopped before its end."""
        return self.fixed_solution is not None and self.fixed_solution.interrupted


class Policy(Shown, ABC):
    """Base class of all policies: chooses the arms of every stage.

    A new policy derives from `IndexPolicy` and defines `index`, or from this class and
    defines `select`; docs/adding-a-policy.md has examples.

    Attributes
    ----------
    name : str
        Name in tables and files.
    problem : Problem
        Problem that the policy plays.
    ties : TieRule
        How it breaks ties; see `problem.ties`.
    randomised : bool
        Whether it draws arms at random, not only to break ties.
    symmetric : bool
        Whether swapping exchangeable arms swaps its answers; position may only break ties. Exact
        evaluation then merges such arms. Not inherited: every class declares it for itself.
    cost : Cost
        Computing cost, without the prices.
    requires : tuple of callables
        Requirements on the problem, each a sentence or None; see `requirements.py`.

    Examples
    --------
    >>> from decobandit import Policy, Problem, State, evaluate
    >>> class FirstArm(Policy):
    ...     name = "first-arm"
    ...
    ...     def __init__(self, problem):
    ...         self.problem = problem
    ...
    ...     def select(self, stage, state, rng=None):
    ...         return (0,)
    >>> problem = Problem.uniform(arms=3, horizon=10)
    >>> round(evaluate(problem, FirstArm(problem)).value, 6)
    5.0
    """

    name: str = ""
    problem: Problem
    ties: TieRule = DEFAULT_TIES
    randomised: bool = False
    symmetric: bool = False
    cost: Cost = "light"
    requires: ClassVar[tuple[Requirement, ...]] = ()
    most_ways: int = 256  # combinations of pending outcomes that `weigh` averages over, or draws
    splits_index: bool = False  # whether the index is expected reward plus value of information
    at_fixed_prices: bool = False  # whether the index is compared with the prices it is made from
    plans_budget: ClassVar[bool] = False  # whether it keeps to a budget
    plans_resources: ClassVar[bool] = False  # whether it shares out resources
    serves_restless: ClassVar[bool] = False  # arms that also move, or earn, while not pulled
    serves_drift: ClassVar[bool] = False  # those of them whose mean has a law in every state
    is_tuned: ClassVar[bool] = False  # to its problem when it is created, which may be slow
    may_stop: bool = False  # before the horizon, or wait for outcomes: only `designs/` follow that
    selects_only: ClassVar[bool] = False  # whether it answers by its own `select` alone

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "symmetric" not in vars(cls):  # a subclass may answer in another way
            cls.symmetric = False
        if "select" in vars(cls):  # the tables and loops of its base answer in another way too
            cls.selects_only = (
                vars(cls).keys().isdisjoint({"allocate_many", "index", "stage_index"})
            )
            if cls.selects_only and "play" not in vars(cls):
                cls.play = Policy.play  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem.described()})"

    def _card(self) -> Card:
        what = POLICIES[self.name][1] if self.name in POLICIES else None
        facts = {"": what, "ties": self.ties, "draws arms": self.randomised, "cost": self.cost}
        return Card(f"Policy {self.name}: {self.problem.described()}", facts)

    # -- pulls --------------------------------------------------------------------------------

    @abstractmethod
    def select(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        """Return the positions of the arms to pull at `stage`, in batches one for each unit."""

    def choose(self, state: State, *, rng: Random = None) -> tuple[int, ...]:
        """Return the positions of the arms to pull in this state.

        Parameters
        ----------
        state : State
            Outcomes observed so far; the stage follows from it.
        rng : numpy.random.Generator, optional
            For a policy that draws, or breaks ties at random.

        Raises
        ------
        ValueError
            If the state cannot be one of the problem, or nothing is left to pull.
        """
        return self.select(stage_after(state, self.problem), state, rng)

    def allocate(self, state: State, *, rng: Random = None) -> tuple[int, ...]:
        """Return the number of pulls of every arm at the next stage, in this state.

        Parameters
        ----------
        state, rng
            As in `choose`.

        Returns
        -------
        tuple of int
            (arms,): they add up to `pulls_per_stage`, at the deployment to 1.

        Raises
        ------
        ValueError
            If the state cannot be one of the problem, or nothing is left to pull.

        Examples
        --------
        >>> from decobandit import Problem, State, make_policy
        >>> problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=10, repeat=True)
        >>> make_policy(problem, "greedy").allocate(State.parse("2/5,4/5"))
        (0, 10)
        """
        return self.allocation(stage_after(state, self.problem), state, rng)

    def allocation(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        """Return the number of pulls of every arm at a stage, in one state, (arms,)."""
        (pulls,) = self.allocate_many(stage, States.of(self.problem, [state]), rng).tolist()
        return tuple(pulls)

    def allocate_many(self, stage: int, states: States, rng: Random = None) -> Ints:
        """Return the pulls of every arm in many states at once, (E, K); in batches, whole units.

        By default one unit of each arm of `select`, once in equal rows unless it draws. Fewer
        outcomes may be known than the stage implies, where some are pending.
        """
        K = self.problem.n_arms
        drawn = (self.draws_arms and stage < self.problem.horizon) or self.ties == "random"
        shared = self.problem.repeat and stage < self.problem.horizon
        number = self.problem.units if shared else round(self.problem.pulls[stage])
        unit = self.problem.unit if shared else 1

        answers, pulls = dict[bytes, Ints](), np.empty((len(states), K), dtype=np.int64)
        for e, stats in enumerate(states.stats):
            if drawn or stats.tobytes() not in answers:
                arms = self.select(stage, states.state(e), rng)
                possible = len(arms) == number and set(arms) <= set(range(K))
                if not possible or not (shared or len(set(arms)) == number):
                    what = "arms, one for every unit" if shared else "different arms"
                    raise InvalidArgument(
                        f"policy {self.name!r} pulls {arms} at stage {stage}; must be {number} "
                        f"{what}"
                    )
                answers[stats.tobytes()] = unit * np.bincount(arms, minlength=K)
            pulls[e] = answers[stats.tobytes()]
        return pulls

    def allotments(self, stage: int, states: States) -> Allotments:
        """Return rows of `states`, pulls (A, K) and probabilities of all that may be pulled."""
        if not self.draws_arms:
            every = np.arange(len(states))
            return every, self.allocate_many(stage, states), np.ones(len(states))
        if not self.has_probabilities or round(self.problem.pulls[stage]) != 1:
            raise InvalidArgument(
                f"policy {self.name!r} draws pulls, or breaks ties, at random and does not "
                "tell the probabilities: simulate it"
            )
        probabilities = self.probabilities(stage, states)
        rows, arms = np.nonzero(probabilities)
        return rows, np.eye(self.problem.n_arms, dtype=np.int64)[arms], probabilities[rows, arms]

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        """Share of a stage's pulls that each arm gets on average, (E, K); rows sum to 1.

        With one pull per stage these are allocation probabilities. Only arms that `states` allows
        get any; policies average over pending outcomes if they can. A policy that draws without
        known probabilities needs `rng`, and returns the shares that it drew.
        """
        pulls = self.allocate_many(stage, states, rng)
        return restricted(pulls / pulls.sum(axis=1, keepdims=True), states.allowed)

    def posteriors_by(self, rules: Rules) -> Comparison:
        """Posterior probabilities used at interim looks, by margin and comparison of the rules."""
        return compare_arms(self.problem, rules.margin, rewards=rules.compare == "reward")

    # -- how it is made -----------------------------------------------------------------------

    @classmethod
    def make(cls, context: Context) -> Policy:
        """Make the policy for a problem; `context` has the tie rule and the prices."""
        return cls(context.problem)  # type: ignore[call-arg]

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Return why the policy does not serve a problem, in one sentence; None if it does."""
        reason = next(filter(None, (requirement(problem) for requirement in cls.requires)), None)
        drifts = cls.serves_drift and all(group.model.has_law for group in problem.groups)
        if problem.is_restless and not (cls.serves_restless or drifts):
            reason = NOT_RESTLESS
        if problem.resources is not None and not cls.plans_resources:
            reason = "does not share out resources; use 'deco' or 'greedy'"
        if problem.budget is not None and not cls.plans_budget:
            reason = "does not keep to a budget; use 'deco' or 'greedy'"
        return None if reason is None else f"policy {cls.name!r} {reason}"

    @classmethod
    def check_serves(cls, problem: Problem) -> None:
        if (reason := cls.refusal(problem)) is not None:
            raise Unsupported(reason, field="policy")

    @classmethod
    def successor(cls, context: Context, planned: int) -> Policy:
        """Return the policy after `planned` stages: by default that for the true horizon."""
        return cls.make(context)

    def record(self) -> Mapping[str, float] | None:
        """Return tuned parameters, which `make` takes as `context.parameters`."""
        return None

    def live(self, cones: Cones) -> Policy:
        """Return the policy that decides in a live trial; `cones`: tables at its prices."""
        return self

    def has_tables(self, stage: int) -> bool:
        """Whether the tables for a decision at a stage are computed; most policies have none."""
        return True

    def refuse_large(self) -> None:  # most have none
        """Raise TooLarge before any table is computed if the tables do not fit in memory."""

    # -- tables, loops, probabilities ---------------------------------------------------------

    @property
    def has_table(self) -> bool:
        """Whether the policy has `stage_index`: the index depends on the arm's state alone."""
        return False

    @property
    def has_own_index(self) -> bool:
        """Whether the index of an arm depends on its own state alone (`indices_of`)."""
        return False

    def stage_index(self, stage: int) -> Floats:
        """Index of every state of every group at a stage, (groups, slab). Read-only."""
        raise NotImplementedError(f"policy {self.name!r} has no table of indices")

    def is_steady(self, first: int, last: int) -> bool:
        """Whether a state has the same index at stages first..last-1: one table serves them all."""
        return False

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        raise NotImplementedError(f"policy {self.name!r} has no loop of its own")

    @property
    def has_loop(self) -> bool:
        """Whether the policy defines `play`."""
        return type(self).play is not Policy.play

    @property
    def has_probabilities(self) -> bool:
        """Whether `allotments` has all that may be pulled, with probabilities: for exact values."""
        listed = type(self).allotments is not Policy.allotments
        return not self.draws_arms or self.is_vectorised or listed

    @property
    def is_vectorised(self) -> bool:
        """Whether `probabilities` handles all states at once, without a call per state."""
        return type(self).probabilities is not Policy.probabilities

    @property
    def draws_arms(self) -> bool:
        """Whether the policy chooses at random, if only between tied arms."""
        return self.randomised or self.ties == "random"

    # -- numbers of single arms ---------------------------------------------------------------

    def indices_of(self, stage: int, arm: int, stats: Floats) -> Floats:
        """Return the index of an arm by its own statistics alone: (J, width) -> (J,)."""
        raise self.no_index()

    def arm_index(self, stage: int, group: int, stats: Stats) -> ArmIndex:
        """Return the index of an arm of a group by its statistics, split into its terms."""
        raise self.no_index()

    def indices(self, stage: int, state: State) -> Floats | None:
        """Return the index of every arm, (arms,); None if the policy has no index."""
        return None

    def price(self, stage: int) -> float | None:
        """Return the price of a pull that the index is compared with; None if there is none."""
        return None

    def weigh(self, stage: int, ways: Ways, taken: tuple[int, ...]) -> Weighed | None:
        """Return the value of each arm over the possible states; None: draw the state, and ask."""
        return None

    def no_generator(self) -> InvalidArgument:
        return InvalidArgument(
            f"policy {self.name!r} draws arms: pass a random generator as rng", field="rng"
        )

    def no_index(self) -> InvalidArgument:
        return InvalidArgument(
            f"policy {self.name!r} has no index of a single arm: it looks at all of them"
        )
