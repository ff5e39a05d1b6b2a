"""Fixtures that all tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that want a ledger name one of their own; the user's is never touched."""
    monkeypatch.setenv("MCRANKER_LEDGER", "none")
