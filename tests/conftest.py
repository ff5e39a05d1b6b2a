"""Fixtures that all tests share."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    """Shells start background jobs deaf to Ctrl-C; tests that press it would wait for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that want a ledger name one of their own; the user's is never touched."""
    monkeypatch.setenv("MCRANKER_LEDGER", "none")
