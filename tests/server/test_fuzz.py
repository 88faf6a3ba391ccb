"""Requests made up from the OpenAPI document: every answer is one that the document describes.

DECO_FUZZ_CASES is the number of requests, over all routes.
"""

import os
from collections.abc import Iterator
from copy import deepcopy
from math import ceil
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from decobandit.server.app import create_app
from decobandit.server.limits import Limits
from helpers.routes import DOCUMENTS, TABLE
from helpers.web_client import Site

CASES = int(os.environ.get("DECO_FUZZ_CASES", "240"))
# guided: as the document says, of sizes and names that get further than the first checks
MODES = {
    "guided": GenerationMode.POSITIVE,
    "right": GenerationMode.POSITIVE,
    "wrong": GenerationMode.NEGATIVE,
}
TAKES_NOTHING = {"/api/v1/health", "/api/v1/live", "/api/v1/ready"}
ROUTES = [
    (method, path, mode)
    for method, path in TABLE
    for mode in MODES
    # a route that takes nothing cannot be asked wrongly
    if path not in DOCUMENTS and not (path in TAKES_NOTHING and mode == "wrong")
]
WEIGHTS = {"GET": 1, "DELETE": 1, "POST": 3}
SHARE = CASES / sum(WEIGHTS[method] for method, _, _ in ROUTES)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LIMITS = Limits(rate=1e9, burst=10**9, max_arms=4, max_horizon=6)
POLICIES = ["deco", "greedy", "thompson", "equal", "ucb1", "fh-gittins", "optimal"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("fuzz"), LIMITS)
    made.app = create_app(made.store, limits=LIMITS, allowed_hosts=["testserver"])
    made.trial({"horizon": 300, "arms": [{"name": "a"}, {"name": "b"}]})
    yield made
    made.close()


def _guided(document: dict[str, Any]) -> dict[str, Any]:
    guided = deepcopy(document)
    models = {name: model.get("properties", {}) for name, model in _models(guided).items()}
    few = {"type": "number", "minimum": -5, "maximum": 5}
    models["ProblemIn"]["horizon"]["maximum"] = LIMITS.max_horizon
    models["ProblemIn"]["pulls_per_stage"]["maximum"] = 2
    models["ProblemIn"]["arms"]["maxItems"] = 3
    models["Reward"] |= {"good": few, "bad": few}
    models["ArmEntry"]["count"]["maximum"] = 2
    models["ArmEntry"]["name"]["pattern"] = "^[a-z]{4,8}$"
    del models["ArmEntry"]["terminal"]
    models["CreateIn"]["name"] = {"type": "string", "pattern": "^[a-z]{1,20}$"}
    models["CreateIn"]["tol"]["minimum"] = 1e-3
    models["CreateIn"]["policy"]["enum"] = POLICIES
    models["PlanIn"]["policies"]["items"]["enum"] = POLICIES
    _models(guided)["Reward"]["properties"] = models["Reward"]
    return guided


def _models(document: dict[str, Any]) -> dict[str, Any]:
    models: dict[str, Any] = document["components"]["schemas"]
    return models


@pytest.mark.parametrize(("method", "path", "mode"), ROUTES, ids=str)
def test_answers_are_as_the_document_says(site: Site, method: str, path: str, mode: str) -> None:
    document = site.app.openapi()
    schema = schemathesis.openapi.from_dict(_guided(document) if mode == "guided" else document)
    schema.app = site.app
    headers = {"Authorization": f"Bearer {site.tokens['admin']}"}

    # no shrinking: a server that has moved on does not answer the same again
    @settings(
        max_examples=ceil(WEIGHTS[method] * SHARE),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method].as_strategy(generation_mode=MODES[mode]), known=st.booleans())
    def check(case: schemathesis.Case, known: bool) -> None:
        if known and "trial" in case.path_parameters:
            _point_to_what_exists(case, site)
        if case.path_parameters.get("name") == "the-admin":
            return  # we would lock ourselves out
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()
    assert site.get("/health", "admin").status == 200


def _point_to_what_exists(case: schemathesis.Case, site: Site) -> None:
    trial = site.get("/trials?archived=true").json["trials"][0]["id"]
    case.path_parameters["trial"] = trial
    if "allocation" in case.path_parameters:
        # earlier requests may have closed the trial, or changed its limits
        site.post(f"/trials/{trial}/reopen", {"reason": "more requests"})
        limits = {"max_open": 300, "max_cancelled": 10**6, "reason": "more requests"}
        site.post(f"/trials/{trial}/limits", limits)
        case.path_parameters["allocation"] = site.post(f"/trials/{trial}/ask").json["id"]
