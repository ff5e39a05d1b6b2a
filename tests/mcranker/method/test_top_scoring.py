"""Ranking with ``top_k``: the same first ranks for fewer calls, and what was left out is told."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import anyio
import numpy as np
import pytest

from mcranker import (
    Capabilities,
    ChatReply,
    ChatRequest,
    ConfigError,
    MCRanker,
    MissingScoreError,
    Passage,
    PassageScored,
    Ranking,
    ScriptedChat,
)
from mcranker.method import schedule
from personas.ranking.usage import Usage
from tests.support.scripted import by_table, scripted

NAMES = ("Ann", "Ben", "Cho", "Dee", "Eve")
DOCS = {f"d{place}": f"text {place}" for place in range(8)}
# With k = 2 and the team's order: Ann scores all eight. d1 (29), d0 (28) and d2 (28) can reach
# most; d1 and d0 are asked about until d1 stands at 9 + 9 + 6 = 24 and d0 at 8 + 3 + 10 = 21;
# then d2: 8 + 9 + 9 = 26. Nobody else can reach d1's 24: d4 ends at 4 + 10 + 10, behind d1.
TABLE = {
    "Ann": {"d0": 8, "d1": 9, "d2": 8, "d3": 2, "d4": 4, "d5": 0, "d6": 1, "d7": 3},
    "Ben": {"d0": 3, "d1": 9, "d2": 9, "d3": 2, "d4": 5, "d5": 0, "d6": 1, "d7": 10},
    "Cho": {"d0": 1, "d1": 6, "d2": 9, "d3": 2, "d4": 5, "d5": 0, "d6": 1, "d7": 10},
}


@pytest.fixture
def in_team_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a sample the judges score in the team's order."""
    monkeypatch.setattr(schedule, "SAMPLE", 0)


def team_of(model: ScriptedChat, team: Any = NAMES[:3], **options: Any) -> MCRanker:
    """A team that judges without criteria, so that every call is a score."""
    return MCRanker(team=list(team), model=model, **{"criteria": "none", **options})


def recorded(
    table: Mapping[str, Mapping[str, int]], calls: list[tuple[str, str]]
) -> Callable[[ChatRequest], str]:
    score = by_table(table)

    def answer(request: ChatRequest) -> str:
        calls.append((request.tag.persona, request.tag.doc_id))
        return score(request)

    return answer


def first(ranking: Ranking, k: int) -> list[tuple[str, float | None, dict[str, float | None]]]:
    return [(hit.doc_id, hit.score, dict(hit.scores)) for hit in ranking[:k]]


@pytest.mark.usefixtures("in_team_order")
def test_by_hand() -> None:
    calls: list[tuple[str, str]] = []
    ranker = team_of(scripted(recorded(TABLE, calls)), top_k=2)
    ranking = ranker.rank("q", DOCS)

    by_ann = [("Ann", doc_id) for doc_id in DOCS]
    assert calls[:8] == by_ann
    assert sorted(calls[8:]) == [
        ("Ben", "d0"),
        ("Ben", "d1"),
        ("Ben", "d2"),
        ("Cho", "d1"),
        ("Cho", "d2"),
    ]
    assert ranking.usage == Usage(13, 1300, 780, 65)
    assert [(hit.doc_id, hit.score, hit.at_most) for hit in ranking] == [
        ("d2", 26.0, None),
        ("d1", 24.0, None),
        ("d4", None, 24.0),
        ("d7", None, 23.0),
        ("d3", None, 22.0),
        ("d0", None, 21.0),
        ("d6", None, 21.0),
        ("d5", None, 20.0),
    ]
    assert ranking[0].skipped == ()
    assert ranking[2].skipped == ("Ben", "Cho")
    assert ranking[5].skipped == ("Cho",)
    assert dict(ranking[5].scores) == {"Ann": 8.0, "Ben": 3.0, "Cho": None}
    assert ranking.skipped == 3 * 8 - 13
    assert ranking.missing == []
    full = team_of(scripted(by_table(TABLE))).rank("q", DOCS)
    assert first(ranking, 2) == first(full, 2)


def random_table(
    rng: np.random.Generator, rows: int, judges: int
) -> dict[str, dict[str, int | None]]:
    quality = rng.random(rows)
    table: dict[str, dict[str, int | None]] = {}
    for name in NAMES[:judges]:
        noisy = np.clip(quality + rng.normal(0, 0.2, rows), 0, 1) ** rng.uniform(0.5, 4)
        lost = rng.random(rows) < rng.choice([0.0, 0.15])
        table[name] = {
            f"d{row}": None if lost[row] else round(10 * float(noisy[row])) for row in range(rows)
        }
    return table


@pytest.mark.parametrize("seed", range(12))
async def test_random_queries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 a seed, answered in any order: the first ranks are those of full scoring."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        judges, texts = int(rng.integers(1, 6)), int(rng.integers(1, 15))
        table = random_table(rng, texts, judges)
        # Some passages stand twice: the scripted model knows them by the first one's id.
        docs = {f"d{row}": f"text {row}" for row in range(texts)}
        docs |= {f"copy {row}": f"text {row}" for row in range(texts) if rng.random() < 0.2}
        k = int(rng.integers(1, len(docs) + 2))

        async def answer(request: ChatRequest, scores: Any = table) -> str:
            for _ in range(int(rng.integers(4))):
                await anyio.lowlevel.checkpoint()
            value = scores[request.tag.persona][request.tag.doc_id]
            return "I cannot say" if value is None else json.dumps({"Score": value})

        options = {
            "missing_policy": str(rng.choice(["mean_of_team", "lowest", "constant"])),
            "missing_constant": float(rng.choice([0, 5, 10])),
            "repair_attempts": 0,
            "concurrency": int(rng.choice([1, 3, 100])),
        }
        slots = None if rng.random() < 0.5 else int(rng.integers(1, 3))
        model = ScriptedChat(
            answer, capabilities=Capabilities(json_schema=True, prefix_slots=slots)
        )
        full = await team_of(model, NAMES[:judges], **options).arank("q", docs)
        monkeypatch.setattr(schedule, "SAMPLE", int(rng.choice([0, 3])))
        short = team_of(model, NAMES[:judges], top_k=k, **options)
        ranking = await short.arank("q", docs)

        assert first(ranking, k) == first(full, k)
        assert sorted(ranking.ids) == sorted(full.ids)
        assert ranking.usage.calls <= full.usage.calls
        lost = [hit for hit in ranking if hit.missing.keys() == set(NAMES[:judges])]
        lost = [hit for hit in lost if options["missing_policy"] != "constant"]
        assert [hit.score for hit in lost] == [None] * len(lost)
        scored = ranking[: len(ranking) - len(lost)]
        assert list(ranking) == [*scored, *lost]
        reached = [hit.score if hit.at_most is None else hit.at_most for hit in scored]
        assert all(a is not None and b is not None and a >= b for a, b in pairwise(reached))
        assert len({(hit.doc_id, hit.passage.text) for hit in ranking}) == len(docs)
        totals = {hit.doc_id: hit.score for hit in full}
        for hit in scored:
            assert (hit.score is None) == (hit.at_most is not None) == bool(hit.skipped)
            bound = hit.score if hit.at_most is None else hit.at_most
            total = totals[hit.doc_id]
            assert bound is not None
            assert total is not None
            assert bound >= total


def test_the_strictest_of_the_first_passages_scores_all() -> None:
    # Of d0, d1 and d2 the means are 10, 2 and 5: after those nine calls Ben scores the rest,
    # 1 + 20 at most, and the first three stand at 10 + 2 + 5 and ask for no more: 17 < 21, so
    # Cho, the next, takes d3 down to 1 + 0 + 10, and d4 and so on alike.
    table = {
        "Ann": dict.fromkeys(DOCS, 10),
        "Ben": {doc_id: 2 if place < 3 else 1 for place, doc_id in enumerate(DOCS)},
        "Cho": {doc_id: 5 if place < 3 else 0 for place, doc_id in enumerate(DOCS)},
    }
    calls: list[tuple[str, str]] = []
    ranking = team_of(scripted(recorded(table, calls)), top_k=1).rank("q", DOCS)
    rest = list(DOCS)[3:]
    assert set(calls[:9]) == {(name, doc_id) for name in table for doc_id in list(DOCS)[:3]}
    assert calls[9:] == [(name, doc_id) for name in ("Ben", "Cho") for doc_id in rest]
    assert ranking.ids[0] == "d0"


@pytest.mark.parametrize("sample", [0, 3])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 100])
async def test_progress_reaches_its_end(
    sample: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "SAMPLE", sample)
    ranker = team_of(scripted(by_table(TABLE)), top_k=k)
    docs = [Passage(doc_id, text) for doc_id, text in DOCS.items()]
    docs.append(Passage("copy", "text 2"))
    scored = [
        event async for event in ranker.astream("q", docs) if isinstance(event, PassageScored)
    ]
    assert [event.done for event in scored] == list(range(1, len(scored) + 1))
    assert all(event.done <= event.total <= 24 for event in scored)
    assert scored[-1].done == scored[-1].total
    assert all(event.done < event.total for event in scored[:-1])


@pytest.mark.usefixtures("in_team_order")
async def test_the_first_pass_uses_all_the_concurrency_and_then_k_passages_at_once() -> None:
    docs = {f"d{place}": f"text {place}" for place in range(20)}
    in_flight, most = 0, {"Ann": 0, "others": 0}

    async def answer(request: ChatRequest) -> str:
        nonlocal in_flight
        in_flight += 1
        who = "Ann" if request.tag.persona == "Ann" else "others"
        most[who] = max(most[who], in_flight)
        await anyio.wait_all_tasks_blocked()
        in_flight -= 1
        return '{"Score": 5}'

    ranker = team_of(ScriptedChat(answer), top_k=4, concurrency=9, scoring="integer")
    ranking = await ranker.arank("q", docs)
    assert most == {"Ann": 9, "others": 4}
    assert ranking.usage.calls == 0 + ranking.matrix.values.size - ranking.skipped


@pytest.mark.usefixtures("in_team_order")
def test_a_missing_score_is_no_skipped_one() -> None:
    def score(request: ChatRequest) -> str:
        if (request.tag.persona, request.tag.doc_id) == ("Ann", "d3"):
            return "no idea"
        return by_table(TABLE)(request)

    model = scripted(score)
    ranking = team_of(model, top_k=2, repair_attempts=0).rank("q", DOCS)
    assert ranking.ids[:2] == ["d2", "d1"]
    assert [(each.doc_id, each.persona) for each in ranking.missing] == [("d3", "Ann")]
    # What was missing might have been a 10: Ben is asked, and 10 + 2 + 10 is not enough.
    (hit,) = (hit for hit in ranking if hit.doc_id == "d3")
    assert (hit.skipped, hit.at_most) == (("Cho",), 22.0)
    assert list(hit.missing) == ["Ann"]
    with pytest.raises(MissingScoreError):
        team_of(model, top_k=2, missing_policy="fail").rank("q", DOCS)


def test_scores_that_are_not_whole_numbers() -> None:
    chances = {"Ann": 0.3, "Ben": 0.9}

    def answer(request: ChatRequest) -> ChatReply:
        place = int(request.tag.doc_id[1:])
        yes = chances[request.tag.persona] ** (place + 1)
        return ChatReply("", label_logprobs={"No": math.log(1 - yes), "Yes": math.log(yes)})

    model = ScriptedChat(answer, capabilities=Capabilities(label_logprobs=True))
    options = {"scoring": "expected", "labels": ("No", "Yes"), "team": ("Ben", "Ann")}
    full = team_of(model, **options).rank("q", DOCS)
    ranking = team_of(model, **options, top_k=2).rank("q", DOCS)
    assert first(ranking, 2) == first(full, 2)
    # The first three by both; then Ann, the stricter, gives d3 0.3 ** 4, so that it can reach
    # 1.0081, more than d1's 0.09 + 0.81; likewise the others.
    assert ranking.skipped == 0
    ranking = team_of(model, **options, top_k=1).rank("q", DOCS)
    # d0 has 0.3 + 0.9 = 1.2, and nobody else can reach that.
    assert ranking.usage.calls == 3 * 2 + 5


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ensemble": "reciprocal_rank"}, "'reciprocal_rank' needs every score"),
        ({"ensemble": "assessor"}, "'assessor' needs every score"),
        ({"first_stage_weight": 0.5}, "first_stage_weight=0.5 scales"),
    ],
)
def test_what_needs_every_score_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        MCRanker(model=scripted(), top_k=5, **options)
    MCRanker(model=scripted(), **options)
    MCRanker(model=scripted(), top_k=5)
