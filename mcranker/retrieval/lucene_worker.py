"""The process that Lucene runs in: one job from a file, its outcome to a file.

Started by `mcranker.retrieval.lucene` as ``python -P lucene_worker.py JOB``, and on its own: it
imports nothing of this package. The Java machine may end it at any time; then there is no outcome.

A job is a JSON object with ``jar``, ``threads``, ``outcome`` (the file for the outcome), ``index``
(a folder) and ``task``: for ``index`` also ``collection`` (a folder of JSON lines with ``id`` and
``contents``); for ``search`` also ``queries`` (id and text, each a list of two), ``depth``, ``k1``
and ``b``. The outcome is ``{"documents": N}``, ``{"run": [[query id, [[document id, score], ...]],
...]}``, or ``{"error": TEXT}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Queries at a time: their hits are objects of the Java machine until they are read.
BATCH = 500


class Failed(Exception):
    """The job cannot be done; the text says why."""


def main(job_file: str) -> None:
    """Do the job and write its outcome."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    try:
        outcome = _do(job)
    except Failed as failure:
        outcome = {"error": str(failure)}
    Path(job["outcome"]).write_text(json.dumps(outcome), encoding="utf-8")


def _do(job: dict[str, Any]) -> dict[str, Any]:
    import jnius_config

    # Not through pyserini's own set-up: that asks for jdk.incubator.vector, and a Java machine
    # without this module aborts.
    jnius_config.set_classpath(job["jar"])
    import jnius

    try:
        if job["task"] == "index":
            return {"documents": _index(jnius.autoclass, job)}
        return {"run": list(_search(jnius.autoclass, job))}
    except jnius.JavaException as failure:
        said = f"{failure.classname or 'a Java error'}: {failure.innermessage or ''}"
        raise Failed(said.rstrip(": ")) from failure


def _index(java: Any, job: dict[str, Any]) -> int:
    arguments = [
        *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
        *("-input", job["collection"], "-index", job["index"], "-threads", str(job["threads"])),
    ]
    java("io.anserini.index.IndexCollection").main(arguments)
    return int(java("io.anserini.search.SimpleSearcher")(job["index"]).get_total_num_docs())


def _search(java: Any, job: dict[str, Any]) -> Iterator[list[Any]]:
    searcher = java("io.anserini.search.SimpleSearcher")(job["index"])
    searcher.set_bm25(job["k1"], job["b"])
    for start in range(0, len(job["queries"]), BATCH):
        batch = job["queries"][start : start + BATCH]
        ids, texts = java("java.util.ArrayList")(), java("java.util.ArrayList")()
        for query_id, text in batch:
            ids.add(query_id)
            texts.add(text)
        found = searcher.batch_search(texts, ids, job["depth"], job["threads"])
        for query_id, _ in batch:
            hits = found.get(query_id)
            # A search that fails in its thread leaves nothing behind but a gap.
            if hits is None:
                raise Failed(f"the search for query {query_id!r} failed")
            yield [query_id, [[hit.docid, float(hit.score)] for hit in hits]]


if __name__ == "__main__":
    main(sys.argv[1])
