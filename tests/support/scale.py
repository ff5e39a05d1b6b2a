"""How many cases an attack test tries: ``MCRANKER_ATTACK=10`` makes it ten times as many."""

from __future__ import annotations

import os

__all__ = ["scaled"]


def scaled(cases: int) -> int:
    """`cases` times the factor in the environment, 1 unless told otherwise."""
    return int(cases * float(os.environ.get("MCRANKER_ATTACK", "1")))
