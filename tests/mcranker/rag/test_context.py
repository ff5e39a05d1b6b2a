"""Passages that fit into a context."""

from __future__ import annotations

from mcranker.rag.config import ContextStage
from mcranker.rag.context import Context, context_of
from mcranker.rag.record import SourcePassage


def passage(name: str, text: str) -> SourcePassage:
    return SourcePassage(id=name, document=name, text=text, start=100, end=100 + len(text))


def test_whole_passages_until_the_next_would_pass_the_limit() -> None:
    texts = {"a": "one two three", "b": "four five", "e": " \n", "c": "six seven", "d": "eight"}
    context = context_of([passage(*each) for each in texts.items()], ContextStage(limit=6))
    # 3 + 2 = 5 of 6 words; 5 + 2 = 7 would pass; d would fit, and comes after the end.
    assert [(each.id, each.number) for each in context.passages] == [("a", 1), ("b", 2)]
    assert {each.id: each.dropped for each in context.dropped} == {
        "e": "context: it is empty",
        "c": "context: with its 2 words the context would have 7, and 6 is the limit",
        "d": "context: the limit of 6 words was reached before it",
    }
    assert not context.note
    assert all(each.number == 0 for each in context.dropped)


def test_a_first_passage_that_is_too_long_is_cut_behind_a_word() -> None:
    long = passage("a", " one  two\nthree four")
    context = context_of([long, passage("b", "five")], ContextStage(limit=3))
    (cut,) = context.passages
    assert (cut.text, cut.start, cut.end) == (" one  two\nthree", 100, 115)
    assert context.note == "Passage 1 has 4 words; it is cut to the limit of 3."
    assert [each.id for each in context.dropped] == ["b"]


def test_tokens_are_four_bytes_each_or_as_the_model_counts_them() -> None:
    four = [passage(name, "äö" * 4) for name in "ab"]  # 8 letters, 16 bytes, 4 tokens each
    tokens = ContextStage(limit=8, unit="tokens")
    assert len(context_of(four, tokens).passages) == 2
    assert len(context_of(four, tokens, len).passages) == 1
    # "one two" has 7 bytes, 2 tokens; with " three" it would be 13 bytes, 4 tokens.
    (cut,) = context_of(
        [passage("a", "one two three")], ContextStage(limit=3, unit="tokens")
    ).passages
    assert cut.text == "one two"
    # A word that alone has too many is cut inside: 2 tokens are 8 bytes.
    (cut,) = context_of([passage("a", "x" * 99)], ContextStage(limit=2, unit="tokens")).passages
    assert cut.text == "x" * 8


def test_nothing_gives_an_empty_context() -> None:
    assert context_of([], ContextStage()) == Context()
