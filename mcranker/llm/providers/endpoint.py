"""Address and key of a model: checked once, before the first call."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from mcranker.errors import AuthenticationFailed, ConfigError
from mcranker.llm.masking import shown_url

EXAMPLE = "http://localhost:8000/v1"

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")


def url_in(variable: str) -> str | None:
    """Return the base URL in an environment variable, checked; None if it is not set."""
    named = os.environ.get(variable, "").strip()
    return checked_url(named, variable) if named else None


def checked_url(url: str, name: str = "base_url") -> str:
    """A base URL without a slash at its end; `name` is the option or variable it was given in."""
    stripped = url.strip().rstrip("/")
    shown = f"{name}={shown_url(url)!r}"
    if not stripped:
        raise ConfigError(
            f"{shown} is empty; leave it out for the provider's own address, or write one like "
            f"{EXAMPLE!r}"
        )
    try:
        parts = urlsplit(stripped)
        usable = parts.scheme in ("http", "https") and parts.port != 0 and _is_host(parts)
    except ValueError:
        usable = False
    # `urlsplit` leaves out line breaks, which are no part of an address.
    if not usable or not stripped.isprintable() or " " in stripped:
        raise ConfigError(f"{shown} is not a URL; write it like {EXAMPLE!r}")
    if "@" in parts.netloc:
        raise ConfigError(
            f"{shown} holds a user name or password; leave it out, and set OPENAI_API_KEY or "
            "ANTHROPIC_API_KEY or pass api_key="
        )
    if "?" in stripped or "#" in stripped:
        raise ConfigError(
            f"{shown} goes on after its path; paths are added to it, so leave out what begins "
            "with '?' or '#'"
        )
    return stripped


def find_key(explicit: str | None, variable: str, *, model: str, required: bool = True) -> str:
    """Return the API key: the one passed, else the one in an environment variable."""
    given = (explicit or "").strip()
    key = given or os.environ.get(variable, "").strip()
    if required and not key:
        raise AuthenticationFailed(f"{model}: no API key; {key_advice(variable)}", model=model)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise AuthenticationFailed(
            f"{model}: the API key holds characters that no key has (line breaks, spaces, "
            f"accents); copy it again and {'pass it as api_key=' if given else f'set {variable}'}",
            model=model,
        )
    return key


def key_advice(variable: str) -> str:
    """Return advice about a missing or wrong key, which an environment variable may hold."""
    return f"set {variable} or pass api_key=" if variable else "pass the server's key as api_key="


def checked_settings(timeout: float, concurrency: int) -> None:
    """Check what every model at an address takes."""
    if not timeout > 0:
        raise ConfigError(f"timeout={timeout!r} must be a positive number of seconds")
    if concurrency < 1:
        raise ConfigError(f"concurrency={concurrency!r} must be at least 1")


def environment_proxy(url: str) -> str | None:
    """The proxy that the environment names for this URL, or None. Never one for this machine."""
    from urllib.request import getproxies, proxy_bypass  # slow to import

    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if loopback or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _is_host(parts: SplitResult) -> bool:
    """True if there is a host that can be looked up."""
    host = parts.hostname or ""
    if "[" in parts.netloc:
        before, after = parts.netloc.partition("[")[0], parts.netloc.partition("]")[2]
        return bool(ip_address(host)) and before[-1:] in ("", "@") and after[:1] in ("", ":")
    labels = host.removesuffix(".").encode("idna").decode().split(".")
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels))
