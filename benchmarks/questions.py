"""Calls, characters, tokens and cost of one query, by the way in which a team is asked.

    python benchmarks/questions.py    # tables, as Markdown

A model that answers by rote takes down the body of every request, as the back-end would send it.
Only scoring calls count: the team comes with its rubrics. A token is taken to be four bytes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

import beir_eval
from mcranker import Answer, Capabilities, ChatReply, ChatRequest, MCRanker, ScriptedChat, Usage
from mcranker.llm.prices import billed_as, cost
from mcranker.llm.providers.openai_decisions import decision_body
from mcranker.llm.providers.openai_protocol import chat_body
from mcranker.llm.providers.parameters import DECISIONS

TEAM = "health_questions"
DEPTHS = (20, 100)
BYTES_A_TOKEN = 4
PLAIN = Capabilities(json_schema=True)

Writer = Callable[[ChatRequest], dict[str, Any]]


@dataclass(frozen=True)
class Way:
    """A back-end and the options with which it is asked."""

    name: str
    model: str
    capabilities: Capabilities
    options: dict[str, Any]
    write: Writer


def _chat(request: ChatRequest) -> dict[str, Any]:
    return chat_body(request, "gpt-6-luna", capabilities=PLAIN)


def _decisions(request: ChatRequest) -> dict[str, Any]:
    return decision_body(request, "gpt-6-luna")


LUNA = "openai:gpt-6-luna"
BOTH = replace(DECISIONS, json_schema=True)
PERSONA: dict[str, Any] = {"questions": "per_persona"}
CRITERION: dict[str, Any] = {"questions": "per_criterion"}
MEAN: dict[str, Any] = {"scoring": "expected"}
TEN: dict[str, Any] = {"passages_per_call": 10}
WAYS = (
    Way("chat, a prompt a persona", LUNA, PLAIN, {}, _chat),
    Way("chat, `per_persona`", LUNA, PLAIN, PERSONA, _chat),
    Way("chat, `per_persona`, ten passages", LUNA, PLAIN, PERSONA | TEN, _chat),
    Way("decisions, `scoring=per_criterion`", LUNA, BOTH, {"scoring": "per_criterion"}, _decisions),
    Way("decisions, `per_persona`", LUNA, BOTH, MEAN | PERSONA, _decisions),
    Way("decisions, `per_persona`, ten passages", LUNA, BOTH, MEAN | PERSONA | TEN, _decisions),
    Way(
        "decisions, `per_criterion`, ten passages",
        LUNA,
        BOTH,
        MEAN | CRITERION | TEN,
        _decisions,
    ),
)


class Counting:
    """Answers by rote, and adds up what is sent."""

    def __init__(self, way: Way) -> None:
        self.calls = self.bytes = self.output = 0
        self.billed = way.model
        self._way = way
        self.model = ScriptedChat(self._answer, capabilities=way.capabilities)

    def _answer(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        self.bytes += len(orjson.dumps(self._way.write(request)))
        self.billed = billed_as(self._way.model, request)
        if request.questions:
            return ChatReply("", answers=tuple(Answer(q.top / 2) for q in request.questions))
        assert request.schema is not None
        text = orjson.dumps(dict.fromkeys(request.schema.schema["properties"], 5)).decode()
        self.output += math.ceil(len(text) / BYTES_A_TOKEN)
        return ChatReply(text)

    @property
    def tokens(self) -> int:
        """Of all prompts."""
        return math.ceil(self.bytes / BYTES_A_TOKEN)

    @property
    def dollars(self) -> float:
        """At the prices that `mcranker` knows."""
        usage = Usage(self.calls, self.tokens, 0, self.output)
        paid = cost(self.billed, usage)
        assert paid is not None
        return paid


def passages(depth: int) -> tuple[str, list[str]]:
    """A query of the mini collection and its first passages; after them the other queries'."""
    dataset = beir_eval.load("mini")
    texts = [document.text for document in dataset.corpus.values()]
    query = next(iter(dataset.queries.values()))
    repeated = [f"{texts[n % len(texts)]} ({n // len(texts)})" for n in range(depth)]
    return query, [text.removesuffix(" (0)") for text in repeated]


def table(depth: int) -> str:
    """One line for each way."""
    query, docs = passages(depth)
    lines = [
        f"{depth} passages of {statistics.fmean(map(len, docs)):.0f} characters:",
        "",
        "| | calls | kB sent | tokens | US cents |",
        "|---|---:|---:|---:|---:|",
    ]
    for way in WAYS:
        counting = Counting(way)
        ranker = MCRanker(team=TEAM, model=counting.model, criteria="library", **way.options)
        ranking = ranker.rank(query, docs)
        assert not ranking.missing
        lines.append(
            f"| {way.name} | {counting.calls} | {counting.bytes / 1000:.0f} "
            f"| {counting.tokens:,} | {100 * counting.dollars:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    print("\n\n".join(map(table, DEPTHS)))


if __name__ == "__main__":
    main()
