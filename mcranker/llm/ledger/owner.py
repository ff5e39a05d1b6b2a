"""Names of processes in claims, and which of them have ended."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def new_owner() -> str:
    """Return a name for this process, unlike any other."""
    process = os.getpid()
    return f"{secrets.token_hex(8)} {process} {_start(process)} {_place()}"


def has_ended(owner: str) -> bool:
    """Return True if a process is certain to have ended."""
    match owner.split(" ", 3):
        case [_, process, start, place] if place and place == _place():
            try:
                os.kill(int(process), 0)  # which only asks
            except ProcessLookupError:
                return True
            except OSError:
                return False
            now = _start(int(process))
            return bool(start and now) and start != now
    return False


def _place() -> str:
    """Return where a number means the same process as here; empty if that is not known."""
    with suppress(OSError):
        if sys.platform == "darwin":  # which has no namespaces
            return socket.gethostname()
        if sys.platform == "linux" and (_PROC / "self").readlink().name == str(os.getpid()):
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
            return f"{socket.gethostname()} {boot} {(_PROC / 'self/ns/pid').readlink()}"
    return ""


def _start(process: int) -> str:
    """Return when a process began, in ticks since the boot; empty if that is not known."""
    with suppress(OSError, IndexError):
        stat = (_PROC / f"{process}/stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[19]  # after a name that may hold anything
    return ""
