"""A provider that fails now and then: nothing is lost, nothing made up, nothing asked in vain."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import partial

import pytest

from mcranker import MCRanker
from mcranker.llm.retries import Retrying
from tests.loopback import Answer, Drop, Reply, completion, openai_error, serve_in_thread

FAILURES = {"429": 0.03, "500": 0.03, "drop": 0.02, "prose": 0.02}


def test_every_score_arrives_though_a_tenth_of_the_calls_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcranker.models.Retrying", partial(Retrying, first_wait=0.0))
    luck = random.Random(20)
    seen: Counter[str] = Counter()

    def script(body: object) -> Reply:
        (kind,) = luck.choices([*FAILURES, "good"], [*FAILURES.values(), 0.9])
        seen[kind] += 1
        if kind == "429":
            return Answer(429, openai_error("slow down"), {"Retry-After": "0"})
        if kind == "500":
            return Answer(500, openai_error("out of order"))
        if kind == "drop":
            return Drop()
        return completion("I would say seven" if kind == "prose" else '{"Score": 7}')

    docs = [f"passage {number}" for number in range(200)]
    with (
        serve_in_thread(script) as server,
        MCRanker(
            team="health_questions",
            model="openai:test",
            base_url=server.url,
            concurrency=32,
            reask=5,
        ) as ranker,
    ):
        ranking = ranker.rank("best masks", docs)

    assert not ranking.missing
    assert {score for hit in ranking for score in hit.scores.values()} == {7.0}
    assert all(seen[kind] for kind in FAILURES)
    # Every answer was wanted: one for each score, and one more for each that was no score.
    assert ranking.usage.calls == 3 * len(docs) + seen["prose"] == seen["good"] + seen["prose"]
    assert json.loads(ranking.to_json())["usage"]["calls"] == ranking.usage.calls
