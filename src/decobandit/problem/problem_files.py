"""A problem as files, requests and forms write it: TOML and JSON with the same tree.

An entry of `arms` with `count = n`, n > 1, stands for n arms named name-1 to name-n. Reading what
was written gives an equal problem; errors name the file and the key.
"""

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from ..support import InvalidArgument, refuse, shown, write_whole
from .arms import Arm, numbered
from .design_model import Design, Rules
from .fields import MAX_ARMS, NAME_RULE, ArmCount, Frozen, InvalidProblem, ProblemError, is_name
from .model import ArmList, Problem, ProblemFields, check_problem

Format = Literal["toml", "json"]

_FORMATS: dict[str, Format] = {".toml": "toml", ".json": "json"}
MAX_NESTING = 20  # parts of a dotted TOML key, and brackets within brackets
# what counts towards MAX_NESTING in TOML; strings and comments, closed or not, are skipped whole
_TOML_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|""?(?!"))*+"{0,5}+'
    r"|'''(?:[^']|''?(?!'))*+'{0,5}+"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?|#[^\n]*+|[.=,\n\[\]{}]",
    re.DOTALL,
)


# -- tables -------------------------------------------------------------------------------------


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
                about = {key: field.pop(key) for key in ("title", "description") if key in field}
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
            details, starts = error.errors(), [0, *accumulate(entry.count for entry in self.arms)]
            for detail in details:
                match detail["loc"]:
                    case ("arms", int(position), *rest):
                        detail["loc"] = ("arms", bisect_right(starts, position) - 1, *rest)
            raise InvalidProblem.of(details, type(self)) from None


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
        renamed = first.model_copy(update={"name": f"{base}-{i + 1}"})
        if arms[start + i] != renamed:
            return i
    return len(arms) - start


# -- files --------------------------------------------------------------------------------------


def load_problem(path: str | Path) -> Problem:
    r"""Read a problem from a file.

    Parameters
    ----------
    path : str or Path
        A .toml or .json file.

    Returns
    -------
    Problem

    Raises
    ------
    ProblemError
        If the file cannot be read or does not describe a problem; with its name and the key.

    Examples
    --------
    >>> from decobandit import load_problem
    >>> with open("two.toml", "w") as file:
    ...     print("horizon = 20", "[[arms]]", 'name = "a"', "count = 2", sep="\n", file=file)
    >>> [arm.name for arm in load_problem("two.toml").arms]
    ['a-1', 'a-2']
    """
    return problem_from_dict(read_tree(path), source=str(path))


def parse_problem(text: str, *, format: Format = "toml", source: str = "<text>") -> Problem:
    """Read a problem from text; `source` is what messages call it."""
    return problem_from_dict(parse_tree(text, format, source), source=source)


def read_tree(path: str | Path) -> Any:
    """Read the tree of a .toml or .json file, unchecked."""
    source = str(path)
    if Path(path).is_dir():
        raise ProblemError(f"{source}: is a directory; give a file")
    format = _format_of(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # some editors begin files with a mark
    except FileNotFoundError:
        raise ProblemError(f"{source}: no such file") from None
    except UnicodeDecodeError as error:
        raise ProblemError(f"{source}: not UTF-8 text at byte {error.start}") from None
    except (OSError, ValueError) as error:
        raise ProblemError(f"{source}: cannot be read: {_reason(error)}") from None
    return parse_tree(text, format, source)


def parse_tree(text: str, format: Format, source: str = "<text>") -> Any:
    """Parse a text into a tree, unchecked; messages call it `source`."""
    try:
        if _check_format(format) == "toml":
            _check_nesting(text)
            return tomllib.loads(text)
        # NaN and Infinity pass here; the model refuses them, and knows their place
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (at line {error.lineno}, column {error.colno})"
        raise ProblemError(f"{source}: not valid JSON: {problem}") from None
    except RecursionError:
        raise ProblemError(f"{source}: not valid {format.upper()}: nested too deeply") from None
    except ValueError as error:
        problem = " ".join(str(error).split())
        raise ProblemError(f"{source}: not valid {format.upper()}: {problem}") from None


def _check_nesting(text: str) -> None:
    """Refuse long dotted keys and deep brackets before parsing; the check is linear.

    The time and memory that `tomllib` takes for a key grow with the square of its parts.
    """
    dots = depth = 0
    for token in _TOML_TOKEN.finditer(text):
        sign = token[0]
        if sign == ".":
            dots += 1
        elif sign in "=,\n[]{}":
            dots = 0
            depth += (sign in "[{") - (sign in "]}")
        if dots >= MAX_NESTING or depth > MAX_NESTING:
            line = text.count("\n", 0, token.start()) + 1
            what = f"a key has more than {MAX_NESTING} parts" if dots else "nested too deeply"
            raise InvalidArgument(f"{what} (at line {line})")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise InvalidArgument(f"duplicate key {shown(key)}")
        table[key] = value
    return table


def save_problem(problem: Problem, path: str | Path, *, design: Design | None = None) -> None:
    """Write a problem to a file, with its design if given; reading it gives an equal problem.

    Parameters
    ----------
    problem : Problem
        Problem to write.
    path : str or Path
        A .toml or .json file. It appears whole or not at all.
    design : Design, optional
        Rules and scenarios to write with it.

    Raises
    ------
    ProblemError
        If the name has another ending, or the file cannot be written.

    Examples
    --------
    >>> from decobandit import Problem, load_problem, save_problem
    >>> problem = Problem.uniform(arms=3, horizon=20)
    >>> save_problem(problem, "three.toml")
    >>> load_problem("three.toml") == problem
    True
    """
    check_problem(problem, segments=True)
    text = format_problem(problem, design, format=_format_of(path))
    try:
        write_whole(path, text)
    except (OSError, ValueError) as error:
        raise ProblemError(f"{path}: cannot be written: {_reason(error)}") from None


def format_problem(
    problem: Problem, design: Design | None = None, *, format: Format = "toml"
) -> str:
    """Return the text of a problem file, with its design if there is one."""
    tree = designed_to_dict(problem, design)
    if _check_format(format) == "json":
        return json.dumps(tree, ensure_ascii=False, indent=2) + "\n"
    return _toml(tree)


def _toml(tree: Mapping[str, Any]) -> str:
    """Return the text of a tree: one [[arms]] per entry, with prior and reward on one line each.

    Not written by tomli-w: it gives every prior and reward a section of its own, after all other
    keys of its arm, and every number of a list a line of its own. Such files are hard to edit.
    """
    lines = _toml_lines({key: tree[key] for key in tree if not isinstance(tree[key], list | dict)})
    for key in ("segments", "arms"):
        for entry in tree.get(key, ()):
            lines += ["", f"[[{key}]]", *_toml_lines(entry)]
    for key, table in tree.items():  # keys that follow a table would belong to it
        if isinstance(table, dict):
            scenarios = table.get("scenarios", ())
            rest = {name: table[name] for name in table if name != "scenarios"}
            lines += ["", f"[{key}]", *_toml_lines(rest)]
            for entry in scenarios:
                lines += ["", f"[[{key}.scenarios]]", *_toml_lines(entry)]
    return "\n".join(lines) + "\n"


def _toml_lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in table.items()]


def _toml_key(key: str) -> str:
    """Return a key, in quotes unless it is of letters, digits, - and _."""
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else json.dumps(key, ensure_ascii=False)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_toml_lines(value)) + " }"
    if isinstance(value, list) and isinstance(value[0], list):
        return "[\n" + "".join(f"  {json.dumps(row)},\n" for row in value) + "]"
    # JSON's numbers, lists and strings are also TOML's, except for DEL; lone surrogates are in none
    # of the strings: names are printable, and the question of a design is checked
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_of(path: str | Path) -> Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ProblemError(f"{path}: suffix {shown(suffix)} is not allowed; must be .toml or .json")
    return _FORMATS[suffix]


def _check_format(format: Format) -> Format:
    if format not in _FORMATS.values():
        raise ProblemError(f'format {shown(format)} is not allowed; must be "toml" or "json"')
    return format


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
