"""What judges better than the embedded default, in one sentence."""

from __future__ import annotations

from mcranker.llm.connect import DEFAULT_ANTHROPIC, DEFAULT_OPENAI
from mcranker.llm.local.catalogue import SUGGESTED_MODEL, find
from personas.words import file_size


def better_judges() -> str:
    """Which models to name instead: with a key, and from the hub with size and licence."""
    entry = find(SUGGESTED_MODEL)
    assert entry is not None, "a test looks it up"
    return (
        "A model that reasons judges better: set OPENAI_API_KEY or ANTHROPIC_API_KEY "
        f"({DEFAULT_OPENAI}, {DEFAULT_ANTHROPIC}), or take --model local:{entry.name} from the hub "
        f"({file_size(entry.size)}, {entry.licence})."
    )
