"""Loggers whose records can be shown on a terminal, whatever text from outside is in them."""

from __future__ import annotations

import logging

from personas.sanitize import one_line


def safe_logger(name: str) -> logging.Logger:
    """The logger of that name; where a message has control characters, they become escapes.

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
