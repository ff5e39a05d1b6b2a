"""Locks, loops and connections that a forked process must not take over from its parent.

Of a process with threads, `os.fork` copies the thread that calls it alone. The others' locks
stay locked in the child, and their event loops stop. What belongs to them must not even
be closed there: a connection, or the list of files that an event loop watches, is shared with
the parent, who goes on using it.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks, or tied to an event loop."""

    def after_fork(self) -> None:
        """Reset in a child process. Other threads may have been in the middle of a call."""
        ...


def renew_in_child(owner: Forkable) -> None:
    """Call `after_fork` of `owner` in every process forked from this one."""
    _owners.add(owner)


def abandon(*things: object) -> None:
    """Keep a parent process's objects for ever, so that nothing is closed or finalised."""
    import ctypes  # for this alone

    # No list would do: the interpreter empties them all before it ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(things))


_owners: WeakSet[Forkable] = WeakSet()


def _in_child() -> None:
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
