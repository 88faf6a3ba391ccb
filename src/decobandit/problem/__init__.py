"""The decision problem: arms, priors, rewards, horizon; observed outcomes; their files.

Imports `support`.

What it may contain: `model.py`, `arms.py`, `horizon.py`, `design_model.py`; tables and types of
fields `fields.py`. Outcome models with their priors and formats: `models/`. As files:
`problem_files.py`. Outcomes: `states.py`, from data `outcomes.py`. Problems made from a problem,
and true parameters: `variants.py`. Ties: `ties.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .arms import Arm as Arm
    from .arms import Prior as Prior
    from .arms import Reward as Reward
    from .arms import model_of as model_of
    from .arms import terminal_table as terminal_table
    from .best_arm import best_mean_bound as best_mean_bound
    from .best_arm import best_mean_moments as best_mean_moments
    from .best_arm import best_mean_per_pull as best_mean_per_pull
    from .best_arm import best_mean_reward as best_mean_reward
    from .best_arm import best_true_rewards as best_true_rewards
    from .best_arm import share_of_best as share_of_best
    from .by_segment import BySegment as BySegment
    from .design_model import EXACT_TESTS as EXACT_TESTS
    from .design_model import FINAL_TESTS as FINAL_TESTS
    from .design_model import NO_UNKNOWN_MEANS as NO_UNKNOWN_MEANS
    from .design_model import Design as Design
    from .design_model import FinalTest as FinalTest
    from .design_model import Looks as Looks
    from .design_model import Rules as Rules
    from .design_model import Scenario as Scenario
    from .design_model import Stop as Stop
    from .design_model import has_unknown_means as has_unknown_means
    from .fields import MAX_ARMS as MAX_ARMS
    from .fields import MAX_NAME as MAX_NAME
    from .fields import MAX_SIZE as MAX_SIZE
    from .fields import ArmCount as ArmCount
    from .fields import Checked as Checked
    from .fields import InvalidProblem as InvalidProblem
    from .fields import Name as Name
    from .fields import NotNegative as NotNegative
    from .fields import ProblemError as ProblemError
    from .fields import StageCount as StageCount
    from .fields import is_name as is_name
    from .fields import whole_number as whole_number
    from .groups import Group as Group
    from .horizon import RandomHorizon as RandomHorizon
    from .horizon import Segment as Segment
    from .horizon import visit_probabilities as visit_probabilities
    from .kernels.layout import Arms as Arms
    from .model import EqualArms as EqualArms
    from .model import Problem as Problem
    from .model import Terminal as Terminal
    from .model import arms_of as arms_of
    from .model import check_problem as check_problem
    from .model import refuse_features as refuse_features
    from .models.base import LARGEST_SUM as LARGEST_SUM
    from .models.base import ArmModel as ArmModel
    from .models.base import Outcome as Outcome
    from .models.base import OutcomeFormat as OutcomeFormat
    from .models.base import PriorTable as PriorTable
    from .models.base import Stats as Stats
    from .models.base import ahead_of as ahead_of
    from .models.base import rounded as rounded
    from .models.bernoulli import BernoulliModel as BernoulliModel
    from .models.bernoulli import BetaBernoulli as BetaBernoulli
    from .models.bernoulli import TwoLevel as TwoLevel
    from .models.bernoulli import TwoLevelModel as TwoLevelModel
    from .models.bernoulli import beta_binomial as beta_binomial
    from .models.categorical import CategoricalModel as CategoricalModel
    from .models.categorical import DirichletCategorical as DirichletCategorical
    from .models.gamma import ExponentialModel as ExponentialModel
    from .models.gamma import GammaExponential as GammaExponential
    from .models.gamma import GammaPoisson as GammaPoisson
    from .models.gamma import PoissonModel as PoissonModel
    from .models.markov import Chain as Chain
    from .models.markov import MarkovArm as MarkovArm
    from .models.markov import MarkovModel as MarkovModel
    from .models.markov import MarkovState as MarkovState
    from .models.normal import DriftModel as DriftModel
    from .models.normal import NormalGamma as NormalGamma
    from .models.normal import NormalGammaModel as NormalGammaModel
    from .models.normal import NormalModel as NormalModel
    from .models.normal import NormalNormal as NormalNormal
    from .models.normal import normal_excess as normal_excess
    from .outcomes import OutcomeColumns as OutcomeColumns
    from .outcomes import read_outcomes as read_outcomes
    from .outcomes import read_tallies as read_tallies
    from .problem_files import ArmEntry as ArmEntry
    from .problem_files import DesignedTable as DesignedTable
    from .problem_files import ProblemTable as ProblemTable
    from .problem_files import Written as Written
    from .problem_files import designed_from_dict as designed_from_dict
    from .problem_files import designed_to_dict as designed_to_dict
    from .problem_files import format_problem as format_problem
    from .problem_files import load_problem as load_problem
    from .problem_files import problem_from_dict as problem_from_dict
    from .problem_files import problem_to_dict as problem_to_dict
    from .problem_files import read_tree as read_tree
    from .problem_files import save_problem as save_problem
    from .states import State as State
    from .states import States as States
    from .states import arm_position as arm_position
    from .states import check_stats as check_stats
    from .states import is_paid as is_paid
    from .ties import DEFAULT_TIES as DEFAULT_TIES
    from .ties import TIE_RULES as TIE_RULES
    from .ties import TIE_SIGNS as TIE_SIGNS
    from .ties import TIE_TOLERANCE as TIE_TOLERANCE
    from .ties import TieRule as TieRule
    from .ties import break_tie as break_tie
    from .ties import tie_rule as tie_rule
    from .ties import tie_tolerance as tie_tolerance
    from .ties import tied_arms as tied_arms
    from .variants import Given as Given
    from .variants import KindTruth as KindTruth
    from .variants import Truth as Truth
    from .variants import check_kind_truth as check_kind_truth
    from .variants import described_truth as described_truth
    from .variants import plain_truth as plain_truth
    from .variants import remaining_problem as remaining_problem
    from .variants import stages_kept as stages_kept
    from .variants import thinned as thinned
    from .variants import true_means as true_means
    from .variants import true_problem as true_problem
    from .variants import truth_of as truth_of
    from .variants import truth_text as truth_text
    from .variants import with_history as with_history

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
