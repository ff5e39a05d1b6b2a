"""An index and a model whose every answer is known, for tests of the pipeline.

    python -m tests.mcranker.rag.fakes LEDGER CALLS STAGE

Answers with that ledger, notes each call of a model in the file CALLS, and kills itself when STAGE
has ended; with the stage "none" it prints the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mcranker import ChatRequest, ScriptedChat
from mcranker.rag.config import PipelineConfig
from mcranker.rag.passages import Hits, Source
from mcranker.rag.result import SourcePassage
from personas.ranking.usage import UsageTable

QUESTION = "Which masks filter best?"
TEXTS = {
    "a#1": "Cloth masks filter few droplets.",
    "a#2": "Masks are worn over the nose.",
    "b#1": "Surgical masks filter most droplets.",
    "c#1": "Respirators filter nearly everything.",
}
ALL = PipelineConfig.model_validate(
    {
        "query": {"transform": "hyde"},
        "retrieval": {"documents": 4, "unique": "document"},
        "rerank": {"ranker": "direct", "keep": 2, "min_relevance": 0},
        "answer": {"style": "naive"},
    }
)
"""Every stage asks a model: 1 hypothetical answer, a score a passage, 1 answer."""


class FakeIndex:
    """Finds by words in the order a1 a2 b1 c1, and by meaning in the order c1 b1 a2 a1."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self.fails = fails

    async def search(
        self, queries: Sequence[str], k: int, by: Source, usage: UsageTable | None = None
    ) -> list[Hits]:
        if by == "dense" and self.fails is not None:
            raise self.fails
        names = list(TEXTS) if by == "bm25" else list(TEXTS)[::-1]
        return [[(name, 1 - place / 10) for place, name in enumerate(names)][:k] for _ in queries]

    def chunk(self, name: str, /) -> SourcePassage:
        text = TEXTS[name]
        return SourcePassage(id=name, document=name[0], text=text, start=5, end=5 + len(text))

    def vectors(self, ids: Sequence[str], /) -> NDArray[np.float32]:
        known = {"a#1": (1, 0), "a#2": (0.6, 0.8), "b#1": (0.6, 0.8), "c#1": (0, 1)}
        return np.array([known[name] for name in ids], dtype=np.float32)


def scripted(
    note: Callable[[str], object] = lambda stage: None, *, fails: dict[str, Exception] | None = None
) -> ScriptedChat:
    """A model that answers each stage, or fails in some; `note` takes the stage of each call."""

    def answer(request: ChatRequest) -> str:
        stage = request.tag.stage
        note(stage)
        if fails and stage in fails:
            raise fails[stage]
        if stage == "score":
            return json.dumps({"Score": {"a": 2, "b": 6, "c": 9}[request.tag.doc_id[0]]})
        return {"transform": "Respirators are best."}.get(stage, "Respirators [1].")

    return ScriptedChat(answer, name="scripted:masks")
