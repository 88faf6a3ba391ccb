"""The names of the policies of this package, and which are meant where none is named.

Imports nothing: `deco --help` lists them without loading any policy. To add a policy: write its
file, then add its line here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Entry:
    """Where a policy is, and what it does in a line."""

    where: str  # module:class
    what: str
    general: bool = False  # serves every problem, so that others can point to it
    batches: bool = False  # serves problems with `repeat`: others can point to it there
    single: bool = True  # serves problems without `repeat`
    kinds: bool = False  # serves arms with other outcomes than good or bad
    kind_batches: bool = False  # serves batches of such arms
    own_states: bool = False  # serves arms of own states, which have no unknown mean


_HERE = "decobandit.policies"
_BATCHES = "decobandit.policies.batches"
_only_batches = partial(Entry, batches=True, single=False)
_everywhere = partial(Entry, general=True, batches=True, kinds=True)
POLICIES: dict[str, Entry] = {
    "deco": Entry(
        f"{_HERE}.deco:DecoPolicy",
        "the paper's DeCo: index at the dual's prices",
        batches=True,
        kinds=True,
        kind_batches=True,
        own_states=True,
    ),
    "deco-calibrated": Entry(
        f"{_HERE}.tuning.tuned:TunedPolicy",
        "index calibrated against a price path that is tuned",
        batches=True,
        kinds=True,
        kind_batches=True,
        own_states=True,
    ),
    "deco-repriced": _only_batches(
        f"{_BATCHES}.repriced:RepricedDecoPolicy", "DeCo in batches, prices taken anew every stage"
    ),
    "deco-rolling": Entry(f"{_HERE}.rolling:RollingDecoPolicy", "DeCo, prices solved every stage"),
    "fh-gittins": Entry(
        f"{_HERE}.calibrated:FhGittinsPolicy",
        "finite-horizon Gittins index",
        kinds=True,
        own_states=True,
    ),
    "optimal": Entry(
        f"{_HERE}.optimal:OptimalPolicy",
        "exact dynamic programming; small problems",
        kinds=True,
        own_states=True,
    ),
    "greedy": _everywhere(
        f"{_HERE}.greedy:GreedyPolicy",
        "largest expected reward",
        kind_batches=True,
        own_states=True,
    ),
    "equal": Entry(
        f"{_HERE}.equal:EqualPolicy",
        "equal allocation",
        batches=True,
        kinds=True,
        kind_batches=True,
        own_states=True,
    ),
    "explore-then-commit": Entry(
        f"{_HERE}.explore_then_commit:ExploreThenCommitPolicy",
        "equal allocation, then greedy",
        batches=True,
    ),
    "ucb1": Entry(
        f"{_HERE}.ucb1:Ucb1Policy",
        "upper confidence bound (Auer et al.)",
        batches=True,
        kinds=True,
    ),
    "ucb-tuned": Entry(
        f"{_HERE}.ucb_tuned:UcbTunedPolicy",
        "UCB with estimated variances",
        batches=True,
        kinds=True,
    ),
    "moss": Entry(f"{_HERE}.moss:MossPolicy", "minimax-optimal UCB", batches=True, kinds=True),
    "kl-ucb": Entry(
        f"{_HERE}.kl_ucb:KlUcbPolicy",
        "UCB by Kullback-Leibler divergence",
        batches=True,
        kinds=True,
    ),
    "bayes-ucb": _everywhere(f"{_HERE}.bayes_ucb:BayesUcbPolicy", "posterior quantile"),
    "ogi": Entry(f"{_HERE}.ogi:OgiPolicy", "optimistic Gittins index", batches=True),
    "thompson": _everywhere(
        f"{_HERE}.thompson:ThompsonPolicy", "Thompson sampling", kind_batches=True
    ),
    "thompson-shares": _only_batches(
        f"{_BATCHES}.chances:ThompsonSharesPolicy", "Thompson sampling in batches, multinomial"
    ),
    "top-two": _only_batches(
        f"{_BATCHES}.chances:TopTwoPolicy", "top-two Thompson sampling in batches"
    ),
    "flgi": _only_batches(
        f"{_BATCHES}.forward_gittins:ForwardGittinsPolicy",
        "forward-looking Gittins index in batches",
    ),
    "rho": _only_batches(f"{_BATCHES}.rho:RhoPolicy", "residual horizon optimisation in batches"),
    "ids": Entry(f"{_HERE}.ids:IdsPolicy", "information-directed sampling", kinds=True),
    "v-ids": Entry(f"{_HERE}.v_ids:VarianceIdsPolicy", "variance-based IDS", kinds=True),
    "knowledge-gradient": Entry(
        f"{_HERE}.knowledge_gradient:KnowledgeGradientPolicy",
        "online knowledge gradient",
        batches=True,
        kinds=True,
        own_states=True,
    ),
}
DEFAULT_POLICY = "auto"  # no algorithm of its own: picks one of these for the problem
PAPER_POLICY = "deco"
BASELINE_POLICY = "equal"  # what a trial is compared with
# what a simulation compares unless it is told otherwise
SIMULATED_POLICIES = ("deco-calibrated", "deco", "fh-gittins", "thompson")
# what a plan compares unless it is told otherwise, the baseline last
COMPARED_POLICIES = ("deco", "deco-calibrated", "fh-gittins", "thompson", BASELINE_POLICY)
# told apart by colour alone in figures, which have seven: the paper's, the default and equal shares
FIGURE_POLICIES = ("deco-calibrated", "deco", "fh-gittins", "thompson", "kl-ucb", "ids", "equal")


def general_policies() -> str:
    """Policies that serve every problem, for messages."""
    return _one_of(name for name, entry in POLICIES.items() if entry.general)


def batch_policies() -> str:
    """Policies that share batches among arms, for messages."""
    return _one_of(name for name, entry in POLICIES.items() if entry.batches)


def kind_policies() -> str:
    """Policies for other outcomes than good or bad, for messages."""
    return _one_of(name for name, entry in POLICIES.items() if entry.kinds)


def kind_batch_policies() -> str:
    """Policies that share batches of such arms, for messages."""
    return _one_of(name for name, entry in POLICIES.items() if entry.kind_batches)


def own_state_policies() -> str:
    """Policies for arms of own states, for messages."""
    return _one_of(name for name, entry in POLICIES.items() if entry.own_states)


def _one_of(names: Iterable[str]) -> str:
    quoted = [repr(name) for name in names]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"
