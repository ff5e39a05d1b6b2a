"""Fixtures that all tests share."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    """Background jobs are deaf to Ctrl-C, those of nohup to SIGHUP; tests send both."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) is signal.SIG_IGN:
        signal.signal(hang_up, signal.SIG_DFL)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that want a ledger name one of their own; the user's is never touched."""
    monkeypatch.setenv("MCRANKER_LEDGER", "none")


@pytest.fixture(autouse=True)
def _no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of the vectors that the embedded encoder keeps."""
    monkeypatch.setenv("MCRANKER_VECTORS", "none")
