"""The names of the policies of this package, and which are meant where none is named.

Imports nothing: `deco --help` lists them without loading any policy. To add a policy: write its
file, then add its line here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """Location of a policy, module:class in this package, and its purpose in one line."""

    where: str
    what: str


POLICIES: dict[str, Entry] = {
    "deco": Entry("deco:DecoPolicy", "the paper's DeCo: index at the dual's prices"),
    "deco-calibrated": Entry(
        "path_search:TunedPolicy", "index calibrated against a price path that is tuned"
    ),
    "deco-repriced": Entry(
        "repriced:RepricedDecoPolicy", "DeCo in batches, prices chosen every stage"
    ),
    "deco-rolling": Entry("repriced:RollingDecoPolicy", "DeCo, prices solved every stage"),
    "fh-gittins": Entry("calibrated:FhGittinsPolicy", "finite-horizon Gittins index"),
    "whittle": Entry("restless:WhittlePolicy", "Whittle's index, of arms that move at rest"),
    "optimal": Entry("optimal:OptimalPolicy", "exact dynamic programming; small problems"),
    "greedy": Entry("simple:GreedyPolicy", "largest expected reward"),
    "equal": Entry("simple:EqualPolicy", "equal allocation"),
    "explore-then-commit": Entry("simple:ExploreThenCommitPolicy", "equal allocation, then greedy"),
    "ucb1": Entry("ucb:Ucb1Policy", "upper confidence bound (Auer et al.)"),
    "ucb-tuned": Entry("ucb:UcbTunedPolicy", "UCB with estimated variances"),
    "moss": Entry("ucb:MossPolicy", "minimax-optimal UCB"),
    "kl-ucb": Entry("ucb:KlUcbPolicy", "UCB by Kullback-Leibler divergence"),
    "bayes-ucb": Entry("posterior_bounds:BayesUcbPolicy", "posterior quantile"),
    "ogi": Entry("posterior_bounds:OgiPolicy", "optimistic Gittins index"),
    "thompson": Entry("thompson:ThompsonPolicy", "Thompson sampling"),
    "thompson-shares": Entry(
        "thompson:ThompsonSharesPolicy", "Thompson sampling in batches, multinomial"
    ),
    "top-two": Entry("thompson:TopTwoPolicy", "top-two Thompson sampling in batches"),
    "flgi": Entry("flgi:ForwardGittinsPolicy", "forward-looking Gittins index in batches"),
    "rho": Entry("shares:RhoPolicy", "residual horizon optimisation in batches"),
    "ids": Entry("ids:IdsPolicy", "information-directed sampling"),
    "v-ids": Entry("ids:VarianceIdsPolicy", "variance-based IDS"),
    "knowledge-gradient": Entry(
        "knowledge_gradient:KnowledgeGradientPolicy", "online knowledge gradient"
    ),
}
DEFAULT_POLICY = "auto"  # no algorithm of its own: picks one of these for the problem
PAPER_POLICY = "deco"
BASELINE_POLICY = "equal"  # what a trial is compared with
# what a simulation compares by default
SIMULATED_POLICIES = ("deco-calibrated", "deco", "fh-gittins", "thompson")
# what a plan compares by default, the baseline last
COMPARED_POLICIES = ("deco", "deco-calibrated", "fh-gittins", "thompson", BASELINE_POLICY)
# told apart by colour alone in figures, which have seven: the paper's, the default and equal shares
FIGURE_POLICIES = ("deco-calibrated", "deco", "fh-gittins", "thompson", "kl-ucb", "ids", "equal")
