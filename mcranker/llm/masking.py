"""Removal of secrets from texts for people: API keys, addresses that hold one, names of hosts.

A known key is found as a whole or by any 8 characters of it in a row, in any case.

An address is shown by `shown_url`, in messages, logs and files alike:

| part | shown |
|---|---|
| scheme, host, port | always |
| user name and password | never |
| a part of the path | unless it looks like a secret |
| a query | the names, not the values |
| a fragment | never |

A part of a path looks like a secret if it has the shape of a key or a UUID, gives a value to a
name, or is a long row of letters and digits.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "[key]"  # in place of a secret
HOST_MARK = "[address]"  # in place of a host
LEAST_SECRET = 4  # characters; fewer say nothing, and are part of many words
_ROW = 8  # characters of a secret that show it; fewer may be those of a word
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
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)

_PUBLIC = ("openai.com", "anthropic.com", "claude.com", "localhost", "127.0.0.1", "::1")
_ENDING = re.compile(
    r"\.(?:com|net|org|edu|gov|io|ai|dev|app|cloud|tech|co|eu|de|uk|fr|nl|ch|jp|cn|kr|ru|br|ca|au|"
    r"internal|intern|local|localdomain|lan|corp|intranet|private|home|svc|cluster|arpa|"
    r"example|invalid|test)\Z"
)
_WORD = re.compile(r"[\w.:\[\]-]++", re.ASCII)
_PORT = re.compile(r":\d{2,5}\Z")
_NAME = re.compile(r"[a-z0-9][\w-]{0,62}(?:\.[a-z0-9_][\w-]{0,62})*", re.ASCII | re.IGNORECASE)
_SAYS_HOST = re.compile(
    r"(?:host|hostname|upstream|node|pod|proxy|peer)[\s:='\"]{1,3}\Z", re.IGNORECASE
)
_BEFORE = 20  # characters before a word that may say what it is


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets: those that are known, and what looks like one."""
    for secret in secrets:
        if len(secret) >= LEAST_SECRET:
            text = _without_beginning(_without(text, secret), secret)
    text = _URL.sub(lambda found: shown_url(found[0]), text)
    text = _SHAPE.sub(MARK, _USER.sub(f"{MARK}@", text))
    if _HALF_HIDDEN in text:
        text = " ".join(MARK if _HALF_HIDDEN in word else word for word in text.split(" "))
    return text


def without_hosts(text: str, shown: Iterable[str] = ()) -> str:
    """Return a text without recognizable names and addresses of hosts."""
    known = {host.lower().strip("[]") for host in (*_PUBLIC, *shown)}

    def unnamed(found: re.Match[str]) -> str:
        word = found[0].rstrip(".:-")
        host = _host_of(word, text[max(0, found.start() - _BEFORE) : found.start()])
        if not host or any(host == each or host.endswith(f".{each}") for each in known):
            return found[0]
        return HOST_MARK + found[0][len(word) :]

    return _WORD.sub(unnamed, text)


def shown_url(url: str) -> str:
    """Return an address without secrets; see above. Any text will do."""
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
    pairs = [each.partition("=") for each in query.split("&")] if query else []
    named = "&".join(
        f"{name}={MARK}" if equals and not _is_secret(name) else MARK for name, equals, _ in pairs
    )
    shown = f"{url[:start]}{authority}{slash}{parts}{question}{named}"
    shown = _SHAPE.sub(MARK, shown) + (f"#{MARK}" if fragment else "")
    return shown if len(shown) <= LONGEST_URL else f"{shown[: LONGEST_URL - 1]}…"


def url_secrets(url: str) -> tuple[str, ...]:
    """The parts of an address's path that look like secrets."""
    path = url.partition("://")[2].partition("/")[2]
    return tuple(part for part in path.split("/") if _is_secret(part))


def _is_secret(part: str) -> bool:
    part = unquote(part)
    if "=" in part or "@" in part[1:] or _SHAPE.search(part) or _UUID.fullmatch(part):
        return True
    runs = _RUN.findall(part)
    if any(len(run) >= 32 or not (run.isalpha() or run.isdigit()) for run in runs):
        return True
    return len(part) >= 40 and all(re.search(kind, part) for kind in ("[A-Z]", "[a-z]", "[0-9]"))


def _host_of(word: str, before: str) -> str:
    """The host that a word names, in small letters; empty if it is none."""
    if word == MARK:
        return ""
    name = _PORT.sub("", word)
    host, ported = name.lower().strip("[]"), name != word
    if before.endswith(("://", f"://{MARK}@")):
        return host
    with suppress(ValueError):
        return str(ip_address(host))
    if before.endswith("/") or not _NAME.fullmatch(host):
        return ""
    odd = bool(re.search(r"[\d.-]", host))
    by_port = ported and odd and not host[0].isdigit()
    by_context = (ported or odd) and _SAYS_HOST.search(before)
    return host if _ENDING.search(host) or by_port or by_context else ""


def _without(text: str, secret: str) -> str:
    """The text without the secret and rows of its characters, in any case."""
    if len(secret) < _ROW:
        return text.replace(secret, MARK)
    small, plain = secret.translate(_SMALL), text.translate(_SMALL)
    rows = {small[place : place + _ROW] for place in range(len(small) - _ROW + 1)}
    pieces, end = [""], 0
    for place in range(len(plain) - _ROW + 1):
        if plain[place : place + _ROW] in rows:
            if place > end or not end:
                pieces += text[end:place], MARK
            end = place + _ROW
    return "".join(pieces) + text[end:]


def _without_beginning(text: str, secret: str) -> str:
    for length in range(min(len(secret) - 1, len(text)), LEAST_SECRET - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + MARK
    return text
