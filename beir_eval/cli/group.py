"""The `beir-eval` command itself; its verbs are imported when they are used."""

from __future__ import annotations

from typing import NoReturn

from mcranker.cli.group import EXIT_CODES, LazyVerb, Verbs

VERBS = {
    "run": LazyVerb("beir_eval.cli.run", "Run rankers over data sets, as a suite or flags say."),
    "report": LazyVerb("beir_eval.cli.report", "Tables, tests and figures of finished runs."),
    "evaluate": LazyVerb("beir_eval.cli.evaluate", "Measure TREC runs."),
    "judge-answers": LazyVerb("beir_eval.cli.answers:JUDGE_ANSWERS", "Judge answers of any maker."),
    "attack": LazyVerb("beir_eval.cli.attack", "Measure how rankers resist the texts they read."),
    "steer": LazyVerb("beir_eval.cli.steer", "Measure how far rankings follow a sentence."),
    "judge": LazyVerb("beir_eval.cli.judge", "Judge passages by a model; compare it with people."),
    "retrieve": LazyVerb("beir_eval.cli.first_stage:RETRIEVE", "Find passages: the first stage."),
    "fuse": LazyVerb("beir_eval.cli.first_stage:FUSE", "Make one TREC run of several."),
}
"""The command's own verbs."""

# Verbs of `mcranker` and of `personas` that need this package; entry points name them.
COMPARE = LazyVerb("beir_eval.cli.compare", "See what moved between two rankings or runs, and why.")
RANKRAG = LazyVerb("beir_eval.cli.answers:RANKRAG", "Make RankRAG's training examples.")
INSPECT = LazyVerb("beir_eval.cli.inspect", "Show why passages of a saved ranking rank as they do.")
PERSONA_REPORT = LazyVerb(
    "beir_eval.cli.persona_report", "Report over a data set: who judged, and how."
)

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
    cli.run()
