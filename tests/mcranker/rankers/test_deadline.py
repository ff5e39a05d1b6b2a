"""A deadline ranks by what is known; ``on_failure`` keeps the first stage's order."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    ChatReply,
    ChatRequest,
    ConfigError,
    DirectRanker,
    Job,
    MCRanker,
    Passage,
    Ranker,
    Ranking,
    ScriptedChat,
    Usage,
)
from personas.ranking.record import RankingRecord
from personas.ranking.types import DEADLINE
from tests.support.scripted import RECRUITS, RUBRIC
from tests.support.virtual_time import now, simulate

DOCS = [Passage(f"d{place}", f"text {place}", score=-place) for place in range(12)]
IDS = [each.id for each in DOCS]


class Slow:
    """A model whose answers take a known time, and are known.

    Args:
        seed: of scores and times.
        seconds: stage -> how long an answer takes; 1 s without.
        varied: scoring takes up to three times as long.
    """

    def __init__(
        self, seed: int = 0, seconds: Mapping[str, float] | None = None, *, varied: bool = False
    ) -> None:
        self.seed, self.seconds, self.varied = seed, dict(seconds or {}), varied
        self.asked = self.answered = 0

    async def __call__(self, request: ChatRequest) -> ChatReply:
        tag = request.tag
        draws = random.Random(f"{self.seed} {tag.stage} {tag.persona} {tag.doc_id}")
        self.asked += 1
        await anyio.sleep(self.seconds.get(tag.stage, 1.0) * (1 + 2 * self.varied * draws.random()))
        self.answered += 1
        if tag.stage == "recruit":
            text = RECRUITS
        elif tag.stage == "criteria":
            text = RUBRIC
        else:
            score = draws.randint(0, 10)
            text = json.dumps({"Score": score, "Final score": score, "Scores": [score, score]})
        return ChatReply(text, usage=Usage(calls=1))

    def chat(self, **more: Any) -> ScriptedChat:
        return ScriptedChat(self, name="scripted:slow", **more)


def ranker(slow: Slow, **options: Any) -> MCRanker:
    return MCRanker(model=slow.chat(), **{"ledger": None, "concurrency": 3, **options})


def rank(slow: Slow, deadline: float | None = None, **options: Any) -> tuple[Ranking, float]:
    """The ranking, and how many seconds it took."""

    async def main() -> tuple[Ranking, float]:
        async with ranker(slow, **options) as made:
            began = now()
            return await made.arank("q", DOCS, deadline=deadline), now() - began

    return simulate(main())


CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"ensemble": "assessor"},
    {"scoring": "per_criterion"},
    {"first_stage_weight": 0.4, "depth": 9},
    {"team": ["Ann", "Ben"], "missing_policy": "constant", "missing_constant": 9.0},
    {"min_relevance": 0.4},
)
every_choice = pytest.mark.parametrize("options", CHOICES, ids=str)


@every_choice
@pytest.mark.parametrize("seed", range(2))
def test_what_a_deadline_leaves(seed: int, options: dict[str, Any]) -> None:
    draws = random.Random(f"{seed} {options}")
    slow = Slow(seed, {"criteria": 2.0, "assess": 0.5}, varied=True)
    whole, needed = rank(slow, **options)
    deadline = draws.uniform(0, needed)
    ranking, took = rank(slow, deadline, **options)
    assert took <= deadline + 1e-6
    assert ranking.partial
    assert not whole.partial

    # Every passage once, first those with a score, by it, then the others as they were given.
    assert sorted(hit.doc_id for hit in ranking.hits) == sorted(IDS)
    finals = [hit.score for hit in ranking.hits]
    judged = [final for final in finals if final is not None]
    assert finals[: len(judged)] == sorted(judged, reverse=True)
    behind = [hit.index for hit in ranking.hits[len(judged) :]]
    assert behind == sorted(behind)
    assert [hit.rank for hit in ranking] == sorted(hit.rank for hit in ranking)

    # A score that is there is the one that it would have been, and the others say why not.
    for hit in ranking.as_given[: options.get("depth")]:
        would_be = whole.as_given[hit.index].scores
        for name, value in hit.scores.items():
            if value is None:
                assert hit.missing[name] == DEADLINE
            elif would_be[name] is not None:
                assert value == would_be[name]
        known = any(value is not None for value in hit.scores.values())
        imputed = options.get("missing_policy") == "constant" and len(ranking.personas) > 0
        assert (known or imputed) is hit.judged
    assert all(each.reason == DEADLINE for each in ranking.missing)

    again = Ranking.from_dict(json.loads(ranking.to_json()))
    assert again.to_dict() == ranking.to_dict()
    assert again.partial
    if options.get("ensemble") != "assessor":
        assert again.reensemble().ids == ranking.ids
    inspection = RankingRecord.of(ranking.to_dict())
    assert inspection.missing == ranking.missing
    assert inspection.unfinished == "The deadline came before all scores."


def test_by_hand() -> None:
    # Three calls at a time, and the recruits catch up as soon as their criteria are there: 10
    # scores by 5 s are all three of d0, d1 and d2, and the NLP scientist's of d3.
    ranking, took = rank(Slow(), 5.5)
    assert took == 5.5
    assert [len(hit.missing) for hit in sorted(ranking, key=lambda hit: hit.index)][:5] == [
        0,
        0,
        0,
        2,
        3,
    ]
    partly = next(hit for hit in ranking if hit.doc_id == "d3")
    given = [score for score in partly.scores.values() if score is not None]
    # The mean of the passage's other scores stands in for the third.
    assert partly.score == pytest.approx(3 * sum(given) / len(given))
    assert partly.relevance == pytest.approx(sum(given) / len(given) / 10)
    unjudged = ranking[-1]
    assert (unjudged.doc_id, unjudged.score, unjudged.relevance) == ("d11", None, None)
    assert set(unjudged.missing.values()) == {"deadline"}


def test_nothing_known_is_the_first_stages_order() -> None:
    for options in ({}, {"nlp_scientist": False, "team_size": 2}, {"min_relevance": 0.9}):
        ranking, took = rank(Slow(), 0.5, **options)
        assert took == 0.5
        assert (ranking.partial, ranking.ids) == (True, IDS)
        assert {hit.score for hit in ranking} == {None}
    assert ranking.usage.calls == 0


def test_a_ranker_without_partial_results_keeps_the_order() -> None:
    class Sleepy(Ranker):
        name = "sleepy"
        needs_model = False

        async def _rank(self, job: Job) -> Ranking:
            job.calls.add("score", "", "m", Usage(calls=1))
            await anyio.sleep(5)
            return self.ranking_by_order(job, range(len(job.passages) - 1, -1, -1))

    async def main(deadline: float) -> Ranking:
        return await Sleepy(deadline=deadline).arank("q", DOCS)

    assert simulate(main(6)).ids == IDS[::-1]
    late = simulate(main(4))
    assert (late.partial, late.ids, late.usage.calls) == (True, IDS, 1)


def test_answers_that_came_are_kept(tmp_path: Path) -> None:
    slow = Slow(seconds=dict.fromkeys(("recruit", "criteria", "score"), 0.0))
    stuck = True

    async def answer(request: ChatRequest) -> ChatReply:
        if stuck and request.tag.doc_id in IDS[5:]:
            await anyio.sleep_forever()
        return await slow(request)

    with MCRanker(model=ScriptedChat(answer), ledger=tmp_path / "ledger.sqlite") as made:
        partial = made.rank("q", DOCS, deadline=1.0)
        assert partial.partial
        answered, stuck = slow.answered, False
        assert partial.usage.calls == answered
        whole = made.rank("q", DOCS)
    assert whole.usage.calls == slow.answered - answered
    assert whole.reused.calls == answered
    assert whole.usage.calls + whole.reused.calls == 1 + 3 + 36


def test_a_deadline_does_not_go_with_refused_gaps() -> None:
    said = 'deadline=2.5 ranks without the scores .* which missing_policy="fail"'
    with pytest.raises(ConfigError, match=said):
        MCRanker(model=Slow().chat(), deadline=2.5, missing_policy="fail")
    made = DirectRanker(model=Slow().chat(), missing_policy="fail")
    with made, pytest.raises(ConfigError, match=said):
        made.rank("q", DOCS, deadline=2.5)
