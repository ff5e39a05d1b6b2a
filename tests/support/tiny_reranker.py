"""A reranker of 10 words and one layer, made on the spot, and its logits computed by hand.

The file has the form of BERT rerankers such as bge-reranker. Attention is uniform and the
feed-forward layer is 0, so that a few lines of numpy say what the engine should answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

__all__ = ["WORDS", "expected_logit", "reranker", "write_reranker"]

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("masks", "help", "against", "viruses", "bread", "rises", "spread", "the", "in", "oven")
WIDTH, LONGEST, INNER = 32, 512, 64

Matrix = NDArray[np.float32]

# The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_ALIGNMENT = 32


@pytest.fixture(scope="session")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the model, for ``local:PATH``."""
    path = tmp_path_factory.mktemp("models") / "tiny-reranker.gguf"
    write_reranker(path)
    return path


def expected_logit(query: str, text: str) -> float:
    """What the model says to ``[CLS] query [SEP] text``, which is what the engine puts to it."""
    tokens = [*SPECIAL, *WORDS]
    words = ["[CLS]", *query.split(), "[SEP]", *text.split()]
    w = _weights()
    x = _normed(w["token_embd.weight"][[tokens.index(word) for word in words]])
    # Queries and keys are 0, so that each token attends to all alike, and values are the tokens.
    first = _normed(x[0] + x.mean(axis=0))
    pooled = np.tanh(w["cls.weight"] @ _normed(first))
    return float(w["cls.output.weight"][0] @ pooled + w["cls.output.bias"][0])


def write_reranker(path: Path, **values: Any) -> None:
    """Write the model; `values` replace or add metadata, with ``__`` for the dot."""
    tokens = [*SPECIAL, *(f"\u2581{word}" for word in WORDS)]
    metadata: dict[str, Any] = {
        "general.architecture": "bert",
        "bert.block_count": 1,
        "bert.context_length": LONGEST,
        "bert.embedding_length": WIDTH,
        "bert.feed_forward_length": INNER,
        "bert.attention.head_count": 2,
        "bert.attention.layer_norm_epsilon": 1e-12,
        "bert.attention.causal": False,
        "bert.pooling_type": 4,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * len(WORDS),
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.mask_token_id": 4,
        **{name.replace("__", "."): value for name, value in values.items()},
    }
    path.write_bytes(_gguf(metadata, _weights()))


def _weights() -> dict[str, Matrix]:
    random = np.random.default_rng(7)

    def drawn(*shape: int) -> Matrix:
        return random.normal(size=shape).astype(np.float32)

    def zeros(*shape: int) -> Matrix:
        return np.zeros(shape, np.float32)

    one = np.eye(WIDTH, dtype=np.float32)
    weights: dict[str, Matrix] = {
        "token_embd.weight": drawn(len(SPECIAL) + len(WORDS), WIDTH),
        "position_embd.weight": zeros(LONGEST, WIDTH),
        "token_types.weight": zeros(2, WIDTH),
        "blk.0.attn_q.weight": zeros(WIDTH, WIDTH),
        "blk.0.attn_k.weight": zeros(WIDTH, WIDTH),
        "blk.0.attn_v.weight": one,
        "blk.0.attn_output.weight": one,
        "blk.0.ffn_up.weight": zeros(INNER, WIDTH),
        "blk.0.ffn_down.weight": zeros(WIDTH, INNER),
        "cls.weight": drawn(WIDTH, WIDTH) / np.float32(8),
        "cls.output.weight": drawn(1, WIDTH),
        "cls.output.bias": np.array([0.25], np.float32),
    }
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down"):
        weights[f"blk.0.{name}.bias"] = zeros(WIDTH)
    weights["blk.0.ffn_up.bias"] = zeros(INNER)
    weights["cls.bias"] = zeros(WIDTH)
    for name in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        weights |= {f"{name}.weight": np.ones(WIDTH, np.float32), f"{name}.bias": zeros(WIDTH)}
    return weights


def _normed(x: Matrix) -> Matrix:
    centred = x - x.mean(axis=-1, keepdims=True)
    normed: Matrix = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    return normed


def _gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Matrix]) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, packed = _value(value)
        head += _string(key) + struct.pack("<I", kind) + packed
    data = b""
    for name, tensor in tensors.items():
        head += _string(name) + struct.pack("<I", tensor.ndim)
        head += struct.pack(f"<{tensor.ndim}Q", *reversed(tensor.shape))
        head += struct.pack("<IQ", 0, len(data))  # 32-bit floats
        content = tensor.tobytes()
        data += content + bytes(-len(content) % _ALIGNMENT)
    return head + bytes(-len(head) % _ALIGNMENT) + data


def _value(value: Any) -> tuple[int, bytes]:
    match value:
        case bool():
            return _BOOL, struct.pack("<?", value)
        case int():
            return _U32, struct.pack("<I", value)
        case float():
            return _F32, struct.pack("<f", value)
        case str():
            return _STRING, _string(value)
        case [str(), *_]:
            texts = b"".join(map(_string, value))
            return _ARRAY, struct.pack("<IQ", _STRING, len(value)) + texts
        case _:
            return _ARRAY, struct.pack(f"<IQ{len(value)}i", _I32, len(value), *value)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw
