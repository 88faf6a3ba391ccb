"""The market of a solution: pulls sold in order of index, and arms worth the price."""

from collections import defaultdict

import numpy as np
import pytest

from decobandit.prices import demand, solve
from decobandit.prices.demand_by_stage import AT_PRICE
from decobandit.problem import Problem
from helpers.examples import KINDS
from helpers.oracles import good_chance, one_arms, rewards, stage_pulls

TIED = 1e-10


def test_first_stages_of_equal_arms_by_hand() -> None:
    # only arms whose last outcome was good stay above the price at first: 1/2 of the first pull,
    # then half of the new ones and 2/3 of the old ones; fresh arms buy what is left
    market = demand(solve(Problem.uniform(arms=8, horizon=40), tol=1e-5))
    touched = [0.0, 1 / 2, 1 / 2 * 1 / 2 + 1 / 2 * 2 / 3]
    assert market.sold_touched[:3] == pytest.approx(np.array(touched), abs=1e-12)
    assert market.sold_fresh[:3] == pytest.approx(1.0 - np.array(touched), abs=1e-12)
    assert market.above[:3] == pytest.approx(np.array(touched), abs=1e-12)
    assert market.fresh_index[0, :15] == pytest.approx(market.prices[:15], abs=AT_PRICE)


@pytest.mark.parametrize("kind", KINDS)
def test_pulls_are_sold_as_in_a_slow_loop(kind: str) -> None:
    solution = solve(KINDS[kind](6))
    problem, market = solution.problem, demand(solution)
    arms = one_arms(problem, solution.prices)
    mass: dict[tuple[int, int, int], float] = {(a, 0, 0): 1.0 for a in range(len(arms))}
    earned = 0.0
    slack = AT_PRICE * max(abs(price) for price in solution.prices)
    for t, pulls in enumerate(stage_pulls(problem)):
        worth = {(a, n, g): arms[a].index(t, n, g) for a, n, g in mass}
        over = {state: worth[state] - solution.prices[t] for state in mass}
        above = sum(mass[s] for s in mass if over[s] > slack)
        at_price = sum(mass[s] for s in mass if abs(over[s]) <= slack)
        assert market.above[t] == pytest.approx(above, abs=1e-9)
        assert market.at_price[t] == pytest.approx(at_price, abs=1e-9)
        left, sold, after = float(pulls), [0.0, 0.0], defaultdict(float, mass)
        waiting = set(mass)
        while waiting and left > 1e-13:
            best = max(worth[s] for s in waiting)
            tied = {s for s in waiting if worth[s] >= best - TIED}
            part = min(1.0, left / sum(mass[s] for s in tied))
            for a, n, g in tied:
                bought = part * mass[a, n, g]
                p = good_chance(problem.arms[a], n, g)
                after[a, n, g] -= bought
                after[a, n + 1, g + 1] += p * bought
                after[a, n + 1, g] += (1 - p) * bought
                good, bad = rewards(problem, problem.arms[a], t)
                earned += bought * (p * good + (1 - p) * bad)
                sold[n > 0] += bought
            left -= part * sum(mass[s] for s in tied)
            waiting -= tied
        mass = {state: x for state, x in after.items() if x > 1e-15}
        assert [market.sold_fresh[t], market.sold_touched[t]] == pytest.approx(sold, abs=1e-9)
    for (a, n, g), x in mass.items():
        terminal = problem.arms[a].terminal
        earned += 0.0 if terminal is None else x * terminal[n][g]
    assert market.reward == pytest.approx(earned, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_all_pulls_are_sold_and_earn_no_more_than_the_bound(kind: str) -> None:
    solution = solve(KINDS[kind](15))
    market = demand(solution)
    sold = market.sold_fresh + market.sold_touched
    assert sold == pytest.approx(solution.problem.pulls, abs=1e-10)
    assert market.reward <= solution.upper_bound + 1e-9
    assert set(market.to_dict()) >= {"prices", "sold_fresh", "above", "fresh_index"}


def test_prices_that_solve_the_dual_clear_the_market() -> None:
    solution = solve(Problem.uniform(arms=6, horizon=30), tol=1e-7)
    market = demand(solution)
    assert np.all(market.above <= 1.0 + 0.02)
    assert np.all(market.above + market.at_price >= 1.0 - 0.02)
