"""Secrets taken out of what people read: API keys, and addresses that hold one.

An address is shown by `shown_url`, in messages, logs and files alike:

| part | shown |
|---|---|
| scheme, host, port | always |
| user name and password | never |
| a part of the path | unless it looks like a secret |
| a query | the names, not the values |
| a fragment | never |

A part of a path looks like a secret if it has the shape of a key, is a UUID, gives a value to a
name (``token=...``), has an at sign after its first character, holds 16 letters and digits in a
row with some of both or 32 in a row of any kind, or is 40 characters or longer with capitals,
small letters and digits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "[key]"
"""Stands for what is not shown."""

LEAST_SECRET = 4  # characters; fewer tell nothing, and stand in many words
LONGEST_URL = 200  # characters of an address that are shown

_SHAPE = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|xai|hf|r8|fw|pplx|nvapi|ghp)[-_]|AIza|AKIA|eyJ)[\w*.-]{6,}"
    r"|Bearer\s+\S+"
)
_HALF_HIDDEN = "***"
# The user name and password of an address without a scheme, from where they begin.
_USER = re.compile(r"(?<![^\s\"'(=/])[^\s\"'(=/:@]+:[^\s/@]+@(?=\S)")
_URL = re.compile(r"https?:/\S+", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][\w+.-]{0,20}:/+|/*")
_HOST_AND_PORT = re.compile(r"[^:@]*(:\d*)?|\[[^]@]*\](:\d*)?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_RUN = re.compile(r"[A-Za-z0-9]{16,}")


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets: those that are known, and what looks like one.

    Where the text was cut within a known secret, its beginning is taken out as well.
    """
    for secret in secrets:
        if len(secret) >= LEAST_SECRET:
            text = _without_beginning(text.replace(secret, MARK), secret)
    text = _URL.sub(lambda found: shown_url(found[0]), text)
    text = _SHAPE.sub(MARK, _USER.sub(f"{MARK}@", text))
    if _HALF_HIDDEN in text:
        text = " ".join(MARK if _HALF_HIDDEN in word else word for word in text.split(" "))
    return text


def shown_url(url: str) -> str:
    """An address as people see it, without secrets; see above. Any text will do."""
    scheme = _SCHEME.match(url)
    start = scheme.end() if scheme else 0
    rest, fragment, _ = url[start:].partition("#")
    rest, question, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    if "@" in path and not _HOST_AND_PORT.fullmatch(authority.rpartition("@")[2]):
        # A password with a slash in it: the host is what follows the last "@".
        authority, slash, path = rest.rpartition("@")[2].partition("/")
        authority = f"@{authority}"
    if "@" in authority:
        authority = f"{MARK}@{authority.rpartition('@')[2]}"
    parts = "/".join(MARK if _is_secret(part) else part for part in path.split("/"))
    named = "&".join(_named(each) for each in query.split("&")) if query else ""
    shown = f"{url[:start]}{authority}{slash}{parts}{question}{named}"
    shown = _SHAPE.sub(MARK, shown) + (f"#{MARK}" if fragment else "")
    return shown if len(shown) <= LONGEST_URL else f"{shown[: LONGEST_URL - 1]}…"


def url_secrets(url: str) -> tuple[str, ...]:
    """The parts of an address's path that look like secrets."""
    path = url.partition("://")[2].partition("/")[2]
    return tuple(part for part in path.split("/") if _is_secret(part))


def _named(setting: str) -> str:
    name, equals, _ = setting.partition("=")
    return f"{name}={MARK}" if equals and not _is_secret(name) else MARK


def _is_secret(part: str) -> bool:
    part = unquote(part)
    if "=" in part or "@" in part[1:] or _SHAPE.search(part) or _UUID.fullmatch(part):
        return True
    runs = _RUN.findall(part)
    if any(len(run) >= 32 or not (run.isalpha() or run.isdigit()) for run in runs):
        return True
    kinds = (str.isupper, str.islower, str.isdigit)
    return len(part) >= 40 and all(any(map(kind, part)) for kind in kinds)


def _without_beginning(text: str, secret: str) -> str:
    for length in range(min(len(secret) - 1, len(text)), LEAST_SECRET - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + MARK
    return text
