"""Data sets by name, by ir_datasets id, or from a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beir_eval.data.catalogue import known
from beir_eval.data.datasets import COLLECTIONS, Dataset, Wanted, load_folder
from beir_eval.data.first_stage import retrieve
from beir_eval.data.ir_source import load_id
from beir_eval.errors import DatasetError
from mcranker.paths import is_folder

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_ABOUT = {
    "mini": "Short passages on everyday subjects: health, consumer law, money, software, travel, "
    "shopping, history and the environment. The queries are questions, and one claim; a relevant "
    "passage answers just what is asked, for the person, place and time that are meant.",
    "steer": "Abstracts of medicine, biology and aerodynamics. The queries are topics; a relevant "
    "abstract treats the topic as worded.",
}


def load(
    name_or_path: str | os.PathLike[str],
    *,
    split: str = "test",
    judged_only: bool = True,
) -> Dataset:
    """Load a data set, and download it first where that is needed and possible.

    Args:
        name_or_path: in this order: a name of `COLLECTIONS`; a name or alias of
            `beir_eval.data.catalogue`, such as ``"scifact"``; a folder in BEIR format; an id of
            ir_datasets, such as ``"beir/fiqa/test"``, ``"msmarco-passage/dev/small"`` or
            ``"cranfield"``. Write ``"./scifact"`` or a `Path` for a folder with such a name; a
            folder called like a data set of the paper counts as that data set, if it has as many
            documents and judged queries.
        split: which judgements: the name of a file in ``qrels``, without ``.tsv``. Of an id,
            the split that it ends in goes before ``"test"``; any other one means the id
            with that ending.
        judged_only: keep only the queries with judgements in the split; else all queries.

    Judgements of queries that the collection does not hold are left out, and a warning is
    logged with their number; judgements of documents outside the corpus stay (they count in
    the ideal ranking, as in trec_eval), and are logged as well.

    Data sets of ir_datasets are kept in ``~/.ir_datasets``, or where ``IR_DATASETS_HOME`` says.
    Progress of a download is shown on standard error. Of the queries of Robust04 and News the
    text is that which BEIR takes: the description, and the headline of the article.

    Raises:
        DatasetError: nothing has that name; it is not on this machine and cannot be downloaded,
            or only under a licence; the split is not there; a file is missing, damaged or
            cannot be read, or is not UTF-8; a line is not JSON, lacks a key or holds a wrong
            type; an id is empty, holds white space or appears twice; the corpus, the queries or
            the judgements are empty.
        ExtraMissing: ir_datasets is needed and not installed.
    """
    name = os.fspath(name_or_path)
    by_name = isinstance(name_or_path, str)
    if by_name and name in COLLECTIONS:
        folder: Traversable = resources.files("beir_eval") / "collections" / name
        wanted = Wanted(name, str(folder), COLLECTIONS[name], split, judged_only, None)
        return replace(load_folder(folder, wanted), about=_ABOUT[name])
    entry = known(name) if by_name else None
    path = Path(name)
    if entry is None and is_folder(path):
        whole = path.resolve().name
        source = "a folder in BEIR format"
        wanted = Wanted(whole, name, source, split, judged_only, known(whole), checked=True)
        return load_folder(path, wanted)
    if not by_name or name.startswith((".", "/", "~")) or "\\" in name:
        raise DatasetError(
            f"no folder {name!r}; a folder in BEIR format holds corpus.jsonl, queries.jsonl and "
            "qrels/SPLIT.tsv"
        )
    return load_id(name, Wanted(name, name, "", split, judged_only, entry))


_FIRST_GRADES = {
    "odds": 2,
    "fit": 2,
    "trial": 2,
    "cloth": 1,
    "shield": 1,
    "wash": 0,
    "shop": 0,
    "clay": 0,
}
DEPTH = 12
"""Passages of a query."""


def examples() -> Sequence[dict[str, Any]]:
    """The query of the recording, then those of the mini collection with BM25's first passages.

    Returns:
        ``query``; ``documents``: records with ``_id``, ``title`` and ``text``, in BM25's order;
        ``grades``: document id -> judgement, above 0 for relevant, of all that are judged.
    """
    from mcranker.demo import QUERY, passages

    dataset = load("mini")
    run = retrieve(dataset, DEPTH)
    first = {"query": QUERY, "documents": passages(), "grades": _FIRST_GRADES}
    return [
        first,
        *(
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
        ),
    ]
