from __future__ import annotations

import contextlib
import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConfigError,
    MCRankerError,
    ServerFailed,
)
from mcranker.llm import masking
from mcranker.llm.connect import connect
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.http_errors import (
    MESSAGE_LIMIT,
    error_for,
    parse_object,
    read_problem,
)
from tests.support.beir_folder import write_folder
from tests.support.loopback import (
    Answer,
    Body,
    clean_environment,
    completion,
    openai_error,
    serve_in_thread,
)
from tests.support.raw_server import sends, serve_raw
from tests.support.wire import BACK_ENDS, CHECKS, KEY, SERVICE, TOKEN, asking, failure

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


def _pages_with(key: str, place: int) -> Iterator[bytes]:
    """Error pages in which a key begins at about this place."""
    for filler in ("x", "x "):
        before = (filler * place)[:place]
        # A shape within a word is none.
        for between in ("", " ", '"', "=") if key == KEY else (" ", '"', "="):
            page = f"{before}{between}{key} {filler * 50}"
            yield page.encode()
            yield json.dumps({"error": {"message": page}}).encode()
            yield f"<p>{page}</p>".encode()
            yield f"{'<br>' * (place // 8)}{page}".encode()


def test_no_cut_shows_half_a_key() -> None:
    edge = MESSAGE_LIMIT
    for place in (edge - 30, edge - 13, edge - 7, edge - 1):
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


@pytest.mark.parametrize(
    ("url", "shown"), [*ADDRESSES, *((plain, plain) for plain in PLAIN_ADDRESSES)]
)
def test_no_secret_of_an_address_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert shown_url(shown) == shown


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


@pytest.mark.parametrize("echo", [KEY, KEY.lower(), KEY.upper(), KEY[:8], KEY[5:], f"x{KEY}"])
def test_a_key_is_masked_in_any_case_and_in_part(echo: str) -> None:
    shown = masking.masked(f"Not '{echo}', nor k={echo}&x, is right.", [KEY])
    assert shown.startswith("Not '")
    assert shown.endswith(" is right.")
    assert all(echo[n : n + 8] not in shown for n in range(len(echo) - 7)), shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at gpu7.corp.internal:8443.", "at [address]."),
        ("GW.Corp.Example refused", "[address] refused"),
        ("http://gpu7:8000/v1/x failed", "http://[address]/v1/x failed"),
        ("http://[key]@gpu7/v1", "http://[key]@[address]/v1"),
        ("write to ops@corp.example", "write to ops@[address]"),
        ("Cannot connect to host vault:8200 ssl", "Cannot connect to host [address] ssl"),
        ("pod vllm-7f9c, node 'n1'", "pod [address], node '[address]'"),
        ("('10.0.0.7', 80) 10.0.0.7:80", "('[address]', 80) [address]"),
        ("[2001:db8::1]:80 or fe80::1", "[address] or [address]"),
        ("see https://mine.example/v1 or https://a.mine.example", None),
        ("see https://platform.openai.com/account/api-keys.", None),
        ("localhost:8000, 127.0.0.1:80 and ::1", None),
        ("at 12:30:45, code:400, max_tokens:4096, version 1.2.3", None),
        ("body.messages.0.content: Field required", None),
        ("gpt-4.1-mini for Qwen/Qwen2.5-72B, llama3.1:70b", None),
        ("torch.cuda.OutOfMemoryError, std::bad_alloc, Node.js, e.g. this", None),
        ("no route to host", None),
    ],
)
def test_hosts_in_a_text(text: str, shown: str | None) -> None:
    assert masking.without_hosts(text, ["mine.example"]) == (shown or text)


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@h", "https://h/v1?k=hunter2", "https://h/v1#hunter2"]
)
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


@pytest.mark.parametrize("name", [*BACK_ENDS, *CHECKS])
async def test_what_a_provider_says_names_no_key_no_token_and_no_host(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcranker")
    shown: list[str] = []
    echoed = f"{KEY} or {KEY.lower()} or {KEY[:12]} at gpu7.corp.internal:8000"[:280]
    routes = f"no route /{TOKEN}/v1 for {KEY} at http://127.0.0.1/{TOKEN}/v1?x={TOKEN}"
    async with serve_raw(sends()) as server, asking(name, f"{server.root}/{TOKEN}") as call:
        for status in (401, 403, 404, 400, 429, 500, 302, 200):
            for said in (json.dumps({"error": {"message": echoed}}), routes):
                head = f"HTTP/1.1 {status} x\r\nLocation: http://u:{TOKEN}@h/{TOKEN}\r\n"
                length = f"Content-Length: {len(said)}\r\n\r\n"
                server.script = sends((head + length).encode(), said.encode())
                error = await failure(call)
                assert isinstance(error, AuthenticationFailed) == (status in (401, 403))
                # As --debug shows it, with all that led to it.
                shown.append("".join(traceback.format_exception(error)))
                assert TOKEN not in str(error)
    assert f"/{TOKEN}/" in server.asked[0].line
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("mcranker")]
    for text in (*shown, *ours):
        assert "gpu7" not in text
        parts = (KEY[n : n + 8].lower() for n in range(len(KEY) - 7))
        assert all(part not in text.lower() for part in parts), text


def test_nothing_that_is_kept_holds_a_secret(tmp_path: Path) -> None:
    from beir_eval.experiment.run import run_suite
    from tests.support.experiment_support import plan, suite

    asked = {"n": 0}

    def answer(_: Body) -> Answer | Body:
        asked["n"] += 1
        said = f"bad key {KEY}, {KEY[3:].upper()} for /{TOKEN}/v1 of gpu7.corp.internal"
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
        assert KEY[8:].lower().encode() not in path.read_bytes().lower(), path
        assert b"gpu7" not in path.read_bytes(), path


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
