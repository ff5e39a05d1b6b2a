"""The files of one run folder and of what was ranked, for `tests.support.run_folders`."""

from __future__ import annotations

import hashlib
import logging
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    FIRST_STAGE,
    DataManifest,
    FirstStageNote,
    Metrics,
    RunCost,
    RunManifest,
    ScoreCounts,
    SuiteNote,
    TieBounds,
)
from beir_eval.files import write_form
from beir_eval.measures.metrics import evaluate
from mcranker import (
    ChatReply,
    ChatRequest,
    DirectRanker,
    MCRanker,
    Passage,
    Query,
    Ranking,
    ScriptedChat,
    Usage,
)
from mcranker.inputs.trec import read_trec, write_trec
from personas.io.atomic import write_whole
from tests.support.scripted import RECRUITS, RUBRIC

MEASURE = "nDCG@10"
PAPER_QUERIES = {
    "trec-covid": 50,
    "touche": 49,
    "nfcorpus": 323,
    "dbpedia": 400,
    "scifact": 300,
    "signal": 97,
    "news": 57,
    "robust04": 249,
}
ROLES = ("recruiter", "criteria", "scoring")

Documents = list[tuple[str, float]]
Grades = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What `make_run_folders` was asked for."""

    dataset: str
    queries: int
    passages: int
    seed: int
    rankings: bool
    faults: bool
    weak: bool
    model: str


def write_data(folder: Path, plan: Plan) -> DataManifest:
    folder.mkdir(parents=True)
    chance = _chance(plan, "data")
    ids = [f"{plan.dataset}-q{number}" for number in range(1, plan.queries + 1)]
    found: dict[str, Documents] = {}
    qrels: Grades = {}
    lines = []
    for number, query_id in enumerate(ids, start=1):
        documents = [f"{query_id}-d{place}" for place in range(1, plan.passages + 1)]
        grades = {doc_id: int(chance.random() < 0.4) for doc_id in documents}
        grades[chance.choice(documents)] = 2
        qrels[query_id] = grades
        empty = plan.faults and number == plan.queries
        found[query_id] = [] if empty else _scored(documents)
        lines += [
            {"_id": doc_id, "title": f"Title {doc_id}", "text": f"What {doc_id} says of <&> 100%."}
            for doc_id in documents
            if not empty
        ]
    queries = [{"_id": each, "text": f"what is known about {each}"} for each in ids]
    write_jsonl(folder / "queries.jsonl", queries)
    write_jsonl(folder / "passages.jsonl", lines)
    rows = [f"{query}\t{doc}\t{grade}" for query, of in qrels.items() for doc, grade in of.items()]
    write_whole(folder / "qrels.tsv", "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    write_trec(
        {each: docs for each, docs in found.items() if docs}, folder / "first_stage.trec", "BM25"
    )
    metrics = measured(found, qrels) if plan.rankings else _made_up(plan, FIRST_STAGE, ids)
    write_form(folder / "metrics.json", metrics)
    names = ("queries.jsonl", "qrels.tsv", "passages.jsonl", "first_stage.trec")
    content = hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()
    full = PAPER_QUERIES.get(plan.dataset, plan.queries)
    manifest = DataManifest(
        dataset=plan.dataset,
        description=f"{plan.dataset}: made for tests",
        paper=plan.dataset if plan.dataset in PAPER_QUERIES else None,
        split="test",
        documents=plan.queries * plan.passages,
        queries=plan.queries,
        queries_in_full=max(full, plan.queries),
        depth=plan.passages,
        first_stage=FirstStageNote(name="BM25", settings={"engine": "bm25s", "k1": 0.9, "b": 0.4}),
        content=content,
    )
    write_form(folder / "manifest.json", manifest)
    return manifest


def write_run(
    folder: Path,
    label: str,
    note: SuiteNote | None,
    plan: Plan,
    data: DataManifest,
    *,
    finished: bool,
) -> None:
    folder.mkdir()
    direct = label.startswith("DIRECT")
    manifest = RunManifest(
        label=label,
        ranker="direct" if direct else "mcranker",
        options={"model": plan.model},
        config={"scale": 10},
        models=dict.fromkeys(("scoring",) if direct else ROLES, plan.model),
        weak_judge="encoder" if plan.weak else "",
        prompt_hashes={"score": hashlib.sha256(b"score").hexdigest()},
        versions={"mcranker": "0.1.0", "python": "3.11.7"},
        data=data.content,
        suite=note,
        finished=finished,
    )
    if finished and plan.rankings:
        rankings, failed = _rank(folder.parent / DATA_FOLDER, label, plan)
        first = next(each for each in rankings if each.passages)
        hashes, config = dict(first.prompt_hashes), dict(first.config)
        manifest = manifest.model_copy(update={"prompt_hashes": hashes, "config": config})
        _write_rankings(folder, rankings, failed)
    elif finished:
        ids = [f"{plan.dataset}-q{number}" for number in range(1, plan.queries + 1)]
        write_form(folder / "metrics.json", _made_up(plan, label, ids))
    write_form(folder / "manifest.json", manifest)


def _rank(data: Path, label: str, plan: Plan) -> tuple[list[Ranking], dict[str, str]]:
    grades = _read_qrels(data / "qrels.tsv")

    def answer(request: ChatRequest) -> ChatReply:
        tag = request.tag
        usage = Usage(calls=1, input_tokens=100, cached_input_tokens=60, output_tokens=5)
        if tag.stage == "recruit":
            return ChatReply(RECRUITS, usage=usage)
        if tag.stage == "criteria":
            return ChatReply(RUBRIC, usage=usage)
        draw = zlib.crc32(f"{plan.seed} {label} {tag.persona} {tag.doc_id}".encode())
        if plan.faults and draw % 11 == 0:
            return ChatReply("I cannot say.", usage=usage)
        score = min(10, draw % 8 + grades[tag.query_id][tag.doc_id])
        return ChatReply(f'{{"Score": {score}}}', usage=usage)

    chat = ScriptedChat(answer, name=plan.model)
    kind = DirectRanker if label.startswith("DIRECT") else MCRanker
    rankings: list[Ranking] = []
    failed: dict[str, str] = {}
    texts = {line["_id"]: line for line in _jsonl(data / "passages.jsonl")}
    found = read_trec(data / "first_stage.trec")
    with quiet(), kind(model=chat, ledger=None) as ranker:
        for number, line in enumerate(_jsonl(data / "queries.jsonl"), start=1):
            query = Query(line["text"], line["_id"])
            if plan.faults and number == 1:
                failed[query.id] = "the model's answers could not be read"
                continue
            documents = [
                Passage(doc_id, texts[doc_id]["text"], texts[doc_id]["title"], score)
                for doc_id, score in found.get(query.id, [])
            ]
            rankings.append(ranker.rank(query, documents))
    return rankings, failed


def _write_rankings(folder: Path, rankings: list[Ranking], failed: dict[str, str]) -> None:
    write_jsonl(folder / "rankings.jsonl", [_timeless(each) for each in rankings])
    run = {
        each.query.id: [(hit.doc_id, hit.score or 0.0) for hit in each] for each in rankings if each
    }
    write_trec(run, folder / "run.trec", rankings[0].ranker)
    qrels = _read_qrels(folder.parent / DATA_FOLDER / "qrels.tsv")
    base = measured(run, qrels)
    missing = [score for each in rankings for score in each.missing]
    calls = sum(each.usage.calls for each in rankings)
    metrics = base.model_copy(
        update={
            "failed": failed,
            "scores": ScoreCounts(
                asked=sum(each.matrix.size for each in rankings),
                missing=len(missing),
                reasons={"no score in the reply": len(missing)} if missing else {},
                unreadable=2 * len(missing),
            ),
            "taken": RunCost(
                calls=calls,
                input_tokens=100 * calls,
                cached_input_tokens=60 * calls,
                output_tokens=5 * calls,
                seconds=0.5 * calls,
                cost=0.0,
            ),
        }
    )
    write_form(folder / "metrics.json", metrics)


@contextmanager
def quiet() -> Iterator[None]:
    """Every missing score would be a warning in the tests' log."""
    logger = logging.getLogger("mcranker")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def measured(run: Mapping[str, Documents], qrels: Grades) -> Metrics:
    found = evaluate(run, qrels, (MEASURE,))
    return Metrics(
        measures=(MEASURE,),
        means=dict(found.means),
        per_query={name: dict(values) for name, values in found.per_query.items()},
        missing_queries=found.missing_queries,
    )


def _made_up(plan: Plan, label: str, ids: Sequence[str]) -> Metrics:
    level = 0.3 + 0.3 * _chance(plan, label).random()
    easy, noise = _chance(plan, "queries"), _chance(plan, f"values of {label}")
    values = {
        each: min(1.0, max(0.0, level + 0.5 * (easy.random() - 0.5) + noise.gauss(0, 0.15)))
        for each in ids
    }
    mean = sum(values.values()) / len(values)
    ranked = label != FIRST_STAGE
    calls = (1 if label.startswith("DIRECT") else 3) * plan.queries * plan.passages
    return Metrics(
        measures=(MEASURE,),
        means={MEASURE: mean},
        per_query={MEASURE: values},
        ties={
            MEASURE: TieBounds(worst=mean - 0.01 * ranked, best=mean + 0.01 * ranked, by_lot=mean)
        },
        scores=ScoreCounts(asked=calls) if ranked else None,
        taken=RunCost(
            calls=calls,
            input_tokens=400 * calls,
            cached_input_tokens=300 * calls,
            output_tokens=6 * calls,
            seconds=0.25 * calls,
            cost=0.0005 * calls,
        )
        if ranked
        else None,
    )


def without_texts(ranking: Ranking) -> dict[str, Any]:
    stored = ranking.to_dict()
    drop = ("title", "text")
    hits = [{key: hit[key] for key in hit if key not in drop} for hit in stored["hits"]]
    return {**stored, "hits": hits}


def _timeless(ranking: Ranking) -> dict[str, Any]:
    """Without texts, and with times that do not change."""
    stored = without_texts(ranking)
    stages = [{**each, "seconds": 0.5 * each["calls"]} for each in stored["usage"]["by_stage"]]
    usage = {**stored["usage"], "seconds": 0.5 * stored["usage"]["calls"], "by_stage": stages}
    return {**stored, "usage": usage, "seconds": {"total": 1.0}}


def _scored(documents: Sequence[str]) -> list[tuple[str, float]]:
    return [(doc_id, float(len(documents) - place)) for place, doc_id in enumerate(documents)]


def _chance(plan: Plan, of: str) -> random.Random:
    return random.Random(f"{plan.seed} {plan.dataset} {of}")


def _read_qrels(path: Path) -> Grades:
    found: Grades = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        query_id, doc_id, grade = line.split("\t")
        found.setdefault(query_id, {})[doc_id] = int(grade)
    return found


def _jsonl(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def write_jsonl(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    write_whole(path, b"".join(orjson.dumps(each) + b"\n" for each in entries))
