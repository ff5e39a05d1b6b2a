"""Files of run folders: read with errors that name the place, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from beir_eval.errors import RunFolderError
from mcranker.bounded_lines import LONGEST_RANKING, TooLong, bounded_lines, bounded_whole
from personas.atomic import write_whole
from personas.plain import can_be_encoded

Form = TypeVar("Form", bound=BaseModel)


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        place: ``FILE:LINE``.
        offset: where it begins, in bytes.
        content: its bytes, with the line's end if there is one.
    """

    place: str
    offset: int
    content: bytes

    def entry(self) -> dict[str, Any]:
        """The object in it.

        Raises:
            RunFolderError: there is none.
        """
        try:
            entry = orjson.loads(self.content)
        except orjson.JSONDecodeError as failure:
            raise RunFolderError(
                f"{self.place}: not JSON: {failure}; bring back the whole file"
            ) from failure
        if not isinstance(entry, dict):
            raise RunFolderError(f"{self.place}: no object")
        return entry


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file.

    Raises:
        RunFolderError: the file cannot be read, or a line is too long.
    """
    offset = 0
    try:
        with path.open("rb") as file:
            for number, content in enumerate(bounded_lines(file, LONGEST_RANKING), start=1):
                yield Line(f"{path}:{number}", offset, content)
                offset += len(content)
    except TooLong as failure:
        raise RunFolderError(f"{path}:{failure.number}: the line is {failure}") from failure
    except OSError as failure:
        raise RunFolderError(f"{path}: cannot be read: {failure.strerror}") from failure


def read_records(path: Path, *keys: str) -> Iterator[dict[str, str]]:
    """The objects of a file, a line each, with texts under these keys.

    Raises:
        RunFolderError: the file cannot be read, or a line is something else.
    """
    for line in read_lines(path):
        entry = line.entry()
        if not all(isinstance(entry.get(key), str) for key in keys):
            raise RunFolderError(f"{line.place}: no record: it needs texts under {', '.join(keys)}")
        yield entry


def append_whole(path: Path, line: bytes) -> None:
    """Add a line to a file; what is killed meanwhile leaves a torn last line at most.

    Raises:
        OSError: it cannot be written; names the file.
    """
    try:
        with path.open("ab") as file:
            file.write(line)
    except OSError as failure:  # a full disk names no file by itself
        raise OSError(failure.errno, failure.strerror, str(path)) from failure


def write_form(path: Path, form: BaseModel) -> None:
    """Write a manifest or metrics.

    Raises:
        RunFolderError: it holds a name that is not UTF-8, e.g. of a file.
        OSError: it cannot be written; names the file.
    """
    try:
        text = form.model_dump_json(indent=1)
    except PydanticSerializationError as failure:
        odd = next(name for name in _texts(form.model_dump()) if not can_be_encoded(name))
        raise RunFolderError(
            f"{path}: cannot hold {odd!r}, which is not UTF-8; rename what is called so"
        ) from failure
    write_whole(path, f"{text}\n")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _read_bytes(path: Path) -> bytes:
    """The content of a file.

    Raises:
        RunFolderError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return bounded_whole(file, LONGEST_RANKING)
    except TooLong as failure:
        raise RunFolderError(f"{path}: {failure}") from failure
    except OSError as failure:
        raise RunFolderError(f"{path}: cannot be read: {failure.strerror}") from failure


def read_form(path: Path, form: type[Form]) -> Form:
    """What a file of JSON holds.

    Raises:
        RunFolderError: it cannot be read, or is not of that form.
    """
    content = _read_bytes(path)
    try:
        return form.model_validate_json(content)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise RunFolderError(f"{path}: {where}: {first['msg']}") from failure
