"""From a model's name to a `ChatModel`: ``openai:NAME``, ``anthropic:NAME``, ``local:NAME``."""

from __future__ import annotations

import difflib
import os
import re
import sys
import sysconfig
import warnings
from functools import cache
from typing import TYPE_CHECKING

from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatModel
from mcranker.llm.local.catalogue import SUGGESTED_MODEL, find
from mcranker.llm.masking import shown_url
from mcranker.llm.provider import PROVIDERS
from mcranker.llm.providers.http_chat import url_in
from mcranker.logs import WeakJudgeWarning, safe_logger
from personas.format import file_size
from personas.ranking.types import judge_note
from personas.sanitize import can_be_encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_OPENAI = "openai:gpt-6-luna"
DEFAULT_ANTHROPIC = "anthropic:claude-haiku-5-5"
DEFAULT_LOCAL = "local:minilm"

_OF_PROVIDER = {
    "local": r"\.gguf$",
    "openai": r"^(gpt-|chatgpt-|o[134])",
    "anthropic": r"^claude",
}
_OWN = ("mcranker", "personas", "beir_eval")
logger = safe_logger("mcranker.llm")


def connect(
    model: str | ChatModel | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    concurrency: int = 64,
    timeout: float = 120.0,
    offline: bool = False,
) -> ChatModel:
    """The model of a name. Nothing is sent yet; `offline` a key is not needed.

    | model | what it is |
    |---|---|
    | ``openai:NAME`` | OpenAI; needs ``OPENAI_API_KEY`` or `api_key` |
    | ``openai:NAME`` and a base URL of another host | a server that speaks OpenAI's protocol |
    | ``anthropic:NAME`` | Anthropic; needs ``ANTHROPIC_API_KEY`` or `api_key` |
    | ``rerank:NAME`` and a base URL | a rerank service; forms: `mcranker.llm.providers.rerank` |
    | ``local:NAME``, ``local:PATH.gguf`` | a model in this process |
    | ``crossencoder:NAME``, ``crossencoder:FOLDER`` | a cross-encoder in this process |
    | ``recording:NAME`` | a model of which only the answers in a ledger are left |
    | ``PREFIX:NAME`` | a model of an installed provider: `mcranker.llm.provider.Provider` |
    | a `ChatModel` | itself |
    | None | what the environment suggests: see `choose_default` |

    `base_url` None is the provider's own address, or the one in ``OPENAI_BASE_URL``,
    ``ANTHROPIC_BASE_URL`` or, for a model from ``MCRANKER_MODEL``, ``MCRANKER_BASE_URL``.
    `concurrency` is the most calls at once, `timeout` the seconds allowed to one.

    Warns:
        WeakJudgeWarning: the embedded default was chosen; once per process.

    Raises:
        ConfigError: the name or an option cannot be, or they do not go together.
        AuthenticationFailed: the provider needs a key and there is none.
        ModelError: the embedded engine cannot open the model.
    """
    if isinstance(model, ChatModel):
        if base_url is not None or api_key:
            raise ConfigError("base_url= and api_key= go with a model's name, not with a ChatModel")
        return model
    if model is None:
        model, reason = choose_default(os.environ)
        named = os.environ.get("MCRANKER_MODEL", "").strip() == model
        given = "base_url"
        if base_url is None:
            base_url, given = url_in("MCRANKER_BASE_URL"), "MCRANKER_BASE_URL"
        if base_url is not None and not named:
            raise ConfigError(
                f"{given}={shown_url(base_url)!r} needs a model; pass model='openai:NAME' "
                "or set MCRANKER_MODEL"
            )
        logger.info("model %s: %s", model, reason)
        if model == DEFAULT_LOCAL and not named:
            _warn_of_default()
    if not isinstance(model, str):
        raise ConfigError(
            f"model={model!r} is a {type(model).__name__}; pass a name such as "
            f"{DEFAULT_OPENAI!r} or a ChatModel"
        )
    if not can_be_encoded(model):
        raise ConfigError(f"{model!r} names no model: it is not UTF-8")
    if not can_be_encoded(base_url or ""):
        raise ConfigError(f"base_url={base_url!r} names no server: it is not UTF-8")
    prefix, name = _split(model)
    provider = PROVIDERS.get(prefix)
    if provider.in_process and (base_url is not None or api_key):
        raise ConfigError(
            f"model={model!r} runs in this process and takes no base_url= or api_key=; "
            "for a server use model='openai:NAME'"
        )
    if offline and provider.key_variable:
        api_key = api_key or "offline"
    made: object = provider.connect(
        name, base_url=base_url, api_key=api_key, timeout=timeout, concurrency=concurrency
    )
    if not isinstance(made, ChatModel):
        raise ConfigError(f"the provider {prefix!r} made a {type(made).__name__}, no ChatModel")
    return made


def choose_default(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the model to use when none is named, and the reason in words for a log line."""
    if named := environ.get("MCRANKER_MODEL", "").strip():
        return named, "named by MCRANKER_MODEL"
    for variable, default in (
        ("OPENAI_API_KEY", DEFAULT_OPENAI),
        ("ANTHROPIC_API_KEY", DEFAULT_ANTHROPIC),
    ):
        if environ.get(variable, "").strip():
            return default, f"no model was named, and {variable} is set"
    return DEFAULT_LOCAL, "no model was named and no API key is set"


def default_judge_note() -> str:
    """Return the limits of the embedded default model and how to get a better one."""
    return f"{judge_note('encoder', DEFAULT_LOCAL)} {better_judges()}"


def better_judges() -> str:
    """Return models to name instead: with a key, and from the hub with size and licence."""
    entry = find(SUGGESTED_MODEL)
    assert entry is not None, "a test looks it up"
    return (
        "A model that reasons judges better: set OPENAI_API_KEY or ANTHROPIC_API_KEY "
        f"({DEFAULT_OPENAI}, {DEFAULT_ANTHROPIC}), or name local:{entry.name} from the hub "
        f"({file_size(entry.size)}, {entry.licence})."
    )


@cache
def _warn_of_default() -> None:
    """Warn once per process, at the line of the user's own code that led here."""
    installed = tuple(map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
    frame, level, nearest = sys._getframe(), 1, 0  # noqa: SLF001 - documented, if not everywhere
    while caller := frame.f_back:
        frame, level = caller, level + 1
        if frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
            continue
        nearest = nearest or level
        if not frame.f_code.co_filename.startswith(installed):
            nearest = level
            break
    warnings.warn(default_judge_note(), WeakJudgeWarning, stacklevel=nearest or level)


def _split(model: str) -> tuple[str, str]:
    kind, colon, name = model.strip().partition(":")
    if colon and kind in PROVIDERS and name.strip():
        return kind, name.strip()
    forms = ", ".join(f"{each}:NAME" for each in PROVIDERS.names)
    said = "see 'mcranker models'"
    for prefix, pattern in _OF_PROVIDER.items():
        if re.search(pattern, model.strip(), re.IGNORECASE):
            said = f"did you mean '{prefix}:{model.strip()}'?"
            break
    else:
        if name and (close := difflib.get_close_matches(kind[:100], PROVIDERS.names, n=1)):
            said = f"did you mean '{close[0]}:{name}'?"
    raise ConfigError(f"model={model!r} is not of the form {forms}; {said}")
