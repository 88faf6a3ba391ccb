"""Policies: which arm to pull, given the stage and what has been observed."""

from .base import TIE_RULES, IndexPolicy, Policy, TieRule
from .calibrated import CalibratedPolicy, fh_gittins
from .deco import DecoPolicy, deco
from .optimal import OptimalPolicy
from .rolling import RollingDecoPolicy

__all__ = [
    "TIE_RULES",
    "CalibratedPolicy",
    "DecoPolicy",
    "IndexPolicy",
    "OptimalPolicy",
    "Policy",
    "RollingDecoPolicy",
    "TieRule",
    "deco",
    "fh_gittins",
]
