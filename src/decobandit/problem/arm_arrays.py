"""The groups of a problem as arrays, the form that kernels use."""

from __future__ import annotations

import numpy as np

from .kernels.arms import Arms
from .kernels.layout import slab_size
from .model import Problem


def arms_of(problem: Problem) -> Arms:
    """Stack the groups of a problem."""
    groups = problem.groups
    slab = slab_size(problem.stages)
    none = np.zeros(slab)
    return Arms(
        alpha=np.array([group.alpha for group in groups]),
        beta=np.array([group.beta for group in groups]),
        counts=np.array([float(group.count) for group in groups]),
        reward_good=np.stack([group.reward_good for group in groups]),
        reward_bad=np.stack([group.reward_bad for group in groups]),
        terminal=np.stack([none if g.terminal is None else g.terminal for g in groups]),
    )
