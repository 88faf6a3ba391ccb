"""Finite-horizon Bayesian bandits by decomposition and coordination (DeCo).

Reading order: problem -> arm -> prices -> policies -> evaluation, simulation -> bounds.
Names are imported on first use, so that `import decobandit` does not wait for the compiler.

Signatures are alike: the problem first, then a policy by object or by name, the rest by keyword.
`solution=` hands in a dual that is solved already, `rng=` a seed or a generator, `workers=` a
number of threads, `progress=` a callback. Results are frozen, `x_se` is the standard error of `x`,
and what there is of each stage is an array (stages,).

Refusals are subclasses of `DecoError`, a ValueError with a stable `code`, the `field` at fault and
a message of one line. An argument of the wrong type raises a TypeError.
"""

from typing import TYPE_CHECKING

from .support.lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .arm import Calibration as Calibration
    from .arm import OneArmValues as OneArmValues
    from .arm import PricePath as PricePath
    from .bounds import Bounds as Bounds
    from .bounds import BoundValue as BoundValue
    from .bounds import Episode as Episode
    from .bounds import Gap as Gap
    from .bounds import bound as bound
    from .bounds import follow as follow
    from .bounds import gap as gap
    from .bounds import information_bound as information_bound
    from .bounds import retrace as retrace
    from .designs import DesignResult as DesignResult
    from .designs import load_design as load_design
    from .designs import operating_characteristics as operating_characteristics
    from .evaluation import Evaluation as Evaluation
    from .evaluation import evaluate as evaluate
    from .joint import Optimum as Optimum
    from .joint import count_states as count_states
    from .joint import optimum as optimum
    from .policies import CalibratedPolicy as CalibratedPolicy
    from .policies import ChosenPath as ChosenPath
    from .policies import DecoPolicy as DecoPolicy
    from .policies import IndexPolicy as IndexPolicy
    from .policies import OptimalPolicy as OptimalPolicy
    from .policies import Policy as Policy
    from .policies import Recommendation as Recommendation
    from .policies import RollingDecoPolicy as RollingDecoPolicy
    from .policies import allow_policy as allow_policy
    from .policies import choose_path as choose_path
    from .policies import make_policy as make_policy
    from .policies import policy_names as policy_names
    from .policies import recommend as recommend
    from .prices import DualSolution as DualSolution
    from .prices import DualValue as DualValue
    from .prices import dual_value as dual_value
    from .prices import load_solution as load_solution
    from .prices import save_solution as save_solution
    from .prices import solve as solve
    from .problem import Arm as Arm
    from .problem import BetaBernoulli as BetaBernoulli
    from .problem import Design as Design
    from .problem import DirichletCategorical as DirichletCategorical
    from .problem import GammaExponential as GammaExponential
    from .problem import GammaPoisson as GammaPoisson
    from .problem import InvalidProblem as InvalidProblem
    from .problem import MarkovArm as MarkovArm
    from .problem import MarkovState as MarkovState
    from .problem import NormalNormal as NormalNormal
    from .problem import Problem as Problem
    from .problem import ProblemError as ProblemError
    from .problem import Reward as Reward
    from .problem import State as State
    from .problem import Terminal as Terminal
    from .problem import load_problem as load_problem
    from .problem import read_outcomes as read_outcomes
    from .problem import save_problem as save_problem
    from .problem import terminal_table as terminal_table
    from .problem import with_history as with_history
    from .simulation import PolicyResult as PolicyResult
    from .simulation import Simulation as Simulation
    from .simulation import simulate as simulate
    from .studies import ClusterError as ClusterError
    from .studies import StudyError as StudyError
    from .support import DecoError as DecoError
    from .support import InvalidArgument as InvalidArgument
    from .support import InvalidFile as InvalidFile
    from .support import Progress as Progress
    from .support import Tabular as Tabular
    from .support import TooLarge as TooLarge
    from .support import Unsupported as Unsupported
    from .support import show_progress as show_progress

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
