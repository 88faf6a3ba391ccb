"""The problem: arms with priors, rewards, a horizon.

Everything here is frozen and checked when it is made. Algorithms read a problem through `stages`,
`pulls` and `groups` only: arrays over stages, in which a final deployment is one more stage.

Notations
    K       number of arms
    T       horizon
    stages  T, or T + 1 when an arm is deployed at the end
    m       pulls of a stage: of m different arms, or in units that arms share freely (`repeat`)
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ..support import Card, Place, Shown, Unsupported, look_alike_keys, refuse, shown
from .arms import FLAT_PRIOR, Arm, Prior, Reward, numbered
from .fields import (
    MAX_ARMS,
    MAX_PULLS,
    ArmCount,
    Flag,
    Frozen,
    NotNegative,
    PositiveNumber,
    Resources,
    StageCount,
)
from .groups import Group, group_of_arm, groups_of
from .horizon import (
    HorizonOrLaw,
    RandomHorizon,
    Segments,
    arms_in_segment,
    check_segments,
    clock_of,
    segment_named,
)
from .models.markov import MarkovArm
from .models.normal import NormalNormal

if TYPE_CHECKING:
    from .kernels.layout import Arms

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SLACK = 1e-9  # part of a resource that rounding may add to what is used


# Other descriptions of a problem (files, requests, studies, options, forms) reuse these tables.


class Terminal(Frozen):
    """Deployment: the arms chosen at the end earn `deploy` times their success probabilities.

    Examples
    --------
    >>> from decobandit import Arm, Problem, Terminal
    >>> arms = [Arm(name="a"), Arm(name="b")]
    >>> Problem(arms=arms, horizon=10, terminal=Terminal(deploy=50)).stages
    11
    """

    deploy: NotNegative = Field(
        default=0.0,
        description="Number of pulls that the deployment of an arm is worth; 0 for none.",
    )
    deploy_arms: ArmCount = Field(
        default=1, description="Number of arms that are deployed; more than 1 for a shortlist."
    )

    @model_validator(mode="after")
    def _check_deploy(self) -> Self:
        if self.deploy_arms > 1 and self.deploy == 0.0:
            rule = "must be 1 unless deploy, the worth of the deployment, is positive"
            refuse(rule, found=self.deploy_arms, at=("deploy_arms",))
        return self

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        return tree if self.deploy_arms > 1 else {"deploy": tree["deploy"]}


def _only_positive(terminal: Terminal | None) -> Terminal | None:
    # deploy = 0 says the same as no terminal; keeping one form makes == mean the same problem
    return terminal if terminal is not None and terminal.deploy > 0 else None


Entry = TypeVar("Entry", bound=Arm)
DeploymentAtEnd = Annotated[
    Terminal | None,
    AfterValidator(_only_positive),
    Field(description="A deployment at the end."),
]
PullsPerStage = Annotated[
    ArmCount, Field(description="Pulls of each stage, of different arms unless repeat is true.")
]
Repeat = Annotated[
    Flag,
    Field(description="Whether one arm may take several pulls of a stage, or all: batches."),
]
Unit = Annotated[
    ArmCount,
    Field(description="With repeat, pulls that go to one arm together; divides pulls_per_stage."),
]
ArmList = Annotated[
    tuple[Entry, ...],
    Field(
        description="Arms, with different names.",
        json_schema_extra={"minItems": 1, "maxItems": MAX_ARMS},
    ),
]


class ProblemFields(Frozen):
    """The fields of a problem."""

    horizon: HorizonOrLaw
    pulls_per_stage: PullsPerStage = 1
    repeat: Repeat = False
    unit: Unit = 1
    arms: ArmList[Arm]
    terminal: DeploymentAtEnd = None
    budget: PositiveNumber | None = Field(
        default=None,
        description="Total cost of all pulls. Every arm then has a cost, and at most "
        "pulls_per_stage pulls are made.",
    )
    resources: Resources | None = Field(
        default=None,
        description="Amount of each resource at every stage: one number, or one per stage. Pulls "
        "take what their arms use; at most pulls_per_stage, by default one of every arm, are made.",
    )
    segments: Segments = ()


class EqualArms(Frozen):
    """A problem of equal arms, as `Problem.uniform`, studies and options describe it."""

    arms: Annotated[ArmCount, Field(description="Number of equal arms.")] = 5
    horizon: HorizonOrLaw = 20
    prior: Annotated[Prior, Field(description="Of every arm.")] = FLAT_PRIOR
    pulls_per_stage: PullsPerStage = 1
    repeat: Repeat = False
    unit: Unit = 1
    reward: Annotated[Reward, Field(description="Of every arm.")] = Reward()
    noise_sd: Annotated[PositiveNumber | None, Field(description="Of every arm.")] = None
    drift_sd: Annotated[NotNegative | None, Field(description="Of every arm.")] = None
    terminal: DeploymentAtEnd = None

    def problem(self) -> "Problem":
        """Arms named arm-1, arm-2, ..."""
        fields = {name: getattr(self, name) for name in EqualArms.model_fields}
        arm = Arm(name="arm", **{name: fields.pop(name) for name in _OF_EQUAL_ARMS})
        return Problem(**fields | {"arms": numbered(arm, count=self.arms)})


_OF_EQUAL_ARMS = ("prior", "reward", "noise_sd", "drift_sd")


class Problem(Shown, ProblemFields):
    """A finite-horizon Bayesian bandit: at each stage make `pulls_per_stage` pulls.

    Raises
    ------
    InvalidProblem
        If a value is not allowed: a `ProblemError` of one line, with the place of the value.

    Examples
    --------
    >>> from decobandit import Arm, BetaBernoulli, Problem
    >>> problem = Problem(
    ...     horizon=50, arms=[Arm(name="old", prior=BetaBernoulli(30, 70)), Arm(name="new")]
    ... )
    >>> problem.n_arms
    2
    """

    horizon: StageCount = Field(
        description="Number of stages, or its law, a RandomHorizon. The attribute is the largest "
        "number; the law, where there is one, is random_horizon."
    )
    random_horizon: RandomHorizon | None = Field(
        default=None, description="Law of the number of stages, where it is random."
    )
    _charge: float = PrivateAttr(0.0)  # price of money, taken from rewards; see `charged`
    _resource_prices: tuple[tuple[float, ...], ...] = PrivateAttr(())  # the same, by stage

    @model_validator(mode="before")
    @classmethod
    def _with_law(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        law, arms = tree.get("horizon"), tree.get("arms")
        if tree.get("resources") is not None and isinstance(arms, list | tuple):
            tree = {"pulls_per_stage": max(len(arms), 1), **tree}
        if isinstance(law, Mapping):
            law = RandomHorizon(**law)
        if not isinstance(law, RandomHorizon):
            return tree
        return {**tree, "horizon": law.stages, "random_horizon": law}

    @staticmethod
    def uniform(
        arms: int = 5,
        horizon: int | RandomHorizon = 20,
        *,
        prior: Prior = FLAT_PRIOR,
        **settings: Any,
    ) -> "Problem":
        """Return a problem of equal arms, named arm-1, arm-2, ...

        The prior, and in `settings` `reward`, `noise_sd` and `drift_sd`, are those of every arm;
        `settings` may also have `pulls_per_stage`, `repeat`, `unit` and `terminal` of the problem.

        Examples
        --------
        >>> from decobandit import Problem
        >>> [arm.name for arm in Problem.uniform(3, 20).arms]
        ['arm-1', 'arm-2', 'arm-3']
        """
        return EqualArms(arms=arms, horizon=horizon, prior=prior, **settings).problem()

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        _check_fit(self)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, checked like a new problem."""
        # the inherited method would skip the checks and keep the groups of the old problem
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        law = fields.pop("random_horizon")
        fields["horizon"] = fields["horizon"] if law is None else law
        copy = type(self)(**fields | dict(update or {}))
        copy._charge, copy._resource_prices = self._charge, self._resource_prices
        return copy

    def charged(self, price: float = 0.0, resource_prices: FloatArray | None = None) -> Self:
        """Reduce rewards by the price of money and `resource_prices` (horizon, resources)."""
        if price == self._charge and resource_prices is None:
            return self
        copy = self.model_copy()
        copy._charge = price
        if resource_prices is not None:
            copy._resource_prices = tuple(map(tuple, resource_prices.tolist()))
        return copy

    @property
    def charged_supply(self) -> float:
        """Price of the whole budget and of all resources, where pulls are charged; else 0."""
        resources = 0.0
        if self._resource_prices:
            resources = float(np.sum(np.array(self._resource_prices) * self.usable))
        return self._charge * (self.budget or 0.0) + resources

    def described(self) -> str:
        """Describe the problem in a few words, as "3 arms, horizon 20"."""
        pulls = self.pulls_per_stage
        several = f", {pulls} pulls per stage" if pulls > 1 else ""
        law = self.random_horizon
        horizon = f"horizon {self.horizon}" if law is None else law.described()
        money = "" if self.budget is None else f", budget {self.budget:g}"
        shared = "" if self.resources is None else f", resources {', '.join(self.resources)}"
        parts = f", {len(self.segments)} segments" if self.segments else ""
        return f"{self.n_arms} arms, {horizon}{several}{money}{shared}{parts}"

    def __repr__(self) -> str:
        return f"Problem({self.described()})"

    def _card(self) -> Card:
        settings = {
            "batches, shared": f"in units of {self.unit}" if self.repeat else None,
            "deployment worth": None if self.terminal is None else self.terminal.deploy,
        }
        columns: dict[str, list[Any]] = {"arms": [], "number": [], "prior": [], "mean": []}
        for group in self.groups:
            ends = (self.arms[k].name for k in (group.members[0], group.members[-1]))
            model, initial = group.model, group.model.initial()
            columns["arms"].append(" … ".join(dict.fromkeys(ends)))
            columns["number"].append(group.count)
            columns["prior"].append(model.format.describe(initial))
            columns["mean"].append(float(model.mean(np.array(initial, dtype=float))))
        return Card(f"Problem: {self.described()}", settings, columns)

    @property
    def n_arms(self) -> int:
        """Number of arms, K."""
        return len(self.arms)

    @property
    def stages(self) -> int:
        """Number of stages: the horizon, plus one for a deployment."""
        return self.horizon + (self.terminal is not None)

    @property
    def survival(self) -> FloatArray:
        """Probability that each stage is played, (stages,); 1 where the horizon is known."""
        if self.random_horizon is None:
            return np.ones(self.stages)
        return np.array(self.random_horizon.probabilities)

    @property
    def ends(self) -> FloatArray:
        """Probability that each number of stages is played, (stages + 1,)."""
        return -np.diff(self.survival, prepend=1.0, append=0.0)

    @property
    def costs(self) -> FloatArray:
        """Cost of a pull of each arm at each stage, (stages, K); a deployment costs nothing."""
        costs = np.zeros((self.stages, self.n_arms))
        for k, arm in enumerate(self.arms):
            costs[: self.horizon, k] = 0.0 if arm.cost is None else arm.cost
        return costs

    @property
    def may_wait(self) -> bool:
        """Whether fewer pulls than `pulls_per_stage` may be made: with a budget or resources."""
        return self.budget is not None or self.resources is not None

    @property
    def supply(self) -> FloatArray:
        """Amount of each resource at each stage, (horizon, resources)."""
        columns = [np.broadcast_to(x, self.horizon) for x in (self.resources or {}).values()]
        return np.array(columns, dtype=float).reshape(-1, self.horizon).T

    @property
    def uses(self) -> FloatArray:
        """Amount of each resource that a pull of each arm uses, (K, resources)."""
        names = tuple(self.resources or ())
        rows = [[(arm.uses or {}).get(name, 0.0) for name in names] for arm in self.arms]
        return np.array(rows, dtype=float).reshape(self.n_arms, len(names))

    @property
    def usable(self) -> FloatArray:
        """Amount of each resource that a stage has and all arms could use, (horizon, resources)."""
        most = self.most_per_stage * self.uses.sum(axis=0)
        return np.asarray(np.minimum(self.supply, most))

    def overdrawn(self, stage: int, pulls: IntArray) -> NDArray[np.bool_]:
        """Return whether pulls (E, K) use more of a resource than a stage has, (E,)."""
        if self.resources is None:
            return np.zeros(len(pulls), np.bool_)
        over = pulls @ self.uses > self.supply[stage] * (1.0 + SLACK)
        return np.asarray(over.any(axis=1))

    @cached_property
    def has_windows(self) -> bool:
        """Whether some arm cannot be pulled at some stages."""
        return any(arm.available is not None for arm in self.arms)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Whether each arm can be pulled, (stages, K); all can be deployed."""
        flags = np.ones((self.stages, self.n_arms), np.bool_)
        if self.has_windows:
            flags[: self.horizon] = np.stack(
                [arm.is_available(self.horizon) for arm in self.arms], axis=1
            )
        return flags

    def available_at(self, stage: int) -> NDArray[np.bool_]:
        """Return whether each arm can be pulled at a stage, (K,); after the end as at the end."""
        at = min(stage, self.stages - 1)
        flags = np.array([group.available[at] for group in self.groups])
        return np.asarray(flags[self.group_of_arm])

    @property
    def most_pulls(self) -> int:
        """Maximum number of pulls of one arm over all stages."""
        return self.horizon * self.most_per_stage

    @property
    def most_per_stage(self) -> int:
        """Maximum number of pulls of one arm at a stage; 1 if different arms are pulled."""
        return self.most_units * self.unit

    @property
    def most_units(self) -> int:
        """Maximum number of units of one arm at a stage; 1 if different arms are pulled."""
        return self.units if self.repeat else 1

    @property
    def units(self) -> int:
        """Units of pulls of a stage that arms share, or the number of arms to pull once each."""
        return self.pulls_per_stage // self.unit

    @property
    def deployed(self) -> int:
        """Number of arms to deploy, if the problem has a deployment."""
        return 1 if self.terminal is None else self.terminal.deploy_arms

    @property
    def pulls(self) -> FloatArray:
        """Units of pulls at each stage, (stages,); at the deployment, arms to deploy."""
        pulls = np.full(self.stages, float(self.deployed))
        pulls[: self.horizon] = self.units
        pulls.flags.writeable = False
        return pulls

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Groups of equal arms (prior, rewards, terminal reward), in order of first appearance."""
        deploy = None if self.terminal is None else self.terminal.deploy
        weights, pulls = self.survival[: self.horizon], self.pulls_per_stage
        charged = None  # not weighted: prices are those of weighted rewards
        if self._charge or self._resource_prices:
            charged = self._charge * self.costs[: self.horizon]
            used = np.array(self._resource_prices or self.supply * 0.0) @ self.uses.T
            charged += used
        return groups_of(self.arms, weights, deploy, pulls_per_stage=pulls, charged=charged)

    @cached_property
    def segment_problems(self) -> dict[str, "Problem"]:
        """The problem of every segment on its own clock, by name; a budget is split by shares."""
        problems = {}
        for name, share in ((segment.name, segment.share) for segment in self.segments):
            changes = {
                "arms": arms_in_segment(self.arms, name),
                "segments": (),
                "horizon": clock_of(self.random_horizon or self.horizon, share),
                "budget": None if self.budget is None else self.budget * share,
            }
            problems[name] = self.model_copy(update=changes)
        return problems

    def segment(self, name: str) -> "Problem":
        """Return the problem of a segment on its own clock, with its share of a budget."""
        return self.segment_problems[segment_named(self.segments, name).name]

    @property
    def is_binary(self) -> bool:
        """Whether all outcomes are good or bad."""
        return all(group.model.counts_good for group in self.groups)

    @property
    def single_binary(self) -> bool:
        """Whether different arms with good and bad outcomes are pulled, which kernels serve."""
        return self.is_binary and not self.repeat

    @cached_property
    def is_restless(self) -> bool:
        """Whether some arms also move, or earn, at stages at which they are not pulled."""
        return any(arm.restless for arm in self.arms)

    @property
    def arm_groups(self) -> list[Group]:
        """Group of each arm, (K,)."""
        return [self.groups[k] for k in self.group_of_arm]

    @property
    def group_of_arm(self) -> IntArray:
        """Position in `groups` of each arm's group, shape (K,)."""
        return group_of_arm(self.groups)


_OWN_CLOCK = "a segment counts its own visitors, not stages"
_EARLY = "must be left out where the horizon is random: the last stage is not known in advance"
_NOT_TOGETHER = {  # features of a problem: what it, or an arm of it, may then not have, and why
    "segments": {
        "repeat": "must be false: the pulls of a batch would belong to different segments",
        "terminal.deploy": "must be left out: the last visitor of a segment is not known in "
        "advance",
        "resources": "must be left out: a stage is one visitor, of one segment",
        "arms.available": f"must be left out: {_OWN_CLOCK}",
        "arms.terminal": f"must be left out: {_OWN_CLOCK}",
    },
    "resources": {
        "budget": "must be left out where there are resources: choose one of the two forms"
    },
    "is_restless": {
        "budget": "must be left out: some arms move at rest",
        "repeat": "must be false: arms that move at rest are pulled once per stage at most",
        "terminal.deploy": "must be 0: arms that move at rest have no final mean to deploy",
        "arms.available": "must be left out: some arms move at rest",
    },
    "random_horizon": {"terminal.deploy": _EARLY, "arms.terminal": _EARLY},
}


def _check_fit(problem: Problem) -> None:
    """Refuse what does not fit together, the most basic first."""
    K, m, T = problem.n_arms, problem.pulls_per_stage, problem.horizon

    def need(fits: object, rule: str, *place: str, found: object) -> None:
        if not fits:
            refuse(rule, found=found, at=place)

    need(1 <= K <= MAX_ARMS, f"must be 1 to {MAX_ARMS} arms", "arms", found=K)
    rule = f"must be at most the number of arms, {K}, unless repeat is true"
    need(m <= K or problem.repeat, rule, "pulls_per_stage", found=m)
    one = problem.unit == 1 or problem.repeat
    need(one, "must be 1 unless repeat is true", "unit", found=problem.unit)
    need(m % problem.unit == 0, f"must divide pulls_per_stage, {m}", "unit", found=problem.unit)
    rule = f"must be few enough for {MAX_PULLS} pulls of an arm; it may take {problem.most_pulls}"
    need(problem.most_pulls <= MAX_PULLS, rule, "horizon", found=T)
    _check_names(problem)
    check_segments(problem.segments, problem.arms)
    for feature, others in _NOT_TOGETHER.items():
        for path, rule in others.items() if getattr(problem, feature) else ():
            for place, value in _values_at(problem, path):
                if value not in (None, False):
                    refuse(rule, found=value, at=place)
    _check_lengths(problem)
    _check_arms(problem)
    if problem.has_windows:
        _check_windows(problem)
    for name, amount in (problem.resources or {}).items():
        need(np.min(amount) >= 0.0, "must be zero or more", "resources", name, found=amount)
    rule = "must name a resource, or be left out"
    need(problem.resources != {}, rule, "resources", found={})
    if problem.terminal is not None:
        deploy, arms = problem.terminal.deploy, problem.terminal.deploy_arms
        rule = "must be 0 when an arm has a terminal table: choose one of the two forms"
        either = all(arm.terminal is None for arm in problem.arms)
        need(either, rule, "terminal", "deploy", found=deploy)
        rule = f"must be at most the number of arms, {K}"
        need(arms <= K, rule, "terminal", "deploy_arms", found=arms)


def _values_at(problem: Problem, path: str) -> Iterator[tuple[Place, object]]:
    """Return the values at a path such as repeat, terminal.deploy or, for every arm, arms.cost."""
    first, _, key = path.partition(".")
    table = getattr(problem, first)
    if first == "arms":
        yield from ((("arms", k, key), getattr(arm, key)) for k, arm in enumerate(table))
    elif table is not None:
        yield ((first, key), getattr(table, key)) if key else ((first,), table)


def _check_names(problem: Problem) -> None:
    names: dict[str, str] = {}
    for position, arm in enumerate(problem.arms):
        keys = look_alike_keys(arm.name)
        for taken in (names[key] for key in keys if key in names):
            rule = "must differ from the names of all other arms"
            if taken != arm.name:
                rule += f" in more than case, blanks or alphabet; there is {taken!r}"
            refuse(rule, found=arm.name, at=("arms", position, "name"))
        names.update(dict.fromkeys(keys, arm.name))


def _check_lengths(problem: Problem) -> None:
    """Refuse numbers by stage of another length than the problem, and any with segments."""
    rule = f"must be one number, or a list of {problem.horizon}: one per stage"
    if problem.segments:
        rule = f"must be one number: {_OWN_CLOCK}"

    def check(value: object, *place: int | str) -> None:
        if isinstance(value, tuple) and (problem.segments or len(value) != problem.horizon):
            refuse(rule, found=value, at=place)

    for name, amount in (problem.resources or {}).items():
        check(amount, "resources", name)
    for position, arm in enumerate(problem.arms):
        check(arm.cost, "arms", position, "cost")
        for key in arm.reward.per_stage:
            check(getattr(arm.reward, key), "arms", position, "reward", key)


def _check_arms(problem: Problem) -> None:
    """Refuse arms with tables, costs, uses or priors that other fields leave no room for."""
    rows, resources = problem.most_pulls + 1, problem.resources or {}
    for position, arm in enumerate(problem.arms):
        at: Place = ("arms", position)
        if arm.terminal is not None and len(arm.terminal) != rows:
            rule = f"must have {rows} rows: one for each of 0 to {rows - 1} pulls"
            refuse(rule, found=arm.terminal, at=(*at, "terminal"))
        if (arm.cost is None) != (problem.budget is None):
            rule = "must be there for every arm of a problem with a budget, and only there"
            refuse(rule, found=arm.cost, at=(*at, "cost"))
        for name in arm.uses or ():
            if name not in resources:
                names = ", ".join(resources) or "it has none"
                rule = f"must be one of the resources of the problem: {names}"
                refuse(rule, found=name, at=(*at, "uses", name))
        if not problem.is_restless:
            continue
        if not arm.restless and not isinstance(arm.prior, MarkovArm):
            forms = "chain, states, two-level or normal with drift"
            rule = f"must be {forms}: another arm moves at rest"
            refuse(rule, found=arm.prior.kind, at=(*at, "prior", "kind"))
        if isinstance(arm.prior, NormalNormal) and np.min(arm.reward.factor) < 0.0:
            rule = "must be zero or more: the arm drifts"
            refuse(rule, found=arm.reward.factor, at=(*at, "reward", "factor"))


def _check_windows(problem: Problem) -> None:
    """Refuse windows that leave a stage without enough arms."""
    for position, arm in enumerate(problem.arms):
        if arm.available and arm.available[-1][1] > problem.horizon:
            rule = f"must end within the horizon, {problem.horizon}"
            refuse(rule, found=arm.available[-1], at=("arms", position, "available"))
    needed = 0 if problem.may_wait else -(-problem.pulls_per_stage // problem.most_per_stage)
    few = np.sum(problem.available[: problem.horizon], axis=1) < needed
    if few.any():
        stage = int(few.argmax())
        rule = f"must leave at least {needed} arms to pull at every stage; stage {stage} has fewer"
        refuse(rule, found=list(problem.available[stage]), at=("arms",))


def check_problem(problem: object, *, segments: bool = False) -> Problem:
    """Return the problem; raise a TypeError for anything else, refuse segments unless allowed."""
    if isinstance(problem, Problem):
        if problem.segments and not segments:
            names = ", ".join(segment.name for segment in problem.segments)
            raise Unsupported(
                "segments: this takes the problem of one segment, problem.segment(NAME) or "
                f"--segment NAME, of {names}",
                field="segments",
            )
        return problem
    raise TypeError(
        f"problem: {shown(problem)} is not a decobandit.Problem; "
        "load_problem(path) reads one, Problem.uniform(arms=3, horizon=20) makes one"
    )


_NOT_SERVED = {  # features of problems: the refusal where one is not served
    "budget": "does not keep to a budget; solve, bound, gap, evaluate and simulate do",
    "resources": "does not share out resources; solve, bound, optimum, evaluate and simulate do",
    "repeat": "not for problems with repeat = true, whose arms share the pulls of a stage; use "
    "solve for a bound, simulate or evaluate for policies, optimum for small ones",
    "is_restless": "not for arms that move at rest; use solve, simulate, evaluate or optimum",
}


def refuse_features(problem: Problem, what: str, *features: str) -> None:
    """Raise Unsupported for the first of some features of `_NOT_SERVED` that a problem has."""
    for feature in features:
        if getattr(problem, feature) not in (None, False):
            field = feature if feature in type(problem).model_fields else None
            raise Unsupported(f"{what}: {_NOT_SERVED[feature]}", field=field)


def arms_of(problem: Problem) -> "Arms":
    """Stack the groups of a problem, as kernels read them."""
    from .kernels.layout import Arms, slab_size  # late: loads the compiler

    groups = problem.groups
    slab = slab_size(problem.stages)
    none = np.zeros(slab)
    return Arms(
        alpha=np.array([group.alpha for group in groups]),
        beta=np.array([group.beta for group in groups]),
        counts=np.array([float(group.count) for group in groups]),
        reward_good=np.stack([group.reward_good for group in groups]),
        reward_bad=np.stack([group.reward_bad for group in groups]),
        terminal=np.stack([none if g.terminal is None else g.terminal for g in groups]),
    )
