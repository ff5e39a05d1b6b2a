"""Answers to typed questions that tests share."""

from __future__ import annotations

from mcranker import Answer


def answers(*values: float | None) -> tuple[Answer, ...]:
    """Answers that say no more than their value."""
    return tuple(map(Answer, values))
