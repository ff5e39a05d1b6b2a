"""Kind of model, from the header of a GGUF file.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Literal

from mcranker.errors import ModelFileError, ModelNotFound

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes, by type
_STRING, _ARRAY = 8, 9
_DEEPEST = 4  # arrays in one another
_MEAN, _CLS, _LAST, _RANK = (struct.pack("<I", each) for each in (1, 2, 3, 4))  # llama.cpp's

Kind = Literal["chat", "reranker"]


def kind_of(path: Path, name: str) -> Kind:
    """Return the kind of a model.

    ``"reranker"`` gives the relevance of a text to a query: its pooling is ``RANK``. All others
    write.

    Args:
        path: of a GGUF file.
        name: of the model, for messages.

    Raises:
        ModelNotFound: the file cannot be read.
        ModelFileError: its beginning is not that of a GGUF file, or it is an encoder's.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if magic != b"GGUF":
                raise ModelFileError(
                    f"{str(path)!r} is not a GGUF file (it begins with {magic!r}); local models "
                    "are files of that format.",
                    model=name,
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _kind(data)
    except OSError as error:
        raise ModelNotFound(f"{str(path)!r} cannot be read: {error}.", model=name) from error
    except (struct.error, KeyError, ValueError) as error:
        raise ModelFileError(
            f"{str(path)!r} is cut short, or no GGUF file of a model that writes or ranks "
            f"({error}); fetch it again or use another one.",
            model=name,
        ) from error


def _kind(data: mmap.mmap) -> Kind:
    kind: Kind = "chat"
    (values,) = struct.unpack_from("<Q", data, 16)
    at = 24
    for _ in range(values):
        (length,) = struct.unpack_from("<Q", data, at)
        key, at = data[at + 8 : at + 8 + int(length)], at + 8 + int(length)
        (of,) = struct.unpack_from("<I", data, at)
        begin, at = at + 4, end_of_value(data, at + 4, of)
        if key.endswith(b".pooling_type"):
            if data[begin:at] in (_MEAN, _CLS, _LAST):
                raise ValueError("it is an encoder, which is served by llama.cpp for 'embed:NAME'")
            kind = "reranker" if data[begin:at] == _RANK else "chat"
    return kind


def end_of_value(data: bytes | mmap.mmap, at: int, kind: int, depth: int = 0) -> int:
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
        at = end_of_value(data, at, of, depth + 1)
    return at
