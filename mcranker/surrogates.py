"""Halves of surrogate pairs, which no encoding can carry."""

from __future__ import annotations


def encodable(text: str) -> str:
    """`text` as UTF-8 can carry it: surrogate pairs joined, halves replaced by U+FFFD.

    Text that is valid Unicode is returned as it is.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
