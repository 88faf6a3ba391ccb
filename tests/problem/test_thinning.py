"""Problems with some of their stages: rewards by stage are those of the stages that are kept."""

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    NormalNormal,
    Problem,
    Reward,
    Terminal,
)
from decobandit.problem import stages_kept, thinned


def test_kept_stages_are_evenly_spaced() -> None:
    assert stages_kept(12, 4).tolist() == [1, 4, 7, 10]
    assert stages_kept(5, 2).tolist() == [1, 3]
    assert stages_kept(7, 7).tolist() == list(range(7))


def test_rewards_of_the_kept_stages_are_kept_and_values_of_classes_stay() -> None:
    problem = Problem(
        horizon=4,
        arms=[
            Arm(name="a", prior=BetaBernoulli(2, 3), reward=Reward(good=[1, 2, 3, 4], bad=-1)),
            Arm(name="b", prior=NormalNormal(0, 1), noise_sd=2, reward=Reward(factor=[5, 6, 7, 8])),
            Arm(
                name="c",
                prior=DirichletCategorical([1, 1, 1, 1]),
                reward=Reward(values=[0, 1, 2, 3]),
            ),
        ],
        terminal=Terminal(deploy=9),
    )
    fewer = thinned(problem, 2)
    assert fewer == Problem(
        horizon=2,
        arms=[
            Arm(name="a", prior=BetaBernoulli(2, 3), reward=Reward(good=[2, 4], bad=-1)),
            Arm(name="b", prior=NormalNormal(0, 1), noise_sd=2, reward=Reward(factor=[6, 8])),
            Arm(
                name="c",
                prior=DirichletCategorical([1, 1, 1, 1]),
                reward=Reward(values=[0, 1, 2, 3]),
            ),
        ],
        terminal=Terminal(deploy=9),
    )
