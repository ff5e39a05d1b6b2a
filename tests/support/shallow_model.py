"""The smallest local model, cut down to its first layer: it answers in a tenth of the time.

Tokenizer, chat template and server stay as they are, and what it writes means nothing. It is for
tests of how a model is spoken to, not of what it says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from mcranker.llm.local.llama_local import LocalChat
from mcranker.llm.local.model_files import resolve
from mcranker.llm.providers.http_errors import Service

__all__ = ["shallow_engine", "shallow_model"]

LAYERS = (0, 29)
FULL = "smollm2-135m"

# The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes, by type
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32


@pytest.fixture(scope="session")
def shallow_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the model, for ``local:PATH``."""
    path = tmp_path_factory.mktemp("models") / "shallow.gguf"
    path.write_bytes(b"".join(_shallow(resolve(FULL).read_bytes())))
    return path


@pytest.fixture(scope="module")
def shallow_engine(shallow_model: Path) -> Iterator[Service]:
    """The engine's server with the model; it speaks OpenAI's protocol and Anthropic's."""
    chat = LocalChat(str(shallow_model))
    yield anyio.run(chat.connected).service
    anyio.run(chat.aclose)


def _shallow(whole: bytes) -> Iterator[bytes]:
    """The parts of a GGUF file with all tensors but those of later layers."""
    magic, version, tensors, values = struct.unpack_from("<4sIQQ", whole)
    at, metadata = 24, []
    for _ in range(values):
        start = at
        key, at = _string(whole, at)
        (kind,) = struct.unpack_from("<I", whole, at)
        end = _end_of_value(whole, at + 4, kind)
        kept = whole[start:end]
        if key == "llama.block_count":
            kept = whole[start : at + 4] + struct.pack("<I", len(LAYERS))
        metadata.append(kept)
        at = end
    found = []
    for _ in range(tensors):
        name, after = _string(whole, at)
        (dimensions,) = struct.unpack_from("<I", whole, after)
        end = after + 4 + 8 * dimensions + 4
        (offset,) = struct.unpack_from("<Q", whole, end)
        found.append((name, offset, whole[after:end]))
        at = end + 8
    data = whole[-(-at // _ALIGNMENT) * _ALIGNMENT :]
    found.sort(key=lambda tensor: tensor[1])
    ends = [offset for _, offset, _ in found[1:]] + [len(data)]
    kept_tensors = [
        (_packed(renamed) + described, data[offset:end])
        for (name, offset, described), end in zip(found, ends, strict=True)
        if (renamed := _renamed(name))
    ]
    head = struct.pack("<4sIQQ", magic, version, len(kept_tensors), values) + b"".join(metadata)
    offset = 0
    for described, content in kept_tensors:
        head += described + struct.pack("<Q", offset)
        offset += len(content)  # a multiple of the alignment: padding is kept
    yield head + bytes(-len(head) % _ALIGNMENT)
    for _, content in kept_tensors:
        yield content


def _renamed(name: str) -> str:
    """What a tensor of the full model is called in this one; empty if it is left out."""
    if not name.startswith("blk."):
        return name
    _, layer, rest = name.split(".", 2)
    return f"blk.{LAYERS.index(int(layer))}.{rest}" if int(layer) in LAYERS else ""


def _packed(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode()


def _string(whole: bytes, at: int) -> tuple[str, int]:
    length: int = struct.unpack_from("<Q", whole, at)[0]
    return whole[at + 8 : at + 8 + length].decode(), at + 8 + length


def _end_of_value(data: bytes, at: int, kind: int) -> int:
    """The end of the value of this type at `at`."""
    if kind == _STRING:
        return _string(data, at)[1]
    if kind != _ARRAY:
        return at + _SIZES[kind]
    of, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = _end_of_value(data, at, of)
    return at
