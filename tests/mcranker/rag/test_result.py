"""Records of answers: saved, read again, refused; the page and the terminal that show them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mcranker import DirectRanker, InputError, ScriptedChat
from mcranker.rag.result import Citation, RAGResult, Sentence, SentQuery, SourcePassage, StageRecord

CLOTH = "Cloth masks filter few particles, and gaps let more through."
N95 = "N95 respirators filter 95 percent of fine particles."
YELLOW = "Bananas are yellow."
SCORES = {CLOTH: 4, N95: 9, YELLOW: 0}


def answered(**changes: Any) -> RAGResult:
    """Two passages in the context, one dropped by the ranking, a citation of each verdict."""

    def score(request: Any) -> str:
        text = request.messages[-1].content
        return json.dumps({"Score": next(n for each, n in SCORES.items() if each in text)})

    docs = {"c": CLOTH, "n": N95, "y": YELLOW}
    with DirectRanker(model=ScriptedChat(score), min_relevance=0.3, ledger=None) as ranker:
        ranking = ranker.rank("which masks?", docs)
    passages = tuple(
        SourcePassage(
            id=hit.doc_id,
            document="masks",
            title=f"About {hit.doc_id}",
            text=hit.text,
            found_by=(0,),
            rank=0 if hit.why_left_out else hit.rank,
            number=0 if hit.why_left_out else hit.rank,  # n, then c
            relevance=hit.relevance,
            dropped=f"rerank: {hit.why_left_out}" if hit.why_left_out else "",
        )
        for hit in sorted(ranking.hits, key=lambda hit: hit.first_stage_rank)
    )
    fields: dict[str, Any] = {
        "question": "which masks?",
        "text": "N95 masks filter best. Cloth is good. Bananas help. Nothing else is known.",
        "kind": "answer",
        "sentences": (
            Sentence(text="N95 masks filter best.", citations=(0,)),
            Sentence(text="Cloth is good.", citations=(1, 2)),
            Sentence(text="Bananas help.", citations=(3,)),
            Sentence(text="Nothing else is known."),
        ),
        "all_citations": (
            Citation(claim="N95", passage=1, quote=N95[4:22], verdict="found", start=4, end=22),
            Citation(
                claim="Cloth", passage=1, quote="gaps", verdict="misattributed",
                start=CLOTH.index("gaps"), end=CLOTH.index("gaps") + 4, elsewhere=2,
            ),
            Citation(claim="Cloth", passage=2, quote="Cloth let", verdict="stitched"),
            Citation(
                claim="Bananas", passage=2, quote="", verdict="invented", note="no quote given"
            ),
        ),
        "queries": (SentQuery(text="which masks?", origin="question"),),
        "passages": passages,
        "stages": (
            StageRecord(name="rerank", seconds=1, calls=3, reused=1, input_tokens=30, cost=0.5),
            StageRecord(name="answer", seconds=2, calls=1, output_tokens=9, failure="too slow"),
        ),
        "config": {"preset": "team", "retrieval": {"by": "hybrid"}},
        "stored_ranking": ranking.to_dict(),
        "warnings": ("the writer is weak",),
    }  # fmt: skip
    return RAGResult(**{**fields, **changes})


def test_a_saved_answer_is_read_as_it_was(tmp_path: Path) -> None:
    result = answered(question="half a pair \ud83d")
    result.save(tmp_path / "a.json")
    again = RAGResult.load(tmp_path / "a.json")
    assert again == result
    assert again.question == "half a pair \ufffd"
    assert again.ranking is not None
    assert again.ranking.ids == ["n", "c"]
    assert again.ranking.hits[2].why_left_out == "relevance 0 is below min_relevance=0.3"
    assert [each.id for each in again.context] == ["n", "c"]
    assert [each.quote for each in again.citations] == ["respirators filter"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2, and this program reads version 1"),
        ({"question": None}, "question must be a text"),
        ({"strange": 1}, "no key 'strange'"),
        ({"stored_ranking": {"version": 1}}, "no ranking"),
        ({"sentences": [{"text": "x", "citations": [4]}]}, "a sentence cites 4, and they are 4"),
        ({"passages": [{"id": i, "document": "d", "text": "", "number": 1} for i in "ab"]}, "same"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    stored = answered().to_dict() | change
    (tmp_path / "a.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        RAGResult.load(tmp_path / "a.json")
    assert "a.json" in str(refused.value)
    assert "N95" not in str(refused.value)


def test_the_page_leads_from_each_sentence_to_its_quote_and_its_rank(tmp_path: Path) -> None:
    result = answered()
    page = result.to_html(tmp_path / "why.html")
    again = RAGResult.from_dict(result.to_dict()).to_html()
    assert (tmp_path / "why.html").read_text() == page == again
    links, ids = set(re.findall(r'href="#([^"]+)"', page)), re.findall(r'\bid="([^"]+)"', page)
    assert links <= set(ids)
    assert len(ids) == len(set(ids))
    assert {"quote-0", "doubt-1", "doubt-2", "doubt-3", "source-1", "passage-1"} <= links
    assert 'N95 <mark id="quote-0">respirators filter</mark> 95' in page
    assert 'and <mark id="quote-1">gaps</mark> let' in page
    assert "it is not in passage 1, but in passage 2" in page
    assert "no quote given" in page
    assert "3 of 4 citations could not be confirmed." in page
    assert "rerank: relevance 0 is below min_relevance=0.3" in page
    assert page.index("the writer is weak") < page.index("N95 masks filter best.")
    assert "$0.5" in page
    assert "retrieval.by" in page


def test_hostile_texts_are_escaped_and_bounded() -> None:
    evil = '</title><script>alert(1)</script><img src=x onerror="x">\u202e'
    long = evil + "w" * 100_000
    passage = SourcePassage(id=evil, document=evil, title=long, text=long * 3, number=1)
    left = tuple(
        SourcePassage(id=f"{n}{evil}", document="d", text=long, dropped=long) for n in range(300)
    )
    cited = Citation(claim=long, passage=1, quote=long, verdict="found", start=-5, end=10**9)
    result = RAGResult(
        question=long, id=long, text=long, kind="answer", failure=long, models={evil: long},
        sentences=tuple(Sentence(text=long, citations=(0,) * 500) for _ in range(300)),
        all_citations=(cited, cited.model_copy(update={"verdict": "invented"})),
        queries=(SentQuery(text=long, origin="variant"),) * 300,
        passages=(passage, *left), config={evil: {evil: long}}, warnings=(long,) * 300,
        stages=(StageRecord(name="answer", notes=(long,) * 30, failure=long),),
    )  # fmt: skip
    page = result.to_html()
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert len(page) < 3_000_000
    assert "w" * 25_000 not in page
    file = io.StringIO()
    result.show(file=file)
    assert "\u202e" not in file.getvalue()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_shows_the_answer_with_numbered_sources(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    file = io.StringIO()
    answered().show(file=file)
    lines = file.getvalue().splitlines()
    assert lines[0] == "! the writer is weak"
    assert lines[lines.index("N95 masks filter best. [1]") - 1] == ""
    assert "N95 masks filter best. [1]" in lines
    assert "[1] About n (n)" in lines
    assert "    “respirators filter”" in lines
    assert max(map(len, lines)) <= columns
    shown = " ".join(line.strip() for line in lines)
    assert "Cloth is good. [misattributed] [stitched]" in shown
    assert "Nothing else is known. [no source]" in shown
    took = "written by a model; 2 passages of 3 found; 4 calls, 1 answer from the ledger, 39 tokens"
    assert f"Answer: {took}, $0.50, 3.00 s" in shown
