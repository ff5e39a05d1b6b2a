"""An index of documents: searched by words or by meaning, and added to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from anyio import to_thread

from mcranker.errors import ConfigError, InputError
from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.retrieval.chunks import SENTENCE_TOKENS, Chunk, ChunkKind, chunks_of
from mcranker.retrieval.embedders import Embedder, TextEmbedder, connect_embedder
from mcranker.retrieval.index_file import Added, IndexFile, Scored, Vectors, embedded_text, key_of
from mcranker.retrieval.readers import OnSkip, Skipped, Source, read_documents
from mcranker.runtime.bridge import Bridge

if TYPE_CHECKING:
    from personas.ranking.usage import UsageTable

By = Literal["bm25", "dense"]

BATCH = 512
"""Chunks that are embedded at a time, and written; of a longer document, all of its chunks."""

SECONDS = 0.5  # after which a batch ends, so that an interrupt is heard
DAYS, BYTES = 30, 5_000_000_000
"""An index in the cache that was not used for so long is removed, and the oldest of more bytes in
all; but none that was used within a day."""

_SPECIAL_TOKENS = 2  # that an encoder adds to a text
_UNIT = 0.01  # how far from 1 the length of a vector may be

_log = safe_logger("mcranker.retrieval.index")


class Index:
    """An index; make it with `create` or `open`, and use it as a context manager."""

    def __init__(
        self,
        path: Path,
        embedder: Embedder | None,
        *,
        owned: bool,
        new: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._file = IndexFile(path, new)
        self._embedder = embedder
        self._owned = [embedder] if owned and embedder is not None else []
        self._bridge = Bridge(partial(_close_all, self._owned))
        if embedder is not None:
            self._check_mark(embedder)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | str | None = None,
        chunks: str = "sentences",
    ) -> Self:
        """Make an index in a new file, or open the same one that is there already."""
        place = Path(path).expanduser()
        if place.is_dir():
            raise ConfigError(f"{str(place)!r} is a folder; name a file, which becomes the index")
        if chunks not in get_args(ChunkKind):
            raise ConfigError(
                f"chunks={chunks!r} is unknown; give one of {', '.join(get_args(ChunkKind))}"
            )
        made = connect_embedder(embedder)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = {"embedder": made.name, "mark": made.mark, "chunks": chunks}
        index = cls(place, made, owned=made is not embedder, new=new)
        if (there := index._file.about["chunks"]) != chunks:
            index.close()
            said = f"the index {str(path)!r} has chunks={there!r}, not {chunks!r}"
            raise ConfigError(f"{said}; name another file")
        return index

    @classmethod
    def open(cls, path: str | os.PathLike[str], embedder: Embedder | str | None = None) -> Self:
        """Open the index in a file."""
        place = Path(path).expanduser()
        if not place.is_file():
            raise InputError(f"there is no index {str(place)!r}; make one with 'mcranker index'")
        made = None if embedder is None else connect_embedder(embedder)
        return cls(place, made, owned=made is not embedder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what the index holds. An embedder that was given is its maker's to close."""
        self._bridge.close()
        self._file.close()

    def __len__(self) -> int:
        """The number of chunks."""
        return self._file.chunks

    def describe(self) -> dict[str, Any]:
        """Path, embedder, kind of chunks, and the numbers of documents, chunks and bytes."""
        file = self._file
        return {
            "path": str(self.path),
            **{key: file.about[key] for key in ("embedder", "mark", "chunks")},
            "dimensions": file.dimensions,
            "documents": file.documents,
            "passages": file.chunks,
            "bytes": file.size,
        }

    def chunk(self, id: str) -> Chunk:  # noqa: A002
        """Return a chunk by its id."""
        return self._file.chunk(id)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The vectors of chunks, of shape (ids, dimensions)."""
        return self._file.vectors(ids)

    # --- search -------------------------------------------------------------------------

    async def search(
        self, queries: Sequence[str], k: int, by: By, usage: UsageTable | None = None
    ) -> list[Scored]:
        """Up to `k` chunks for each query, with their scores, best first."""
        if k < 1:
            raise ConfigError(f"k={k!r} is out of range; give a whole number from 1")
        file = self._file
        if by == "bm25":
            return await to_thread.run_sync(lambda: [file.search_words(q, k) for q in queries])
        if not (queries and file.dimensions):
            return [[] for _ in queries]
        vectors = await self.connect().embed_queries(queries, usage)
        return await to_thread.run_sync(lambda: [file.search_vectors(v, k) for v in vectors])

    def connect(self, **limits: Any) -> Embedder:
        """Connect the embedder that made the index, unless there is one; with limits of calls."""
        if self._embedder is None:
            name = self._file.about["embedder"]
            try:
                made = connect_embedder(name, **limits)
            except ConfigError as error:
                why = str(error)
                if name.startswith("embed:") and not limits.get("base_url"):
                    why = "give the address of that service with embedder_url=URL"
                raise ConfigError(
                    f"the index {str(self.path)!r} has vectors of {name!r}: {why}"
                ) from error
            self._check_mark(made)
            self._owned.append(made)
            self._embedder = made
        return self._embedder

    def _check_mark(self, embedder: Embedder) -> None:
        if embedder.mark != self._file.about["mark"]:
            raise ConfigError(
                f"the index {str(self.path)!r} has vectors of {self._file.about['embedder']!r} "
                f"(mark {self._file.about['mark']!r}), not of {embedder.name!r} (mark "
                f"{embedder.mark!r}); open it with that embedder, or index the documents again"
            )

    # --- documents ----------------------------------------------------------------------

    async def add(
        self,
        documents: Source,
        *,
        on_skip: OnSkip | None = None,
        progress: Callable[[Added], None] | None = None,
        usage: UsageTable | None = None,
    ) -> Added:
        """Add documents; a changed text replaces the one of its id."""
        done = Added()

        def skip(skipped: Skipped) -> None:
            nonlocal done
            done = done._replace(skipped=done.skipped + 1)
            if on_skip is None:
                _log.warning("%s is left out: %s", skipped.path, skipped.reason)
            else:
                on_skip(skipped)

        with closing(self._batches(documents, skip)) as batches:
            while batch := await to_thread.run_sync(next, batches, None):
                done = done._replace(unchanged=done.unchanged + batch.unchanged)
                if batch.documents:
                    chunks = [chunk for _, chunks in batch.documents.values() for chunk in chunks]
                    vectors = await self._embedded(
                        [embedded_text(each.title, each.text) for each in chunks], usage
                    )
                    new = await to_thread.run_sync(self._file.write, batch.documents, vectors)
                    done = Added(*map(sum, zip(done, new, strict=True)))
                if progress is not None:
                    progress(done)
        return done

    def _batches(self, documents: Source, skip: OnSkip) -> Generator[_Batch]:
        embedder = self.connect()
        kind = self._file.about["chunks"]
        tokenizer = embedder.tokenizer if isinstance(embedder, TextEmbedder) else None
        most = max(1, (embedder.max_tokens or SENTENCE_TOKENS) - _SPECIAL_TOKENS)
        batch, count = _Batch(), 0
        with closing(read_documents(documents, on_skip=skip)) as found:
            for document in found:
                if document.id in batch.documents:
                    yield batch
                    batch, count = _Batch(), 0
                digest = key_of(f"{len(document.title)} {document.title}{document.text}")
                if self._file.digest(document.id) == digest:
                    batch.unchanged += 1
                else:
                    chunks, until = list[Chunk](), batch.until
                    for chunk in chunks_of(document, kind, tokenizer=tokenizer, max_tokens=most):
                        chunks.append(chunk)
                        if time.monotonic() > until:  # of a long document
                            yield _Batch()
                            until = time.monotonic() + SECONDS
                    batch.documents[document.id] = digest, chunks
                    count += len(chunks)
                if count >= BATCH or time.monotonic() > batch.until:
                    yield batch
                    batch, count = _Batch(), 0
        yield batch

    async def _embedded(self, texts: Sequence[str], usage: UsageTable | None) -> dict[bytes, bytes]:
        """Key of a text -> its vector: that of the same text in the index, else a new one."""
        embedder = self.connect()
        embed = embedder.embed_passages
        if isinstance(embedder, TextEmbedder):  # no second copy in the user's cache
            embed = partial(embedder.embed_passages, keep=False)
        wanted = {key_of(text): text for text in texts}
        vectors = await to_thread.run_sync(self._file.known_vectors, wanted)
        new = [key for key in wanted if key not in vectors]
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            rows = await embed([wanted[key] for key in part], usage)
            shape = len(part), self._file.dimensions or rows.shape[-1]
            if rows.shape != shape or not (abs(np.linalg.norm(rows, axis=1) - 1) < _UNIT).all():
                raise ConfigError(
                    f"{embedder.name!r} gave vectors of shape {rows.shape} instead of {shape}, "
                    "or some that are not of length 1; use another embedder"
                )
            halves = (row.tobytes() for row in rows.astype("<f2"))
            vectors.update(zip(part, halves, strict=True))
        return vectors


@dataclass(slots=True)
class _Batch:
    """Documents to be written: id -> digest and chunks."""

    documents: dict[str, tuple[bytes, list[Chunk]]] = field(default_factory=dict)
    unchanged: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)


def cached_index(key: str) -> Path:
    """Return the file of an index that depends on `key`, and remove those too old or too many."""
    place = cache_root() / "indexes" / f"{key[:32]}.sqlite"
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError):  # there is no such file yet
        os.utime(place)
    for path in place.parent.glob("*.sqlite"):
        with suppress(OSError):  # removed by another process just now
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    total = 0
    for used, size, path in sorted(found, reverse=True):
        total += size
        days = (time.time() - used) / 86_400
        if days > DAYS or (total > BYTES and days > 1):
            for each in (path, path.with_name(f"{path.name}-journal")):
                each.unlink(missing_ok=True)
    return place


async def _close_all(owned: Sequence[Embedder]) -> None:
    """Close what an index has connected; not the index's, which could not be dropped then."""
    for each in owned:
        await each.aclose()
