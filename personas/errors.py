"""The errors of persona, rubric, team and prompt files.

PersonasError
├── SchemaError   a persona, rubric or team that cannot be what it says
└── PromptError   a prompt folder or a prompt that cannot be used
"""

from __future__ import annotations

import reprlib


class PersonasError(ValueError):
    """Base of every error of this package; names the file, the place and the fix."""


class SchemaError(PersonasError):
    """A persona, a rubric or a team is not valid."""


class PromptError(PersonasError):
    """A prompt is missing, or has a placeholder missing or too many."""


def shown(value: object) -> str:
    """A value as messages show it: what `repr` makes of it, cut to some 100 characters."""
    return _SHORT.repr(value)


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python prints no more than 4,300 digits.
        return repr(x) if x.bit_length() < 300 else f"<{x.bit_length():,} bits>"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlevel = 2
