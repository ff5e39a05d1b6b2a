"""Replies, markers and quotes of 100 kB that mean harm take a moment of the processor."""

import contextlib
import time
from collections.abc import Callable

import pytest

from mcranker.method.reasons import quoted
from mcranker.rag.citations import Claim, check_citations, marked_claims, sentences_of
from mcranker.rag.result import SourcePassage
from mcranker.replies import loose_json, orders, read
from personas.untrusted import fence

READERS: dict[str, Callable[[str], object]] = {
    "score": lambda text: read.read_score(text, key="Score", top=10),
    "scores": lambda text: read.read_criterion_scores(text, count=3, top=10),
    "team": read.read_personas,
    "rubric": read.read_rubric,
    "order": lambda text: orders.read_order(text, 20),
    "choice": lambda text: orders.read_choice(text, ["A", "B"]),
    "fence": lambda text: fence(text, query=text),
    "quote": lambda text: quoted(text[:2_000], text),
    "marks": lambda text: marked_claims(sentences_of(text)),
    "citation": lambda text: check_citations(
        [Claim(text[:2_000], 1, text)], [SourcePassage(id="p", document="d", text=text, number=1)]
    ),
}
PIECES = (
    *(" ", "\n", "a", "1", '"', "[", "{", "<", "*", "[1] > ", '{"Score": ', "<think>", "\\", "é."),
    *("score is ", "1. ", "<|im_", "Weight: 30% ", "// /* ", "[1, ", "... ", "(weight ", "1>2"),
)


@pytest.mark.parametrize("reader", READERS)
def test_hostile_texts_take_a_moment(reader: str) -> None:
    for piece in PIECES:
        start = time.process_time()
        with contextlib.suppress(loose_json.Unreadable):
            READERS[reader]((piece * 100_000)[:100_000])
        assert time.process_time() - start < 3, piece
