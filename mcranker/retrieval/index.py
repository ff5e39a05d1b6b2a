"""An index of documents on disk: their chunks, BM25 and the vectors of an embedder.

    INDEX/index.json        embedder, kind of chunks, and the shards that count; replaced last
    INDEX/shards/NAME/      chunks.jsonl, offsets.npy (of its lines), vectors.npy, documents.json
    INDEX/derived/          BM25 and HNSW, made from the shards when they are first needed
    INDEX/lock              held by the one process that adds documents

A shard is written, renamed and never changed; small ones are merged into the next. So a build
that is killed, or runs out of disk, loses its last few hundred chunks at most, and the next one
goes on. Readers keep what they have opened, and see what was added once they open it again.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
import orjson
from anyio import to_thread
from numpy.typing import NDArray

from mcranker.errors import ConfigError, InputError
from mcranker.logs import safe_logger
from mcranker.retrieval import bm25, cache
from mcranker.retrieval.bm25 import BM25, Found
from mcranker.retrieval.chunks import SENTENCE_TOKENS, Chunk, ChunkKind, chunks_of
from mcranker.retrieval.fusion import reciprocal_rank, summed
from mcranker.retrieval.hnsw import HNSW
from mcranker.retrieval.readers import Document, OnSkip, Skipped, Source, read_documents
from mcranker.retrieval.shards import Batch, Shard, Vectors, embedded_text, write_shard
from mcranker.runtime.bridge import Bridge
from personas.format import counted
from personas.io.atomic import write_whole

if TYPE_CHECKING:
    from mcranker.retrieval.embedders import Embedder
    from personas.ranking.usage import UsageTable

By = Literal["bm25", "dense", "hybrid"]
T = TypeVar("T", BM25, HNSW)

BATCH = 512
"""Chunks that are embedded and written at a time; of a longer document, all of its chunks."""

SHARD = 16_384
"""Chunks of a shard that no other one is merged with."""

IN_MEMORY = 2_000_000_000
"""Bytes of vectors that are kept in memory, in single precision, for exact search. Shards beyond
are read from the disk for every search; use HNSW by then."""

DEPTH = 100
"""Chunks of each search, at least, that a hybrid one fuses."""

_VERSION = 1
_SPECIAL_TOKENS = 2  # that an encoder adds to a text

_log = safe_logger("mcranker.retrieval.index")

Scored = list[list[tuple[str, float]]]


class Added(NamedTuple):
    """Work of `Index.add` so far.

    Attributes:
        added: documents that were not in the index.
        replaced: documents that were, with another text or title; they take its place.
        unchanged: documents that were, as they are.
        skipped: files and records that were left out.
        chunks: of the documents that were added or replaced.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    skipped: int = 0
    chunks: int = 0


class Index:
    """An index; make it with `create`, `open` or `in_memory`, and use it as a context manager.

    Any number of processes may search; one at a time may add.
    """

    def __init__(self, folder: Path, embedder: Embedder | None, *, hnsw: bool) -> None:
        self.folder = folder
        self._embedder = embedder
        self._owned: list[Embedder] = []
        self._hnsw_wanted = hnsw
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._about: dict[str, Any] = {}
        self._shards: list[Shard] = []
        self._places: dict[str, tuple[Shard, int]] = {}
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
        embedder: Embedder,
        chunks: str = "sentences",
        hnsw: bool = False,
    ) -> Self:
        """Make an index in a new or empty folder, or open the same one that is there already.

        Args:
            folder: of the index; those above it are made.
            embedder: makes the vectors.
            chunks: kind of chunks, see `mcranker.retrieval.chunks.chunks_of`.
            hnsw: search vectors by HNSW instead of exactly; needs faiss-cpu.

        Raises:
            ConfigError: the folder has something else, or an index of another kind.
            OSError: it cannot be written.
        """
        if chunks not in get_args(ChunkKind):
            raise ConfigError(
                f"chunks={chunks!r} is unknown; give one of {', '.join(get_args(ChunkKind))}"
            )
        path = Path(folder).expanduser()
        if not (path / "index.json").exists():
            path.mkdir(parents=True, exist_ok=True)
            if any(not each.name.startswith(".") for each in path.iterdir()):
                raise ConfigError(
                    f"{str(path)!r} holds something else than an index; name another folder"
                )
            about = {"version": _VERSION, "embedder": embedder.name, "mark": embedder.mark}
            write_whole(
                path / "index.json",
                orjson.dumps({**about, "dimensions": 0, "chunks": chunks, "shards": []}),
            )
        index = cls(path, embedder, hnsw=hnsw)
        if (there := index._about["chunks"]) != chunks:
            raise ConfigError(
                f"the index {str(path)!r} has chunks={there!r}, not {chunks!r}; name another folder"
            )
        return index

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        embedder: Embedder | None = None,
        *,
        hnsw: bool = False,
    ) -> Self:
        """Open the index in a folder.

        Args:
            folder: of the index.
            embedder: of your own, or one with limits. None to connect the one that made the
                index, once something is searched for by meaning or added.
            hnsw: search vectors by HNSW instead of exactly; needs faiss-cpu.

        Raises:
            InputError: there is none, or it is damaged.
            ConfigError: it was made with another embedder.
        """
        return cls(Path(folder).expanduser(), embedder, hnsw=hnsw)

    @classmethod
    def in_memory(
        cls, *, embedder: Embedder, chunks: str = "sentences", hnsw: bool = False
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
        self._shards, self._places, self._bm25, self._hnsw = [], {}, None, None
        if self._temporary is not None:
            self._temporary.cleanup()

    def __len__(self) -> int:
        """The number of chunks."""
        return sum(int(shard.alive.sum()) for shard in self._shards)

    def describe(self) -> dict[str, Any]:
        """Path, embedder, kind of chunks, and the numbers of documents, chunks and bytes."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {
            "path": str(self.folder),
            **{key: self._about[key] for key in ("embedder", "mark", "dimensions", "chunks")},
            "documents": len(self._places),
            "passages": len(self),
            "bytes": sum(path.stat().st_size for path in files),
        }

    def chunk(self, id: str) -> Chunk:  # noqa: A002
        """Return a chunk by its id.

        Raises:
            InputError: there is none.
        """
        shard, row = self._place(id)
        return shard.chunk(row)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The vectors of chunks, of shape (ids, dimensions).

        Raises:
            InputError: there is no such chunk.
        """
        places = [self._place(each) for each in ids]
        rows = [shard.vectors[row] for shard, row in places]
        return np.array(rows, np.float32).reshape(len(ids), self._about["dimensions"])

    # --- search -------------------------------------------------------------------------

    async def search(
        self, queries: Sequence[str], k: int, by: By, usage: UsageTable | None = None
    ) -> Scored:
        """Up to `k` chunks for each query, with their scores, best first.

        A score is BM25's, the cosine, or the sum of 1 / (60 + rank) over both; equal ones are in
        the order of the index.

        Args:
            queries: their texts.
            k: chunks a query, from 1.
            by: the search.
            usage: counts the embedder's work.

        Raises:
            ConfigError: `k` is below 1, or a package is missing.
            ModelError: the embedder failed, or cannot be connected.
        """
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
            shares = [
                {each: reciprocal_rank(rank) for rank, (each, _) in enumerate(list_, 1)}
                for list_ in lists
            ]
            scores = summed(shares, {each: None for share in shares for each in share})
            found.append(sorted(scores.items(), key=lambda pair: -pair[1])[:k])
        return found

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        """Hybrid search as `mcranker.retrieval.bm25.Retriever` has it. Blocks."""
        found = self._bridge.call(lambda: self.search([*queries.values()], k, "hybrid"))
        return dict(zip(queries, found, strict=True))

    def _search_words(self, queries: Sequence[str], k: int) -> Scored:
        if not self._shards:
            return [[] for _ in queries]
        with self._searching:
            if self._bm25 is None:
                chunks = (chunk for shard in self._shards for chunk in shard.chunks())
                texts = ((chunk.id, embedded_text(chunk)) for chunk in chunks)
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
                    blocks = ((shard.matrix(keep=False), shard.alive) for shard in self._shards)
                    make = partial(HNSW.of, blocks, self._about["dimensions"])
                    self._hnsw = self._derive("hnsw", HNSW.settings(), HNSW.load, make)
                pairs = self._hnsw.search(vectors, k)
            else:
                left, parts = IN_MEMORY, []
                for shard in self._shards:
                    left -= shard.vectors.size * 4
                    matrix = shard.matrix(keep=left >= 0)
                    # BLAS multiplies with a vector much faster than with a matrix of one row.
                    alone = len(vectors) == 1
                    scores = (matrix @ vectors[0])[None] if alone else vectors @ matrix.T
                    scores[:, ~shard.alive] = -np.inf
                    parts.append(scores)
                pairs = [_best(scores, k) for scores in np.concatenate(parts, axis=1)]
            starts = np.cumsum([0, *map(len, self._shards)])
            found: Scored = []
            for rows, best in pairs:
                places = np.searchsorted(starts, rows, side="right") - 1
                ids = map(self._id_of, places.tolist(), (rows - starts[places]).tolist())
                found.append(list(zip(ids, best.tolist(), strict=True)))
            return found

    def connect(self, **limits: Any) -> Embedder:
        """Connect the embedder that made the index, unless there is one; with limits of calls.

        Args:
            limits: as `connect_embedder` takes them.

        Raises:
            ConfigError, ModelError: as `connect_embedder`, or it makes other vectors by now.
        """
        if self._embedder is None:
            from mcranker.retrieval.embedders import connect_embedder

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

    def _id_of(self, shard: int, row: int) -> str:
        return self._shards[shard].id_of(row)

    @property
    def _names(self) -> list[str]:
        return [shard.folder.name for shard in self._shards]

    def _derive(
        self, kind: str, settings: Any, load: Callable[[Path], T], make: Callable[[], T]
    ) -> T:
        """Load what was made of these shards, or make and keep it; what was of others goes."""
        root = self.folder / "derived"
        key = cache.key_of({"settings": settings, "shards": self._names})
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
        """Add documents; those of an id with another text are replaced, the same ones passed over.

        If it is interrupted, or fails, what was written is kept, and the same call goes on there.

        Args:
            documents: as `mcranker.retrieval.readers.read_documents` takes them.
            on_skip: is given what cannot be read; by default it is logged as a warning.
            progress: is given what was done, after every batch.
            usage: counts the embedder's work.

        Raises:
            InputError: there is no such file or folder.
            ConfigError: another process adds to this index.
            ModelError: the embedder failed.
            OSError: the index cannot be written.
        """
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
            while batch := await to_thread.run_sync(next, batches, None):
                if batch.documents:
                    vectors = await self._embed(batch, usage)
                    await to_thread.run_sync(self._commit, batch, vectors)
                done = Added(
                    done.added + len(batch.documents) - batch.replaced,
                    done.replaced + batch.replaced,
                    done.unchanged + batch.unchanged,
                    done.skipped,
                    done.chunks + len(batch.chunks),
                )
                if progress is not None:
                    progress(done)
        return done

    def _batches(self, documents: Source, skip: OnSkip) -> Generator[Batch]:
        embedder = self.connect()
        kind = self._about["chunks"]
        tokenizer = getattr(embedder, "tokenizer", None)
        most = max(1, (embedder.max_tokens or SENTENCE_TOKENS) - _SPECIAL_TOKENS)
        batch = Batch()
        with closing(read_documents(documents, on_skip=skip)) as found:
            for document in found:
                if document.id in batch.documents:
                    yield batch
                    batch = Batch()
                digest = _digest(document)
                if (known := self._known(document.id)) == digest:
                    batch.unchanged += 1
                else:
                    batch.replaced += known is not None
                    chunks = list(chunks_of(document, kind, tokenizer=tokenizer, max_tokens=most))
                    batch.documents[document.id] = digest, len(chunks)
                    batch.chunks += chunks
                if len(batch.chunks) >= BATCH or time.monotonic() > batch.until:
                    yield batch
                    batch = Batch()
        yield batch

    def _known(self, document: str) -> str | None:
        place = self._places.get(document)
        return None if place is None else place[0].digests[place[1]].decode()

    async def _embed(self, batch: Batch, usage: UsageTable | None) -> NDArray[np.float16]:
        embedder = self.connect()
        parts: list[NDArray[np.float16]] = []
        for start in range(0, len(batch.chunks), BATCH):
            texts = [embedded_text(chunk) for chunk in batch.chunks[start : start + BATCH]]
            vectors = (await embedder.embed_passages(texts, usage)).astype(np.float16)
            wanted = len(texts), self._about["dimensions"] or vectors.shape[-1]
            if vectors.shape != wanted or not np.isfinite(vectors).all():
                raise ConfigError(
                    f"{embedder.name!r} gave vectors of shape {vectors.shape} instead of "
                    f"{wanted}, or numbers that are not finite; use another embedder"
                )
            parts.append(vectors)
        return np.concatenate(parts)

    def _commit(self, batch: Batch, vectors: NDArray[np.float16]) -> None:
        """Write a shard with the batch and the small shards before it, then count it."""
        kept, size = len(self._shards), len(vectors)
        while kept and len(before := self._shards[kept - 1]) <= min(2 * size, SHARD - size):
            kept, size = kept - 1, size + len(before)
        first, old = self._shards[:kept], self._shards[kept:]
        replaced = [place for each in batch.documents if (place := self._places.get(each))]
        for shard, at in replaced:
            shard.show(at, alive=False)
        folder = self.folder / "shards" / f"{time.time_ns():020}-{os.urandom(4).hex()}"
        try:
            write_shard(folder, old, batch, vectors)
            new = Shard.open(folder)
            names = [shard.folder.name for shard in (*first, new)]
            about = {**self._about, "dimensions": vectors.shape[1], "shards": names}
            write_whole(self.folder / "index.json", orjson.dumps(about))
        except BaseException as error:
            for shard, at in replaced:
                shard.show(at, alive=True)
            if not isinstance(error, OSError):
                raise
            stored = f"{counted(len(self._places), 'document')} kept, and the same command goes on"
            where = error.filename or str(self.folder)
            raise OSError(error.errno, f"{error.strerror}; {stored}", where) from error
        with self._searching:
            self._about, self._shards, self._bm25, self._hnsw = about, [*first, new], None, None
            self._places |= {document: (new, at) for at, document in enumerate(new.documents)}
        for shard in old:
            shutil.rmtree(shard.folder, ignore_errors=True)

    # --- files --------------------------------------------------------------------------

    def _load(self) -> None:
        """Open the shards that count by now."""
        path = self.folder / "index.json"
        for again in (True, True, False):
            try:
                about = orjson.loads(path.read_bytes())
                version, names = about["version"], about["shards"]
            except FileNotFoundError as error:
                raise InputError(
                    f"there is no index in {str(self.folder)!r}; make one with 'mcranker index'"
                ) from error
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{str(path)!r} is damaged: {error}; make the index again"
                ) from error
            if version != _VERSION:
                raise InputError(f"{str(path)!r} is of version {version!r}; make the index again")
            try:
                shards = [Shard.open(self.folder / "shards" / name) for name in names]
                break
            except FileNotFoundError as error:
                if not again:  # not merged by a writer meanwhile
                    raise InputError(
                        f"the index misses {error.filename!r}; make it again"
                    ) from error
        self._about = about
        self._shards = shards
        self._places, self._bm25, self._hnsw = {}, None, None
        for shard in shards:
            for at, document in enumerate(shard.documents):
                if before := self._places.get(document):
                    before[0].show(before[1], alive=False)
                self._places[document] = shard, at

    def _place(self, chunk: str) -> tuple[Shard, int]:
        document, _, number = chunk.rpartition("#")
        if (place := self._places.get(document)) is not None and number.isdecimal():
            shard, at = place
            row = int(shard.starts[at]) + int(number) - 1
            if shard.starts[at] <= row < shard.starts[at + 1]:
                return shard, row
        raise InputError(f"there is no chunk {chunk!r} in the index {str(self.folder)!r}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock of the writer."""
        with (self.folder / "lock").open("a+b") as file:
            try:
                if sys.platform == "win32":
                    import msvcrt

                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                else:
                    import fcntl

                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                raise ConfigError(
                    f"another process adds to the index {str(self.folder)!r}; wait until it is done"
                ) from error
            except OSError as error:
                _log.debug("this file system has no locks: %s", error)
            yield

    def _refresh(self) -> None:
        """Open what others have added, and remove what writers left that were killed."""
        stored = orjson.loads((self.folder / "index.json").read_bytes())["shards"]
        if stored != self._names:
            self._load()
        with suppress(FileNotFoundError):
            for path in (self.folder / "shards").iterdir():
                if path.name not in stored:
                    shutil.rmtree(path, ignore_errors=True)


def _best(scores: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
    """Rows and scores of the `k` best, equal ones in their order."""
    rows = np.arange(len(scores))
    if len(scores) > k:
        rows = np.flatnonzero(scores >= np.partition(scores, -k)[-k])  # all that are equal
    rows = rows[np.argsort(-scores[rows], kind="stable")][:k]
    rows = rows[scores[rows] > -math.inf]
    return rows, scores[rows]


def _digest(document: Document) -> str:
    text = f"{len(document.title)} {document.title}{document.text}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def _close_all(owned: Sequence[Embedder]) -> None:
    """Close what an index has connected; not the index's, which could not be dropped then."""
    for each in owned:
        await each.aclose()
