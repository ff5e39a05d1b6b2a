"""BM25 as bm25s computes it, fed with Lucene-like terms; and its runs, kept on disk.

The score of document d for query q is the sum over the terms t of q, repeats included, of
``idf(t) * tf / (tf + k1 * (1 - b + b * len(d) / mean_len))``, where tf is how often t occurs in
d, ``idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))``, N is the number of documents and df how many
of them hold t. Lucene keeps a length in one byte, so that its scores, and a few places of its
rankings, differ a little.
"""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import orjson

from mcranker.errors import ConfigError
from mcranker.inputs.tokens import tokenize
from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from personas.io.atomic import write_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Of bm25s' sparse matrix, with a column for each term: the weights, their documents' places, and
# where each column starts.
ARRAYS = ("data", "indices", "indptr")

Found: TypeAlias = dict[str, list[tuple[str, float]]]
"""Query id -> (document id, score), best first."""

_log = safe_logger("mcranker.retrieval.bm25")


class Retriever(Protocol):
    """A search over a corpus: `BM25`, and `mcranker.retrieval.lucene.LuceneBM25`."""

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        """Return up to `k` documents for each query, in the order of the queries. Blocks."""
        ...


class BM25:
    """An index in memory: 8 bytes for every different term of every document, plus the terms.

    Args:
        texts: document id -> text, as a mapping or as pairs; gone through once.
        k1: 0 or more; how slowly repeats of a term stop counting.
        b: 0 to 1; how much long documents are held back.

    Raises:
        ConfigError: `k1` or `b` is out of its range, or bm25s or PyStemmer is not installed.
    """

    def __init__(
        self,
        texts: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> None:
        if not (k1 >= 0 and 0 <= b <= 1):
            raise ConfigError(f"k1={k1!r}, b={b!r}: k1 is 0 or more, and b is from 0 to 1")
        self.k1 = k1
        self.b = b
        self._doc_ids: list[str] = []
        pairs = texts.items() if isinstance(texts, Mapping) else texts
        self._terms, self._weights = _build(self._noting_ids(pairs), k1=k1, b=b)

    def __len__(self) -> int:
        return len(self._doc_ids)

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        return {query_id: self.search(text, k) for query_id, text in queries.items()}

    def search(self, query: str, depth: int = 100) -> list[tuple[str, float]]:
        """Documents with at least one term of `query`: (id, score), best first.

        At most `depth` of them; those with the same score keep the order of the corpus. Scores
        are above 0 and hold single precision.

        Raises:
            ConfigError: `depth` is below 1.
        """
        if depth < 1:
            raise ConfigError(f"depth={depth!r} is out of range; give a whole number from 1")
        terms = [self._terms[term] for term in tokenize(query) if term in self._terms]
        if not terms:
            return []
        import numpy as np

        weights, places, starts = (self._weights[name] for name in ARRAYS)
        scores = np.zeros(len(self), dtype=weights.dtype)
        for term in terms:
            column = slice(starts[term], starts[term + 1])
            scores[places[column]] += weights[column]  # a document is once in a column
        rows = _best(scores, depth).tolist()
        return [(self._doc_ids[row], float(scores[row])) for row in rows]

    def _noting_ids(self, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
        for doc_id, text in pairs:
            self._doc_ids.append(doc_id)
            yield text


def _best(scores: NDArray[Any], depth: int) -> NDArray[np.int64]:
    """Return the places of the `depth` highest scores above 0; equal ones in their order."""
    import numpy as np

    found = np.flatnonzero(scores > 0)
    if len(found) > depth:
        # Everything that reaches the depth-th best score, so that the sort sees all ties.
        bar = np.partition(scores[found], -depth)[-depth]
        found = found[scores[found] >= bar]
    return found[np.argsort(-scores[found], kind="stable")][:depth]


def versions() -> dict[str, str]:
    """Return the programs and tokenizer that a run depends on besides texts and settings."""
    rules = (resources.files("mcranker.inputs") / "tokens.py").read_bytes()
    try:
        packages = {name: metadata.version(name) for name in ("bm25s", "PyStemmer")}
    except metadata.PackageNotFoundError as missing:
        raise _missing(str(missing.name)) from missing
    return {
        "terms": hashlib.sha256(rules).hexdigest(),
        "unicode": unicodedata.unidata_version,
        **packages,
    }


def _build(
    texts: Iterable[str], *, k1: float, b: float
) -> tuple[dict[str, int], dict[str, NDArray[np.generic]]]:
    """Term -> its column, and the matrix; both empty if no document has any term."""
    try:
        import bm25s
    except ImportError as missing:
        raise _missing("bm25s") from missing
    # On import bm25s sets its logger to DEBUG, past whatever level the program has chosen.
    logging.getLogger("bm25s").setLevel(logging.NOTSET)
    vocabulary: dict[str, int] = {}
    corpus = [
        [vocabulary.setdefault(term, len(vocabulary)) for term in tokenize(text)] for text in texts
    ]
    if not vocabulary:  # bm25s cannot hold that
        return {}, {}
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    index.index((corpus, vocabulary), create_empty_token=False, show_progress=False)
    return vocabulary, {name: index.scores[name] for name in ARRAYS}


def _missing(package: str) -> ConfigError:
    return ConfigError(f"BM25 needs the package {package!r}; run: pip install 'mcranker[eval]'")


# --- kept runs --------------------------------------------------------------------------


def default_store() -> Path:
    """Return the cache's folder: ``first_stage`` in MCRANKER_CACHE or the user's cache folder."""
    return cache_root() / "first_stage"


def digest_of(rows: Iterable[tuple[str, ...]]) -> str:
    """Return SHA-256 over rows of texts in their order; one pass, nothing is held."""
    digest = hashlib.sha256()
    for row in rows:
        texts = [text.encode("utf-8", "surrogatepass") for text in row]
        # With the lengths in front, no text can run over into the next one.
        digest.update(b"".join(len(text).to_bytes(8, "big") for text in texts) + b"".join(texts))
    return digest.hexdigest()


def key_of(parts: Mapping[str, Any]) -> str:
    """The key of work that depends on `parts`, in any order; its values are those of JSON."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def kept_run(root: Path, key: str) -> Found | None:
    """Return the run kept under `key`, scores to the last digit; None if there is none."""
    path = root / f"{key}.json"
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as failure:
        _log.warning("%s cannot be read (%s), and is made again", path, failure.strerror)
        return None
    if hashlib.sha256(content).hexdigest() != digest.decode(errors="replace"):
        _log.warning("%s is damaged, and is made again", path)
        return None
    return {query: [(doc, score) for doc, score in hits] for query, hits in orjson.loads(content)}


def keep_run(root: Path, key: str, run: Found) -> None:
    """Keep `run` under `key`, if that is possible."""
    content = orjson.dumps(list(run.items()))
    try:
        root.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(content).hexdigest().encode()
        write_whole(root / f"{key}.json", digest + b"\n" + content)
    except OSError as failure:
        _log.warning(
            "cannot keep this run in %s (%s), so it is made again next time; make room, or "
            "set MCRANKER_CACHE to a folder that can be written to",
            root,
            failure.strerror or failure,
        )
