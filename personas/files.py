"""Read and write teams, members and rubrics as YAML or JSON.

A file is bounded before anything is built of it: `LARGEST` bytes, `MOST_VALUES` values and
`DEEPEST` levels. Messages are bounded too, whatever the file holds.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import yaml
from pydantic import BaseModel, ValidationError

from personas import library
from personas.errors import SchemaError, fault, shown
from personas.format import counted
from personas.io import lines
from personas.io.atomic import write_whole
from personas.io.rankings import saved_team
from personas.schema import Criterion, Member, Persona, Rubric, Team, scaled_weights

M = TypeVar("M", bound=BaseModel)
Record: TypeAlias = Team | Member | Rubric | Persona
Place: TypeAlias = "tuple[str | int, ...]"  # keys and items, from 0, that lead to a value

# Errors of PyYAML where a tag such as ``!!bool`` does not fit its value.
_BAD_TAGS = (AttributeError, IndexError, KeyError, OverflowError, TypeError)
# Line ends of Unicode's own, and characters that are not seen but change what is: they reorder
# the text, or steer a terminal.
_UNSEEN = re.compile(
    "[\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\U000e0000-\\U000e007f]"
)
FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
LARGEST = 1_000_000  # bytes; a team of 20 with ten long criteria each has 100,000
MOST_VALUES = 20_000  # keys and values of YAML; a team of 20 with ten criteria each has 2,000
DEEPEST = 50  # levels of lists and mappings in YAML; a team has 6
_KINDS: dict[str, type[Record]] = {
    "members": Team,
    "persona": Member,
    "criteria": Rubric,
    "name": Persona,
}
_LONGEST_NUMBER = 40
_LONGEST_LINE = 400
_MOST_PROBLEMS = 10
_LONGEST_MESSAGE = 1_800


def load(model: type[M], path: str | os.PathLike[str]) -> M:
    """Read one `Team`, `Member`, `Rubric` or `Persona` from a ``.yaml`` or ``.json`` file.

    Where a `Team` is wanted, a saved ranking is a file of its team.

    Raises:
        SchemaError: the file cannot be read or is not valid; every problem is listed as
            ``file:line: place: what is wrong``.
    """
    path = Path(path)
    if model is Team and (team := saved_team(path)) is not None:
        return cast("M", team)
    return _validated(model, *_read(path), str(path))


def loads(model: type[M], text: str, *, format: str = "yaml", source: str = "text") -> M:  # noqa: A002
    """Like `load`, from a string. `format` is ``"yaml"`` or ``"json"``."""
    return _validated(model, _parse(text, format, source), text, source)


def load_any(path: str | os.PathLike[str]) -> Record:
    """Read a ``.yaml`` or ``.json`` file that holds a team, member, rubric or persona."""
    path = Path(path)
    if (team := saved_team(path)) is not None:
        return team
    data, text = _read(path)
    return _validated(_model_of(data, str(path)), data, text, str(path))


def dumps(record: BaseModel, *, format: str = "yaml") -> str:  # noqa: A002
    """The record as YAML or JSON text; reading it back gives an equal record.

    Fields that have their default value are left out. Characters that are not seen, such as marks
    that turn the direction of text, are written as escapes.
    """
    data = record.model_dump(mode="json", exclude_defaults=True)
    if format == "json":
        text = json.dumps(data, ensure_ascii=False, indent=2) + "\n"
        return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
    text = yaml.dump(data, Dumper=_ExactDumper, sort_keys=False, allow_unicode=True, width=96)
    # What is left of them is put in double quotes, see `_ExactDumper`.
    return _UNSEEN.sub(lambda found: f"\\U{ord(found[0]):08X}", text)


def save(record: BaseModel, path: str | os.PathLike[str]) -> None:
    """Write the record to a ``.yaml`` or ``.json`` file, whole or not at all.

    Raises:
        SchemaError: the suffix is another one, or the file cannot be written.
    """
    path = Path(path)
    text = dumps(record, format=_format_of(path))
    try:
        write_whole(path, text)
    except OSError as error:
        raise SchemaError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """The file's text."""
    text = lines.read_text(path, SchemaError, LARGEST, "make it smaller")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def weight_notes(path: str | os.PathLike[str]) -> tuple[tuple[Place, str], ...]:
    """Weights in a file that do not sum to 100, and what they become, where that changes much."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS or saved_team(path) is not None:
        return ()
    try:
        data = _read(path)[0]
    except SchemaError:
        return ()
    return tuple(
        (place, f"the weights{f' of {_cut(repr(name))}' * bool(name)} {said}")
        for place, name, criteria in _criteria(data, ())
        if (said := scaled_weights([each.get("weight") for each in criteria]))
    )


def _criteria(
    data: Any, place: Place, name: str = ""
) -> Iterator[tuple[Place, str, list[Mapping[str, Any]]]]:
    """The place of each list of criteria in a document, its persona's name, and the list."""
    if isinstance(data, list):
        if place[-1:] == ("criteria",) and all(isinstance(each, Mapping) for each in data):
            yield place, name, data
        data = dict(enumerate(data))
    if not isinstance(data, Mapping) or len(place) > DEEPEST:
        return
    if isinstance(persona := data.get("persona"), Mapping):
        name = str(persona.get("name", ""))
    for key, value in data.items():
        yield from _criteria(value, (*place, key), name)


def line_numbers(text: str) -> dict[Place, int]:
    """Place in a YAML or JSON document -> its line, from 1; empty if YAML cannot read the text."""
    try:
        root = yaml.compose(text, Loader=_StrictLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    return dict(_walk(root, ())) if root is not None else {}


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file: its content in a few words, or its problems, and what is allowed but hardly meant."""

    file: str
    holds: str = ""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find(name: str) -> Record:
    """Return the content of a file, or the member or team of the library of this name."""
    path = Path(name)
    if path.suffix.lower() in FORMATS or os.path.exists(path):  # noqa: PTH110
        return load_any(path)
    slug = "_".join(name.casefold().replace("-", " ").split())
    if slug in library.team_names():
        return library.team(slug)
    if slug in library.member_names():
        return library.member(slug)
    names = (*library.member_names(), *library.team_names())
    close = difflib.get_close_matches(slug, names, n=3)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "see 'personas list', or name a file that ends in .yaml, .yml or .json"
    )
    raise SchemaError(f"the library has no member and no team {name!r}; {hint}")


def check_file(path: Path) -> CheckedFile:
    """Read a file with a team, a member, a rubric or a persona, or a saved ranking's team."""
    try:
        record = load_any(path)
        # A saved ranking is not edited by its lines.
        lines = {} if saved_team(path) else line_numbers(read_text(path))
    except SchemaError as error:
        return CheckedFile(str(path), problems=tuple(str(error).splitlines()))
    odd = (located(str(path), lines, place) + said for place, said in weight_notes(path))
    return CheckedFile(str(path), _summary(record), warnings=tuple(odd))


def _summary(record: Record) -> str:
    if isinstance(record, Team):
        locked = ", locked" if record.locked else ""
        return f"team of {counted(len(record.members), 'member')}{locked}"
    if isinstance(record, Rubric):
        return f"rubric of {counted(len(record.criteria), 'criterion', 'criteria')}"
    if isinstance(record, Member):
        criteria = len(record.rubric.criteria) if record.rubric else 0
        return f"member {record.name!r}, {counted(criteria, 'criterion', 'criteria')}"
    return f"persona {record.name!r}"


class _ExactDumper(yaml.SafeDumper):
    """SafeDumper that puts text with unseen characters in double quotes, to be escaped there."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _UNSEEN.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ExactDumper.add_representer(str, _text_node)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses aliases, a key given twice, and more than a file may hold."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = parent.start_mark if parent is not None else None
        if self.check_event(yaml.AliasEvent):
            raise _refused("an alias (*name); write out what it means", mark)
        self._depth += 1
        self._values += 1
        if self._depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} levels deep; write it flatter", mark)
        if self._values > MOST_VALUES:
            raise _refused(f"holds more than {MOST_VALUES:,} values; make it smaller", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise _refused(f"{shown(key)} cannot be a key; write a word", key_node.start_mark)
            if key in seen:
                raise _refused(f"key {shown(key)} occurs twice; remove one", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _refused(problem: str, mark: yaml.Mark | None) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)


def _validated(model: type[M], data: Any, text: str, source: str) -> M:
    if model is Team:
        data = _with_members(data, text, source)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = line_numbers(text)
        # A list whose items have problems is also reported as empty.
        details = [
            detail
            for detail in error.errors(include_url=False)
            if not (detail["type"] == "too_short" and detail["input"])
        ]
        kept: list[str] = []
        for detail in details[:_MOST_PROBLEMS]:
            said = _cut(_explain(detail, model))
            problem = located(source, lines, tuple(detail["loc"])) + said
            if kept and sum(map(len, kept)) + len(problem) > _LONGEST_MESSAGE:
                break
            kept.append(problem)
        if more := len(details) - len(kept):
            kept.append(f"and {more:,} more problems")
        raise SchemaError("\n".join(kept)) from error


def _with_members(data: Any, text: str, source: str) -> Any:
    """The data of a team with members of the library in place of their names."""
    listed = data.get("members") if isinstance(data, Mapping) else None
    if not isinstance(listed, list):
        return data
    members = []
    for place, entry in enumerate(listed):
        try:
            members.append(library.member(entry) if isinstance(entry, str) else entry)
        except SchemaError as error:
            line = line_numbers(text).get(("members", place), 1)
            raise SchemaError(f"{source}:{line}: {error}") from error
    return {**data, "members": members}


def _model_of(data: Any, source: str) -> type[Record]:
    for key, model in _KINDS.items() if isinstance(data, Mapping) else ():
        if key in data:
            return model
    raise SchemaError(
        f"{source}:1: holds no team, member, rubric or persona; write one with the key members, "
        "persona, criteria or name"
    )


def _format_of(path: Path) -> str:
    if format_ := FORMATS.get(path.suffix.lower()):
        return format_
    raise SchemaError(f"{path}: has the suffix {path.suffix!r}; use .yaml, .yml or .json")


def _read(path: Path) -> tuple[Any, str]:
    """The document in a file, and its text."""
    format_ = _format_of(path)
    text = read_text(path)
    return _parse(text, format_, str(path)), text


def _parse(text: str, format: str, source: str) -> Any:  # noqa: A002
    try:
        if format == "json":
            return json.loads(text, object_pairs_hook=_distinct_keys)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - derives from SafeLoader
    except RecursionError as error:
        raise SchemaError(f"{source}: cannot be parsed: it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise SchemaError(f"{source}:{error.lineno}: not JSON: {error.msg}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SchemaError(f"{source}:{line}: not YAML: {_cut(str(error.problem))}") from error
    except (yaml.YAMLError, ValueError, *_BAD_TAGS) as error:
        raise SchemaError(f"{source}: cannot be parsed: {_cut(str(error))}") from error


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ValueError(f"key {shown(key)} occurs twice; remove one")
        data[key] = value
    return data


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."


def _walk(node: yaml.Node, place: Place) -> Iterator[tuple[Place, int]]:
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*place, str(key.value))
            yield from _walk(value, below)
            yield below, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _walk(value, (*place, index))


def located(source: str, lines: Mapping[Place, int], place: Place) -> str:
    """The beginning of a message: ``file:line: members[0].name: ``, its line as far as known."""
    known = place
    while known and known not in lines:
        known = known[:-1]
    where = f"{source}:{lines[known]}" if known in lines else source
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return f"{where}: {_cut(path.lstrip('.'))}: " if path else f"{where}: "


def _explain(detail: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])[:_LONGEST_NUMBER]
        records = (model, Team, Member, Persona, Rubric, Criterion)
        keys = sorted({key for record in records for key in record.model_fields})
        close = difflib.get_close_matches(key, keys, n=1)
        return "unknown key" + (f"; did you mean {close[0]!r}?" if close else "; remove it")
    if kind == "missing":
        return "is missing; add it"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    quotes = " (put it in quotes)" if kind == "string_type" else ""
    return f"{fault(detail)}{quotes}"
