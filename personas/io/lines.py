"""Files from outside, read line by line or whole; none takes more memory than is said here.

An error is of the class that the caller gives, and names the file, or ``FILE:LINE``. A file whose
name ends in ``.gz`` is unpacked as it is read. It may unpack to a hundred times its size: text
packs to a third, and what packs to less than a hundredth was made to fill a disk or a memory.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import orjson

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LONGEST_LINE = 64_000_000  # bytes of one passage, one query, or one entry of a run
LONGEST_RANKING = 1_000_000_000  # bytes of a whole ranking, and of JSON on many lines
MOST_UNPACKED = 100  # bytes out of one packed byte; not looked at up to `LONGEST_LINE` in all
STDIN = "-"

Source: TypeAlias = "str | Traversable"  # a file, or `STDIN`
_PIECE = 1 << 20


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Identified)


class Line(NamedTuple):
    """A line: ``FILE:LINE``, where it begins in bytes, and its bytes with the line's end."""

    place: str
    offset: int
    content: bytes


def read_lines(
    source: Source,
    error: type[Exception],
    *,
    longest: int = LONGEST_LINE,
    missing: str = "",
    too_long: str = "see whether it is the right file, with an end to each line",
) -> Iterator[Line]:
    """The lines of a file, one at a time."""
    name, offset = named(source), 0
    with _readable(name, error, missing), _opened(source) as (file, packed):
        for number in count(1):
            if not (content := file.readline(longest + 1)):
                return
            place = f"{name}:{number}"
            if len(content) > longest:
                raise error(f"{place}: the line is longer than {megabytes(longest)}; {too_long}")
            # What was read so far is no more than the file has: a bomb shows at its beginning.
            unpacked = offset + len(content)
            if packed and unpacked > max(LONGEST_LINE, MOST_UNPACKED * packed.tell()):
                raise error(
                    f"{name}: more than {megabytes(unpacked)} come out of "
                    f"{megabytes(packed.tell())}, over {MOST_UNPACKED} times as much; if it is "
                    "right, unpack it with gunzip"
                )
            yield Line(place, offset, content)
            offset = unpacked


def read_texts(
    source: Source,
    error: type[Exception],
    *,
    longest: int = LONGEST_LINE,
    missing: str = "",
    too_long: str = "see whether it is the right file, with an end to each line",
) -> Iterator[tuple[str, str]]:
    """``FILE:LINE`` and text of every line that is not blank, with or without a byte order mark."""
    lines = read_lines(source, error, longest=longest, missing=missing, too_long=too_long)
    for place, offset, content in lines:
        if b"\0" in content:
            raise error(f"{place}: holds a zero byte, so it is no text file")
        try:
            text = content.decode("utf-8" if offset else "utf-8-sig")
        except UnicodeDecodeError as failure:
            where = f"{place}: not UTF-8 (byte {failure.start + 1} of the line)"
            raise error(f"{where}; save it as UTF-8") from failure
        if text.strip():
            yield place, text


def read_records(
    source: Source, error: type[Exception], *keys: str
) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Every line and the object in it, with texts under these keys."""
    for line in read_lines(source, error, longest=LONGEST_RANKING):
        found = parsed(line.content, [line.place], error, "; bring back the whole file")
        if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in keys):
            raise error(f"{line.place}: no record: it needs texts under {', '.join(keys)}")
        yield line, found


def read_whole(
    source: Traversable,
    error: type[Exception],
    longest: int = LONGEST_RANKING,
    too_long: str = "see whether it is the right file",
) -> bytes:
    """Everything in a file; `error` if it cannot be read, or holds more than `longest` bytes."""
    content = bytearray()
    with _readable(str(source), error), source.open("rb") as file:
        while piece := file.read(_PIECE):  # what may be read at most is not taken at once
            content += piece
            if len(content) > longest:
                raise error(f"{source}: longer than {megabytes(longest)}; {too_long}")
    return bytes(content)


def read_text(
    source: Traversable,
    error: type[Exception],
    longest: int,
    too_long: str = "see whether it is the right file",
) -> str:
    """The text of a file, with or without a byte order mark; `error` also if it is not UTF-8."""
    try:
        return read_whole(source, error, longest, too_long).decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        where = f"{source}: not UTF-8 (byte {failure.start + 1})"
        raise error(f"{where}; save it as UTF-8") from failure


def distinct(found: Iterable[tuple[str, _Entry]], error: type[Exception]) -> Iterator[_Entry]:
    """The entries of a file, given with their places; `error` names both if two share an id."""
    places: dict[str, str] = {}
    for place, entry in found:
        if entry.id in places:
            raise error(
                f"{place}: the id {entry.id!r} is at {places[entry.id]} already; make ids unique"
            )
        places[entry.id] = place
        yield entry


def parsed(
    text: str | bytes,
    places: Sequence[str],
    error: type[Exception],
    hint: str = "",
    *,
    loose: bool = False,
) -> Any:
    """The JSON value in a text whose lines are at `places`; else `error`, with `hint`."""
    try:
        return json.loads(text) if loose else orjson.loads(text)
    except json.JSONDecodeError as failure:  # orjson's is one
        place = places[min(failure.lineno, len(places)) - 1]
        raise error(f"{place}: not JSON: {failure.msg} (column {failure.colno}){hint}") from failure
    except (ValueError, RecursionError) as failure:
        raise error(f"{places[0]}: JSON that cannot be used: {failure}") from failure


def joined(
    lines: Iterator[tuple[str, str]], name: str, error: type[Exception]
) -> tuple[str, list[str]]:
    """The text of a JSON document on many lines, up to `LONGEST_RANKING`, and where each is."""
    places: list[str] = []
    texts: list[str] = []
    size = 0
    for place, line in lines:
        size += len(line)
        if size > LONGEST_RANKING:
            raise error(
                f"{name}: the JSON document is longer than {megabytes(LONGEST_RANKING)}, and it is "
                "read as a whole; give JSONL, which is read line by line"
            )
        places.append(place)
        texts.append(line)
    return "".join(texts), places


def place_of(source: Traversable, offset: int) -> str:
    """``FILE:LINE`` of what begins at `offset`."""
    number, left = 1, offset
    with source.open("rb") as file:
        while left and (block := file.read(min(left, _PIECE))):
            number += block.count(b"\n")
            left -= len(block)
    return f"{source}:{number}"


def named(source: Source) -> str:
    """Return the name of a file in messages, also of standard input for ``"-"``."""
    return "standard input" if source == STDIN else str(source)


def megabytes(size: int) -> str:
    """A limit in bytes as messages name it: ``64 MB``."""
    return f"{size / 1_000_000:,.4g} MB" if size >= 1_000_000 else f"{size:,} bytes"


@contextmanager
def _opened(source: Source) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
    """The lines of a file, and the packed file that they come from if it is packed."""
    if source == STDIN:
        yield sys.stdin.buffer, None
        return
    file = Path(source) if isinstance(source, str) else source
    with file.open("rb") as raw:
        if not file.name.lower().endswith(".gz"):
            yield raw, None
            return
        with gzip.open(raw) as unpacked:
            yield cast("IO[bytes]", unpacked), raw


@contextmanager
def _readable(name: str, error: type[Exception], missing: str = "") -> Iterator[None]:
    """Let errors of reading be of the class `error`, and name the file."""
    try:
        yield
    except error:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as failure:
        raise error(f"{name}: damaged or incomplete ({failure}); get it again") from failure
    except (OSError, ValueError) as failure:  # a zero byte in the name is the latter
        why = getattr(failure, "strerror", None) or str(failure)
        hint = missing if isinstance(failure, FileNotFoundError) else ""
        raise error(f"{name}: cannot be read: {why}{hint}") from failure
