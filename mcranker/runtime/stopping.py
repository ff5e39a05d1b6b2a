"""The end of a process that was asked to stop, and of its waits for something that is away."""

from __future__ import annotations

import math
import time

LAST_WAITS = 15.0
"""Seconds of all waits together, from the signal on."""


class _Stopping:
    def __init__(self) -> None:
        self.until = math.inf
        """When waits end, on the clock of `time.monotonic`."""

    def begin(self) -> None:
        """Let the waits end; safe in a signal's handler."""
        self.until = min(self.until, time.monotonic() + LAST_WAITS)

    def left(self, least: float) -> float | None:
        """Return the seconds of a wait that is now begun, None for any number."""
        left = max(self.until - time.monotonic(), least)
        return left if left < math.inf else None


stopping = _Stopping()
