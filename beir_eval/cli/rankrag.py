"""``mcranker rankrag``: training examples by RankRAG's recipe."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from beir_eval.rankrag import build_examples, read_recipe
from mcranker.cli.files import Reads, output, print_line
from mcranker.cli.invocation import Invocation, skip_note
from mcranker.cli.verb import Verb, flag, output_flag, present, quiet_flag
from personas import PromptSet
from personas.console import names, numbers, table
from personas.format import counted
from personas.sanitize import json_text


def _data(ctx: click.Context) -> int:
    params, out = ctx.params, Path(ctx.params["out"])
    ctx.ensure_object(Invocation).doing("reading data sets; nothing was written")
    recipe, skip = read_recipe(params["recipe"]), skip_note(quiet=params["quiet"])
    built = build_examples(recipe, PromptSet.load(params["prompts"]), on_skip=skip)
    out.mkdir(parents=True, exist_ok=True)
    for name, examples in (("stage1.jsonl", built.stage1), ("stage2.jsonl", built.stage2)):
        if not examples:
            (out / name).unlink(missing_ok=True)  # of another recipe
            continue
        with output(str(out / name)) as write:
            for each in examples:
                write(f"{json_text(each)}\n")
    columns = [names("source"), names("kind"), *numbers("examples", "in stage II", "left out")]
    rows = [
        (one.source, one.kind, f"{one.made:,}", f"{one.drawn:,}", f"{sum(one.left_out.values()):,}")
        for one in built.counts
    ]
    sources = [asdict(each) for each in built.counts]
    code = present(ctx, lambda console: console.print(table(columns, rows)), sources=sources)
    if params["output"] != "json":
        reasons: Counter[str] = sum((Counter(each.left_out) for each in built.counts), Counter())
        for why, number in reasons.items():
            print_line(f"{counted(number, 'question')} left out: {why}")
        print_line(f"{len(built.stage1):,} and {len(built.stage2):,} examples are in {out}")
    return code


command = click.Group(
    "rankrag",
    help="Make training examples by RankRAG's recipe, for a model that ranks and answers.",
    commands=[
        Verb(
            "data",
            _data,
            params=[
                click.Argument(["recipe"], type=Reads(), metavar="RECIPE.toml"),
                flag("--out", "Folder for stage1.jsonl and stage2.jsonl.", required=True),
                flag("--prompts", "Folder with other wording.", metavar="DIR", default="paper"),
                output_flag("sources"),
                quiet_flag(),
            ],
            help="""Make the examples of both stages from data sets that you have.

            \b
              mcranker rankrag data recipe.toml --out data/

            The recipe names data sets with their kind and weight; see the documentation.
            Questions of its test files are left out, and counted.
            """,
        ),
    ],
)
