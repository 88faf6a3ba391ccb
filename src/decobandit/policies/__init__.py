"""Policies, which choose the next arm: the protocol, one file per policy, the catalogue of names.

One class per policy, for every outcome model and batch size: the protocol is `base.py`, index
policies `index_policy.py`. Names are looked up in `catalogue.py`.

Imports `prices`, `joint` and what is below them.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .allocation import ArmIndex as ArmIndex
    from .allocation import Cost as Cost
    from .allocation import check_pulls as check_pulls
    from .base import Context as Context
    from .base import Policy as Policy
    from .calibrated import CalibratedPolicy as CalibratedPolicy
    from .calibrated import ChosenPath as ChosenPath
    from .calibrated import FhGittinsPolicy as FhGittinsPolicy
    from .calibrated import choose_path as choose_path
    from .catalogue import allow_policy as allow_policy
    from .catalogue import allowed_policies as allowed_policies
    from .catalogue import check_policies as check_policies
    from .catalogue import check_subject as check_subject
    from .catalogue import make_policies as make_policies
    from .catalogue import make_policy as make_policy
    from .catalogue import make_successor as make_successor
    from .catalogue import picked_name as picked_name
    from .catalogue import policy_class as policy_class
    from .catalogue import policy_names as policy_names
    from .catalogue import serving as serving
    from .comparison import BetaComparison as BetaComparison
    from .comparison import MeanComparison as MeanComparison
    from .deco import DecoPolicy as DecoPolicy
    from .deco import RollingDecoPolicy as RollingDecoPolicy
    from .index_policy import IndexPolicy as IndexPolicy
    from .names import BASELINE_POLICY as BASELINE_POLICY
    from .names import COMPARED_POLICIES as COMPARED_POLICIES
    from .names import DEFAULT_POLICY as DEFAULT_POLICY
    from .names import PAPER_POLICY as PAPER_POLICY
    from .names import POLICIES as POLICIES
    from .optimal import OptimalPolicy as OptimalPolicy
    from .recommendation import Recommendation as Recommendation
    from .recommendation import indices_of_arm as indices_of_arm
    from .recommendation import known_of_arm as known_of_arm
    from .recommendation import recommend as recommend
    from .recommendation import recommend_each as recommend_each
    from .rules import REASONS as REASONS
    from .rules import RULES as RULES
    from .rules import SAME as SAME
    from .rules import RuledPolicy as RuledPolicy
    from .rules import at_least as at_least
    from .rules import at_most as at_most
    from .simple import GreedyPolicy as GreedyPolicy
    from .thompson import ThompsonPolicy as ThompsonPolicy
    from .upper_bounds import KlUcbPolicy as KlUcbPolicy

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
