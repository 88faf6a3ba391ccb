"""The file of an SQLite database: who may read it, and what is no such file."""

import os
import stat
from pathlib import Path

from decobandit.problem import Problem
from decobandit.trials import StoreError, create_trial, open_store
from helpers.program import deco
from helpers.refusals import refused


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with open_store(tmp_path / "t.db") as store:
            create_trial(Problem.uniform(arms=2, horizon=4), db=store).ask()
        assert {permissions(path) for path in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_permissions_that_were_given_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    open_store(path).close()
    path.chmod(0o640)
    with open_store(path) as store:
        create_trial(Problem.uniform(arms=2, horizon=4), db=store)
    assert permissions(path) == 0o640


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    (tmp_path / "link.db").symlink_to("pipe.db")
    for path in (tmp_path / "pipe.db", tmp_path / "link.db", Path("/dev/null")):
        with refused("unavailable", kind=StoreError):
            open_store(path)
    for command in (["trial", "list"], ["trial", "new", "--arms", 2, "--horizon", 3]):
        run = deco(*command, "--db", tmp_path / "pipe.db")
        assert (run.code, run.err.count("\n")) == (2, 1)


def test_a_lock_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.db-turn")
    with open_store(tmp_path / "t.db") as store:
        create_trial(Problem.uniform(arms=2, horizon=4), db=store).ask()
