"""What docs/operation.md and deploy/ say: steps that run, options that exist, limits that agree."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import decobandit
from decobandit import Problem
from decobandit.server.limits import Limits
from decobandit.server.observation import MAX_MESSAGE, MAX_TRACE
from decobandit.trials import Store, create_trial, list_trials, open_store, open_trial
from decobandit.trials.lists import MAX_PAGE
from helpers.documented import ROOT
from helpers.program import DECO, PATIENCE, PLAIN, deco

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import command_reference

pytest_plugins = ["helpers.databases"]

PAGE = (ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
UNIT = ROOT / "deploy" / "decobandit.service"
PROXY = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
COMPOSE = ROOT / "deploy" / "compose.yaml"
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def served_options(words: list[str]) -> dict[str, Any]:
    """The options of `deco serve` in a command line; an error for one that does not exist."""
    name, command, *rest = words
    assert (Path(name).name, command) == ("deco", "serve")
    parser = command_reference.program().commands["serve"]
    return dict(parser.make_context("serve", rest).params)


# -- backup and restore -------------------------------------------------------------------------


def steps(section: str) -> list[str]:
    """The shell blocks of a section of the page, in order."""
    _, _, rest = PAGE.partition(f"### {section}\n")
    return re.findall(r"^```bash\n(.*?)^```$", re.split(r"^##", rest, flags=re.M)[0], re.M | re.S)


def follow(step: str, folder: Path, **environment: str) -> str:
    from helpers.databases import binaries  # pytest wants to be the first to import it

    programs = binaries()
    path = [str(DECO.parent), *([str(programs)] if programs else []), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euc", step],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **PLAIN, "PATH": ":".join(path), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def begin(store: Store) -> list[dict[str, Any]]:
    """Two trials under way, and all their events."""
    for name in ("first", "second"):
        trial = create_trial(
            Problem.uniform(arms=2, horizon=9), policy="equal", name=name, db=store, seed=1
        )
        for number in range(3):
            trial.tell(trial.ask().id, number % 2)
        trial.ask()
    return logs(store)


def logs(store: Store) -> list[dict[str, Any]]:
    return [
        event.to_dict()
        for one in list_trials(db=store)
        for event in open_trial(one.id, db=store).events()
    ]


def test_backup_and_restore_of_sqlite_as_the_page_says(tmp_path: Path) -> None:
    backup, restore = steps("SQLite")
    with open_store(tmp_path / "trials.db") as store:
        before = begin(store)
        follow(backup, tmp_path)  # while it is open
        open_trial("first", db=store).ask()  # and in use
    (tmp_path / "trials.db-journal").write_bytes(b"left behind")
    shown = follow(restore, tmp_path)
    assert shown.count(" intact") == 3  # two trials and the access log
    assert "NOT INTACT" not in shown
    with open_store(tmp_path / "trials.db") as store:
        assert logs(store) == before
        assert open_trial("second", db=store).ask().state == "open"


def test_backup_and_restore_of_postgresql_as_the_page_says(postgres: Any, tmp_path: Path) -> None:
    backup, restore = steps("PostgreSQL")
    with postgres.fresh() as here, postgres.fresh() as there:
        urls = {"DECO_DB": here, "RESTORED": there}
        plain = {key: url.replace("+psycopg", "") for key, url in urls.items()}
        with open_store(here) as store:
            before = begin(store)
            follow(backup, tmp_path, **plain)
            open_trial("first", db=store).ask()
        assert follow(restore, tmp_path, **plain).count(" intact") == 3
        with open_store(there) as store:
            assert logs(store) == before
            assert open_trial("second", db=store).ask().state == "open"


def test_a_backup_is_private_whole_and_never_replaces_a_file(tmp_path: Path) -> None:
    db, copy = tmp_path / "t.db", tmp_path / "copy.db"
    with open_store(db) as store:
        begin(store)
    made = deco("trial", "backup", copy, "--db", db, "--json").json
    assert (made["ok"], [one["events"] for one in made["trials"]]) == (True, [8, 8])
    assert copy.stat().st_mode & 0o777 == 0o600
    left = {path.name for path in tmp_path.iterdir()}
    assert not [name for name in left if "partial" in name]
    before = copy.read_bytes()
    again = deco("trial", "backup", copy, "--db", db)
    assert (again.code, again.out, again.err.count("\n")) == (2, "", 1)
    assert copy.read_bytes() == before
    nowhere = deco("trial", "backup", tmp_path / "no" / "copy.db", "--db", db)
    assert (nowhere.code, nowhere.err.count("\n")) == (2, 1)


def test_a_backup_of_a_damaged_database_says_so(sqlite: str, tmp_path: Path) -> None:
    from sqlalchemy import text

    with open_store(sqlite) as store:
        begin(store)
        store.write(
            lambda link: link.execute(text("UPDATE events SET body = body || ' ' WHERE seq = 2"))
        )
    run = deco("trial", "backup", tmp_path / "copy.db", "--db", sqlite)
    assert (run.code, run.out.count("NOT INTACT")) == (1, 2)


def test_postgresql_is_not_backed_up_by_the_program(postgresql: str, tmp_path: Path) -> None:
    open_store(postgresql).close()
    run = deco("trial", "backup", tmp_path / "copy", more={"DECO_DB": postgresql})
    assert (run.code, run.err.count("\n"), "pg_dump" in run.err) == (2, 1, True)


# -- files of a deployment ----------------------------------------------------------------------


def test_the_image_runs_the_server_as_nobody_special() -> None:
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", IMAGE, flags=re.M)).splitlines()
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, lines)):
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest)
    known = {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "ARG",
    }
    assert set(found) <= known
    assert found["USER"] == ["10001"]
    assert len(found["FROM"]) == 2  # what builds is left behind
    options = served_options(json.loads(found["ENTRYPOINT"][0]))
    assert (options["host"], options["log_format"]) == ("0.0.0.0", "json")
    assert f"http://127.0.0.1:{options['port']}/api/v1/live" in found["HEALTHCHECK"][0]
    last = lines.index(next(line for line in reversed(lines) if line.startswith("FROM")))
    assert not [line for line in lines[last:] if "pip" in line or "apt" in line]
    copied = [word for line in found["COPY"] if "--from" not in line for word in line.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_the_image_copies_all_that_a_wheel_needs(tmp_path: Path) -> None:
    (source, *_) = re.findall(r"^FROM .*?(?=^FROM )", IMAGE, flags=re.M | re.S)
    for line in re.findall(r"^COPY (?!--from)(.*)$", source, flags=re.M):
        for name in line.split()[:-1]:
            place = tmp_path / Path(name).name
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("_build"))
            else:
                shutil.copy(ROOT / name, place)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").glob("*.whl"))) == 1


def test_services_of_the_compose_file_fit_the_image_and_the_proxy() -> None:
    tree = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert set(tree) == {"name", "services", "volumes"}
    server, database, proxy = (tree["services"][x] for x in ("server", "database", "proxy"))
    (start,) = re.findall(r"^ENTRYPOINT (.*)$", IMAGE, flags=re.M)
    options = served_options([*json.loads(start), *server["command"]])
    assert f"server_name {options['allow_host'][0]};" in PROXY
    assert options["port"] == 8000  # where nginx.conf looks for it, in the same network
    assert proxy["network_mode"] == "service:server"
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["volumes"] == ["data:/data"]
    assert server["ports"] == ["80:80", "443:443"]
    assert server["depends_on"] == {"database": {"condition": "service_healthy"}}
    user, name = re.findall(r"^postgresql\+psycopg://(\w+)@database/(\w+)$", _url(server))[0]
    wanted = (database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"])
    assert (user, name) == wanted
    assert server["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    for image in (server["build"]["args"]["BASE"], database["image"], proxy["image"]):
        assert re.fullmatch(r"\$\{\w+_IMAGE:\?\w+, by its digest\}", image)  # refused without one
    certificates = re.findall(r"^ +ssl_certificate(?:_key)? (\S+);$", PROXY, flags=re.M)
    inside = [mount.split(":")[-2] for mount in proxy["volumes"]]
    assert inside == ["/etc/nginx/conf.d/default.conf", *certificates]
    assert (COMPOSE.parent / proxy["volumes"][0].split(":")[0]).exists()
    used = {mount.split(":")[0] for one in (server, database) for mount in one["volumes"]}
    assert used == set(tree["volumes"])
    assert (COMPOSE.parent / server["build"]["context"]).resolve() == ROOT


def _url(service: dict[str, Any]) -> str:
    return str(service["environment"]["DECO_DB"])


def test_docker_reads_the_compose_file() -> None:
    if (
        not shutil.which("docker")
        or subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("docker compose is not installed")
    names = ("BASE_IMAGE", "POSTGRES_IMAGE", "NGINX_IMAGE", "DATABASE_PASSWORD", "TLS")
    done = subprocess.run(
        ["docker", "compose", "--file", str(COMPOSE), "config", "--quiet"],
        env={**os.environ, **{name: f"/{name.lower()}" for name in names}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_the_image_installs_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (version,) = set(re.findall(r"^ARG BASE=python:(\d+\.\d+)-", IMAGE, flags=re.M))
    least = project["requires-python"].removeprefix(">=").split(",")[0]
    assert [int(part) for part in version.split(".")] >= [int(part) for part in least.split(".")]
    (command,) = re.findall(r"bin/deco (\w+)", IMAGE)
    assert command in command_reference.program().commands


def test_the_lock_file_has_a_hash_for_every_package_and_fits_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=\S)", lock.strip())
    assert all(re.match(r"[\w.-]+==\S+", block) and "--hash=sha256:" in block for block in blocks)
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, flags=re.M))
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["trials"] + extras["server"] + extras["postgres"]
    for text in wanted:
        requirement = Requirement(text)
        if requirement.name != "decobandit":
            assert requirement.specifier.contains(pinned[requirement.name]), text
    assert "--require-hashes --requirement requirements.lock" in IMAGE


def test_the_sbom_lists_what_the_lock_file_pins() -> None:
    lock = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    sbom = json.loads((ROOT / "deploy" / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert sbom["metadata"]["component"]["version"] == decobandit.__version__
    listed = {(part["name"], part["version"]) for part in sbom["components"]}
    assert listed == set(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, flags=re.M))
    digests = [entry["content"] for part in sbom["components"] for entry in part["hashes"]]
    assert sorted(digests) == sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))


def test_the_unit_starts_the_server_and_waits_until_it_has_stopped() -> None:
    class Several(dict[str, Any]):
        """systemd allows a key twice."""

        def __setitem__(self, key: str, value: Any) -> None:
            if isinstance(value, list) and key in self:
                value = [*self[key], *value]
            super().__setitem__(key, value)

    unit = configparser.RawConfigParser(dict_type=Several, strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT, encoding="utf-8")
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    options = served_options(shlex.split(service["ExecStart"]))
    assert (options["host"], options["log_format"]) == ("127.0.0.1", "json")
    assert options["allow_host"] == ["trials.example.org"]
    assert int(service["TimeoutStopSec"]) > Limits().stop_seconds
    assert "DECO_DB=/var/lib/decobandit/" in service["Environment"]
    for key in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "DynamicUser"):
        assert service[key] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["UMask"] == "0077"


def nginx(text: str) -> list[Any]:
    """Directives as lists of words; a block is the list of its directives, the last word."""
    words = re.findall(r'"[^"]*"|\'[^\']*\'|[{};]|[^\s{};"]+', re.sub(r"#.*", "", text))
    stack: list[list[Any]] = [[]]
    line: list[Any] = []
    for word in words:
        if word == ";":
            stack[-1].append(line)
            line = []
        elif word == "{":
            block: list[Any] = []
            stack[-1].append([*line, block])
            stack.append(block)
            line = []
        elif word == "}":
            assert not line
            stack.pop()
        else:
            line.append(word.strip('"'))
    assert (len(stack), line) == (1, [])
    return stack[0]


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_the_proxy_has_the_limits_of_the_server() -> None:
    limits = Limits()
    top = nginx(PROXY)
    plain, tls = [each[-1] for each in top if each[0] == "server"]
    assert ["return", "301", "https://$host$request_uri"] in plain
    one = {each[0]: each[1] for each in tls if len(each) == 2}
    assert one["client_max_body_size"] == f"{limits.body_bytes // 1024}k"
    assert seconds(one["client_header_timeout"]) == limits.head_seconds
    assert seconds(one["client_body_timeout"]) == limits.body_seconds
    assert ["ssl_protocols", "TLSv1.2", "TLSv1.3"] in tls
    (inside,) = (each[-1] for each in tls if each[:2] == ["location", "/"])
    headers = {each[1]: each[2] for each in inside if each[0] == "proxy_set_header"}
    assert headers["Host"] == "$http_host"
    assert one["limit_req_status"] == one["limit_conn_status"] == "429"
    (zone,) = (each for each in top if each[0] == "limit_req_zone")
    assert float(zone[-1].removeprefix("rate=").removesuffix("r/s")) >= limits.rate
    (burst,) = (each[2] for each in tls if each[0] == "limit_req")
    assert int(burst.removeprefix("burst=")) >= limits.burst
    assert int(dict(each[1:] for each in tls if each[0] == "limit_conn")["deco_connections"]) >= (
        limits.connections_per_address
    )
    assert headers["X-Request-ID"] == "$request_id"
    assert headers["X-Forwarded-Proto"] == "$scheme"
    options = {each[0]: each[1] for each in inside if len(each) == 2}
    longest = limits.waiting_seconds + limits.solve_seconds
    assert seconds(options["proxy_read_timeout"]) >= longest
    (upstream,) = (each[-1] for each in top if each[0] == "upstream")
    port = served_options(shlex.split(_started()))["port"]
    assert ["server", f"127.0.0.1:{port}"] in upstream


def _started() -> str:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(encoding="utf-8"), re.M)
    return str(line)


# -- numbers of the page ------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_the_program() -> None:
    limits = Limits()
    text = " ".join(PAGE.split())
    assert f"cut at {MAX_MESSAGE} characters, tracebacks at {MAX_TRACE}" in text
    assert f"`limit` (1 to {MAX_PAGE})" in text
    assert f"| `--stale-after` | {limits.stale_after:g} |" in text
    shown = re.search(r"^```text\n(deco serve .*)\n```$", PAGE, re.M)
    assert shown is not None
    assert served_options(shlex.split(shown[1]))["log_format"] == "json"
    for option in re.findall(r"`(--[a-z-]+)`", PAGE):
        known = command_reference.program().commands["serve"].params
        assert option in {name for each in known for name in each.opts}, option


def test_the_metrics_of_the_page_exist(tmp_path: Path) -> None:
    from decobandit.server.app import create_app

    with open_store(tmp_path / "t.db") as store:
        metrics = create_app(store).state.metrics
        metrics.answered("GET", "/", 200, 0.1)
        text = metrics.text().decode()
    for name in set(re.findall(r"`(deco_[a-z_]+)[{`]", PAGE)):
        assert re.search(rf"^# TYPE {name} ", text, re.M), name
    told = set(re.findall(r"^# TYPE (deco_[a-z_]+) ", text, re.M))
    documented = set(re.findall(r"deco_[a-z_]+", PAGE))
    assert {name for name in told if not name.endswith("_created")} <= documented
