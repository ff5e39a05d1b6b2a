"""Flags that several verbs share."""

from __future__ import annotations

from functools import partial

import click

from beir_eval.measures.values import CORRECTIONS
from mcranker.cli.files import Reads, Writes
from mcranker.cli.number_types import RealNumber, WholeNumber
from mcranker.cli.verb import OTHER, flag

FIRST_STAGE, STATISTICS = "First stage", "Statistics"


def count_flag(
    name: str, default: int | None, text: str, *, section: str = OTHER
) -> click.Parameter:
    """``--name N``, a whole number from 1; `text` is its help."""
    kind = WholeNumber(min=1)
    return flag(f"--{name}", text, type=kind, default=default, metavar="N", section=section)


def html_flag() -> click.Parameter:
    """``--html``."""
    return flag("--html", "Write an HTML page instead.", type=Writes())


def measures_flag(default: str = "nDCG@10") -> click.Parameter:
    """``--measures``."""
    text = "As ir-measures writes them: nDCG@10, R@100, AP(rel=2), RR. The first heads the tables."
    return flag("--measures", text, default=default, metavar="NAME,NAME,...")


def no_cache_flag() -> click.Parameter:
    """``--no-cache``."""
    text = "Neither take nor keep indexes and first-stage runs in the cache folder."
    return flag("--no-cache", text, is_flag=True)


def qrels_flag(more: str = "") -> click.Parameter:
    """``--qrels``."""
    text = "Judgements: query, document and grade as BEIR writes them, or TREC's 4 columns."
    return flag("--qrels", f"{text}{more}", type=Reads())


def judgement_flags(more: str = "") -> list[click.Parameter]:
    """``--qrels``, or ``--dataset`` with ``--split``."""
    text = "Take the judgements of this data set; see 'beir-eval datasets'."
    return [
        qrels_flag(more),
        flag("--dataset", text, metavar="NAME|FOLDER"),
        flag("--split", "Which judgements of --dataset.", default="test", metavar="NAME"),
    ]


def bm25_flags() -> list[click.Parameter]:
    """``--k1``, ``--b``, ``--index`` and ``--fields``; the last two are None unless given."""
    made = partial(flag, section=FIRST_STAGE)
    return [
        made(
            "--k1",
            "How slowly repeats of a term stop counting.",
            type=RealNumber(min=0),
            default=0.9,
            metavar="X",
        ),
        made(
            "--b",
            "How much long documents are held back, 0 to 1.",
            type=RealNumber(min=0, max=1),
            default=0.4,
            metavar="X",
        ),
        made(
            "--index",
            "For pyserini: an index of the given documents, made here; or the one that pyserini "
            "offers for the data set, downloaded once. Without: corpus.",
            type=click.Choice(["corpus", "prebuilt"]),
        ),
        made(
            "--fields",
            "For pyserini: search title and text as one, or apart. Without: flat.",
            type=click.Choice(["flat", "multifield"]),
        ),
    ]


def correction_flag() -> click.Option:
    """``--correction``."""
    return flag(
        "--correction",
        "Of the p-values of the paired t-tests, for all comparisons of a table.",
        type=click.Choice(CORRECTIONS),
        default="holm",
        section=STATISTICS,
    )
