"""Over HTTP: passages that always fail, a model that goes down, and text that is not Unicode."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcranker import (
    AuthenticationFailed,
    ChatModel,
    MCRanker,
    ModelError,
    Passage,
    Query,
    Ranking,
)
from mcranker.llm.limits.retries import DOWN, Retrying
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.rankers.base import Ranker
from tests.attack.scale import scaled
from tests.support.chaos import Chaos, Outage, chaos, truth
from tests.support.cli_support import invoke
from tests.support.ledger_support import verified
from tests.support.loopback import clean_environment
from tests.support.ranking_process import queries, result

ATTEMPTS = 6
TEAM = 2
PASSAGES = 9
QUICK = ["500", "503", "408", "drop", "drop in the body", "cut body", "HTML"]
FAULTS = [*QUICK, "429", "429 with a time", "529", "timeout"]

Connect = Callable[[Chaos], ChatModel]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


def timeout(server: Chaos) -> float:
    """Seconds for which a client waits: few only where that is what is tested."""
    return 0.2 if "timeout" in server.always.values() else 30.0


def by_url(server: Chaos) -> ChatModel:
    return CompatibleChat("test", base_url=server.url, timeout=timeout(server))


def by_openai(server: Chaos) -> ChatModel:
    return OpenAIChat("test", base_url=server.url, api_key="none", timeout=timeout(server))


def by_anthropic(server: Chaos) -> ChatModel:
    return AnthropicMessages("test", base_url=server.root, api_key="none", timeout=timeout(server))


@pytest.fixture
def ranker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ranker]]:
    """Makes rankers that are closed at the end."""
    made: list[Ranker] = []

    def make(server: Chaos, connect: Connect = by_url, **options: Any) -> Ranker:
        monkeypatch.setattr("mcranker.models.connect", lambda *_, **__: connect(server))
        made.append(MCRanker(TEAM, model="openai:test", **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def doc_ids(ranking: Ranking) -> list[str]:
    return sorted({each.doc_id for each in ranking.missing})


def assert_true(ranking: Ranking, bad: list[str]) -> None:
    """Every score is the truth, but those of the bad passages, which are missing."""
    assert doc_ids(ranking) == sorted(bad)
    assert len(ranking.missing) == TEAM * len(bad)
    assert all(each.reason for each in ranking.missing)
    for hit in ranking:
        for persona, score in hit.scores.items():
            assert score == (None if hit.doc_id in bad else truth(persona, hit.doc_id))


@pytest.mark.parametrize(
    ("connect", "fault"),
    [
        *((by_url, fault) for fault in FAULTS),
        *((by_openai, fault) for fault in ("500", "429", "drop in the body", "timeout")),
        *((by_anthropic, fault) for fault in ("500", "408", "cut body", "drop")),
    ],
)
def test_one_passage_always_fails(
    ranker: Callable[..., Ranker], connect: Connect, fault: str, tmp_path: Path
) -> None:
    ((query, docs),) = queries(1, passages=PASSAGES)
    luck = random.Random(f"{fault} {connect.__name__}")
    bad = luck.choice(list(docs))
    options = {"ledger": tmp_path / "ledger", "concurrency": luck.choice([1, 2, 64])}
    with chaos({}, always={bad: fault}) as server:
        first = ranker(server, connect, **options).rank(query, docs)
        assert_true(first, [bad])
        assert sum(each.about[1] == bad for each in server.receptions) == ATTEMPTS * TEAM
        # Only that passage is asked for again.
        before = len(server.receptions)
        again = ranker(server, connect, **options).rank(query, docs)
        assert_true(again, [bad])
        assert {each.about[1] for each in server.receptions[before:]} == {bad}
        # Once it is answered, nothing is missing any more.
        server.always = {}
        assert_true(ranker(server, connect, **options).rank(query, docs), [])
    assert verified(tmp_path / "ledger") == (1 + TEAM + TEAM * PASSAGES, [])


@pytest.mark.parametrize("seed", range(scaled(8)))
def test_some_passages_always_fail(ranker: Callable[..., Ranker], seed: int) -> None:
    luck = random.Random(seed)
    passages = luck.randint(4, 24)
    ((query, docs),) = queries(1, passages=passages)
    # Where more fail in a row, and no other call is under way, that is an outage.
    bad = luck.sample(list(docs), luck.randint(1, min(passages // 4, DOWN)))
    faults = {doc_id: luck.choice(QUICK) for doc_id in bad}
    kinds: list[dict[str, Any]] = [{}, {"top_k": 3}, {"scoring": "expected"}]
    options = luck.choice(kinds)
    with chaos({}, seed=seed, latency=(0.0, 0.003), always=faults) as server:
        ranking = ranker(server, concurrency=luck.choice([1, 3, 16, None]), **options).rank(
            query, docs
        )
    if "top_k" in options:
        assert set(doc_ids(ranking)) <= set(bad)
    else:
        assert_true(ranking, bad)


@pytest.mark.parametrize(("concurrency", "fault"), [(1, "500"), (4, "drop"), (64, "cut body")])
def test_an_outage_is_an_error_and_the_next_run_goes_on(
    ranker: Callable[..., Ranker],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    concurrency: int,
    tmp_path: Path,
) -> None:
    # No time passes: that an answer takes longer than failures is another test.
    monkeypatch.setattr("mcranker.models.Retrying", partial(Retrying, clock=lambda: 0.0))
    work = queries(2, passages=100)
    options = {"ledger": tmp_path / "ledger", "concurrency": concurrency, "query_concurrency": 1}
    with chaos({}, latency=(0.001, 0.003)) as server:
        server.always = Outage(server, fault, after=60)
        outcomes = list(ranker(server, **options).rank_many(work))
        assert all(isinstance(each.error, ModelError) for each in outcomes)
        if concurrency == 1:
            # Six tries, three for each call about three other passages, but for the last one's
            # second; and six for the recruiter of the next query.
            assert len(server.receptions) == 60 + 6 + 3 * (TEAM * DOWN - 1) + 6
        answered = server.answered
        server.always = {}
        for each in ranker(server, **options).rank_many(work):
            assert_true(each.result(), [])
        # What was on its way when the query ended may have been answered twice.
        assert server.answered <= 2 * (1 + TEAM + 100 * TEAM) + concurrency
        assert answered < 60 + concurrency


def test_a_query_that_fails_leaves_the_others_alone(ranker: Callable[..., Ranker]) -> None:
    work = queries(4, passages=12)
    bad = dict.fromkeys(work[2][1], "500")
    with chaos({}, always=bad) as server:
        made = ranker(server, concurrency=4, query_concurrency=2)
        outcomes = {each.query.id: each for each in made.rank_many(work)}
    assert isinstance(outcomes["q2"].error, ModelError)
    for name in ("q0", "q1", "q3"):
        assert_true(outcomes[name].result(), [])


def test_a_wrong_key_is_an_error_at_once(ranker: Callable[..., Ranker]) -> None:
    ((query, docs),) = queries(1, passages=PASSAGES)
    with chaos({}, always={"0-4": "401"}) as server, pytest.raises(AuthenticationFailed):
        ranker(server, concurrency=1).rank(query, docs)


def test_the_command_says_what_is_missing_and_ends_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_LEDGER", str(tmp_path / "ledger"))
    ((query, docs),) = queries(1, passages=PASSAGES)
    path = tmp_path / "docs.jsonl"
    path.write_text(
        "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in docs.items())
    )
    with chaos({}, always={"0-4": "500"}) as server:
        args = ["rank", query.text, "--docs", str(path), "--model", "openai:test"]
        args += ["--output", "json", "--base-url", server.url]
        args += ["--team-size", str(TEAM), "-o", "concurrency=1"]
        for _ in range(2):
            done = invoke(*args)
            assert done.exit_code == 3
            whole = json.loads(done.stdout)
            assert (whole["status"], whole["errors"][0]["code"]) == (
                "missing_scores",
                "MissingScores",
            )
            (hit,) = [hit for hit in whole["ranking"]["hits"] if hit["missing"]]
            assert hit["doc_id"] == "0-4"
            assert all("HTTP 500" in why for why in hit["missing"].values())
        server.always = dict.fromkeys(docs, "500")
        done = invoke(*args, "-o", "cache_variant=1", "-o", "temperature=0.5")
        assert done.exit_code == 1
        assert "HTTP 500" in done.stderr


SURROGATES = [
    "\ud800",
    "a\udfffb",
    "\ud83d\ude00",
    "\udcff" * 50,
    "\ud800 \udc00",
    "é\ud800\U0001f600",
]


@pytest.mark.parametrize("connect", [by_url, by_openai, by_anthropic])
@pytest.mark.parametrize("budget", [{}, {"max_calls": 500, "tokens_per_minute": 10**9}])
def test_text_that_is_not_unicode(
    ranker: Callable[..., Ranker], connect: Connect, budget: dict[str, Any], tmp_path: Path
) -> None:
    docs = [
        Passage(f"d{place}", f"[passage d{place}] Masks {text}", title=text)
        for place, text in enumerate(SURROGATES)
    ]
    with chaos({}) as server:
        for asked in ("masks \ud800?", "masks?"):
            made = ranker(server, connect, ledger=tmp_path / "ledger", **budget)
            query = Query(asked, "q")
            ranking = made.rank(query, docs)
            assert_true(ranking, [])
            told = ranking.to_json()
            told.encode()
            assert result(Ranking.from_dict(json.loads(told))) == result(ranking)
            ranking.to_html(tmp_path / "page.html")
            before = len(server.receptions)
            assert result(made.rank(query, docs)) == result(ranking)
            assert len(server.receptions) == before


def test_what_a_model_says_that_is_not_unicode(tmp_path: Path) -> None:
    from mcranker import ScriptedChat
    from tests.support.scripted import RECRUITS, RUBRIC

    luck = random.Random(1)
    asked = []

    def answer(request: Any) -> str:
        asked.append(request)
        for message in request.messages:
            message.content.encode()
        said: str = {"recruit": RECRUITS, "criteria": RUBRIC}.get(request.tag.stage, '{"Score": 5}')
        half = luck.choice(["\ud800", "\\ud800", ""])
        return said.replace("e", f"e{half}") if len(request.messages) < 3 else said

    with MCRanker(model=ScriptedChat(answer), ledger=tmp_path / "ledger") as made:
        for number in range(scaled(20)):
            ranking = made.rank(f"masks {number}", ["one", "two"])
            ranking.to_json().encode()
            ranking.to_html(tmp_path / "page.html")
    assert any(len(request.messages) == 3 for request in asked)
