"""What the examples of docstrings find at hand, also with `pytest --doctest-modules src`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from decobandit.trials import Store

pytest_plugins = ["helpers.chromium"]  # fixtures of several rooms


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
        if "decobandit.client" not in request.node.name:
            yield
        else:
            with server_of_examples(trial.store) as (namespace["url"], namespace["token"]):
                yield
            del namespace["url"], namespace["token"]
    del namespace["trial"]


@contextmanager
def server_of_examples(store: Store) -> Iterator[tuple[str, str]]:
    """Address and token of an administrator, in the examples of `decobandit.client`."""
    from decobandit.server.app import create_app
    from decobandit.server.tokens import new_token
    from helpers.web_server import served

    with served(create_app(store)) as port:
        yield f"http://127.0.0.1:{port}", new_token(store, "reader", "admin")[1]
