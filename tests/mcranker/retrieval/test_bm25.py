"""BM25, against sums by hand."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from beir_eval import BM25, load, tokenize
from mcranker.errors import ConfigError
from mcranker.retrieval import bm25

PETS = {"d1": "The cat sat", "d2": "cat, cat and dog", "d3": "A bird"}


def test_scores_by_hand() -> None:
    # Terms: d1 = cat sat (2), d2 = cat cat dog (3), d3 = bird (1); mean length 2; N = 3.
    # idf(cat) = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6  = 0.470004
    # idf(dog) = ln(1 + (3 - 1 + 0.5) / (1 + 0.5)) = ln 2.67 = 0.980829
    # d1: k1 * (1 - b + b * 2/2) = 0.9 * 1.0 = 0.9;  cat 1 / (1 + 0.9)  = 0.526316
    # d2: k1 * (1 - b + b * 3/2) = 0.9 * 1.2 = 1.08; cat 2 / (2 + 1.08) = 0.649351
    #                                                dog 1 / (1 + 1.08) = 0.480769
    d1 = math.log(1.6) * 0.526316
    d2 = math.log(1.6) * 0.649351 + math.log(1 + 2.5 / 1.5) * 0.480769
    found = BM25(PETS).search("Cats and dogs")
    assert [doc_id for doc_id, _ in found] == ["d2", "d1"]
    assert [score for _, score in found] == pytest.approx([d2, d1], rel=1e-5)
    assert [score for _, score in found] == pytest.approx([0.776750, 0.247370], rel=1e-5)


def test_scores_are_those_of_bm25s() -> None:
    # A term's weights are added up here, not by bm25s; in the same order, so to the last digit.
    import bm25s

    dataset = load("mini")
    texts = {each.id: f"{each.title} {each.text}" for each in dataset.corpus.values()}
    theirs = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend="numpy")
    theirs.index([tokenize(text) for text in texts.values()], show_progress=False)
    index = BM25(texts)
    for query in dataset.queries.values():
        expected = dict(zip(texts, theirs.get_scores(tokenize(query)), strict=True))
        found = index.search(query, depth=len(texts))
        assert len(found) == sum(score > 0 for score in expected.values())
        assert found == [(doc_id, float(expected[doc_id])) for doc_id, _ in found]


def test_ties_keep_the_order_of_the_corpus_also_at_the_cut() -> None:
    texts = {f"d{number}": "fish" for number in (5, 3, 9, 1, 7)} | {"best": "fish fish"}
    index = BM25(texts, b=0)
    assert [doc_id for doc_id, _ in index.search("fish")] == ["best", "d5", "d3", "d9", "d1", "d7"]
    assert [doc_id for doc_id, _ in index.search("fish", 3)] == ["best", "d5", "d3"]


@pytest.mark.parametrize("texts", [{}, {"d1": ""}, {"d1": "the", "d2": "..."}])
def test_a_corpus_without_terms_is_an_index_that_finds_nothing(texts: dict[str, str]) -> None:
    index = BM25(texts)
    assert len(index) == len(texts)
    assert index.search("cat") == []


def test_settings_out_of_range() -> None:
    with pytest.raises(ConfigError, match=r"k1=-1"):
        BM25(PETS, k1=-1)
    with pytest.raises(ConfigError, match=r"b=1\.5"):
        BM25(PETS, b=1.5)
    with pytest.raises(ConfigError, match=r"depth=0"):
        BM25(PETS).search("cat", 0)


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ConfigError, match=r"'bm25s'.*pip install 'mcranker\[eval\]'"):
        BM25(PETS)


# --- kept runs


def test_ids_titles_texts_and_their_order_make_the_digest() -> None:
    cat, dog = ("d1", "Cat", "It sleeps."), ("d2", "", "caf\u00e9")
    corpora = [
        [cat, dog],
        [dog, cat],
        [cat],
        [],
        [("d1", "", "Cat It sleeps."), dog],
        [("d1", "Ca", "tIt sleeps."), dog],
        [("d", "1Cat", "It sleeps."), dog],
    ]
    assert len({bm25.digest_of(corpus) for corpus in corpora}) == len(corpora)
    assert bm25.digest_of(iter([cat, dog])) == bm25.digest_of([cat, dog])


def test_a_run_comes_back_to_the_last_digit_or_not_at_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = {"q2": [("d1", 0.1 + 0.2), ("d2", 1e-300)], "q1": [], "q 3": [("d\u00e9", -2.0)]}
    bm25.keep_run(tmp_path / "new", "k", run)
    kept = bm25.kept_run(tmp_path / "new", "k")
    assert kept == run
    assert kept is not None
    assert list(kept) == ["q2", "q1", "q 3"]
    assert bm25.kept_run(tmp_path / "new", "other") is None
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(file.read_bytes().replace(b"d2", b"d3"))
    assert bm25.kept_run(tmp_path / "new", "k") is None
    assert "is damaged, and is made again" in caplog.text


def test_where_no_run_can_be_kept_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    bm25.keep_run(tmp_path / "file", "k", {})
    assert "set MCRANKER_CACHE" in caplog.text
