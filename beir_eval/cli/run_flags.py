"""The flags of ``beir-eval run``."""

from __future__ import annotations

from functools import partial

import click

from beir_eval.cli.flags import FIRST_STAGE, bm25_flags, measures_flag, no_cache_flag
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.options import (
    config_flags,
    ledger_flag,
    model_flags,
    team_flag,
    with_criteria_flag,
)
from mcranker.cli.verb import GroupedOption, output_flag, quiet_flag
from mcranker.config import RankerConfig
from mcranker.models import ROLES
from mcranker.rankers import RANKERS

WHAT, OUTPUT = "What is run", "Output"


def run_flags() -> list[click.Parameter]:
    """Every parameter, in the order of the help."""
    what, out = partial(GroupedOption, section=WHAT), partial(GroupedOption, section=OUTPUT)
    config = [name for name in RankerConfig.model_fields if name not in ("dataset", "depth")]
    return [
        click.Argument(["suite"], required=False),
        what(
            ["--dataset", "datasets"],
            multiple=True,
            metavar="NAME|FOLDER",
            help="A data set, instead of the suite's; may be repeated. See 'beir-eval datasets'.",
        ),
        what(["--split"], default="", metavar="NAME", help="Which judgements ('test')."),
        what(
            ["--about"],
            default="",
            metavar="TEXT",
            help="What the collection is, for criteria of the data set.",
        ),
        what(
            ["--ranker"],
            multiple=True,
            type=click.Choice(RANKERS.names),
            help="A ranker, without a suite; may be repeated.",
        ),
        what(["--label"], metavar="TEXT", help="Names the run of one --ranker."),
        what(
            ["--only"],
            multiple=True,
            metavar="LABEL",
            help="A ranker of the suite to run, instead of all; may be repeated.",
        ),
        what(
            ["--queries"],
            metavar="ID,ID,...|FILE",
            help="Only these queries; in a file, an id a line.",
        ),
        what(
            ["--limit"],
            type=WholeNumber(min=1),
            metavar="N",
            help="Only the first so many queries of each data set.",
        ),
        what(
            ["--depth", "passages"],
            type=WholeNumber(min=1),
            metavar="N",
            help="Passages a query that the first stage hands over (the suite's, or 100).",
        ),
        GroupedOption(
            ["--first-stage"],
            default="bm25s",
            show_default=True,
            section=FIRST_STAGE,
            metavar="bm25s|pyserini|FILE",
            help="What finds the passages: BM25 as built in, Lucene's, or a TREC run.",
        ),
        *bm25_flags(),
        measures_flag(),
        what(
            ["--use"],
            multiple=True,
            metavar="NAME=MODEL",
            help="The model for a name that the suite gives to models.",
        ),
        out(["--out"], metavar="FOLDER", help="Where run folders go (runs/SUITE)."),
        output_flag("results"),
        out(
            ["--dry-run"],
            is_flag=True,
            help="Show calls, tokens and cost instead; nothing is sent, no file is written.",
        ),
        no_cache_flag(),
        team_flag(
            "A saved team, or one of the library, for all queries; nobody is recruited, unless "
            "--team-size is larger."
        ),
        with_criteria_flag(),
        *config_flags(config),
        *model_flags(ROLES),
        ledger_flag(),
        quiet_flag(),
    ]
