"""The `beir-eval` command itself; its verbs are imported when they are used."""

from __future__ import annotations

from typing import NoReturn

from mcranker.cli.group import EXIT_CODES, Verbs

__all__ = ["VERBS", "cli", "main"]

VERBS = {
    "run": ("beir_eval.cli.run", "Run rankers over data sets, as a suite or flags say."),
    "report": ("beir_eval.cli.report", "Tables, significance and figures of finished runs."),
    "compare": ("beir_eval.cli.compare", "See which queries two runs differ on, and why."),
    "evaluate": ("beir_eval.cli.evaluate", "Measure TREC runs."),
    "retrieve": ("beir_eval.cli.retrieve", "Find passages by BM25: the first stage alone."),
    "fuse": ("beir_eval.cli.fuse", "Make one TREC run of several."),
    "datasets": ("beir_eval.cli.datasets", "List the data sets that can be named."),
    "suites": ("beir_eval.cli.suites", "List the suites that come with the package."),
}
"""Verb -> its module, whose `command` it is, and its line in the help."""

cli = Verbs(
    "beir-eval",
    VERBS,
    help="Measure rankers: on BEIR's data sets, on any of ir_datasets, or on a folder.\n\n"
    "API keys are taken from the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY.",
    epilog=EXIT_CODES,
)
"""The command, for tests and for the reference."""


def main() -> NoReturn:
    """The entry point of the `beir-eval` command."""
    cli.main(prog_name="beir-eval")
