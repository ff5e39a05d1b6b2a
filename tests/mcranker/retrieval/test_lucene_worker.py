"""Lucene's process and its job, with another Java in its place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mcranker.retrieval import lucene_worker


class JavaError(Exception):
    classname, innermessage = "java.io.IOException", "No space left on device"


def with_java(monkeypatch: pytest.MonkeyPatch, classes: dict[str, Any]) -> None:
    def autoclass(name: str) -> Any:
        return classes[name.rpartition(".")[2]]

    config, jnius = ModuleType("jnius_config"), ModuleType("jnius")
    vars(config).update(set_classpath=lambda jar: None)
    vars(jnius).update(autoclass=autoclass, JavaException=JavaError)
    monkeypatch.setitem(sys.modules, "jnius_config", config)
    monkeypatch.setitem(sys.modules, "jnius", jnius)


def work(folder: Path, **job: Any) -> dict[str, Any]:
    file, outcome = folder / "job.json", folder / "outcome.json"
    job |= {"jar": "a.jar", "outcome": str(outcome), "threads": 1}
    file.write_text(json.dumps(job))
    lucene_worker.main(str(file))
    result: dict[str, Any] = json.loads(outcome.read_text())
    return result


class Hit:
    docid, score = "d1", 2.5


class Listed(list[Any]):
    add = list.append


class Searcher:
    """Answers every query but ``lost`` with one hit."""

    def __init__(self, index: str) -> None:
        assert index == "folder"

    def set_bm25(self, k1: float, b: float) -> None:
        assert (k1, b) == (0.9, 0.4)

    def batch_search(
        self, texts: list[str], ids: list[str], depth: int, threads: int
    ) -> dict[str, list[Hit]]:
        assert len(ids) <= 2
        return {each: [Hit()] for each, text in zip(ids, texts, strict=True) if text != "lost"}


JAVA = {"SimpleSearcher": Searcher, "ArrayList": Listed}
SEARCH = {"task": "search", "index": "folder", "depth": 5, "k1": 0.9, "b": 0.4}


def test_the_worker_searches_in_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lucene_worker, "BATCH", 2)
    with_java(monkeypatch, JAVA)
    queries = [["q1", "a"], ["q2", "b"], ["q3", "c"]]
    outcome = work(tmp_path, **SEARCH, queries=queries)
    assert outcome == {"run": [[query_id, [["d1", 2.5]]] for query_id, _ in queries]}


def test_a_search_that_failed_in_its_thread_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_java(monkeypatch, JAVA)
    outcome = work(tmp_path, **SEARCH, queries=[["q1", "a"], ["q2", "lost"]])
    assert outcome == {"error": "the search for query 'q2' failed"}


def test_javas_errors_become_an_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Failing:
        def __init__(self, index: str) -> None:
            raise JavaError

    said = "java.io.IOException: No space left on device"
    with_java(monkeypatch, {"SimpleSearcher": Failing})
    assert work(tmp_path, **SEARCH, queries=[]) == {"error": said}
