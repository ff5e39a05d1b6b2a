"""The same ranking through real HTTP: the official SDKs against the local engine's own server.

The engine speaks OpenAI's protocol and Anthropic's; so the whole way is exercised: actors,
prompts, SDK, wire, a real model, and reading what it says.
"""

from __future__ import annotations

import pytest

from mcranker import ChatModel, MCRanker, RankerConfig
from mcranker.llm.local.llama_local import LocalChat
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_chat import OpenAIChat
from personas import Team, library
from tests.support.shallow_model import shallow_engine, shallow_model

__all__ = ["shallow_engine", "shallow_model"]

pytestmark = [pytest.mark.anyio, pytest.mark.local_model]

DOCS = {
    "n95": "N95 respirators filter out most particles and protect the wearer from COVID-19.",
    "soup": "Simmer the vegetables for an hour and season the soup with salt.",
}
TEAM = Team(members=library.team("health_questions").members[:2])
CONFIG = RankerConfig(criteria="library", max_score_tokens=24, concurrency=2)


async def ranked_ids(model: ChatModel, **options: object) -> tuple[list[str], int, int]:
    config = RankerConfig.of(CONFIG, options)
    async with MCRanker(team=TEAM, model=model, config=config) as ranker:
        ranking = await ranker.arank("Which masks protect best against COVID-19?", DOCS)
    for hit in ranking:
        for persona, value in hit.scores.items():
            assert (value is None) == (persona in hit.missing)
            assert value is None or 0 <= value <= config.top
    assert ranking.usage.input_tokens > 0
    return ranking.ids, len(ranking.missing), ranking.usage.calls


@pytest.mark.parametrize("kind", ["sdk", "lean"])
async def test_openai_protocol(shallow_engine: Service, kind: str) -> None:
    address, key = f"{shallow_engine.url}/v1", shallow_engine.key
    model: ChatModel
    if kind == "sdk":
        model = OpenAIChat("smollm2", base_url=address, api_key=key)
    else:
        model = CompatibleChat("smollm2", base_url=address, api_key=key)
    ids, missing, calls = await ranked_ids(model)
    # The reply's form is a grammar on this server, so every score can be read.
    assert sorted(ids) == sorted(DOCS)
    assert missing == 0
    assert calls == 4


async def test_openai_protocol_with_log_probabilities() -> None:
    # The labels are among the likely tokens of the whole model only.
    chat = LocalChat("smollm2-135m")
    engine = (await chat.connected()).service
    model = OpenAIChat("smollm2", base_url=f"{engine.url}/v1", api_key=engine.key)
    ids, missing, _ = await ranked_ids(model, scoring="expected", labels=("No", "Yes"))
    await chat.aclose()
    assert sorted(ids) == sorted(DOCS)
    assert missing == 0


async def test_anthropic_protocol(shallow_engine: Service) -> None:
    model = AnthropicMessages("smollm2", base_url=shallow_engine.url, api_key=shallow_engine.key)
    ids, _, calls = await ranked_ids(model)
    # This server takes no schema in Anthropic's protocol: the form is asked for in words, and
    # what so small a model says is often unusable; then it is missing, with the reason.
    assert sorted(ids) == sorted(DOCS)
    # One call a score, and one repair turn at most.
    assert 4 <= calls <= 8
