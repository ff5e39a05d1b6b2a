"""The first scripts of people who come from elsewhere, as they write them."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, InputError, MCRanker, ScriptedChat
from mcranker.inputs.passages import as_passages
from tests.support.cli_support import scripted
from tests.support.scripted import RECRUITS, RUBRIC

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
QUERY = "best masks against covid"
TEXTS = ("Cloth masks let most through.", "N95 masks filter 95%.", "Gloves keep hands clean.")
SCORES = {"Cloth": 4, "N95": 9, "Gloves": 1, "Lamp": 3}


class LangChainDocument:
    """As ``langchain_core.documents.Document``."""

    def __init__(
        self,
        page_content: str,
        *,
        metadata: dict[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 - as it is called there
    ) -> None:
        self.page_content, self.metadata, self.id = page_content, metadata or {}, id
        self.type = "Document"


@dataclass
class TextNode:
    """As ``llama_index.core.schema.TextNode``."""

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id_: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def node_id(self) -> str:
        return self.id_

    def get_content(self) -> str:
        return self.text


@dataclass
class NodeWithScore:
    """As ``llama_index.core.schema.NodeWithScore``."""

    node: TextNode
    score: float | None = None

    @property
    def text(self) -> str:
        raise ValueError("of text nodes only")

    def get_content(self) -> str:
        return self.node.get_content()


def answer(request: ChatRequest) -> str:
    prompt = request.messages[-1].content
    if request.tag.stage == "recruit":
        return RECRUITS
    if request.tag.stage == "criteria":
        return RUBRIC
    return json.dumps({"Score": next(SCORES[word] for word in SCORES if word in prompt)})


def test_the_pages_script_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(monkeypatch, tmp_path).answer = answer
    (script,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        if "MCRanker(" in block
    )
    exec(script, found := dict[str, Any]())
    assert capsys.readouterr().out == (
        "1 0.90 https://example.org/n95 N95 masks protect best against COVID-19.\n"
        "2 0.40 https://example.org/cloth Cloth masks let most through.\n"
    )
    assert found["best"] == found["docs"]


@pytest.mark.parametrize(
    "docs",
    [
        [LangChainDocument(text) for text in TEXTS],
        [NodeWithScore(TextNode(text, {"page": 7})) for text in TEXTS],
    ],
    ids=["LangChain", "LlamaIndex"],
)
def test_documents_of_other_libraries_are_found_by_their_index(docs: list[Any]) -> None:
    with MCRanker(model=ScriptedChat(answer), ledger=None) as made:
        ranking = made.rank(QUERY, docs, top_n=5)
    assert [(docs[hit.index], hit.relevance) for hit in ranking] == [
        (docs[1], 0.9),
        (docs[0], 0.4),
        (docs[2], 0.1),
    ]


def test_structured_documents_are_readable_fields() -> None:
    seen: list[str] = []

    def noting(request: ChatRequest) -> str:
        seen.append(request.messages[-1].content)
        return answer(request)

    lamp = {
        "name": "Lamp",
        "price": 20,
        "in_stock": True,
        "note": None,
        "sizes": ["S", "M"],
        "maker": {"name": "Lux", "towns": [{"name": "Ulm", "since": 1990}, {"name": "Jena"}]},
        "about": "Bright.\nWarm.",
        "empty": {},
        "label": 1,
    }
    docs = [{"id": "lamp", "text": lamp}]
    with MCRanker(model=ScriptedChat(noting), ledger=None, team_size=1) as made:
        ranking = made.rank(QUERY, docs)
    assert ranking.ids == ["lamp"]
    fields = """\
name: Lamp
price: 20
in_stock: true
sizes:
  - S
  - M
maker:
  name: Lux
  towns:
    - name: Ulm
      since: 1990
    - name: Jena
about:
  Bright.
  Warm."""
    assert ranking[0].passage.text == fields
    assert fields in seen[-1]
    nested = as_passages([{"text": {"question": "Which?", "answer": "N95"}, "page": 3}])[0]
    assert (nested.text, nested.metadata) == ("question: Which?\nanswer: N95", {"page": 3})


@pytest.mark.parametrize(
    ("docs", "said"),
    [
        ([LangChainDocument(7)], "docs[0] has a text that is a int; give a string"),  # type: ignore[arg-type]  # wrong on purpose
        (["a", object()], "docs[1] is a object; give a string, a record, a Passage, or a document"),
        ([(LangChainDocument("a"), 0.5)], "docs[0] is a tuple; give a string, a record"),
        (
            [NodeWithScore(TextNode("a"), score=float("nan"))],
            "docs[0] has the score nan; give a finite number",
        ),
        ([{"text": {"a": None}}], "docs[0] has no text; its keys are 'text' (dict)"),
        (
            [TextNode("a", id_="n"), TextNode("b", id_="n")],
            "two passages have the id 'n'; make ids unique",
        ),
    ],
)
def test_what_cannot_be_a_document_is_named(docs: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        as_passages(docs)
    assert said in str(caught.value)
