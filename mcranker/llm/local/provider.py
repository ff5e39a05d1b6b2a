"""Models in this process, by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mcranker.llm.prices import listed_price
from mcranker.llm.provider import Provider
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from mcranker.llm.chat import ChatModel


def _local(name: str, /, **_: Any) -> ChatModel:
    from mcranker.encoders.open_encoder import is_encoder
    from mcranker.llm.local.llama_local import LocalChat

    return _encoder("local", name) if is_encoder(name) else LocalChat(name)


def _encoder(kind: str, name: str, /, **options: Any) -> ChatModel:
    from mcranker.encoders.open_encoder import SIMILARITIES, by_name, open_encoder
    from mcranker.llm.local.catalogue import check_installed
    from mcranker.llm.local.encoder_judge import EncoderJudge

    spec = f"{kind}:{name}"
    check_installed(spec, {"Stemmer": "PyStemmer"})
    return EncoderJudge(open_encoder(spec, **options), by_name(SIMILARITIES, spec))


def _embedding_price(name: str, usage: Usage) -> float | None:
    paid = usage.input_tokens - usage.cached_input_tokens  # what is cached is cached here
    return listed_price("openai", name, Usage(calls=usage.calls, input_tokens=paid))


def _cross_encoder(name: str, /, **_: Any) -> ChatModel:
    from mcranker.llm.local.cross_encoder import CrossEncoderChat

    return CrossEncoderChat(name)


LOCAL = Provider(
    connect=_local,
    note="a model below, a PATH.gguf, or an ONNX encoder's FOLDER, in this process",
    price=lambda name, usage: 0.0,
    in_process=True,
)
EMBEDDINGS = Provider(
    connect=partial(_encoder, "embed"),
    note="an encoder at /embeddings: OpenAI, vLLM, TEI, Ollama; needs base_url=",
    key_variable="EMBEDDINGS_API_KEY",
    price=_embedding_price,
)
CROSS_ENCODER = Provider(
    connect=_cross_encoder,
    note="a cross-encoder of the hub, or a FOLDER, in this process",
    price=lambda name, usage: 0.0,
    in_process=True,
)
