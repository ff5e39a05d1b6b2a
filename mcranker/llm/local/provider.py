"""Models in this process, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcranker.llm.provider import Provider

if TYPE_CHECKING:
    from mcranker.llm.chat import ChatModel


def _local(name: str, /, **_: Any) -> ChatModel:
    from mcranker.llm.local.encoder_judge import EncoderJudge, is_encoder
    from mcranker.llm.local.llama_local import LocalChat

    return EncoderJudge.open(name) if is_encoder(name) else LocalChat.open(name)


def _cross_encoder(name: str, /, **_: Any) -> ChatModel:
    from mcranker.llm.local.cross_encoder import CrossEncoderChat

    return CrossEncoderChat.open(name)


LOCAL = Provider(
    connect=_local,
    note="a model below, or a PATH.gguf, in this process",
    price=lambda name, usage: 0.0,
    in_process=True,
)
CROSS_ENCODER = Provider(
    connect=_cross_encoder,
    note="a cross-encoder of the hub, or a FOLDER, in this process",
    price=lambda name, usage: 0.0,
    in_process=True,
)
