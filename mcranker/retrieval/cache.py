"""Cache of runs and indexes, found again by their inputs.

    ROOT/KIND/KEY/          one piece of work; it appears whole or not at all
        manifest.json       size and SHA-256 of every other file

A key is the SHA-256 of everything that the work depends on. A folder that does not fit its
manifest is not used. Any of them may be removed at any time; what is missing is made again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.retrieval.bm25 import Found
from personas.io.atomic import replacing_folder

MANIFEST = "manifest.json"
RUNS = "runs"
RUN_FILE = "run.json"

DAYS, BYTES = 30, 5_000_000_000
"""An index that was not used for so long is removed, and the oldest of more bytes in all; but none
that was used within a day."""

_log = safe_logger("mcranker.retrieval.cache")


def default_store() -> Path:
    """Return the cache's folder: ``first_stage`` in MCRANKER_CACHE or the user's cache folder."""
    return cache_root() / "first_stage"


def digest_of(rows: Iterable[tuple[str, ...]]) -> str:
    """Return SHA-256 over rows of texts in their order; one pass, nothing is held."""
    digest = hashlib.sha256()
    for row in rows:
        texts = [text.encode("utf-8", "surrogatepass") for text in row]
        # With the lengths in front, no text can run over into the next one.
        lengths = b"".join(len(text).to_bytes(8, "big") for text in texts)
        digest.update(lengths + b"".join(texts))
    return digest.hexdigest()


def key_of(parts: Mapping[str, Any]) -> str:
    """The key of work that depends on `parts`, in any order; its values are those of JSON."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def find(root: Path, kind: str, key: str) -> Path | None:
    """The folder of that work, every byte of it checked; None if it is not there or damaged."""
    folder = root / kind / key
    if not (folder / MANIFEST).is_file():
        return None
    try:
        fault = _fault(folder)
    except OSError as failure:
        fault = f"it cannot be read: {failure.strerror}"
    if fault:
        _log.warning("%s is not used and made again: %s", folder, fault)
        return None
    return folder


def keep(root: Path, kind: str, key: str, write: Callable[[Path], None]) -> Path | None:
    """Let `write` fill an empty folder, and keep that under `key`."""
    target = root / kind / key
    try:
        # Another process may be first; what it keeps may be in use already.
        with replacing_folder(target, unless=lambda: find(root, kind, key) is not None) as folder:
            write(folder)
            files = {
                path.relative_to(folder).as_posix(): [path.stat().st_size, _file_digest(path)]
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
            (folder / MANIFEST).write_bytes(orjson.dumps({"version": 1, "files": files}))
    except OSError as failure:
        _log.warning(
            "cannot keep this work under %s (%s), so it is done again next time; make room, or "
            "set MCRANKER_CACHE to a folder that can be written to",
            target.parent,
            failure.strerror or failure,
        )
        return None
    return target


def kept_run(root: Path, key: str) -> Found | None:
    """Return the run kept under `key`, scores to the last digit; None if there is none."""
    folder = find(root, RUNS, key)
    if folder is None:
        return None
    try:
        lines = orjson.loads((folder / RUN_FILE).read_bytes())
    except FileNotFoundError:  # removed by another process just now
        return None
    return {
        query_id: [(doc_id, score) for doc_id, score in documents] for query_id, documents in lines
    }


def keep_run(root: Path, key: str, run: Found) -> None:
    """Keep `run` under `key`, if that is possible."""

    def write(folder: Path) -> None:
        (folder / RUN_FILE).write_bytes(orjson.dumps(list(run.items())))

    keep(root, RUNS, key, write)


def index_place(key: str) -> Path:
    """Return the file of an index that depends on `key`, and remove those too old or too many."""
    place = cache_root() / "indexes" / f"{key[:32]}.sqlite"
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError):  # there is no such file yet
        os.utime(place)
    for path in place.parent.glob("*.sqlite"):
        with suppress(OSError):  # removed by another process just now
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    now, total = time.time(), 0
    for used, size, path in sorted(found, reverse=True):
        total += size
        days = (now - used) / 86_400
        if days > DAYS or (total > BYTES and days > 1):
            for each in (path, path.with_name(f"{path.name}-journal")):
                with suppress(OSError):
                    each.unlink()
    return place


def _fault(folder: Path) -> str:
    """Return the fault of a kept folder; empty if there is none."""
    try:
        files = orjson.loads((folder / MANIFEST).read_bytes())["files"]
        expected = [(name, size, digest) for name, (size, digest) in files.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is damaged"
    for name, size, digest in expected:
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if _file_digest(path) != digest:
            return f"{name} was changed"
    return ""


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
