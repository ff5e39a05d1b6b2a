"""Answers that a team drafts, on a scripted model."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from mcranker import ChatRequest, ScriptedChat
from mcranker.errors import ContextTooLong, ServerFailed
from mcranker.rag.answer import Answer, write_team_answer
from mcranker.rag.config import AnswerStage
from mcranker.rag.record import Draft, SourcePassage
from mcranker.ranking import Ranking
from personas import Member, Persona, Team
from personas.ranking.hit import Hit
from personas.ranking.types import Passage, PersonaOrder, Query, Score
from personas.ranking.usage import UsageTable
from tests.mcranker.rag.asked import PAPER, Asked, rendered

QUESTION = "Do masks help?"
TEXTS = {"a": "Masks help a little.", "b": "Masks help a lot.", "c": "Masks itch very much."}
NURSE = Persona(name="Nurse", description="Looks after the sick.")
TEAM = Team(members=(Member(persona=NURSE), Member(persona=Persona(name="Virologist"))))
CLAIM = {"Claim": "The Nurse says a lot.", "Passage": 2, "Quote": "Masks help a lot."}
STAGE = AnswerStage(by_team=True, max_tokens=50)
CONTEXT = tuple(
    SourcePassage(id=name, document=name, text=text, number=number)
    for number, (name, text) in enumerate(TEXTS.items(), 1)
)


def ranking(scores: list[list[float]], **values: Any) -> Ranking:
    # A passage that is not in the context comes first.
    passages = (Passage("z", "Other"), *(Passage(*each) for each in TEXTS.items()))
    names = TEAM.names[: len(scores[0])]
    rows = [[9.0] * len(names), *scores]
    hits = [
        Hit.of(
            passage,
            place,
            {
                name: Score(None if math.isnan(each) else each)
                for name, each in zip(names, row, strict=False)
            },
            score=float(-place),
        )
        for place, (passage, row) in enumerate(zip(passages, rows, strict=True))
    ]
    parts: dict[str, Any] = {
        "query": Query(QUESTION),
        "hits": tuple(hits),
        "personas": names,
        "team": TEAM,
        "ranker": "mcranker",
        "config": {},
        "models": {},
        "prompt_hashes": {},
        "calls": UsageTable(),
        "seconds": {},
        "absolute": True,
    }
    return Ranking(**{**parts, **values})


SCORES = ranking([[1, 5], [7, math.nan], [7, 6]])


async def drafted(
    replies: dict[str, str | Exception], ranked: Ranking | None = SCORES, stage: AnswerStage = STAGE
) -> tuple[Answer, tuple[Draft, ...], list[ChatRequest]]:
    """An answer for which each persona, and the team as "", has a reply."""
    requests: list[ChatRequest] = []

    def reply(request: ChatRequest) -> str:
        requests.append(request)
        said = replies[request.tag.persona]
        if isinstance(said, Exception):
            raise said
        return said

    by = replace(Asked([], stage="answer").by, model=ScriptedChat(reply))
    return *(await write_team_answer(QUESTION, ranked, CONTEXT, stage, by)), requests


def entries(*numbers: int) -> str:
    texts = list(TEXTS.values())
    return "\n\n".join(
        f"[{number}]\n{PAPER.passage(texts[number - 1], query=QUESTION)}" for number in numbers
    )


async def test_each_persona_drafts_from_its_own_order_and_one_call_joins_them() -> None:
    replies: dict[str, str | Exception] = {
        "Nurse": "A lot [2].",
        "Virologist": "They itch [3].",
        "": json.dumps({"Claims": [CLAIM]}),
    }
    answer, drafts, requests = await drafted(replies)
    # The nurse has 7 twice, which keep their order; what the virologist did not score is last.
    assert drafts == (
        Draft(persona="Nurse", text="A lot [2].", passages=(2, 3, 1)),
        Draft(persona="Virologist", text="They itch [3].", passages=(3, 1, 2)),
    )
    shown = {each.tag.persona: [(m.role, m.content) for m in each.messages] for each in requests}
    values = {"persona": "Nurse", "description": NURSE.description, "question": QUESTION}
    assert shown["Nurse"] == rendered("rag_draft", context=entries(2, 3, 1), **values)
    pieces = [
        PAPER.piece("rag_team_draft", {"persona": each.persona, "draft": each.text})
        for each in drafts
    ]
    assert shown[""] == rendered(
        "rag_team_answer", question=QUESTION, context=entries(1, 2, 3), drafts="\n\n".join(pieces)
    )
    assert (len(requests), answer.text, answer.notes) == (3, CLAIM["Claim"], ())
    assert [each.passage for each in answer.claims] == [2]


async def test_orders_of_a_team_that_compared_count_as_scores_do() -> None:
    orders = {"Nurse": PersonaOrder(), "Virologist": PersonaOrder(left_out="failed")}
    ranked = ranking([[], [], []], orders=orders)
    hits = [replace(hit, ranks={"Nurse": (1, 4, 3, 2)[hit.index]}) for hit in ranked.hits]
    ranked = replace(ranked, hits=tuple(hits))
    replies: dict[str, str | Exception] = {"Nurse": "A lot.", "": json.dumps({"Claims": [CLAIM]})}
    _, drafts, _ = await drafted(replies, ranked)
    assert [each.passages for each in drafts] == [(3, 2, 1)]


async def test_a_draft_that_fails_is_missing_with_its_reason() -> None:
    replies: dict[str, str | Exception] = {
        "Nurse": ServerFailed("down"),
        "Virologist": "They itch [3].",
        "": json.dumps({"Claims": [CLAIM]}),
    }
    answer, drafts, _ = await drafted(replies)
    assert drafts[0] == Draft(persona="Nurse", passages=(2, 3, 1), failure="down")
    assert answer.kind == "answer"
    assert answer.notes == ("The draft of Nurse is missing: down",)


async def test_without_any_draft_the_answer_is_written_without() -> None:
    down = ServerFailed("down")
    said = json.dumps({"Claims": [CLAIM]})
    answer, drafts, requests = await drafted({"Nurse": down, "Virologist": down, "": said})
    assert [each.failure for each in drafts] == ["down", "down"]
    assert (answer.text, len(answer.notes), len(requests)) == (CLAIM["Claim"], 2, 3)
    for ranked in (None, ranking([[], [], []])):
        answer, drafts, requests = await drafted({"": said}, ranked)
        assert (answer.text, drafts, len(requests)) == (CLAIM["Claim"], (), 1)
        assert answer.notes == (
            "No persona has an order of these passages, so the team drafted nothing.",
        )


async def test_the_first_draft_is_the_answer_if_they_cannot_be_joined() -> None:
    answer, _, _ = await drafted(
        {"Nurse": "A lot [2].", "Virologist": "b", "": ServerFailed("down")}
    )
    assert (answer.kind, answer.text) == ("answer", "A lot [2].")
    assert answer.notes == ("This is the draft of Nurse; the team's answer failed: down",)
    assert [each.passage for each in answer.claims] == [2]


async def test_a_draft_without_room_is_of_the_passages_that_come_first() -> None:
    replies: dict[str, str | Exception] = {"": json.dumps({"Claims": [CLAIM]})}

    class Short(dict[str, Any]):
        def __missing__(self, persona: str) -> str | Exception:
            self[persona] = "They help."
            return ContextTooLong("too long")

    _, drafts, requests = await drafted(Short(replies))
    assert [each.passages for each in drafts] == [(2,), (3,)]
    assert len(requests) == 5
