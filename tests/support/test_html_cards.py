"""What notebooks show: well-formed HTML, all text escaped, in no colours of its own."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from decobandit import (
    Arm,
    Chain,
    Design,
    NormalNormal,
    Problem,
    evaluate,
    follow,
    gap,
    make_policy,
    operating_characteristics,
    policy_names,
    recommend,
    simulate,
    solve,
)
from decobandit.support import Shown
from decobandit.support.frames import MOST_ROWS, Card, card_html
from decobandit.trials import create_trial, open_store

NASTY = "<script>alert('x')</script> & \"q\""
MEASURED = Arm(name=NASTY, prior=NormalNormal(0, 1), noise_sd=1)
PROBLEM = Problem(arms=[Arm(name=NASTY), Arm(name="b")], horizon=3)
DESIGN = Design(policies=["equal"], scenarios=[{"name": NASTY, "truth": [0.5, 0.6]}])


class Checked(HTMLParser):
    """Tags that are opened and closed in order, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def objects() -> dict[str, Callable[[], Shown]]:
    return {
        "problem": lambda: PROBLEM,
        "normal": lambda: Problem(arms=[MEASURED], horizon=2),
        "solution": lambda: solve(PROBLEM),
        "policy": lambda: make_policy(PROBLEM, "greedy"),
        "simulation": lambda: simulate(PROBLEM, ["greedy", "equal"], draws=10),
        "evaluation": lambda: evaluate(PROBLEM, "greedy", truth=[0.1, 0.2]),
        "gap": lambda: gap(PROBLEM, "greedy"),
        "episode": lambda: follow(PROBLEM, "greedy"),
        "design": lambda: operating_characteristics(PROBLEM, DESIGN),
        "recommendation": lambda: recommend(PROBLEM, "1/1,0/0", "greedy"),
    }


@pytest.mark.parametrize("name", list(objects()))
def test_what_notebooks_show_is_well_formed_and_escaped(name: str) -> None:
    page = objects()[name]()._repr_html_()
    found = Checked(page)
    assert not found.open
    assert set(found.tags) <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert len(page) < 8000
    if NASTY in "".join(found.words):
        assert "&lt;script&gt;" in page
    # the page's own colours, and a grey that is seen on white and on black
    assert set(re.findall(r"[;\"](?:color|background|border[a-z-]*):([^;\"]+)", page)) <= {
        "inherit",
        "transparent",
        "collapse",
        "1px solid rgba(128,128,128,.4)",
    }


def test_a_trial_is_shown_with_its_counts(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(PROBLEM, policy="equal", name="<b>", db=store)
        trial.tell(trial.ask().id, 1)
        trial.ask()
        words = Checked(trial._repr_html_()).words
    assert "Trial <b>: 2 arms, horizon 3" in words
    table = words[words.index("arm") :]
    assert table == ["arm", "good", "pulls", "pending", NASTY, "1", "1", "0", "b", "0", "0", "1"]


def test_every_policy_of_the_catalogue_says_what_it_is() -> None:
    shared = Problem.uniform(arms=2, horizon=2, pulls_per_stage=2, repeat=True)
    wear = Chain([[0.9, 0.1], [0, 1]], [[1, 0], [1, 0]], [1, 0], [0.5, -0.5])
    restless = Problem.uniform(arms=2, horizon=2, prior=wear)
    for name in policy_names():
        for problem in (PROBLEM, shared, restless):
            try:
                policy = make_policy(problem, name)
            except ValueError:
                continue
            assert (
                Checked(policy._repr_html_()).words[0].startswith(f"Policy {policy.name}: 2 arms")
            )
            break
        else:
            pytest.fail(f"{name} serves none of the problems")


def test_long_tables_are_cut_and_say_so() -> None:
    card = Card("long", columns={"x": list(range(MOST_ROWS + 1234)), "none": [None] * 1244})
    words = Checked(card_html(card)).words
    assert words[-1] == "… 1,234 more rows: to_frame()"
    assert words.count("0") == 1
    assert "10" not in words


def test_numbers_are_short_and_facts_that_are_not_there_are_left_out() -> None:
    card = Card("t", {"a": None, "b": 1234567, "c": 2 / 3, "d": True}, below="last")
    assert Checked(card_html(card)).words == ["t", "b 1,234,567 · c 0.666667 · d yes", "last"]
