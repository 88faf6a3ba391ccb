"""What the examples of docstrings find at hand, also with `pytest --doctest-modules src`."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def trial_of_examples(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A folder for the files of an example, and `trial`: one that was just created there."""
    example = isinstance(request.node, pytest.DoctestItem)
    if not example and "doctest_namespace" not in request.fixturenames:
        yield
        return
    namespace: dict[str, Any] = request.getfixturevalue("doctest_namespace")
    from decobandit import Problem
    from decobandit.trials import create_trial

    problem = Problem.uniform(arms=2, horizon=5)
    folder = request.getfixturevalue("tmp_path")
    monkeypatch.chdir(folder)
    trial = create_trial(problem, name="pilot", db=folder / "trials.db", seed=1)
    with trial.store:
        namespace["trial"] = trial
        yield
    del namespace["trial"]
