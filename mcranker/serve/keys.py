"""API keys: the service knows their hashes only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping

from mcranker.errors import ConfigError

SHORTEST = 20
"""Characters of a key. Keys are random, so a fast hash keeps them as well as a slow one."""

LONGEST = 500
_FORM = re.compile(r"sha256:[0-9a-f]{64}")


def new_key() -> str:
    """A key of 256 random bits."""
    return f"mcr_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """Return the form of a key in the configuration file: ``sha256:`` and 64 hex digits.

    Raises:
        ConfigError: the key is too short or too long, or holds something else than printable
            ASCII without spaces, which headers cannot carry.
    """
    if not SHORTEST <= len(key) <= LONGEST:
        raise ConfigError(
            f"the key has {len(key)} characters; give {SHORTEST} to {LONGEST} random ones, or "
            "let 'mcranker serve --new-key' make one"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError("the key must be of printable ASCII characters without spaces")
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def check_hash(name: str, value: object) -> None:
    """Refuse anything but a hash of a key, without repeating it: it may be a key."""
    if not (isinstance(value, str) and _FORM.fullmatch(value)):
        raise ConfigError(
            f"keys: {name!r} is no hash of a key; 'mcranker serve --hash-key' makes it, "
            "'sha256:' and 64 hexadecimal digits"
        )


def holder_of(authorization: str, hashes: Mapping[str, str]) -> str | None:
    """Return the name of the key in an ``Authorization`` header; None if it is not in `hashes`."""
    scheme, _, given = authorization.strip().partition(" ")
    key = given.strip()
    if scheme.lower() == "basic":
        try:
            key = base64.b64decode(key, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    elif scheme.lower() != "bearer":
        return None
    digest = "sha256:" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    equal = [name for name, known in hashes.items() if hmac.compare_digest(known, digest)]
    return equal[-1] if equal else None
