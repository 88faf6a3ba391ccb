"""The policies of a command, by name, and what they are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, TypeVar

import typer

from ..policies.names import PAPER_POLICY
from ..problem.tie_rules import DEFAULT_TIES, TieRule
from .options import POLICY_NAMES, Ties, Tolerance
from .output import note
from .problem_options import Source, context_of, from_problem, from_problem_or_solution
from .taking import option, taking, with_options

if TYPE_CHECKING:
    from ..policies import Context
    from ..problem import Rules

QUICK_STAGES = 20  # up to which a price path is tuned in a second or so
R = TypeVar("R")
Saved = Literal["refused", "prices", "policy"]  # what a saved solution is to a command


@dataclass(frozen=True)
class Chosen:
    """Policies by name, and the problem, tie rule and prices that they are made from."""

    context: Context
    policies: tuple[str, ...]
    rules: Rules | None = None  # of the design in the problem file

    @property
    def policy(self) -> str:
        """The one of a command that takes one."""
        return self.policies[0]


def takes_policies(
    *default: str, several: bool = True, saved: Saved = "refused"
) -> Callable[[Callable[Concatenate[Chosen, ...], R]], Callable[..., R]]:
    """Give a command its policies: those of `default` unless others are named.

    saved: what a solution file in place of a problem gives: the prices, or the policy too.
    """

    def choose(source: Source, policy: list[str] | None, ties: TieRule, tol: float) -> Chosen:
        from ..policies import check_policies, serving

        if saved == "policy" and source.solution is not None:
            return _as_saved(source, policy, tol)
        names = serving(source.problem, default) if policy is None else _names(policy)
        if not several and len(names) > 1:
            raise typer.BadParameter(f"--policy: {', '.join(names)}: give one policy")
        check_policies(names)
        if policy is None and source.problem.stages > QUICK_STAGES:
            _announce_tuning(names)
        context = context_of(source.problem, tol, ties=ties, given=source.solution)
        return Chosen(context, names, source.rules)

    own = [
        option("source", Source),
        option("policy", _policy_option(default, several, saved)),
        option("ties", Ties, DEFAULT_TIES),
        option("tol", Tolerance, 1e-4),
    ]
    source = from_problem if saved == "refused" else from_problem_or_solution
    make: Callable[..., Chosen] = taking(source)(with_options(choose, own))
    return taking(make)


def _policy_option(default: tuple[str, ...], several: bool, saved: Saved) -> Any:
    what = "One policy or several, separated by commas" if several else "A policy"
    more = " A saved solution decides by DeCo." if saved == "policy" else ""
    return Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME,..." if several else "NAME",
            show_default=", ".join(default),
            help=f"{what}: {POLICY_NAMES}; or package.module:Class.{more}",
        ),
    ]


def _names(given: list[str]) -> tuple[str, ...]:
    """Names in their order, each once."""
    return tuple(dict.fromkeys(name.strip() for text in given for name in text.split(",")))


def _as_saved(source: Source, policy: list[str] | None, tol: float) -> Chosen:
    if policy is not None:
        raise typer.BadParameter("a solution file has its policy, DeCo at its prices: no --policy")
    context = context_of(source.problem, tol, ties=source.ties, given=source.solution)
    return Chosen(context, (PAPER_POLICY,))


def _announce_tuning(names: tuple[str, ...]) -> None:
    from ..policies import policy_class

    tuned = [name for name in names if policy_class(name).is_tuned()]
    if tuned:
        note(f"picking a policy and tuning it; --policy {PAPER_POLICY} starts at once")
