"""Seconds that a provider asks to wait: in a header, in a sentence, or in a field of its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

LONGEST = 1e9  # seconds; larger numbers are times since 1970
HEADER = 200  # characters of a header that are read

# Each takes linear time.
_SECONDS = re.compile(r"-?\d{1,13}(\.\d{0,9})?", re.ASCII)
_WINDOW = re.compile(
    r"per[ _-]?+(?:second|minute|hour|day)|\b(?:daily|hourly|(?:[io]?t|r|q)p[smhd])\b|"
    r"(?:/|per|\b(?:each|every|last|past|(?:request|token|call)s?(?: in| within| over)?))[ _-]?+"
    r"(?:an? |one |\d{1,6}+[ -]?+)?(?:sec(?:ond)?|min(?:ute)?|h(?:ou)?r|day)s?(?![a-z])"
)
_WAIT = re.compile(
    r"(?=[artw])(?:\b(?:(?:re)?try\b[^.\n]{0,40}?\b(?:in|after)|wait( for)?( at least)?|"
    r"(?:resets?|available|renewed|replenished|refills?)\b[^.\n]{0,20}?\b(?:in|after))|"
    r"(?:retry|resets?)[_-]?(after|delay|in)[_-]?(?P<ms>ms|millis)?((in_?)?s(ec(ond)?s?)?)?)"
    r"\W{1,5}+((about|another|the next) |seconds\W{1,4}+)?(?=\d)",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?:, ?| and | )?(\d{1,9}+(?:\.\d{0,15}+)?)(?: ?(m(?:illi)?s(?:ec(?:ond)?s?)?|d(?:ays?)?|"
    r"h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])|(?![\w:-]))",
    re.IGNORECASE | re.ASCII,
)
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def names_window(text: str) -> bool:
    """True if it names the time that a limit is for, such as a minute or a day."""
    return _WINDOW.search(text.lower()) is not None


def wait_in(text: str) -> float | None:
    """Seconds that a text, or JSON, asks to wait; None if it does not say."""
    for found in _WAIT.finditer(text):
        wait = _duration(text, found.end(), 0.001 if found["ms"] else 1.0)
        if wait is not None and wait <= LONGEST:
            return wait
    return None


def wait_of(headers: Mapping[str, str], said: float | None, now: datetime) -> float | None:
    """Seconds to wait by Retry-After, as the body `said`, or until a used up limit resets."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (wait := _until(headers.get(name, ""), now, unit)) is not None:
            return wait
    if said is not None:
        return said
    waits = [
        _until(value, now)
        for name, value in headers.items()
        if re.search(r"\A(?>.*?rate-?limit).*reset", name, re.IGNORECASE)
        and headers.get(name.lower().replace("reset", "remaining"), "0").strip() == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _until(value: str, now: datetime, unit: float = 1.0) -> float | None:
    """Seconds until a time: "30", of `unit`, "6m0s", seconds since 1970, or a date."""
    from email.utils import parsedate_to_datetime  # slow to import

    value = value.strip()
    if not 0 < len(value) <= HEADER:
        return None
    try:
        if _SECONDS.fullmatch(value):
            wait = float(value) * unit
            if wait >= LONGEST:
                wait = (wait if wait < 100 * LONGEST else wait / 1000) - now.timestamp()
        elif value[-1] in "smh" and value[0].isdigit():
            return _duration(value)
        else:
            read = datetime.fromisoformat if value[:4].isdigit() else parsedate_to_datetime
            when = read(value)
            wait = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait) if wait <= LONGEST else None


def _duration(text: str, place: int = 0, unit: float = 1.0) -> float | None:
    """Seconds of "7m12s", "1.5 seconds", or a number of `unit`; None if there is none."""
    total: float | None = None
    while found := _PART.match(text, place):
        number, name = float(found[1]), (found[2] or "").lower()
        if not name:
            return number * unit if total is None else total
        size = _UNITS["ms" if name.startswith(("ms", "mil")) else name[0]]
        total, place = (total or 0.0) + number * size, found.end()
    return total
