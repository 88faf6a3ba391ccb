"""States in which a policy can be asked: are they of the problem, and before which stage."""

from __future__ import annotations

from ..problem import Problem, State
from ..support import shown


def checked_state(state: object, problem: Problem) -> State:
    """The state; an error where it is something else, or cannot be one of the problem."""
    if not isinstance(state, State):
        raise TypeError(f"state: {shown(state)} is not a decobandit.State; State.parse reads text")
    state.check(problem)
    return state


def next_stage(problem: Problem, state: State) -> int:
    """The stage that a state is before; a ValueError where nothing is left to pull."""
    stage = state.stage(problem.pulls_per_stage)
    if stage >= problem.stages:
        raise ValueError(f"all {problem.horizon} stages have been played; nothing is left to pull")
    return stage


def check_turn(problem: Problem, stage: int, state: State) -> None:
    """A ValueError unless a policy can be asked for the arms of this stage in this state."""
    if not 0 <= stage < problem.stages:
        raise ValueError(f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}")
    if len(state.pulls) != problem.n_arms:
        raise ValueError(f"state: {len(state.pulls)} arms; the problem has {problem.n_arms}")
    most = stage * (problem.pulls_per_stage if problem.repeat else 1)
    if max(state.pulls) > most:
        raise ValueError(f"state: {max(state.pulls)} pulls of one arm by stage {stage}")
