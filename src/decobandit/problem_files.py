"""Problem files: TOML and JSON with the same tree, and errors that name the file and the key.

An entry of `arms` with `count = n`, n > 1, stands for n arms named name-1 to name-n. Reading what
was written gives an equal problem.
"""

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError, model_validator
from pydantic_core import ErrorDetails

from decobandit.problem import (
    MAX_ARMS,
    NAME_RULE,
    Arm,
    ArmCount,
    Beta,
    Deployment,
    Frozen,
    Horizon,
    Problem,
    Reward,
    Terminal,
    is_name,
    numbered,
    refuse,
)

Format = Literal["toml", "json"]
Place = tuple[int | str, ...]

_FORMATS: dict[str, Format] = {".toml": "toml", ".json": "json"}
_SHOWN = 60  # characters of a refused value that are repeated in the message


class ProblemError(ValueError):
    """A problem file that cannot be used: one line with the file, the key, what was found."""


# -- reading ------------------------------------------------------------------------------------


def load_problem(path: str | Path) -> Problem:
    """Read a problem from a .toml or .json file."""
    return problem_from_dict(read_tree(path), source=str(path))


def parse_problem(text: str, *, format: Format = "toml", source: str = "<text>") -> Problem:
    """Read a problem from text; `source` is what messages call it."""
    return problem_from_dict(_parse(text, format, source), source=source)


def read_tree(path: str | Path) -> Any:
    """What a .toml or .json file holds, whatever it is about."""
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
    return _parse(text, format, source)


def _parse(text: str, format: Format, source: str) -> Any:
    try:
        return tomllib.loads(text) if _known(format) == "toml" else _loads_json(text)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (at line {error.lineno}, column {error.colno})"
        raise ProblemError(f"{source}: not valid JSON: {problem}") from None
    except RecursionError:
        raise ProblemError(f"{source}: not valid {format.upper()}: nested too deeply") from None
    except ValueError as error:
        problem = " ".join(str(error).split())
        raise ProblemError(f"{source}: not valid {format.upper()}: {problem}") from None


def problem_from_dict(tree: Any, *, source: str = "<dict>") -> Problem:
    """The problem of a tree of tables, lists and numbers, as a file holds it."""
    try:
        file = _ProblemFile.model_validate(tree)
    except ValidationError as error:
        raise ProblemError(f"{source}: {_first(error.errors())}") from None
    arms = tuple(arm for entry in file.arms for arm in entry.expand())
    settings = {name: getattr(file, name) for name in _ProblemFile.model_fields}
    try:
        return Problem.model_validate(settings | {"arms": arms})
    except ValidationError as error:
        # the model counts arms, the reader of the file counts entries
        starts = list(accumulate((entry.count for entry in file.arms), initial=0))
        details = error.errors()
        for detail in details:
            match detail["loc"]:
                case ("arms", int(position), *rest):
                    detail["loc"] = ("arms", bisect_right(starts, position) - 1, *rest)
        raise ProblemError(f"{source}: {_first(details)}") from None


class _ArmEntry(Arm):
    count: ArmCount = 1

    @model_validator(mode="after")
    def _check_last_name(self) -> Self:
        last = f"{self.name}-{self.count}"
        if self.count > 1 and not is_name(last):
            refuse(NAME_RULE, found=last, at=("name",))
        return self

    def expand(self) -> tuple[Arm, ...]:
        arm = Arm(name=self.name, prior=self.prior, reward=self.reward, terminal=self.terminal)
        return (arm,) if self.count == 1 else numbered(arm, count=self.count)


class _ProblemFile(Frozen):
    horizon: Horizon
    pulls_per_stage: ArmCount = 1
    arms: tuple[_ArmEntry, ...]
    terminal: Deployment = None

    @model_validator(mode="after")
    def _check_number_of_arms(self) -> Self:
        # before the entries are expanded: a small file must not ask for much memory
        total = sum(entry.count for entry in self.arms)
        if total > MAX_ARMS:
            refuse(f"must be 1 to {MAX_ARMS} arms, counts included", found=total, at=("arms",))
        return self


def _loads_json(text: str) -> Any:
    # NaN and Infinity pass here; the model refuses them, and knows their place
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"duplicate key {_show(key)}")
        table[key] = value
    return table


# -- messages -----------------------------------------------------------------------------------

_TABLES: dict[Place, type[Frozen]] = {
    (): _ProblemFile,
    ("arms",): _ArmEntry,
    ("arms", "prior"): Beta,
    ("arms", "reward"): Reward,
    ("terminal",): Terminal,
}
_RULES = {
    "tuple_type": "must be a list",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
}


def _first(details: Sequence[ErrorDetails]) -> str:
    """The first error in one line; unknown keys first, for a misspelt key is also missing."""
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    place = place_of(first["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {complaint(first)}{more}" if place else f"{complaint(first)}{more}"


def complaint(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "required key is missing"
    if detail["type"] == "extra_forbidden":
        table = _TABLES[tuple(key for key in detail["loc"][:-1] if isinstance(key, str))]
        return f"unknown key; allowed: {', '.join(table.model_fields)}"
    rule = _RULES.get(detail["type"], detail["msg"])
    return f"{_show(detail['input'])} is not allowed; {rule}"


def place_of(keys: Place) -> str:
    """arms[1].prior.good, with quotes around keys that are not plain words."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            word = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _show(key)
            text += f".{word}" if text else word
    return text


def _show(value: object) -> str:
    """A refused value as a file would write it, on one line, shortened."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=not value.isprintable())
    elif value is None or isinstance(value, bool):
        text = json.dumps(value)
    elif isinstance(value, list | tuple):
        text = f"a list of {len(value)}"
    elif isinstance(value, Mapping):
        text = "a table"
    elif isinstance(value, int) and value.bit_length() > 128:
        text = "a huge integer"  # Python refuses to print the largest
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


# -- writing ------------------------------------------------------------------------------------


def save_problem(problem: Problem, path: str | Path) -> None:
    """Write a problem to a .toml or .json file."""
    text = format_problem(problem, format=_format_of(path))
    try:
        Path(path).write_bytes(text.encode())
    except (OSError, ValueError) as error:
        raise ProblemError(f"{path}: cannot be written: {_reason(error)}") from None


def format_problem(problem: Problem, *, format: Format = "toml") -> str:
    """The text of a problem file."""
    tree = problem_to_dict(problem)
    if _known(format) == "json":
        return json.dumps(tree, ensure_ascii=False, indent=2) + "\n"
    return _toml(tree)


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """The tree of tables, lists and numbers that a file holds; `problem_from_dict` undoes it."""
    tree: dict[str, Any] = {
        "horizon": problem.horizon,
        "pulls_per_stage": problem.pulls_per_stage,
        "arms": list(_entries(problem.arms)),
    }
    if problem.terminal is not None:
        tree["terminal"] = {"deploy": problem.terminal.deploy}
    return tree


def _entries(arms: Sequence[Arm]) -> Iterator[dict[str, Any]]:
    start = 0
    while start < len(arms):
        arm, count = arms[start], _run(arms, start)
        entry: dict[str, Any] = {
            "name": arm.name if count == 1 else arm.name.removesuffix("-1"),
            "prior": {"good": arm.prior.good, "bad": arm.prior.bad},
            "reward": {"good": _listed(arm.reward.good), "bad": _listed(arm.reward.bad)},
        }
        if arm.terminal is not None:
            entry["terminal"] = [list(row) for row in arm.terminal]
        if count > 1:
            entry["count"] = count
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
        same = (arm.prior, arm.reward, arm.terminal) == (first.prior, first.reward, first.terminal)
        if arm.name != f"{base}-{i + 1}" or not same:
            return i
    return len(arms) - start


def _listed(value: float | tuple[float, ...]) -> float | list[float]:
    return list(value) if isinstance(value, tuple) else value


def _toml(tree: Mapping[str, Any]) -> str:
    lines = [f"{key} = {tree[key]}" for key in ("horizon", "pulls_per_stage")]
    for entry in tree["arms"]:
        lines += ["", "[[arms]]", *(f"{key} = {_toml_value(entry[key])}" for key in entry)]
    if "terminal" in tree:
        lines += ["", "[terminal]", f"deploy = {_toml_value(tree['terminal']['deploy'])}"]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml_value(value[key])}" for key in value) + " }"
    if isinstance(value, list) and isinstance(value[0], list):
        return "[\n" + "".join(f"  {json.dumps(row)},\n" for row in value) + "]"
    # JSON's numbers, lists and strings are also TOML's, except for DEL and lone surrogates
    # inside a string: arms' names, the only strings here, are printable and have neither
    return json.dumps(value, ensure_ascii=False)


# -- files --------------------------------------------------------------------------------------


def _format_of(path: str | Path) -> Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ProblemError(f"{path}: suffix {_show(suffix)} is not allowed; must be .toml or .json")
    return _FORMATS[suffix]


def _known(format: Format) -> Format:
    if format not in _FORMATS.values():
        raise ProblemError(f'format {_show(format)} is not allowed; must be "toml" or "json"')
    return format


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
