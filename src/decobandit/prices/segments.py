"""Segments of visitors: the bound on every policy, the split of money, and the loop over segments.

On its own clock a segment is a problem with a random horizon. The dual of that problem bounds
policies that decide by their own segment only; one that looks at the calendar knows how many
visitors are still to come. For every policy, with N visitors of the segment,

    V <= E[D(N)],   D(n) the dual of n stages,

since a policy that knows N in advance earns at least as much. Between the n whose dual is solved,
D(n) <= D(n0) + (n - n0) E[best mean] for n > n0, and D(n) <= D(n1) - (n1 - n) (best prior mean) for
n < n1: a policy of n stages may go on with one arm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from ..problem import (
    Arm,
    BySegment,
    Problem,
    Reward,
    Segment,
    best_mean_bound,
    visit_probabilities,
)
from ..support import Floats, InvalidArgument, seed_of
from .dual import at_money_price, market_of
from .dual import solve as solve_one
from .search import stretch
from .stage_market import StageMarket

TAIL = 1e-7  # probability of numbers of visitors whose dual is not solved, on either side
MOST_DUALS = 60  # solved for one segment
MOST_STATES = 5e7  # of all of them together, in states of a pass
FEWEST_DUALS = 5
MOST_CALLS = 100  # passes of each
MONEY_ROUNDS = 20  # at a price of money
MONEY_STEPS = 20  # bisections of the common price of money
MIN_BUDGET = 1e-9
OWN_CLOCK = ("lagrangian", "information", "information_se", "joint", "best", "best_is")

Verb = TypeVar("Verb", bound=Callable[..., Any])


# -- one segment ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One segment on its own clock; the price of money is the same in all of them."""

    whole: Problem
    segment: Segment
    problem: Problem
    money_price: float = 0.0

    def own_clock_bound(self, bound: float) -> float:
        """Return the bound of policies that decide by their own segment; bound: without money."""
        return bound if self.whole.budget is None else priced(self.problem, self.money_price)

    def upper_bound(self, bound: float, tol: float = 1e-4) -> float:
        """Return the bound on every policy; bound: that of its own clock."""
        if self.segment.share == 1.0:
            return self.own_clock_bound(bound)
        law = visit_probabilities(
            self.whole.random_horizon or self.whole.horizon, self.segment.share
        )
        numbers, least = np.arange(law.size), np.full(law.size, np.inf)
        low, high = _increments(self.problem)
        for number, value in self._duals(law, tol):
            further = numbers - number
            least = np.minimum(least, value + np.where(further > 0, high, low) * further)
        return float(law @ least)

    def _duals(self, law: Floats, tol: float) -> list[tuple[int, float]]:
        """Return D(n) for some n; with a budget, at the common price of money."""
        charge = self.money_price * (self.problem.budget or 0.0)
        duals, prices = [(0, charge)], np.zeros(0)
        for number in _numbers(law, self.problem):
            fixed = self.problem.model_copy(update={"horizon": number})
            if self.whole.budget is not None:
                duals.append((number, priced(fixed, self.money_price)))
                continue
            start = stretch(prices, prices.size, number) if prices.size else None
            solution = solve_one(fixed, tol=tol, start=start, max_calls=MOST_CALLS)
            prices = solution.prices
            duals.append((number, solution.upper_bound))
        return duals


def _numbers(law: Floats, problem: Problem) -> list[int]:
    """Return numbers of visitors whose dual is solved: all likely ones, or evenly spaced."""
    below = np.cumsum(law)
    first, last = (int(np.searchsorted(below, level)) for level in (TAIL, 1.0 - TAIL))
    first, last = max(first, 1), max(last, 1)
    states = len(problem.groups) * last**3 / 6.0
    most = int(np.clip(MOST_STATES / states, FEWEST_DUALS, MOST_DUALS))
    return sorted({round(x) for x in np.linspace(first, last, min(last - first + 1, most))})


def _increments(problem: Problem) -> tuple[float, float]:
    """Return what one more visitor adds to the optimum: at least and at most."""
    high = best_mean_bound(_one_visitor(problem, max))
    assert high is not None
    if problem.budget is not None:  # visitors need not be served, and money has a price
        return 0.0, high
    single = _one_visitor(problem, min)
    groups = single.arm_groups
    means = [
        g.reward_base[0]
        + g.reward_factor[0] * float(g.model.mean(np.array(g.model.initial(), float)))
        for g in groups
    ]
    return float(sum(sorted(means)[-problem.pulls_per_stage :])), high


def _one_visitor(problem: Problem, end: Callable[..., float]) -> Problem:
    """Return one stage; arms with states of their own always earn their least, or most (`end`)."""
    arms = []
    for k, arm in enumerate(problem.arms):
        group = problem.groups[problem.group_of_arm[k]]
        base, factor = group.played_rewards
        constant = end(base[0] + factor[0] * x for x in group.model.usual)
        changes = {"cost": None, "name": f"arm {k}"}
        arms.append(
            arm.model_copy(update=changes)
            if group.model.has_law
            else Arm(name=f"arm {k}", reward=Reward(good=constant, bad=constant))
        )
    if problem.budget is not None:  # pulls need not be made
        rest = Reward(good=0.0, bad=0.0)
        arms += [Arm(name=f"rest {k}", reward=rest) for k in range(problem.pulls_per_stage)]
    return problem.model_copy(update={"arms": arms, "budget": None, "horizon": 1})


# -- money ----------------------------------------------------------------------------------------


def priced(problem: Problem, price: float) -> float:
    """Return the dual at a price of money."""
    return at_money_price(_market(problem), price, MONEY_ROUNDS)[0]


def _market(problem: Problem) -> StageMarket:
    market = market_of(problem)
    assert isinstance(market, StageMarket)
    return market


def parts_of(problem: Problem) -> list[Part]:
    """Return the segments on their own clocks; each has the money that its visitors are worth.

    That is what the dual of the expected numbers of visitors spends, at one price of money for all
    segments. The price gives a bound for policies that move money between segments, too.
    """
    parts = [Part(problem, one, problem.segment(one.name)) for one in problem.segments]
    if problem.budget is None:
        return parts
    visitors = [max(round(float(part.problem.survival.sum())), 1) for part in parts]
    markets = [
        _market(part.problem.model_copy(update={"horizon": number}))
        for part, number in zip(parts, visitors, strict=True)
    ]

    def spent(price: float) -> Floats:
        return np.array([at_money_price(one, price, MONEY_ROUNDS)[1].sum() for one in markets])

    low, high, more = 0.0, 0.0, spent(0.0)
    less = more
    if more.sum() > problem.budget:
        high = max(market.unit for market in markets) * problem.horizon / problem.budget
        while (less := spent(high)).sum() > problem.budget:
            low, high, more = high, 2.0 * high, less
        for _ in range(MONEY_STEPS):
            middle = 0.5 * (low + high)
            money = spent(middle)
            if money.sum() > problem.budget:
                low, more = middle, money
            else:
                high, less = middle, money
        part_of_more = (problem.budget - less.sum()) / (more.sum() - less.sum())
        less = less + part_of_more * (more - less)  # at the price, spending jumps
    shares = less / less.sum() if less.any() else np.array([x.share for x in problem.segments])
    budgets = np.maximum(problem.budget * shares, MIN_BUDGET)
    return [
        replace(part, problem=part.problem.model_copy(update={"budget": x}), money_price=high)
        for part, x in zip(parts, budgets.tolist(), strict=True)
    ]


# -- the loop -------------------------------------------------------------------------------------


def by_segment(verb: Verb) -> Verb:
    """Let a function of a problem, or of a context, serve segments: `BySegment` of its results.

    Random numbers of segments differ; `truth` may be a mapping by segment.
    """
    kinds = signature(verb).parameters
    draws = "rng" in kinds or any(one.kind is one.VAR_KEYWORD for one in kinds.values())

    @wraps(verb)
    def served(subject: Any, *arguments: Any, **options: Any) -> Any:
        problem = getattr(subject, "problem", subject)
        if not isinstance(problem, Problem) or not problem.segments:
            return verb(subject, *arguments, **options)
        _refuse_given(options)
        results, trees = {}, {}
        for position, part in enumerate(parts_of(problem)):
            alone = part.problem if subject is problem else replace(subject, problem=part.problem)
            name = part.segment.name
            seeded = {"rng": 1, **options} if draws else options
            results[name] = verb(alone, *arguments, **_options(seeded, name, position))
            trees[name] = _tree(part, results[name], options.get("tol", 1e-4))
        return BySegment(problem, results, trees)

    return cast("Verb", served)


solve = by_segment(solve_one)
solve.__module__ = __name__


def _refuse_given(options: dict[str, Any]) -> None:
    for name in ("start", "solution", "true_horizon"):
        if options.get(name) is not None:
            raise InvalidArgument(
                f"{name}: belongs to one problem; take that of a segment, problem.segment(NAME)",
                field=name,
            )


def _options(options: dict[str, Any], name: str, position: int) -> dict[str, Any]:
    """Return the options for a segment: the seed of the first one is as given."""
    changed = dict(options)
    if "rng" in options and position:
        seed = np.random.SeedSequence([seed_of(options["rng"]), position])
        changed["rng"] = int(seed.generate_state(1)[0])
    if isinstance(options.get("truth"), dict):
        if name not in options["truth"]:
            raise InvalidArgument(f"truth: segment {name!r} is missing", field="truth")
        changed["truth"] = options["truth"][name]
    return changed


def _tree(part: Part, result: Any, tol: float) -> dict[str, Any]:
    """Return plain values for a segment, with the bound on every policy as `upper_bound`."""
    if isinstance(result, list):  # gaps of several policies
        trees = [_tree(part, one, tol) for one in result]
        bounds = {key: trees[0][key] for key in ("upper_bound", "own_clock_bound")}
        return {**bounds, "results": trees}
    tree: dict[str, Any] = result.to_dict()
    bound = tree.get("lagrangian", tree.get("upper_bound"))
    if "policies" in tree and "best_bound" not in tree:  # at a truth
        bound = tree["upper_bound"] = None
    if bound is None:
        return tree
    upper, bounds = part.upper_bound(bound, tol), {}
    if "best" in tree:  # all bounds: those of prices and scenarios are for its own clock
        bounds = {key: tree.pop(key) for key in OWN_CLOCK if key in tree}
        trivial = tree.get("trivial")
        upper = upper if trivial is None else min(upper, trivial)
    own = min(upper, part.own_clock_bound(min(bound, tree.get("best_bound", bound))))
    if part.whole.budget is not None:
        tree["budget"] = part.problem.budget
    tree.pop("best_bound_is", None)
    return {
        **tree,
        "upper_bound": upper,
        "own_clock_bound": own,
        **({"best_bound": upper} if "best_bound" in tree else {}),
        **({"gap": upper - tree["value"]} if "gap" in tree else {}),
        **({"own_clock": bounds} if bounds else {}),
    }
