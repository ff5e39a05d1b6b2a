"""``beir-eval questions`` and ``judge-answers``, ``mcranker rankrag``: questions with answers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from beir_eval.answers.generation import Generated, QuestionWriter
from beir_eval.answers.judges import JUDGES, judge_of, names_of
from beir_eval.answers.judging import (
    JudgedAnswer,
    asking_by,
    check_answers,
    judged,
    judges_of,
    read_answers,
    row_of,
)
from beir_eval.answers.metrics import JudgeMetrics, judge_metrics
from beir_eval.answers.questions import Question, read_questions
from beir_eval.measures.values import Values
from beir_eval.rankrag import build_examples, read_recipe
from beir_eval.report.warnings import flaw_notices
from mcranker.cli.invocation import Invocation, run_loop, say, skip_note
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.output import (
    DONE,
    ERROR,
    MISSING_SCORES,
    as_flags,
    failure,
    output,
    present,
    print_json,
    print_line,
    saying_where,
)
from mcranker.cli.progress import Tracker, fetch_models, in_order, showing
from mcranker.cli.verb import Reads, Verb, Writes, flag, output_flag
from mcranker.errors import InputError
from mcranker.llm.connect import choose_default
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.rankers.keys import needed_models
from mcranker.retrieval.chunks import Chunk, chunks_of
from mcranker.retrieval.readers import read_documents
from personas import PromptSet
from personas.console import names, numbers, table
from personas.console import names as name_column
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
        async with judges_of(names, usage=usage, **given.options) as judges:
            await in_order(ctx, judged(answers, judges), rows.append, tracker)
            return next(filter(None, (each.asked_model for each in judges.values())), "")

    with saying_where(given.ledger), output(params["out"]) as write:
        model = run_loop(judge)
        if params["out"] is not None:
            write("".join(f"{json_text(row_of(row))}\n" for row in rows))
    judged_by = [(str(row.place), row.judgements) for row in rows]
    found = {name: judge_metrics([judged_by], name) for name in names}
    writers = frozenset[str]().union(*(each.models for each in answers))
    values = {
        name: each.as_values(name, model, own=model in writers) for name, each in found.items()
    }
    warned = [each.sentence for each in flaw_notices(values.items())]
    return present(
        ctx,
        lambda console: _show(console, found, values, len(rows), warned),
        MISSING_SCORES if any(each.missing or each.failed for each in found.values()) else DONE,
        judges=[_as_dict(each, values[name]) for name, each in found.items()],
        answers=len(rows),
        model=model,
        calls=usage.total.calls,
        warnings=warned,
    )


def _as_dict(found: JudgeMetrics, values: Values) -> dict[str, Any]:
    several = len(values.of) > 1
    return {
        "judge": values.measure,
        "scale": values.scale,
        "spread": stdev(values.of.values()) if several else None,
        "interval": asdict(values.interval) if several else None,
        **found.model_dump(exclude={"run_means", "questions"}),
    }


def _show(
    console: Console,
    found: Mapping[str, JudgeMetrics],
    values: Mapping[str, Values],
    answers: int,
    warned: Sequence[str],
) -> None:
    rows = []
    for name, each in found.items():
        of = values[name]
        low, high = of.scale
        several = len(of.of) > 1
        span = f"{of.interval.low:.4f} to {of.interval.high:.4f}" if several else ""
        spread = f"{stdev(of.of.values()):.4f}" if several else ""
        mean = "" if of.mean is None else f"{of.mean:.4f}"
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


JUDGE_ANSWERS = Verb(
    "judge-answers",
    _judge_answers,
    params=[
        click.Argument(["file"], type=Reads(), metavar="FILE.jsonl"),
        flag("--judges", f"Some of {', '.join(JUDGES)}.", default=DEFAULT, metavar="NAME,NAME,..."),
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


def _questions(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    invocation.doing("reading documents; nothing was sent")
    if params["out"] is not None and Path(params["out"]).is_file():
        raise click.UsageError(
            f"--out {params['out']!r} is there already, and may have been edited; name "
            "another file, or delete it (the ledger keeps the replies)",
            ctx,
        )
    given = model_options(ctx)
    options = {"model": choose_default(os.environ)[0], **given.options}
    chunks = _chunks(params["corpus"], params["quiet"])
    fetch_models([options["model"]], quiet=params["quiet"])
    with saying_where(given.ledger), output(params["out"]) as write:
        made = run_loop(partial(_written, ctx, chunks, options))
        said = [
            f"{counted(number, 'question')} refused: {why}"
            + (f", e.g. {as_flags(made.fault)}" if why == "failed" else "")
            for why, number in made.refused.items()
        ]
        if not made.questions:  # a file that is there stays as it is
            raise made.stopped or InputError(f"no question was written: {'; '.join(said)}")
        lines = [_question_line(each, chunks) for each in made.questions]
        if params["output"] != "json" or params["out"] is not None:
            write("".join(f"{json_text(each)}\n" for each in lines))
    errors = []
    if len(lines) < params["count"]:
        errors.append(failure(made.stopped or InputError("add documents, or name a larger model")))
        wanted = f"{len(lines):,} of {counted(params['count'], 'question')} written"
        said.append(f"error: {wanted}: {errors[0].message}")
    code = ERROR if errors else DONE
    if params["output"] == "json":
        entries = [each.entry for each in errors]
        return print_json(code, entries, questions=lines, refused=dict(made.refused))
    for each in said:
        say(each)
    if params["out"] is not None:
        print_line(f"{counted(len(lines), 'question')} in {params['out']}; read them before use")
    return code


async def _written(
    ctx: click.Context, chunks: dict[str, Chunk], options: dict[str, Any]
) -> Generated:
    params, made = ctx.params, Generated()
    tracker = Tracker("writing", params["count"], unit="questions")
    async with asking_by(**options) as asking:
        writer = QuestionWriter(asking, list(chunks.values()), seed=params["seed"])
        with showing(ctx, tracker) as display:
            async for made in writer.many(params["count"]):
                tracker.done = len(made.questions)
                display.update()
    return made


def _chunks(source: str, quiet: bool) -> dict[str, Chunk]:
    documents = read_documents(source, on_skip=skip_note(quiet=quiet))
    return {each.id: each for one in documents for each in chunks_of(one, "sentences")}


def _question_line(question: Question, chunks: dict[str, Chunk]) -> dict[str, Any]:
    return {
        "keep": True,
        "id": question.id,
        "question": question.text,
        "golden_answers": question.golden_answers,
        "metadata": question.metadata,
        "documents": question.documents,
        "evidence": [chunks[name].text for name in question.metadata["passages"]],
    }


QUESTIONS = Verb(
    "questions",
    _questions,
    params=[
        click.Argument(["corpus"], metavar="DIR|FILE"),
        flag("--count", "Questions that are wanted.", type=click.IntRange(1, 10_000), default=50),
        flag("--seed", "Another number gives other questions.", type=int, default=0),
        *option_flags(*MODEL_FLAGS),
        output_flag("questions, refused"),
        flag("--out", "Write the questions there, a JSON line each.", type=Writes()),
    ],
    help="""Write questions with answers about documents, for 'beir-eval run' and 'judge-answers'.

    \b
      beir-eval questions papers/ --count 100 --model openai:gpt-5 --out questions.jsonl

    Each question has a user, factuality, premise, phrasing, wording and number of documents drawn
    by DataMorgana's probabilities, and passages drawn at random. A second call checks that the
    passages answer it and that the answer is right; one like another is refused. The file is for
    people to read: set "keep" to false, or change the question and the answer. The same seed and
    documents ask nothing again that the ledger has.
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
