"""``beir-eval judge-answers`` and ``mcranker rankrag``: questions with answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import stdev
from typing import Any

import click
from rich.console import Console

from beir_eval.answers.judges import JUDGES, judge_of, names_of
from beir_eval.answers.judging import (
    JudgedAnswer,
    check_answers,
    judged,
    judges_of,
    read_answers,
    row_of,
)
from beir_eval.answers.metrics import JudgeMetrics, judge_metrics
from beir_eval.answers.questions import read_questions
from beir_eval.cli.flags import names_flag, print_lines
from beir_eval.measures.values import Values
from beir_eval.rankrag import build_examples, read_recipe
from beir_eval.report.warnings import flaw_notices
from mcranker.cli.flags import Reads, Verb, Writes, flag, output_flag
from mcranker.cli.invocation import Invocation, run_loop, say, skip_note
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, MISSING_SCORES, as_flags, output, present, saying_where
from mcranker.cli.progress import Tracker, fetch_models, in_order
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.rankers.keys import needed_models
from personas import PromptSet
from personas.console import names, numbers, table
from personas.format import counted
from personas.ranking.usage import UsageTable
from personas.sanitize import json_text

DEFAULT = "exact_match,f1,accuracy"
MODEL_FLAGS = ("model", "base_url", "ledger", "max_cost", "config", "option")


def _judge_answers(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    chosen, roles = names_of(params["judges"]), {*MODEL_OPTIONS} - {"model"}
    given = given_options(ctx, default=None, without=roles, what="a model that is asked in words")
    invocation.doing("reading answers")
    questions = read_questions(params["questions"]) if params["questions"] else ()
    answers = read_answers(params["file"], questions)
    check_answers(answers, chosen)
    if any(judge_of(name).asks for name in chosen):
        fetch_models(needed_models([("mcranker", given.options)]), quiet=params["quiet"])
    usage, rows = UsageTable(), list[JudgedAnswer]()

    async def judge() -> str:
        tracker = Tracker("judging", len(answers), unit="answers")
        async with judges_of(chosen, usage=usage, **given.options) as judges:
            await in_order(ctx, judged(answers, judges), rows.append, tracker)
            return next(filter(None, (each.asked_model for each in judges.values())), "")

    with saying_where(given.ledger), output(params["out"]) as write:
        model = run_loop(judge)
        if params["out"] is not None:
            write("".join(f"{json_text(row_of(row))}\n" for row in rows))
    judged_by = [(str(row.place), row.judgements) for row in rows]
    found = {name: judge_metrics([judged_by], name) for name in chosen}
    writers = frozenset[str]().union(*(each.models for each in answers))
    values = {
        name: each.as_values(name, model, own=model in writers) for name, each in found.items()
    }
    warned = [each.sentence for each in flaw_notices(values.items())]
    records = [_record(each, values[name]) for name, each in found.items()]
    return present(
        ctx,
        lambda console: _show(console, records, len(rows), warned),
        MISSING_SCORES if any(each.missing or each.failed for each in found.values()) else DONE,
        judges=records,
        answers=len(rows),
        model=model,
        calls=usage.total.calls,
        warnings=warned,
    )


def _record(found: JudgeMetrics, values: Values) -> dict[str, Any]:
    several = len(values.of) > 1
    return {
        "judge": values.measure,
        "scale": values.scale,
        "spread": stdev(values.of.values()) if several else None,
        "interval": asdict(values.interval) if several else None,
        **found.model_dump(exclude={"run_means", "questions"}),
    }


def _show(
    console: Console, found: Sequence[Mapping[str, Any]], answers: int, warned: Sequence[str]
) -> None:
    rows, lines = [], [f"Of {counted(answers, 'answer')}; a missing value is in no mean."]
    for each in found:
        low, high = each["scale"]
        ends = each["interval"]
        span = "" if ends is None else f"{ends['low']:.4f} to {ends['high']:.4f}"
        values = ("" if each[key] is None else f"{each[key]:.4f}" for key in ("mean", "spread"))
        counts = (f"{each[key]:,}" for key in ("values", "missing", "undefined"))
        rows.append((each["judge"], f"{low:g} to {high:g}", *values, span, *counts))
        for why, number in [*each["reasons"].items()][:3]:
            lines.append(f"{each['judge']}: {counted(number, 'answer')}: {as_flags(why)}")
    headings = ("scale", "mean", "SD", "95% interval", "values", "missing", "undefined")
    console.print(table([names("judge"), *headings], rows))
    print_lines(console, lines)
    for sentence in warned:
        say(f"warning: {sentence}")


JUDGE_ANSWERS = Verb(
    "judge-answers",
    _judge_answers,
    params=[
        click.Argument(["file"], type=Reads(), metavar="FILE.jsonl"),
        names_flag("--judges", f"Some of {', '.join(JUDGES)}.", DEFAULT),
        flag("--questions", "Questions with golden answers: JSONL, by id.", type=Reads()),
        *option_flags(*MODEL_FLAGS),
        output_flag("judges, answers, model, calls, warnings"),
        flag("--out", "Write each answer's judgements there, a JSON line each.", type=Writes()),
    ],
    help="""Judge answers that 'mcranker ask' or anything else made.

    \b
      mcranker ask --questions questions.jsonl --index papers.index --out answers.jsonl
      beir-eval judge-answers answers.jsonl --questions questions.jsonl
      beir-eval judge-answers answers.jsonl --judges answer_similarity,nuggets --model openai:gpt-5

    A line of the file is an answer of 'mcranker ask', or an object with id, question, answer,
    golden_answers and context. A verdict that cannot be read is missing: it is counted, and in
    no mean. The same command asks nothing again that the ledger has.
    """,
)


def _rankrag(ctx: click.Context) -> int:
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

    def show(console: Console) -> None:
        rows, reasons = [], Counter[str]()
        for each in built.counts:
            counts = (each.made, each.drawn, sum(each.left_out.values()))
            rows.append((each.source, each.kind, *(f"{number:,}" for number in counts)))
            reasons.update(each.left_out)
        headings = numbers("examples", "in stage II", "left out")
        console.print(table([names("source"), names("kind"), *headings], rows))
        lines = [f"{counted(count, 'question')} left out: {why}" for why, count in reasons.items()]
        made = f"{len(built.stage1):,} and {len(built.stage2):,} examples are in {out}"
        print_lines(console, [*lines, made])

    return present(ctx, show, sources=[asdict(each) for each in built.counts])


RANKRAG = Verb(
    "rankrag",
    _rankrag,
    params=[
        click.Argument(["recipe"], type=Reads(), metavar="RECIPE.toml"),
        flag("--out", "Folder for stage1.jsonl and stage2.jsonl.", required=True),
        flag("--prompts", "Folder with other wording.", metavar="DIR", default="paper"),
        output_flag("sources"),
    ],
    help="""Make training examples by RankRAG's recipe, for a model that ranks and answers.

    \b
      mcranker rankrag recipe.toml --out data/

    The recipe names data sets that you have, with their kind and weight; see the documentation.
    Questions of its test files are left out, and counted.
    """,
)
