"""ranx for tests: started once a process, and without its compiler."""

from __future__ import annotations

import os
from typing import Any

import pytest


def start_ranx() -> Any:
    """The package; skips the test if it is not installed.

    What tests compute takes milliseconds; to compile it for that would take a minute.
    """
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    return pytest.importorskip("ranx", reason="the extra ranx is not installed")
