"""Thompson sampling: draw every arm's mean reward from its posterior, pull the largest.

    bad + (good - bad) p,   p ~ Beta(a, b)        drawn anew at every stage; m pulls: the m largest

Thompson, On the likelihood that one unknown probability exceeds another in view of the evidence of
two samples, Biometrika 1933. Serves any problem. Rewards that are equal for certain tie; each tied
arm is as likely as the others. With one pull per stage the chances of the arms are integrals, see
`best_chances`, and the policy has a `distribution`; with several it has none.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..problem import State, States
from ..support import Floats, Ints
from .allotting import largest_arms
from .asked_states import check_turn
from .best_arm import ByChanceOfBest
from .best_chances import best_chances
from .chances import of_allowed
from .draw_bins import Bins, bins
from .kernels.episodes import Episodes
from .kernels.thompson import LARGE_COUNTS, SURE_KEY, key, play
from .kernels.thompson_bins import play_bins
from .randomised import RandomisedPolicy
from .records import Distribution

# Stages before a block, for each of its own, up to which it is played by bins. Bins must recall
# those stages: one takes about a thirtieth of the time that bins save in a stage that is played.
MOST_RECALLED = 16


class ThompsonPolicy(ByChanceOfBest, RandomisedPolicy):
    """Pulls the arms of the largest drawn mean rewards."""

    name = "thompson"
    symmetric = True
    kind_place = "decobandit.policies.kinds.rules:KindThompsonPolicy"
    kind_batch_place = "decobandit.policies.kinds.batches:KindBatchThompsonPolicy"
    batch_place = "decobandit.policies.batches.thompson:BatchThompsonPolicy"

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        if rng is None or stage >= self.problem.horizon:
            return super().allocate_many(stage, states, rng)
        drawn = of_allowed(self.arms.draws(stage, states, 1, rng)[:, 0], states)
        return largest_arms(drawn, states.pulls, self.problem.pulls_per_stage, 0.0, "random", rng)

    @property
    def has_distribution(self) -> bool:
        return self.problem.pulls_per_stage == 1

    def draw(self, stage: int, state: State, rng: np.random.Generator) -> tuple[int, ...]:
        from scipy.special import expit  # late: trials do not need scipy

        a, b, low, span = self._better(stage, state)
        log_odds = _log_gamma(a, rng) - _log_gamma(b, rng)
        sure = SURE_KEY * (rng.random(a.size) - 0.5)
        # draws rounded to an end of the rewards still differ in their distance from it
        keys = [
            key(y, each) if each > 0.0 else own
            for y, each, own in zip(log_odds, span, sure, strict=True)
        ]
        order = np.lexsort((keys, low + span * expit(log_odds)))[::-1]
        return tuple(order[: self.problem.pulls_per_stage].tolist())

    def distribution(self, stage: int, state: State) -> Distribution:
        check_turn(self.problem, stage, state)
        if stage >= self.problem.horizon:
            return [(self.deploy(stage, state), 1.0)]
        chances = best_chances(*self._better(stage, state))
        return [((arm,), float(chance)) for arm, chance in enumerate(chances) if chance > 0.0]

    def _better(self, stage: int, state: State) -> tuple[Floats, Floats, Floats, Floats]:
        """Posterior Beta(a, b) of the better outcome; what the other earns; how much more it is."""
        a, b = self.arms.posterior(state)
        good, bad = self.arms.good[stage], self.arms.bad[stage]
        up = good >= bad
        low, span = np.minimum(good, bad), np.abs(good - bad)
        return np.where(up, a, b), np.where(up, b, a), low, span

    @cached_property
    def bins(self) -> Bins | None:
        """What the kernel plays with where one pull is made of arms that differ in p only."""
        arms, stages = self.arms, slice(self.problem.horizon)
        good, bad = arms.good[stages], arms.bad[stages]
        alike = bool(np.all(good == good[0, 0]) and np.all(bad == bad[0, 0]))
        usual = self.problem.pulls_per_stage == 1 and good[0, 0] > bad[0, 0]
        if not (alike and usual and np.all(arms.alpha + arms.beta < LARGE_COUNTS)):
            return None
        return bins(arms.alpha, arms.beta)

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Play stages first..last-1 of all episodes."""
        arms, m = self.arms, self.problem.pulls_per_stage
        if first <= MOST_RECALLED * (last - first) and self.bins is not None:
            play_bins(episodes, arms.alpha, arms.beta, *self.bins, rng)
        else:
            good, bad = arms.good[first:last], arms.bad[first:last]
            play(episodes, m, arms.alpha, arms.beta, good, bad, rng)


def _log_gamma(a: Floats, rng: np.random.Generator) -> Floats:
    """Logarithms of gamma draws, which themselves may be too small for a double where a < 1."""
    return np.asarray(np.log(rng.standard_gamma(a + 1.0)) + np.log1p(-rng.random(a.size)) / a)
