"""Models that keep few prompt prefixes, such as the local engine, are not asked out of turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import anyio
import pytest

from mcranker import (
    Capabilities,
    ChatRequest,
    DirectRanker,
    MCRanker,
    Query,
    ScriptedChat,
)
from tests.support.scripted import RECRUITS, RUBRIC

DOCS = [f"passage {number}" for number in range(6)]
WORK = [(Query(f"query {number}", f"q{number}"), DOCS) for number in range(3)]


class Watched:
    """A model that answers after a turn of the loop, and knows what was under way at once."""

    def __init__(self, slots: int | None) -> None:
        self.under_way = 0
        self.most = 0
        self.queries: list[str] = []
        capabilities = Capabilities(json_schema=True, prefix_slots=slots)
        self.model = ScriptedChat(self._answer, capabilities=capabilities)

    async def _answer(self, request: ChatRequest) -> str:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.queries.append(request.tag.query_id)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.under_way -= 1
        match request.tag.stage:
            case "recruit":
                return RECRUITS
            case "criteria":
                return RUBRIC
            case "assess":
                return '{"Final score": 4}'
            case _:
                return '{"Score": 4}'


@pytest.mark.parametrize(("slots", "most"), [(1, 1), (2, 2), (None, 6)])
def test_direct_asks_no_more_at_once_than_prefixes_are_kept(slots: int | None, most: int) -> None:
    watched = Watched(slots)
    DirectRanker(model=watched.model).rank("query", DOCS)
    assert watched.most == most


def test_so_do_a_team_and_its_assessor() -> None:
    watched = Watched(1)
    ranking = MCRanker(model=watched.model, ensemble="assessor").rank("query", DOCS)
    assert not ranking.missing
    # Rubrics are written side by side, one while recruiting; scores and assessments are not.
    assert watched.most == 2
    alone = Watched(1)
    MCRanker(team_size=1, model=alone.model, ensemble="assessor").rank("query", DOCS)
    assert alone.most == 1


@pytest.mark.parametrize(
    ("options", "at_once"), [({}, 1), ({"query_concurrency": 3}, 3)], ids=["unset", "set"]
)
def test_queries_take_turns_only_where_that_was_asked_for(
    options: dict[str, int], at_once: int
) -> None:
    watched = Watched(1)
    make: Callable[..., DirectRanker] = DirectRanker
    with make(model=watched.model, **options) as ranker:
        assert all(done.ranking for done in ranker.rank_many(WORK))
    switches = sum(one != other for one, other in itertools.pairwise(watched.queries))
    if at_once == 1:
        assert switches == len(WORK) - 1
    else:
        assert switches > len(WORK)
