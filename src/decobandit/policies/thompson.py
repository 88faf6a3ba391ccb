"""Thompson sampling: draw every arm's mean reward from its posterior, pull the largest.

    thompson           drawn at every stage, m pulls: the m largest; in batches for each unit
    thompson-shares    batches, drawn multinomially with shares p_k = P(arm k is best)
    top-two            shares p_k (b + (1 - b) sum_{j != k} p_j / (1 - p_j)),   b = 1/2

Thompson, On the likelihood that one unknown probability exceeds another in view of the evidence of
two samples, Biometrika 1933. Top-two draws an arm as Thompson sampling does, and with probability
1 - b draws on until another arm is best: Russo, Simple Bayesian algorithms for best-arm
identification, Operations Research 2020. Serve any problem whose arms have an unknown mean. Rewards
that are equal for certain tie; each tied arm is as likely as the others. With one pull per stage
the probabilities of the arms are integrals.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..problem import DEFAULT_TIES, Problem, Rules, State, States, TieRule
from ..support import Floats, Ints
from .allocation import Random, check_turn, distinct_states, largest_arms, of_allowed, restricted
from .comparison import (
    BetaComparison,
    Comparison,
    best_probabilities,
    cdf,
    compare_arms,
    fits_beta,
)
from .index_policy import IndexPolicy
from .kernels.episodes import Episodes
from .kernels.thompson import LARGE_COUNTS, SURE_KEY, key, play, play_bins
from .requirements import batches, unknown_means

# Stages before a block, for each of its own, up to which it is played by bins. Bins must recall
# those stages: one takes about a thirtieth of the time that bins save in a stage that is played.
MOST_RECALLED = 16
TOP_PROBABILITY = 0.5  # probability of the first of the two
# Bins in which the largest draw is searched for. Their position does not affect which arm is
# pulled, only how often two draws share a bin. Cuts are quantiles, at probabilities sin^2 so that
# outer bins are small, of a mixture: half the distribution of the largest prior draw, where the
# best arm is likely to be, and half that of any.
CUTS = 48  # a multiple of the vector width; with more, fewer draws share a bin, but each costs time
_MAX_LOG_ODDS = 700.0
_HALVINGS = 60
_MIN_LOG_WEIGHT = -500.0  # far above what a double can hold


def _single_within_limits(problem: Problem) -> str | None:
    if not problem.may_wait or batches(problem) is not None:
        return None
    limit = "a budget" if problem.resources is None else "resources"
    return f"draws single pulls within {limit}, not batches; use 'deco' or 'greedy'"


class ThompsonPolicy(IndexPolicy):
    """Pulls the arms of the largest drawn mean rewards."""

    name = "thompson"
    symmetric = True
    plans_budget = plans_resources = True
    per_cost = True
    serves_drift = True
    requires = (unknown_means, _single_within_limits)
    randomised = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=DEFAULT_TIES)

    # -- draws --------------------------------------------------------------------------------

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        if rng is None:
            raise self.no_generator()
        models = [group.model for group in self.problem.groups]

        def draw(k: int, stats: Floats) -> Floats:
            return models[k].mean_at(models[k].sample(stats, rng))

        return self.rewards(self.compared(stage), self.by_group(states, draw))

    def allocate_many(self, stage: int, states: States, rng: Random = None) -> Ints:
        simple = not (self.problem.may_wait or self.batches)
        if rng is None or stage >= self.problem.horizon or not simple:
            return super().allocate_many(stage, states, rng)
        drawn = of_allowed(self.values(stage, states, rng), states)
        return largest_arms(drawn, states.pulls, self.problem.pulls_per_stage, 0.0, "random", rng)

    def share_units(self, stage: int, states: States, rng: Random) -> Ints:
        shares = np.zeros(states.stats.shape[:2], dtype=np.int64)
        for _ in range(self.problem.units):
            drawn = of_allowed(self.values(stage, states, rng), states)
            shares[np.arange(len(shares)), drawn.argmax(axis=1)] += 1
        return shares

    def select(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        single = self.problem.single_binary and not self.problem.may_wait
        if rng is None or not single or stage >= self.problem.horizon:
            return super().select(stage, state, rng)
        from scipy.special import expit  # late: trials do not need scipy

        check_turn(self.problem, stage, state)
        a, b, low, span = self._better(stage, state)
        log_odds = _log_gamma(a, rng) - _log_gamma(b, rng)
        sure = SURE_KEY * (rng.random(a.size) - 0.5)
        # draws rounded to an end of the rewards still differ in their distance from it
        keys = [
            key(y, reach) if reach > 0.0 else certain
            for y, reach, certain in zip(log_odds, span, sure, strict=True)
        ]
        order = np.lexsort((keys, low + span * expit(log_odds)))[::-1]
        return tuple(order[: self.problem.pulls_per_stage].tolist())

    # -- probabilities ------------------------------------------------------------------------

    @property
    def has_probabilities(self) -> bool:
        single = self.problem.single_binary and self.problem.pulls_per_stage == 1
        return single and not self.problem.may_wait

    @cached_property
    def posteriors(self) -> Comparison | None:
        """P(best) in many states, where binary arms compare alike at all stages; otherwise None."""
        problem, stages = self.problem, slice(self.problem.horizon)
        if not fits_beta(problem):
            return None
        base, factor = self._base[:, stages], self._factor[:, stages]
        if not (np.ptp(base, axis=0).any() or np.ptp(factor, axis=0).any() or np.any(factor <= 0)):
            return BetaComparison(problem)
        changing = np.ptp(base, axis=1).any() or np.ptp(factor, axis=1).any()
        constant = not factor.any()  # such ties are broken evenly
        return None if changing or constant else compare_arms(problem)

    @property
    def is_vectorised(self) -> bool:
        return self.posteriors is not None

    def posteriors_by(self, rules: Rules) -> Comparison:
        """Posterior probabilities of looks; shared with decisions where both compare alike."""
        by_rules = super().posteriors_by(rules)
        if not isinstance(self.posteriors, BetaComparison):
            return by_rules
        if isinstance(by_rules, BetaComparison) and by_rules.down == self.posteriors.down:
            if by_rules.margin != self.posteriors.margin:
                self.posteriors = by_rules
            return self.posteriors
        return by_rules

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        one = round(self.problem.pulls[stage]) == 1 or self.batches
        if stage >= self.problem.horizon or not one or self.problem.budget is not None:
            return super().probabilities(stage, states, rng)
        if self.posteriors is not None:
            return self.posteriors.best(states)
        if self.has_probabilities:
            rows, place = distinct_states(states)
            own = [
                best_probabilities(*self._better(stage, rows.state(e))) for e in range(len(rows))
            ]
            return restricted(np.array(own)[place], states.allowed)
        return compare_arms(self.problem, stage=self.compared(stage)).best(states)

    def _better(self, stage: int, state: State) -> tuple[Floats, Floats, Floats, Floats]:
        """Posterior Beta(a, b) of the better outcome; what the other earns; how much more it is."""
        alpha, beta = self.beta_priors
        a, b = alpha + np.array(state.good), beta + np.array(state.bad)
        good, bad = self.binary_rewards[:, stage]
        up = good >= bad
        low, span = np.minimum(good, bad), np.abs(good - bad)
        return np.where(up, a, b), np.where(up, b, a), low, span

    # -- a loop of its own --------------------------------------------------------------------

    @property
    def has_loop(self) -> bool:
        return self.problem.single_binary

    @cached_property
    def bins(self) -> Bins | None:
        """The inputs of the kernel for one pull of arms that differ in p only."""
        alpha, beta = self.beta_priors
        good, bad = self.binary_rewards[:, : self.problem.horizon]
        alike = bool(np.all(good == good[0, 0]) and np.all(bad == bad[0, 0]))
        usual = self.problem.pulls_per_stage == 1 and good[0, 0] > bad[0, 0]
        if not (alike and usual and np.all(alpha + beta < LARGE_COUNTS)):
            return None
        return bins(alpha, beta)

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        if first <= MOST_RECALLED * (last - first) and self.bins is not None:
            play_bins(episodes, *self.beta_priors, *self.bins, rng)
        else:
            good, bad = self.binary_rewards[:, first:last]
            play(episodes, self.problem.pulls_per_stage, *self.beta_priors, good, bad, rng)


class ThompsonSharesPolicy(IndexPolicy):
    """Thompson sampling, multinomial by the probabilities of being best."""

    name = "thompson-shares"
    symmetric = True
    requires = (batches, unknown_means)
    randomised = True
    _comparison: tuple[int, Comparison] | None = None  # of the last stage

    def shares(self, stage: int, states: States) -> Floats:
        at = self.compared(stage)
        if self._comparison is None or self._comparison[0] != at:
            self._comparison = at, compare_arms(self.problem, stage=at)
        return self._comparison[1].best(States(states.problem, states.stats))


class TopTwoPolicy(ThompsonSharesPolicy):
    """Top-two Thompson sampling."""

    name = "top-two"
    symmetric = True

    def shares(self, stage: int, states: States) -> Floats:
        p = super().shares(stage, states)
        if p.shape[1] == 1:
            return p
        odds = p / np.maximum(1.0 - p, 1e-12)
        shares = p * (
            TOP_PROBABILITY + (1.0 - TOP_PROBABILITY) * (odds.sum(axis=1, keepdims=True) - odds)
        )
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _log_gamma(a: Floats, rng: np.random.Generator) -> Floats:
    """Logarithms of gamma draws, which themselves may be too small for a double where a < 1."""
    return np.asarray(np.log(rng.standard_gamma(a + 1.0)) + np.log1p(-rng.random(a.size)) / a)


# -- bins of success probabilities ---------------------------------------------------------------


Bins = tuple[Floats, Floats, Floats, Floats]  # cut, x, below, w of `kernels.thompson`


def bins(alpha: Floats, beta: Floats) -> Bins | None:
    """Bins for arms with priors Beta(alpha, beta), each (arms,).

    None where a prior is so sure of itself that w vanishes at a cut: whatever is multiplied with it
    afterwards, it could not come back, and outcomes may prove the prior wrong.
    """
    from scipy.special import betaln, expit, log_expit  # late: trials do not need scipy

    priors = list(zip(alpha.tolist(), beta.tolist(), strict=True))
    levels = np.sin(np.linspace(0.0, np.pi / 2.0, CUTS)[1:-1]) ** 2
    low, high = np.full(levels.size, -_MAX_LOG_ODDS), np.full(levels.size, _MAX_LOG_ODDS)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = _below(priors, middle)
        above = (below.prod(axis=0) + below.mean(axis=0)) / 2.0 >= levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    log_x, log_rest = log_expit(high), log_expit(-high)
    log_w = np.array([a * log_x + b * log_rest - betaln(a, b) for a, b in priors])
    if log_w.min() < _MIN_LOG_WEIGHT:
        return None
    w = np.exp(log_w)
    cut = np.concatenate([[-np.inf], high, [np.inf]])
    below = np.pad(_below(priors, high), ((0, 0), (1, 1)), constant_values=(0.0, 1.0))
    return cut, np.array([expit(-cut), expit(cut)]), below, np.pad(w, ((0, 0), (1, 1)))


def _below(priors: list[tuple[float, float]], y: Floats) -> Floats:
    """Chance of every arm's draw to have log-odds below y, (arms, y)."""
    laws = {prior: cdf(*prior, y) for prior in set(priors)}
    return np.array([laws[prior] for prior in priors])
