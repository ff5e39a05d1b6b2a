"""Data sets by id: what is made of the kinds of documents, queries and judgements there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from beir_eval import Dataset, DatasetError, Document, load
from beir_eval.data import ir_source
from beir_eval.data.ir_source import StoredCorpus


class TitledDoc(NamedTuple):
    doc_id: str
    text: str
    title: str | None

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


class ArticleDoc(NamedTuple):
    doc_id: str
    url: str
    title: str
    body: str

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


class PlainDoc(NamedTuple):
    doc_id: str
    text: str

    def default_text(self) -> str:
        return self.text


class TrialDoc(NamedTuple):
    doc_id: str
    url: str
    condition: str
    phases: tuple[str, ...]
    summary: str


class TextQuery(NamedTuple):
    query_id: str
    text: str

    def default_text(self) -> str:
        return self.text


class BareQuery(NamedTuple):
    query_id: str
    text: str
    reasoning: str


class TopicQuery(NamedTuple):
    query_id: str
    title: str
    description: str

    def default_text(self) -> str:
        return self.title


class LinkedQuery(NamedTuple):
    query_id: str
    doc_id: str
    url: str


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int


class PairQrel(NamedTuple):
    query_id: str
    doc_id: str
    quality: int


class Source:
    """As much of a data set of ir_datasets as is used."""

    def __init__(
        self, docs: Sequence[Any] = (), queries: Sequence[Any] = (), qrels: Sequence[Any] = ()
    ) -> None:
        self.docs, self.queries, self.qrels = docs, queries, qrels
        self.looked_up = 0

    def has_docs(self) -> bool:
        return bool(self.docs)

    def has_queries(self) -> bool:
        return bool(self.queries)

    def has_qrels(self) -> bool:
        return bool(self.qrels)

    def docs_iter(self) -> Iterator[Any]:
        return iter(self.docs)

    def docs_count(self) -> int | None:
        return None

    def docs_store(self) -> Source:
        return self

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[Any]:
        for doc_id in doc_ids:
            self.looked_up += 1
            # As the index of ir_datasets does, which cuts what is longer than any of its ids.
            longest = max(len(each.doc_id) for each in self.docs)
            yield from (each for each in self.docs if each.doc_id == doc_id[:longest])

    def queries_iter(self) -> Iterator[Any]:
        return iter(self.queries)

    def qrels_iter(self) -> Iterator[Any]:
        return iter(self.qrels)

    def qrels_cls(self) -> type[Any]:
        return type(self.qrels[0])


DOCS = (TitledDoc("d2", "Dogs bark.", "Dogs"), TitledDoc("d1", "", None), TitledDoc("d3", "x", ""))
QUERIES = (TextQuery("q1", "cats"), TextQuery("q2", "not judged"), TextQuery("q3", "dogs"))
QRELS = (Qrel("q3", "d2", 2), Qrel("q1", "d1", 1), Qrel("q1", "d2", 0))

Given = Callable[..., Source]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """Makes ids known, and returns the source of the last one."""
    registry: dict[str, Source] = {}
    library = SimpleNamespace(registry=registry)
    monkeypatch.setattr(ir_source, "_library", lambda name: library)

    def given(
        identifier: str,
        docs: Sequence[Any] = DOCS,
        queries: Sequence[Any] = QUERIES,
        qrels: Sequence[Any] = QRELS,
    ) -> Source:
        registry[identifier] = Source(docs, queries, qrels)
        return registry[identifier]

    return given


def test_a_data_set_by_its_id(given: Given) -> None:
    given("pets/small", DOCS)

    dataset = load("pets/small")

    assert dataset == Dataset(
        name="pets-small",
        corpus={
            "d2": Document("d2", "Dogs", "Dogs bark."),
            "d1": Document("d1", "", ""),
            "d3": Document("d3", "", "x"),
        },
        queries={"q1": "cats", "q3": "dogs"},
        qrels={"q3": {"d2": 2}, "q1": {"d1": 1, "d2": 0}},
        description="pets-small: pets/small of ir_datasets; 3 documents, 2 queries, "
        "3 judgements in split test",
    )
    assert list(dataset.corpus) == ["d2", "d1", "d3"]
    assert list(dataset.queries) == ["q1", "q3"]
    assert len(dataset.corpus) == 3
    assert load("pets/small", judged_only=False).queries["q2"] == "not judged"


def test_documents_are_read_when_they_are_asked_for(given: Given) -> None:
    source = given("pets")
    corpus = load("pets").corpus
    assert isinstance(corpus, StoredCorpus)
    source.looked_up = 0

    assert [document.id for document in corpus.values()] == ["d2", "d1", "d3"]
    assert dict(corpus.items())["d2"].title == "Dogs"
    assert source.looked_up == 0  # these go through the file
    assert corpus["d2"] == Document("d2", "Dogs", "Dogs bark.")
    assert corpus.get_many(["d3", "nowhere", "d2"]).keys() == {"d2", "d3"}
    assert source.looked_up == 4


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        (ArticleDoc("d1", "u", "Head", "The body."), Document("d1", "Head", "The body.")),
        (PlainDoc("d1", "Just text."), Document("d1", "", "Just text.")),
        (
            TrialDoc("d1", "u", "asthma", ("2",), "It helps."),
            Document("d1", "", "asthma It helps."),
        ),
    ],
)
def test_kinds_of_documents(given: Given, doc: Any, expected: Document) -> None:
    given("pets", [doc], QUERIES, [Qrel("q1", "d1", 1)])

    assert load("pets").corpus["d1"] == expected


def test_kinds_of_queries_and_the_highest_of_several_grades(given: Given) -> None:
    queries = [BareQuery("q1", "why?", "think"), LinkedQuery("q2", "d2", "u")]
    grades = [Qrel("q1", "d1", grade) for grade in (1, 2, 0)]
    given("mixed", DOCS, queries, [*grades, Qrel("q1", "d2", -1), Qrel("q2", "d3", 4)])
    dataset = load("mixed")
    assert dataset.queries == {"q1": "why?", "q2": "Dogs"}
    assert dataset.qrels == {"q1": {"d1": 2, "d2": -1}, "q2": {"d3": 4}}


def test_of_robust04_the_description_is_asked(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ir_source, "is_here", lambda entry: True)
    queries = [TopicQuery("301", "crime", "Which groups\ntake part,\n and where?")]
    given("disks45/nocr/trec-robust-2004", DOCS, queries, [Qrel("301", "d1", 1)])

    dataset = load("Robust")

    assert dataset.queries == {"301": "Which groups take part, and where?"}
    assert (dataset.name, dataset.paper, dataset.split) == ("robust04", "robust04", "test")
    assert dataset.description == (
        "robust04: Robust04, disks45/nocr/trec-robust-2004 of ir_datasets; "
        "3 documents, 1 queries, 1 judgements in split test"
    )


@pytest.mark.parametrize(
    ("identifier", "options", "found", "split"),
    [
        ("fish/dev/small", {}, "fish/dev/small", "dev/small"),
        ("fish", {}, "fish/test", "test"),
        ("fish", {"split": "dev"}, "fish/dev", "dev"),
        ("fish/test", {"split": "dev"}, "fish/dev", "dev"),
    ],
)
def test_splits_of_an_id(
    given: Given, identifier: str, options: dict[str, str], found: str, split: str
) -> None:
    given("fish", qrels=())
    for name in ("fish/test", "fish/dev", "fish/dev/small"):
        given(name)

    dataset = load(identifier, **options)  # type: ignore[arg-type]  # only the split is in it

    assert (dataset.name, dataset.split) == (found.replace("/", "-"), split)
    assert f"{found} of ir_datasets" in dataset.description


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"docs": ()}, "'pets' has no documents or no queries"),
        ({"qrels": [PairQrel("q1", "d1", 3)]}, "the judgements of 'pets' have no grades"),
        ({"qrels": [Qrel("q 1", "d1", 3)]}, "pets: query id 'q 1' is empty or holds white space"),
        ({"qrels": [Qrel("q8", "d1", 1)]}, "none of its queries has a judgement"),
        ({"queries": [LinkedQuery("q1", "d8", "")]}, "query 'q1' is the document 'd8', which"),
    ],
)
def test_what_cannot_be_used(given: Given, parts: dict[str, Any], complaint: str) -> None:
    given("pets", **parts)

    with pytest.raises(DatasetError, match=complaint):
        load("pets")
