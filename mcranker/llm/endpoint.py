"""Where a model is reached and with which key: checked once, before the first call."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from mcranker.errors import AuthenticationFailed, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked_settings", "checked_url", "environment_proxy", "find_key"]


def checked_url(url: str) -> str:
    """A base URL without a slash at its end.

    Raises:
        ConfigError: it is not an ``http://`` or ``https://`` URL with a host, or holds a password.
    """
    stripped = url.strip().rstrip("/")
    try:
        parts = urlsplit(stripped)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"base_url={url!r} is not a URL; write it like 'http://localhost:8000/v1'"
        )
    if parts.username or parts.password:
        raise ConfigError("base_url= holds a user name or password; pass the key as api_key=")
    return stripped


def find_key(
    explicit: str | None,
    variable: str,
    *,
    model: str,
    required: bool = True,
    environ: Mapping[str, str] | None = None,
) -> str:
    """The API key: the one passed, else the environment's; empty if none and none is required.

    Raises:
        AuthenticationFailed: there is none, or it cannot be a key. The key is never shown.
    """
    key = explicit or (os.environ if environ is None else environ).get(variable, "")
    key = key.strip()
    if required and not key:
        raise AuthenticationFailed(
            f"{model}: no API key; set {variable} or pass api_key=", model=model
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise AuthenticationFailed(
            f"{model}: the API key holds characters that no key has (line breaks, spaces, "
            f"accents); copy it again into {variable} or api_key=",
            model=model,
        )
    return key


def checked_settings(timeout: float, concurrency: int) -> None:
    """Check what every back-end takes.

    Raises:
        ConfigError: `timeout` (seconds) is not positive, or `concurrency` is below 1.
    """
    if not timeout > 0:
        raise ConfigError(f"timeout={timeout!r} must be a positive number of seconds")
    if concurrency < 1:
        raise ConfigError(f"concurrency={concurrency!r} must be at least 1")


def environment_proxy(url: str) -> str | None:
    """The proxy that the environment names for this URL, or None. Never one for this machine."""
    from urllib.request import getproxies, proxy_bypass  # slow to import

    parts = urlsplit(url)
    if _is_loopback(parts) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
