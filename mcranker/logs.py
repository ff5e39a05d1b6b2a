"""Loggers whose records are safe on a terminal, even with text from outside."""

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
