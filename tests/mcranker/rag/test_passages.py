"""Search, fusion, diversity, uniqueness and the context, with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcranker import ConfigError, ConnectionFailed, UsageTable
from mcranker.rag.config import ContextStage, RetrievalStage
from mcranker.rag.passages import Selection, check_index, context_of, diversified, search, united
from mcranker.rag.result import SentQuery, SourcePassage
from tests.mcranker.rag.fakes import TEXTS, FakeIndex

pytestmark = pytest.mark.anyio
ONE = (SentQuery(text="masks", origin="question"),)
TWO = (*ONE, SentQuery(text="respirators", origin="variant"))


async def found(index: Any, queries: tuple[SentQuery, ...] = ONE, **options: Any) -> Selection:
    return await search(queries, RetrievalStage(**options), index, usage=UsageTable())


def ids(retrieved: Selection) -> list[str]:
    return [each.id for each in retrieved.passages]


def test_novel_passages_are_preferred() -> None:
    vectors = np.array([(1, 0), (1, 0), (0, 1)])
    # First 0. Then of share 0.5: 1 has 0.5·0.9 - 0.5·1 = -0.05, and 2 has 0.5·0.4 - 0.5·0 = 0.2.
    assert diversified([1.0, 0.9, 0.4], vectors, 0.5, 3) == [0, 2, 1]
    assert diversified([1.0, 0.9, 0.4], vectors, 1.0, 2) == [0, 1]


def test_queries_are_united_in_their_order_and_documents_once() -> None:
    lists = [[("a#2", 0.5), ("b#1", 0.4)], [("a#1", 0.9), ("b#1", 0.8), ("c#1", 0.7)]]
    chunk = FakeIndex().chunk
    chunks, documents = united(lists, chunk, "chunk"), united(lists, chunk, "document")
    assert [(each.id, each.score, each.found_by) for each in chunks] == [
        ("a#2", 0.5, (0,)),
        ("b#1", 0.4, (0, 1)),
        ("a#1", 0.9, (1,)),
        ("c#1", 0.7, (1,)),
    ]
    assert [each.id for each in documents] == ["a#2", "b#1", "c#1"]


async def test_each_query_brings_its_share() -> None:
    assert ids(await found(FakeIndex(), by="bm25", documents=3)) == ["a#1", "a#2", "b#1"]
    # Two queries: int(3 / 2) = 1 each, and both find the same one.
    retrieved = await found(FakeIndex(), TWO, by="bm25", documents=3)
    assert [(each.id, each.found_by) for each in retrieved.passages] == [("a#1", (0, 1))]
    assert len((await found(FakeIndex(), TWO, by="bm25", documents=1)).passages) == 1


async def test_both_searches_are_fused() -> None:
    # Ranks by words and by meaning: a1 1 and 4, a2 2 and 3, b1 3 and 2, c1 4 and 1.
    # 1/61 + 1/64 = 0.0320184 is more than 1/62 + 1/63 = 0.0320020.
    retrieved = await found(FakeIndex(), documents=4)
    assert ids(retrieved) == ["a#1", "c#1", "a#2", "b#1"]
    assert retrieved.passages[0].score == pytest.approx(1 / 61 + 1 / 64)
    assert retrieved.passages[0].start == 5


async def test_without_one_search_the_other_counts() -> None:
    broken = FakeIndex(fails=ConnectionFailed("no server"))
    retrieved = await found(broken, documents=2)
    assert ids(retrieved) == ["a#1", "a#2"]
    assert "no server" in retrieved.failure
    with pytest.raises(ConnectionFailed):
        await found(broken, by="dense")


class OwnRetriever:
    """Of a user: knows ids and texts."""

    def retrieve(self, queries: dict[str, str], k: int) -> dict[str, list[tuple[str, float]]]:
        return {name: [(each, 1.0) for each in TEXTS] for name in queries}

    def chunk(self, name: str, /) -> Any:
        return FakeIndex().chunk(name)


async def test_a_retriever_of_the_users_own_is_searched() -> None:
    retrieved = await found(OwnRetriever(), documents=2)
    assert ids(retrieved) == ["a#1", "a#2"]
    assert retrieved.notes == ("OwnRetriever searched in its own way.",)


@pytest.mark.parametrize(
    ("index", "options", "said"),
    [(object(), {}, "has no retrieve"), (OwnRetriever(), {"mmr": 0.5}, "a retriever without any")],
)
def test_what_cannot_be_searched_is_refused(
    index: object, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_index(index, RetrievalStage(**options))


def passage(name: str, text: str) -> SourcePassage:
    return SourcePassage(id=name, document=name, text=text, start=100, end=100 + len(text))


def test_whole_passages_until_the_next_would_pass_the_limit() -> None:
    texts = {"a": "one two three", "b": "four five", "e": " \n", "c": "six seven", "d": "eight"}
    context = context_of([passage(*each) for each in texts.items()], ContextStage(limit=5))
    # 3 + 2 = 5 words fit; 5 + 2 = 7 would pass; d comes after the end.
    assert [(each.id, each.number) for each in context.kept] == [("a", 1), ("b", 2)]
    assert {each.id: each.dropped for each in context.passages if not each.number} == {
        "e": "context: it is empty",
        "c": "context: with its 2 words the context would have 7, and 5 is the limit",
        "d": "context: the limit of 5 words was reached before it",
    }
    assert not context.notes


def test_a_first_passage_that_is_too_long_is_cut_behind_a_word() -> None:
    long = passage("a", " one  two\nthree four")
    context = context_of([long, passage("b", "five")], ContextStage(limit=3))
    (cut,) = context.kept
    assert (cut.text, cut.start, cut.end) == (" one  two\nthree", 100, 115)
    assert context.notes == ("Passage 1 has 4 words; it is cut to the limit of 3.",)
    assert [each.id for each in context.passages if not each.number] == ["b"]
