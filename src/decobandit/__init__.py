"""Finite-horizon Bayesian bandits by decomposition and coordination (DeCo).

Problem
    `Problem`, `Arm`, `Reward`, `Terminal`, `RandomHorizon`, `Segment`; `State`: outcomes so far;
    `with_history`
Priors
    `BetaBernoulli`, `DirichletCategorical`, `NormalNormal`, `NormalGamma`, `GammaPoisson`,
    `GammaExponential`, `MarkovArm` with `MarkovState`, `Chain`, `TwoLevel`
Solve and bounds
    `solve` the dual for a `DualSolution`; `optimum`; `bound`: upper bounds; `gap` of a policy
Policies
    `make_policy(problem, "deco")`, `policy_names`, `recommend` an arm; `Policy`, `allow_policy`
Evaluate and simulate
    `evaluate` exactly, `simulate` episodes; `follow` or `retrace` one episode
Designs and trials
    `Design`, `load_design`, `operating_characteristics`, `forecast`; `decobandit.trials` runs them
Studies
    `load_study`, `run_study`
Files and errors
    `load_problem`, `save_problem`, `load_solution`, `save_solution`, `read_outcomes`,
    `show_progress`; `DecoError` and its kinds `InvalidArgument`, `InvalidFile`, `ProblemError`,
    `TooLarge`, `Unsupported`

Signatures are alike: the problem first, then a policy by object or by name, the rest by keyword.
`solution=` takes a solved dual, `rng=` a seed or a generator, `workers=` a number of threads,
`progress=` a callback. Results are frozen, `x_se` is the standard error of `x`,
and results by stage are arrays (stages,). Their classes are in the package that computes them, as
`decobandit.bounds.Gap`.

Refusals are subclasses of `DecoError`, a ValueError with a stable `code`, the `field` at fault and
a message of one line. An argument of the wrong type raises a TypeError. Names are imported on first
use, so that `import decobandit` does not wait for the compiler.
"""

import sys
from typing import TYPE_CHECKING

from .support.lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .bounds import bound as bound
    from .bounds import follow as follow
    from .bounds import gap as gap
    from .bounds import retrace as retrace
    from .designs import forecast as forecast
    from .designs import load_design as load_design
    from .designs import operating_characteristics as operating_characteristics
    from .evaluation import evaluate as evaluate
    from .joint import optimum as optimum
    from .policies import Policy as Policy
    from .policies import allow_policy as allow_policy
    from .policies import make_policy as make_policy
    from .policies import policy_names as policy_names
    from .policies import recommend as recommend
    from .prices import DualSolution as DualSolution
    from .prices import load_solution as load_solution
    from .prices import save_solution as save_solution
    from .prices import solve as solve
    from .problem import Arm as Arm
    from .problem import BetaBernoulli as BetaBernoulli
    from .problem import Chain as Chain
    from .problem import Design as Design
    from .problem import DirichletCategorical as DirichletCategorical
    from .problem import GammaExponential as GammaExponential
    from .problem import GammaPoisson as GammaPoisson
    from .problem import MarkovArm as MarkovArm
    from .problem import MarkovState as MarkovState
    from .problem import NormalGamma as NormalGamma
    from .problem import NormalNormal as NormalNormal
    from .problem import Problem as Problem
    from .problem import ProblemError as ProblemError
    from .problem import RandomHorizon as RandomHorizon
    from .problem import Reward as Reward
    from .problem import Segment as Segment
    from .problem import State as State
    from .problem import Terminal as Terminal
    from .problem import TwoLevel as TwoLevel
    from .problem import load_problem as load_problem
    from .problem import read_outcomes as read_outcomes
    from .problem import save_problem as save_problem
    from .problem import with_history as with_history
    from .simulation import simulate as simulate
    from .studies import load_study as load_study
    from .studies import run_study as run_study
    from .support import DecoError as DecoError
    from .support import InvalidArgument as InvalidArgument
    from .support import InvalidFile as InvalidFile
    from .support import TooLarge as TooLarge
    from .support import Unsupported as Unsupported
    from .support import show_progress as show_progress

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if "gymnasium" in sys.modules:  # imported before: its `make` then knows our environment
    from .simulation import environment  # noqa: F401
