"""Documents from files, folders, records and texts, one at a time.

Every document is whole or left out: a file that cannot be read, or a record of a file of records,
is reported with the reason, and reading goes on with the next.
"""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mcranker.documents import ID_KEYS
from mcranker.errors import InputError
from mcranker.inputs import Doc, Docs, as_passages
from mcranker.retrieval.extract import Extractor
from personas.format import counted
from personas.io.lines import parsed, read_lines, read_whole

LARGEST_FILE = 100_000_000
"""Bytes of a file that is read as a whole: text, Markdown, JSON and CSV. JSONL may have any size,
64 MB a line; see `mcranker.retrieval.extract` for PDF and HTML."""

LONGEST_NAME = 1_000
"""Characters of a document's id, and of its title."""

CORPUS = "corpus.jsonl"
"""The file of a BEIR folder that is read."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to search in.

    Attributes:
        id: of a file in a folder its path there, with ``/``; of a record its own, or its place
            from 0, with the file's path and ``/`` before it if the file was found in a folder.
        text: without its title.
        title: of HTML and PDF what they say, of Markdown the first heading; may be empty.
        metadata: of a record.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Skipped(NamedTuple):
    """A file or record that was left out: its path, with the line if it has one, and why."""

    path: str
    reason: str


Source: TypeAlias = "str | os.PathLike[str] | Docs | Iterable[Doc | Document]"
"""A file, a folder, a BEIR folder, or documents: texts, records, `Document`, `Passage` and
other libraries' documents, or a mapping id -> text."""

OnSkip: TypeAlias = Callable[[Skipped], None]


def read_documents(source: Source, *, on_skip: OnSkip) -> Generator[Document]:
    """The documents of a source, read as they are asked for. Blocks.

    | suffix | what it is |
    |---|---|
    | .jsonl, .ndjson (.gz) | a record or a string a line |
    | .json | an array of these, or an object id -> text or record |
    | .csv | a line of headings, then a record a line |
    | .tsv | the same; without an id among the headings: an id and a text a line |
    | .html, .htm, .xhtml | its text, without scripts and styles |
    | .pdf | the text in it; a scanned page has none |
    | others | a text, if it is UTF-8 (or UTF-16 with its mark) without a zero byte |

    A folder that holds ``corpus.jsonl`` is a BEIR folder, of which that file alone is read.
    Another one is walked in sorted order; names that begin with a dot are passed over, indexes and
    links to folders are reported and not followed. The names in one folder are in memory at a time.

    Args:
        source: the documents.
        on_skip: is given what is left out, and why.

    Raises:
        InputError: there is no such file or folder, or the source is none of these.
    """
    if not (isinstance(source, str | os.PathLike) or hasattr(source, "__iter__")):
        kind = type(source).__name__
        raise InputError(f"the source is a {kind}; give a path, or a list of texts or records")
    if isinstance(source, str | os.PathLike):
        path = Path(source).expanduser()
        corpora = [file for name in (CORPUS, f"{CORPUS}.gz") if (file := path / name).is_file()]
        if not path.exists():
            hint = "give an existing one, or texts as a list"
            raise InputError(f"there is no file or folder {os.fspath(source)!r}; {hint}")
        files: Iterable[tuple[Path, str]] = [(corpora[0] if corpora else path, "")]
        if path.is_dir() and not corpora:
            files = ((path / name, name) for name in _walk(path, on_skip))
        found = _of_files(files, on_skip)
    else:
        entries = _named(source) if isinstance(source, Mapping) else source
        found = _of_entries(((f"docs[{n}]", each) for n, each in enumerate(entries)), on_skip)
    for document in found:
        if fault := _fault(document):
            on_skip(Skipped(document.id[:LONGEST_NAME], fault))
        else:
            yield document


def _fault(document: Document) -> str:
    for what in ("id", "title"):
        if (length := len(getattr(document, what))) > LONGEST_NAME:
            return f"its {what} has {length:,} characters; {LONGEST_NAME:,} are read at most"
    return "" if document.text.strip() else "there is no text in it"


# --- files ------------------------------------------------------------------------------


def _walk(root: Path, on_skip: OnSkip) -> Iterator[str]:
    """Relative paths of the regular files, with ``/``, sorted folder by folder."""
    folders = [""]
    while folders:
        folder = folders.pop()
        inner: list[str] = []
        try:
            names = sorted(os.listdir(root / folder))  # noqa: PTH208 - a million names, no paths
        except OSError as error:
            on_skip(Skipped(str(root / folder), f"cannot be read: {error.strerror}"))
            continue
        for name in names:
            if name.startswith("."):
                continue
            path, relative = root / folder / name, f"{folder}{name}"
            try:
                relative.encode()
                kind = path.stat().st_mode
            except UnicodeEncodeError:
                on_skip(Skipped(repr(str(path)), "its name is not UTF-8; rename it"))
            except OSError as error:  # a link that leads nowhere, or in a circle
                on_skip(Skipped(str(path), f"cannot be read: {error.strerror}"))
            else:
                if stat.S_ISREG(kind):
                    yield relative
                elif not stat.S_ISDIR(kind):
                    on_skip(Skipped(str(path), "is no regular file"))
                elif path.is_symlink():
                    on_skip(Skipped(str(path), "is a link to a folder; name the folder itself"))
                elif all((path / each).is_file() for each in ("index.json", "lock")):
                    on_skip(Skipped(str(path), "is an index"))
                else:
                    inner.append(f"{relative}/")
        folders += reversed(inner)


def _of_files(files: Iterable[tuple[Path, str]], on_skip: OnSkip) -> Iterator[Document]:
    """Documents of files, each with its name in the folder; empty if it was named by itself."""
    with closing(Extractor()) as extractor:
        for path, name in files:
            suffix = Path(path.name.lower().removesuffix(".gz")).suffix
            try:
                if suffix in (".jsonl", ".ndjson"):
                    yield from _of_entries(_json_lines(path, on_skip), on_skip, name)
                elif suffix in (".json", ".csv", ".tsv"):
                    text = _decoded(path, LARGEST_FILE)
                    entries = _json if suffix == ".json" else _table
                    yield from _of_entries(entries(text, str(path), suffix), on_skip, name)
                elif suffix in (".pdf", ".html", ".htm", ".xhtml"):
                    yield Document(name or path.name, *extractor.text_of(path))
                else:
                    text, title = _decoded(path, LARGEST_FILE), ""
                    if suffix in (".md", ".markdown") and (
                        heading := re.search(r"^#[ \t]+(\S.{0,200})", text, re.MULTILINE)
                    ):
                        title = heading[1].rstrip("# \t\r")
                    text = text.replace("\ufffe", "")  # a PDF reader's mark in a divided word
                    yield Document(name or path.name, text, title)
            except (InputError, csv.Error) as error:
                on_skip(_skipped(str(path), error))


def _decoded(path: Path, largest: int) -> str:
    content = read_whole(path, InputError, largest, "divide it, or give its documents as JSONL")
    coding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(coding)
    except UnicodeDecodeError as failure:
        place = f"byte {failure.start + 1:,}"
        raise InputError(f"{path}: not UTF-8 ({place}); save it as UTF-8 or PDF") from failure
    if "\0" in text:
        raise InputError(f"{path}: holds a zero byte, so it is no text; save it as UTF-8 or PDF")
    return text


def _skipped(path: str, error: Exception) -> Skipped:
    """Divide an error into the place it begins with and the reason."""
    place = re.match(re.escape(path) + r"(:\d+)?(: entry \d+)?: ", str(error))
    return Skipped(place[0][:-2], str(error)[place.end() :]) if place else Skipped(path, str(error))


# --- records ----------------------------------------------------------------------------

_Entries: TypeAlias = "Iterable[tuple[str, Any]]"


def _of_entries(entries: _Entries, on_skip: OnSkip, prefix: str = "") -> Iterator[Document]:
    """Documents of texts, records and objects, each with its place in words."""
    for number, (place, entry) in enumerate(entries):
        try:
            (passage,) = as_passages((entry,), first=number)
        except InputError as error:
            on_skip(Skipped(place, str(error).replace(f"docs[{number}]", "the entry")))
            continue
        name = f"{prefix}/{passage.id}" if prefix else passage.id
        yield Document(name, passage.text, passage.title, passage.metadata)


def _json_lines(path: Path, on_skip: OnSkip) -> Iterator[tuple[str, Any]]:
    for place, offset, content in read_lines(str(path), InputError):
        if not content.strip():
            continue
        try:
            text = content.decode("utf-8" if offset else "utf-8-sig")
            yield place, parsed(text, [place], InputError, loose=True)
        except UnicodeDecodeError as failure:
            on_skip(Skipped(place, f"not UTF-8 (byte {failure.start + 1} of the line)"))
        except InputError as error:
            on_skip(_skipped(str(path), error))


def _named(texts: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    """Records of a mapping id -> text or record."""
    for key, value in texts.items():
        yield {"_id": key, **(value if isinstance(value, Mapping) else {"text": value})}


def _json(text: str, name: str, _: str) -> Iterator[tuple[str, Any]]:
    data = parsed(text, [name], InputError, loose=True)
    if isinstance(data, dict):
        data = [data] if isinstance(data.get("text"), str) else list(_named(data))
    if not isinstance(data, list):
        raise InputError(f"{name}: holds a {type(data).__name__}; give an array or an object")
    yield from ((f"{name}: entry {number}", entry) for number, entry in enumerate(data, 1))


def _table(text: str, name: str, suffix: str) -> Iterator[tuple[str, Any]]:
    """Rows as records. A fault in one leaves out the whole file."""
    tabs: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    kind = tabs if suffix == ".tsv" else {"strict": True}

    def rows() -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(io.StringIO(text, newline=""), **kind)
        yield from ((reader.line_num, row) for row in reader if row)

    first = next(rows(), (0, []))[1]
    headings = [each.strip() for each in first]
    headed = suffix == ".csv" or any(each.lower() in ID_KEYS for each in headings)
    columns = headings if headed else ["_id", "text"]
    for line, row in rows():
        if len(row) != len(columns):
            raise InputError(
                f"{name}:{line}: {counted(len(row), 'column')} instead of {len(columns)}; a first "
                "line names the columns, such as id, title, text"
            )
    names = [
        each.lower() if each.lower() in ("title", "text", *ID_KEYS) else each for each in columns
    ]
    for place, (line, row) in enumerate(rows()):
        if place or not headed:
            record = {key: cell for key, cell in zip(names, row, strict=True) if cell}
            yield f"{name}:{line}", record
