"""Simulation: steps per second beside other packages, and how much noise each estimator leaves.

A step is one stage of one episode. Rates are of playing and booking on all cores; the tables that
are made before are timed apart. Targets and peers are for episodes and their rewards, which is what
other packages do; `simulate` also books the gap terms, a table of DeCo's indices more to read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from decobandit import Problem
from decobandit.policies import POLICIES, Context, make_policies
from decobandit.simulation import CHUNK, World, play, simulate

from .peers import PEERS, NotMeasuredError, Peer, rates
from .rows import Row, times_better

ARMS, HORIZON = 10, 500
LEAST, LEAST_OF = 10.0, {"ucb1": 8.0}  # times as fast as any peer
PEER_SECONDS = 0.7  # of playing, for each way in which a peer can be run
REPEATS = 2
SIZES = {"M steps/s": 1e6, "k steps/s": 1e3}


@dataclass(frozen=True)
class Case:
    """A policy, how fast it should be, and how much of it is played: a second or two."""

    policy: str
    target: float
    unit: str
    draws: int
    per_draw: int


ALL_CORES = CHUNK * (os.cpu_count() or 1)  # the fewest draws that keep every core busy
CASES = (
    Case("deco", 25.0, "M steps/s", 3840, 10),
    Case("kl-ucb", 10.0, "M steps/s", 1920, 10),
    Case("thompson", 3.0, "M steps/s", 1024, 10),
    Case("ucb1", 10.0, "M steps/s", 1920, 10),
    Case("bayes-ucb", 10.0, "M steps/s", 1920, 10),
    Case("ids", 10.0, "k steps/s", ALL_CORES, 1),
)
# arms, horizon, draws
NOISE = ((15, 20, 20_000), (15, 40, 20_000), (5, 40, 20_000), (10, 500, 5_000))
NOISE_POLICIES = ("deco", "fh-gittins")


def run() -> list[Row]:
    """Rows of speed, then of noise."""
    bench = Context(Problem.uniform(arms=ARMS, horizon=HORIZON))
    speeds = [row for case in CASES for row in speed(bench, case, PEERS, REPEATS)]
    return [*speeds, *(row for size in NOISE for row in noise(*size))]


# -- speed --------------------------------------------------------------------------------------


def speed(bench: Context, case: Case, peers: Sequence[Peer], repeats: int) -> list[Row]:
    """Steps per second of a policy beside its target and the peers; nothing if it is not there."""
    if case.policy not in POLICIES:
        return []
    problem, unit = bench.problem, case.unit
    size = SIZES[unit]
    best = {"ours": 0.0, "bare": 0.0}
    preparation = float("inf")
    others = {peer: Others() for peer in peers if case.policy in peer.policies}
    simulated(bench, case.policy, draws=2, per_draw=1)  # loads what is compiled
    for _ in range(repeats):  # in turns, so that all see the same noise
        rate, seconds = simulated(bench, case.policy, case.draws, case.per_draw)
        best["ours"] = max(best["ours"], rate)
        best["bare"] = max(best["bare"], bare(bench, case))
        preparation = min(preparation, seconds)
        for peer, other in others.items():
            other.measure(peer, case.policy, problem)
    what = f"simulate {case.policy} ({problem.n_arms}, {problem.horizon})"
    ours, target = best["bare"] / size, case.target
    met = f"at least {target:g} {unit}"
    return [
        Row(what, ours, unit, "limit", target, ours / target, met, ours >= target),
        Row(f"{what}, with gap terms", best["ours"] / size, unit, "", None, None),
        Row(f"{what}, tables", preparation, "s", "not in the rates", None, None),
        *(
            row
            for peer, other in others.items()
            for row in other.rows(peer, what, ours, unit, LEAST_OF.get(case.policy, LEAST))
        ),
    ]


def simulated(bench: Context, name: str, draws: int, per_draw: int) -> tuple[float, float]:
    """Steps per second of `simulate`, and the seconds of preparing its tables."""
    policy = make_policies(bench, [name])[0]  # a new one: another keeps what it has prepared
    done = simulate(
        bench.problem, [policy], draws=draws, per_draw=per_draw, solution=bench.solution
    )
    (result,) = done.results
    return result.steps / result.seconds, result.preparation_seconds


def bare(bench: Context, case: Case) -> float:
    """Steps per second without gap terms."""
    problem = bench.problem
    world = World(problem, draws=case.draws, per_draw=case.per_draw, seed=1)
    (policy,) = make_policies(bench, [case.policy])
    played = play([(policy, problem.horizon)], world)
    return case.draws * case.per_draw * problem.stages / played.seconds


class Others:
    """The best figures of one peer so far, or why there are none."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}
        self.why_not = ""

    def measure(self, peer: Peer, policy: str, problem: Problem) -> None:
        """Once more, unless it has failed before."""
        if self.why_not:
            return
        try:
            found = rates(peer, policy, problem.n_arms, problem.horizon, PEER_SECONDS)
        except NotMeasuredError as error:
            self.why_not = str(error)
            return
        for way, rate in found.items():
            self.best[way] = max(rate, self.best.get(way, 0.0))

    def rows(self, peer: Peer, what: str, ours: float, unit: str, least: float) -> list[Row]:
        """A row for each way, or one that says why not; `least`: times as fast as the peer."""
        if self.why_not:
            return [Row(what, ours, unit, f"{peer.name}: not measured: {self.why_not}", None, None)]
        found = []
        for way, rate in self.best.items():
            theirs = rate / SIZES[unit]
            name = f"{peer.name}, {way}" if way else peer.name
            found.append(times_better(what, ours, unit, name, theirs, ours / theirs, least))
        return found


# -- noise --------------------------------------------------------------------------------------


def noise(
    arms: int, horizon: int, draws: int, policies: Sequence[str] = NOISE_POLICIES
) -> list[Row]:
    """Variance per episode of every estimator beside that of the plain one."""
    bench = Context(Problem.uniform(arms=arms, horizon=horizon))
    done = simulate(
        bench.problem,
        make_policies(bench, policies),
        draws=draws,
        per_draw=1,
        solution=bench.solution,
    )
    rows = []
    for result in done.results:
        variance = {
            method: draws * found.value_se**2
            for method, found in result.estimates.by_method.items()
        }
        plain = variance.pop("plain")
        what = f"variance, {result.policy} ({arms}, {horizon})"
        for method, own in variance.items():
            ratio = plain / own if own > 0.0 else None
            rows.append(Row(f"{what}, {method}", own, "", "plain estimator", plain, ratio))
    return rows
