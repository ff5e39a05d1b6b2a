"""`personas.plain`, imported when it is used: help must be quick, and `personas` is big."""

from __future__ import annotations

__all__ = ["one_line", "plain"]


def plain(text: str, limit: int | None = None) -> str:
    """As `personas.plain.plain`."""
    from personas.plain import plain as made_plain

    return made_plain(text, limit)


def one_line(message: str) -> str:
    """As `personas.plain.one_line`."""
    from personas.plain import one_line as made_one_line

    return made_one_line(message)
