"""Names of trials that cannot be mistaken."""

from pathlib import Path

import pytest

from decobandit.problem import Problem
from decobandit.trials import create_trial, open_store, open_trial
from helpers.refusals import refused

PROBLEM = Problem.uniform(arms=2, horizon=3)


@pytest.mark.parametrize(
    "name", [".", "..", "a/b", "-x", "", " x", "a\u3164", "\u2800", "a\u200bb"]
)
def test_names_like_paths_options_or_nothing_are_refused(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / "t.db") as store, refused("bad_request", "name"):
        create_trial(PROBLEM, name=name, db=store)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("pilot", "p\u0456lot"),  # Cyrillic
        ("pilot", "pil\u03bft"),  # Greek
        ("\u0441\u043e\u0441\u043e", "coco"),  # all Cyrillic
        ("caf\u00e9", "cafe\u0301"),  # the accent by itself
        ("pilot", "\uff50\uff49\uff4c\uff4f\uff54"),  # wide
        ("pilot", "pilot\ufe0f"),  # with a sign that selects a form
    ],
)
def test_a_name_that_looks_like_another_is_refused(tmp_path: Path, name: str, other: str) -> None:
    with open_store(tmp_path / "t.db") as store:
        made = create_trial(PROBLEM, name=name, db=store)
        with refused("conflict", "name"):
            create_trial(PROBLEM, name=other, db=store)
        assert open_trial(name, db=store).id == made.id


def test_names_that_can_be_told_apart_are_allowed(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        for name in ("pilot", "Pilot", "pilot.", "\u043f\u0438\u043b\u043e\u0442", "..."):
            create_trial(PROBLEM, name=name, db=store)


def test_a_cancelled_allocation_of_nobody_frees_no_subject(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(PROBLEM, db=store)
        trial.ask(subject="\u2800")  # looks like nothing
        trial.cancel(trial.ask().id, reason="did not come")
        assert trial.read().look_alike("\u3164") == "\u2800"
