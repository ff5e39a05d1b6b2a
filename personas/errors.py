"""The errors of persona, rubric, team and prompt files.

PersonasError
├── SchemaError   a persona, rubric or team that cannot be what it says
└── PromptError   a prompt folder or a prompt that cannot be used
"""

from __future__ import annotations

__all__ = ["PersonasError", "PromptError", "SchemaError"]


class PersonasError(ValueError):
    """Base of every error of this package; names the file, the place and the fix."""


class SchemaError(PersonasError):
    """A persona, a rubric or a team is not valid."""


class PromptError(PersonasError):
    """A prompt is missing, or has a placeholder missing or too many."""
