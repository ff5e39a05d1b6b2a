"""The recorded example: a team, its scores and reasons, before and after a person's edit."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from mcranker.llm.chat import ChatModel
from mcranker.rankers.judge import MCRanker
from mcranker.ranking import Ranking
from personas import Criterion, Rubric, Team

QUERY = "best masks against covid"
WISH = "Figures from a study back it up"


def recorded(name: str) -> Path:
    """A file of the example: the package's, or the checkout's."""
    packaged = Path(str(resources.files("mcranker"))) / "recorded" / name
    return packaged if packaged.exists() else Path(__file__).parents[1] / "examples" / name


def passages() -> list[dict[str, Any]]:
    """The passages of the example."""
    lines = recorded("masks.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def edited(team: Team) -> Team:
    """The team with one more criterion of its second persona, written by a person."""
    first, second, *others = team.members
    assert second.rubric is not None, "it was written with the team"
    kept = [each.model_copy(update={"weight": each.weight / 2}) for each in second.rubric.criteria]
    rubric = Rubric(criteria=(*kept, Criterion(name=WISH, weight=50)), reason=second.rubric.reason)
    second = second.model_copy(update={"rubric": rubric})
    return team.model_copy(update={"members": (first, second, *others)})


async def rankings(model: str | ChatModel, ledger: Path) -> tuple[Ranking, Ranking]:
    """The ranking by the team that is recruited and the one by the edited team, with reasons."""

    async def ranked(**options: Any) -> Ranking:
        async with MCRanker(model=model, ledger=ledger, **options) as ranker:
            ranking = await ranker.arank(QUERY, passages())
            return await ranker.aexplain(ranking, len(ranking))

    before = await ranked(team_size=3)
    assert before.team is not None
    return before, await ranked(team=edited(before.team))
