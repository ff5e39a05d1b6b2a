"""``mcranker distil``: a team's scores into a cross-encoder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from beir_eval.cli.flags import training_flags
from beir_eval.distil.agreement import BAR, BY_TEACHER, FIRST, MEASURE, TEACHER, verdict
from beir_eval.distil.data import LOSSES
from beir_eval.distil.train import Distillation, distil
from mcranker.cli.files import Reads
from mcranker.cli.invocation import Invocation
from mcranker.cli.number_types import RealNumber
from mcranker.cli.verb import Verb, flag, output_flag, present, quiet_flag
from personas.console import names, numbers, table
from personas.sanitize import plain

_SHARE, _ABOVE_0 = RealNumber(0, 1, min_open=True, max_open=True), RealNumber(0, min_open=True)


def _distil(ctx: click.Context) -> int:
    params = ctx.params
    given = {name: params[name] for name in Distillation.__dataclass_fields__ if name in params}
    ctx.ensure_object(Invocation).doing("distilling; no model was saved")
    record = distil(Distillation(**given), quiet=params["quiet"])
    return present(ctx, partial(_show, out=params["out"], record=record), distillation=record)


def _show(console: Console, *, out: str, record: Mapping[str, Any]) -> None:
    judged, counts = record["judgements"], record["counts"]
    rows = []
    for name, found in {TEACHER: {}, **record["agreement"]}.items():
        row = [found.get(each) for each in ("tau", BY_TEACHER, "pearson", "mse")]
        row += [judged["figures"][name]] if judged else []
        rows.append((name, *(f"{each['mean']:.3f}" if each else "" for each in row)))
    columns = numbers("tau", BY_TEACHER, "Pearson", "MSE", *([MEASURE] if judged else []))
    console.print(table([names(""), *columns], rows))
    reached = "reached" if record["bar_reached"] else "not reached"
    found = verdict(judged["student_against"][FIRST]) if judged else ""
    for line in (
        f"Learned from {counts['queries']:,} queries; the figures are of "
        f"{counts['held_out_queries']:,} others.",
        f"The bar, {BY_TEACHER} within {BAR} of the teacher's 1, is {reached}.",
        *(f"Left out: {number:,}, {why}" for why, number in counts["left_out"].items()),
        *([f"By judgements the student is {found} than the first stage."] if found else []),
        f"{out}: use it as crossencoder:{out}, with --ranker rerank",
    ):
        console.print(Text(plain(line)), soft_wrap=True)


command = Verb(
    "distil",
    _distil,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUN..."),
        flag("--model", "The student: folder or hub name of an encoder.", required=True),
        flag("--out", "Folder for the trained student.", required=True),
        flag(
            "--held-out",
            "Evaluate on this run instead of a part of the others; may be repeated.",
            multiple=True,
            type=Reads(),
            metavar="RUN",
        ),
        flag("--dev", "Share of queries to evaluate on.", type=_SHARE, default=0.2, metavar="X"),
        flag(
            "--loss",
            "mse: each relevance; margin_mse: differences within a query; lambda: the order.",
            type=click.Choice(LOSSES),
            default="mse",
        ),
        flag(
            "--epochs", "How often each example is seen.", type=_ABOVE_0, default=1.0, metavar="X"
        ),
        *training_flags("epochs", batch=16, learning_rate=2e-5, max_tokens=256),
        output_flag("distillation"),
        quiet_flag(),
    ],
    help="""Train a small cross-encoder on a team's scores; needs pip install "mcranker[train]".

    \b
      beir-eval run --dataset scifact --split train --ranker mcranker --out runs
      mcranker distil runs/scifact/mcranker --model microsoft/MiniLM-L12-H384-uncased \\
          --out student
      mcranker rank "…" --docs passages.jsonl --ranker rerank --model crossencoder:student

    RUN is a finished run of 'beir-eval run'. The student is compared with its teacher and, where
    there are judgements, with the first stage; figures are in OUT/distil.json and OUT/README.md.
    """,
)
