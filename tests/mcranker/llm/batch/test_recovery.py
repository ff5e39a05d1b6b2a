from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    LedgerError,
    ModelNotFound,
)
from mcranker.llm.batch.notes import BatchNotes
from mcranker.llm.batch.services import OpenAIBatches
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.support.batch_place import SECRET, ask, both, outcomes, stopped_run, texts, workplace
from tests.support.loopback import (
    Answer,
    Drop,
    clean_environment,
    completion,
    position,
)

TOKEN = "9f86d081884c7d659a2feaa0c55ad015"

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


@both
async def test_a_run_that_is_started_again_finds_its_batch(provider: str, tmp_path: Path) -> None:
    requests = [ask(f"p{i}") for i in range(4)]
    async with workplace(provider, tmp_path) as place:
        place.server.polls = 4
        await stopped_run(place, requests, after=8)
        (note,) = place.notes
        assert (note["batch"], note["endpoint"]) == ("batch_0", place.server.url)
        assert sorted(note["requests"]) == sorted(place.server.jobs[0].keys)
        assert "p1" not in json.dumps(note)
        assert SECRET not in json.dumps(note)
        found = await outcomes(place.model(), [*requests[:2], ask("new")])
        assert texts(found) == ["re: p0", "re: p1", "re: new"]
        assert [len(job.requests) for job in place.server.jobs] == [4, 1]
        # Nobody asked for these two again, but they are paid for.
        assert [await place.kept(request) is not None for request in requests[2:]] == [True, True]
        assert place.notes == []


async def test_a_reply_without_a_caller_is_read_with_its_labels(tmp_path: Path) -> None:
    content = [position("No", Yes=0.25, No=0.75)]
    requests = [ask("p0"), ask("p1", labels=("Yes", "No"))]
    async with workplace("openai", tmp_path) as place:
        place.server.script = lambda _: completion("No", logprobs={"content": content})
        await stopped_run(place, requests, after=5)
        await place.model().complete(requests[0])
        kept = await place.kept(requests[1])
        assert kept is not None
        assert set(kept.label_logprobs or {}) == {"Yes", "No"}


@both
async def test_two_runs_at_once_send_what_they_share_once(provider: str, tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}
    async with workplace(provider, tmp_path) as place:
        place.server.polls = 4

        async def run(shared: list[str], own: str) -> None:
            requests = [ask(name) for name in (*shared, own)]
            found[own] = texts(await outcomes(place.model(), requests))

        shared = [f"p{i}" for i in range(4)]
        async with anyio.create_task_group() as group:
            group.start_soon(run, shared, "a")
            group.start_soon(run, shared, "b")
        assert found == {own: [f"re: {name}" for name in (*shared, own)] for own in "ab"}
        assert sorted(len(job.requests) for job in place.server.jobs) == [1, 5]
        assert place.notes == []


async def test_a_run_killed_between_creation_and_note_finds_its_batch(tmp_path: Path) -> None:
    requests = [ask(f"p{i}") for i in range(3)]
    async with workplace("openai", tmp_path) as place:
        for size in (3, 2):  # of other programs, before
            place.server._new([{}] * size, {})
            place.time.now += 7200
        await stopped_run(place, requests, after=3)
        for size in (1, 2, 5):  # and after
            place.server._new([{}] * size, {})
        (path,) = place.folder.iterdir()
        path.write_text(json.dumps(json.loads(path.read_text()) | {"batch": None}))
        assert texts(await outcomes(place.model(), requests)) == ["re: p0", "re: p1", "re: p2"]
        assert place.server.count("POST", "/batches") == 1
        assert place.server.count("GET", "limit=100&after") >= 1


@both
async def test_an_intention_that_came_to_nothing_is_given_up_after_a_while(
    provider: str, tmp_path: Path
) -> None:
    async with workplace(provider, tmp_path) as place:
        await stopped_run(place, [ask("p")], after=3)
        created = place.time.now
        (path,) = place.folder.iterdir()
        path.write_text(json.dumps(json.loads(path.read_text()) | {"batch": None}))
        place.server.jobs.clear()
        assert texts(await outcomes(place.model(), [ask("p")])) == ["re: p"]
        (job,) = place.server.jobs
        assert 900 < job.created - created < 900 + 60 + 3
        assert place.notes == []


async def test_a_creation_whose_answer_was_lost_is_not_repeated(tmp_path: Path) -> None:
    async with workplace("openai", tmp_path) as place:
        place.server.fail("POST", "/batches", Drop(), after=True)
        model = place.model()
        with pytest.raises(ConnectionFailed):  # it has never been reached before
            await model.complete(ask("p"))
        assert texts([await place.model().complete(ask("p"))]) == ["re: p"]
        place.server.fail("POST", "/batches", Answer(502, "bad gateway"), after=True)
        assert texts([await model.complete(ask("q"))]) == ["re: q"]
        assert place.server.count("POST", "/batches") == 2


async def test_patience_ends_and_the_batch_can_still_be_fetched(tmp_path: Path) -> None:
    async with workplace("openai", tmp_path) as place:
        place.server.fail("GET", "/batches/", Answer(500, "oops"), times=1000)
        found = await outcomes(place.model(), [ask("p"), ask("q")])
        assert texts(found) == ["ServerFailed", "ServerFailed"]
        # That is no passage's fault, so no score is missing for it.
        assert [getattr(each, "others_answered", None) for each in found] == [False, False]
        assert 3600 < place.time.now - place.time.start < 3800
        place.server.faults.clear()
        assert texts(await outcomes(place.model(), [ask("p")])) == ["re: p"]
        assert place.server.count("POST", "/batches") == 1


@both
async def test_a_wrong_key_ends_it_for_everybody(provider: str, tmp_path: Path) -> None:
    path = "/files" if provider == "openai" else "/batches"
    requests = [ask("p"), ask("q")]
    async with workplace(provider, tmp_path) as place:
        place.server.fail("POST", path, Answer(401, {"error": {"message": f"bad {SECRET}"}}))
        found = await outcomes(place.model(), requests)
        assert all(isinstance(each, AuthenticationFailed) for each in found)
        assert SECRET not in str(found)
        assert place.notes == []  # nothing was created
        place.server.fail("POST", "/batches", Answer(403, {"error": {"message": "no"}}))
        assert texts(await outcomes(place.model(), requests)) == ["AuthenticationFailed"] * 2
        assert place.notes == []
        place.server.fail("GET", "/batches/", Answer(401, {"error": {"message": "bad"}}))
        assert texts(await outcomes(place.model(), requests)) == ["AuthenticationFailed"] * 2
        assert len(place.notes) == 1
        assert texts(await outcomes(place.model(), requests)) == ["re: p", "re: q"]
        assert len(place.server.jobs) == 1


async def test_a_batch_that_is_not_there_any_more(tmp_path: Path) -> None:
    async with workplace("openai", tmp_path) as place:
        await stopped_run(place, [ask("p")], after=3)
        place.server.jobs.clear()
        (note,) = place.folder.iterdir()
        with pytest.raises(ModelNotFound, match=rf"batch_0 .* delete '{note}'"):
            await place.model().complete(ask("p"))
        note.unlink()
        assert texts([await place.model().complete(ask("p"))]) == ["re: p"]


async def test_answers_that_cannot_be_kept_can_be_fetched_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> object:
        raise LedgerError("the disk is full")

    async with workplace("openai", tmp_path) as place:
        monkeypatch.setattr(place.ledger, "keep", full)
        found = await outcomes(place.model(), [ask("p"), ask("q")])
        assert [type(each) for each in found] == [LedgerError] * 2
        monkeypatch.undo()
        assert texts(await outcomes(place.model(), [ask("p"), ask("q")])) == ["re: p", "re: q"]
        assert len(place.server.jobs) == 1


async def test_results_that_break_off_are_read_again(tmp_path: Path) -> None:
    async with workplace("openai", tmp_path) as place:
        place.server.fail("GET", "/content", Drop(b'{"custom_id": '))
        place.server.fail("GET", "/content", Answer(200, "no line of results"))
        found = await outcomes(place.model(), [ask("p"), ask("q")])
        assert texts(found) == ["re: p", "re: q"]
        assert len(place.server.jobs) == 1


async def test_a_note_of_a_batch_holds_no_secret_and_is_found(tmp_path: Path) -> None:
    elsewhere = f"https://gateway.example/{TOKEN}/v1"
    async with workplace("openai", tmp_path) as place:

        def service() -> OpenAIBatches:
            chat = OpenAIChat("gpt-4.1-mini", api_key=SECRET, base_url=place.server.url)
            chat.endpoint = elsewhere
            place.chats.append(chat)
            return OpenAIBatches(chat)

        with anyio.CancelScope() as scope:
            place.time.at[3.0] = scope.cancel
            await outcomes(place.model(service()), [ask("p")])
        (path,) = place.folder.iterdir()
        assert json.loads(path.read_text())["endpoint"] == "https://gateway.example/[key]/v1"
        notes = BatchNotes(place.folder)
        assert len(notes.of("openai:gpt-4.1-mini", elsewhere)) == 1
        assert notes.of("openai:gpt-4.1-mini", "https://gateway.example/v1") == []
        assert texts(await outcomes(place.model(service()), [ask("p")])) == ["re: p"]
        assert len(place.server.jobs) == 1
