"""The names of the policies of this package, and which are meant where none is named.

Imports nothing: `deco --help` lists them without loading any policy. To add a policy: write its
file, then add its line here.
"""

# module:class of this package, and purpose in one line
POLICIES: dict[str, tuple[str, str]] = {
    "deco": ("deco:DecoPolicy", "the paper's DeCo: index at the dual's prices"),
    "deco-calibrated": (
        "calibrated:CalibratedPolicy",
        "index calibrated against a price path that is tuned",
    ),
    "deco-repriced": ("deco:RepricedDecoPolicy", "DeCo in batches, prices chosen every stage"),
    "deco-rolling": ("deco:RollingDecoPolicy", "DeCo, prices solved every stage"),
    "fh-gittins": ("calibrated:FhGittinsPolicy", "finite-horizon Gittins index"),
    "whittle": ("restless:WhittlePolicy", "Whittle's index, of arms that move at rest"),
    "optimal": ("optimal:OptimalPolicy", "exact dynamic programming; small problems"),
    "greedy": ("simple:GreedyPolicy", "largest expected reward"),
    "equal": ("simple:EqualPolicy", "equal allocation"),
    "explore-then-commit": ("simple:ExploreThenCommitPolicy", "equal allocation, then greedy"),
    "ucb1": ("upper_bounds:Ucb1Policy", "upper confidence bound (Auer et al.)"),
    "ucb-tuned": ("upper_bounds:UcbTunedPolicy", "UCB with estimated variances"),
    "moss": ("upper_bounds:MossPolicy", "minimax-optimal UCB"),
    "kl-ucb": ("upper_bounds:KlUcbPolicy", "UCB by Kullback-Leibler divergence"),
    "bayes-ucb": ("upper_bounds:BayesUcbPolicy", "posterior quantile"),
    "ogi": ("upper_bounds:OgiPolicy", "optimistic Gittins index"),
    "thompson": ("thompson:ThompsonPolicy", "Thompson sampling"),
    "thompson-shares": (
        "thompson:ThompsonSharesPolicy",
        "Thompson sampling in batches, multinomial",
    ),
    "top-two": ("thompson:TopTwoPolicy", "top-two Thompson sampling in batches"),
    "flgi": ("flgi:ForwardGittinsPolicy", "forward-looking Gittins index in batches"),
    "rho": ("knowledge_gradient:RhoPolicy", "residual horizon optimisation in batches"),
    "ids": ("ids:IdsPolicy", "information-directed sampling"),
    "v-ids": ("ids:VarianceIdsPolicy", "variance-based IDS"),
    "knowledge-gradient": (
        "knowledge_gradient:KnowledgeGradientPolicy",
        "online knowledge gradient",
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
