"""Fixtures that all tests share."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from tests.support.scale import scaled

# The many processes that tests start read the packages compiled, and so does the next run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Haystack would send figures of its use, and log that it cannot.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"


# The time of an example depends on what else runs here. The same examples are tried each time, and
# others where more than usual are wanted.
settings.register_profile(
    "here",
    deadline=None,
    max_examples=200 if os.environ.get("MCRANKER_THOROUGH") else 25,
    derandomize=scaled(1) == 1,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("here")


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
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr("mcranker.llm.models.FIRST_WAIT", 0.0)
    monkeypatch.setattr("mcranker.llm.limits.rate_limiter.FIRST_PAUSE", 0.0)


@pytest.fixture(autouse=True)
def _no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that want a ledger name one of their own; the user's is never touched."""
    monkeypatch.setenv("MCRANKER_LEDGER", "none")


@pytest.fixture(autouse=True)
def _no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of the vectors that the embedded encoder keeps."""
    monkeypatch.setenv("MCRANKER_VECTORS", "none")
