"""Encoders behind ``POST /embeddings``: OpenAI, vLLM, Text Embeddings Inference, Ollama."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from mcranker.encoders.encoder import Encoder, Tokens, Vector, rounded
from mcranker.errors import (
    ConfigError,
    ContentRefused,
    ContextTooLong,
    RequestRejected,
)
from mcranker.llm.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Message, Tag
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.http_chat import Exchange, find_key, url_in
from mcranker.llm.providers.http_errors import Service, unreadable
from mcranker.llm.providers.openai_chat import CompatibleChat
from mcranker.llm.providers.reply_fields import reported_model, usage_in
from mcranker.llm.typed_answers import shown_value, whole_number
from mcranker.logs import safe_logger
from mcranker.runtime.bridge import Bridge
from personas.ranking.usage import Usage

MOST_TEXTS = 32  # of one request: as many as Text Embeddings Inference takes by default
MOST_CHARACTERS = 100_000  # of one request, unless one text has more
LONGEST_TEXT = 40_000  # characters sent of a text
MAX_TOKENS = 8191  # of OpenAI's models; others say so, and the text is sent shorter
MOST_DIMENSIONS = 2**15
THREADS = 8  # requests at once
SHORTEST = 200  # characters that no model has refused as too many

_OPENAI = "https://api.openai.com/v1"
_KEYS = {"openai": "OPENAI_API_KEY", "embed": "EMBEDDINGS_API_KEY"}

_log = safe_logger("mcranker.llm")


@dataclass(frozen=True, slots=True, eq=False)
class VectorReply(ChatReply):
    """Vectors of the messages of a request, in their order, of any length."""

    vectors: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))


def service_encoder(
    kind: str,
    name: str,
    prefixes: tuple[str, str],
    around: Callable[[ChatModel], ChatModel],
    *,
    base_url: str | None,
    **options: Any,
) -> Encoder:
    """The encoder of a service, see `mcranker.encoders.open_encoder.open_encoder`."""
    full, variable = f"{kind}:{name}", _KEYS[kind]
    if base_url is None and kind == "openai":
        base_url = url_in("OPENAI_BASE_URL") or _OPENAI
    if base_url is None:
        raise ConfigError(
            f"{full!r} is a service's and needs base_url=, the address before /embeddings, e.g. "
            f"http://localhost:8000/v1; for OpenAI's own it is 'openai:{name}'"
        )
    of_openai = (urlsplit(base_url).hostname or "").endswith("api.openai.com")
    find_key(options.get("api_key"), variable, model=full, required=of_openai)
    chat = CompatibleChat(
        name,
        name=full,
        base_url=base_url,
        key_variable=variable,
        capabilities=Capabilities(prompts=False),
        questions=Exchange(
            "embeddings",
            # Half the bytes, which not every server can give.
            lambda request, model: {
                "model": model,
                "input": [each.content for each in request.messages],
                **({"encoding_format": "base64"} if of_openai else {}),
            },
            vector_reply,
            list_as="data",
        ),
        **options,
    )
    asked = around(chat)
    return Encoder(
        lambda: _Engine(asked),
        name=full,
        mark=f"embeddings {shown_url(chat.endpoint)} {name}",
        max_tokens=MAX_TOKENS,
        prefixes=prefixes,
        threads=min(options["concurrency"], THREADS),
        paid=True,
        refusals=(RequestRejected, ContextTooLong, ContentRefused),
    )


def vector_reply(data: Mapping[str, Any], request: ChatRequest, *, service: Service) -> VectorReply:
    """The vectors in an answer: ``data``, a list of objects with ``embedding`` and ``index``."""
    rows, count = data.get("data"), len(request.messages)
    if isinstance(rows, list):
        rows = [{"embedding": row} if isinstance(row, list) else row for row in rows]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise unreadable("no list 'data' of objects in it", service)
    if len(rows) != count:
        raise unreadable(f"{len(rows)} vectors for {count} texts", service)
    if any("index" in row for row in rows):
        places = [whole_number(row.get("index")) for row in rows]
        if set(places) != set(range(count)):
            said = shown_value(places[:10])
            raise unreadable(f"its indexes are not 0 to {count - 1}: {said}", service)
        rows = [rows[places.index(place)] for place in range(count)]
    vectors = [_numbers(row.get("embedding"), place, service) for place, row in enumerate(rows)]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) != 1 or not 0 < min(lengths) <= MOST_DIMENSIONS:
        said = ", ".join(map(str, sorted(lengths)[:10]))
        raise unreadable(
            f"vectors of {said} numbers, and they have to be of one length up to {MOST_DIMENSIONS}",
            service,
        )
    usage, model = usage_in(data, service), reported_model(data)
    return VectorReply(text="", usage=usage, model=model, vectors=np.array(vectors))


def _numbers(value: Any, place: int, service: Service) -> NDArray[np.float64]:
    numbers: NDArray[Any] | None = None
    if isinstance(value, str):
        with suppress(ValueError):
            numbers = np.frombuffer(b64decode(value, validate=True), "<f4")
    elif isinstance(value, list) and {type(each) for each in value} <= {int, float}:
        numbers = np.array([float(each) for each in value])
    if numbers is None or not np.isfinite(numbers).all() or not numbers.any():
        raise unreadable(
            f"the embedding of text {place + 1} is no list of finite numbers but zeros: "
            f"{shown_value(value if isinstance(value, str) else (value or [])[:5])}",
            service,
        )
    return numbers.astype(np.float64)


class _Engine:
    """Asks the service, in an event loop of its own, so that callers of any loop share answers."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self._bridge = Bridge(chat.aclose)
        self._most = MOST_TEXTS
        self.close = self._bridge.close

    def batches(self, texts: Sequence[str]) -> Iterator[list[Tokens]]:
        batch: list[Tokens] = []
        room = MOST_CHARACTERS
        for text in texts:
            length = min(len(text), LONGEST_TEXT)
            if batch and (len(batch) >= self._most or length > room):
                yield batch
                batch, room = [], MOST_CHARACTERS
            batch.append(Tokens(text))
            room -= length
        if batch:
            yield batch

    def vectors(self, batch: Sequence[Tokens]) -> tuple[list[Vector], Usage]:
        readable = [text[:LONGEST_TEXT].encode("utf-8", "replace").decode() for text, _ in batch]
        while True:
            messages = tuple(Message("user", text or " ") for text in readable)
            request = ChatRequest(messages, Tag("embed"), temperature=None, max_tokens=1)
            try:
                reply = self._bridge.call(partial(self._chat.complete, request))
                break
            except (RequestRejected, ContextTooLong, ContentRefused) as error:
                if len(batch) > 1:
                    if "batch" in str(error):  # as Text Embeddings Inference says it
                        self._most = len(batch) // 2
                    raise
                (text,) = readable
                if not isinstance(error, ContextTooLong) or len(text) < SHORTEST:
                    said = f"{error} (about the text that begins {text[:60]!r})"
                    raise type(error)(said, model=error.model) from error
                _log.warning("a text of %d characters is too long for the model", len(text))
                readable = [text[: len(text) // 2]]
        assert isinstance(reply, VectorReply), "the layers hand on what the service gives"
        units = rounded(reply.vectors)
        # Shares of the tokens, which a service counts for all texts together.
        ends = np.cumsum([len(text) + 1 for text in readable])
        ends = np.rint(ends * (reply.usage.input_tokens / ends[-1])).astype(int)
        tokens = np.diff(ends, prepend=0)
        vectors = [Vector(unit, int(read)) for unit, read in zip(units, tokens, strict=True)]
        return vectors, reply.usage
