"""The table `design` of a problem file: what is read, and what is refused in one line."""

import copy
from typing import Any

import pytest

from decobandit import Problem, ProblemError
from decobandit.problem import Looks, Rules, Stop, designed_from_dict, problem_from_dict
from helpers.refusals import refused

TREE: dict[str, Any] = {
    "horizon": 120,
    "arms": [{"name": "control", "prior": {"good": 12, "bad": 28}}, {"name": "new", "count": 2}],
    "design": {
        "policies": ["thompson", "equal"],
        "control": "control",
        "burn_in": 5,
        "floor": 0.1,
        "delay": 10,
        "looks": {"first": 40, "every": 20},
        "stop": {"superiority": 0.99, "inferiority": 0.01},
        "test": {"kind": "posterior", "threshold": 0.975},
        "scenarios": [{"name": "null", "truth": [0.3, 0.3, 0.3]}],
    },
}


def changed(keys: tuple[str | int, ...], value: object) -> dict[str, Any]:
    tree = copy.deepcopy(TREE)
    table: Any = tree["design"]
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    return tree


def test_a_file_holds_a_problem_and_its_design() -> None:
    problem, design = designed_from_dict(TREE)
    assert design is not None
    assert (design.draws, design.seed, design.control_of(problem)) == (10_000, 1, 0)
    assert design.scenarios[0].truth == (0.3, 0.3, 0.3)
    assert problem_from_dict(TREE) == problem  # other commands read the same file


REFUSED: list[tuple[tuple[str | int, ...], object, str]] = [
    (("control",), "x", 'design.control: "x" is not allowed; must be the name of an arm'),
    (("floor",), 0.5, "design.floor: 0.5 is not allowed; must be at most 0.3333"),
    (("floor_kind",), "add", 'design.floor_kind: "add" is not allowed; must be one of additive'),
    (("blocks",), 1, "design.blocks: unknown key; allowed: control, burn_in"),
    (("stop", "harm"), 0.1, "design.stop.harm: unknown key; allowed: superiority"),
    (("stop", "superiority"), 1.0, "design.stop.superiority: 1.0 is not allowed"),
    (("stop", "equivalence"), 0.9, "design.margin: 0.0 is not allowed; must be positive"),
    (("test", "alpha"), 0.1, "design.test.alpha: 0.1 is not allowed; must be left out"),
    (("test",), {"kind": "conditional"}, "design.test.kind:"),
    (
        ("test", "kind"),
        "guess",
        'design.test.kind: "guess" is not allowed; must be one of posterior',
    ),
    (("scenarios", 0, "truth"), [0.1], "design.scenarios[0].truth: a list of 1 is not allowed"),
    (("scenarios", 0, "truth"), [0.1, 0.2, 1.2], "design.scenarios[0].truth[2]: 1.2"),
    (("looks", "first"), 0, "design.looks.first: 0 is not allowed"),
    (("burn_in",), 41, "design.burn_in: 41 is not allowed; must be at most 40"),
    (("draws",), 0, "design.draws: 0 is not allowed"),
]


@pytest.mark.parametrize(("keys", "value", "line"), REFUSED)
def test_what_cannot_be_is_refused_with_its_place(
    keys: tuple[str | int, ...], value: object, line: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        designed_from_dict(changed(keys, value), source="file")
    assert str(caught.value).startswith(f"file: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["control_share", "stop"])
def test_what_needs_a_control_arm_is_refused_without(key: str) -> None:
    tree = changed((key,), 0.3 if key == "control_share" else {"futility": 0.1})
    del tree["design"]["control"]
    with pytest.raises(ProblemError, match="must stand with control"):
        designed_from_dict(tree)


@pytest.mark.parametrize("name", ["inferiority", "futility"])
def test_no_probability_is_reason_enough_for_both_ends(name: str) -> None:
    with pytest.raises(
        ProblemError, match=rf"stop\.{name}: 0.9 .*; must be below superiority, 0.8"
    ):
        designed_from_dict(changed(("stop",), {"superiority": 0.8, name: 0.9}))


@pytest.mark.parametrize(("stages", "pulls"), [(30, 1), (10, 3)])
def test_the_first_look_is_within_the_pulls_of_the_trial(stages: int, pulls: int) -> None:
    arms = [{"name": name} for name in "abc"]
    tree = {"horizon": stages, "pulls_per_stage": pulls, "arms": arms}
    stop = {"superiority": 0.9}
    designed_from_dict({**tree, "design": {"looks": {"first": 30}, "stop": stop}})
    with refused("invalid_problem", "design.looks.first"):
        designed_from_dict({**tree, "design": {"looks": {"first": 31}, "stop": stop}})


def test_looks_fall_due_at_known_outcomes() -> None:
    rules = Rules(looks=Looks(first=40, every=20), stop=Stop(superiority=0.99))
    due = [now for now in range(1, 121) if rules.looks_between(now - 1, now)]
    assert due == [40, 60, 80, 100, 120]
    # batches of 30: a look is made once its number is reached or passed
    batches = range(30, 151, 30)
    assert [now for now in batches if rules.looks_between(now - 30, now)] == [60, 90, 120, 150]
    assert not Rules().looks_between(0, 100)  # nothing to stop for


def test_rules_are_the_part_of_a_design_that_trials_obey() -> None:
    _, design = designed_from_dict(TREE)
    assert design is not None
    assert set(Rules.model_fields) < set(type(design).model_fields)
    design.rules.check(
        Problem.uniform(arms=3, horizon=120).model_copy(
            update={"arms": designed_from_dict(TREE)[0].arms}
        )
    )
