"""Metrics in Prometheus' text format: what is counted, who may read it, no label without end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from decobandit.server.limits import Limits
from helpers.serving import serving
from helpers.web_client import SMALL, Site, answer, asking
from helpers.web_server import request

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def samples(text: bytes) -> Samples:
    """All samples, read by Prometheus' own parser."""
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in text_string_to_metric_families(text.decode())
        for each in family.samples
    }


def scraped(site: Site, role: str = "viewer") -> Samples:
    got = answer(site.app, asking("GET", "/metrics", site.tokens[role]))
    assert got.status == 200
    assert (got.header("content-type") or "").startswith("text/plain; version=0.0.4")
    return samples(got.body)


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_requests_are_counted_by_route_method_and_status(site: Site) -> None:
    trial = site.trial(policy="equal")
    for _ in range(3):
        assert site.post("/trials/pilot/ask").status == 200
    assert site.get("/trials/nothing").status == 404
    assert site.get("/nothing").status == 404
    found = scraped(site)
    place = {"method": "POST", "route": "/api/v1/trials/{trial}/ask"}
    assert value(found, "deco_requests_total", **place, status="200") == 3
    assert value(found, "deco_request_seconds_count", **place) == 3
    assert value(found, "deco_request_seconds_bucket", **place, le="+Inf") == 3
    wrong = {"method": "GET", "route": "/api/v1/trials/{trial}", "status": "404"}
    assert value(found, "deco_requests_total", **wrong) == 1
    assert value(found, "deco_events_total", kind="created") == 1
    assert value(found, "deco_events_total", kind="asked") == 3
    assert value(found, "deco_events_total", kind="told") == 0
    assert value(found, "deco_requests_under_way") == 1  # the one that asks
    assert value(found, "deco_solves", state="running") == 0
    assert [name for name, _ in found if name == "deco_build_info"] == ["deco_build_info"]
    text = " ".join(f"{name} {sorted(labels)}" for name, labels in found)
    assert not [word for word in ("pilot", trial.id, "the-admin") if word in text]


def test_operators_and_strangers_get_no_metrics(site: Site) -> None:
    for role, status in (("operator", 403), ("viewer", 200), ("admin", 200)):
        got = answer(site.app, asking("GET", "/metrics", site.tokens[role]))
        assert got.status == status
    for headers in ({}, {"authorization": "Bearer deco_wrong"}):
        got = answer(site.app, asking("GET", "/metrics", headers=headers))
        assert (got.status, got.code) == (401, "unauthorized")


def test_strangers_cannot_make_new_labels(tmp_path: Path) -> None:
    site = Site(tmp_path, limits=Limits(rate=1e6, burst=10**6))
    before = len(scraped(site))
    for number in range(30):
        for path in (f"/x{number}", f"/api/v1/x{number}", f"/api/v1/trials/{number}"):
            for method in ("GET", f"M{number}"):
                answer(site.app, asking(method, path))
    after = scraped(site)
    routes = {dict(labels).get("route", "none") for _, labels in after}
    assert not [route for route in routes if any(c.isdigit() for c in route.replace("v1", ""))]
    assert {dict(labels)["method"] for name, labels in after if "method" in dict(labels)} <= {
        "GET",
        "other",
    }
    assert len(after) < before + 200
    site.close()


def test_errors_of_the_database_are_counted(site: Site) -> None:
    trial = site.trial(policy="equal")
    before = scraped(site)
    with site.store.read() as connection:
        assert connection is not None

    def change(connection: object) -> None:
        from sqlalchemy import text

        connection.execute(text("update events set body = body || ' '"))  # type: ignore[attr-defined]

    site.store.write(change)
    site.reopen()
    assert site.get(f"/trials/{trial.id}").status == 503
    assert value(before, "deco_database_errors_total", kind="damaged") == 0
    assert value(scraped(site), "deco_database_errors_total", kind="damaged") >= 1


def test_a_real_server_counts_its_connections(tmp_path: Path) -> None:
    with serving("--db", tmp_path / "t.db") as (_, lines, port):
        token = lines[0].rpartition(" ")[2]
        assert request(port, "POST", "/api/v1/trials", token, {"problem": SMALL})[0] == 201
        status, _, body = request(port, "GET", "/metrics", token)
        found = samples(body)
    assert status == 200
    assert value(found, "deco_connections") >= 1
    assert value(found, "deco_events_total", kind="created") == 1
    assert value(found, "process_resident_memory_bytes") > 0
