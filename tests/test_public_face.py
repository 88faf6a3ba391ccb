"""The public face: docstrings with sections and examples that run, and refusals of one line."""

import doctest
import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import decobandit
from decobandit import (
    Arm,
    BetaBernoulli,
    DualSolution,
    Problem,
    ProblemError,
    Reward,
    State,
    bound,
    evaluate,
    follow,
    forecast,
    gap,
    make_policy,
    operating_characteristics,
    optimum,
    read_outcomes,
    recommend,
    retrace,
    run_study,
    save_problem,
    simulate,
    solve,
    with_history,
)
from decobandit.joint import count_states
from decobandit.policies import choose_path
from decobandit.prices import dual_value
from decobandit.trials import TrialError
from helpers.documented import ROOT
from helpers.values import information_bound

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import api_reference

PROBLEM = Problem.uniform(arms=2, horizon=4)
OTHER = Problem.uniform(arms=3, horizon=4)

# -- docstrings ---------------------------------------------------------------------------------


def public() -> Iterator[tuple[str, object]]:
    """Every name in the reference, with its object."""
    for theme in api_reference.THEMES.values():
        for name in theme.names.split():
            if name != "__version__":
                home = api_reference.home(theme.module, name)
                yield f"{home}.{name}", getattr(importlib.import_module(home), name)


PUBLIC = dict(public())
REFUSALS = {
    name for name, it in PUBLIC.items() if isinstance(it, type) and issubclass(it, Exception)
}


def sections(documented: object) -> set[str]:
    text = inspect.getdoc(documented) or ""
    return set(re.findall(r"^(\w[\w ]*)\n-+$", text, re.M))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    documented = PUBLIC[name]
    text = documented.__doc__ or ""
    summary = text.strip().partition("\n")[0]
    assert summary.endswith("."), "a summary of one line"
    assert not text.startswith(f"{getattr(documented, '__name__', '')}("), "written, not generated"


TRIALS = {name for name in PUBLIC if name.startswith("decobandit.trials.")}  # described in prose


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - REFUSALS - TRIALS))
def test_every_public_name_has_the_sections_of_numpydoc(name: str) -> None:
    documented = PUBLIC[name]
    there = sections(documented)
    assert "Examples" in there
    if inspect.isclass(documented):
        assert there & {"Parameters", "Attributes"}
    else:
        signature = inspect.signature(documented)  # type: ignore[arg-type]
        assert "Returns" in there or signature.return_annotation in (None, "None")
        assert "Parameters" in there or not signature.parameters


@pytest.mark.parametrize(
    "name",
    [name for name, documented in PUBLIC.items() if inspect.isfunction(documented)],
)
def test_every_parameter_of_a_public_function_is_documented(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    _, _, rest = text.partition("Parameters\n----------\n")
    heads = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", rest.partition("\n\n")[0], re.M)
    named = {each.strip() for head in heads for each in head.split(",")}
    wanted = set(inspect.signature(PUBLIC[name]).parameters)  # type: ignore[arg-type]
    assert wanted <= (set(re.findall(r"\w+", text)) if name in TRIALS else named)


@pytest.mark.parametrize(
    "name", [name for name, it in PUBLIC.items() if ">>>" in (it.__doc__ or "")]
)
def test_the_examples_of_a_docstring_run_as_printed(
    name: str, doctest_namespace: dict[str, object]
) -> None:
    documented, given = PUBLIC[name], doctest_namespace
    found = doctest.DocTestFinder(recurse=False).find(documented, name, globs=given)
    methods = [
        test
        for test in doctest.DocTestFinder().find(documented, name, globs=given)
        if test.name.startswith(f"{name}.") and test.examples
    ]
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    )
    said: list[str] = []
    for test in [*found, *methods]:
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


# -- refusals -----------------------------------------------------------------------------------

SOLUTION = solve(PROBLEM)
ASKED: list[tuple[str, Callable[[], object], type[Exception], list[str]]] = [
    # what, the call, the exception, what its line names: the argument, the value, what is allowed
    ("no problem", lambda: evaluate("x"), TypeError, ["problem:", '"x"', "load_problem"]),
    ("no problem", lambda: solve(3), TypeError, ["problem: 3", "decobandit.Problem"]),
    ("no problem", lambda: optimum("x"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: count_states("x"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: gap("x", "deco"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: simulate("x", "deco"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: follow("x", "deco"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: retrace("x", []), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: bound("x"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: information_bound("x"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: choose_path("x"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: dual_value("x", [1]), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: make_policy("x", "deco"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: recommend("x", "0/0"), TypeError, ["problem:", '"x"', "Problem"]),
    ("no problem", lambda: save_problem("x", "y.toml"), TypeError, ["problem:", '"x"']),
    ("no problem", lambda: read_outcomes("x", "y.csv"), TypeError, ["problem:", '"x"']),
    ("no solution", lambda: gap(PROBLEM, solution=3), TypeError, ["solution: 3", "solve("]),
    ("no solution", lambda: bound(PROBLEM, solution=3), TypeError, ["solution: 3", "solve("]),
    (
        "another solution",
        lambda: simulate(OTHER, "deco", solution=SOLUTION),
        ValueError,
        ["solution:", "problem"],
    ),
    ("no policy", lambda: evaluate(PROBLEM, 3), TypeError, ["policy: 3", "policy_names()"]),
    ("no policy", lambda: simulate(PROBLEM, 3), TypeError, ["policy: 3", "policy_names()"]),
    ("no policy", lambda: simulate(PROBLEM, []), ValueError, ["policies: none", "one or more"]),
    ("no policy", lambda: follow(PROBLEM, 3), TypeError, ["policy: 3", "policy_names()"]),
    (
        "a misspelt policy",
        lambda: make_policy(PROBLEM, "decko"),
        ValueError,
        ["'decko'", "did you mean 'deco'?", "known: auto, deco"],
    ),
    (
        "a misspelt policy",
        lambda: evaluate(PROBLEM, "Thomson"),
        ValueError,
        ["'Thomson'", "did you mean 'thompson'?", "known: auto, deco"],
    ),
    (
        "no state",
        lambda: State.of_counts("3/5", "0/2"),
        TypeError,
        ["good:", '"3/5"', "State.parse"],
    ),
    ("no state", lambda: State.parse("3-5"), ValueError, ["arm 1", "'3-5'", "good/pulls"]),
    ("no state", lambda: recommend(PROBLEM, "3/5"), ValueError, ["1 arms", "must be 2"]),
    ("no state", lambda: recommend(PROBLEM, 3), TypeError, ["state: 3", "State"]),
    (
        "no state",
        lambda: make_policy(PROBLEM, "greedy").choose("0/0,0/0"),
        TypeError,
        ["state:", "State.parse"],
    ),
    ("a size", lambda: Problem.uniform(arms=0), ProblemError, ["arms: 0", "1 to 100000"]),
    ("a size", lambda: Problem.uniform(arms="3"), ProblemError, ['arms: "3"', "whole number"]),
    ("a size", lambda: Problem.uniform(arms=3, horizon=2.5), ProblemError, ["horizon: 2.5"]),
    ("a prior", lambda: BetaBernoulli(0, 1), ProblemError, ["good: 0", "positive"]),
    ("by position", lambda: Arm("blue"), TypeError, ["Arm", '"blue"', "by name: name, prior"]),
    ("a setting", lambda: gap(PROBLEM, "greedy", method="x"), ValueError, ["method: 'x'", "exact"]),
    ("a setting", lambda: evaluate(PROBLEM, ties="x"), ValueError, ["ties: 'x'", "least-pulled"]),
    ("a setting", lambda: evaluate(PROBLEM, truth=3), ValueError, ["truth: 3", "one per arm"]),
    (
        "a setting",
        lambda: evaluate(PROBLEM, truth=[2, 0]),
        ValueError,
        ["truth of arm-1: 2", "0 and 1"],
    ),
    ("a setting", lambda: simulate(PROBLEM, draws="x"), ValueError, ["draws:", '"x"', "whole"]),
    ("a setting", lambda: simulate(PROBLEM, draws=1), ValueError, ["draws: 1", "2 or more"]),
    ("a setting", lambda: simulate(PROBLEM, rng="x"), TypeError, ["rng:", '"x"', "Generator"]),
    ("a setting", lambda: simulate(PROBLEM, rng=-1), ValueError, ["seed: -1", "zero or more"]),
    ("a setting", lambda: simulate(PROBLEM, workers=0), ValueError, ["workers: 0", "1 or more"]),
    ("a setting", lambda: solve(PROBLEM, tol="x"), ValueError, ["tol: x", "zero or positive"]),
    ("prices", lambda: solve(PROBLEM, start="x"), ValueError, ["start:", '"x"', "one per stage"]),
    ("prices", lambda: dual_value(PROBLEM, [1.0]), ValueError, ["prices: 1", "4 stages"]),
    ("prices", lambda: dual_value(PROBLEM, "x"), ValueError, ["prices:", '"x"', "4 numbers"]),
]


@pytest.mark.parametrize(("what", "call", "kind", "names"), ASKED)
def test_a_wrong_argument_gets_one_line_with_what_it_was_and_what_is_allowed(
    what: str, call: Callable[[], object], kind: type[Exception], names: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    assert [name for name in names if name not in line] == [], line


def test_refusals_of_the_package_are_public_and_values_that_are_wrong() -> None:
    for name in REFUSALS:
        assert issubclass(PUBLIC[name], decobandit.DecoError)  # type: ignore[arg-type]
    assert issubclass(TrialError, decobandit.DecoError)


# -- rng ----------------------------------------------------------------------------------------

SEEDED: dict[str, Callable[..., object]] = {
    "simulate": lambda **rng: simulate(PROBLEM, "thompson", draws=20, **rng).results[0].value,
    "gap": lambda **rng: gap(PROBLEM, "greedy", method="simulated", draws=20, **rng).value,
    "information_bound": lambda **rng: information_bound(PROBLEM, draws=20, **rng).information,
    "follow": lambda **rng: follow(PROBLEM, "thompson", **rng).truth,
}


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_may_be_any_integer_and_decides_the_draws(name: str) -> None:
    call = SEEDED[name]
    assert call(rng=7) == call(rng=np.int64(7)) != call(rng=8)


def test_a_generator_gives_a_seed_that_results_report() -> None:
    seed = int(np.random.default_rng(5).integers(2**53))
    found = simulate(PROBLEM, "greedy", draws=20, rng=np.random.default_rng(5))
    assert found.settings["seed"] == seed
    again = simulate(PROBLEM, "greedy", draws=20, rng=seed)
    assert again.results[0].value == found.results[0].value
    rng = np.random.default_rng(5)
    assert follow(PROBLEM, "greedy", rng=rng).seed == seed
    assert follow(PROBLEM, "greedy", rng=rng).seed != seed  # the generator goes on
    bound = information_bound(PROBLEM, draws=20, rng=np.random.default_rng(5))
    assert bound.seed == seed


def test_no_seed_is_a_new_one_each_time() -> None:
    seeds = {follow(PROBLEM, "greedy", rng=None).seed for _ in range(3)}
    assert len(seeds) == 3


def test_the_best_bound_is_drawn_from_the_seed_that_is_given() -> None:
    season = [[abs(math.sin(k + t * k)) for t in range(20)] for k in range(1, 13)]
    arms = [
        Arm(name=f"{k}", prior=BetaBernoulli(1.1 + 0.1 * k, 1), reward=Reward(good=row))
        for k, row in enumerate(season)
    ]
    few = Problem(arms=tuple(arms), horizon=20)
    solution = solve(few)
    found = [bound(few, solution=solution, draws=60, rng=rng)[0].value for rng in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    estimated = information_bound(few, solution=solution, draws=60, rng=2)
    assert found[2] == pytest.approx(
        min(solution.upper_bound, estimated.information + 3 * estimated.information_se)
    )


def test_results_by_stage_are_arrays_that_agree_with_the_records() -> None:
    found = gap(PROBLEM, "greedy", solution=SOLUTION)
    rows = found.to_dict()["stages"]
    assert found.shortfall_by_stage.tolist() == [row["shortfall"] for row in rows]
    assert found.congestion_by_stage.tolist() == [row["congestion"] for row in rows]
    assert found.running_loss[-1] == pytest.approx(found.gap)
    assert found.shortfall_by_stage_se.tolist() == [0.0] * 4
    drawn = gap(PROBLEM, "greedy", solution=SOLUTION, method="simulated", draws=50)
    errors = [row["congestion_se"] for row in drawn.to_dict()["stages"]]
    assert drawn.congestion_by_stage_se.tolist() == errors
    rewards = evaluate(PROBLEM, "greedy").stage_rewards
    assert isinstance(rewards, np.ndarray)
    assert not rewards.flags.writeable


def test_functions_take_the_problem_first_and_settings_by_keyword() -> None:
    verbs = [bound, choose_path, count_states, dual_value, evaluate, follow, forecast, gap]
    verbs += [make_policy, optimum, read_outcomes, recommend, retrace]
    verbs += [save_problem, simulate, solve, with_history]
    asked = {"problem", "policy", "policies", "prices", "state", "history", "path", "data"}
    for verb in verbs:
        parameters = inspect.signature(verb).parameters
        assert next(iter(parameters)) == "problem", verb
        by_position = [one.name for one in parameters.values() if one.kind != one.KEYWORD_ONLY]
        assert set(by_position) <= asked, verb
        assert "seed" not in parameters
        assert "threads" not in parameters


@pytest.mark.parametrize(
    ("verb", "draws"),
    [
        (solve, False),
        (optimum, False),
        (evaluate, False),
        (operating_characteristics, False),
        (run_study, False),
        (bound, True),
        (gap, True),
        (simulate, True),
        (follow, True),
        (forecast, True),
    ],
)
def test_verbs_that_compute_take_workers_progress_and_rng(
    verb: Callable[..., object], draws: bool
) -> None:
    parameters = inspect.signature(verb).parameters
    assert parameters["workers"].default is None
    assert parameters["progress"].default is None
    assert ("rng" in parameters) == draws
    assert not draws or parameters["rng"].default == 1


def test_the_solution_is_solved_where_it_is_not_given() -> None:
    assert isinstance(SOLUTION, DualSolution)
    solved, given = (follow(PROBLEM, "deco", solution=each, rng=2) for each in (None, SOLUTION))
    assert solved.to_dict() == given.to_dict()
    assert bound(PROBLEM, draws=0)[0] == bound(PROBLEM, solution=SOLUTION, draws=0)[0]
