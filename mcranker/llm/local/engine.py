"""Common parts of the models in this process: required packages, and error messages."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Mapping

from mcranker.errors import ConfigError
from mcranker.llm.providers.http_errors import Service


def check_installed(name: str, packages: Mapping[str, str], extra: str = "local") -> None:
    """Refuse a model whose packages are missing."""
    absent = [package for each, package in packages.items() if not importlib.util.find_spec(each)]
    if absent:
        raise ConfigError(f"{name} needs {' and '.join(absent)}: pip install 'mcranker[{extra}]'.")


def engine_service(name: str, where: str) -> Service:
    """The details of an engine in this process that error messages need."""
    advice = "open the model again"
    return Service(name, where, advice, advice, advice, 0.0)


def release_apart(release: Callable[[], None]) -> None:
    """Call `release` in a thread of its own, for finalizers."""
    if threading.main_thread().is_alive():
        threading.Thread(target=release, name="mcranker-release").start()
    else:
        release()
