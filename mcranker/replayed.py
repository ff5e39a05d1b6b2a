"""Prompts and replies behind the scores of a stored ranking, as a ledger has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from mcranker.errors import ConfigError, MCRankerError
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Wrapper
from mcranker.llm.ledger.ledger import place_of
from mcranker.llm.masking import masked
from mcranker.rankers import RANKERS
from mcranker.rankers.judge import PointwiseRanker
from personas.ranking.record import RankingRecord
from personas.ranking.types import Passage

Replies: TypeAlias = Mapping[tuple[str, str], list[tuple[str, str]]]
"""Persona and document id -> prompts with their replies, in the order in which they were asked."""

_UNLIMITED = {"offline": True, "batch": False, "deadline": None, "on_failure": "keep_order"}
_ALL = {"missing_policy": "lowest", "ensemble": "sum", "top_n": None, "min_relevance": None}


class _Listening(Wrapper):
    """Notes what a passage's judges are asked, and what they reply."""

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self.heard: dict[tuple[str, str], list[tuple[str, str]]] = {}

    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = await self.inner.complete(request)
        if not request.questions:
            prompt = "\n\n".join(f"{each.role}:\n{each.content}" for each in request.messages)
            said = masked(prompt), masked(reply.text)
            self.heard.setdefault((request.tag.persona, request.tag.doc_id), []).append(said)
        return reply


def replies_of(ranking: RankingRecord, ledger: str) -> Replies:
    """Look up the replies to the requests of a ranking, which are made again; nothing is sent.

    Empty for encoders, which get no prompts, and where the ledger has no reply.

    Raises:
        ConfigError: its ranker, its model or the ledger cannot be opened here.
    """
    kind = RANKERS.get(ranking.ranker)
    if not issubclass(kind, PointwiseRanker):
        raise ConfigError(f"ranker={ranking.ranker!r} gives no scores of passages by themselves")
    if isinstance(place := place_of(ledger), Path) and not place.exists():
        raise ConfigError(f"there is no ledger {ledger!r}; name the ranking's")
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in ranking.config.items()
        if name in kind.config_class.model_fields
    }
    team: dict[str, Any] = (
        {"team": ranking.team.model_copy(update={"locked": True})} if ranking.team else {}
    )
    models: dict[str, Any] = {
        f"{role}_model": name for role, name in ranking.models.items() if role in kind.roles
    }
    hits = sorted(ranking.hits, key=lambda hit: hit.first_stage_rank)
    docs = [Passage(hit.doc_id, hit.text, hit.title) for hit in hits]
    with kind(ledger=ledger, **{**fields, **_UNLIMITED, **_ALL}, **team, **models) as ranker:
        listening = _Listening(ranker.models.scoring)
        ranker.models = replace(ranker.models, scoring=listening)
        try:
            ranker.rank(ranking.query, docs)
        except MCRankerError as error:
            raise ConfigError(f"the ranking cannot be made again: {error}") from error
        return listening.heard
