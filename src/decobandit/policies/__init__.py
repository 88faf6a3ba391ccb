"""Policies: which arm to pull, given the stage and what has been observed."""

from .base import TIE_RULES, IndexPolicy, Policy, TieRule
from .deco import DecoPolicy, deco

__all__ = ["TIE_RULES", "DecoPolicy", "IndexPolicy", "Policy", "TieRule", "deco"]
