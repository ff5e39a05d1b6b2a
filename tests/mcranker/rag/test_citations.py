"""Quotes against passages: found, misattributed, stitched or invented."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.rag.citations import (
    Claim,
    check_citations,
    marked_claims,
    sentence_spans,
    sentences_of,
)
from mcranker.rag.result import Citation, SourcePassage

FIRST = "BERT has two objectives. It masks 15% of the tokens, and predicts the next sentence."
SECOND = "RoBERTa drops next sentence prediction (NSP); it trains on 160 GB of text."
_WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "3.5", "42"])


def context(*texts: str) -> list[SourcePassage]:
    return [
        SourcePassage(id=f"d#{number}", document="d", text=text, number=number)
        for number, text in enumerate(texts, 1)
    ]


def check(quote: str, *texts: str, passage: int = 1) -> Citation:
    (citation,) = check_citations([Claim("a claim", passage, quote)], context(*texts))
    return citation


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        ("masks 15% of", FIRST, "masks 15% of"),
        ("  It\n masks   15% ", FIRST, "It masks 15%"),
        ("BERT HAS TWO objectives!", FIRST, "BERT has two objectives"),
        ("“two objectives. it masks”", FIRST, "two objectives. It masks"),
        ("... has two objectives ...", FIRST, "has two objectives"),
        ('say "yes" to it', "They say 'yes' to it.", "say 'yes' to it"),
        ("the models\u2019 output is", "the models' output is", "the models' output is"),
        ("pages 10-20 of it", "pages 10\u201320 of it", "pages 10\u201320 of it"),
        (
            "a well-known state",
            "a well known state, a well\u2010known state",
            "a well\u2010known state",
        ),
        ("more information here", "more infor-\nmation here", "more infor-\nmation here"),
        ("more information here", "more infor\xadmation here", "more infor\xadmation here"),
        ("more information here", "more infor\ufffe\nmation here", "more infor\ufffe\nmation here"),
        ("long dash -- like this", "a long dash—like this", "long dash—like this"),
        ("an efficient café table", "an eﬃcient cafe\u0301 table", "an eﬃcient cafe\u0301 table"),
        ("and so on... it goes", "and so on… it goes", "and so on… it goes"),
        ("deux\u202fmots\xa0à lire", "deux mots à lire", "deux mots à lire"),
        ("次文予測", "BERTは次文予測を使う。", "次文予測"),
        ("straße in berlin", "Eine STRASSE in Berlin", "STRASSE in Berlin"),
        ("Two words", "two words.", "two words"),
        ("- one of two", "first\n- one of two", "one of two"),
        ("-5 degrees of frost", "it was \u22125 degrees of frost", "\u22125 degrees of frost"),
        ("facts are known well", "well-known facts are known well", "facts are known well"),
    ],
)
def test_found_however_it_is_set(quote: str, text: str, found: str) -> None:
    citation = check(quote, text)
    assert (citation.verdict, citation.elsewhere) == ("found", 0)
    assert text[citation.start : citation.end] == found


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("masks 20% of the tokens", FIRST),
        ("the art is long", "the heart is long"),
        ("able to do it", "notable to do it"),
        ("5 percent of all", "about 3.5 percent of all"),
        ("costs just 3", "it costs just 3.5 dollars"),
        ("5 degrees of frost", "it was -5 degrees of frost"),
        ("1025 items sold", "10-25 items sold"),
        ("with a cafe", "with a café"),
        ("10 to the 2", "10 to the ²"),
        ("", "Nothing of the kind."),
    ],
)
def test_words_and_numbers_are_never_tolerated(quote: str, text: str) -> None:
    citation = check(quote, text)
    assert (citation.verdict, citation.start, citation.end) == ("invented", None, None)


def test_another_passage_has_it() -> None:
    citation = check("drops next sentence prediction", FIRST, SECOND)
    assert (citation.verdict, citation.passage, citation.elsewhere) == ("misattributed", 1, 2)
    assert SECOND[citation.start : citation.end] == "drops next sentence prediction"
    for unknown in (0, 7, -1):
        citation = check("drops next sentence prediction", FIRST, SECOND, passage=unknown)
        assert (citation.verdict, citation.elsewhere) == ("misattributed", 2)


@pytest.mark.parametrize(
    "quote",
    [
        "BERT has two objectives ... predicts the next sentence",
        "BERT has two objectives […] of the tokens",
        "predicts the next sentence (...) BERT has two",
        "BERT has two predicts the next sentence",
        "It masks 15% two objectives. It BERT has two",
    ],
)
def test_fragments_that_never_touch_are_stitched(quote: str) -> None:
    assert check(quote, FIRST, SECOND).verdict == "stitched"
    assert check(quote, SECOND, FIRST).verdict == "invented"


def test_a_short_quote_is_no_source_unless_the_passage_is_as_short() -> None:
    citation = check("two objectives", FIRST)
    assert citation.verdict == "invented"
    assert "fewer than 3 words" in citation.note
    assert check("42.", "42").verdict == "found"


def test_passages_outside_of_the_context_are_no_sources() -> None:
    (inside,) = context(FIRST)
    outside = inside.model_copy(update={"number": 0, "text": SECOND})
    (citation,) = check_citations([Claim("c", 1, "it trains on 160 GB")], [outside, inside])
    assert citation.verdict == "invented"


@given(st.lists(_WORDS, min_size=3, max_size=12), st.lists(_WORDS, max_size=9), st.data())
def test_any_words_of_a_passage_are_found_where_they_are(
    mine: list[str], other: list[str], data: st.DataObject
) -> None:
    texts = ["\n ".join(mine), " ".join(other)]
    first = data.draw(st.integers(0, len(mine) - 3))
    last = data.draw(st.integers(first + 3, len(mine)))
    quote = " ".join(mine[first:last])
    citation = check(quote, *texts)
    assert citation.verdict == "found"
    assert texts[0][citation.start : citation.end].split() == mine[first:last]
    swapped = check(quote, *texts[::-1])
    there = f" {quote} " in f" {texts[1]} "
    assert (swapped.verdict, swapped.elsewhere) == (("found", 0) if there else ("misattributed", 2))


@given(st.text(), st.text(), st.text())
def test_any_texts_have_a_verdict(claim: str, quote: str, text: str) -> None:
    for citation in check_citations([Claim(claim, 1, quote)], context(text)):
        if citation.verdict == "found":
            assert citation.start is not None
            assert citation.end is not None
            assert 0 <= citation.start < citation.end <= len(text)


@pytest.mark.parametrize(
    "piece", ["a", "a a ", "\n", "- ", ".", "!) ", "[1", "\u0301", "\xad", "。", "''", "1."]
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    begun = time.process_time()
    check_citations(
        [Claim(text, 1, text[:2000] + "b" + text[:2000]), Claim(text, 1)], context(text)
    )
    assert time.process_time() - begun < 4


def test_a_claim_without_a_quote_is_held_to_the_sentence_with_its_words() -> None:
    claims = marked_claims(["RoBERTa trains on 160 GB of text [2].", "BERT masks tokens. [1][2]"])
    assert [claim.passage for claim in claims] == [2, 1, 2]
    found, here, elsewhere = check_citations(claims, context(FIRST, SECOND))
    assert (found.verdict, found.quote) == ("found", SECOND)
    assert (here.verdict, here.quote) == ("found", FIRST[25:])
    assert (elsewhere.verdict, elsewhere.elsewhere) == ("misattributed", 1)
    assert all("no quote given" in each.note for each in (found, here, elsewhere))
    (invented,) = check_citations([Claim("Penguins cannot fly at all [1].", 1)], context(FIRST))
    assert (invented.verdict, invented.quote) == ("invented", "")


def test_marks_are_what_is_in_brackets() -> None:
    sentence = "As [1, 3] and [Document 2] have it【4】, unlike [x], (5) and [12345]."
    assert [claim.passage for claim in marked_claims([sentence])] == [1, 3, 2, 4]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It says so. [2] Then [3].", ["It says so. [2]", "Then [3]."]),
        (
            "See Fig. 3 by J. Doe et al. (2020). Next",
            ["See Fig. 3 by J. Doe et al. (2020).", "Next"],
        ),
        ("It is 3.5, e.g. here. No more", ["It is 3.5, e.g. here.", "No more"]),
        ("Two:\n- one\n- two\n\nEnd", ["Two:", "- one", "- two", "End"]),
        ("1. First. 2. Second.", ["1. First.", "2. Second."]),
        ("a line\nthat goes on", ["a line\nthat goes on"]),
        ("彼は言った。「はい。」次。", ["彼は言った。", "「はい。」", "次。"]),
        ('He said "no." She left.', ['He said "no."', "She left."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


@given(st.text("ab. ![]12\n-?。"))
def test_sentences_are_all_of_a_text_in_order(text: str) -> None:
    spans = list(sentence_spans(text))
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
    assert spans == sorted(spans)
