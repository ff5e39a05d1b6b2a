"""Records as data sets and search services have them, on every way in; labels are never shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, InputError, ScriptedChat
from mcranker.inputs.passages import as_passages
from mcranker.rankers.direct import DirectRanker
from mcranker.retrieval.readers import Skipped, read_documents

TEXTS = ("cloth masks", "N95 masks")


def hits(*found: dict[str, Any]) -> dict[str, Any]:
    total = {"value": 2, "relation": "eq"}
    return {"took": 9, "_shards": {"total": 1}, "hits": {"total": total, "hits": list(found)}}


def each(make: Any) -> list[Any]:
    return [make(f"d{place}", text) for place, text in enumerate(TEXTS)]


LISTS: dict[str, list[dict[str, Any]]] = {
    "MS MARCO": each(lambda _, text: {"is_selected": 77, "passage_text": text, "url": "u"}),
    "MS MARCO 2": each(lambda n, text: {"pid": n, "passage": text, "docid": "same"}),
    "segments": each(lambda n, text: {"docid": n, "title": "T", "segment": text, "start_char": 77}),
    "SQuAD": each(
        lambda n, text: {
            "id": n,
            "context": text,
            "question": "leaked?",
            "answers": {"text": ["leaked"], "answer_start": [77]},
            "is_impossible": False,
        }
    ),
    "DPR": each(
        lambda n, text: {"id": n, "title": "T", "text": text, "score": "77.5", "has_answer": True}
    ),
    "Elasticsearch": each(
        lambda n, text: {"_index": "leaked", "_id": n, "_score": 77, "_source": {"body": text}}
    ),
    "Milvus": each(lambda n, text: {"id": n, "distance": 0.77, "entity": {"text": text}}),
    "Qdrant": each(
        lambda n, text: {
            "id": n,
            "score": 77,
            "payload": {"page_content": text, "metadata": {"_id": "leaked"}},
        }
    ),
    "Pinecone": each(
        lambda n, text: {"id": n, "score": 77, "values": [], "metadata": {"text": text}}
    ),
    "Weaviate": each(
        lambda n, text: {"uuid": n, "metadata": {"distance": 77}, "properties": {"content": text}}
    ),
    "Typesense": each(lambda n, text: {"text_match": 77, "document": {"id": n, "chunk": text}}),
    "LlamaIndex": each(lambda n, text: {"node": {"id_": n, "text": text}, "score": 77}),
    "LangChain": each(lambda n, text: {"pageContent": text, "metadata": {"label": "leaked"}}),
    "Pyserini": each(lambda n, text: {"id": n, "contents": text, "relevance": 77}),
    "another case": each(lambda n, text: {"Doc-ID": n, "Passage Text": text, "Label": 77}),
    "fields": each(lambda n, text: {"id": n, "text": {"name": text, "Is_Selected": 77}}),
}
WHOLE: dict[str, Any] = {
    "DPR": {"question": "leaked?", "answers": ["leaked"], "ctxs": LISTS["DPR"]},
    "Elasticsearch": hits(*LISTS["Elasticsearch"]),
    "Milvus": {"code": 0, "data": LISTS["Milvus"]},
    "Qdrant": {"result": {"points": LISTS["Qdrant"]}, "status": "ok", "time": 0.77},
    "Pinecone": {"matches": LISTS["Pinecone"], "namespace": "", "usage": {"read_units": 77}},
    "Solr": {"responseHeader": {}, "response": {"numFound": 77, "docs": LISTS["Pyserini"]}},
    "Chroma": {
        "ids": [["d0", "d1"]],
        "documents": [list(TEXTS)],
        "metadatas": [[{"label": "leaked"}, None]],
        "distances": [[77, 77]],
        "embeddings": None,
        "included": ["documents"],
    },
    "MS MARCO": {
        "query": "leaked?",
        "answers": ["leaked"],
        "passages": {"is_selected": [0, 77], "passage_text": list(TEXTS), "url": ["u", "v"]},
    },
    "texts": {"documents": list(TEXTS)},
    "records": {"documents": LISTS["SQuAD"]},
    "ids": dict(zip(("d0", "d1"), TEXTS, strict=True)),
}
ALL = [*LISTS.values(), *WHOLE.values(), [WHOLE["DPR"]], [WHOLE["Elasticsearch"]]]
NAMES = [*LISTS, *(f"{name} as a whole" for name in WHOLE), "DPR in a list", "hits in a list"]
REFUSED: list[Any] = [
    [{"is_selected": 1, "my_words": "x"}],
    [{"question": "q", "context": {"sentences": [["x"]]}, "supporting_facts": {}}],
    [{"_id": "1", "_score": 2.5, "_source": {"headline": "x"}}],
    [{"doc_id": 1, "title": "t", "abstract": ["x", "y"]}],
    [{"id": 1, "name": "x", "data": ["y"]}],
    {"id": "1", "label": "x", "other": "y"},
    {"version": "2.0", "data": [{"title": "t", "paragraphs": []}]},
    {"status": "ok", "mine": [{"text": "x"}]},
]


def texts(found: Any) -> list[str]:
    return [each.text.removeprefix("name: ") for each in found]


@pytest.mark.parametrize("docs", ALL, ids=NAMES)
def test_judges_see_texts_and_no_labels(docs: Any) -> None:
    prompts: list[str] = []

    def score(request: ChatRequest) -> str:
        prompts.append(request.messages[-1].content)
        return '{"Score": 5}'

    with DirectRanker(model=ScriptedChat(score), ledger=None) as ranker:
        ranking = ranker.rank("masks", docs)
    assert texts(hit.passage for hit in ranking) == list(TEXTS)
    seen = "\n".join(prompts)
    assert all(text in seen for text in TEXTS)
    assert "leaked" not in seen
    assert "77" not in seen


@pytest.mark.parametrize("name", [name for name in LISTS if name not in ("MS MARCO", "LangChain")])
def test_ids_and_metadata_are_kept(name: str) -> None:
    found = as_passages(LISTS[name])
    assert [each.id for each in found] == ["d0", "d1"]
    if name in ("DPR", "Elasticsearch", "Qdrant", "Pinecone", "LlamaIndex"):
        assert found[0].score in (77, 77.5)
    if name == "SQuAD":
        assert found[0].metadata["answers"] == {"text": ["leaked"], "answer_start": [77]}


@pytest.mark.parametrize("docs", REFUSED)
def test_a_record_without_a_known_text_is_refused_with_its_keys(docs: Any) -> None:
    with pytest.raises(InputError) as caught:
        as_passages(docs)
    (record,) = docs if isinstance(docs, list) else docs.get("data", [docs])
    seen = [*record, *record.get("_source", ())]
    assert all(repr(key) in str(caught.value) for key in seen)


@pytest.mark.parametrize("docs", ALL, ids=NAMES)
def test_files_are_read_the_same_way(docs: Any, tmp_path: Path) -> None:
    skipped: list[Skipped] = []
    (tmp_path / "d.json").write_text(json.dumps(docs))
    lines = docs if isinstance(docs, list) else [docs]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    named = docs == WHOLE["ids"]  # a line is a record
    for name in ("d.json",) if named else ("d.json", "d.jsonl"):
        assert texts(read_documents(tmp_path / name, on_skip=skipped.append)) == list(TEXTS)
    assert texts(read_documents(docs, on_skip=skipped.append)) == list(TEXTS)
    assert skipped == []


@pytest.mark.parametrize(
    ("docs", "found"),
    [
        ({"id": "x", "text": "a", "abstract": ["b", "c"]}, {"x": "a"}),
        ({"text": {"b": 1, "a": 2}}, {"0": "b: 1\na: 2"}),
        ({"text": ["a", "b"], "label": [0, 1]}, {"0": "a", "1": "b"}),
        ([{"text": ["a", "b"]}], {"0": "- a\n- b"}),
        ([{"text": "", "abstract": "a"}], {"0": "a"}),
        ([{"abstract": "a", "body": "b"}], {"0": "b"}),
        ({"x": {"body": "a"}, "y": "b"}, {"x": "a", "y": "b"}),
        ({"data": [{"ctxs": [{"pid": 1, "passage": "a"}]}]}, {"1": "a"}),
    ],
)
def test_one_record_columns_and_names(docs: Any, found: dict[str, str]) -> None:
    assert {each.id: each.text for each in as_passages(docs)} == found
