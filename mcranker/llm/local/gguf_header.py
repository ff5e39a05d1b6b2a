"""Kind of model, from the header of a GGUF file: does it write, answer questions, rerank?

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from mcranker.errors import ModelFileError

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes, by type
_STRING, _ARRAY = 8, 9
_DEEPEST = 4  # arrays in one another
_RANK = struct.pack("<I", 4)  # llama.cpp's LLAMA_POOLING_TYPE_RANK


def is_decision_model(path: Path, name: str) -> bool:
    """True if the model answers System One's questions: it names the type of its decisions.

    Args:
        path: of a GGUF file.
        name: of the model, for messages.

    Raises:
        ModelFileError: the file's beginning cannot be read as that of a GGUF file.
    """
    return _value(path, b".decision.type", name) is not None


def is_reranker(path: Path, name: str) -> bool:
    """True if the model gives the relevance of a text to a query: its pooling is ``RANK``.

    Args:
        path: of a GGUF file.
        name: of the model, for messages.

    Raises:
        ModelFileError: as `is_decision_model`.
    """
    return _value(path, b".pooling_type", name) == _RANK


def _value(path: Path, ending: bytes, name: str) -> bytes | None:
    """Return the bytes of the first value whose key has this ending; None if there is none."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            (values,) = struct.unpack_from("<Q", data, 16)
            at = 24
            for _ in range(values):
                key, at = _string(data, at)
                (kind,) = struct.unpack_from("<I", data, at)
                begin, at = at + 4, _end(data, at + 4, kind)
                if key.endswith(ending):
                    return data[begin:at]
    except (OSError, struct.error, KeyError, ValueError) as error:
        raise ModelFileError(
            f"{str(path)!r} is cut short, or no GGUF file ({error}); fetch it again or use another "
            "one.",
            model=name,
        ) from error
    return None


def _string(data: mmap.mmap, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    end = at + 8 + int(length)
    return data[at + 8 : end], end


def _end(data: mmap.mmap, at: int, kind: int, depth: int = 0) -> int:
    """Return the end of the value of this type at `at`."""
    if kind == _STRING:
        (length,) = struct.unpack_from("<Q", data, at)
        return at + 8 + int(length)
    if kind != _ARRAY:
        return at + _SIZES[kind]
    if depth > _DEEPEST:
        raise ValueError("arrays nest too deep")
    of, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if of in _SIZES:
        return at + int(count) * _SIZES[of]
    for _ in range(count):
        at = _end(data, at, of, depth + 1)
    return at
