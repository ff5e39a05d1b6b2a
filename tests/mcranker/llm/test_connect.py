from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import pytest

from mcranker import DirectRanker, WeakJudgeWarning
from mcranker.encoders import open_encoder as encoders
from mcranker.errors import AuthenticationFailed, ConfigError
from mcranker.llm import connect as module
from mcranker.llm.chat import ChatModel
from mcranker.llm.connect import (
    DEFAULT_ANTHROPIC,
    DEFAULT_LOCAL,
    DEFAULT_OPENAI,
    choose_default,
    connect,
)
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_chat import HttpChat
from mcranker.llm.providers.openai_chat import CompatibleChat, OpenAIChat
from mcranker.llm.scripted import ScriptedChat
from tests.support.loopback import clean_environment
from tests.support.tiny_encoder import tiny_encoder, use

LOCAL = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for the embedded engine; the names it was asked to open."""
    names: list[str] = []

    def local_chat(name: str) -> ChatModel:
        names.append(name)
        return ScriptedChat(lambda _: "7", name=f"local:{name}")

    module = types.ModuleType("mcranker.llm.local.llama_local")
    module.LocalChat = local_chat  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "mcranker.llm.local.llama_local", module)
    return names


@pytest.mark.parametrize("options", [{"base_url": LOCAL}, {"api_key": "k"}])
def test_a_model_takes_no_address_or_key(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="not with a ChatModel"):
        connect(ScriptedChat(lambda _: "7"), **options)
    with pytest.raises(ConfigError, match="is a int"):
        connect(7)  # type: ignore[arg-type]  # what a careless caller does


@pytest.mark.parametrize(
    ("model", "url", "kind", "endpoint"),
    [
        ("openai:gpt-6-luna", None, OpenAIChat, "https://api.openai.com/v1"),
        ("openai:m", "https://eu.api.openai.com/v1/", OpenAIChat, "https://eu.api.openai.com/v1"),
        ("openai:qwen/qwen3:8b", LOCAL, CompatibleChat, LOCAL),
        ("openai:m", "https://api.openai.com.example/v1", CompatibleChat, None),
        ("anthropic:m", None, AnthropicMessages, "https://api.anthropic.com"),
        ("anthropic:m", "http://127.0.0.1:8", AnthropicMessages, "http://127.0.0.1:8"),
    ],
)
def test_a_name_and_an_address_make_a_model(
    model: str, url: str | None, kind: type[HttpChat], endpoint: str | None
) -> None:
    made = connect(model, base_url=url, api_key="k")
    assert isinstance(made, kind)
    assert (made.name, made.endpoint) == (model, endpoint or url)
    if kind is CompatibleChat:
        assert connect(model, base_url=url).name == model  # it needs no key
    else:
        with pytest.raises(AuthenticationFailed, match="_API_KEY or pass api_key="):
            connect(model, base_url=url)


def test_local(opened: list[str]) -> None:
    assert connect("local:smollm2-135m").name == "local:smollm2-135m"
    connect(r"local:C:\models\x.gguf")
    assert opened == ["smollm2-135m", r"C:\models\x.gguf"]
    with pytest.raises(ConfigError, match="runs in this process"):
        connect("local:smollm2-135m", base_url=LOCAL)
    with pytest.raises(ConfigError, match="runs in this process"):
        connect("local:smollm2-135m", api_key="k")
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("gpt-6-luna", "openai:gpt-6-luna"),
        ("o1", "openai:o1"),
        ("o3-mini", "openai:o3-mini"),
        ("claude-haiku-5-5", "anthropic:claude-haiku-5-5"),
        ("models/x.GGUF", "local:models/x.GGUF"),
    ],
)
def test_a_bare_name_is_an_error_that_helps(name: str, suggestion: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(name)
    assert f"did you mean {suggestion!r}?" in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "name", "reason"),
    [
        ({}, DEFAULT_LOCAL, "no API key"),
        ({"OPENAI_API_KEY": "  "}, DEFAULT_LOCAL, "no API key"),
        ({"ANTHROPIC_API_KEY": "k"}, DEFAULT_ANTHROPIC, "ANTHROPIC_API_KEY is set"),
        (
            {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"},
            DEFAULT_OPENAI,
            "OPENAI_API_KEY is set",
        ),
        ({"OPENAI_API_KEY": "k", "MCRANKER_MODEL": "local:x"}, "local:x", "MCRANKER_MODEL"),
    ],
)
def test_the_default(environ: dict[str, str], name: str, reason: str) -> None:
    chosen, why = choose_default(environ)
    assert chosen == name
    assert reason in why


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been warned of yet, and the encoder needs no file."""
    use(monkeypatch)
    monkeypatch.setattr(encoders, "open_encoder", lambda spec, **options: tiny_encoder())
    module._warn_of_default.cache_clear()


@pytest.mark.usefixtures("embedded")
def test_the_embedded_default_is_warned_of_once_at_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        DirectRanker(ledger=None).rank("best masks", ["cloth", "N95"])
        connect(None)
    (warning,) = found
    assert warning.filename == __file__
    assert warning.category is WeakJudgeWarning
    said = str(warning.message)
    assert "Judged by local:minilm, an encoder: compares meaning, does not reason." in said
    assert "set OPENAI_API_KEY or ANTHROPIC_API_KEY" in said
    assert issubclass(WeakJudgeWarning, UserWarning)


def test_a_model_and_its_server_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCRANKER_BASE_URL", LOCAL)
    with pytest.raises(ConfigError, match="needs a model"):
        connect(None)
    monkeypatch.setenv("MCRANKER_MODEL", "openai:m")
    model = connect(None)
    assert isinstance(model, CompatibleChat)
    assert model.endpoint == LOCAL
    # A model named in the code is not sent to the server of the one in the environment.
    assert isinstance(connect("openai:m", api_key="k"), OpenAIChat)
