"""Policies by name: of this package, of entry points of other packages, and by import path.

A policy is looked for among the names of this package (`names.py`), then among the entry points
`decobandit.policies` of installed packages, then as `package.module:Class`. Classes are loaded on
first use; a class has its own constructor from a problem (`Policy.make`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from ..problem import (
    DEFAULT_TIES,
    Problem,
    TieRule,
    check_problem,
    tie_rule,
    true_problem,
)
from ..support import InvalidArgument, shown
from .names import DEFAULT_POLICY, POLICIES

if TYPE_CHECKING:
    from ..prices import DualSolution
    from .base import Context, Policy


GROUP = "decobandit.policies"  # of entry points
PLACES = {DEFAULT_POLICY: "auto:AutoPolicy", **{name: at for name, (at, _) in POLICIES.items()}}
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_allowed: set[str] = set()  # package.module:Class that files, databases and requests may name


# -- names --------------------------------------------------------------------------------------


def policy_names() -> list[str]:
    """Return the names that `make_policy` accepts: of this package, then of other packages.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from decobandit import policy_names
    >>> "thompson" in policy_names()
    True
    """
    others = [point.name for point in entry_points(group=GROUP) if point.name not in PLACES]
    return [*PLACES, *others]


def allow_policy(policy: str) -> None:
    """Allow files, databases and requests to use a policy from another module.

    A file can name any module, and importing it runs its code: only names that the program itself
    uses or allows are imported.

    Parameters
    ----------
    policy : str
        `package.module:Class`, exactly as the file spells it.

    Raises
    ------
    ValueError
        If it is not of that form. It is imported when it is used.

    Examples
    --------
    >>> from decobandit import allow_policy
    >>> allow_policy("my_package.policies:Spread")
    """
    if not (isinstance(policy, str) and _PLACE.fullmatch(policy)):
        raise InvalidArgument(
            f"policy {shown(policy)}: must be package.module:Class to be allowed", field="policy"
        )
    _allowed.add(policy)


def allowed_policies() -> tuple[str, ...]:
    """Policies of other modules that this process used or allowed."""
    return tuple(sorted(_allowed))


def check_policies(names: Iterable[str], *, places: bool = True) -> None:
    """Raise ValueError for a name that no policy has; `places`: as in `policy_class`."""
    for name in names:
        policy_class(name, places=places)


def serving(problem: Problem, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of policies that serve a problem, in order, without making them."""
    return tuple(name for name in names if policy_class(name).refusal(problem) is None)


def policy_class(name: str, *, places: bool = True) -> type[Policy]:
    """Return the class of a policy.

    `places`: whether the caller itself names package.module:Class, which is then imported. False
    for names from files, databases and requests: those need `allow_policy` first.
    """
    if not isinstance(name, str):
        raise TypeError(_neither(name))
    if name in PLACES:
        return _imported(f"decobandit.policies.{PLACES[name]}", name)
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _imported(point.value, name)
    if _PLACE.fullmatch(name):
        if not places and name not in _allowed:
            raise InvalidArgument(
                f"policy {name!r}: code of another module is not imported because a file or a "
                f"request names it; allow it with --allow-policy {name}, in Python with "
                f"decobandit.allow_policy({name!r})"
            )
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # as `python -m` does
        policy_type = _imported(name, name)
        _allowed.add(name)
        return policy_type
    more, names = "; or package.module:Class" if places else "", policy_names()
    near = get_close_matches(name.lower(), names, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidArgument(
        f"no policy is called {name!r}{meant}; known: {', '.join(names)}{more}", field="policy"
    )


def _imported(where: str, name: str) -> type[Policy]:
    from .base import Policy

    module, _, attribute = where.partition(":")
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports one that is not
        raise InvalidArgument(f"policy {name!r}: there is no module {error.name!r}") from None
    policy_type = vars(loaded).get(attribute)
    if policy_type is None:
        raise InvalidArgument(f"policy {name!r}: {module} has no {attribute!r}")
    if not (isinstance(policy_type, type) and issubclass(policy_type, Policy)):
        raise InvalidArgument(
            f"policy {name!r}: {attribute} is not a subclass of decobandit.Policy"
        )
    if not policy_type.name:
        raise InvalidArgument(f"policy {name!r}: the class has no name; give it one: name = '...'")
    return policy_type


# -- policies -----------------------------------------------------------------------------------


def make_policy(
    problem: Problem,
    policy: str | Policy = DEFAULT_POLICY,
    *,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    solution: DualSolution | None = None,
) -> Policy:
    """Make a policy for a problem by its name.

    Parameters
    ----------
    problem : Problem
        Problem to play.
    policy : str or Policy
        A name of the catalogue (`policy_names`), `package.module:Class`, or a policy that was made
        for this problem, which is returned.
    tol : float
        Relative gap of the prices, for a policy that needs them.
    ties : TieRule
        How ties are broken.
    solution : DualSolution, optional
        Solution of the dual, if it has been solved already.

    Returns
    -------
    Policy

    Raises
    ------
    ValueError
        If no policy has that name, or it does not serve this problem.
    TypeError
        If the problem is not a `Problem`, or the policy neither a name nor a `Policy`.

    Examples
    --------
    >>> from decobandit import Problem, State, make_policy
    >>> policy = make_policy(Problem.uniform(arms=3, horizon=20), "thompson")
    >>> policy.name
    'thompson'
    >>> greedy = make_policy(Problem.uniform(arms=3, horizon=20), "greedy")
    >>> greedy.choose(State.parse("0/1,1/1,0/0"))
    (1,)
    """
    from .base import Context

    check_problem(problem)
    context = Context(problem, tol=tol, ties=tie_rule(ties), fixed_solution=solution)
    (made_policy,) = make_policies(context, [policy])
    return made_policy


def make_policies(
    context: Context, policies: Sequence[str | Policy], *, places: bool = True
) -> list[Policy]:
    """Make policies by name, and check those that are there already; all names are checked first.

    The policy that `auto` picks is left out where its name is listed too.

    `places`: as in `policy_class`.
    """
    from .base import Policy

    classes = [
        policy_class(policy, places=places)
        if isinstance(policy, str)
        else _checked(policy, context.problem)
        for policy in policies
    ]
    for policy_type in classes:
        if not isinstance(policy_type, Policy):
            policy_type.check_serves(context.problem)
    made_policies = [
        policy_type if isinstance(policy_type, Policy) else policy_type.make(context)
        for policy_type in classes
    ]
    names = {policy for policy in policies if isinstance(policy, str)}
    pairs = zip(policies, made_policies, strict=True)
    return [policy for name, policy in pairs if name != DEFAULT_POLICY or policy.name not in names]


def picked_name(context: Context, name: str) -> str:
    """Name of the policy that is made for `name`: the one that `auto` picks, else the same."""
    return make_policies(context, [name])[0].name if name == DEFAULT_POLICY else name


def _checked(policy: object, problem: Problem) -> Policy:
    from .base import Policy

    if not isinstance(policy, Policy):
        raise TypeError(_neither(policy))
    if policy.problem != problem:
        raise InvalidArgument(f"policy {policy.name!r} was made for another problem")
    if policy.may_stop:
        raise InvalidArgument(
            f"policy {policy.name!r} has rules that stop a trial or delay outcomes: use "
            "operating_characteristics, which follows them"
        )
    return policy


def _neither(policy: object) -> str:
    return (
        f"policy: {shown(policy)} is neither the name of a policy nor a decobandit.Policy; "
        "policy_names() has the names"
    )


def make_successor(context: Context, policy: str | Policy, true_horizon: int) -> Policy:
    """Return the policy that takes over after the planned horizon, up to a later true one."""
    policy_type, ties = (
        (policy_class(policy), context.ties)
        if isinstance(policy, str)
        else (type(policy), policy.ties)
    )
    actual = true_problem(context.problem, None, true_horizon)
    later = replace(context, problem=actual, ties=ties, fixed_solution=None, parameters=None)
    return policy_type.successor(later, context.problem.horizon)


def check_subject(problem: object, policy: object) -> Problem:
    """Check the arguments of functions of a problem and a policy; return the problem."""
    from .base import Policy

    subject = check_problem(problem)
    if not isinstance(policy, str | Policy):
        raise TypeError(_neither(policy))
    return subject
