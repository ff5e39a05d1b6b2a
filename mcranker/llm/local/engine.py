"""Common parts of the models in this process: required packages, and error messages."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from mcranker.errors import ConfigError
from mcranker.llm.providers.http_errors import Service


def check_installed(name: str, packages: Mapping[str, str], extra: str = "local") -> None:
    """Refuse a model whose packages are missing.

    Args:
        name: of the model, with its prefix.
        packages: module -> the package that has it.
        extra: of this package, which brings them.

    Raises:
        ConfigError: one is not installed.
    """
    absent = [package for each, package in packages.items() if not importlib.util.find_spec(each)]
    if absent:
        raise ConfigError(f"{name} needs {' and '.join(absent)}: pip install 'mcranker[{extra}]'.")


def engine_service(name: str, where: str, *, timeout: float = 0.0) -> Service:
    """The details of an engine in this process that error messages need."""
    advice = "open the model again"
    return Service(name, where, advice, advice, advice, timeout)
