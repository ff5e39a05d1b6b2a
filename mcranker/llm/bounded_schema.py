"""A JSON schema with limits, for models that do not end their texts and lists themselves."""

from __future__ import annotations

from typing import Any

__all__ = ["LONGEST_LIST", "LONGEST_TEXT", "bounded"]

LONGEST_TEXT = 300  # characters of one text
LONGEST_LIST = 12  # entries of one list


def bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a limit to every text and list that has none."""
    limited = {
        key: bounded(value) if isinstance(value, dict) else value for key, value in schema.items()
    }
    if schema.get("type") == "string" and "enum" not in schema:
        limited.setdefault("maxLength", LONGEST_TEXT)
    if schema.get("type") == "array":
        limited.setdefault("maxItems", LONGEST_LIST)
    return limited
