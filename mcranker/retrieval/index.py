"""An index of documents on disk: their chunks, BM25 and the vectors of an embedder.

    INDEX/index.json        embedder, kind of chunks, and the sizes that count; replaced last
    INDEX/chunks-NAME/      files of chunks, see `mcranker.retrieval.chunk_log`
    INDEX/vectors/          vectors by content, see `mcranker.encoders.vectors`
    INDEX/derived/          BM25 and HNSW, made from these when they are first needed
    INDEX/lock              held by the one process that adds documents

Files grow or are added, and what counts does not change. So a build that is killed, or runs out
of disk, loses the work on its last few hundred chunks at most, and the next one goes on. Readers
keep what they have opened, and see what was added once they open it again.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, get_args

import numpy as np
import orjson
from anyio import to_thread
from numpy.typing import NDArray

from mcranker.encoders.vectors import Vector, VectorStore
from mcranker.errors import ConfigError, InputError
from mcranker.logs import safe_logger
from mcranker.retrieval import bm25, cache
from mcranker.retrieval.bm25 import BM25, Found
from mcranker.retrieval.chunk_log import ChunkLog, Divided, embedded_text
from mcranker.retrieval.chunks import SENTENCE_TOKENS, Chunk, ChunkKind, chunks_of
from mcranker.retrieval.embedders import Embedder, TextEmbedder, connect_embedder
from mcranker.retrieval.fusion import reciprocal_ranks
from mcranker.retrieval.hnsw import HNSW
from mcranker.retrieval.readers import Document, OnSkip, Skipped, Source, read_documents
from mcranker.runtime.bridge import Bridge
from mcranker.runtime.locks import locked
from personas.format import counted
from personas.io.atomic import write_whole

if TYPE_CHECKING:
    from personas.ranking.usage import UsageTable

By = Literal["bm25", "dense", "hybrid"]
T = TypeVar("T", BM25, HNSW)
Vectors: TypeAlias = NDArray[np.float32]

BATCH = 512
"""Chunks that are embedded at a time, and written; of a longer document, all of its chunks."""

SECONDS = 0.5
"""After which a batch ends, so that an interrupt is heard."""

IN_MEMORY = 2_000_000_000
"""Bytes of vectors that are kept in memory, in single precision, for exact search. More of them
are read from the disk for every search; use HNSW by then."""

DEPTH = 100
"""Chunks of each search, at least, that a hybrid one fuses."""

VERSION = 2
"""The form of an index's files, and of the chunks in them."""

_KEYS = "embedder", "mark", "dimensions", "chunks", "folder", "sizes"
_SPECIAL_TOKENS = 2  # that an encoder adds to a text
_BLOCK = 65_536  # vectors that are read at a time
_UNIT = 0.01  # how far from 1 the length of a vector may be

_log = safe_logger("mcranker.retrieval.index")

Scored = list[list[tuple[str, float]]]


class Added(NamedTuple):
    """Work of `Index.add` so far."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    skipped: int = 0
    chunks: int = 0


class Index:
    """An index; make it with `create`, `open` or `in_memory`, and use it as a context manager."""

    def __init__(self, folder: Path, embedder: Embedder | None, *, hnsw: bool, owned: bool) -> None:
        self.folder = folder
        self._embedder = embedder
        self._owned = [embedder] if owned and embedder is not None else []
        self._hnsw_wanted = hnsw
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._about: dict[str, Any]
        self._chunks: ChunkLog
        self._vectors: VectorStore
        self._matrix: Vectors | None = None
        self._bm25: BM25 | None = None
        self._hnsw: HNSW | None = None
        self._bridge = Bridge(partial(_close_all, self._owned))
        self._searching = threading.Lock()
        self._load()
        if embedder is not None:
            self._check_mark(embedder)

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        *,
        embedder: Embedder | str | None = None,
        chunks: str = "sentences",
        hnsw: bool = False,
    ) -> Self:
        """Make an index in a new or empty folder, or open the same one that is there already."""
        if chunks not in get_args(ChunkKind):
            raise ConfigError(
                f"chunks={chunks!r} is unknown; give one of {', '.join(get_args(ChunkKind))}"
            )
        path, made = Path(folder).expanduser(), connect_embedder(embedder)
        if not (path / "index.json").exists():
            if path.exists() and not path.is_dir():
                raise ConfigError(f"{str(path)!r} is no folder; name another")
            path.mkdir(parents=True, exist_ok=True)
            if any(not each.name.startswith(".") for each in path.iterdir()):
                raise ConfigError(
                    f"{str(path)!r} holds something else than an index; name another folder"
                )
            values: list[Any] = [made.name, made.mark, 0, chunks, _new_name(), {}]
            about = dict(zip(_KEYS, values, strict=True))
            write_whole(path / "index.json", orjson.dumps({"version": VERSION, **about}))
        index = cls(path, made, hnsw=hnsw, owned=made is not embedder)
        if (there := index._about["chunks"]) != chunks:
            raise ConfigError(
                f"the index {str(path)!r} has chunks={there!r}, not {chunks!r}; name another folder"
            )
        return index

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        embedder: Embedder | str | None = None,
        *,
        hnsw: bool = False,
    ) -> Self:
        """Open the index in a folder."""
        made = None if embedder is None else connect_embedder(embedder)
        return cls(Path(folder).expanduser(), made, hnsw=hnsw, owned=made is not embedder)

    @classmethod
    def in_memory(
        cls,
        *,
        embedder: Embedder | str | None = None,
        chunks: str = "sentences",
        hnsw: bool = False,
    ) -> Self:
        """Make an index in a temporary folder, which goes when it is closed or dropped."""
        temporary = tempfile.TemporaryDirectory(prefix="mcranker-index-")
        index = cls.create(temporary.name, embedder=embedder, chunks=chunks, hnsw=hnsw)
        index._temporary = temporary  # noqa: SLF001 - of this class
        return index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what the index holds. An embedder that was given is its maker's to close."""
        self._bridge.close()
        self._open(ChunkLog(self.folder, {}))
        if self._temporary is not None:
            self._temporary.cleanup()

    def __len__(self) -> int:
        """The number of chunks."""
        return len(self._chunks) - self._chunks.dead

    def describe(self) -> dict[str, Any]:
        """Path, embedder, kind of chunks, and the numbers of documents, chunks and bytes."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {
            "path": str(self.folder),
            **{key: self._about[key] for key in ("embedder", "mark", "dimensions", "chunks")},
            "documents": len(self._chunks.documents),
            "passages": len(self),
            "bytes": sum(path.stat().st_size for path in files),
        }

    def chunk(self, id: str) -> Chunk:  # noqa: A002
        """Return a chunk by its id."""
        return self._chunks.chunk(self._row(id))

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The vectors of chunks, of shape (ids, dimensions)."""
        rows, matrix = np.array([*map(self._row, ids)], np.int64), self._matrix
        return self._gather(rows) if matrix is None else matrix[rows]

    # --- search -------------------------------------------------------------------------

    async def search(
        self, queries: Sequence[str], k: int, by: By, usage: UsageTable | None = None
    ) -> Scored:
        """Up to `k` chunks for each query, with their scores, best first."""
        if k < 1:
            raise ConfigError(f"k={k!r} is out of range; give a whole number from 1")
        if by == "bm25":
            return await to_thread.run_sync(self._search_words, queries, k)
        if by == "dense":
            if not (queries and len(self)):
                return [[] for _ in queries]
            vectors = await self.connect().embed_queries(queries, usage)
            return await to_thread.run_sync(self._search_vectors, vectors, k)
        both = [
            await self.search(queries, max(k, DEPTH), each, usage) for each in ("bm25", "dense")
        ]
        found: Scored = []
        for lists in zip(*both, strict=True):
            found.append(reciprocal_ranks([[each for each, _ in list_] for list_ in lists])[:k])
        return found

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        """Hybrid search as `mcranker.retrieval.bm25.Retriever` has it. Blocks."""
        found = self._bridge.call(lambda: self.search([*queries.values()], k, "hybrid"))
        return dict(zip(queries, found, strict=True))

    def _search_words(self, queries: Sequence[str], k: int) -> Scored:
        with self._searching:
            if self._bm25 is None:
                rows = np.flatnonzero(self._chunks.alive).tolist()
                texts = ((each.id, embedded_text(each)) for each in map(self._chunks.chunk, rows))
                self._bm25 = self._derive("bm25", bm25.versions(), BM25.load, lambda: BM25(texts))
            return [self._bm25.search(query, k) for query in queries]

    def _search_vectors(self, vectors: Vectors, k: int) -> Scored:
        if vectors.shape[1:] != (self._about["dimensions"],):
            raise ConfigError(
                f"the embedder gives vectors of {vectors.shape[1:]} numbers, and the index has "
                f"{self._about['dimensions']:,}; open it with the embedder it was made with"
            )
        with self._searching:
            if self._hnsw_wanted:
                if self._hnsw is None:
                    make = partial(HNSW.of, self._blocks(keep=False), vectors.shape[1])
                    self._hnsw = self._derive("hnsw", HNSW.settings(), HNSW.load, make)
                pairs = self._hnsw.search(vectors, k)
            else:
                parts = []
                for block, alive in self._blocks(keep=True):
                    # BLAS multiplies with a vector much faster than with a matrix of one row.
                    alone = len(vectors) == 1
                    scores = (block @ vectors[0])[None] if alone else vectors @ block.T
                    scores[:, ~alive] = -np.inf
                    parts.append(scores)
                pairs = [_best(scores, k) for scores in np.concatenate(parts, axis=1)]
            return [
                list(zip(map(self._chunks.id_of, rows.tolist()), best.tolist(), strict=True))
                for rows, best in pairs
            ]

    def _blocks(self, *, keep: bool) -> Iterator[tuple[Vectors, NDArray[np.bool_]]]:
        """The vectors in the order of the index, and of each whether it may be found."""
        if self._matrix is None:
            rows, dimensions = len(self._chunks), self._about["dimensions"]
            parts = [slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK)]
            if not keep or rows * dimensions * 4 > IN_MEMORY:
                yield from ((self._gather(part), self._chunks.alive[part]) for part in parts)
                return
            matrix = np.empty((rows, dimensions), np.float32)
            for part in parts:
                matrix[part] = self._gather(part)
            self._matrix = matrix
        yield self._matrix, self._chunks.alive

    def _gather(self, rows: slice | NDArray[np.int64]) -> Vectors:
        found = self._vectors.matrix(self._chunks.keys[rows])
        if missing := int((self._chunks.alive[rows] & ~found.found).sum()):
            raise InputError(
                f"the index {str(self.folder)!r} misses the vectors of "
                f"{counted(missing, 'passage')}: a file is damaged, or another process has "
                "replaced them; open the index again, or add to it, which makes them"
            )
        return found.values.astype(np.float32)

    def connect(self, **limits: Any) -> Embedder:
        """Connect the embedder that made the index, unless there is one; with limits of calls."""
        if self._embedder is None:
            name = self._about["embedder"]
            try:
                made = connect_embedder(name, **limits)
            except ConfigError as error:
                why = str(error)
                if name.startswith("embed:") and not limits.get("base_url"):
                    why = "give the address of that service with embedder_url=URL"
                raise ConfigError(
                    f"the index {str(self.folder)!r} has vectors of {name!r}: {why}"
                ) from error
            self._check_mark(made)
            self._owned.append(made)
            self._embedder = made
        return self._embedder

    def _check_mark(self, embedder: Embedder) -> None:
        if embedder.mark != self._about["mark"]:
            raise ConfigError(
                f"the index {str(self.folder)!r} has vectors of {self._about['embedder']!r} "
                f"(mark {self._about['mark']!r}), not of {embedder.name!r} (mark "
                f"{embedder.mark!r}); open it with that embedder, or index the documents again"
            )

    def _derive(
        self, kind: str, settings: Any, load: Callable[[Path], T], make: Callable[[], T]
    ) -> T:
        """Load what was made of these chunks, or make and keep it; what was of others goes."""
        root = self.folder / "derived"
        of = [self._chunks.folder.name, self._chunks.sizes]
        key = cache.key_of({"settings": settings, "of": of})
        if folder := cache.find(root, kind, key):
            return load(folder)
        made = make()
        if cache.keep(root, kind, key, made.save) is not None:
            for old in (root / kind).iterdir():
                if old.name != key:
                    shutil.rmtree(old, ignore_errors=True)
        return made

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

        with self._writing(), closing(self._batches(documents, skip)) as batches:
            await to_thread.run_sync(self._refresh)
            await self._mend(usage)
            while batch := await to_thread.run_sync(next, batches, None):
                if batch.documents:
                    chunks = [chunk for each in batch.documents.values() for chunk in each.chunks]
                    await self._embed([embedded_text(chunk) for chunk in chunks], usage)
                    await to_thread.run_sync(self._commit, batch)
                done = Added(
                    done.added + len(batch.documents) - batch.replaced,
                    done.replaced + batch.replaced,
                    done.unchanged + batch.unchanged,
                    done.skipped,
                    done.chunks + batch.chunks,
                )
                if progress is not None:
                    progress(done)
            if self._chunks.dead > max(len(self), BATCH):
                await to_thread.run_sync(self._compact)
        return done

    def _batches(self, documents: Source, skip: OnSkip) -> Generator[_Batch]:
        embedder = self.connect()
        kind = self._about["chunks"]
        tokenizer = embedder.tokenizer if isinstance(embedder, TextEmbedder) else None
        most = max(1, (embedder.max_tokens or SENTENCE_TOKENS) - _SPECIAL_TOKENS)
        batch = _Batch()
        with closing(read_documents(documents, on_skip=skip)) as found:
            for document in found:
                if document.id in batch.documents:
                    yield batch
                    batch = _Batch()
                digest = _digest(document)
                if (known := self._chunks.digest(document.id)) == digest:
                    batch.unchanged += 1
                else:
                    batch.replaced += known is not None
                    chunks, until = [], batch.until
                    for chunk in chunks_of(document, kind, tokenizer=tokenizer, max_tokens=most):
                        chunks.append(chunk)
                        if time.monotonic() > until:  # of a long document
                            yield _Batch()
                            until = time.monotonic() + SECONDS
                    batch.documents[document.id] = Divided(document.id, digest, chunks)
                    batch.chunks += len(chunks)
                if batch.chunks >= BATCH or time.monotonic() > batch.until:
                    yield batch
                    batch = _Batch()
        yield batch

    async def _embed(self, texts: Sequence[str], usage: UsageTable | None) -> None:
        """Make and keep the vectors of texts that are not there."""
        embedder, store = self.connect(), self._vectors
        embed = embedder.embed_passages
        if isinstance(embedder, TextEmbedder):  # no second copy in the user's cache
            embed = partial(embedder.embed_passages, keep=False)
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            there = await to_thread.run_sync(store.find, part)
            new = [text for text in dict.fromkeys(part) if text not in there]
            if not new:
                continue
            rows = await embed(new, usage)
            wanted = len(new), store.dimensions or rows.shape[-1]
            if rows.shape != wanted or not (abs(np.linalg.norm(rows, axis=1) - 1) < _UNIT).all():
                raise ConfigError(
                    f"{embedder.name!r} gave vectors of shape {rows.shape} instead of {wanted}, "
                    "or some that are not of length 1; use another embedder"
                )
            kept = [Vector(row, 0) for row in rows.astype(np.float16)]
            with self._explained():
                await to_thread.run_sync(store.keep, [*zip(new, kept, strict=True)])

    async def _mend(self, usage: UsageTable | None) -> None:
        """Make the vectors again whose files were damaged or removed."""

        def missing() -> list[str]:
            rows: list[int] = []
            for start in range(0, len(self._chunks), _BLOCK):
                found = self._vectors.matrix(self._chunks.keys[start : start + _BLOCK]).found
                alive = self._chunks.alive[start : start + _BLOCK]
                rows += (start + np.flatnonzero(alive & ~found)).tolist()
            return [embedded_text(self._chunks.chunk(row)) for row in rows]

        await self._embed(await to_thread.run_sync(missing), usage)

    def _commit(self, batch: _Batch) -> None:
        with self._explained():
            self._count(self._chunks, self._chunks.write([*batch.documents.values()]))

    def _count(self, chunks: ChunkLog, sizes: Mapping[str, int]) -> None:
        """Let what was written count."""
        about = {**self._about, "dimensions": self._vectors.dimensions}
        about |= {"folder": chunks.folder.name, "sizes": sizes}
        write_whole(self.folder / "index.json", orjson.dumps({"version": VERSION, **about}))
        with self._searching:
            chunks.grow(sizes)
            self._about = about
            self._open(chunks)

    def _compact(self) -> None:
        """Write the chunks that count to files of their own, and drop the others."""
        old, new = self._chunks, ChunkLog(self.folder / _new_name(), {})
        part: list[Divided] = []
        with self._explained():
            for each in old.divided():
                part.append(each)
                if sum(len(document.chunks) for document in part) >= BATCH:
                    new.grow(new.write(part))
                    part = []
            self._count(new, new.write(part))
            self._vectors.retain(new.keys)
        shutil.rmtree(old.folder, ignore_errors=True)

    # --- files --------------------------------------------------------------------------

    def _open(self, chunks: ChunkLog) -> None:
        self._chunks = chunks
        self._matrix, self._bm25, self._hnsw = None, None, None

    def _read(self) -> dict[str, Any]:
        path = self.folder / "index.json"
        try:
            about = orjson.loads(path.read_bytes())
            if (version := about["version"]) == VERSION:
                return {key: about[key] for key in _KEYS}
        except FileNotFoundError as error:
            raise InputError(
                f"there is no index in {str(self.folder)!r}; make one with 'mcranker index'"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{str(path)!r} is damaged: {error}; make the index again") from error
        raise InputError(f"{str(path)!r} is of version {version!r}; make the index again")

    def _load(self) -> None:
        """Open what counts by now."""
        for again in (True, True, False):
            self._about = self._read()
            try:
                chunks = ChunkLog(self.folder / self._about["folder"], self._about["sizes"])
                break
            except FileNotFoundError as error:
                if not again:  # not compacted by a writer meanwhile
                    raise InputError(
                        f"the index misses {error.filename!r}; make it again"
                    ) from error
        self._vectors = VectorStore(
            self.folder / "vectors", mark=self._about["mark"], dimensions=self._about["dimensions"]
        )
        self._open(chunks)

    def _row(self, chunk: str) -> int:
        if (row := self._chunks.row(chunk)) is None:
            raise InputError(f"there is no chunk {chunk!r} in the index {str(self.folder)!r}")
        return row

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock of the writer."""
        try:
            with locked(self.folder / "lock", wait=False):
                yield
        except BlockingIOError as error:
            raise ConfigError(
                f"another process adds to the index {str(self.folder)!r}; wait until it is done"
            ) from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let errors of the disk say what is kept."""
        try:
            yield
        except OSError as error:
            kept = counted(len(self._chunks.documents), "document")
            reason = f"{error.strerror}; {kept} kept, and the same command goes on"
            raise OSError(error.errno, reason, error.filename or str(self.folder)) from error

    def _refresh(self) -> None:
        """Open what others have added, and remove what writers left that were killed."""
        if self._read() != self._about:
            self._load()
        for path in self.folder.glob("chunks-*"):
            if path != self._chunks.folder:
                shutil.rmtree(path, ignore_errors=True)


@dataclass(slots=True)
class _Batch:
    """Documents to be written, by id, and the numbers that `Added` counts."""

    documents: dict[str, Divided] = field(default_factory=dict)
    chunks: int = 0
    replaced: int = 0
    unchanged: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)


def _best(scores: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
    """Rows and scores of the `k` best, equal ones in their order."""
    rows = np.arange(len(scores))
    if len(scores) > k:
        rows = np.flatnonzero(scores >= np.partition(scores, -k)[-k])  # all that are equal
    rows = rows[np.argsort(-scores[rows], kind="stable")][:k]
    rows = rows[scores[rows] > -math.inf]
    return rows, scores[rows]


def _new_name() -> str:
    return f"chunks-{os.urandom(4).hex()}"


def _digest(document: Document) -> str:
    text = f"{len(document.title)} {document.title}{document.text}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def _close_all(owned: Sequence[Embedder]) -> None:
    """Close what an index has connected; not the index's, which could not be dropped then."""
    for each in owned:
        await each.aclose()
