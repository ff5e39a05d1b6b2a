"""Measures of a comparison's runs, and the facts shown beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.data.qrels import read_qrels

if TYPE_CHECKING:
    from beir_eval.experiment.run_folder import DataFolder
    from mcranker.trec import Run

Texts = Mapping[str, tuple[str, str]]
"""Document id -> title and text."""


def _no_texts(_: Collection[str]) -> Texts:
    return {}


@dataclass(frozen=True, slots=True)
class Basis:
    """Measures of runs, and the facts to show of queries and passages.

    Attributes:
        dataset: its name.
        split: which judgements; empty if not known.
        qrels: query id -> document id -> grade.
        queries: query id -> text; empty if they are not at hand.
        texts: gives the titles and texts of those documents that are at hand.
        first_stage: the first stage's run; empty if there is none.
        first_stage_name: e.g. ``"BM25"``; empty if there is none.
    """

    dataset: str
    split: str
    qrels: Mapping[str, Mapping[str, int]]
    queries: Mapping[str, str] = field(default_factory=dict)
    texts: Callable[[Collection[str]], Texts] = _no_texts
    first_stage: Run = field(default_factory=dict)
    first_stage_name: str = ""


def basis_of_folder(data: DataFolder) -> Basis:
    """Return the ranked data, as a run folder has it.

    Raises:
        RunError, RunFolderError: a file cannot be read.
    """
    manifest = data.manifest
    return Basis(
        dataset=manifest.dataset,
        split=manifest.split,
        qrels=data.qrels(),
        queries=data.queries(),
        texts=lambda doc_ids: data.passages(set(doc_ids)),
        first_stage=data.first_stage(),
        first_stage_name=manifest.first_stage.name,
    )


def basis_of_dataset(name: str, *, split: str = "test") -> Basis:
    """A data set to measure TREC files by.

    Raises:
        DatasetError: as `beir_eval.load`.
        ExtraMissing: a package for it is not installed.
    """
    from beir_eval.data.load import load

    dataset = load(name, split=split)

    def texts(doc_ids: Collection[str]) -> Texts:
        found = {each: dataset.corpus[each] for each in doc_ids if each in dataset.corpus}
        return {doc_id: (each.title, each.text) for doc_id, each in found.items()}

    return Basis(dataset.name, dataset.split, dataset.qrels, dataset.queries, texts)


def basis_of_qrels(path: str) -> Basis:
    """A file of judgements to measure TREC files by.

    Raises:
        DatasetError: as `beir_eval.data.qrels.read_qrels`.
    """
    return Basis(Path(path).name, "", read_qrels(path))
