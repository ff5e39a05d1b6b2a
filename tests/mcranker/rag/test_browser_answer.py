"""The page of an answer in a browser: links, widths, nothing asked and nothing run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcranker.rag.result import RAGResult, Sentence, SentQuery, StageRecord
from tests.mcranker.rag.test_result import answered
from tests.personas.report.test_browser_safety import PAYLOADS, STRANGE
from tests.support.browser_support import Visit, browser, visit

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser


def infested(text: str) -> RAGResult:
    """An answer that has the text wherever a question, a passage or a model may write."""
    fields = ("id", "document", "title", "text", "dropped")
    result = answered()
    return answered(
        question=text,
        id=text,
        text=text,
        failure=text,
        sentences=(Sentence(text=text, citations=(0, 1, 2, 3)), Sentence(text=text)),
        all_citations=tuple(
            each.model_copy(update={"claim": text, "quote": text}) for each in result.all_citations
        ),
        queries=(SentQuery(text=text, origin="variant"),),
        passages=tuple(
            each.model_copy(update={name: text * bool(getattr(each, name)) for name in fields})
            for each in result.passages
        ),
        stages=(StageRecord(name="answer", notes=(text,), failure=text),),
        models={text: text},
        config={text: {text: text}},
        warnings=(text,),
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_a_citation_leads_to_its_quote_and_a_passage_to_its_row(
    width: int, tmp_path: Path, visit: Visit
) -> None:
    answered().to_html(tmp_path / "why.html")
    page = visit(tmp_path / "why.html", width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click(".answer .cite >> nth=0")
    assert page.locator("mark:target").inner_text() == "respirators filter"
    page.click(".answer .doubt >> nth=0")
    assert "not in passage 1, but in passage 2" in page.locator(".doubts :target").inner_text()
    page.click("#source-1 a[href='#passage-1']")
    assert page.locator("#passage-1 .detail").is_visible()


def test_text_in_the_page_does_nothing(tmp_path: Path, visit: Visit) -> None:
    paths = [tmp_path / f"{place}.html" for place in range(len(PAYLOADS))]
    for path, payload in zip(paths, PAYLOADS, strict=True):
        infested(payload).to_html(path)
    page = visit(paths[0])
    for path, payload in zip(paths, PAYLOADS, strict=True):
        page.goto(path.as_uri())
        assert page.evaluate(STRANGE) == []
        assert page.locator("h1").inner_text().strip() == " ".join(payload.split())
    assert visit.requests == [path.as_uri() for path in (paths[0], *paths)]
