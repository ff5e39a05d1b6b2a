"""The `beir-eval` command itself; its verbs are imported when they are used."""

from __future__ import annotations

from typing import NoReturn

from mcranker.cli.group import EXIT_CODES, Verbs
from mcranker.cli.plugins import LazyVerb

COMPARE = LazyVerb(
    "beir_eval.cli.compare", "See what moved between two rankings or two runs, and why."
)
VERBS = {
    "run": LazyVerb("beir_eval.cli.run", "Run rankers over data sets, as a suite or flags say."),
    "report": LazyVerb(
        "beir_eval.cli.report", "Tables, significance and figures of finished runs."
    ),
    "compare": COMPARE,
    "verify": LazyVerb("beir_eval.cli.verify", "See whether run folders are as they were written."),
    "evaluate": LazyVerb("beir_eval.cli.evaluate", "Measure TREC runs."),
    "questions": LazyVerb(
        "beir_eval.cli.questions", "Write questions with answers about documents."
    ),
    "judge-answers": LazyVerb("beir_eval.cli.judge_answers", "Judge answers, whatever made them."),
    "attack": LazyVerb(
        "beir_eval.cli.attack", "Measure how far rankers resist the texts they read."
    ),
    "judge": LazyVerb(
        "beir_eval.cli.judge", "Judge passages by a model, and compare it with people."
    ),
    "anova": LazyVerb("beir_eval.cli.anova", "Analyse the variance in a table of results."),
    "retrieve": LazyVerb("beir_eval.cli.retrieve", "Find passages: the first stage alone."),
    "fuse": LazyVerb("beir_eval.cli.fuse", "Make one TREC run of several."),
    "datasets": LazyVerb("beir_eval.cli.datasets", "List the data sets that can be named."),
    "suites": LazyVerb("beir_eval.cli.suites", "List the suites that come with the package."),
}
"""The command's own verbs."""

# Verbs of `mcranker` and of `personas` that need this package; entry points name them.
DEMO = LazyVerb(
    "beir_eval.cli.demo", "Rank a small collection that comes with it, and see how good that is."
)
RANKRAG = LazyVerb("beir_eval.cli.rankrag", "Make RankRAG's training examples.")
INSPECT = LazyVerb(
    "beir_eval.cli.inspect", "Show why passages of a saved ranking rank where they do."
)
PERSONA_REPORT = LazyVerb(
    "beir_eval.cli.persona_report",
    "Report over a data set: who judged, how they agreed, what they were worth.",
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
