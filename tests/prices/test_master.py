"""The master problem: mixtures computed by hand."""

import numpy as np
import pytest
from scipy.optimize import linprog

from decobandit.prices import search as module
from decobandit.prices.search import FEWEST_DROPPED, UNUSED_SOLVES, Master

TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")


def master(pulls: list[float], *flows: tuple[list[float], list[list[float]]]) -> Master:
    """With the given flows: reward of each group, pulls spent by each group at each stage."""
    made = Master(np.array(pulls), len(flows[0][0]), largest_price=10.0)
    for reward, spent in flows:
        made.add(np.array(reward), np.array(spent))
    return made


def test_two_policies_are_mixed_until_the_pulls_are_spent() -> None:
    """Nothing for nothing, or 3 for two pulls: half of each spends one, at a price of 3/2."""
    mixture = master([1.0], ([0.0], [[0.0]]), ([3.0], [[2.0]])).solve()
    assert mixture is not None
    assert mixture.bound == pytest.approx(1.5, rel=1e-12)
    assert mixture.prices == pytest.approx([1.5], rel=1e-12)


def test_the_group_that_earns_more_per_pull_gets_the_pull() -> None:
    """Group 1 earns 2 for a pull, group 2 only 1: the price is between the two."""
    mixture = master([1.0], ([0.0, 0.0], [[0.0], [0.0]]), ([2.0, 1.0], [[1.0], [1.0]])).solve()
    assert mixture is not None
    assert mixture.bound == pytest.approx(2.0, rel=1e-12)
    assert 1.0 - 1e-9 <= mixture.prices[0] <= 2.0 + 1e-9


def test_better_flows_raise_the_bound() -> None:
    made = master([1.0, 1.0], ([1.0], [[1.0, 1.0]]))
    first = made.solve()
    made.add(np.array([4.0]), np.array([[2.0, 0.0]]))
    made.add(np.array([0.0]), np.array([[0.0, 2.0]]))
    second = made.solve()
    assert first is not None
    assert second is not None
    assert first.bound == pytest.approx(1.0, rel=1e-12)
    assert second.bound == pytest.approx(2.0, rel=1e-12)  # half of each of the two new ones


def random_flows(seed: int, groups: int, stages: int, count: int) -> list[tuple[np.ndarray, ...]]:  # type: ignore[type-arg]
    """Some that spend one pull per stage in all, and many that do not."""
    rng = np.random.default_rng(seed)
    even = np.full((groups, stages), 1.0 / groups)
    flows = [(rng.uniform(0.0, 0.1, groups), even)]
    for _ in range(count):
        spent = rng.uniform(0.0, 2.0 / groups, (groups, stages))
        flows.append((spent.sum(axis=1) * rng.uniform(0.2, 1.0, groups), spent))
    return flows


def by_linprog(flows: list[tuple[np.ndarray, ...]], stages: int) -> float:  # type: ignore[type-arg]
    """The best mixture of all flows, as one program."""
    groups = len(flows[0][0])
    gain = np.concatenate([reward for reward, _ in flows])
    spent = np.concatenate([spent for _, spent in flows]).T
    own = np.tile(np.eye(groups), len(flows))
    right = np.ones(stages + groups)
    return -float(linprog(-gain, A_eq=np.vstack([spent, own]), b_eq=right).fun)


def test_the_mixture_is_the_best_one_in_runs_of_any_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A solver that is stopped again and again goes on from where it was."""
    flows, wanted = random_flows(3, 4, 12, 60), []
    for seconds in (0.5, 1e-4):
        monkeypatch.setattr(module, "LONGEST_RUN", seconds)
        made = Master(np.ones(12), 4, largest_price=10.0)
        for flow in flows:
            made.add(*flow)
        mixture = made.solve()
        assert mixture is not None
        wanted.append(mixture.bound)
    assert wanted == pytest.approx([by_linprog(flows, 12)] * 2, rel=1e-8)


def test_columns_that_are_of_no_use_are_dropped_and_the_bound_stays() -> None:
    flows = random_flows(4, 4, 12, 60)
    made = Master(np.ones(12), 4, largest_price=10.0)
    for flow in flows:
        made.add(*flow)
    bounds = []
    for _ in range(UNUSED_SOLVES + 2):
        mixture = made.solve()
        assert mixture is not None
        bounds.append(mixture.bound)
    assert made.columns <= 4 * 61 - FEWEST_DROPPED
    assert bounds == pytest.approx([by_linprog(flows, 12)] * len(bounds), rel=1e-8)


def test_without_a_feasible_mixture_there_is_no_bound() -> None:
    assert master([1.0], ([5.0], [[0.25]]), ([7.0], [[0.5]])).solve() is None


def test_pulls_that_are_missed_are_paid_for() -> None:
    """Rounding of 1e-11 in what is spent costs as much at the largest price, 10."""
    mixture = master([1.0], ([2.0], [[1.0 - 1e-11]])).solve()
    assert mixture is not None
    assert mixture.bound == pytest.approx(2.0 - 1e-10, abs=1e-12)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_solver_that_fails_is_tried_in_other_ways(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    made = master([1.0], ([0.0], [[0.0]]), ([3.0], [[2.0]]))
    solved, tried = Master._solved, []

    def some(self: Master, attempt: int) -> bool:
        done = solved(self, attempt)
        options = [self._lp.getOptionValue(name)[1] for name in ("presolve", TOLERANCES[0])]
        tried.append(options)
        return done and len(tried) > failures

    monkeypatch.setattr(Master, "_solved", some)
    mixture = made.solve()
    monkeypatch.setattr(Master, "_solved", solved)
    assert mixture is not None
    assert mixture.bound == pytest.approx(1.5, rel=1e-12)
    ways = [["off", 1e-10], ["off", 1e-10], ["choose", 1e-10], ["off", 1e-9]]
    assert tried == [[presolve, pytest.approx(tol)] for presolve, tol in ways[: failures + 1]]
    made.solve()  # the next round begins as usual
    now = [made._lp.getOptionValue(name)[1] for name in ("presolve", *TOLERANCES)]
    assert now == ["off", 1e-10, 1e-10]
