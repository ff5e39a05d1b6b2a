"""The mini collection as examples to try a ranker on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beir_eval.data.first_stage import retrieve
from beir_eval.data.load import load

DEPTH = 12
"""Passages of a query."""


def examples() -> Sequence[dict[str, Any]]:
    """The queries of the mini collection, each with BM25's first passages and its judgements.

    Returns:
        ``query``; ``documents``: records with ``_id``, ``title`` and ``text``, in BM25's order;
        ``grades``: document id -> judgement, above 0 for relevant, of all that are judged.
    """
    dataset = load("mini")
    run = retrieve(dataset, DEPTH)
    return [
        {
            "query": text,
            "documents": [
                {"_id": name, "title": passage.title, "text": passage.text}
                for name, _ in run[query_id]
                for passage in (dataset.corpus[name],)
            ],
            "grades": dict(dataset.qrels.get(query_id, {})),
        }
        for query_id, text in dataset.queries.items()
    ]
