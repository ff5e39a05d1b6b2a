"""The ``beir-eval`` command: first stages, runs of many rankers, measures and reports."""

from __future__ import annotations

from beir_eval.cli.group import cli, main

__all__ = ["cli", "main"]
