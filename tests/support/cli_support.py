"""A scripted model behind the command, for tests in this process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcranker import ChatRequest, ScriptedChat
from mcranker.cli import cli
from mcranker.llm.chat import Capabilities
from mcranker.llm.local.model_files import cache_folder
from tests.support.loopback import clean_environment

Run = Callable[..., Result]


def answer(request: ChatRequest) -> str:
    """Two recruits; one rubric; a score that is the number of masks in the passage's id."""
    match request.tag.stage:
        case "recruit":
            return '{"Identities": ["Virologist", "Worried [bold]parent"], "Reason": "they ask"}'
        case "criteria":
            return json.dumps(
                {
                    "Criteria": [
                        {"Criterion": "Efficacy", "Explanation": "e", "Weight": 60},
                        {"Criterion": "Safety", "Explanation": "s", "Weight": 40},
                    ],
                    "Reason": "r",
                }
            )
        case "probe":
            return "OK"
        case _:
            return json.dumps({"Score": min(10, len(request.tag.doc_id))})


class Connected:
    """Stands in for `connect`: remembers what was asked for, and gives a scripted model."""

    def __init__(self) -> None:
        self.answer: Callable[[ChatRequest], str | Awaitable[str]] = answer
        self.capabilities = Capabilities(json_schema=True)
        self.asked: list[tuple[str | None, str | None]] = []
        self.requests: list[ChatRequest] = []

    def __call__(
        self, model: str | None, *, base_url: str | None = None, **_: object
    ) -> ScriptedChat:
        self.asked.append((model, base_url))

        def kept(request: ChatRequest) -> str | Awaitable[str]:
            self.requests.append(request)
            return self.answer(request)

        name = model if isinstance(model, str) else "openai:default"
        return ScriptedChat(kept, name=name, capabilities=self.capabilities)


def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    """The model that every verb gets from now on."""
    clean_environment(monkeypatch)
    monkeypatch.setenv("MCRANKER_MODEL", "openai:test")
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    connected = Connected()
    monkeypatch.setattr("mcranker.llm.models.connect", connected)
    monkeypatch.setattr("mcranker.cli.models.connect", connected)
    return connected


def scripted_but_for_encoders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    """The same; encoders that are downloaded are downloaded once, for all tests."""
    models = cache_folder()
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "models").symlink_to(models)
    return scripted(monkeypatch, tmp_path)


def invoke(*args: str | Path, **kwargs: Any) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(cli, [str(arg) for arg in args], **kwargs)
