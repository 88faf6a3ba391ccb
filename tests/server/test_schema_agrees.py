"""What the OpenAPI document allows, the server takes, and the other way round.

Every field of a request is given many values, one at a time, in a body that is right otherwise.
Whether the document allows a body is decided by an implementation of JSON Schema that is not ours.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from fastapi.exceptions import RequestValidationError

from decobandit.server.api import routing, schemas
from decobandit.server.errors import ApiError
from decobandit.trials.errors import TrialError
from decobandit.trials.events import Request, line_of
from decobandit.trials.trial import trial_name
from helpers.web_client import Site

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    20,
    1.0,
    2.0,
    20.0,
    2e1,
    0.5,
    1.5,
    -1,
    -1.0,
    1e-13,
    1e12,
    1e13,
    100_000,
    100_001,
    10_000_001,
    2**53,
    2**53 + 2,
    2**63 - 1024,
    2**64,
    "",
    " ",
    "a",
    "b",
    "é",
    " a",
    "a ",
    "a b",
    "a,b",
    "a/b",
    "a@b",
    "a+b",
    "a\nb",
    "a\tb",
    "a\x7f",
    "a\u00a0b",
    "a\u200bb",
    "-a",
    ".",
    "..",
    "0123456789abcdef",
    "x" * 100,
    "x" * 101,
    "x" * 501,
    "x" * 2001,
    "beta",
    "categorical",
    "normal",
    "gamma",
    "states",
    "posterior",
    "fisher",
    "first",
    "viewer",
    [],
    [0],
    [1],
    [1, 1],
    [1.0, 2.0],
    [0.5, 0.5],
    ["a"],
    [None],
    [[1]],
    [[1], [1, 2]],
    [1] * 20,
    [1] * 21,
    {},
    {"kind": "beta"},
    {"good": 1},
    {"good": 1, "bad": 1},
    {"deploy": 3},
    {"kind": "beta", "good": 1, "bad": 1},
    {"kind": None, "good": 1, "bad": 1},
    {"kind": "x", "good": 1, "bad": 1},
    {"first": 1},
    {"unknown": 1},
    {"superiority": 0.9},
    {"superiority": 1.0},
    {"superiority": 0},
    {"kind": "posterior"},
    {"kind": "other"},
]


def arm(**more: Any) -> dict[str, Any]:
    return {"name": "old", **more}


def problem(*arms: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"horizon": 4, "arms": list(arms) or [arm(), {"name": "new"}], **more}


STATE = {"mean": 0.5, "next": {"hit": [0.5, "up"], "miss": [0.5, "up"]}}
CLASSES = arm(prior={"kind": "categorical", "counts": [1, 1]}, reward={"values": [0, 1]})
NORMAL = {"kind": "normal", "mean": 0, "sd": 1}
MEASURED = arm(prior=NORMAL, noise_sd=1, drift_sd=0, range=[-9, 9], reward={"factor": 1})
COUNTED = arm(prior={"kind": "gamma", "shape": 1, "rate": 1}, range=[0, 9], reward={"factor": 1})
OWN = arm(prior={"kind": "states", "first": "up", "states": {"up": STATE}})
DESIGN = {
    "control": "old",
    "burn_in": 0,
    "floor": 0,
    "floor_kind": "clip",
    "control_share": 0.5,
    "delay": 0,
    "margin": 0,
    "looks": {"first": 1, "every": 1},
    "stop": {"superiority": 0.9, "futility": 0.1},
    "test": {"kind": "posterior", "threshold": 0.9},
    "policies": ["equal"],
    "draws": 10,
    "seed": 1,
    "scenarios": [{"name": "s", "truth": [0.5, 0.5]}],
    "question": "q",
}
CREATE = {
    "policy": "equal",
    "name": "n",
    "seed": 1,
    "tol": 1e-3,
    "ties": "first",
    "bound": True,
    "max_open": 1,
    "max_cancelled": 1,
}
BODIES: list[tuple[type[schemas.In], dict[str, Any]]] = [
    (schemas.CreateIn, {"problem": problem(), **CREATE}),
    (
        schemas.CreateIn,
        {
            "problem": problem(
                arm(
                    prior={"kind": "beta", "good": 1, "bad": 1},
                    reward={"good": 1, "bad": 0},
                    count=1,
                ),
                pulls_per_stage=1,
                repeat=True,
                unit=1,
                terminal={"deploy": 1},
            )
        },
    ),
    *((schemas.CreateIn, {"problem": problem(each)}) for each in (CLASSES, MEASURED, COUNTED, OWN)),
    (schemas.DesignIn, {"problem": problem(design=DESIGN), "calibrate": 0.05, "ties": "first"}),
    (schemas.PlanIn, {"problem": problem(), "policies": ["equal"]}),
    (schemas.AskIn, {"key": "k", "subject": "s", "note": "n"}),
    (schemas.OutcomesIn, {"key": "k", "outcome": 1}),
    (schemas.CorrectIn, {"outcome": 1, "reason": "r"}),
    (schemas.OutcomesIn, {"counts": {"a": {"good": 1, "pulls": 2}}}),
    (schemas.OutcomesIn, {"rows": [{"arm": "a", "outcome": 1}]}),
    (schemas.LimitsIn, {"reason": "r", "max_open": 1, "max_cancelled": 1}),
    (schemas.TokenIn, {"name": "ann", "role": "viewer", "days": 1, "trials": ["a"]}),
]
# rules between fields, which no schema of one field can say: the end of a place, the values
BETWEEN: dict[tuple[str, ...], str] = {
    ("prior",): "a normal prior needs noise_sd, classes need values",
    ("prior", "kind"): "as many values as classes",
    ("prior", "counts"): "as many values as classes",
    ("reward",): "values and factor are for other priors than good and bad",
    ("reward", "values"): "as many values as classes",
    ("noise_sd",): "of a normal prior",
    ("drift_sd",): "of a normal prior",
    ("range",): "the lowest first",
    ("terminal",): "a row for every number of pulls",
    ("first",): "the name of a state",
    ("states",): "names of states",
    ("next",): "chances sum to 1",
    ("next", "hit"): "chances sum to 1",
    ("next", "miss"): "chances sum to 1",
    ("next", "hit", "0"): "chances sum to 1",
    ("next", "miss", "0"): "chances sum to 1",
    ("next", "hit", "1"): "the name of a state",
    ("next", "miss", "1"): "the name of a state",
    ("test",): "a posterior test has a threshold",
    ("test", "kind"): "a posterior test has a threshold",
    ("test", "alpha"): "a posterior test has a threshold",
    ("count",): "not more arms than there may be",
}


def places(tree: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if at:
        yield at
    if isinstance(tree, dict | list):
        entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in entries:
            yield from places(value, (*at, str(key)))


def changed(tree: Any, place: tuple[str, ...], value: Any) -> Any:
    made = deepcopy(tree)
    table = made
    for key in place[:-1]:
        table = table[int(key) if isinstance(table, list) else key]
    table[int(place[-1]) if isinstance(table, list) else place[-1]] = value
    return made


def takes(model: type[schemas.In], tree: Any) -> bool:
    try:
        sent = routing._sent(model, json.dumps(tree).encode())
        if isinstance(sent, schemas.CreateIn) and sent.name is not None:
            trial_name(sent.name)
        if isinstance(sent, schemas.AskIn):
            Request("asked", subject=sent.subject, note=sent.note)
        if not getattr(getattr(sent, "problem", None), "arms", "none is sent"):
            return False  # refused when the problem is made
        reason = getattr(sent, "reason", None)
        if reason is not None:
            line_of(reason, "reason")
    except (ApiError, RequestValidationError, TrialError):
        return False
    return True


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    site = Site(tmp_path_factory.mktemp("document"))
    found: dict[str, Any] = site.app.openapi()
    site.close()
    return found


@pytest.mark.parametrize(("model", "body"), BODIES, ids=lambda given: str(given)[:60])
def test_what_the_document_allows_is_taken_and_nothing_else(
    document: dict[str, Any], model: type[schemas.In], body: dict[str, Any]
) -> None:
    schema = {
        "$ref": f"#/components/schemas/{model.__name__}",
        "components": document["components"],
    }
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid(body)
    assert takes(model, body)
    differ = []
    for place in places(body):
        ends = {
            tuple(k for k in place if not (k.isdigit() and "next" not in place))[-n:]
            for n in (1, 2, 3)
        }
        if ends & BETWEEN.keys():
            continue
        for value in VALUES:
            tree = changed(body, place, value)
            if validator.is_valid(tree) != takes(model, tree):
                differ.append(
                    (".".join(place), value, "taken" if takes(model, tree) else "refused")
                )
    assert not differ


def test_an_empty_table_of_each_kind_of_prior_needs_its_kind(document: dict[str, Any]) -> None:
    models = document["components"]["schemas"]
    kinds = {
        "DirichletCategorical": "categorical",
        "NormalNormal": "normal",
        "GammaPoisson": "gamma",
    }
    for name, kind in (
        kinds | {"MarkovArm": "states", "Chain": "chain", "TwoLevel": "two-level"}
    ).items():
        assert "kind" in models[name]["required"]
        assert models[name]["properties"]["kind"]["const"] == kind


def test_requests_have_no_defaults_in_the_document(document: dict[str, Any]) -> None:
    """Tables as defaults are refused by programs that write clients; other ones demand the key."""
    models = document["components"]["schemas"]
    waiting = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for path in document["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    ]
    looked_at: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            assert "default" not in part, part
            if "$ref" in part:
                name = part["$ref"].rpartition("/")[2]
                if name not in looked_at:
                    looked_at.add(name)
                    waiting.append(models[name])
            properties = part.get("properties", {})
            waiting += [part[key] for key in part if key != "properties"] + [*properties.values()]
    assert {"ArmEntry", "Reward", "Stop", "CreateIn"} <= looked_at


@pytest.mark.skipif(
    importlib.util.find_spec("openapi_python_client") is None,
    reason="openapi-python-client is not installed",
)
def test_a_client_is_generated_for_every_operation(
    document: dict[str, Any], tmp_path: Path
) -> None:
    file, made = tmp_path / "openapi.json", tmp_path / "client"
    file.write_text(json.dumps(document), encoding="utf-8")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(file)]
    run = [*command, "--output-path", str(made), "--meta", "none"]
    subprocess.run(run, check=True, capture_output=True)
    written = {path.stem for path in (made / "api").rglob("*.py")} - {"__init__"}
    wanted = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert written == wanted
