"""Read and write teams, members and rubrics as YAML or JSON."""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from personas.errors import SchemaError

if TYPE_CHECKING:
    from personas.schema import Member, Persona, Rubric, Team

__all__ = [
    "FORMATS",
    "dumps",
    "line_numbers",
    "load",
    "load_any",
    "loads",
    "loads_any",
    "read_text",
    "save",
]

M = TypeVar("M", bound=BaseModel)
_BAD_TAGS = (AttributeError, IndexError, KeyError, TypeError)
"""What PyYAML raises where a tag such as ``!!bool`` does not fit its value."""
# Line ends of Unicode's own, and characters that are not seen but change what is: they reorder
# the text, or steer a terminal.
_UNSEEN = re.compile(
    "[\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\U000e0000-\\U000e007f]"
)
FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
"""Suffix of a file -> its format."""


def load(model: type[M], path: str | os.PathLike[str]) -> M:
    """Read one `Team`, `Member`, `Rubric` or `Persona` from a ``.yaml`` or ``.json`` file.

    Raises:
        SchemaError: the file cannot be read or is not valid; every problem is listed as
            ``file:line: place: what is wrong``.
    """
    path = Path(path)
    format_ = _format_of(path)
    return loads(model, read_text(path), format=format_, source=str(path))


def loads(model: type[M], text: str, *, format: str = "yaml", source: str = "text") -> M:  # noqa: A002
    """Like `load`, from a string. `format` is ``"yaml"`` or ``"json"``."""
    return _validated(model, _parse(text, format, source), text, source)


def load_any(path: str | os.PathLike[str]) -> Team | Member | Rubric | Persona:
    """Read a ``.yaml`` or ``.json`` file that holds a team, member, rubric or persona.

    Raises:
        SchemaError: as for `load`.
    """
    path = Path(path)
    format_ = _format_of(path)
    return loads_any(read_text(path), format=format_, source=str(path))


def loads_any(
    text: str,
    *,
    format: str = "yaml",  # noqa: A002
    source: str = "text",
) -> Team | Member | Rubric | Persona:
    """Like `load_any`, from a string. Which of them it is, is told by its keys."""
    data = _parse(text, format, source)
    return _validated(_model_of(data, source), data, text, source)


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
    # What is left of them stands in double quotes, see `_ExactDumper`.
    return _UNSEEN.sub(lambda found: f"\\U{ord(found[0]):08X}", text)


def save(record: BaseModel, path: str | os.PathLike[str]) -> None:
    """Write the record to a ``.yaml`` or ``.json`` file, whole or not at all.

    Raises:
        SchemaError: the suffix is another one, or the file cannot be written.
    """
    path = Path(path)
    text = dumps(record, format=_format_of(path))
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SchemaError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """The file's text.

    Raises:
        SchemaError: the file is missing, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except (OSError, ValueError) as error:  # a zero byte in the name is the latter
        why = getattr(error, "strerror", None) or error
        raise SchemaError(f"{path}: cannot be read: {why}") from error


def line_numbers(text: str) -> dict[tuple[str | int, ...], int]:
    """Place in a YAML or JSON document -> its line, counted from 1.

    A place is the keys and, counted from 0, the items that lead there. Empty if YAML cannot read
    the text.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    return dict(_walk(root, (), set())) if root is not None else {}


class _ExactDumper(yaml.SafeDumper):
    """SafeDumper that puts text with unseen characters in double quotes, to be escaped there.

    Elsewhere Unicode's own line ends would be folded.
    """

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"' if _UNSEEN.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ExactDumper.add_representer(str, _ExactDumper.represent_text)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} cannot be a key; write a word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} stands there twice; remove one", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _validated(model: type[M], data: Any, text: str, source: str) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = line_numbers(text)
        problems = [
            _problem(source, lines, detail, model)
            for detail in error.errors(include_url=False)
            # A list whose items have problems is also reported as empty.
            if not (detail["type"] == "too_short" and detail["input"])
        ]
        raise SchemaError("\n".join(problems)) from error


def _model_of(data: Any, source: str) -> type[Team | Member | Rubric | Persona]:
    from personas.schema import Member, Persona, Rubric, Team

    if isinstance(data, Mapping):
        if "members" in data:
            return Team
        if "persona" in data:
            return Member
        if "criteria" in data:
            return Rubric
        if "name" in data:
            return Persona
    raise SchemaError(
        f"{source}:1: holds no team, member, rubric or persona; write one with the key members, "
        "persona, criteria or name"
    )


def _format_of(path: Path) -> str:
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise SchemaError(
            f"{path}: has the suffix {path.suffix!r}; use .yaml, .yml or .json"
        ) from None


def _parse(text: str, format: str, source: str) -> Any:  # noqa: A002
    try:
        if format == "json":
            return json.loads(text, object_pairs_hook=_refuse_repeated_keys)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - derives from SafeLoader
    except json.JSONDecodeError as error:
        raise SchemaError(f"{source}:{error.lineno}: not JSON: {error.msg}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SchemaError(f"{source}:{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError, *_BAD_TAGS) as error:
        raise SchemaError(f"{source}: cannot be parsed: {error}") from error


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} stands there twice; remove one")
    return data


def _walk(
    node: yaml.Node, place: tuple[str | int, ...], seen: set[int]
) -> Iterator[tuple[tuple[str | int, ...], int]]:
    yield place, node.start_mark.line + 1
    # An alias leads to a node that was seen, and may lead back to where it stands.
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*place, str(key.value))
            yield from _walk(value, below, seen)
            yield below, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _walk(value, (*place, index), seen)


def _problem(
    source: str,
    lines: Mapping[tuple[str | int, ...], int],
    detail: Mapping[str, Any],
    model: type[BaseModel],
) -> str:
    place = tuple(detail["loc"])
    known = place
    while known and known not in lines:
        known = known[:-1]
    where = f"{source}:{lines[known]}" if known in lines else source
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    label = f"{path.lstrip('.')}: " if path else ""
    return f"{where}: {label}{_explain(detail, model)}"


def _explain(detail: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        close = difflib.get_close_matches(key, _all_keys(model), n=1)
        return "unknown key" + (f"; did you mean {close[0]!r}?" if close else "; remove it")
    if kind == "missing":
        return "is missing; add it"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in {"string_type", "model_type", "dict_type", "mapping_type"}:
        quotes = " (put it in quotes)" if kind == "string_type" else ""
        return f"{detail['msg']}, got {detail['input']!r}{quotes}"
    return f"{detail['msg']}, got {_shortened(detail['input'])}"


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _all_keys(model: type[BaseModel]) -> Sequence[str]:
    from personas.schema import Criterion, Member, Persona, Rubric, Team

    records = (model, Team, Member, Persona, Rubric, Criterion)
    return sorted({key for record in records for key in record.model_fields})
