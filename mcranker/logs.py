"""Loggers whose records are safe on a terminal, and the one warning of this package."""

from __future__ import annotations

import logging

from personas.sanitize import one_line


def safe_logger(name: str) -> logging.Logger:
    """Return the logger of that name; it escapes control characters."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_safe)
    return logger


def _make_safe(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if not text.isprintable():
        record.msg, record.args = one_line(text), None
    return True


class WeakJudgeWarning(UserWarning):
    """An encoder judges because no model was named and no key was found. Given once per process."""
