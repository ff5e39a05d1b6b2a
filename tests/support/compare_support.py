"""Run folders written by hand, so that every number of a comparison can be worked out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    DataManifest,
    FirstStageNote,
    RunManifest,
)
from beir_eval.files import write_form
from mcranker import ChatRequest, MCRanker, Passage, Query
from mcranker.inputs.trec import write_trec
from tests.support.run_folder_files import measured, quiet, without_texts, write_jsonl
from tests.support.scripted import scripted

Grades = dict[str, dict[str, int]]
Scores = Mapping[str, Mapping[str, str | int]]

DOCS = ("d1", "d2", "d3", "d4")
QUERIES = {"q1": "do masks help?", "q2": "do vaccines help?", "q3": "does tea help?"}
QRELS: Grades = {"q1": {"d1": 2, "d2": 0, "d4": 1}, "q2": {"d2": 1}, "q3": {"d3": 1}}
TEXTS = {doc_id: (f"Title of {doc_id}", f"What {doc_id} says.") for doc_id in DOCS}
PARENT_5 = dict.fromkeys(DOCS, 5)

# Query -> persona -> passage -> score. Sums and orders:
#     A: q1 14, 10, 6, 8: d1 d2 d4 d3    q2 d1 d2 d3 d4    q3 d1 d2 d3 d4 (all the same)
#     B: q1 6, 14, 11, 10: d2 d3 d4 d1   q2 as in A        q3 5, 5, 14, 5: d3 d1 d2 d4
SCORES_A: Mapping[str, Scores] = {
    "q1": {"Virologist": {"d1": 9, "d2": 5, "d3": 1, "d4": 3}, "Worried parent": PARENT_5},
    "q2": {"Virologist": {"d1": 9, "d2": 5, "d3": 1, "d4": 0}, "Worried parent": PARENT_5},
    "q3": {"Virologist": dict.fromkeys(DOCS, 0), "Worried parent": PARENT_5},
}
SCORES_B: Mapping[str, Scores] = {
    "q1": {
        "Virologist": {"d1": 2, "d2": 9, "d3": 6, "d4": 5},
        "Worried parent": {**PARENT_5, "d1": 4},
    },
    "q2": SCORES_A["q2"],
    "q3": {"Virologist": {**dict.fromkeys(DOCS, 0), "d3": 9}, "Worried parent": PARENT_5},
}


def write_data(
    dataset_folder: Path,
    *,
    name: str = "tiny",
    queries: Mapping[str, str] = QUERIES,
    qrels: Grades = QRELS,
    texts: Mapping[str, tuple[str, str]] = TEXTS,
) -> None:
    """The folder ``data``: every query finds all passages, in their order."""
    folder = dataset_folder / DATA_FOLDER
    folder.mkdir(parents=True)
    run = {each: [(doc_id, 4.0 - place) for place, doc_id in enumerate(texts)] for each in queries}
    judged = {each: qrels[each] for each in queries}
    rows = [f"{query}\t{doc}\t{grade}" for query, of in judged.items() for doc, grade in of.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    write_jsonl(folder / "queries.jsonl", [{"_id": i, "text": text} for i, text in queries.items()])
    write_jsonl(
        folder / "passages.jsonl",
        [{"_id": i, "title": title, "text": text} for i, (title, text) in texts.items()],
    )
    write_trec(run, folder / "first_stage.trec", "BM25")
    write_form(folder / "metrics.json", measured(run, judged))
    manifest = DataManifest(
        dataset=name,
        split="test",
        documents=len(texts),
        queries=len(queries),
        queries_in_full=len(queries),
        depth=len(texts),
        first_stage=FirstStageNote(name="BM25", settings={}),
        content=_content(queries),
    )
    write_form(folder / "manifest.json", manifest)


def write_run(
    folder: Path,
    scores: Mapping[str, Scores],
    *,
    label: str = "",
    queries: Mapping[str, str] = QUERIES,
    qrels: Grades = QRELS,
    texts: Mapping[str, tuple[str, str]] = TEXTS,
    failed: Mapping[str, str] | None = None,
    finished: bool = True,
    **options: Any,
) -> str:
    """A run of a team of two that scores by `scores`; gives back the folder's name."""
    folder.mkdir(parents=True)
    failed = dict(failed or {})

    def answer(request: ChatRequest) -> str:
        tag = request.tag
        score = scores[tag.query_id][tag.persona][tag.doc_id]
        return f'{{"Score": {score}}}' if isinstance(score, int) else score

    model = scripted(answer)
    with (
        quiet(),
        MCRanker(model=model, team_size=2, nlp_scientist=False, ledger=None, **options) as ranker,
    ):
        rankings = [
            ranker.rank(
                Query(text, query_id),
                [Passage(doc_id, text, title) for doc_id, (title, text) in texts.items()],
            )
            for query_id, text in queries.items()
            if query_id not in failed
        ]
        config, models = ranker.config.model_dump(mode="json"), dict(ranker.models.names)
        hashes = dict(ranker.prompt_hashes)
    write_jsonl(folder / "rankings.jsonl", [without_texts(each) for each in rankings])
    run = {each.query.id: [(hit.doc_id, -float(hit.rank)) for hit in each] for each in rankings}
    write_trec(run, folder / "run.trec", "run")
    judged = {each: qrels[each] for each in queries}
    metrics = measured(run, judged).model_copy(update={"failed": failed})
    write_form(folder / "metrics.json", metrics)
    manifest = RunManifest(
        label=label or folder.name,
        ranker="mcranker",
        options={},
        config=config,
        models=models,
        prompt_hashes=hashes,
        versions={"mcranker": "0.1.0"},
        data=_content(queries),
        finished=finished,
    )
    write_form(folder / "manifest.json", manifest)
    return str(folder)


def write_both(folder: Path) -> tuple[str, str]:
    """The runs A and B of `SCORES_A` and `SCORES_B`."""
    write_data(folder)
    return write_run(folder / "A", SCORES_A), write_run(folder / "B", SCORES_B)


def _content(queries: Mapping[str, str]) -> str:
    return "content of " + " ".join(queries)
