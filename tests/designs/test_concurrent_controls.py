"""Final tests with concurrent controls: by hand, and by all paths of a small trial."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom

from decobandit import Arm, Design, NormalNormal, Problem, operating_characteristics
from decobandit.problem import Rules
from decobandit.trials import Store, create_trial, open_store
from helpers.refusals import refused

# control, one arm from stage 4 on, one at stages 0..2 and 6..7
ARMS = [
    Arm(name="control"),
    Arm(name="late", available=(4, 8)),
    Arm(name="twice", available=((0, 3), (6, 8))),
]
PLATFORM = Problem(horizon=8, arms=ARMS)
TRUTH = (0.3, 0.8, 0.6)
RULES = {"control": "control", "test": {"kind": "fisher", "alpha": 0.6}}


def equal_pulls() -> list[int]:
    """Arms of `equal` at every stage, which depend on no outcome."""
    pulls, due, arms = [0, 0, 0], [0.0, 0.0, 0.0], []
    for stage in range(8):
        able = PLATFORM.available[stage]
        lacking = [(due[k] - pulls[k] if able[k] else -1e9) for k in range(3)]
        most = max(lacking)
        tied = [k for k in range(3) if lacking[k] > most - 1e-9]
        arm = min(tied, key=lambda k: (pulls[k], k))
        arms.append(arm)
        pulls[arm] += 1
        due = [due[k] + able[k] / able.sum() for k in range(3)]
    return arms


def declared_by_hand(arms: list[int], outcomes: tuple[int, ...], *, concurrent: bool) -> set[str]:
    """Fisher's test of each arm, with the table counted pull by pull."""
    names = set()
    for k in (1, 2):
        own = [y for arm, y in zip(arms, outcomes, strict=True) if arm == k]
        control = [
            y
            for stage, (arm, y) in enumerate(zip(arms, outcomes, strict=True))
            if arm == 0 and (not concurrent or PLATFORM.available[stage, k])
        ]
        n, m, g, h = len(own), len(control), sum(own), sum(control)
        p = hypergeom.sf(g - 1, n + m, g + h, n)
        if p <= 0.6 + 1e-9:
            names.add(ARMS[k].name)
    return names


@pytest.mark.parametrize("controls", ["all", "concurrent"])
def test_probabilities_of_declaring_are_those_of_all_paths(controls: str) -> None:
    arms, expected = equal_pulls(), np.zeros(3)
    for outcomes in product((0, 1), repeat=8):
        chance = np.prod(
            [TRUTH[k] if y else 1 - TRUTH[k] for k, y in zip(arms, outcomes, strict=True)]
        )
        names = declared_by_hand(arms, outcomes, concurrent=controls == "concurrent")
        expected += chance * np.array([arm.name in names for arm in ARMS])
    scenario = {"name": "s", "truth": TRUTH}
    design = Design(
        **RULES, controls=controls, policies=["equal"], draws=20_000, seed=1, scenarios=[scenario]
    )
    found = operating_characteristics(PLATFORM, design, exact=False)
    (row,) = found.scenarios[0].policies
    assert row.reject_by_arm == pytest.approx(expected, abs=6 * np.sqrt(0.25 / 20_000))


def test_both_ways_of_counting_controls_differ() -> None:
    arms = equal_pulls()
    assert any(
        declared_by_hand(arms, outcomes, concurrent=True)
        != declared_by_hand(arms, outcomes, concurrent=False)
        for outcomes in product((0, 1), repeat=8)
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "platform.db") as store:
        yield store


@pytest.mark.parametrize("controls", ["all", "concurrent"])
def test_a_live_trial_declares_the_same_arms(store: Store, controls: str) -> None:
    arms, rng = equal_pulls(), np.random.default_rng(3)
    for number in range(6):
        rules = Rules(**RULES, controls=controls)
        trial = create_trial(PLATFORM, policy="equal", design=rules, db=store, name=f"t{number}")
        outcomes = tuple(rng.integers(0, 2, 8).tolist())
        for arm, outcome in zip(arms, outcomes, strict=True):
            slot = trial.ask()
            assert slot.arm == ARMS[arm].name
            trial.tell(slot.id, outcome)
        names = declared_by_hand(arms, outcomes, concurrent=controls == "concurrent")
        assert set(trial.declared() or ()) == names


def test_measurements_and_posteriors_use_concurrent_controls(store: Store) -> None:
    """Control changes for the worse before the arm joins: only all controls show a difference."""
    arms = [
        Arm(name="control", prior=NormalNormal(0, 10), noise_sd=1.0),
        Arm(name="late", prior=NormalNormal(0, 10), noise_sd=1.0, available=(4, 8)),
    ]
    found = {}
    for controls in ("all", "concurrent"):
        for kind in ("z", "posterior"):
            level = {"alpha": 0.1} if kind == "z" else {"threshold": 0.9}
            rules = Rules(control="control", controls=controls, test={"kind": kind, **level})
            problem = Problem(horizon=8, arms=arms)
            trial = create_trial(problem, policy="equal", design=rules, db=store)
            for stage in range(8):
                trial.tell(trial.ask().id, -6.0 if stage < 4 else 1.0)
            found[controls, kind] = trial.declared()
    assert found["all", "z"] == found["all", "posterior"] == ("late",)
    assert found["concurrent", "z"] == found["concurrent", "posterior"] == ()


def test_what_does_not_combine_is_refused() -> None:
    scenario = {"name": "s", "truth": TRUTH}

    def design(**settings: object) -> Design:
        return Design(**{"controls": "concurrent", "scenarios": [scenario]} | settings)

    with refused("invalid_problem", "design.controls"):
        operating_characteristics(PLATFORM, design())
    with refused("invalid_problem", "design.controls"):
        operating_characteristics(PLATFORM, design(control="control", stop={"superiority": 0.99}))
    with refused("unsupported", "exact"):
        operating_characteristics(PLATFORM, design(control="control"), exact=True)


def test_without_windows_nothing_changes() -> None:
    problem, scenario = Problem.uniform(arms=2, horizon=10), {"name": "s", "truth": (0.3, 0.6)}
    rows = [
        operating_characteristics(
            problem,
            Design(control="arm-1", controls=controls, policies=["equal"], scenarios=[scenario]),
        )
        .scenarios[0]
        .policies[0]
        for controls in ("all", "concurrent")
    ]
    assert rows[0].exact
    assert rows[0].reject == rows[1].reject
