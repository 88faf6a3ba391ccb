"""Operating characteristics: brute force, simulation against exact values, published numbers."""

from functools import lru_cache
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from decobandit import Design, Problem, make_policy, operating_characteristics
from decobandit.designs import Characteristics
from decobandit.designs.final_tests import fisher_p_values
from decobandit.problem import States
from helpers.best_of_betas import best_probabilities

TWO = Problem.uniform(arms=2, horizon=12)


def run(problem: Problem, **settings: object) -> list[list[Characteristics]]:
    extra = {key: settings.pop(key) for key in ("exact", "ties", "calibrate_to") if key in settings}
    found = operating_characteristics(problem, Design(**settings), **extra)  # type: ignore[arg-type]
    return [list(scenario.policies) for scenario in found.scenarios]


def scenario(*truth: float) -> dict[str, object]:
    return {"name": ", ".join(map(str, truth)), "truth": truth}


def better(good: list[int], pulls: list[int]) -> float:
    """P(second arm better than the first), uniform priors."""
    return _better(*good, *pulls)


@lru_cache
def _better(g: int, h: int, n: int, k: int) -> float:
    a, b = np.array([g, h]) + 1.0, np.array([n - g, k - h]) + 1.0
    return float(best_probabilities(a, b, np.zeros(2), np.ones(2))[1])


def brute_force(truth: tuple[float, float], horizon: int, floor: float) -> dict[str, float]:
    """Greedy with burn-in 2, floor, looks at 6 and 9 and a threshold of 0.9: all sequences."""
    total = dict.fromkeys(["good", "reject", "size", "pulls", "stopped"], 0.0)

    def end(w: float, pulls: list[int], good: list[int], declared: bool) -> None:
        total["good"] += w * sum(good)
        total["size"] += w * sum(pulls)
        total["pulls"] += w * pulls[1]
        total["reject"] += w * declared
        total["stopped"] += w * (sum(pulls) < horizon)

    def go(w: float, pulls: list[int], good: list[int]) -> None:
        t = sum(pulls)
        if t in (6, 9, 12) and better(good, pulls) >= 0.9:
            return end(w, pulls, good, True)
        if t == horizon:
            return end(w, pulls, good, better(good, pulls) >= 0.8)
        if min(pulls) < 2:
            chances = [float(n == min(pulls)) / pulls.count(min(pulls)) for n in pulls]
        else:
            mean = [(g + 1) / (n + 2) for g, n in zip(good, pulls, strict=True)]
            if abs(mean[0] - mean[1]) < 1e-12:
                first = 0 if pulls[0] <= pulls[1] else 1
            else:
                first = int(mean[1] > mean[0])
            chances = [floor, floor]
            chances[first] = 1.0 - floor
        for arm, x in product(range(2), range(2)):
            likely = chances[arm] * (truth[arm] if x else 1.0 - truth[arm])
            if likely > 0.0:
                n, g = pulls.copy(), good.copy()
                n[arm] += 1
                g[arm] += x
                go(w * likely, n, g)

    go(1.0, [0, 0], [0, 0])
    return total


def test_rules_looks_and_test_come_to_what_all_sequences_come_to() -> None:
    horizon, truth = 10, (0.3, 0.6)
    ((found,),) = run(
        Problem.uniform(arms=2, horizon=horizon),
        policies=["greedy"],
        control="arm-1",
        burn_in=2,
        floor=0.1,
        looks={"first": 6, "every": 3},
        stop={"superiority": 0.9},
        test={"threshold": 0.8},
        scenarios=[scenario(*truth)],
    )
    expected = brute_force(truth, horizon, 0.1)
    assert found.exact
    assert found.good == pytest.approx(expected["good"], abs=1e-9)
    assert found.size == pytest.approx(expected["size"], abs=1e-9)
    assert found.pulls[1] == pytest.approx(expected["pulls"], abs=1e-9)
    assert found.reject == pytest.approx(expected["reject"], abs=1e-9)
    assert found.reject_by_arm == pytest.approx((0.0, expected["reject"]))
    assert found.stopped == pytest.approx(expected["stopped"], abs=1e-9)


def test_a_best_and_a_wrong_arm_are_declared_as_often_as_all_outcomes_say() -> None:
    # three arms in turn, 3 pulls each: every table of good outcomes, both with control and without
    truth, pulls, level = (0.3, 0.8, 0.5), 3, 0.8
    problem, sizes = Problem.uniform(arms=3, horizon=3 * pulls), list(product(range(4), repeat=3))
    for control, right in (("arm-1", {1, 2}), (None, {1})):
        ((found,),) = run(
            problem,
            policies=["equal"],
            control=control,
            test={"threshold": level},
            scenarios=[scenario(*truth)],
        )
        expected = np.zeros((4, 3))  # some, a best, a wrong arm; then by arm
        for good in sizes:
            p = np.prod([binom.pmf(g, pulls, q) for g, q in zip(good, truth, strict=True)])
            a, b = np.array(good) + 1.0, pulls - np.array(good) + 1.0
            if control is None:
                best = best_probabilities(a, b, np.zeros(3), np.ones(3))
                declared = {k for k in range(3) if best[k] >= level - 1e-9}
            else:
                others = [_better(good[0], good[k], pulls, pulls) for k in (1, 2)]
                declared = {k for k in (1, 2) if others[k - 1] >= level - 1e-9}
            events = (bool(declared), 1 in declared, bool(declared - right))
            expected[:3, 0] += p * np.array(events)
            expected[3, list(declared)] += p
        assert found.exact
        assert (found.reject, found.reject_best, found.reject_wrong) == pytest.approx(
            tuple(expected[:3, 0]), abs=1e-12
        )
        assert found.reject_by_arm == pytest.approx(tuple(expected[3]), abs=1e-12)
        assert found.reject_best_by_arm[1] == pytest.approx(expected[3, 1], abs=1e-12)
        assert [k for k, p in enumerate(found.reject_best_by_arm) if p is not None] == [1]
        wrong = {k for k, p in enumerate(found.reject_wrong_by_arm) if p is not None}
        assert wrong == {0, 1, 2} - right - ({0} if control else set())


def test_every_rejection_is_wrong_where_no_arm_is_better() -> None:
    ((found,),) = run(TWO, policies=["equal"], scenarios=[scenario(0.4, 0.4)])
    assert found.reject_best is None
    assert found.reject_wrong == found.reject > 0.0


SETTINGS: list[dict[str, object]] = [
    {"policies": ["thompson"], "floor": 0.2, "burn_in": 1},
    {"policies": ["greedy"], "control": "arm-1", "control_share": 0.3, "floor": 0.05},
    {
        "policies": ["equal"],
        "looks": {"first": 6, "every": 2},
        "stop": {"superiority": 0.95, "inferiority": 0.1},
    },
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("truth", [(0.2, 0.6), (0.2, 0.6, 0.4)])
def test_simulated_numbers_are_within_their_errors_of_the_exact_ones(
    settings: dict[str, object], truth: tuple[float, ...]
) -> None:
    problem = Problem.uniform(arms=len(truth), horizon=12)
    common = settings | {"scenarios": [scenario(*truth)], "draws": 20_000, "test": {}}
    ((exact,),), ((drawn,),) = run(problem, **common), run(problem, exact=False, **common)
    assert exact.exact
    assert not drawn.exact
    assert drawn.errors is not None
    for name, error in drawn.errors.items():
        values = (getattr(drawn, name), getattr(exact, name), error)
        seen, true, apart = (np.array(value, dtype=float) for value in values)  # None: nan
        assert np.array_equal(np.isnan(seen), np.isnan(true)), name
        assert not np.any(np.abs(seen - true) > 4.5 * apart + 1e-12), name
    assert drawn.good_sd == pytest.approx(exact.good_sd, rel=0.03)
    assert drawn.pulls_sd == pytest.approx(exact.pulls_sd, rel=0.05)


@pytest.mark.parametrize(("block", "share"), [(None, 1.0), (2, 0.75), (4, 17.0 / 24.0)])
@pytest.mark.parametrize("exact", [True, False])
def test_blocks_are_guessed_as_often_as_their_orders_say(
    block: int | None, share: float, exact: bool
) -> None:
    # by hand: of four in random order 1/2, 2/3, then 1/2 (if one of each has come) or 1, then 1
    ((found,),) = run(
        TWO,
        policies=["equal"],
        block=block,
        scenarios=[scenario(0.3, 0.6)],
        draws=4000,
        exact=exact,
    )
    assert found.predictability == pytest.approx(share, abs=1e-9 if exact else 0.02)
    assert found.pulls == pytest.approx((6.0, 6.0))


def test_randomising_evenly_is_a_floor_of_a_half() -> None:
    # Villar, Bowden, Wason 2015: equal allocation, T = 148: 59.2 good outcomes, sd 5.96
    ((found,),) = run(
        Problem.uniform(arms=2, horizon=148),
        policies=["equal"],
        floor=0.5,
        scenarios=[scenario(0.3, 0.5)],
    )
    assert found.good == pytest.approx(59.2, abs=1e-9)
    assert found.good_sd == pytest.approx((148 * 0.4 * 0.6) ** 0.5, abs=1e-9)
    assert found.pulls_sd == pytest.approx((37**0.5, 37**0.5), abs=1e-9)


def gittins_index(n: int, left: int) -> np.ndarray:
    """Exact indices of g = 0..n good of n pulls, `left` pulls to go: Newton's steps from below.

    The gain of the best stopping rule is convex and piecewise linear in the charge, so that the
    steps end, at the root. Uniform prior.
    """
    g, d = np.arange(n + 1)[:, None], np.arange(left)
    p = (1.0 + g[:, :, None] + d) / (2.0 + n + d[:, None])  # after d pulls, of which some good
    charge = p[:, 0, 0]
    for _ in range(50):
        value = p[:, left - 1] - charge[:, None]
        pulls = np.ones_like(value)
        for depth in range(left - 2, -1, -1):
            own = p[:, depth, : depth + 1]
            good, bad = value[:, 1 : depth + 2], value[:, : depth + 1]
            more = own * (good > 0) * pulls[:, 1 : depth + 2]
            pulls = 1.0 + more + (1.0 - own) * (bad > 0) * pulls[:, : depth + 1]
            value = own - charge[:, None] + own * good.clip(0.0) + (1.0 - own) * bad.clip(0.0)
        step = value[:, 0] / pulls[:, 0]
        charge = charge + step
        if step.max() <= 1e-15:
            break
    return charge


def test_fh_gittins_is_exact_where_indices_are() -> None:
    horizon, truth = 24, (0.3, 0.5)
    index = {(n, t): gittins_index(n, horizon - t) for t in range(horizon) for n in range(t + 1)}
    states = {(0, 0, 0): 1.0}  # pulls of the first arm, good outcomes of both
    for t in range(horizon):
        later: dict[tuple[int, int, int], float] = {}
        for (n, g, h), weight in states.items():
            apart = index[n, t][g] - index[t - n, t][h]
            first = 0.5 if abs(apart) < 1e-11 else float(apart > 0)
            for arm, x in product(range(2), range(2)):
                chance = (1.0 - first if arm else first) * (truth[arm] if x else 1.0 - truth[arm])
                after = (n + 1 - arm, g + x * (1 - arm), h + x * arm)
                if chance > 0.0:
                    later[after] = later.get(after, 0.0) + weight * chance
        states = later
    good = sum(weight * (g + h) for (_, g, h), weight in states.items())
    share = sum(weight * (horizon - n) / horizon for (n, _, _), weight in states.items())
    ((found,),) = run(
        Problem.uniform(arms=2, horizon=horizon),
        policies=["fh-gittins"],
        ties="random",
        scenarios=[scenario(*truth)],
    )
    assert found.good == pytest.approx(good, abs=1e-10)
    assert found.best_share == pytest.approx(share, abs=1e-10)


def test_fh_gittins_of_two_arms_and_148_pulls() -> None:
    # Villar, Bowden, Wason 2015 simulated 70.73 (sd 8.16), share .878 with index tables. With the
    # indices of `gittins_index` at T = 148, exact to 1e-15, ties by halves: 70.66689281642,
    # 8.18573534015, .88739502758, for every tolerance of ties up to 1e-7. A figure of 70.6672 needs
    # indices that are wrong by some 2e-4: rounded to three digits they give 70.66718
    ((found,),) = run(
        Problem.uniform(arms=2, horizon=148),
        policies=["fh-gittins"],
        ties="random",
        scenarios=[scenario(0.3, 0.5)],
    )
    assert found.exact
    assert found.good == pytest.approx(70.66689281642, abs=1e-8)
    assert found.good_sd == pytest.approx(8.18573534015, abs=1e-8)
    assert found.best_share == pytest.approx(0.88739502758, abs=1e-9)


def test_the_example_of_adaptr() -> None:
    # adaptr 1.4, README: 1,000 trials; mean size 1749.6 (11.4), superiority 4.8%, equivalence 38.1%
    problem = Problem.uniform(arms=3, horizon=20, pulls_per_stage=100, repeat=True)
    ((found,),) = run(
        problem,
        policies=["thompson"],
        burn_in=133,
        floor=0.2,
        floor_kind="clip",
        delay=1,
        margin=0.05,
        looks={"first": 300, "every": 100},
        draws=3000,
        stop={"superiority": 0.9814318, "inferiority": 0.0185682, "equivalence": 0.9},
        scenarios=[scenario(0.75, 0.75, 0.75)],
    )
    draws = 3000

    def near(seen: float, published: float, error: float, own: float) -> bool:
        return abs(seen - published) <= 3.0 * float(np.hypot(error, own))

    by = found.stopped_by
    for seen, published in ((by["superiority"], 0.048), (by["equivalence"], 0.381)):
        error = (published * (1 - published)) ** 0.5
        assert near(seen, published, error / 1000**0.5, error / draws**0.5)
    assert near(found.size, 1749.6, 11.4, found.size_sd / draws**0.5)
    assert found.size_sd == pytest.approx(373.7, abs=30)
    assert found.reject == pytest.approx(by["superiority"], abs=1e-12)


def test_fishers_test_is_scipys() -> None:
    rng = np.random.default_rng(3)
    pulls = rng.integers(1, 30, size=(50, 3))
    good = rng.binomial(pulls, rng.random((50, 3)))
    found = fisher_p_values(pulls, good, 0)
    for row, n, g in zip(found, pulls, good, strict=True):
        for arm in (1, 2):
            table = [[g[arm], n[arm] - g[arm]], [g[0], n[0] - g[0]]]
            assert row[arm] == pytest.approx(fisher_exact(table, alternative="greater")[1])


def test_the_conditional_test_holds_its_level_at_every_common_rate() -> None:
    rates = (0.05, 0.3, 0.5, 0.9)
    settings = {
        "control": "arm-1",
        "floor": 0.1,
        "looks": {"first": 10, "every": 5},
        "stop": {"superiority": 0.98},
        "scenarios": [scenario(p, p) for p in rates],
    }
    problem = Problem.uniform(arms=2, horizon=30)
    for kind in ("conditional", "unconditional"):
        test = {"kind": kind, "alpha": 0.1}
        rows = run(problem, policies=["greedy", "thompson"], test=test, **settings)
        errors = [each.reject for row in rows for each in row]
        assert max(errors) <= 0.1
        assert max(errors) > 0.05  # and is not idle


def test_the_conditional_test_of_equal_allocation_is_fishers() -> None:
    # pulls are fixed, so that given all good outcomes those of one arm are hypergeometric
    settings = {"policies": ["equal"], "control": "arm-1", "scenarios": [scenario(0.3, 0.7)]}
    ((one,),) = run(TWO, test={"kind": "conditional", "alpha": 0.1}, **settings)
    ((two,),) = run(TWO, test={"kind": "fisher", "alpha": 0.1}, **settings)
    assert one.reject == pytest.approx(two.reject, abs=1e-12)
    n, power = 6, 0.0
    for g, h in product(range(n + 1), repeat=2):
        if fisher_exact([[h, n - h], [g, n - g]], alternative="greater")[1] <= 0.1:
            power += binom.pmf(g, n, 0.3) * binom.pmf(h, n, 0.7)
    assert two.reject == pytest.approx(power, abs=1e-12)


def test_the_calibrated_threshold_is_the_smallest() -> None:
    design = Design(
        policies=["thompson"],
        control="arm-1",
        test={"threshold": 0.9},
        scenarios=[scenario(0.3, 0.3), scenario(0.6, 0.6), scenario(0.3, 0.6)],
    )
    problem = Problem.uniform(arms=2, horizon=20)
    found = operating_characteristics(problem, design, calibrate_to=0.1)
    (level,) = found.calibration
    errors = [each.policies[0].reject for each in found.scenarios[:2]]
    assert level.type_one_error == pytest.approx(max(errors), abs=1e-12)
    assert max(errors) <= 0.1
    lower = design.model_copy(
        update={"test": design.final_test.model_copy(update={"threshold": level.threshold - 1e-6})}
    )
    again = operating_characteristics(problem, lower)
    assert max(each.policies[0].reject for each in again.scenarios[:2]) > 0.1


def test_the_calibrated_level_of_fishers_test_is_the_largest() -> None:
    scenarios = [{"name": "null", "truth": [0.4, 0.4]}]
    design = Design(
        policies=["equal"], scenarios=scenarios, control="arm-1", test={"kind": "fisher"}
    )
    n = 6
    found = operating_characteristics(
        Problem.uniform(arms=2, horizon=2 * n), design, calibrate_to=0.1
    )
    (own,) = found.calibration
    ends = [  # p-value and chance of every end
        (
            fisher_exact([[h, n - h], [g, n - g]], alternative="greater")[1],
            binom.pmf(g, n, 0.4) * binom.pmf(h, n, 0.4),
        )
        for g in range(n + 1)
        for h in range(n + 1)
    ]
    levels = sorted({round(p, 9) for p, _ in ends})
    errors = {level: sum(w for p, w in ends if p <= level + 1e-8) for level in levels}
    kept = [level for level in levels if errors[level] <= 0.1]
    over = levels[len(kept)]
    assert own.what == "test.alpha"
    assert kept[-1] <= own.threshold < over
    assert own.type_one_error == pytest.approx(errors[kept[-1]])


def test_where_looks_are_the_test_their_threshold_is_calibrated() -> None:
    design = Design(
        policies=["equal"],
        looks={"first": 8, "every": 4},
        stop={"superiority": 0.9},
        scenarios=[scenario(0.3, 0.3)],
    )
    found = operating_characteristics(Problem.uniform(arms=2, horizon=20), design, calibrate_to=0.1)
    (level,) = found.calibration
    assert level.what == "stop.superiority"
    assert found.scenarios[0].policies[0].reject == pytest.approx(level.type_one_error)
    assert 0.02 < level.type_one_error <= 0.1


def test_delay_is_what_is_not_known_yet() -> None:
    # with outcomes known only after the end, nothing is learnt
    ((found,),) = run(TWO, policies=["equal"], delay=12, draws=500, scenarios=[scenario(0.1, 0.9)])
    assert found.pulls == pytest.approx((6.0, 6.0))
    settings = {"policies": ["thompson"], "draws": 4000, "scenarios": [scenario(0.1, 0.9)]}
    ((late,),) = run(TWO, delay=12, **settings)
    assert late.pulls[1] == pytest.approx(6.0, abs=0.15)
    ((soon,),) = run(TWO, **settings)
    assert soon.pulls[1] > 8.0


def all_sequences(
    problem: Problem, truth: tuple[float, ...], delay: int, shares: object, stop: float
) -> dict[str, float]:
    """Every sequence of stages: looks from 2 known outcomes on at P(second better) >= stop.

    shares(known pulls, known good, pending) gives pulls of the arms at a stage with their chances.
    """
    total = dict.fromkeys(["good", "size", "reject", "second"], 0.0)

    def counts(history: list) -> tuple[list[int], list[int]]:
        pulls, good = [0, 0], [0, 0]
        for given, x in history:
            for k in range(2):
                pulls[k] += given[k]
                good[k] += x[k]
        return pulls, good

    def end(weight: float, history: list, declared: bool) -> None:
        pulls, good = counts(history)
        total["good"] += weight * sum(good)
        total["size"] += weight * sum(pulls)
        total["second"] += weight * pulls[1]
        total["reject"] += weight * declared

    def go(weight: float, t: int, history: list) -> None:
        pulls, good = counts(history[: max(0, t - delay)])
        if t - delay > 0 and sum(pulls) >= 2 and better(good, pulls) >= stop:
            return end(weight, history, True)
        if t == problem.horizon + delay:
            return end(weight, history, False)  # its last look was the test
        if t >= problem.horizon:
            return go(weight, t + 1, history)
        given_all = counts(history)[0]
        pending = [a - b for a, b in zip(given_all, pulls, strict=True)]
        for given, chance in shares(t, pulls, good, pending):  # type: ignore[operator]
            for x in product(*(range(n + 1) for n in given)):
                likely = 1.0
                for n, g, p in zip(given, x, truth, strict=True):
                    likely *= comb(n, g) * p**g * (1.0 - p) ** (n - g)
                go(weight * chance * likely, t + 1, [*history, (given, x)])

    go(1.0, 0, [])
    return total


@pytest.mark.parametrize("kind", ["additive", "clip"])
@pytest.mark.parametrize("delay", [0, 1, 2, 6])
def test_a_delay_is_followed_through_all_sequences(delay: int, kind: str) -> None:
    problem, truth = Problem.uniform(arms=2, horizon=5), (0.3, 0.8)

    def shares(t: int, pulls: list[int], good: list[int], pending: list[int]) -> list:
        best = better(good, pulls)  # Thompson sampling knows what is known
        chance = 0.2 + 0.6 * best if kind == "additive" else min(max(best, 0.2), 0.8)
        return [((1, 0), 1.0 - chance), ((0, 1), chance)]

    wanted = all_sequences(problem, truth, delay, shares, 0.88)
    ((found,),) = run(
        problem,
        policies=["thompson"],
        control="arm-1",
        floor=0.2,
        floor_kind=kind,
        delay=delay,
        looks={"first": 2},
        stop={"superiority": 0.88},
        scenarios=[scenario(*truth)],
    )
    assert found.exact
    assert found.good == pytest.approx(wanted["good"], abs=1e-9)
    assert found.size == pytest.approx(wanted["size"], abs=1e-9)
    assert found.reject == pytest.approx(wanted["reject"], abs=1e-9)
    assert found.pulls[1] == pytest.approx(wanted["second"], abs=1e-9)


@pytest.mark.parametrize("delay", [0, 1])
def test_batches_are_followed_through_all_sequences(delay: int) -> None:
    problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=4, unit=2, repeat=True)
    truth, policy = (0.3, 0.8), make_policy(problem, "ucb1")

    def shares(t: int, pulls: list[int], good: list[int], pending: list[int]) -> list:
        # two or four outcomes are pending: half of them good, or as many as the mean says
        mean = [(g + 1) / (n + 2) for g, n in zip(good, pulls, strict=True)]
        more = [int(m * p + 0.5) for m, p in zip(pending, mean, strict=True)]
        known, seen = np.add(pulls, pending), np.add(good, more)
        (given,) = policy.allocate_many(
            t, States.of_counts(problem, known[None], seen[None])
        ).tolist()
        return [(given, 1.0)]

    wanted = all_sequences(problem, truth, delay, shares, 0.95)
    ((found,),) = run(
        problem,
        policies=["ucb1"],
        control="arm-1",
        delay=delay,
        looks={"first": 2},
        stop={"superiority": 0.95},
        scenarios=[scenario(*truth)],
    )
    assert found.exact
    assert found.good == pytest.approx(wanted["good"], abs=1e-9)
    assert found.size == pytest.approx(wanted["size"], abs=1e-9)
    assert found.reject == pytest.approx(wanted["reject"], abs=1e-9)
    assert found.pulls[1] == pytest.approx(wanted["second"], abs=1e-9)


def test_what_is_too_large_to_be_followed_is_simulated() -> None:
    settings = {"policies": ["equal"], "draws": 20, "scenarios": [scenario(0.3, 0.5)]}
    for horizon, delay, exact in ((60, 5, True), (60, 8, False), (200, 1, False), (20, 3, True)):
        problem = Problem.uniform(arms=2, horizon=horizon)
        ((found,),) = run(problem, delay=delay, **settings)
        assert found.exact == exact


def test_equal_arms_have_no_best_one() -> None:
    ((found,),) = run(TWO, policies=["equal"], scenarios=[scenario(0.4, 0.4)])
    assert (found.best_share, found.select_best) == (None, None)
    tree = found.to_dict()
    assert tree["select_best"] is None
    assert "good_se" not in tree


def test_a_policy_that_cannot_obey_is_left_out_with_the_reason() -> None:
    design = Design(
        policies=["optimal", "equal"], delay=2, scenarios=[scenario(0.3, 0.6)], draws=50
    )
    found = operating_characteristics(TWO, design)
    assert [each.policy for each in found.scenarios[0].policies] == ["equal"]
    assert found.notes[0].startswith("optimal is left out: policy 'optimal' is optimal where")
