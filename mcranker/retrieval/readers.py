"""Documents from files, folders, records and texts, one at a time: one reader for every command.

Every document is whole or left out: a file that cannot be read, or a record of a file of records,
is reported with the reason, and reading goes on with the next.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from mcranker.errors import InputError
from mcranker.inputs.documents import KNOWN, QUERY_KEYS, TEXT_KEYS, entries, fold
from mcranker.inputs.passages import Docs, as_passages
from mcranker.retrieval.extract import ENDINGS, Extractor, guessed_encoding
from personas.format import counted
from personas.io.lines import (
    LONGEST_LINE,
    LONGEST_RANKING,
    STDIN,
    joined,
    megabytes,
    named,
    parsed,
    read_lines,
)
from personas.ranking.types import Passage

Format = Literal["jsonl", "json", "csv", "tsv", "text"]

SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".json": "json",
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".txt", ".text"), "text"),
}
"""Endings of files of many documents; a text may also be one."""

TEXTS = (".txt", ".text", ".md", ".markdown", ".rst", ".adoc", ".org", ".tex", ".log", "")
"""Endings of a text that is one document."""

PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz")
LARGEST_FILE = 100_000_000
"""Bytes of a text that is one document. JSON may have 1,000 MB; JSONL, CSV and TSV any size, 64 MB
a line; see `mcranker.retrieval.extract` for PDF, HTML and Office."""

LONGEST_NAME = 1_000  # characters of a document's id, and of its title
CORPUS = "corpus.jsonl"  # the file of a BEIR folder that is read
_SAMPLE = 1_000_000  # bytes by which an encoding is guessed
_HEADING = re.compile(r"^#[ \t]+(\S.{0,200})", re.MULTILINE)
_HEADS = frozenset(map(fold, (*TEXT_KEYS, *QUERY_KEYS)))


class Skipped(NamedTuple):
    """A file or record that was left out: its path, with the line if it has one, and why."""

    path: str
    reason: str


Source: TypeAlias = "str | os.PathLike[str] | Docs"
"""A file, a folder, a BEIR folder, or documents: texts, records, `Passage` and other libraries'
documents, or a mapping id -> text."""

OnSkip: TypeAlias = Callable[[Skipped], None]


def read_documents(source: Source, *, on_skip: OnSkip) -> Generator[Passage]:
    """The documents of a source, read as they are asked for. Blocks.

    The id of a file in a folder is its path there, with ``/``. That of a record is its own, or its
    place from 0, with the file's path and ``/`` before it if the file was found in a folder.
    """
    if isinstance(source, str | os.PathLike):
        found = _of_path(source, on_skip)
    elif hasattr(source, "__iter__"):
        given = ((f"docs[{n}]", each) for n, each in enumerate(entries(source)))
        found = of_entries(given, on_skip)
    else:
        kind = type(source).__name__
        raise InputError(f"the source is a {kind}; give a path, or a list of texts or records")
    for _, document in found:
        if fault := _fault(document):
            on_skip(Skipped(document.id[:LONGEST_NAME], fault))
        else:
            yield document


def passages_of(source: str, format: Format | None = None) -> Iterator[tuple[str, Passage]]:  # noqa: A002
    """Places and passages of a source as `read_documents` takes it, each with its score."""
    kind = format or format_of(source)
    if Path(source).is_dir() or (kind is None and source != STDIN and _suffix(source)):
        return _of_path(source, refuse)
    return of_entries(read_entries(read_text_lines(source, refuse, kind), named(source), kind))


def refuse(each: Skipped) -> None:
    """Raise what would be left out, as an `InputError`."""
    raise InputError(f"{each.path}: {each.reason}")


def _fault(document: Passage) -> str:
    for what in ("id", "title"):
        if (length := len(getattr(document, what))) > LONGEST_NAME:
            return f"its {what} has {length:,} characters; {LONGEST_NAME:,} are read at most"
    return "" if document.text.strip() else "there is no text in it"


# --- files ------------------------------------------------------------------------------


def _walk(root: Path, on_skip: OnSkip) -> Iterator[str]:
    """Relative paths of the regular files, with ``/``, sorted folder by folder."""

    def unreadable(error: OSError) -> None:
        on_skip(Skipped(str(error.filename), f"cannot be read: {error.strerror}"))

    for folder, inner, names in os.walk(root, onerror=unreadable):
        inner[:] = sorted(each for each in inner if not each.startswith("."))
        links = [each for each in inner if Path(folder, each).is_symlink()]
        for name in sorted((*links, *names)):
            path = Path(folder, name)
            if name.startswith("."):
                continue
            if why := _why_not(path, root):
                on_skip(Skipped(repr(str(path)) if "UTF-8" in why else str(path), why))
            else:
                yield path.relative_to(root).as_posix()


def _why_not(path: Path, root: Path) -> str:
    """The reason why a file of a folder is not read; empty for others."""
    try:
        path.relative_to(root).as_posix().encode()
        kind = path.stat().st_mode
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    except OSError as error:  # a link that leads nowhere, or in a circle
        return f"cannot be read: {error.strerror}"
    if stat.S_ISDIR(kind):
        return "is a link to a folder; name the folder itself"
    if not stat.S_ISREG(kind):
        return "is no regular file"
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        return "is a link to a file outside of the folder; name that file itself"
    return ""


def _of_path(source: str | os.PathLike[str], on_skip: OnSkip) -> Iterator[tuple[str, Passage]]:
    path = Path(source).expanduser()
    corpora = [file for name in (CORPUS, f"{CORPUS}.gz") if (file := path / name).is_file()]
    if not path.exists():
        hint = "give an existing one, or texts as a list"
        raise InputError(f"there is no file or folder {os.fspath(source)!r}; {hint}")
    files: Iterable[tuple[Path, str]] = [(corpora[0] if corpora else path, "")]
    if path.is_dir() and not corpora:
        files = ((path / name, name) for name in _walk(path, on_skip))
    return _of_files(files, on_skip)


def _of_files(files: Iterable[tuple[Path, str]], on_skip: OnSkip) -> Iterator[tuple[str, Passage]]:
    """Passages of files, each with its name in the folder; empty if it was named by itself."""
    with closing(Extractor()) as extractor:
        for path, name in files:
            suffix, source = _suffix(path.name), str(path)
            kind = None if suffix in TEXTS else SUFFIXES.get(suffix)
            try:
                if kind:
                    skip, coding = (
                        (on_skip, "utf-8") if kind == "jsonl" else (refuse, _coding(path))
                    )
                    lines = read_text_lines(source, skip, kind, coding)
                    yield from of_entries(read_entries(lines, source, kind, on_skip), on_skip, name)
                elif path.suffix.lower() in ENDINGS:
                    yield source, Passage(name or path.name, *extractor.text_of(path))
                elif suffix in TEXTS:
                    text = _text_of(source, read_text_lines(source, refuse, coding=_coding(path)))
                    heading = suffix in (".md", ".markdown") and _HEADING.search(text)
                    title = heading[1].rstrip("# \t\r") if heading else ""
                    yield source, Passage(name or path.name, text, title)
                elif (packed := path.suffix.lower()) in PACKED:
                    raise InputError(f"{path}: {packed!r} is compressed; unpack it first")
                else:
                    read = ", ".join(dict.fromkeys((*SUFFIXES, *TEXTS[:-1], *ENDINGS)))
                    raise InputError(f"{path}: {suffix!r} files are not read; give {read}")
            except InputError as error:
                on_skip(_skipped(source, error))


def format_of(source: str) -> Format | None:
    """The format of a file of many documents, by its ending."""
    return SUFFIXES.get(_suffix(source))


def _suffix(name: str) -> str:
    return Path(name.lower().removesuffix(".gz")).suffix


def read_text_lines(
    source: str,
    on_skip: OnSkip,
    format: Format | None = None,  # noqa: A002
    coding: str = "utf-8",
) -> Iterator[tuple[str, str]]:
    """Place, as ``FILE:LINE``, and text of each line of a file; of JSON a line may be longer."""
    longest = LONGEST_RANKING if format == "json" else LONGEST_LINE
    hint = "see whether it is the right file; a JSON document may have "
    hint += f"{megabytes(LONGEST_RANKING)}: name it FILE.json"
    lines = read_lines(source, InputError, longest=longest, too_long=hint)
    for place, offset, content in lines:
        if coding.startswith("utf-8"):
            coding = "utf-8" if offset else "utf-8-sig"
        try:
            text = content.decode(coding)
        except UnicodeDecodeError as failure:
            where = f"not {failure.encoding.upper()} (byte {failure.start + 1} of the line)"
            on_skip(Skipped(place, f"{where}; save it as UTF-8"))
            continue
        if "\0" in text:
            on_skip(Skipped(place, "holds a zero byte: no text, or UTF-16; save it as UTF-8"))
        else:
            yield place, text


def _text_of(source: str, lines: Iterable[tuple[str, str]]) -> str:
    size, pieces = 0, list[str]()
    for _, line in lines:
        if (size := size + len(line)) > LARGEST_FILE:
            hint = "divide it, or give its documents as JSONL"
            raise InputError(f"{source}: longer than {megabytes(LARGEST_FILE)}; {hint}")
        pieces.append(line)
    return "".join(pieces).replace("\ufffe", "")  # a PDF reader's mark in a divided word


def _coding(path: Path) -> str:
    """The encoding of a file, by its beginning."""
    opened = gzip.open if path.suffix.lower() == ".gz" else Path.open
    with suppress(OSError, EOFError, zlib.error), opened(path, "rb") as file:  # reading says so
        content = file.read(_SAMPLE)
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder("utf-8")().decode(content, len(content) < _SAMPLE)
            return "utf-8"
        return guessed_encoding(content) or "utf-8"
    return "utf-8"


def _skipped(path: str, error: Exception) -> Skipped:
    """Divide an error into the place it begins with and the reason."""
    place = re.match(re.escape(path) + r"(:\d+)?(: entry \d+)?: ", str(error))
    return Skipped(place[0][:-2], str(error)[place.end() :]) if place else Skipped(path, str(error))


# --- records ----------------------------------------------------------------------------


def read_entries(
    lines: Iterator[tuple[str, str]],
    name: str,
    format: Format | None,  # noqa: A002
    on_skip: OnSkip = refuse,
) -> Iterator[tuple[str, Any]]:
    """Place and text or record of each entry in lines; without a format by the first character."""
    lines = ((place, line) for place, line in lines if line.strip() or format == "csv")
    if format is None and (first := next(lines, None)):
        lines, start = chain([first], lines), first[1].strip()
        format = "jsonl" if start.startswith("{") and start != "{" else "text"  # noqa: A001
        if start == "{" or re.match(r'\[\s*(["{\]]|$)', start):
            format = "json"  # noqa: A001
    if format == "json":
        text, places = joined(lines, name, InputError)
        data = parsed(text, places, InputError, loose=True) if places else []
        if not isinstance(data, list | dict):
            raise InputError(f"{name}: holds a {type(data).__name__}; give an array or an object")
        for number, entry in enumerate(entries(data) if isinstance(data, dict) else data, 1):
            yield f"{name}: entry {number}", entry
    elif format in ("csv", "tsv"):
        yield from _table(lines, format == "tsv", on_skip)
    elif format == "text":
        yield from ((place, line.strip()) for place, line in lines)
    else:
        for place, line in lines:
            try:
                yield place, parsed(line, [place], InputError, loose=True)
            except InputError as error:
                on_skip(_skipped(name, error))


def of_entries(
    found: Iterable[tuple[str, Any]], on_skip: OnSkip = refuse, prefix: str = ""
) -> Iterator[tuple[str, Passage]]:
    """Passages of texts, records and objects, each with its place in words."""
    number = 0
    for place, entry in found:
        try:
            passages = as_passages((entry,), first=number)
        except InputError as error:
            number += 1
            on_skip(Skipped(place, re.sub(r"docs\[\d+\]", "the entry", str(error))))
            continue
        number += len(passages)
        for each in passages:
            yield place, replace(each, id=f"{prefix}/{each.id}") if prefix else each


def _table(
    lines: Iterator[tuple[str, str]], tabs: bool, on_skip: OnSkip
) -> Iterator[tuple[str, Any]]:
    """Rows as records, without empty cells but for the text."""
    csv.field_size_limit(LONGEST_LINE)
    place, line = next((each for each in lines if each[1].strip()), ("", ""))
    marks = "\t" if tabs else ",;\t|"
    if (named := re.fullmatch(r'"?sep=(.)"?\s*', line)) and not tabs:  # as Excel writes it
        marks = named[1]
        place, line = next((each for each in lines if each[1].strip()), ("", ""))
    if not place:
        return

    def rest() -> Iterator[str]:
        nonlocal place
        for place, each in lines:  # noqa: B007 - it is the function's
            yield each

    try:
        heads = {each: next(csv.reader([line], delimiter=each)) for each in marks}
        if tabs:
            heads = {each: line.split(each) for each in marks}

        def sure(mark: str) -> tuple[bool, int]:
            return not _HEADS.isdisjoint(map(fold, heads[mark])), len(heads[mark])

        mark = max(heads, key=sure)
        columns, given = [each.strip() for each in heads[mark]], rest()
        if _HEADS.isdisjoint(map(fold, columns)):
            if not tabs or not KNOWN.isdisjoint(map(fold, columns)):
                raise InputError(
                    f"{place}: none of the columns {', '.join(map(repr, columns[:20]))} is known "
                    "to hold a text; call it 'text' in the first line"
                )
            columns, given = ["_id", "text"], chain([line], given)
        rows: Iterable[list[str]] = csv.reader(given, delimiter=mark, strict=True)
        if tabs:  # quotes are part of a text, as in MS MARCO
            rows = (each.rstrip("\r\n").split("\t") for each in given)
        for row in rows:
            if row and len(row) != len(columns):
                said = f"{counted(len(row), 'column')} instead of {len(columns)}"
                hint = "a first line names the columns, such as id, title, text, score"
                on_skip(Skipped(place, f"{said}; {hint}"))
            elif row:
                cells = zip(columns, row, strict=True)
                yield place, {key: cell for key, cell in cells if cell or fold(key) in _HEADS}
    except csv.Error as error:
        raise InputError(f"{place}: {error}") from error
