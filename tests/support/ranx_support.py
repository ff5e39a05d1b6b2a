"""ranx for tests: started once a process, and without its compiler."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

# What tests compute takes milliseconds; to compile it for that would take a minute. numba must
# know before it is imported, which bm25s does as well: so it is said as tests are collected.
if "numba" not in sys.modules:
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")


def start_ranx() -> Any:
    """The package; skips the test if it is not installed."""
    return pytest.importorskip("ranx", reason="the extra ranx is not installed")
