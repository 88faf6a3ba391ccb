"""A problem as files, requests and forms write it: an entry may stand for many equal arms.

An entry of `arms` with `count = n`, n > 1, stands for n arms named name-1 to name-n.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from ..support import Place, refuse
from .arms import Arm, numbered
from .design_model import Design, Rules
from .fields import MAX_ARMS, NAME_RULE, ArmCount, Frozen, InvalidProblem, ProblemError, is_name
from .model import ArmList, Problem, ProblemFields

_ABOUT = ("title", "description")  # keys of a JSON schema beside the type


class Written(Frozen):
    """Base of tables that people and programs write: null says that an optional key is left out."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, tree: Any) -> Any:
        if not isinstance(tree, dict) or all(tree[key] is not None for key in tree):
            return tree
        optional = {key for key, field in cls.model_fields.items() if not field.is_required()}
        return {key: tree[key] for key in tree if key not in optional or tree[key] is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = super().__get_pydantic_json_schema__(core, handler)
        table = handler.resolve_ref_schema(schema)
        for name, field in table.get("properties", {}).items():
            if name not in table["required"] and {"type": "null"} not in field.get("anyOf", ()):
                about = {key: field.pop(key) for key in _ABOUT if key in field}
                kinds = field.pop("anyOf", None) or [dict(field)]
                field.clear()
                field |= {"anyOf": [*kinds, {"type": "null"}], **about}
        return schema


class ArmEntry(Written, Arm):
    """One arm, or `count` equal ones."""

    count: ArmCount = Field(default=1, description="Arms name-1 to name-count.")

    @model_validator(mode="after")
    def _check_last_name(self) -> Self:
        last = f"{self.name}-{self.count}"
        if self.count > 1 and not is_name(last):
            refuse(NAME_RULE, found=last, at=("name",))
        return self

    def expand(self) -> tuple[Arm, ...]:
        """Return the arms of the entry."""
        arm = Arm(**{name: getattr(self, name) for name in Arm.model_fields})
        return (arm,) if self.count == 1 else numbered(arm, count=self.count)


class ProblemTable(Written, ProblemFields):
    """A problem, as problem files hold it."""

    arms: ArmList[ArmEntry]

    @model_validator(mode="after")
    def _check_number_of_arms(self) -> Self:
        # before the entries are expanded: a small file must not ask for much memory
        if self.n_arms > MAX_ARMS:
            rule = f"must be 1 to {MAX_ARMS} arms, counts included"
            refuse(rule, found=self.n_arms, at=("arms",))
        return self

    @property
    def n_arms(self) -> int:
        """Number of arms, counts included."""
        return sum(entry.count for entry in self.arms)

    @property
    def most_stages(self) -> int:
        """Largest number of stages."""
        return self.horizon if isinstance(self.horizon, int) else self.horizon.stages

    def problem(self) -> Problem:
        """Return the problem; errors name entries of this table, not arms."""
        fields = {name: getattr(self, name) for name in ProblemFields.model_fields}
        fields["arms"] = tuple(arm for entry in self.arms for arm in entry.expand())
        if self.resources is not None and "pulls_per_stage" not in self.model_fields_set:
            del fields["pulls_per_stage"]  # one of every arm
        try:
            return Problem(**fields)
        except InvalidProblem as error:
            details = error.errors()
            for detail in details:
                detail["loc"] = self._place(detail["loc"])
            raise InvalidProblem.of(details, type(self)) from None

    def _place(self, place: Place) -> Place:
        match place:
            case ("arms", int(position), *rest):
                starts = list(accumulate((entry.count for entry in self.arms), initial=0))
                return ("arms", bisect_right(starts, position) - 1, *rest)
        return place


class DesignedTable(ProblemTable):
    """A problem and, where the file has one, the design of its trial."""

    design: Design | None = Field(
        default=None, description="Rules that a trial obeys, and scenarios to ask about."
    )

    def designed(self) -> tuple[Problem, Design | None]:
        """Both, checked against each other."""
        problem = self.problem()
        if self.design is not None:
            self.design.check(problem)
        return problem, self.design


def problem_from_dict(tree: Any, *, source: str = "<dict>") -> Problem:
    """Read a problem from a tree of tables, lists and numbers, as in a file."""
    return designed_from_dict(tree, source=source)[0]


def designed_from_dict(tree: Any, *, source: str = "<dict>") -> tuple[Problem, Design | None]:
    """Read a problem and its design, if any, from a tree."""
    try:
        return DesignedTable.from_tree(tree).designed()
    except InvalidProblem as error:
        raise ProblemError(f"{source}: {error}", field=error.field) from None


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """Return the tree that a file holds; `problem_from_dict` is the inverse."""
    # the keys of batches are left out elsewhere: files stay short
    alone = {"arms", "random_horizon"} | (set() if problem.repeat else {"repeat", "unit"})
    tree = problem.model_dump(mode="json", exclude=alone, exclude_none=True)
    tree["arms"] = list(_entries(problem.arms))
    if problem.random_horizon is not None:
        tree["horizon"] = problem.random_horizon.model_dump(mode="json")
    return {key: tree[key] for key in ProblemTable.model_fields if tree.get(key) not in (None, [])}


def designed_to_dict(problem: Problem, design: Rules | None) -> dict[str, Any]:
    """Return the tree of a problem and its design; `designed_from_dict` is the inverse."""
    tree = problem_to_dict(problem)
    if design is None:
        return tree
    return tree | {"design": design.model_dump(mode="json", exclude_defaults=True)}


def _entries(arms: Sequence[Arm]) -> Iterator[dict[str, Any]]:
    start = 0
    while start < len(arms):
        arm, count = arms[start], _run(arms, start)
        entry = arm.model_dump(mode="json", exclude_none=True)
        if count > 1:
            entry |= {"name": arm.name.removesuffix("-1"), "count": count}
        yield entry
        start += count


def _run(arms: Sequence[Arm], start: int) -> int:
    """How many arms from `start` on are equal but for their names base-1, base-2, ..."""
    first = arms[start]
    base = first.name.removesuffix("-1")
    # "a -1" is a name, but "a " is none, so it cannot stand in a file
    if base == first.name or not is_name(base):
        return 1
    for i in range(1, len(arms) - start):
        arm = arms[start + i]
        if arm.name != f"{base}-{i + 1}" or _unnamed(arm) != _unnamed(first):
            return i
    return len(arms) - start


def _unnamed(arm: Arm) -> list[object]:
    return [getattr(arm, name) for name in Arm.model_fields if name != "name"]
