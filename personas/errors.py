"""The errors of persona, rubric, team and prompt files.

PersonasError
├── SchemaError   a persona, rubric or team that cannot be what it says
└── PromptError   a prompt folder or a prompt that cannot be used
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from personas.sanitize import plain

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST_PROBLEMS = 5
_LONGEST_VALUE = 40
_LONGEST_MESSAGE = 1000
_KIND = re.compile(r"_(?:type|parsing|parsing_size|from_float|unicode)$")
_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "a text",
    **dict.fromkeys(("list", "tuple"), "a list"),
    **dict.fromkeys(("dict", "mapping", "model"), "a table of keys and values"),
    "literal_error": "{expected}",
    "greater_than": "above {gt:.15g}",
    "greater_than_equal": "at least {ge:.15g}",
    "less_than": "below {lt:.15g}",
    "less_than_equal": "at most {le:.15g}",
}
"""Kind of a fault as pydantic names it, without its end -> what the value must be."""


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


def fault(detail: Mapping[str, Any], name: str = "") -> str:
    """Say what is wrong with a value, by one of the details of a pydantic error.

    The value is part of it if the detail has it as ``"input"``.
    """
    kind, given = detail["type"], shown(detail["input"]) if "input" in detail else ""
    if kind == "missing":
        return f"{name} is missing".lstrip()
    if kind == "extra_forbidden":
        return f"there is no key {name!r}"
    wanted = _WANTED.get(_KIND.sub("", kind), "").format_map(detail.get("ctx", {}))
    said = detail["msg"].removeprefix("Value error, ").replace(" after validation", "")
    said = f"must be {wanted}" if wanted else re.sub(r"^\w+ should", "must", said)
    if said.startswith("must "):
        return f"{name} {said}{f', not {given}' if given and ', not' not in said else ''}".lstrip()
    return f"{name}={given}: {said}" if name and given else f"{name}: {said}" if name else said


def explain(error: ValidationError, what: str, form: str) -> str:
    """Say why stored data are not `what`, which has that `form`, without the values in them."""
    # Values are left out: they may be whole passages.
    details = error.errors(include_url=False, include_input=False)
    first = details[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
    if first["loc"] == ("version",) and first["type"] == "literal_error":
        found = repr(error.errors(include_url=False)[0]["input"])[:_LONGEST_VALUE]
        return (
            f"{what} of version {plain(found)}, and this program reads version 1; use the program "
            "that made it"
        )
    problems = [
        fault(detail, ".".join(str(part) for part in detail["loc"]) or "the whole")
        for detail in details[:_MOST_PROBLEMS]
    ]
    more = f"; and {len(details) - _MOST_PROBLEMS} more" if len(details) > _MOST_PROBLEMS else ""
    return plain(f"{form}; {'; '.join(problems)}{more}", _LONGEST_MESSAGE)
