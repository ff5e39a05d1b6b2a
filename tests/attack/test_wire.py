"""Hostile and broken servers: what comes over the wire is bounded, masked, and read as data."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from mcranker.cli import cli
from mcranker.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    ContentRefused,
    MCRankerError,
    ModelError,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm import masking
from mcranker.llm.batch.anthropic_batches import AnthropicBatches
from mcranker.llm.batch.notes import BatchGroup, BatchNote, BatchNotes
from mcranker.llm.batch.openai_batches import OpenAIBatches
from mcranker.llm.batch.protocol import MOST_PAGES
from mcranker.llm.chat import ChatReply, ChatRequest, Message, Question, Tag
from mcranker.llm.connect import connect
from mcranker.llm.masking import shown_url
from mcranker.llm.providers import (
    anthropic_messages,
    endpoint,
    http_errors,
    openai_chat,
    openai_decisions,
    parameters,
    token_counts,
)
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_errors import (
    MESSAGE_LIMIT,
    PAGE_LIMIT,
    READ_LIMIT,
    Problem,
    Service,
    error_for,
    parse_object,
    read_problem,
)
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.openai_decisions import decision_reply
from mcranker.llm.providers.openai_protocol import chat_reply
from mcranker.llm.providers.token_counts import MOST_TOKENS
from tests.attack.raw_server import (
    Asked,
    Script,
    Wire,
    bomb,
    endless,
    endless_chunks,
    sends,
    serve_raw,
)
from tests.attack.scale import scaled
from tests.attack.wire_models import CHATS, CHECKS, KEY, RESULTS, Call, backend
from tests.support.batch_place import SECRET, ask, both, outcomes, text_of, texts, workplace
from tests.support.batch_server import repeated_anthropic, repeated_openai
from tests.support.beir_folder import write_folder
from tests.support.loopback import (
    Answer,
    Body,
    anthropic_message,
    clean_environment,
    completion,
    openai_error,
    position,
    serve,
    serve_in_thread,
)

SERVICE = Service("openai:m", "OpenAI", "set THE_KEY", "look", "start it", 5.0, key=KEY)
MIB = 2**20

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)
    token_counts._warned.clear()


@asynccontextmanager
async def asking(name: str, root: str, seconds: float = 10.0) -> AsyncIterator[Call]:
    """What makes one call of a back-end."""
    call, close = backend(name, root, seconds)
    try:
        yield call
    finally:
        await close()


async def failure(call: Call) -> ModelError:
    """The error that a call ends with."""
    with anyio.fail_after(30), pytest.raises(ModelError) as caught:
        await call()
    return caught.value


async def failure_of(name: str, root: str, seconds: float = 10.0) -> ModelError:
    """The error that one call of a back-end ends with."""
    async with asking(name, root, seconds) as call:
        return await failure(call)


# --- error pages and patterns -----------------------------------------------------------

FILLERS = (
    "a", "a*", "*", "<", "<a", "<a>", "</", " ", "\n", "1", "exceed", "exceed ", "prompt ",
    "sk-", "Bearer ", "eyJ", "http://", "https://a@", "@", "%41", "=", "/", "?&", "flagged ",
    "account ", "context_", "-", "é", "\x00", "(", ".", "_", "****a",
)  # fmt: skip


@pytest.mark.parametrize("filler", FILLERS)
def test_no_error_page_takes_long_to_read(filler: str) -> None:
    page = (filler * MIB)[:MIB]
    bodies = [
        page.encode(),
        f"<html><img src='data:image/png;base64,{page}'></html>".encode(),
        json.dumps({"error": {"message": page, "code": page, "param": page}}).encode(),
        json.dumps({"detail": [{"loc": [page, 1], "msg": page}] * 2}).encode(),
    ]
    start = time.process_time()
    for body in bodies:
        for status in (400, 500):
            problem = read_problem(status, body, {"retry-after": page[:8000], "location": page})
            parameters.refused_parameter(problem, {"seed": 1, "max_tokens": 5})
            assert len(str(error_for(problem, SERVICE))) < MESSAGE_LIMIT + 200
    assert time.process_time() - start < 2.0  # of 8 pages; a quadratic pattern takes minutes


def test_no_pattern_takes_long_on_what_it_is_given() -> None:
    modules = (http_errors, masking, parameters, endpoint, openai_chat, openai_decisions)
    patterns = {
        (module.__name__, name): pattern
        for module in (*modules, anthropic_messages)
        for name, pattern in vars(module).items()
        if isinstance(pattern, re.Pattern)
    }
    assert len(patterns) > 15
    for place, pattern in patterns.items():
        for filler in FILLERS:
            text = (filler * READ_LIMIT)[:READ_LIMIT]
            assert _seconds(pattern, text) < 0.010, (place, filler)
            # Ten times the text takes ten times as long, not a hundred times.
            assert _seconds(pattern, text * 10) < 0.100, (place, filler)


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    """Of this thread alone, so that no other process counts."""
    start = time.thread_time()
    pattern.search(text)
    return time.thread_time() - start


@pytest.mark.parametrize("name", ["openai", "compatible", "anthropic"])
async def test_an_error_page_with_an_inlined_image(name: str) -> None:
    page = f"<html><h1>Bad gateway</h1><img src='data:image/png;base64,{'iVBORw0K' * 60_000}'>"
    head = f"HTTP/1.1 502 x\r\nContent-Length: {len(page)}\r\n\r\n".encode()
    async with serve_raw(sends(head, page.encode())) as server:
        start = time.process_time()
        error = await failure_of(name, server.root)
    assert time.process_time() - start < 3.0
    assert type(error) is ServerFailed
    assert "Bad gateway" in str(error)


# --- secrets ----------------------------------------------------------------------------


def _pages_with(key: str, place: int) -> Iterator[bytes]:
    """Error pages in which a key begins at about this place."""
    for filler in ("x", "x ", "iVBORw0K"):
        before = (filler * place)[:place]
        # A shape within a word is none.
        for between in ("", " ", '"', "=") if key == KEY else (" ", '"', "="):
            page = f"{before}{between}{key} {filler * 50}"
            yield page.encode()
            yield json.dumps({"error": {"message": page}}).encode()
            yield f"<p>{page}</p>".encode()
            yield f"{'<br>' * (place // 8)}{page}".encode()


@pytest.mark.parametrize("edge", [80, MESSAGE_LIMIT, READ_LIMIT, PAGE_LIMIT])
def test_no_cut_shows_half_a_key(edge: int) -> None:
    random_places = random.Random(edge)
    for _ in range(scaled(8)):
        place = max(0, edge + random_places.randint(-len(KEY) - 12, 3))
        for key in (KEY, "sk-proj-Ab12Cd34Ef56Gh78"):
            for page in _pages_with(key, place):
                texts = [str(error_for(read_problem(401, page, {}), SERVICE))]
                with pytest.raises(ServerFailed) as caught:
                    parse_object(b"!" + page, SERVICE)
                texts.append(str(caught.value))
                for text in texts:
                    found = [n for n in range(6, len(key)) if key[:n] in text]
                    # A shape shows when six characters follow its beginning.
                    assert not found or (key is not KEY and found[-1] < len("sk-proj-")), text


ADDRESSES = [
    ("https://h/v1?api_key=hunter2", "https://h/v1?api_key=[key]"),
    ("https://h/v1?hunter2", "https://h/v1?[key]"),
    ("https://h/v1#hunter2", "https://h/v1#[key]"),
    ("https://me:hunter2@h/v1", "https://[key]@h/v1"),
    ("https://me:hun/ter2@h/v1", "https://[key]@h/v1"),
    ("https://hunter2@h:8/v1", "https://[key]@h:8/v1"),
    ("me:hunter2@h", "[key]@h"),
    ("https://h/token=hunter2/v1", "https://h/[key]/v1"),
    ("https://h/sk-hunter2hunter2/v1", "https://h/[key]/v1"),
    ("https://h/3f2504e0-4f89-11d3-9a0c-0305e82c3301/v1", "https://h/[key]/v1"),
    ("https://h/9f86d081884c7d659a2feaa0c55ad015/v1", "https://h/[key]/v1"),
    ("https://h/q0Zt_Yw8-Lr3pXe5Vb7Nn1Mm4Kk6Jj9Hh2Gg0Ff/v1", "https://h/[key]/v1"),
    ("https://h/%73k-hunter2hunter2/v1", "https://h/[key]/v1"),
    ("sk-hunter2hunter2", "[key]"),
]
PLAIN_ADDRESSES = [
    "https://api.openai.com/v1",
    "http://localhost:8000/v1",
    "http://[::1]:8000/v1",
    "https://x.openai.azure.com/openai/deployments/gpt-4o-mini-2024-07-18",
    "https://api.cloudflare.com/client/v4/@cf/meta/llama-3.1-8b-instruct",
    "https://h/models/Qwen2.5-72B-Instruct/v1",
    "https://h/models/Llama-3.3-70B-Instruct-Turbo-FP8/v1",
    "http://[::1",
    "http://h:x",
    "",
]


@pytest.mark.parametrize(("url", "shown"), ADDRESSES)
def test_no_secret_of_an_address_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert shown_url(shown) == shown


@pytest.mark.parametrize("url", PLAIN_ADDRESSES)
def test_an_address_without_secrets_is_shown_as_it_is(url: str) -> None:
    assert shown_url(url) == url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("me:hunter2@proxy:3128", "[key]@proxy:3128"),
        ("at 'me:hunter2@proxy:x'", "at '[key]@proxy:x'"),
        ("url=https://me:hunter2@h/v1?k=hunter2", "url=https://[key]@h/v1?k=[key]"),
        ("see https://platform.openai.com/account/api-keys.", None),
        ("at 12:30, write to me@example.org (a:b)", None),
        ("task-specific risk-averse", None),
    ],
)
def test_secrets_in_a_text(text: str, shown: str | None) -> None:
    assert masking.masked(text) == (shown or text)


# The providers' libraries use what aiohttp will drop one day.
@pytest.mark.filterwarnings("ignore:.*will be removed:DeprecationWarning")
@pytest.mark.parametrize("name", ["openai", "compatible", "anthropic"])
@pytest.mark.parametrize(
    "proxy", ["http://me:hunter2@127.0.0.1:9", "me:hunter2@nonsense:x", "http://me:hunter2@a..b:9"]
)
async def test_the_password_of_a_proxy_is_never_shown(
    name: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    error = await failure_of(name, "http://inside.example")
    assert type(error) is ConnectionFailed
    assert "hunter2" not in str(error)


def test_any_text_can_be_shown_as_an_address() -> None:
    letters = random.Random(7)
    for _ in range(scaled(3000)):
        text = "".join(letters.choices(":/@?#[]%.=&a1\x00é\ud800 ", k=letters.randint(0, 30)))
        assert len(shown_url(f"http://{text}")) < 200


SECRET_URLS = ["https://me:hunter2@h", "https://h/v1?k=hunter2", "https://h/v1#hunter2"]


@pytest.mark.parametrize("url", SECRET_URLS)
@pytest.mark.parametrize("model", ["openai:m", "anthropic:m"])
def test_a_refused_address_is_not_shown(
    url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(model, base_url=url, api_key="k")
    assert "base_url=" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        connect(None, base_url=url)
    assert "hunter2" not in str(caught.value)
    variable = f"{model.partition(':')[0].upper()}_BASE_URL"
    monkeypatch.setenv(variable, url)
    with pytest.raises(ConfigError) as caught:
        connect(model, api_key="k")
    assert str(caught.value).startswith(f"{variable}=")
    assert "hunter2" not in str(caught.value)


TOKEN = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize("name", [*CHATS, *CHECKS])
async def test_a_token_in_the_path_is_never_shown(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcranker")
    said = f"no route /{TOKEN}/v1 for {KEY} at http://127.0.0.1/{TOKEN}/v1?x={TOKEN}".encode()
    head = b"HTTP/1.1 %s x\r\nLocation: http://u:%s@h/%s\r\nContent-Length: %d\r\n\r\n"
    errors: list[ModelError] = []
    async with (
        serve_raw(sends()) as server,
        asking(name, f"{server.root}/{TOKEN}") as call,
    ):
        for status in (b"401", b"404", b"500", b"302", b"200"):
            token = TOKEN.encode()
            server.script = sends(head % (status, token, token, len(said)), said)
            errors.append(await failure(call))
    assert f"/{TOKEN}/" in server.asked[0].line
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("mcranker")]
    for text in (*map(str, errors), *ours):
        assert TOKEN not in text
        assert KEY not in text


def test_nothing_that_is_kept_holds_a_secret(tmp_path: Path) -> None:
    from beir_eval.experiment.run import run_suite
    from tests.support.experiment_support import plan, suite

    asked = {"n": 0}

    def answer(_: Body) -> Answer | Body:
        asked["n"] += 1
        said = f"bad key {KEY} for /{TOKEN}/v1"
        return completion('{"Score": 7}') if asked["n"] % 2 else Answer(400, openai_error(said))

    with serve_in_thread(answer) as server:
        options = {
            "base_url": f"{server.root}/{TOKEN}/v1",
            "api_key": KEY,
            "ledger": tmp_path / "ledger.sqlite",
        }
        out = plan(tmp_path / "out", "openai:m", options=options, limit=2)
        with contextlib.suppress(MCRankerError):
            run_suite(suite(write_folder(tmp_path / "tiny"), "DIRECT"), out)
    assert asked["n"] > 2
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "manifest.json" for path in files)
    assert any(b"/[key]/v1" in path.read_bytes() for path in files)
    for path in files:
        assert TOKEN.encode() not in path.read_bytes(), path
        assert KEY.encode() not in path.read_bytes(), path


def test_a_suite_is_shown_without_the_secrets_of_its_address(tmp_path: Path) -> None:
    from beir_eval.cli.suites import command

    file = tmp_path / "mine.toml"
    address = f"https://gateway.example/{TOKEN}/v1"
    file.write_text(
        f'title = "t"\ndatasets = ["mini"]\n[settings]\nbase_url = "{address}"\n'
        '[[rankers]]\nlabel = "a"\nranker = "direct"\n'
    )
    for args in ([str(file)], [str(file), "--output", "json"]):
        shown = CliRunner().invoke(command, args, standalone_mode=False, catch_exceptions=False)
        assert "https://gateway.example/[key]/v1" in shown.stdout.replace("\n", "")
        assert TOKEN not in shown.stdout


# --- which key, and where it comes from -------------------------------------------------


@pytest.mark.parametrize(
    ("model", "base_url", "variable"),
    [
        ("openai:m", None, "OPENAI_API_KEY"),
        ("openai:m", "http://127.0.0.1:1/v1", "OPENAI_API_KEY"),
        ("anthropic:m", None, "ANTHROPIC_API_KEY"),
        ("anthropic:m", "http://127.0.0.1:1", "ANTHROPIC_API_KEY"),
    ],
)
def test_messages_name_the_variable_of_the_key(
    model: str, base_url: str | None, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "two words")
    with pytest.raises(AuthenticationFailed, match=rf"copy it again and set {variable}$"):
        connect(model, base_url=base_url)
    with pytest.raises(AuthenticationFailed, match=r"copy it again and pass it as api_key=$"):
        connect(model, base_url=base_url, api_key="two words")
    monkeypatch.setenv(variable, "k")
    service: Service = connect(model, base_url=base_url)._service  # type: ignore[attr-defined]
    assert f"(set {variable} or pass api_key=)" in str(error_for(Problem(401), service))


# --- addresses that cannot be -----------------------------------------------------------


@pytest.mark.parametrize("model", ["openai:m", "anthropic:m"])
@pytest.mark.parametrize(
    "url",
    [
        "", "  ", "http://a..b", "http://.a", "http://a b", "http://h/a b", "http://h:99999/v1",
        "http://h:0", "http://h\n/v1", "http://h/v1\nx", "http://h\t/v1", "http://h/\x00",
        "http://\udcff/", "http://h/\udcff", "http://h/v1#x", "http://h/v1#", "http://h/v1?",
        f"http://{'a' * 64}.example", "http://-a", "http://h\\x", "http://%61b", "http://[::1",
        "http://[::1]x", "http://xn--/", "http://@h", "http://:8000", "http:///v1", "//h/v1",
        "h", "file:///etc/passwd", "javascript:0", "http://" + ".".join(["abcdefgh"] * 32),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be(url: str, model: str) -> None:
    with pytest.raises(ConfigError, match=r"^base_url='"):
        connect(model, base_url=url, api_key="k")


@pytest.mark.parametrize(
    "url",
    ["http://h/v1", "HTTP://H/V1", "http://my_host:8000", "http://h.", "http://127.0.0.1:65535",
     "http://[::1]:8/v1", "https://b\u00fccher.example/v1", "http://h/a%20b", " http://h/v1 "],
)  # fmt: skip
def test_an_address_that_can_be(url: str) -> None:
    assert connect("openai:m", base_url=url).endpoint == url.strip()  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", [("rank", "q", "a"), ("doctor",)])
def test_an_empty_address_on_the_command_line(verb: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*verb, "--model", "openai:m", "--base-url", ""])
    assert done.exit_code in (1, 2)
    assert "--base-url is empty; leave it out" in done.output


def test_an_empty_address_of_an_experiment(tmp_path: Path) -> None:
    from beir_eval.cli.group import cli as beir_eval

    folder = write_folder(tmp_path / "tiny")
    args = ["run", "--ranker", "direct", "--dataset", str(folder), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(beir_eval, [*args, "--model", "openai:m", "--base-url", ""])
    assert done.exit_code != 0
    assert "--base-url is empty; leave it out" in done.output


def test_no_address_goes_with_a_local_model_or_a_model_object() -> None:
    with pytest.raises(ConfigError, match="takes no base_url="):
        connect("local:smollm2-135m", base_url="")
    with pytest.raises(ConfigError, match="go with a model's name"):
        connect(connect("openai:m", api_key="k"), base_url="")


# --- redirects --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CHATS, *CHECKS, *RESULTS])
async def test_no_redirect_is_followed(name: str) -> None:
    async with (
        serve_raw(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as other,
        serve_raw(sends()) as server,
        asking(name, server.root) as call,
    ):
        target = other.root.replace("http://", f"http://u:{TOKEN}@")
        for status in (301, 302, 303, 307, 308):
            location = f"Location: {target}/{TOKEN}?k=1\r\nContent-Length: 0\r\n\r\n"
            server.script = sends(f"HTTP/1.1 {status} x\r\n{location}".encode())
            error = await failure(call)
            assert type(error) is RequestRejected
            shown = other.root.replace("http://", "http://[key]@")
            assert f"it redirects to '{shown}', and prompts are not sent on" in str(error)
            assert "set base_url= to it" in str(error)
            assert TOKEN not in str(error)
    assert not other.asked


LOCATIONS = {
    b"": "another path",
    b"/v1/": "another path",
    b"//other.example/x": "'other.example'",
    b"http://[::1": "'http://[::1'",
    b"http://h\x80\xff:99999/": "'http://h",
    b"x" * 8000: "another path",
    b"http://" + b"h" * 7000: "'http://hhh",
}


@pytest.mark.parametrize("name", CHATS)
async def test_a_redirect_to_anywhere(name: str) -> None:
    async with serve_raw(sends()) as server, asking(name, server.root) as call:
        for location, said in LOCATIONS.items():
            head = b"HTTP/1.1 307 x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
            server.script = sends(head % location)
            error = await failure(call)
            assert type(error) is RequestRejected
            assert f"it redirects to {said}" in str(error)
            check_message(error)


# --- moderation -------------------------------------------------------------------------


FLAGGED: tuple[Body, ...] = (
    {"message": 'This model requires moderation and your input was flagged for "violence".'},
    {"message": "Your request was rejected as a result of our safety system."},
    {"message": "no", "code": "content_policy_violation"},
    {"message": "no", "code": "content_filter"},
    {"message": "The user input was flagged by Responsible AI"},
    {"message": "The prompt was flagged as potentially violating our usage policy"},
)


@pytest.mark.parametrize("name", CHATS)
async def test_a_flagged_text_is_refused_and_the_key_is_not_blamed(name: str) -> None:
    async with serve(lambda _: {}) as server, asking(name, server.root) as call:
        for status in (400, 403):
            for said in FLAGGED:
                answer = Answer(status, {"error": said})
                server.script = lambda _, answer=answer: answer  # type: ignore[misc]
                error = await failure(call)
                assert type(error) is ContentRefused, said
                assert "leave this passage out" in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "Your account has been flagged for suspicious activity",
        "This organization was flagged",
        "your API key was flagged as leaked",
        "Country, region, or territory not supported",
        "",
    ],
)
def test_an_account_without_the_right_is_not_a_refusal(said: str) -> None:
    body = json.dumps({"error": {"message": said}}).encode()
    assert type(error_for(read_problem(403, body, {}), SERVICE)) is AuthenticationFailed


async def test_a_flagged_passage_is_a_missing_score() -> None:
    from mcranker import DirectRanker

    def answer(body: Body) -> Answer | Body:
        if "flag me" in json.dumps(body):
            return Answer(403, {"error": {"code": 403, "message": "your input was flagged"}})
        return completion('{"Score": 7}')

    async with serve(answer) as server:
        ranker = DirectRanker(model="openai:m", base_url=server.url, api_key="k", ledger=None)
        async with ranker:
            ranking = await ranker.arank("masks", ["masks help", "flag me", "masks do not"])
    assert [hit.doc_id for hit in ranking] == ["0", "2", "1"]
    assert [(each.doc_id, "flagged" in each.reason) for each in ranking.missing] == [("1", True)]


# --- batches ----------------------------------------------------------------------------


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


@both
async def test_a_list_of_batches_without_end(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_PAGES == 1000
    monkeypatch.setattr(f"mcranker.llm.{provider}_batches.MOST_PAGES", 20)
    async with workplace(provider, tmp_path) as place:
        batch: Body = {
            "id": "other",
            "status": "in_progress",
            "processing_status": "in_progress",
            "created_at": int(place.time.now),
            "request_counts": {"total": 9},
        }
        if provider == "anthropic":
            batch["created_at"] = datetime.fromtimestamp(place.time.now, UTC).isoformat()
        page = {"data": [batch], "has_more": True, "last_id": "other"}
        place.server.fail("GET", "/batches", Answer(200, page), times=25)
        groups = (BatchGroup(stage="score", keys=("a" * 64,)),)
        note = BatchNote(
            model="m", endpoint="e", mark="0" * 32, created=place.time.now, groups=groups
        )
        with anyio.fail_after(60):
            assert await place.service().find(note, set()) is None
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


# --- bodies without end -----------------------------------------------------------------

FAULTS: Mapping[str, Script] = {
    "endless": endless(),
    "chunks": endless_chunks(),
    "gzip": bomb("gzip"),
    "deflate": bomb("deflate"),
    "error": endless(b"500 x", b"no " * 2**14),
    "refusal": endless(b"400 x", b"no " * 2**14),
    "gzip-error": bomb("gzip", status=b"401 x"),
}
ENDS = [*["ServerFailed"] * 5, "RequestRejected", "AuthenticationFailed"]


async def _by_path(asked: Asked, wire: Wire) -> None:
    fault = asked.line.split("/")[1]
    if fault == "ok":
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    else:
        await FAULTS[fault](asked, wire)


@pytest.mark.parametrize("name", ["openai", "compatible", "anthropic", *RESULTS])
async def test_no_body_fills_the_memory(name: str) -> None:
    """Seven bodies of 512 MiB or 2 GiB each; 8 MiB are read of a reply, at most."""
    async with serve_raw(_by_path) as server:
        command = [sys.executable, "-m", "tests.attack.wire_models", name, server.root, *FAULTS]
        with anyio.fail_after(120):
            done = await anyio.run_process(command)
    said = json.loads(done.stdout)
    assert said["ends"] == ENDS
    assert said["grown"] < 64, "MiB"  # twice 8 MiB, and what the allocator keeps
    # What the sockets hold is sent in vain.
    assert server.sent < len(FAULTS) * 32 * MIB


async def test_results_of_a_batch_are_long_but_their_lines_are_not() -> None:
    line = json.dumps({"custom_id": "x", "text": "y" * MIB}).encode() + b"\n"

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(20):  # 20 MiB in all, more than one reply may have
            await wire.send(line)

    async with serve_raw(script) as server:
        for name in RESULTS:
            async with asking(name, server.root) as call:
                assert await call() == 20


@pytest.mark.parametrize("name", CHATS)
async def test_nobody_is_asked_to_compress_and_everybody_may(name: str) -> None:
    import gzip

    replies = {"anthropic": anthropic_message("7"), "decisions": DECISION_REPLY}
    body = gzip.compress(json.dumps(replies.get(name, completion("7"))).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    async with (
        serve_raw(sends(head % len(body), body)) as server,
        asking(name, server.root) as call,
    ):
        reply = await call()
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.answers) in [("7", None), ("", (10.0,))]
    assert "accept-encoding: identity\r\n" in server.asked[0].headers.lower()


# --- broken HTTP ------------------------------------------------------------------------

GOOD = b"HTTP/1.1 200 OK\r\n"
WIRE_FAULTS: Mapping[str, tuple[bytes, ...]] = {
    "nothing": (b"",),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n",),
    "garbage": (bytes(range(256)) * 40,),
    "empty": (GOOD + b"Content-Length: 0\r\n\r\n",),
    "status 100": (b"HTTP/1.1 100 Continue\r\n\r\n",),
    "status 101": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",),
    "many 100s": (b"HTTP/1.1 100 Continue\r\n\r\n" * 5000,),
    "status 204": (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "status 206": (b'HTTP/1.1 206 Partial\r\nContent-Length: 4\r\n\r\n{"a"',),
    "status 304": (b"HTTP/1.1 304 Not Modified\r\n\r\n",),
    "status 000": (b"HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n",),
    "status 600": (b"HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",),
    "status 999": (b"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",),
    "status 99999": (b"HTTP/1.1 99999 x\r\nContent-Length: 0\r\n\r\n",),
    "status x": (b"HTTP/1.1 abc x\r\nContent-Length: 0\r\n\r\n",),
    "version 9": (b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}",),
    "odd reason": (b"HTTP/1.1 500 \xff\xfe\x80\r\nContent-Length: 0\r\n\r\n",),
    "long header": (GOOD + b"X: " + b"a" * 200_000 + b"\r\n\r\n{}",),
    "endless first line": (b"HTTP/1.1 200 " + b"a" * 200_000,),
    "many headers": (GOOD + b"X: 1\r\n" * 20_000 + b"\r\n{}",),
    "odd header": (GOOD + b"X\x00: \xff\r\nContent-Length: 2\r\n\r\n{}",),
    "header without colon": (GOOD + b"oops\r\nContent-Length: 2\r\n\r\n{}",),
    "length too long": (GOOD + b"Content-Length: 9999\r\n\r\n{}",),
    "length too short": (GOOD + b'Content-Length: 2\r\n\r\n{"a": 1}',),
    "length huge": (GOOD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",),
    "length negative": (GOOD + b"Content-Length: -2\r\n\r\n{}",),
    "length no number": (GOOD + b"Content-Length: x\r\n\r\n{}",),
    "two lengths": (GOOD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",),
    "length and chunks": (GOOD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",),
    "chunk cut": (GOOD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}",),
    "chunk too long": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}{}{}\r\n0\r\n\r\n",),
    "chunk huge": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 40 + b"\r\n{}",),
    "chunk negative": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}",),
    "chunk no number": (GOOD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",),
    "chunk extension": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * 200_000,),
    "chunk without end": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",),
    "trailers": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: 1\r\n" * 20_000,),
    "no gzip": (GOOD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",),
    "gzip cut": (GOOD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",),
    "no deflate": (GOOD + b"Content-Encoding: deflate\r\nContent-Length: 2\r\n\r\n{}",),
    "no brotli": (GOOD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",),
    "no zstd": (GOOD + b"Content-Encoding: zstd\r\nContent-Length: 2\r\n\r\n{}",),
    "unknown encoding": (GOOD + b"Content-Encoding: x\xff\r\nContent-Length: 1\r\n\r\n{",),
    "gzip a thousand times": (
        GOOD + b"Content-Encoding: " + b"gzip," * 1000 + b"gzip\r\nContent-Length: 2\r\n\r\n{}",
    ),
    "wrong type": (GOOD + b"Content-Type: text/html; charset=\xff\r\nContent-Length: 1\r\n\r\n[",),
    "event stream": (GOOD + b"Content-Type: text/event-stream\r\n\r\ndata: {}\n\n",),
    "unicode": (GOOD + b"Content-Length: 4\r\n\r\n\xff\xfe{\x00",),
    "half a pair": (GOOD + b'Content-Length: 14\r\n\r\n{"a":"\\ud83d"}',),
    "deep": (GOOD + b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000,),
    "not a number": (GOOD + b'Content-Length: 9\r\n\r\n{"a":NaN}',),
    "infinite": (GOOD + b'Content-Length: 11\r\n\r\n{"a":1e999}',),
}


@pytest.mark.parametrize("name", [*CHATS, *CHECKS])
async def test_broken_http_is_one_of_our_errors(name: str) -> None:
    ends: set[type] = set()
    async with serve_raw(sends()) as server, asking(name, server.root, 5.0) as call:
        for fault, parts in WIRE_FAULTS.items():
            server.script = sends(*parts)
            error = await failure(call)
            assert isinstance(error, ServerFailed | ConnectionFailed | RequestRejected), fault
            check_message(error)
            ends.add(type(error))
    assert len(ends) == 3


@pytest.mark.parametrize("name", RESULTS)
async def test_broken_results_are_one_of_our_errors(name: str) -> None:
    async with serve_raw(sends()) as server, asking(name, server.root, 5.0) as call:
        for parts in WIRE_FAULTS.values():
            server.script = sends(*parts)
            try:
                with anyio.fail_after(20):
                    lines = await call()
            except ModelError as error:
                check_message(error)
            else:
                assert isinstance(lines, int)


@pytest.mark.parametrize("name", CHATS)
async def test_a_connection_that_is_cut_anywhere(name: str) -> None:
    replies = {"anthropic": anthropic_message("7"), "decisions": DECISION_REPLY}
    body = json.dumps(replies.get(name, completion("7"))).encode()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with serve_raw(sends()) as server, asking(name, server.root) as call:
        for place in range(1, len(whole), max(1, len(whole) // scaled(40))):
            server.script = sends(whole[:place])
            assert type(await failure(call)) is ConnectionFailed, place


@pytest.mark.parametrize("name", CHATS)
async def test_a_body_that_stalls(name: str) -> None:
    async def script(_: Asked, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 500 x\r\nContent-Length: 100\r\n\r\n{")
        await asyncio.sleep(30)

    async with serve_raw(script) as server:
        start = time.perf_counter()
        error = await failure_of(name, server.root, 0.3)
    assert type(error) is ModelTimeout
    assert time.perf_counter() - start < 10


RETRY_AFTER = [
    "1" + "0" * 400, "-5", "NaN", "inf", "-inf", "1e9", "0x10", "٣", "", " ", "5, 6", "\x00",
    "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "Mon, 01 Jan 2024",
    "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 99 Jan 2026 99:99:99 GMT", "9" * 9, "9" * 10,
    "Thu, 01 Jan 1970 00:00:00 +9999", "Thu, 01 Jan 1970 00:00:00 -99999999999999", "a" * 8000,
    "Mon, 4 May 2026 12:00:00 " + "(" * 100, ", " * 100, ":" * 100, "1-1-1 1:1:1",
]  # fmt: skip


def test_any_time_to_wait() -> None:
    odd = random.Random(3)
    letters = "0123456789 ,:+-().MonTueJanDecGMTUTCZ\x00é"
    texts = ["".join(odd.choices(letters, k=odd.randint(0, 40))) for _ in range(scaled(3000))]
    for text in (*RETRY_AFTER, *texts):
        for name in ("retry-after", "retry-after-ms"):
            error = error_for(read_problem(429, b"", {name: text}), SERVICE)
            assert isinstance(error, RateLimited)
            wait = error.retry_after
            assert wait is None or 0.0 <= wait <= 1e9, text
    assert read_problem(429, b"", {"retry-after": "1" + "0" * 400}).retry_after is None


# --- replies of odd shapes --------------------------------------------------------------

LABELS = ("0", "1", "10")
LABELLED = ChatRequest(messages=(Message("user", "?"),), tag=Tag("score"), labels=LABELS)
FREE = ChatRequest(messages=(Message("user", "?"),), tag=Tag("score"))
ASKED = ChatRequest(
    messages=(Message("user", "?"),),
    tag=Tag("score"),
    questions=(Question("q1", "?", 10), Question("q2", "?", 3)),
)
DECISION_REPLY: Body = {
    "model": "gpt-6-luna",
    "answers": [
        {
            "type": "score",
            "name": "q1",
            "probabilities": [{"value": 9, "label": "10", "probability": 1.0}],
        }
    ],
    "usage": {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 3}},
}
TWO_ANSWERS = DECISION_REPLY | {
    "answers": [*DECISION_REPLY["answers"], {"type": "score", "name": "q2", "score": 1.5}]
}
LOGPROBS = {"content": [position("1", **{"1": 0.5, "0": 0.25}), position("0", **{"0": 0.5})]}
OPENAI = OpenAIChat("gpt-4.1-mini", api_key="k")
ANTHROPIC = AnthropicMessages("claude-haiku-4-5", api_key="k")

Reading = Callable[[Any], ChatReply]
SHAPES: Mapping[str, tuple[Body, ChatRequest, Reading]] = {
    "text": (completion("7"), FREE, lambda data: OPENAI.read(data, FREE)),
    "labels": (
        completion("10", logprobs=LOGPROBS),
        LABELLED,
        lambda data: chat_reply(data, LABELLED, service=SERVICE, prefill=True),
    ),
    "error": (
        {"error": {"message": "no", "code": 429, "type": "t", "param": "seed", "metadata": {}}},
        FREE,
        lambda data: chat_reply(data, FREE, service=SERVICE),
    ),
    "anthropic": (anthropic_message("7"), FREE, lambda data: ANTHROPIC.read(data, FREE)),
    "anthropic refusal": (
        anthropic_message("", stop_reason="refusal", stop_details={"explanation": "no"}),
        FREE,
        lambda data: ANTHROPIC.read(data, FREE),
    ),
    "decision": (TWO_ANSWERS, ASKED, lambda data: decision_reply(data, ASKED, service=SERVICE)),
}


def _deep(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {("error", "message", "msg")[level % 3]: value}
    return value


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 0.5, -0.5, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, -(2**63),
    10**400, -(10**400), float("nan"), float("inf"), float("-inf"), "", "7", "x" * 5000, "\x1b[31m",
    "\ud83d", "length", "refusal", "content_filter", "error", "score", [], {}, [None], [[]], [{}],
    {"": None}, {"message": None}, {"token": 1, "logprob": "x"}, {"type": "text", "text": 5},
    _deep(40), _deep(400), _deep(900),
)  # fmt: skip


SHARED = frozenset(map(id, ODD))


def _paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    # What was put in before is left alone: it is the same object in every case.
    if not isinstance(value, dict | list) or id(value) in SHARED:
        return
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _paths(inner, (*here, name))


def mutated(value: Any, chance: random.Random) -> Any:
    """A copy with one to three places changed."""
    copy = json.loads(json.dumps(value))
    for _ in range(chance.randint(1, 3)):
        path = chance.choice([*_paths(copy)][1:] or [()])
        if not path:
            return copy
        holder = copy
        for name in path[:-1]:
            holder = holder[name]
        last = path[-1]
        match chance.randrange(6):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.append(chance.choice(ODD))
            case 2:
                holder[last] = [holder[last]] * chance.choice((1, 3))
            case 3 if isinstance(holder, dict):
                holder[chance.choice(("error", "extra", "logprob", "code"))] = chance.choice(ODD)
            case _:
                holder[last] = chance.choice(ODD)
    return copy


def check_message(error: ModelError) -> None:
    """A message is one short line without the key."""
    assert str(error).isprintable()
    assert len(str(error)) < 600
    assert KEY not in str(error)


def assert_sound(reply: ChatReply, request: ChatRequest) -> None:
    """Everything in a reply is of its type and within its bounds."""
    usage = reply.usage
    for count in (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens):
        assert type(count) is int
        assert 0 <= count <= 3 * MOST_TOKENS
    assert usage.cached_input_tokens <= usage.input_tokens
    assert usage.calls == 1
    assert type(reply.text) is str
    assert type(reply.model) is str
    assert len(reply.model) <= 200
    assert reply.model.isprintable()
    assert reply.finish_reason in ("stop", "length")
    assert (reply.label_logprobs is None) == (not request.labels)
    for label, logprob in (reply.label_logprobs or {}).items():
        assert label in request.labels
        assert -1e4 <= logprob <= 0.0
    assert (reply.answers is None) == (not request.questions)
    for answer, question in zip(reply.answers or (), request.questions, strict=True):
        assert answer is None or 0.0 <= answer <= question.top


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_of_any_shape(shape: str) -> None:
    data, request, read = SHAPES[shape]
    chance = random.Random(shape)
    ends: Counter[type] = Counter()
    classes: set[type] = set()
    for _ in range(scaled(1000)):
        odd = mutated(data, chance)
        try:
            reply = read(odd)
        except ModelError as error:
            check_message(error)
            ends[type(error)] += 1
            # What carries an error of its own may be any error.
            if not odd.get("error"):
                classes.add(type(error))
        else:
            assert_sound(reply, request)
            ends[ChatReply] += 1
    assert classes <= {ServerFailed, ContentRefused, UnsupportedCapability}
    assert ends.total() >= 1000
    assert len(ends) > 1


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_line_of_results_of_any_shape(provider: str) -> None:
    service: OpenAIBatches | AnthropicBatches
    if provider == "openai":
        service = OpenAIBatches(OPENAI)
        lines: list[Body] = [
            {"custom_id": "k", "response": {"status_code": 200, "body": completion("7")}},
            {"custom_id": "k", "response": {"status_code": 400, "body": openai_error("no")}},
            {"custom_id": "k", "response": None, "error": {"code": "batch_expired"}},
        ]
    else:
        service = AnthropicBatches(ANTHROPIC)
        error = {"type": "error", "error": {"type": "api_error", "message": "no"}}
        lines = [
            {"custom_id": "k", "result": {"type": "succeeded", "message": anthropic_message("7")}},
            {"custom_id": "k", "result": {"type": "errored", "error": error}},
            {"custom_id": "k", "result": {"type": "expired"}},
        ]
    chance = random.Random(provider)
    for line in lines:
        for _ in range(scaled(300)):
            item = service.item(mutated(line, chance))
            assert type(item.key) is str
            try:
                if item.body is None:
                    raise error_for(item.problem, SERVICE)
                assert_sound(service.chat.read(item.body, FREE), FREE)
            except ModelError as failure:
                check_message(failure)


@pytest.mark.parametrize("name", CHECKS)
async def test_an_account_of_a_batch_of_any_shape(name: str) -> None:
    batch: Body = {
        "id": "b",
        "status": "completed",
        "created_at": 5,
        "metadata": {"a": "b"},
        "request_counts": {"completed": 1, "failed": 0, "total": 1},
        "output_file_id": "f",
        "errors": {"data": [{"code": "c", "line": 1, "message": "m"}]},
    }
    if name.startswith("anthropic"):
        batch = {
            "id": "b",
            "processing_status": "ended",
            "created_at": "2026-05-04T12:00:00Z",
            "request_counts": {"succeeded": 1},
            "results_url": "https://x",
        }
    chance = random.Random(name)
    cases: list[Any] = []
    for _ in range(scaled(60)):
        odd = mutated(batch, chance)
        try:
            json.dumps(odd, allow_nan=False).encode()
        except (ValueError, RecursionError):
            continue
        cases.append(odd)
    cases += [batch | {"id": odd} for odd in ("../../x", "a\nb", "", "x" * 300, "a?b", "//evil")]
    cases += [batch | {"created_at": odd} for odd in ("0001-01-01T00:00:00", 1e300, -1e300)]

    async def script(_: Asked, wire: Wire) -> None:
        body = json.dumps(cases[-1]).encode()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with serve_raw(script) as server, asking(name, server.root) as call:
        while cases:
            try:
                await call()
            except ModelError as error:
                check_message(error)
            cases.pop()


def test_one_odd_log_probability_does_no_harm() -> None:
    entries = [
        {
            "token": "1",
            "logprob": -0.5,
            "top_logprobs": [None, "x", {"token": "1", "logprob": -0.5}],
        }
    ]
    data = completion("1", logprobs={"content": [None, *entries]})
    reply = chat_reply(data, LABELLED, service=SERVICE)
    assert reply.label_logprobs == {"1": -0.5}
    entries[0]["top_logprobs"] = [{"token": "1", "logprob": 40.0}, {"token": "0", "logprob": -1.0}]
    reply = chat_reply(data, LABELLED, service=SERVICE)
    assert reply.label_logprobs == {"0": -1.0, "1": -0.5}  # an impossible number is none


# --- counts -----------------------------------------------------------------------------

COUNTS: tuple[Any, ...] = (
    2**63, 2**64, 10**400, -1, -(2**63), 0.5, 12.0, float("nan"), float("inf"), "12", "", True,
    False, [1], {"a": 1}, MOST_TOKENS + 1,
)  # fmt: skip
NAMES = {
    "openai": ("prompt_tokens", "completion_tokens", "prompt_tokens_details"),
    "decisions": ("input_tokens", "output_tokens", "input_tokens_details"),
    "anthropic": ("input_tokens", "output_tokens", "cache_read_input_tokens"),
}


@pytest.mark.parametrize("odd", COUNTS, ids=lambda odd: repr(odd)[:20])
@pytest.mark.parametrize("name", NAMES)
def test_a_count_that_is_none_is_0_and_said_once(
    name: str, odd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    data, request, read = {
        "openai": SHAPES["text"],
        "decisions": SHAPES["decision"],
        "anthropic": SHAPES["anthropic"],
    }[name]
    for field in NAMES[name]:
        nested = {"cached_tokens": odd} if field.endswith("_details") else odd
        for _ in range(3):
            reply = read(data | {"usage": {**data["usage"], field: nested}})
            assert_sound(reply, request)
            usage = reply.usage
            if field == NAMES[name][0]:
                assert usage.input_tokens == (6 if name == "anthropic" else 0)  # 4 read, 2 written
            elif field == NAMES[name][1]:
                assert usage.output_tokens == 0
            else:
                assert usage.cached_input_tokens == 0
    said = [each for each in caplog.messages if "as a number of tokens" in each]
    assert len(said) == 1, caplog.messages
    assert len(said[0]) < 400


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("usage", [None, {}, [], "x", {"prompt_tokens": None}])
def test_no_count_at_all_is_0(name: str, usage: Any, caplog: pytest.LogCaptureFixture) -> None:
    shape = {"openai": "text", "decisions": "decision", "anthropic": "anthropic"}[name]
    data, request, read = SHAPES[shape]
    assert_sound(reply := read(data | {"usage": usage}), request)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)
    assert not caplog.messages


def test_more_from_the_cache_than_there_was() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 6},
    }
    reply = chat_reply(completion("7") | {"usage": usage}, FREE, service=SERVICE)
    assert (reply.usage.input_tokens, reply.usage.cached_input_tokens) == (5, 0)


# --- what is sent -----------------------------------------------------------------------


@pytest.mark.parametrize("name", CHATS)
async def test_what_json_cannot_hold_is_not_sent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.attack import wire_models

    for change in ({"messages": (Message("user", "half \ud83d"),)}, {"max_tokens": 2**70}):
        for request in ("REQUEST", "DECISION"):
            old = getattr(wire_models, request)
            fields = {each: getattr(old, each) for each in old.__dataclass_fields__} | change
            monkeypatch.setattr(wire_models, request, ChatRequest(**fields))
        if name == "decisions" and "max_tokens" in change:
            continue  # a decision has no limit
        async with serve_raw(sends(GOOD + b"Content-Length: 2\r\n\r\n{}")) as server:
            error = await failure_of(name, server.root)
        assert type(error) is RequestRejected
        assert "the request cannot be sent (" in str(error)
        assert not server.asked


def test_an_extra_body_that_cannot_be_sent() -> None:
    from mcranker.llm.providers.compatible_http import CompatibleChat

    for odd in ({1, 2}, object(), "\ud83d", 2**70):
        with pytest.raises(ConfigError, match="cannot be sent as JSON"):
            CompatibleChat("m", base_url="http://h", extra_body={"x": odd})
