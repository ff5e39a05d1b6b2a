"""Chunks: exact offsets, every word in one, windows and overlaps."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from mcranker.errors import ConfigError
from mcranker.retrieval import chunks as module
from mcranker.retrieval.chunks import Chunk, ChunkKind, chunks_of
from personas.ranking.types import Passage

TEXTS = st.lists(
    st.sampled_from(
        ["word", "Ein Satz.", "\n", "\n\n", " ", "naïve", "日本語", "e\u0301", "👩‍👧", "x" * 90]
    ),
    max_size=60,
).map(" ".join)


@pytest.fixture(scope="module")
def words_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer whose tokens are words and marks, and which cuts at 3 of them."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(3)
    path = tmp_path_factory.mktemp("words") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def divided(text: str, kind: str, **options: object) -> list[Chunk]:
    return list(chunks_of(Passage("d", text, "T"), kind, **options))  # type: ignore[arg-type]  # of the tests below


@pytest.mark.parametrize("kind", get_args(ChunkKind))
@given(text=TEXTS, piece=st.integers(30, 300), tokenized=st.booleans())
def test_offsets_are_exact_and_every_word_is_in_a_chunk(
    kind: str, text: str, piece: int, tokenized: bool, words_file: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("_PIECE", piece),
            ("WINDOW_TOKENS", 8),
            ("OVERLAP_TOKENS", 3),
            ("WORDS", 5),
        ):
            patch.setattr(module, name, value)
        tokenizer = words_file if tokenized else None
        found = divided(text, kind, tokenizer=tokenizer, max_tokens=6)
    covered = bytearray(len(text))
    for number, chunk in enumerate(found, 1):
        assert chunk == Chunk(
            f"d#{number}", "d", "T", text[chunk.start : chunk.end], chunk.start, chunk.end
        )
        assert chunk.text.strip()
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    assert all(covered[at] or letter.isspace() for at, letter in enumerate(text))
    starts = [chunk.start for chunk in found]
    assert starts == sorted(set(starts))
    if kind != "tokens":
        assert all(one.end <= two.start for one, two in pairwise(found))


def test_windows_of_2000_tokens_share_200(words_file: Path) -> None:
    text = " ".join(f"w{number}" for number in range(5_000))
    found = [chunk.text.split() for chunk in divided(text, "tokens", tokenizer=words_file)]
    # The first has 2,000; each of the others brings 1,800: 2,000 + 1,800 + 1,200 = 5,000.
    assert [len(words) for words in found] == [2_000, 2_000, 1_400]
    assert found[0][-200:] == found[1][:200]
    assert found[1][-200:] == found[2][:200]


@pytest.mark.parametrize(("text", "longest"), [("你好世界" * 500, 300), ("a9" * 9_000, 4_500)])
def test_what_has_no_spaces_is_divided_by_its_length(text: str, longest: int) -> None:
    assert max(len(each.text) for each in divided(text, "words")) == longest
    most = 2_000 if longest == 300 else 12_000  # a character, or up to six, a token
    assert max(len(each.text) for each in divided(text, "tokens")) <= most


def test_sentences_stay_whole_up_to_the_limit(words_file: Path) -> None:
    text = " ".join(f"Sentence number {number} ends here." for number in range(400))
    for options, limit in (({}, 512), ({"max_tokens": 60}, 60), ({"max_tokens": 9_999}, 512)):
        found = divided(text, "sentences", tokenizer=words_file, **options)
        counts = [len(re.findall(r"\w+|[^\w\s]+", each.text)) for each in found]
        assert max(counts) <= limit
        assert min(counts[:-1]) > limit - 12  # another sentence of 6 tokens did not fit
        assert all(each.text.endswith(".") for each in found)
    # Without a tokenizer a token is four characters.
    assert max(len(each.text) for each in divided(text, "sentences")) <= 4 * 512


def test_unknown_kinds_and_broken_tokenizers_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'pages' is unknown; give one of sentences, tokens"):
        divided("x", "pages")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json' cannot be read"):
        divided("x", "tokens", tokenizer=tmp_path / "tokenizer.json")
