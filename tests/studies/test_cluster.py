"""Cells on a real cluster of worker processes: the same bytes, whoever dies on the way."""

import ast
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

import decobandit
from decobandit.studies import load_study, on_cluster, run_study, running
from decobandit.studies.running import connected
from helpers.program import PATIENCE, deco
from helpers.refusals import refused
from helpers.study_runs import folder_of, half_done, write

STUDY = """
policies = ["greedy", "deco", "ucb1", "fh-gittins"]
draws = 1500
per_draw = 10
seeds = [1, 2, 3, 4, 5]
[[problems]]
arms = 4
horizon = 25
"""
NUMBER_OF_CELLS = 20
SMALL = STUDY.replace("1500", "50").replace("[1, 2, 3, 4, 5]", "[1]")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three workers, each a process of its own; port 0: whichever is free."""
    with LocalCluster(
        processes=True,
        n_workers=3,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    ) as made:
        yield made


def test_a_killed_worker_does_not_matter(cluster: LocalCluster, tmp_path: Path) -> None:
    file, there, here = (tmp_path / name for name in ("study.toml", "there", "here"))
    write(file, STUDY)
    alone = deco("study", "run", file, "--out", here, "--workers", 2)
    assert (alone.code, alone.err) == (0, "")
    victim = next(iter(cluster.workers.values())).pid
    with half_done(
        there,
        NUMBER_OF_CELLS,
        "study",
        "run",
        file,
        "--out",
        there,
        "--scheduler",
        cluster.scheduler_address,
    ) as process:
        try:
            os.kill(victim, signal.SIGKILL)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()  # does nothing to a process that has ended
    assert (process.returncode, err) == (0, "")
    assert f"{NUMBER_OF_CELLS} cells computed" in out
    assert not is_alive(victim)
    assert len(folder_of(there)) == NUMBER_OF_CELLS + 1  # and the list of cells
    assert folder_of(there) == folder_of(here)


def test_a_study_of_designs_has_the_same_bytes_there(cluster: LocalCluster, tmp_path: Path) -> None:
    text = """policies = ["thompson", "equal"]
draws = 60
[design]
delay = 2
scenarios = [{ name = "null", truth = [0.4, 0.4] }, { name = "one", truth = [0.2, 0.6] }]
[[problems]]
arms = 2
horizon = 10
"""
    study = load_study(write(tmp_path / "study.toml", text))
    run_study(study, tmp_path / "here")
    run_study(study, tmp_path / "there", runner=on_cluster(cluster.scheduler_address))
    assert folder_of(tmp_path / "there") == folder_of(tmp_path / "here")
    assert len(study.cells) == 4


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_interruption_keeps_cells_and_another_run_goes_on(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    file, there = write(tmp_path / "study.toml", STUDY), tmp_path / "study"
    with half_done(
        there, NUMBER_OF_CELLS, "study", "run", file, "--scheduler", cluster.scheduler_address
    ) as process:
        try:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    kept = folder_of(there)
    assert process.returncode == 130
    assert f"{len(kept) - 1} of {NUMBER_OF_CELLS} cells are finished and kept" in err
    assert "Traceback" not in err
    assert len(kept) - 1 < NUMBER_OF_CELLS
    again = run_study(load_study(file), there, runner=on_cluster(cluster.scheduler_address))
    assert again.skipped == len(kept) - 1
    assert again.skipped + again.computed == NUMBER_OF_CELLS
    assert kept.items() <= folder_of(there).items()


def test_reasons_come_back_from_workers(cluster: LocalCluster, tmp_path: Path) -> None:
    text = SMALL.replace('"deco", ', '"optimal", ').replace("arms = 4", "arms = 20")
    text = text.replace("horizon = 25", "horizon = 60")
    study = load_study(write(tmp_path / "large.toml", text))
    outcome = run_study(study, tmp_path, runner=on_cluster(cluster.scheduler_address))
    assert outcome.computed == 3
    (reason,) = outcome.failed.values()
    assert "states" in reason


def test_workers_of_another_version_are_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    address = cluster.scheduler_address
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(3)
        client.run(_pretend, "0.0.1")
        try:
            with (
                refused("cluster"),
                connected(address),
            ):
                pass
            answer = deco(
                "study", "run", write(tmp_path / "small.toml", SMALL), "--scheduler", address
            )
        finally:
            client.run(_pretend, decobandit.__version__)
    assert answer.code == 2
    (message,) = answer.err.splitlines()
    assert "decobandit 0.0.1" in message
    assert not (tmp_path / "small").exists()


def _pretend(version: str) -> None:
    running.__version__ = version


@pytest.mark.parametrize(
    ("address", "reason"),
    [("tcp://127.0.0.1:9", "no scheduler answers"), ("somewhere", "must be tcp://HOST:PORT")],
)
def test_no_scheduler_is_said_in_one_line(tmp_path: Path, address: str, reason: str) -> None:
    file = write(tmp_path / "small.toml", SMALL)
    answer = deco("study", "run", file, "--scheduler", address)
    assert (answer.code, answer.out) == (2, "")
    (message,) = answer.err.splitlines()
    assert address in message
    assert reason in message
    assert not (tmp_path / "small").exists()


def test_missing_distributed_names_the_pip_command(tmp_path: Path) -> None:
    (tmp_path / "hidden" / "distributed").mkdir(parents=True)
    hidden = write(tmp_path / "hidden" / "distributed" / "__init__.py", "raise ImportError\n")
    answer = deco(
        "study",
        "run",
        write(tmp_path / "small.toml", SMALL),
        "--scheduler",
        "tcp://127.0.0.1:9",
        more={"PYTHONPATH": str(hidden.parents[1])},
    )
    assert answer.code == 2
    assert 'pip install "decobandit[cluster]"' in answer.err


def test_one_file_knows_dask() -> None:
    package = Path(decobandit.__file__).parent
    knowing = {path.name for path in package.rglob("*.py") if _imports_dask(path)}
    assert knowing == {"running.py"}


def _imports_dask(path: Path) -> bool:
    names: list[Any] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module)
    return any(str(name).split(".")[0] in {"dask", "distributed"} for name in names)
