"""Problems, prices and states to test on: a named problem of every kind, and random ones."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State, Terminal, terminal_table
from decobandit.problem.fields import Table
from helpers.oracles import rewards, stage_pulls

# -- fixed problems -----------------------------------------------------------------------------


def random_table(rng: np.random.Generator, horizon: int) -> Table:
    """Last rewards without any order: the pull sets of such an arm have holes."""
    return terminal_table(horizon, lambda good, bad: round(float(rng.normal()), 3))


def _arm(name: str, prior: tuple[float, float], **fields: object) -> Arm:
    return Arm.model_validate({"name": name, "prior": {"good": prior[0], "bad": prior[1]}} | fields)


def heterogeneous(horizon: int) -> Problem:
    """Three kinds of arms, with real priors and a reward for bad outcomes."""
    arms = (
        _arm("a", (1, 1)),
        _arm("b", (0.7, 1.9), reward={"good": 1.5, "bad": -0.25}),
        _arm("c", (1, 1)),
        _arm("d", (4.3, 2.2), reward={"good": 0.2, "bad": 0.6}),  # bad outcomes earn more
    )
    return Problem(arms=arms, horizon=horizon)


def seasonal(horizon: int) -> Problem:
    """Rewards that change with the stage, in sign and in order."""
    season = [round(float(np.sin(1.0 + t)), 3) for t in range(horizon)]
    falling = [round(1.0 - 0.5 * t / horizon, 3) for t in range(horizon)]
    arms = (
        _arm("a", (1, 1), reward={"good": falling, "bad": 0.1}),
        _arm("b", (2, 1), reward={"good": season, "bad": falling}),
        _arm("c", (2, 1), reward={"good": season, "bad": falling}),
    )
    return Problem(arms=arms, horizon=horizon)


def tabled(horizon: int) -> Problem:
    """Last rewards in tables, one of them without any order."""
    square = terminal_table(horizon, lambda good, bad: 0.1 * good * good - 0.3 * bad)
    rough = random_table(np.random.default_rng(5), horizon)
    arms = (
        _arm("a", (1, 1), terminal=rough),
        _arm("b", (1, 1), terminal=square),
        _arm("c", (1, 1)),
        _arm("d", (1, 1), terminal=rough),
    )
    return Problem(arms=arms, horizon=horizon)


def deployed(horizon: int) -> Problem:
    """One arm is chosen at the end; experiments cost something."""
    arms = (
        _arm("a", (1, 1), reward={"good": 0.5, "bad": -0.5}),
        _arm("b", (1, 1), reward={"good": 0.5, "bad": -0.5}),
        _arm("c", (2.5, 3.5)),
    )
    return Problem(arms=arms, horizon=horizon, terminal=Terminal(deploy=12.5))


def several_pulls(horizon: int) -> Problem:
    """Two of five arms are pulled at every stage."""
    arms = Problem.uniform(arms=3, horizon=horizon).arms + heterogeneous(horizon).arms[1::2]
    return Problem(arms=arms, horizon=horizon, pulls_per_stage=2)


KINDS: dict[str, Callable[[int], Problem]] = {
    "uniform": lambda horizon: Problem.uniform(arms=4, horizon=horizon),
    "heterogeneous": heterogeneous,
    "seasonal": seasonal,
    "tabled": tabled,
    "deployed": deployed,
    "several pulls": several_pulls,
}


# -- sizes --------------------------------------------------------------------------------------


def largest_reward(problem: Problem) -> float:
    """The largest absolute reward of one outcome, last rewards included: the unit of rounding."""
    last = [abs(x) for arm in problem.arms for row in arm.terminal or () for x in row]
    stages = range(len(stage_pulls(problem)))
    outcomes = [abs(x) for arm in problem.arms for t in stages for x in rewards(problem, arm, t)]
    return max(last + outcomes) or 1.0


def at_stake(problem: Problem) -> float:
    """An amount that the rewards of no episode exceed."""
    return largest_reward(problem) * (sum(stage_pulls(problem)) + problem.n_arms)


# -- random prices, states and problems ---------------------------------------------------------


def random_prices(problem: Problem, seed: int) -> list[float]:
    """Prices between every arm worth a pull and hardly any."""
    rng = np.random.default_rng(seed)
    reach = largest_reward(problem)
    return [float(x) for x in rng.uniform(-0.3 * reach, reach, len(stage_pulls(problem)))]


def random_state(problem: Problem, stage: int, rng: np.random.Generator) -> State:
    """Outcomes that can have been observed when `stage` begins."""
    good, bad = [0] * problem.n_arms, [0] * problem.n_arms
    for _ in range(min(stage, problem.horizon)):
        for arm in rng.choice(problem.n_arms, problem.pulls_per_stage, replace=False):
            (good if rng.random() < 0.5 else bad)[arm] += 1
    return State.of_counts(good=tuple(good), bad=tuple(bad))


# many numbers are round ones, so that ties and dead states are common
_PRIORS = st.sampled_from([0.5, 1.0, 2.0]) | st.floats(0.1, 10.0)
_REWARDS = st.sampled_from([-1.0, 0.0, 0.5, 1.0]) | st.floats(-2.0, 2.0).map(lambda x: round(x, 3))


@st.composite
def problems(draw: st.DrawFn, *, max_horizon: int = 6, max_kinds: int = 3) -> Problem:
    """Small problems of every kind that can be written."""
    horizon = draw(st.integers(1, max_horizon))
    last = draw(st.sampled_from(["nothing", "tables", "deployment"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    per_stage = _REWARDS | st.lists(_REWARDS, min_size=horizon, max_size=horizon).map(tuple)
    arms: list[Arm] = []
    for kind in range(draw(st.integers(1, max_kinds))):
        arm = Arm(
            name="any",
            prior=BetaBernoulli(good=draw(_PRIORS), bad=draw(_PRIORS)),
            reward=Reward(good=draw(per_stage), bad=draw(per_stage)),
            terminal=random_table(rng, horizon) if last == "tables" else None,
        )
        copies = range(draw(st.integers(1, 3)))
        arms += [arm.model_copy(update={"name": f"{kind}-{copy}"}) for copy in copies]
    deploy = draw(st.sampled_from([0.5, 3.0, 20.0])) if last == "deployment" else 0.0
    return Problem(
        arms=tuple(arms),
        horizon=horizon,
        pulls_per_stage=draw(st.integers(1, len(arms))),
        terminal=Terminal(deploy=deploy),
    )
