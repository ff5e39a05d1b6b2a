"""The process that Lucene runs in: one job from a file, its outcome to a file.

Started by `mcranker.retrieval.lucene` as ``python -P lucene_worker.py JOB``, and on its own: it
imports nothing of this package. The Java machine may end it at any time; then there is no outcome.

A job is a JSON object with ``jar``, ``task``, ``outcome`` (the file for the outcome), and

- for the task ``index``: ``collection`` (a folder of JSON lines with ``id``, ``contents`` and
  perhaps ``title``), ``index`` (the folder to make) and ``fields``;
- for the task ``search``: ``index`` (a folder) or ``prebuilt`` (a name), ``queries`` (id and
  text, each a list of two), ``depth``, ``k1``, ``b``, ``fields``.

Both have ``threads``. The outcome is ``{"documents": N}``, ``{"run": [[query id, [[document
id, score], ...]], ...]}``, or ``{"error": TEXT, "prebuilt": true if the index was the trouble}``.
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

    def __init__(self, text: str, *, prebuilt: bool = False) -> None:
        super().__init__(text)
        self.prebuilt = prebuilt


def main(job_file: str) -> None:
    """Do the job and write its outcome."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    try:
        outcome = _do(job)
    except Failed as failure:
        outcome = {"error": str(failure), "prebuilt": failure.prebuilt}
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
        return {"run": list(_search(jnius.autoclass, job, _place(jnius, job)))}
    except jnius.JavaException as failure:
        raise Failed(_in_short(failure)) from failure


def _index(java: Any, job: dict[str, Any]) -> int:
    arguments = [
        *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
        *("-input", job["collection"], "-index", job["index"], "-threads", str(job["threads"])),
    ]
    extra = [name for name in job["fields"] if name != "contents"]
    java("io.anserini.index.IndexCollection").main(arguments + ["-fields", *extra] * bool(extra))
    return int(java("io.anserini.search.SimpleSearcher")(job["index"]).get_total_num_docs())


def _place(jnius: Any, job: dict[str, Any]) -> str:
    if "prebuilt" not in job:
        return str(job["index"])
    try:
        reader = jnius.autoclass("io.anserini.index.IndexReaderUtils")
        return str(reader.getIndex(job["prebuilt"]).toString())
    except jnius.JavaException as failure:
        raise Failed(_in_short(failure), prebuilt=True) from failure


def _search(java: Any, job: dict[str, Any], index: str) -> Iterator[list[Any]]:
    searcher = java("io.anserini.search.SimpleSearcher")(index)
    searcher.set_bm25(job["k1"], job["b"])
    boosts = java("java.util.HashMap")()
    for name in job["fields"]:
        boosts.put(name, java("java.lang.Float")(1.0))
    for start in range(0, len(job["queries"]), BATCH):
        batch = job["queries"][start : start + BATCH]
        ids, texts = java("java.util.ArrayList")(), java("java.util.ArrayList")()
        for query_id, text in batch:
            ids.add(query_id)
            texts.add(text)
        if job["fields"] == ["contents"]:
            found = searcher.batch_search(texts, ids, job["depth"], job["threads"])
        else:
            found = searcher.batch_search_fields(texts, ids, job["depth"], job["threads"], boosts)
        for query_id, _ in batch:
            hits = found.get(query_id)
            # A search that fails in its thread leaves nothing behind but a gap.
            if hits is None:
                raise Failed(f"the search for query {query_id!r} failed")
            yield [query_id, [[hit.docid, float(hit.score)] for hit in hits]]


def _in_short(failure: Any) -> str:
    said = failure.innermessage or ""
    return f"{failure.classname or 'a Java error'}: {said}".rstrip(": ")


if __name__ == "__main__":
    main(sys.argv[1])
