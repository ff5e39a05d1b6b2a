"""One passage that always fails is a missing score; a model that is down is an error.

Time is virtual: the tries and the waits between them take minutes, the tests do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import anyio
import pytest

from mcranker import (
    ChatRequest,
    ConnectionFailed,
    MCRanker,
    ModelError,
    ModelTimeout,
    Ranking,
    RateLimited,
    RequestRejected,
    ScriptedChat,
    ServerFailed,
)
from mcranker.llm.chat import ChatReply, Tag
from mcranker.llm.limits.rate_limiter import RateLimiter
from mcranker.llm.limits.retries import Retrying
from mcranker.rankers.direct import DirectRanker
from tests.support.scripted import RECRUITS, RUBRIC
from tests.support.virtual_time import now, simulate

ANSWER, FAILURE = 0.2, 0.05  # seconds until an answer, and until a failure

Fails = Callable[[ChatRequest, int], bool]


class Outcome(NamedTuple):
    result: Ranking | ModelError
    seconds: float
    asked: int

    @property
    def missing(self) -> list[str]:
        """The passages with a missing score."""
        assert isinstance(self.result, Ranking), self.result
        return list(dict.fromkeys(each.doc_id for each in self.result.missing))

    @property
    def error(self) -> ModelError:
        assert isinstance(self.result, ModelError), self.result
        return self.result


@pytest.fixture(autouse=True)
def virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    # Virtual time costs nothing.
    monkeypatch.setattr("mcranker.llm.models.FIRST_WAIT", 0.5)
    monkeypatch.setattr("mcranker.llm.limits.rate_limiter.FIRST_PAUSE", 1.0)
    monkeypatch.setattr("mcranker.llm.models.RateLimiter", partial(RateLimiter, clock=now))
    monkeypatch.setattr("mcranker.llm.models.Retrying", partial(Retrying, clock=now))


def rank(
    monkeypatch: pytest.MonkeyPatch,
    passages: int,
    concurrency: int,
    fails: Fails,
    *,
    error: Callable[[], ModelError] = lambda: ServerFailed("HTTP 500"),
    after: float = FAILURE,
    team: int = 0,
    **options: Any,
) -> Outcome:
    """Rank with a model that is retried like any that is named; with `team`, by so many."""
    asked = 0

    async def answer(request: ChatRequest) -> str:
        nonlocal asked
        asked += 1
        if fails(request, asked):
            await anyio.sleep(after)
            raise error()
        await anyio.sleep(ANSWER)
        said = {"recruit": RECRUITS, "criteria": RUBRIC, "assess": '{"Final score": 5}'}
        return said.get(request.tag.stage, '{"Score": 5}')

    chat = ScriptedChat(answer, name="openai:test")
    monkeypatch.setattr("mcranker.llm.models.connect", lambda *_, **__: chat)
    docs = {f"p{place}": f"text {place}" for place in range(passages)}

    async def main() -> Outcome:
        began = now()
        common: dict[str, Any] = {"model": "openai:test", "ledger": None, **options}
        ranker = (
            MCRanker(team_size=team, concurrency=concurrency, **common)
            if team
            else DirectRanker(concurrency=concurrency, **common)
        )
        result: Ranking | ModelError
        try:
            result = await ranker.arank("q", docs)
        except ModelError as failure:
            result = failure
        return Outcome(result, now() - began, asked)

    return simulate(main())


def of(*doc_ids: str) -> Fails:
    """Whether a request is about one of these passages."""
    return lambda request, _: request.tag.doc_id in doc_ids


def after(calls: int) -> Fails:
    """Whether a request comes after so many."""
    return lambda _, asked: asked > calls


@pytest.mark.parametrize("concurrency", [1, 3, 16])
@pytest.mark.parametrize(
    "bad",
    [
        ["p0"],
        ["p27", "p28", "p29"],
        [f"p{place}" for place in range(0, 30, 2)],
    ],
    ids=["first", "the last three", "every other"],
)
def test_passages_that_always_fail_are_missing(
    monkeypatch: pytest.MonkeyPatch, concurrency: int, bad: list[str]
) -> None:
    assert rank(monkeypatch, 30, concurrency, of(*bad)).missing == bad


def test_a_passage_that_never_comes_back_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def late() -> ModelError:
        return ModelTimeout("no complete answer within 120 s")

    assert rank(monkeypatch, 12, 1, of("p3"), error=late, after=120.0).missing == ["p3"]


@pytest.mark.parametrize("passages", [1, 40])
@pytest.mark.parametrize("concurrency", [1, 16])
def test_where_no_score_is_answered_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch, passages: int, concurrency: int
) -> None:
    def score(request: ChatRequest, _: int) -> bool:
        return request.tag.stage == "score"

    for team in (0, 3):
        outcome = rank(monkeypatch, passages, concurrency, score, team=team)
        assert str(outcome.error) == "HTTP 500"


@pytest.mark.parametrize(
    ("concurrency", "error", "after_seconds", "longest"),
    [
        # Six tries with waits of 0.5 + 1 + 2 + 4 + 8 s at most, then three times three tries
        # with waits of 0.5 + 1 s, one after the other; and what the tries take.
        (1, lambda: ServerFailed("500"), FAILURE, 15.5 + 3 * 1.5 + 15 * FAILURE),
        # Here the three come at once.
        (16, lambda: ServerFailed("500"), FAILURE, 15.5 + 1.5 + 9 * FAILURE),
        # Three tries until the 300 s of a call are over, then one of another passage.
        (1, lambda: ModelTimeout("late"), 120.0, 3 * 120.0 + 1.5 + 120.0),
        (16, lambda: ModelTimeout("late"), 120.0, 3 * 120.0 + 1.5 + 120.0),
        # It asks for more than the 300 s that a call may take.
        (16, lambda: RateLimited("429", retry_after=1000.0), FAILURE, FAILURE),
    ],
    ids=["500", "500 at once", "late", "late at once", "long at once"],
)
def test_an_outage_in_the_middle_ends_the_query_in_time(
    monkeypatch: pytest.MonkeyPatch,
    concurrency: int,
    error: Callable[[], ModelError],
    after_seconds: float,
    longest: float,
) -> None:
    outcome = rank(monkeypatch, 200, concurrency, after(50), error=error, after=after_seconds)
    assert type(outcome.error) is type(error())
    assert outcome.seconds <= 50 / concurrency * ANSWER + ANSWER + longest + 0.01
    # Six tries for those under way, three for those that came after; a few may come after these
    # before the third of them is given up.
    assert outcome.asked <= 50 + 9 * concurrency + 3 * max(3, concurrency)


def test_a_server_that_was_never_there_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> ModelError:
        return ConnectionFailed("nobody there")

    for concurrency in (1, 64):
        outcome = rank(monkeypatch, 200, concurrency, after(0), error=gone)
        assert str(outcome.error) == "nobody there"
        assert outcome.seconds < 2.5


async def ask(retrying: Retrying, *, doc_id: str = "") -> ModelError | None:
    try:
        await retrying.complete(ChatRequest((), Tag("score", doc_id=doc_id)))
    except ModelError as error:
        return error
    return None


def test_a_request_that_is_rejected_shows_that_the_model_is_up() -> None:
    async def answer(request: ChatRequest) -> ChatReply:
        await anyio.sleep(0.1)
        if request.tag.doc_id == "bad":
            raise ServerFailed("HTTP 500")
        raise RequestRejected("HTTP 400")

    async def main() -> list[bool | None]:
        limits = RateLimiter(concurrency=4, clock=now)
        retrying = Retrying(ScriptedChat(answer), limits, attempts=2, clock=now)
        said: list[bool | None] = []

        async def bad() -> None:
            error = await ask(retrying, doc_id="bad")
            assert error is not None
            said.append(error.others_answered)

        async with anyio.create_task_group() as group:
            group.start_soon(bad)
            await anyio.sleep(0.15)
            await ask(retrying)
        await bad()
        return said

    assert simulate(main()) == [True, None]
