"""Where adapters have their ranker from, and what documents are to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcranker import InputError
from mcranker.integrations.reranking import passages_of


def document(text: str | None = "Lamp", name: str | None = None, **metadata: Any) -> object:
    return SimpleNamespace(page_content=text, id=name, metadata=metadata)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["a", "b"], ["a", "b"]),
        ([None, None], ["0", "1"]),
        (["a", "a", "a"], ["a", "1", "2"]),
        ([None, "0"], ["0'", "0"]),
        (["1", "1"], ["1", "1'"]),
        (["", " ", None], ["0", "1", "2"]),
    ],
)
def test_documents_are_named_apart(given: list[str | None], named: list[str]) -> None:
    found = [passage.id for passage in passages_of([document(name=name) for name in given])]
    assert found == named


def test_a_title_is_taken_from_the_metadata_if_wanted() -> None:
    documents = [document(title="N95", page=1), document(title=None), document(title=3)]
    assert [each.title for each in passages_of(documents)] == ["", "", ""]
    assert [each.title for each in passages_of(documents, "title")] == ["N95", "", "3"]
    assert passages_of(documents, "title")[0].metadata == {"title": "N95", "page": 1}


def test_a_document_without_a_text_is_named_by_its_place() -> None:
    with pytest.raises(InputError, match=r"docs\[1\] has no text: its page_content is None"):
        passages_of([document(), document(None)])
