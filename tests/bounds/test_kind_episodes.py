"""Episodes of arms of any kind: against good and bad outcomes, simulations and hand-made terms."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    MarkovState,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    follow,
    gap,
    read_outcomes,
    retrace,
    simulate,
    solve,
)
from decobandit.figures import episode_figure, episode_page
from helpers.refusals import refused

WORN = MarkovArm(
    first="new",
    states={
        "new": MarkovState(mean=1.0, next={"fine": (0.5, "new"), "worn": (0.5, "old")}),
        "old": MarkovState(mean=0.25, next={"worn": (1.0, "old")}),
    },
)
MIXED = Problem(
    horizon=7,
    arms=[
        Arm(name="grade", prior=DirichletCategorical([1, 2, 1]), reward=Reward(values=[0, 1, 2])),
        Arm(name="lab", prior=NormalNormal(1, 1), noise_sd=1),
        Arm(name="visits", prior=GammaPoisson(2, 2)),
        Arm(name="cure", prior=BetaBernoulli(1, 1)),
    ],
)


def test_two_classes_are_good_and_bad() -> None:
    binary = Problem.uniform(
        arms=3, horizon=6, prior=BetaBernoulli(1, 2), terminal=Terminal(deploy=3.0)
    )
    classes = Problem.uniform(
        arms=3,
        horizon=6,
        prior=DirichletCategorical([2, 1]),
        reward=Reward(values=[0, 1]),
        terminal=Terminal(deploy=3.0),
    )
    history = [(0, 1), (1, 0), (0, 1), (0, 0), (2, 1), (2, 1), (2, None)]
    one = retrace(binary, history, solution=solve(binary, tol=1e-9))
    two = retrace(classes, history, solution=solve(classes, tol=1e-9))
    good = ((True,), (False,), (True,), (False,), (True,), (True,), ())
    assert two.favourable == one.favourable == good
    np.testing.assert_array_equal(two.pulls, one.good + one.bad)
    np.testing.assert_allclose(two.expected_reward, one.expected_reward, atol=1e-12)
    np.testing.assert_allclose(two.index, one.index, atol=1e-6)
    assert two.seen[4] == ("1+2", "1+0", "0+0")


def test_an_episode_is_the_first_of_a_simulation() -> None:
    found = follow(MIXED, "knowledge-gradient", rng=5)
    (played,) = simulate(
        MIXED, ["knowledge-gradient"], draws=128, per_draw=1, rng=5, keep_episodes=True
    ).results
    assert played.episodes is not None
    first = {name: column[:7].tolist() for name, column in played.episodes.items()}
    assert first["draw"] == [0] * 7
    assert [arm for (arm,) in found.pulled] == first["arm"]
    assert [float(outcome) for (outcome,) in found.outcomes] == first["outcome"]
    assert found.truth is not None
    told = [found.truth[arm] for (arm,) in found.pulled]
    assert told == pytest.approx(first["truth"], abs=1e-12)


def test_losses_of_all_paths_average_to_the_exact_gap() -> None:
    """Theorem 1, by enumeration: an own arm beside classes, two stages."""
    problem = Problem(
        horizon=2,
        arms=[
            Arm(name="machine", prior=WORN),
            Arm(name="grade", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0.2, 1.0])),
        ],
    )
    solution = solve(problem, tol=1e-9)

    lost = 0.0
    for first, chance in (("fine", 0.5), ("worn", 0.5)):
        for second, then in _second(first):
            episode = retrace(problem, [("machine", first), second], solution=solution)
            lost += chance * then * episode.running_loss[1]
    # greedy pulls the machine (1 against 0.6), then whichever is worth more
    assert follow(problem, "greedy", solution=solution).pulled[0] == (0,)
    expected = gap(problem, "greedy", solution=solution)
    assert expected.method == "exact"
    assert lost == pytest.approx(expected.running_loss[-1], abs=1e-9)


def _second(first: str) -> list[tuple[tuple[str, object], float]]:
    if first == "fine":
        return [(("machine", "fine"), 0.5), (("machine", "worn"), 0.5)]
    return [(("grade", 0), 0.5), (("grade", 1), 0.5)]


def test_terms_of_the_last_stage_are_expected_rewards() -> None:
    history = [("grade", 2), ("lab", 1.5), ("visits", 3), ("cure", 1), ("lab", -0.25), ("cure", 0)]
    found = retrace(MIXED, [*history, ("grade", 0)])
    means = [(2 * 1 + 2 * 2) / 5, (1 + 1.5 - 0.25) / 3, (2 + 3) / (2 + 1), 2 / 4]
    np.testing.assert_allclose(found.expected_reward[6], means, atol=1e-12)
    np.testing.assert_allclose(found.value_of_information[6], 0.0, atol=1e-9)
    assert [favour for (favour,) in found.favourable] == [
        True,
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert found.seen[6] == ("0+0+1", "1.25/2", "3/1", "1/2")


def test_pulls_of_a_frame_are_read_again() -> None:
    found = follow(MIXED, "deco", rng=2)
    state = read_outcomes(MIXED, found.to_frame("pulls"))
    texts = str(state).split(",")
    assert sum(state.pulls) == 7
    again = retrace(MIXED, [(found.pulled[t][0], found.outcomes[t][0]) for t in range(7)])
    assert again.outcomes == found.outcomes
    last = State.parse(",".join(found.seen[6]), MIXED)
    assert [a for a, (x, y) in enumerate(zip(last.pulls, state.pulls, strict=True)) if x != y] == [
        found.pulled[6][0]
    ]
    assert len(texts) == 4


def test_wrong_outcomes_are_refused() -> None:
    with refused("invalid_argument", "outcome"):
        retrace(MIXED, [("grade", 3)])
    with refused("invalid_argument", "history"):
        retrace(MIXED, [("lab", None)])


def test_figures_say_what_points_mean() -> None:
    found = follow(MIXED, "deco", rng=2)
    figure = episode_figure(found)
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert "pulled, at least as expected" in labels
    assert "pulled, good" not in labels
    assert "seen: %{customdata[0]}" in episode_page(found)
