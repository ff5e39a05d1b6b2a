"""Batch services that lie, fail, or go on for ever."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import anyio
import pytest

from mcranker.errors import MCRankerError, RateLimited, RequestRejected
from mcranker.llm.batch.notes import BatchNotes
from mcranker.llm.batch.services import MOST_PAGES, OpenAIBatches
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.attack.wire_models import KEY
from tests.attack.wire_support import TOKEN
from tests.support.batch_place import SECRET, ask, both, outcomes, text_of, texts, workplace
from tests.support.batch_server import repeated_anthropic, repeated_openai
from tests.support.loopback import Answer, Body, clean_environment, openai_error

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


@both
async def test_the_batch_api_moderates_as_well(provider: str, tmp_path: Path) -> None:
    async with workplace(provider, tmp_path) as place:
        said = {"type": "permission_error", "message": "your input was flagged"}

        def answer(body: Body) -> Answer | Body:
            if text_of(body) != "flag me":
                return (repeated_openai if provider == "openai" else repeated_anthropic)(body)
            return Answer(403, {"type": "error", "error": said})

        place.server.script = answer
        found = await outcomes(place.model(), [ask("flag me"), ask("p")])
        assert texts(found) == ["ContentRefused", "re: p"]


@both
async def test_results_may_be_redirected_nowhere(provider: str, tmp_path: Path) -> None:
    async with workplace(provider, tmp_path) as place:
        part = "/content" if provider == "openai" else "/results"
        location = {"Location": f"http://127.0.0.1:1/{TOKEN}"}
        place.server.fail("GET", part, Answer(307, {}, location))
        (error,) = await outcomes(place.model(), [ask("p")])
        assert type(error) is RequestRejected
        assert "it redirects to 'http://127.0.0.1:1'" in str(error)
        # What is paid for is fetched by the next run.
        assert texts(await outcomes(place.model(), [ask("p")])) == ["re: p"]
        assert len(place.server.jobs) == 1


async def test_a_list_of_batches_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_PAGES == 1000
    monkeypatch.setattr("mcranker.llm.batch.services.MOST_PAGES", 20)
    async with workplace("openai", tmp_path) as place:
        batch: Body = {
            "id": "other",
            "status": "in_progress",
            "processing_status": "in_progress",
            "created_at": int(place.time.now),
            "request_counts": {"total": 9},
        }
        page = {"data": [batch], "has_more": True, "last_id": "other"}
        place.server.fail("GET", "/batches", Answer(200, page), times=25)
        with anyio.fail_after(60):
            assert await place.service().find("0" * 32, place.time.now) is None
        assert len(place.server.faults) == 5


@both
async def test_a_batch_that_asks_to_wait_for_years(provider: str, tmp_path: Path) -> None:
    async with workplace(provider, tmp_path) as place:
        part = "/files" if provider == "openai" else "/batches"
        later = {"Retry-After": "999999999"}
        place.server.fail("POST", part, Answer(429, openai_error("slow"), later))
        (error,) = await outcomes(place.model(), [ask("p")])
        assert type(error) is RateLimited
        assert place.time.now - place.time.start < 3600


@both
async def test_what_a_provider_says_of_a_batch_is_one_line_without_the_key(
    provider: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcranker")
    async with workplace(provider, tmp_path) as place:
        said = f"odd\x1b[31m\n{SECRET}"
        place.server.status = "failed"
        place.server.errors = [{"code": "c", "message": said + "x" * 5000}]
        (found,) = await outcomes(place.model(), [ask("p")])
        if provider == "openai":
            assert isinstance(found, MCRankerError)
            assert str(found).isprintable()
            assert SECRET not in str(found)
            assert len(str(found)) < 600
        place.server.status = said
        place.server.errors = []
        with anyio.move_on_after(0.5):
            await outcomes(place.model(), [ask("q")])
    ours = [each.getMessage() for each in caplog.records if each.name == "mcranker.llm"]
    assert ours
    assert all(text.isprintable() and SECRET not in text for text in ours)


async def test_a_note_of_a_batch_holds_no_secret_and_is_found(tmp_path: Path) -> None:
    class Elsewhere(OpenAIChat):
        endpoint = f"https://gateway.example/{TOKEN}/v1"

    async with workplace("openai", tmp_path) as place:

        def service() -> OpenAIBatches:
            chat = Elsewhere("gpt-4.1-mini", api_key=KEY, base_url=place.server.url)
            place.chats.append(chat)
            return OpenAIBatches(chat)

        with anyio.CancelScope() as scope:
            place.time.at[3.0] = scope.cancel
            await outcomes(place.model(service()), [ask("p")])
        (path,) = place.folder.iterdir()
        assert json.loads(path.read_text())["endpoint"] == "https://gateway.example/[key]/v1"
        for endpoint in ("https://gateway.example/[key]/v1", Elsewhere.endpoint):  # as it was once
            path.write_text(json.dumps(json.loads(path.read_text()) | {"endpoint": endpoint}))
            notes = BatchNotes(place.folder)
            assert len(notes.of("openai:gpt-4.1-mini", Elsewhere.endpoint)) == 1
            assert notes.of("openai:gpt-4.1-mini", "https://gateway.example/v1") == []
        assert texts(await outcomes(place.model(service()), [ask("p")])) == ["re: p"]
        assert len(place.server.jobs) == 1
