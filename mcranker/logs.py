"""Loggers whose records are safe on a terminal, even with text from outside."""

from __future__ import annotations

import logging

from personas.sanitize import one_line


def safe_logger(name: str) -> logging.Logger:
    """Return the logger of that name; it escapes control characters.

    Without a handler Python writes warnings to standard error as they are, and a passage's id, a
    model's answer or a file's name would steer the terminal.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_make_safe)
    return logger


def _make_safe(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if not text.isprintable():
        record.msg, record.args = one_line(text), None
    return True
