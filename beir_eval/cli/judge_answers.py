"""``beir-eval judge-answers``: how good answers are, whatever made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from beir_eval.answers.judges import JUDGES, judge_class, names_of
from beir_eval.answers.judging import (
    JudgedAnswer,
    check_answers,
    judged,
    judges_of,
    read_answers,
    row_of,
)
from beir_eval.answers.metrics import JudgeMetrics, cautions, judge_metrics
from beir_eval.answers.questions import read_questions
from mcranker.cli.failures import DONE, MISSING_SCORES, print_json
from mcranker.cli.files import Reads, Writes, output, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.progress import Tracker, in_order, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.rankers.keys import shared_keys
from personas.console import names as name_column
from personas.console import print_page, table
from personas.format import counted
from personas.ranking.usage import UsageTable
from personas.sanitize import json_text, plain

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.answers.judging import AnswerFile

DEFAULT = "exact_match,f1,accuracy"
OPTIONS = (
    *("model", "base_url", "ledger", "prompts", "max_calls", "max_cost", "timeout"),
    *("concurrency", "requests_per_minute", "tokens_per_minute", "temperature", "cache_variant"),
)


def _judge_answers(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    names = names_of(params["judges"])
    others = shared_keys().keys() - set(OPTIONS)
    given = given_options(ctx, default=None, without=others, what="judges of answers")
    invocation.doing("reading answers")
    questions = read_questions(params["questions"]) if params["questions"] else None
    file = read_answers(params["file"], questions)
    check_answers(file, names)
    usage = UsageTable()
    with saying_where(given.ledger), output(params["out"]) as write:
        rows, asked = run_loop(
            partial(_all, file, names, dict(given.options), usage, invocation, params["quiet"])
        )
        if params["out"] is not None:
            for row in rows:
                write(f"{json_text(row_of(row))}\n")
    judged_by = [(str(place), row.judgements) for place, row in enumerate(rows)]
    found = {name: judge_metrics([judged_by], name) for name in names}
    warned = [
        sentence
        for _, sentence in cautions(
            found.items(), questions=len(rows), runs=1, judge=asked, writers=file.models
        )
    ]
    code = MISSING_SCORES if any(each.missing for each in found.values()) else DONE
    if params["output"] == "json":
        return print_json(
            code,
            judges=[_as_dict(name, each) for name, each in found.items()],
            answers=len(rows),
            model=asked,
            calls=usage.total.calls,
            warnings=warned,
        )
    print_page(lambda console: _show(console, found, len(rows)))
    for each in warned:
        say(f"warning: {each}")
    return code


async def _all(
    file: AnswerFile,
    names: Sequence[str],
    options: dict[str, Any],
    usage: UsageTable,
    invocation: Invocation,
    quiet: bool,
) -> tuple[list[JudgedAnswer], str]:
    rows: list[JudgedAnswer] = []
    tracker = Tracker("judging", len(file.answers), unit="answers")
    async with judges_of(names, usage=usage, **options) as judges:
        found, live = judged(file.answers, judges), live_is_wanted(quiet=quiet)
        await in_order(found, rows.append, tracker, invocation, live=live)
        asked = next(filter(None, (each.asked_model for each in judges.values())), "")
    return rows, asked


def _as_dict(name: str, found: JudgeMetrics) -> dict[str, Any]:
    interval = found.interval(name)
    return {
        "judge": name,
        "scale": judge_class(name)[0].scale,
        "spread": found.spread,
        "interval": None if interval is None else asdict(interval),
        **found.model_dump(exclude={"run_means", "questions"}),
    }


def _show(console: Console, found: Mapping[str, JudgeMetrics], answers: int) -> None:
    rows = []
    for name, each in found.items():
        low, high = judge_class(name)[0].scale
        interval = each.interval(name)
        span = "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}"
        mean, spread = ("" if x is None else f"{x:.4f}" for x in (each.mean, each.spread))
        counts = (f"{number:,}" for number in (each.values, each.missing, each.undefined))
        rows.append((name, f"{low:g} to {high:g}", mean, span, spread, *counts))
    headings = ("scale", "mean", "95% interval", "SD", "values", "missing", "undefined")
    console.print(table([name_column("judge"), *headings], rows))
    console.print(Text(f"Of {counted(answers, 'answer')}; a missing value is in no mean."))
    for name, each in found.items():
        for why, number in [*each.reasons.items()][:3]:
            line = Text(plain(f"{name}: {counted(number, 'answer')}: {why}"))
            console.print(line, style="yellow", soft_wrap=True)


command = Verb(
    "judge-answers",
    _judge_answers,
    keys=OPTIONS,
    params=[
        click.Argument(["file"], type=Reads(), metavar="FILE.jsonl"),
        flag("--judges", f"Some of {', '.join(JUDGES)}.", default=DEFAULT, metavar="NAME,NAME,..."),
        flag("--questions", "Questions with golden answers: JSONL, by id.", type=Reads()),
        *option_flags(*OPTIONS),
        output_flag("judges, answers, model, calls, warnings"),
        flag("--out", "Write each answer's judgements there, a JSON line each.", type=Writes()),
        quiet_flag(),
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
