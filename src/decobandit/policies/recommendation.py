"""The next arm, with the reason: every arm's posterior, expected reward and index.

The index of one arm in one state, whatever the others have shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..prices import DualSolution
from ..problem import (
    DEFAULT_TIES,
    Group,
    Problem,
    State,
    States,
    Stats,
    TieRule,
    arm_position,
    check_problem,
    check_stats,
    tie_rule,
)
from ..support import (
    Card,
    InvalidArgument,
    Rng,
    Tables,
    Tabular,
    columns_of,
    generator_of,
)
from ..support.records import doc, record_class
from .allocation import ArmIndex, stage_after
from .base import Context, Policy
from .catalogue import make_policies
from .names import DEFAULT_POLICY


@dataclass(frozen=True)
class ArmReport:
    """One arm at the moment of the decision. Posterior: Beta(posterior_good, posterior_bad).

    Parts that a policy does not have are None: only DeCo's index splits into expected reward and
    value of information, only policies that draw have a probability.
    """

    name: str
    good: int | None  # of good and bad outcomes; else None, and `seen` and `posterior` are text
    bad: int | None
    posterior_good: float | None
    posterior_bad: float | None
    expected_reward: float
    value_of_information: float | None
    index: float | None
    probability: float | None = None
    pulls: int | None = None  # to make now, where the pulls of a stage are shared among arms
    share: float | None = None  # of the pulls of the stage
    seen: str | None = None  # what was observed, as states are written
    posterior: str | None = None  # what is known now

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the probability, pulls and share only where there are."""
        return {"name": self.name, **self.facts()}

    def facts(self) -> dict[str, Any]:
        rare = {"probability", "pulls", "share", "seen", "posterior"}
        if self.posterior is not None:
            rare |= {"good", "bad", "posterior_good", "posterior_bad"}
        fields = {k: v for k, v in vars(self).items() if k != "name"}
        return {k: v for k, v in fields.items() if k not in rare or v is not None}


@record_class()
class Recommendation(Tabular):
    """The arms to pull now, and what speaks for each arm.

    The table of `to_frame` is `arms`, a frame of the kind that the outcomes were read from.

    Examples
    --------
    >>> from decobandit import Problem, recommend
    >>> result = recommend(Problem.uniform(arms=2, horizon=5), "1/1,0/1", "greedy")
    >>> result.stage, result.chosen, round(result.arms[0].expected_reward, 4)
    (2, ('arm-1',), 0.6667)
    """

    policy: str = doc("Name of the policy that decided.")
    chosen: tuple[str, ...] = doc(
        "Names of the arms to pull, the largest index first; in batches, the most pulls first."
    )
    stage: int = doc("The stage that is decided.")
    price: float | None = doc(
        "Price of a pull that the index is compared with, where the policy has one."
    )
    arms: tuple[ArmReport, ...] = doc("Posterior, expected reward and index of every arm.")
    deploy: bool = doc("The stages are over: this is the arm to keep.", default=False)
    pulls: tuple[int, ...] | None = doc(
        "(arms,) pulls of each arm, where the pulls of a stage are shared among arms.",
        default=None,
    )
    state: State | None = field(default=None, repr=False)  # that was decided in

    @property
    def frame_kind(self) -> str:
        return (self.state and self.state.frame_kind) or super().frame_kind

    def __repr__(self) -> str:
        return f"Recommendation({self.policy}, stage {self.stage}: {', '.join(self.chosen)})"

    def _card(self) -> Card:
        every = self.tables()["arms"]()
        return Card(
            f"{'Deploy' if self.deploy else 'Pull'} {', '.join(self.chosen)}",
            {"policy": self.policy, "stage": self.stage, "price": self.price},
            {name: column for name, column in every.items() if any(x is not None for x in column)},
        )

    def tables(self) -> Tables:
        return {
            "arms": lambda: columns_of(
                {"arm": arm.name, "chosen": arm.name in self.chosen, **arm.facts()}
                for arm in self.arms
            )
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco recommend --json` prints them."""
        shared = {} if self.pulls is None else {"pulls": list(self.pulls)}
        return {
            "policy": self.policy,
            "arm": self.chosen[0] if self.chosen else None,
            "chosen": list(self.chosen),
            "stage": self.stage,
            "price": self.price,
            "deploy": self.deploy,
            **shared,
            "arms": [arm.to_dict() for arm in self.arms],
        }


def recommend(
    problem: Problem,
    state: State | str,
    policy: str | Policy = DEFAULT_POLICY,
    *,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    solution: DualSolution | None = None,
    rng: Rng = None,
) -> Recommendation:
    """Recommend the next arm, with the index and posterior of every arm.

    Parameters
    ----------
    problem : Problem
        Arms and number of stages.
    state : State or str
        Outcomes so far, good/pulls of every arm: "3/5,2/2,0/0". The stage follows from it.
    policy : str or Policy
        The policy that decides, by name or made for this problem.
    tol, ties, solution
        As in `make_policy`.
    rng : int or numpy.random.Generator, optional
        A seed or a generator, for a policy that draws or breaks ties at random.

    Returns
    -------
    Recommendation

    Raises
    ------
    ValueError
        If the state cannot be one of the problem, or all stages have been played.
    TypeError
        If an argument is of another type than listed here.

    Examples
    --------
    >>> from decobandit import Problem, recommend
    >>> problem = Problem.uniform(arms=3, horizon=20)
    >>> recommend(problem, "3/5,2/2,0/0", "greedy").chosen
    ('arm-2',)
    """
    check_problem(problem)
    context = Context(problem, tol=tol, ties=tie_rule(ties), fixed_solution=solution)
    (recommendation,) = recommend_each(context, [policy], state, rng=rng)
    return recommendation


def recommend_each(
    context: Context,
    policies: Sequence[str | Policy],
    state: State | str,
    *,
    rng: Rng = None,
) -> list[Recommendation]:
    """Recommend by each of several policies; the state is checked before any is made."""
    problem = context.problem
    if isinstance(state, str):
        try:
            state = State.parse(state, problem)
        except ValueError as error:
            raise InvalidArgument(f"state: {error}", field="state") from None
    stage = stage_after(state, problem)
    return [_decided(policy, stage, state, rng) for policy in make_policies(context, policies)]


def _decided(policy: Policy, stage: int, state: State, rng: Rng) -> Recommendation:
    problem, price, states = policy.problem, policy.price(stage), States.of(policy.problem, [state])
    played = float(problem.survival[stage])  # numbers are those of a stage that is
    pulls: tuple[int, ...] | None = None
    if problem.repeat:
        pulls = policy.allocation(stage, state, generator_of(rng))
        order = np.argsort(-np.array(pulls), kind="stable").tolist()
        chosen = [arm for arm in order if pulls[arm]]
    else:
        chosen = list(policy.select(stage, state, generator_of(rng)))
    indices = None if policy.randomised else policy.indices(stage, state)
    drawn = policy.randomised and policy.has_probabilities
    probabilities = policy.probabilities(stage, states)[0] if drawn else None
    able, reports = problem.available_at(stage), list[ArmReport]()
    for k, (arm, group) in enumerate(zip(problem.arms, problem.arm_groups, strict=True)):
        base, factor = (float(rewards[stage]) for rewards in group.played_rewards)
        reward = base + factor * float(group.model.mean(states.stats[0, k, : group.model.width]))
        index = None if indices is None or not able[k] else float(indices[k]) / played
        information = None if index is None or not policy.splits_index else index - reward
        reports.append(
            ArmReport(
                name=arm.name,
                **known_of_arm(problem, state, k),
                expected_reward=reward,
                value_of_information=information,
                index=index,
                probability=None if probabilities is None else float(probabilities[k]),
                pulls=None if pulls is None else pulls[k],
                share=None if pulls is None else pulls[k] / sum(pulls),
            )
        )
    return Recommendation(
        policy=policy.name,
        chosen=tuple(problem.arms[arm].name for arm in chosen),
        stage=stage,
        price=None if price is None else price / played,
        arms=tuple(reports),
        deploy=stage == problem.horizon,
        pulls=pulls,
        state=state,
    )


def known_of_arm(problem: Problem, state: State, k: int) -> dict[str, Any]:
    """Return counts and posterior of an arm."""
    model, row = problem.arm_groups[k].model, state.rows[k]
    if not model.counts_good:
        none = dict.fromkeys(("good", "bad", "posterior_good", "posterior_bad"))
        format = model.format
        return {**none, "seen": format.write(row), "posterior": format.describe(row)}
    (good, bad), prior = row, problem.arms[k].beta
    return {
        "good": good,
        "bad": bad,
        "posterior_good": prior.good + good,
        "posterior_bad": prior.bad + bad,
    }


def indices_of_arm(
    context: Context,
    policies: Sequence[str],
    arm: str | None = None,
    *,
    stage: int = 0,
    good: int = 0,
    bad: int = 0,
    state: str | None = None,
) -> list[ArmIndex]:
    """Return the index of an arm to full precision by each policy; of the first arm by default."""
    problem = context.problem
    position = arm_position(problem, arm)
    group = int(problem.group_of_arm[position])
    arms = problem.groups[group]
    stats = _stats(arms, stage, good, bad, state)
    check_stats(problem, stage, arms, stats)
    where: dict[str, Any] = {"arm": problem.arms[position].name, "stage": stage}
    if arms.model.counts_good:
        where |= {"good": int(stats[0]), "bad": int(stats[1])}
    where["state"] = arms.model.format.write(stats)
    return [
        replace(policy.arm_index(stage, group, stats), policy=policy.name, **where)
        for policy in make_policies(context, policies)
    ]


def _stats(group: Group, stage: int, good: int, bad: int, state: str | None) -> Stats:
    if state is not None:
        if good or bad:
            raise InvalidArgument(
                "state: give it, or good and bad outcomes, not both", field="state"
            )
        try:
            return group.model.format.read(state)
        except ValueError as error:
            raise InvalidArgument(f"state: {error}", field="state") from None
    if group.model.counts_good:
        return (good, bad)
    if good or bad:
        raise InvalidArgument(
            f"good, bad: {group.model.word} arms have other outcomes; give the state, for example "
            f"{group.model.format.write(group.model.initial())}"
        )
    return group.model.initial()
