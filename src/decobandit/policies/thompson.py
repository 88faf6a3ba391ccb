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
from .allocation import Random, check_turn, largest_arms, of_allowed
from .comparison import BetaComparison, Comparison, compare_arms
from .index_policy import IndexPolicy
from .kernels.episodes import Episodes
from .kernels.thompson import LARGE_COUNTS, play, play_bins
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
_POWER_LOG_ODDS = 500.0  # beyond which p or 1-p are powers, as far as a double can tell
_HALVINGS = 60
_MIN_LOG_WEIGHT = -500.0  # far above what a double can hold


def _single_within_limits(problem: Problem) -> str | None:
    if not problem.may_wait or batches(problem) is not None:
        return None
    limit = "a budget" if problem.resources is None else "resources"
    return f"draws single pulls within {limit}, not batches; use 'deco' or 'greedy'"


class PosteriorPolicy(IndexPolicy):
    """Draws arms by their probabilities of being best."""

    randomised = True
    _comparison: tuple[int, Comparison] | None = None  # of the last stage

    @cached_property
    def _is_lasting(self) -> bool:
        """Whether arms compare alike at all stages that are played."""
        stages = slice(self.problem.horizon)
        rewards = np.stack([self._base[:, stages], self._factor[:, stages]])
        equal = not np.ptp(rewards, axis=1).any() and bool((rewards[1] > 0.0).all())
        return equal or not np.ptp(rewards, axis=2).any()

    def comparison_at(self, stage: int) -> Comparison:
        """Return the posterior probabilities by the rewards of a stage."""
        early = stage < self.problem.horizon and not self.batches
        at = 0 if early and self._is_lasting else self.compared(stage)
        if self._comparison is None or self._comparison[0] != at:
            self._comparison = at, compare_arms(self.problem, stage=at)
        return self._comparison[1]


class ThompsonPolicy(PosteriorPolicy):
    """Pulls the arms of the largest drawn mean rewards."""

    name = "thompson"
    symmetric = True
    plans_budget = plans_resources = True
    per_cost = True
    serves_drift = True
    requires = (unknown_means, _single_within_limits)

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
        if self.batches or self.problem.may_wait or rng is None or stage >= self.problem.horizon:
            return super().select(stage, state, rng)
        check_turn(self.problem, stage, state)
        drawn = self.values_at(stage, States.of(self.problem, [state]), rng)[0]
        order = np.lexsort((rng.random(drawn.size), drawn))[::-1]
        return tuple(order[: self.problem.pulls_per_stage].tolist())

    # -- probabilities ------------------------------------------------------------------------

    @property
    def has_probabilities(self) -> bool:
        single = self.problem.single_binary and self.problem.pulls_per_stage == 1
        return single and not self.problem.may_wait

    def posteriors_by(self, rules: Rules) -> Comparison:
        """Posterior probabilities of looks; shared with decisions where both compare alike."""
        by_rules, own = super().posteriors_by(rules), self.comparison_at(0)
        grids = isinstance(own, BetaComparison) and isinstance(by_rules, BetaComparison)
        if grids and self._is_lasting and own.sign == by_rules.sign:
            self._comparison = 0, by_rules
        return by_rules

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        one = round(self.problem.pulls[stage]) == 1 or self.batches
        if stage >= self.problem.horizon or not one or self.problem.budget is not None:
            return super().probabilities(stage, states, rng)
        return self.comparison_at(stage).best(states)

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


class ThompsonSharesPolicy(PosteriorPolicy):
    """Thompson sampling, multinomial by the probabilities of being best."""

    name = "thompson-shares"
    symmetric = True
    requires = (batches, unknown_means)

    def shares(self, stage: int, states: States) -> Floats:
        return self.comparison_at(stage).best(States(states.problem, states.stats))


class TopTwoPolicy(ThompsonSharesPolicy):
    """Top-two Thompson sampling."""

    name = "top-two"
    symmetric = True

    def shares(self, stage: int, states: States) -> Floats:
        p = super().shares(stage, states)
        if p.shape[1] == 1:
            return p
        odds = p / np.maximum(1.0 - p, 1e-12)
        others = odds.sum(axis=1, keepdims=True) - odds
        shares = p * (TOP_PROBABILITY + (1.0 - TOP_PROBABILITY) * others)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


# -- bins of success probabilities ---------------------------------------------------------------


Bins = tuple[Floats, Floats, Floats, Floats]  # cut, x, below, w of `kernels.thompson`


def bins(alpha: Floats, beta: Floats) -> Bins | None:
    """Bins for arms with priors Beta(alpha, beta), each (arms,).

    None where a prior is so sure of itself that w vanishes at a cut: whatever is multiplied with it
    afterwards, it could not come back, and outcomes may prove the prior wrong.
    """
    from scipy.special import betaln, expit, log_expit  # late: trials do not need scipy

    kinds, place = np.unique(np.stack([alpha, beta], axis=1), axis=0, return_inverse=True)
    a, b, place = kinds[:, :1], kinds[:, 1:], place.reshape(-1)
    levels = np.sin(np.linspace(0.0, np.pi / 2.0, CUTS)[1:-1]) ** 2
    low, high = np.full(levels.size, -_MAX_LOG_ODDS), np.full(levels.size, _MAX_LOG_ODDS)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = cdf(a, b, middle)[place]
        above = (below.prod(axis=0) + below.mean(axis=0)) / 2.0 >= levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    log_x, log_rest = log_expit(high), log_expit(-high)
    log_w = (a * log_x + b * log_rest - betaln(a, b))[place]
    if log_w.min() < _MIN_LOG_WEIGHT:
        return None
    w = np.exp(log_w)
    cut = np.concatenate([[-np.inf], high, [np.inf]])
    below = np.pad(cdf(a, b, high)[place], ((0, 0), (1, 1)), constant_values=(0.0, 1.0))
    return cut, np.array([expit(-cut), expit(cut)]), below, np.pad(w, ((0, 0), (1, 1)))


def cdf(a: Floats, b: Floats, y: Floats) -> Floats:
    """Distribution functions of Beta(a, b) at log-odds y, without loss near either end.

    The tail of y up to 0 is p^a / (a B(a, b)) if p is too small for a double.
    """
    from scipy.special import betainc, betaln, expit

    low, away = y < 0.0, -np.abs(y)
    one, other = np.where(low, a, b), np.where(low, b, a)
    with np.errstate(over="ignore"):
        power = np.exp(one * away - np.log(one) - betaln(a, b))
    tail = np.where(away < -_POWER_LOG_ODDS, power, betainc(one, other, expit(away)))
    return np.asarray(np.where(low, tail, 1.0 - tail))
