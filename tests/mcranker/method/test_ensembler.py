"""The actor in the middle, seen from outside: who is asked when, and when a query is complete."""

from __future__ import annotations

import json

import anyio
import pytest

from mcranker import (
    Capabilities,
    ChatRequest,
    MCRanker,
    PassageAssessed,
    PassageScored,
    RubricWritten,
    ScriptedChat,
    TeamRecruited,
)
from mcranker.events import Event
from tests.support.scripted import RECRUITS, RUBRIC

pytestmark = pytest.mark.anyio

DOCS = {f"d{number}": f"text {number}" for number in range(6)}


class Gated:
    """A model in which calls wait: recruiting, and rubrics by persona, until they are let go."""

    def __init__(self, *held: str, slots: int | None = None) -> None:
        self.gates = {name: anyio.Event() for name in held}
        self.asked: list[tuple[str, str, str]] = []
        self.chat = ScriptedChat(
            self._answer, capabilities=Capabilities(json_schema=True, prefix_slots=slots)
        )

    async def _answer(self, request: ChatRequest) -> str:
        tag = request.tag
        self.asked.append((tag.stage, tag.persona, tag.doc_id))
        if tag.stage in ("recruit", "criteria"):
            gate = self.gates.get(tag.persona or tag.stage)
            if gate is not None:
                await gate.wait()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        match tag.stage:
            case "recruit":
                return RECRUITS
            case "criteria":
                return RUBRIC
            case "assess":
                return '{"Final score": 5}'
            case _:
                return json.dumps({"Score": int(tag.doc_id[1])})

    def scored(self) -> set[str]:
        """Who has been asked for scores."""
        return {persona for stage, persona, _ in self.asked if stage == "score"}


async def test_the_scientist_writes_and_scores_while_the_recruiter_works() -> None:
    model = Gated("recruit")
    ranker = MCRanker(model=model.chat)
    async with anyio.create_task_group() as group:
        group.start_soon(ranker.arank, "q", DOCS)
        await anyio.wait_all_tasks_blocked()
        assert model.scored() == {"NLP scientist"}
        assert len(model.asked) == 1 + 1 + len(DOCS)
        model.gates["recruit"].set()
    assert model.scored() == {"NLP scientist", "Virologist", "Worried parent"}
    assert len(model.asked) == 1 + 3 + 3 * len(DOCS)


async def test_only_the_late_persona_is_waited_for_and_the_assessor_ends_with_the_last_score() -> (
    None
):
    model = Gated("Virologist")
    ranker = MCRanker(model=model.chat, ensemble="assessor", concurrency=4)
    events: list[Event] = []
    async with anyio.create_task_group() as group:

        async def rank() -> None:
            events.extend([event async for event in ranker.astream("q", DOCS)])

        group.start_soon(rank)
        await anyio.wait_all_tasks_blocked()
        assert model.scored() == {"NLP scientist", "Worried parent"}
        assert not any(stage == "assess" for stage, _, _ in model.asked)
        model.gates["Virologist"].set()
    kinds = [type(event) for event in events]
    assert kinds.index(TeamRecruited) < kinds.index(PassageScored)
    assert [event.done for event in events if isinstance(event, PassageScored)] == [
        *range(1, 3 * len(DOCS) + 1)
    ]
    assert kinds.count(PassageAssessed) == len(DOCS)
    # The first passage is assessed before the last one is scored.
    last_score = max(place for place, kind in enumerate(kinds) if kind is PassageScored)
    assert kinds.index(PassageAssessed) < last_score
    late = [place for place, event in enumerate(events) if isinstance(event, RubricWritten)]
    assert late[-1] > kinds.index(PassageScored)


async def test_scores_of_a_passage_come_together() -> None:
    model = Gated()
    docs = {f"d{number % 10}{number}": f"text {number}" for number in range(30)}
    await MCRanker(model=model.chat, concurrency=3).arank("q", docs)
    order = [doc_id for stage, persona, doc_id in model.asked if stage == "score"]
    # The NLP scientist has a head start; once the others have caught up, all take turns.
    assert order[-6:] == ["d828"] * 3 + ["d929"] * 3


async def test_fewer_recruits_than_seats() -> None:
    model = Gated()
    ranking = await MCRanker(team_size=5, model=model.chat).arank("q", DOCS)
    assert ranking.personas == ("NLP scientist", "Virologist", "Worried parent")
    assert ranking.matrix.shape == (6, 3)
    assert ranking[0].score == 15.0
