"""``beir-eval judge-answers``: how good answers are, whatever made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from beir_eval.answers.judges import JUDGES, judge_of, names_of
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
from mcranker.cli.failures import DONE, MISSING_SCORES, as_flags
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Reads, Writes, output, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.progress import Tracker, in_order, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, output_flag, present, quiet_flag
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.rankers.keys import needed_models
from personas.console import names as name_column
from personas.console import table
from personas.format import counted
from personas.ranking.usage import UsageTable
from personas.sanitize import json_text, plain

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT = "exact_match,f1,accuracy"
MODEL_FLAGS = ("model", "base_url", "ledger", "max_cost", "config", "option")


def model_options(ctx: click.Context) -> Given:
    """Return the options of the one model that judges, or writes questions."""
    roles = {*MODEL_OPTIONS} - {"model"}
    return given_options(ctx, default=None, without=roles, what="a model that is asked in words")


def _judge_answers(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    names, given = names_of(params["judges"].split(",")), model_options(ctx)
    invocation.doing("reading answers")
    questions = read_questions(params["questions"]) if params["questions"] else ()
    answers = read_answers(params["file"], questions)
    check_answers(answers, names)
    if any(judge_of(name).asks for name in names):
        fetch_models(needed_models([("mcranker", given.options)]), quiet=params["quiet"])
    usage, rows = UsageTable(), list[JudgedAnswer]()

    async def judge() -> str:
        tracker = Tracker("judging", len(answers), unit="answers")
        live = live_is_wanted(quiet=params["quiet"])
        async with judges_of(names, usage=usage, **given.options) as judges:
            await in_order(judged(answers, judges), rows.append, tracker, invocation, live=live)
            return next(filter(None, (each.asked_model for each in judges.values())), "")

    with saying_where(given.ledger), output(params["out"]) as write:
        model = run_loop(judge)
        if params["out"] is not None:
            write("".join(f"{json_text(row_of(row))}\n" for row in rows))
    judged_by = [(str(row.place), row.judgements) for row in rows]
    found = {name: judge_metrics([judged_by], name) for name in names}
    writers = frozenset[str]().union(*(each.models for each in answers))
    cautious = cautions(found.items(), questions=len(rows), runs=1, judge=model, writers=writers)
    warned = [sentence for _, sentence in cautious]
    return present(
        ctx,
        lambda console: _show(console, found, len(rows), warned),
        MISSING_SCORES if any(each.missing or each.failed for each in found.values()) else DONE,
        judges=[_as_dict(name, each) for name, each in found.items()],
        answers=len(rows),
        model=model,
        calls=usage.total.calls,
        warnings=warned,
    )


def _as_dict(name: str, found: JudgeMetrics) -> dict[str, Any]:
    interval = found.interval(name)
    return {
        "judge": name,
        "scale": judge_of(name).scale,
        "spread": found.spread,
        "interval": None if interval is None else asdict(interval),
        **found.model_dump(exclude={"run_means", "questions"}),
    }


def _show(
    console: Console, found: Mapping[str, JudgeMetrics], answers: int, warned: Sequence[str]
) -> None:
    rows = []
    for name, each in found.items():
        low, high = judge_of(name).scale
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
            line = Text(plain(f"{name}: {counted(number, 'answer')}: {as_flags(why)}"))
            console.print(line, style="yellow", soft_wrap=True)
    for sentence in warned:
        say(f"warning: {sentence}")


command = Verb(
    "judge-answers",
    _judge_answers,
    params=[
        click.Argument(["file"], type=Reads(), metavar="FILE.jsonl"),
        flag("--judges", f"Some of {', '.join(JUDGES)}.", default=DEFAULT, metavar="NAME,NAME,..."),
        flag("--questions", "Questions with golden answers: JSONL, by id.", type=Reads()),
        *option_flags(*MODEL_FLAGS),
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
