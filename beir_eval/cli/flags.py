"""Flags that several verbs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from beir_eval.measures.significance import CORRECTIONS, MARGIN
from mcranker.cli.files import Reads
from mcranker.cli.number_types import RealNumber, WholeNumber
from mcranker.cli.verb import OTHER, GroupedOption
from mcranker.topics import TOPIC_FIELDS

_IN_RUN_FOLDERS = (
    *("manifest.json", "rankings.jsonl", "run.trec", "metrics.json"),
    *("queries.jsonl", "qrels.tsv", "passages.jsonl", "first_stage.trec"),
)


def run_folders(*inside: str) -> Reads:
    """Run folders, or folders that hold some; `inside` are patterns of what else is read there."""
    below = (f"{where}/{name}" for where in ("**", "../data") for name in _IN_RUN_FOLDERS)
    return Reads(*below, *inside, files=_with_folder)


DATA_SET = Reads("corpus.jsonl*", "queries.*", "topics.*", "qrels.*", "qrels/*")
"""The name of a data set, or its folder."""

FIRST_STAGE, STATISTICS = "First stage", "Statistics"


def count_flag(
    name: str, default: int | None, text: str, *, section: str = OTHER
) -> click.Parameter:
    """``--name N``, a whole number from 1; `text` is its help."""
    return GroupedOption(
        [f"--{name}"],
        type=WholeNumber(min=1),
        default=default,
        show_default=True,
        metavar="N",
        section=section,
        help=text,
    )


def measures_flag(default: str = "nDCG@10") -> click.Parameter:
    """``--measures``."""
    return click.Option(
        ["--measures"],
        default=default,
        show_default=True,
        metavar="NAME,NAME,...",
        help="As ir-measures writes them: nDCG@10, R@100, AP(rel=2), RR. The first one heads the "
        "tables.",
    )


def no_cache_flag() -> click.Parameter:
    """``--no-cache``."""
    return click.Option(
        ["--no-cache"],
        is_flag=True,
        help="Neither take nor keep indexes and first-stage runs in the cache folder.",
    )


def topic_field_flag(section: str = OTHER) -> click.Parameter:
    """``--topic-field``; None unless given."""
    return GroupedOption(
        ["--topic-field"],
        type=click.Choice(TOPIC_FIELDS),
        section=section,
        help="Of a folder with TREC topics, the field that is the query: title (or query), desc "
        "(description, question) or narr (narrative). Without: title.",
    )


def judgement_flags() -> list[click.Parameter]:
    """``--qrels``, or ``--dataset`` with ``--split``."""
    return [
        click.Option(
            ["--qrels"],
            type=Reads(),
            help="Judgements: query, document and grade as BEIR writes them, or TREC's 4 columns.",
        ),
        click.Option(
            ["--dataset"],
            type=DATA_SET,
            metavar="NAME|FOLDER",
            help="Take the judgements of this data set; see 'beir-eval datasets'.",
        ),
        click.Option(
            ["--split"],
            default="test",
            show_default=True,
            metavar="NAME",
            help="Which judgements of --dataset.",
        ),
    ]


def bm25_flags() -> list[click.Parameter]:
    """``--k1``, ``--b``, ``--index`` and ``--fields``; the last two are None unless given."""
    return [
        GroupedOption(
            ["--k1"],
            type=RealNumber(min=0),
            default=0.9,
            show_default=True,
            metavar="X",
            section=FIRST_STAGE,
            help="How slowly repeats of a term stop counting.",
        ),
        GroupedOption(
            ["--b"],
            type=RealNumber(min=0, max=1),
            default=0.4,
            show_default=True,
            metavar="X",
            section=FIRST_STAGE,
            help="How much long documents are held back, 0 to 1.",
        ),
        GroupedOption(
            ["--index"],
            type=click.Choice(["corpus", "prebuilt"]),
            section=FIRST_STAGE,
            help="For pyserini: an index of the given documents, made here; or the one that "
            "pyserini offers for the data set, downloaded once. Without: corpus.",
        ),
        GroupedOption(
            ["--fields"],
            type=click.Choice(["flat", "multifield"]),
            section=FIRST_STAGE,
            help="For pyserini: search title and text as one, or apart. Without: flat.",
        ),
    ]


def statistics_flags() -> list[click.Parameter]:
    """``--correction`` and ``--margin``."""
    return [
        GroupedOption(
            ["--correction"],
            type=click.Choice(CORRECTIONS),
            default="holm",
            show_default=True,
            section=STATISTICS,
            help="Of the p-values of the paired t-tests, for all comparisons of a table.",
        ),
        GroupedOption(
            ["--margin"],
            type=RealNumber(0, 1, min_open=True),
            default=MARGIN,
            show_default=True,
            metavar="X",
            section=STATISTICS,
            help="Test whether runs are no worse than the baseline, or equivalent to it, up to X.",
        ),
    ]


def _with_folder(text: str | None) -> Iterator[str | Path]:
    """The path, and the run folder that it is in if it is that of ``rankings.jsonl``."""
    if text is not None:
        yield text
        if (path := Path(text)).name == "rankings.jsonl":
            yield path.parent
