"""The first stage: BM25 over a whole corpus, whose best documents the rankers get.

The score of document d for query q is the sum over the terms t of q, repeats included, of
``idf(t) * tf / (tf + k1 * (1 - b + b * len(d) / mean_len))``, where tf is how often t stands in
d, ``idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))``, N is the number of documents and df how many
of them hold t. This is Lucene's formula with exact document lengths; Lucene keeps a length in
one byte, so that its scores, and a few places of its rankings, differ a little.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from beir_eval.errors import ExtraMissing, SettingError
from beir_eval.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from beir_eval.datasets import Dataset

__all__ = ["BM25", "retrieve"]

_log = logging.getLogger("mcranker.beir_eval.first_stage")


class BM25:
    """An index in memory: 8 bytes for every different term of every document, plus the terms.

    Args:
        texts: document id -> text.
        k1: 0 or more; how slowly repeats of a term stop counting.
        b: 0 to 1; how much long documents are held back.

    Raises:
        SettingError: `k1` or `b` is out of its range.
        ExtraMissing: bm25s or PyStemmer is not installed.
    """

    def __init__(self, texts: Mapping[str, str], *, k1: float = 0.9, b: float = 0.4) -> None:
        if not 0 <= k1 < float("inf"):
            raise SettingError(f"k1={k1!r} is out of range; give a number from 0, e.g. 0.9")
        if not 0 <= b <= 1:
            raise SettingError(f"b={b!r} is out of range; give a number from 0 to 1, e.g. 0.4")
        self.k1 = k1
        self.b = b
        self._doc_ids = list(texts)
        started = time.perf_counter()
        self._index = _build(texts, k1=k1, b=b)
        _log.info(
            "indexed %d documents in %.2f s", len(self._doc_ids), time.perf_counter() - started
        )

    def __len__(self) -> int:
        return len(self._doc_ids)

    def search(self, query: str, depth: int = 100) -> list[tuple[str, float]]:
        """Documents with at least one term of `query`: (id, score), best first.

        At most `depth` of them; those with the same score keep the order of the corpus. Scores
        are above 0 and hold single precision.

        Raises:
            SettingError: `depth` is below 1.
        """
        _check_depth(depth)
        terms = self._index.get_tokens_ids(tokenize(query)) if self._index is not None else []
        if not terms:
            return []
        import numpy as np

        scores = self._index.get_scores_from_ids(terms)
        found = np.flatnonzero(scores > 0)
        if len(found) > depth:
            # Everything that reaches the depth-th best score, so that the sort sees all ties.
            bar = np.partition(scores[found], -depth)[-depth]
            found = found[scores[found] >= bar]
        order = np.argsort(-scores[found], kind="stable")[:depth]
        return [(self._doc_ids[place], float(scores[place])) for place in found[order]]


def retrieve(
    dataset: Dataset, depth: int = 100, *, k1: float = 0.9, b: float = 0.4
) -> dict[str, list[tuple[str, float]]]:
    """BM25 run for all queries of `dataset`, in their order; title and text are searched as one.

    A query that finds nothing has an empty list. The defaults are those of the paper's first
    stage (BM25 of Anserini).

    Raises:
        SettingError: `depth` is below 1, or `k1` or `b` is out of its range.
        ExtraMissing: bm25s or PyStemmer is not installed.
    """
    _check_depth(depth)
    texts = {
        doc_id: f"{document.title} {document.text}" for doc_id, document in dataset.corpus.items()
    }
    index = BM25(texts, k1=k1, b=b)
    started = time.perf_counter()
    run = {query_id: index.search(text, depth) for query_id, text in dataset.queries.items()}
    _log.info(
        "searched %s for %d queries in %.2f s",
        dataset.name,
        len(run),
        time.perf_counter() - started,
    )
    return run


def _build(texts: Mapping[str, str], *, k1: float, b: float) -> Any:
    """A bm25s index, or None if no document has any term (bm25s cannot hold that)."""
    try:
        import bm25s
    except ImportError as missing:
        raise ExtraMissing("bm25s", "BM25") from missing
    # On import bm25s sets its logger to DEBUG, past whatever level the program has chosen.
    logging.getLogger("bm25s").setLevel(logging.NOTSET)
    vocabulary: dict[str, int] = {}
    corpus = [
        [vocabulary.setdefault(term, len(vocabulary)) for term in tokenize(text)]
        for text in texts.values()
    ]
    if not vocabulary:
        return None
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    index.index((corpus, vocabulary), create_empty_token=False, show_progress=False)
    return index


def _check_depth(depth: int) -> None:
    if depth < 1:
        raise SettingError(f"depth={depth!r} is out of range; give a whole number from 1")
