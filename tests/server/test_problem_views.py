"""One description of a problem: the model, its files, the API and studies have the same fields."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from decobandit.problem import (
    Arm,
    ArmEntry,
    BetaBernoulli,
    DirichletCategorical,
    EqualArms,
    GammaExponential,
    NormalNormal,
    Problem,
    ProblemError,
    ProblemTable,
    RandomHorizon,
    Reward,
    Segment,
    Terminal,
    problem_from_dict,
    problem_to_dict,
    terminal_table,
)
from decobandit.server.api.schemas import ProblemIn
from decobandit.studies.study_files import _ProblemEntry
from helpers.web_client import Site

# every field of every table is set to something else than its default
FULL = Problem(
    arms=(
        Arm(name="a", prior=BetaBernoulli(2, 3), reward=Reward(good=(1, 2), bad=-1)),
        *(
            Arm(
                name=f"b-{i}", prior=BetaBernoulli(4, 5), terminal=terminal_table(2, lambda g, b: g)
            )
            for i in (1, 2)
        ),
    ),
    horizon=2,
    pulls_per_stage=2,
)
DEPLOYED = Problem(arms=(Arm(name="a"),), horizon=1, terminal=Terminal(deploy=7))


def fields(model: type[BaseModel]) -> dict[str, tuple[object, ...]]:
    return {
        name: (field.annotation, field.metadata, field.default, field.description)
        for name, field in model.model_fields.items()
    }


def test_files_and_requests_have_the_fields_of_the_model() -> None:
    own, file = fields(Problem), fields(ProblemTable)
    assert own.keys() - file.keys() == {"random_horizon"}  # files have it as horizon
    differ = {name for name in file if own[name] != file[name]}
    assert differ == {"arms", "horizon"}  # entries with counts, laws
    assert own["arms"][3] == file["arms"][3]
    arm, entry = fields(Arm), fields(ArmEntry)
    assert entry.keys() - arm.keys() == {"count"}
    assert {name: entry[name] for name in arm} == arm
    request = fields(ProblemIn)
    assert {name for name in file if request[name] != file[name]} == {"arms"}  # fewer entries
    kind, _, default, description = file["arms"]
    assert (request["arms"][0], *request["arms"][2:]) == (kind, default, description)


def test_studies_have_the_fields_of_equal_arms() -> None:
    equal, study = fields(EqualArms), fields(_ProblemEntry)
    assert {name: study[name] for name in equal} == equal
    own = fields(Problem)
    assert equal["pulls_per_stage"] == own["pulls_per_stage"]
    file = fields(ProblemTable)["horizon"]
    assert (equal["horizon"][:2], equal["horizon"][3]) == (file[:2], file[3])


def test_every_field_has_a_description() -> None:
    for model in (Problem, Arm, BetaBernoulli, Reward, Terminal, ArmEntry, ProblemTable, EqualArms):
        assert [name for name, field in model.model_fields.items() if not field.description] == []


def test_the_document_of_the_api_shows_the_fields_of_the_model(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shown = site.app.openapi()["components"]["schemas"]
    site.close()
    for name, model in [
        ("ProblemIn", ProblemTable),
        ("ArmEntry", ArmEntry),
        ("BetaBernoulli", BetaBernoulli),
        ("Reward", Reward),
        ("Terminal", Terminal),
    ]:
        kind = {"kind"} if model is BetaBernoulli else set()  # which files and requests may name
        assert shown[name]["properties"].keys() == model.model_fields.keys() | kind
        assert shown[name]["additionalProperties"] is False
        for key, field in model.model_fields.items():
            default = "" if field.is_required() else json.dumps(field.default, default=str)
            said = {field.description, f"{field.description} {default} where it is left out."}
            assert shown[name]["properties"][key]["description"] in said
    assert shown["ProblemIn"]["required"] == ["horizon", "arms"]
    horizon, law = shown["ProblemIn"]["properties"]["horizon"]["anyOf"]
    assert law == {"$ref": "#/components/schemas/RandomHorizon"}
    assert (horizon["type"], horizon["minimum"], horizon["maximum"]) == ("integer", 1, 100_000)
    good = shown["BetaBernoulli"]["properties"]["good"]
    assert (good["type"], good["minimum"], good["maximum"]) == ("number", 1e-12, 1e12)
    count, null = shown["ArmEntry"]["properties"]["count"]["anyOf"]
    assert (count["type"], count["maximum"], null) == ("integer", 100_000, {"type": "null"})


def keys(tree: Any) -> set[str]:
    if isinstance(tree, dict):
        return set(tree).union(*map(keys, tree.values()))
    return set().union(*map(keys, tree)) if isinstance(tree, list) else set()


@pytest.mark.parametrize("problem", [FULL, DEPLOYED])
def test_what_is_written_is_read_by_file_request_and_model(problem: Problem) -> None:
    tree = problem_to_dict(problem)
    assert problem_from_dict(tree) == problem
    assert ProblemIn.model_validate(tree).problem() == problem
    unfolded = [arm.model_dump() for arm in problem.arms]  # the model itself has no counts
    assert Problem.model_validate(tree | {"arms": unfolded}) == problem


def test_every_field_is_written() -> None:
    tables = (
        Problem,
        Arm,
        ArmEntry,
        BetaBernoulli,
        Reward,
        Terminal,
        NormalNormal,
        DirichletCategorical,
        GammaExponential,
    )
    everything = {name for table in tables for name in table.model_fields}
    batched = DEPLOYED.model_copy(update={"repeat": True})
    of_level = {"noise_sd": 2.0, "drift_sd": 0.0, "range": (-5.0, 6.0)}
    level = Arm(name="level", prior=NormalNormal(mean=0.5, sd=1.0), **of_level)
    classes = DirichletCategorical(counts=(1.0, 2.0))
    score = Arm(name="score", prior=classes, reward=Reward(values=(0.0, 3.0), factor=2.0))
    time = Arm(name="time", prior=GammaExponential(3, 2), reward=Reward(cap=5.0))
    measured = Problem(arms=(level, score, time), horizon=2)
    late = Arm(name="late", available=[1, 3])
    ends = RandomHorizon(law="uniform", least=2, most=3)
    random = Problem(arms=(late, Arm(name="b")), horizon=ends)
    two = Problem(arms=(late, level), horizon=3, terminal=Terminal(deploy=1, deploy_arms=2))
    paid = Problem(arms=(Arm(name="dear", cost=2.0),), horizon=3, budget=4.0)
    nursed = Problem(arms=(Arm(name="a", uses={"nurse": 1.0}),), horizon=3, resources={"nurse": 1})
    site = Arm(name="site", priors={"EU": BetaBernoulli(2, 1)})
    parts = Problem(arms=(site,), horizon=3, segments=(Segment("EU", 0.5), Segment("US", 0.5)))
    problems = (FULL, DEPLOYED, batched, measured, random, two, paid, nursed, parts)
    written = set().union(*(keys(problem_to_dict(problem)) for problem in problems))
    assert written >= everything - {"random_horizon"}  # written as the horizon
    assert written - everything == {"law", "least", "most", "nurse", "share", "EU"}


@pytest.mark.parametrize("key", ["prior", "reward", "range", "terminal", "count"])
def test_null_says_that_an_optional_key_is_left_out(key: str) -> None:
    tree = {"horizon": 2, "terminal": None, "arms": [{"name": "a", key: None}]}
    plain = Problem(arms=(Arm(name="a"),), horizon=2)
    assert problem_from_dict(tree) == ProblemIn.model_validate(tree).problem() == plain


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"horizon": 0}, ("horizon",)),
        ({"pulls_per_stage": True}, ("pulls_per_stage",)),
        ({"terminal": {"deploy": -1}}, ("terminal", "deploy")),
        ({"arms": [{"name": "a\tb"}]}, ("arms", 0, "name")),
        ({"arms": [{"name": "a", "prior": {"good": 0, "bad": 1}}]}, ("arms", 0, "prior", "good")),
        ({"arms": [{"name": "a", "prior": {"good": 1}}]}, ("arms", 0, "prior", "bad")),
        ({"arms": [{"name": "a", "reward": {"bad": "x"}}]}, ("arms", 0, "reward", "bad")),
        ({"arms": [{"name": "a", "terminal": [[1, 2]]}]}, ("arms", 0, "terminal", 0)),
        ({"discount": 1}, ("discount",)),
    ],
)
def test_model_file_and_request_refuse_the_same_at_the_same_place(
    changed: dict[str, Any], place: tuple[int | str, ...]
) -> None:
    tree = {"horizon": 2, "arms": [{"name": "a"}]} | changed
    said = []
    for model in (Problem, ProblemTable, ProblemIn):
        with pytest.raises(ValidationError) as info:
            model.model_validate(tree)
        (detail,) = info.value.errors()
        assert detail["loc"] == place
        said.append(detail["msg"])
    assert len(set(said)) == 1
    with pytest.raises(ProblemError):
        problem_from_dict(tree)
