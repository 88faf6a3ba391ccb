"""The benchmark of trials measures what it says, in a small case without a server."""

import sys
from pathlib import Path

from decobandit.trials import create_trial, list_trials, open_store, open_trial

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks import bench_many_trials  # noqa: E402
from benchmarks.bench_trials import beside, different_arms, library, quantile  # noqa: E402
from benchmarks.peers import Peer  # noqa: E402


def test_asks_of_the_benchmark_are_asks_of_the_trial(tmp_path: Path) -> None:
    db = str(tmp_path / "bench.db")
    problem = different_arms(3, 9)
    assert len(problem.groups) == 3  # no two arms share a table
    with open_store(db) as store:
        create_trial(problem, name="small", db=store)
    first, worst, median, status = library(db, "small", asks=5)
    assert first.ours > 0
    assert worst.ours >= median.ours > 0
    assert worst.met is (worst.ours <= 20)
    assert status.unit == "ms"
    with open_store(db) as store:
        assert open_trial("small", db=store).status().told == 6


def test_quantiles_are_those_of_a_sorted_list() -> None:
    assert quantile([3.0, 1.0, 2.0], 50) == 2.0
    assert quantile(list(range(101)), 99) == 99.0


def test_a_peer_that_is_not_there_is_said_to_be_missing() -> None:
    (row,) = beside("pairs", 5.0, Peer("p", ("deco",), why_not="no package"), 0.1)
    assert (row.ours, row.beside_value) == (5.0, None)
    assert row.beside == "p: not measured: no package"


def test_many_trials_of_the_benchmark_are_trials_under_way(tmp_path: Path) -> None:
    db = str(tmp_path / "many.db")
    names = bench_many_trials.fill(db, trials=3, pairs=2)
    with open_store(db) as store:
        found = list_trials(db=store)
        assert [(one.name, one.told, one.open) for one in found] == [(n, 2, 1) for n in names]
        assert all(open_trial(name, db=store).replay().ok for name in names)
    rows = bench_many_trials.library(db, names)
    assert [row.unit for row in rows] == ["ms"] * 3
