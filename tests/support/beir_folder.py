"""A small data set in BEIR format, and models that know its judgements."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from mcranker import ChatRequest, ScriptedChat
from tests.support.scripted import RECRUITS, RUBRIC

WORDS = ("mask", "virus", "nurse", "filter", "cloth", "valve", "trial", "air")
QUERIES = {"q1": "mask virus", "q2": "filter cloth", "q3": "valve trial", "q4": "nurse air"}
DOCUMENTS = 24
GRADES: Mapping[str, Mapping[str, int]] = {
    "q1": {"d3": 2, "d8": 1, "d11": 1, "d0": 0},
    "q2": {"d4": 1, "d12": 2},
    "q3": {"d5": 2, "d13": 0, "d22": 1},
    "q4": {"d2": 1, "d7": 1, "d10": 2},
}


def write_folder(folder: Path) -> Path:
    """Write the data set: 24 documents of three words each, 4 judged queries and one without."""
    folder.mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for number in range(DOCUMENTS):
            words = (WORDS[number % 8], WORDS[(number // 2) % 8], WORDS[(number // 3 + 1) % 8])
            line = {"_id": f"d{number}", "title": f"About {words[0]}s", "text": " ".join(words)}
            file.write(json.dumps(line) + "\n")
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        for query_id, text in {**QUERIES, "q5": "air"}.items():
            file.write(json.dumps({"_id": query_id, "text": text}) + "\n")
    (folder / "qrels").mkdir()
    lines = ["query-id\tcorpus-id\tscore"]
    for query_id, grades in GRADES.items():
        lines += [f"{query_id}\t{doc_id}\t{grade}" for doc_id, grade in grades.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def judging(score: Callable[[ChatRequest], str], *, name: str = "scripted:judge") -> ScriptedChat:
    """A model that recruits and writes rubrics by rote, and answers all else by `score`."""

    def answer(request: ChatRequest) -> str:
        match request.tag.stage:
            case "recruit":
                return RECRUITS
            case "criteria":
                return RUBRIC
            case _:
                return score(request)

    return ScriptedChat(answer, name=name)


def knowing() -> ScriptedChat:
    """A model whose every score is the true judgement."""

    def score(request: ChatRequest) -> str:
        grade = GRADES[request.tag.query_id].get(request.tag.doc_id, 0)
        key = "Final score" if request.tag.stage == "assess" else "Score"
        return json.dumps({key: grade})

    return judging(score, name="scripted:truth")
