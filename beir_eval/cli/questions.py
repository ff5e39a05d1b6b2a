"""``beir-eval questions``: questions with answers, written from a user's documents."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from beir_eval.answers.generation import Generated, QuestionWriter
from beir_eval.answers.judging import asking_by
from beir_eval.answers.questions import Question
from beir_eval.cli.judge_answers import MODEL_FLAGS, model_options
from mcranker.cli.failures import DONE, ERROR, as_flags, failure, print_json
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Writes, output, print_line, saying_where
from mcranker.cli.invocation import Invocation, say, skip_note
from mcranker.cli.options import option_flags
from mcranker.cli.progress import ProgressDisplay, Tracker, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.errors import InputError
from mcranker.llm.connect import choose_default
from mcranker.retrieval.chunks import Chunk, chunks_of
from mcranker.retrieval.readers import read_documents
from personas.format import counted
from personas.sanitize import json_text


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
        made = run_loop(partial(_all, ctx, chunks, options))
        said = [
            f"{counted(number, 'question')} refused: {why}"
            + (f", e.g. {as_flags(made.fault)}" if why == "failed" else "")
            for why, number in made.refused.items()
        ]
        if not made.questions:  # a file that is there stays as it is
            raise made.stopped or InputError(f"no question was written: {'; '.join(said)}")
        lines = [_line(each, chunks) for each in made.questions]
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


async def _all(ctx: click.Context, chunks: dict[str, Chunk], options: dict[str, Any]) -> Generated:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    tracker, made = Tracker("writing", params["count"], unit="questions"), Generated()
    invocation.reached = lambda: tracker.reached
    live = live_is_wanted(quiet=params["quiet"])
    async with asking_by(**options) as asking:
        writer = QuestionWriter(asking, list(chunks.values()), seed=params["seed"])
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
            async for made in writer.many(params["count"]):
                tracker.done = len(made.questions)
                display.update()
    return made


def _chunks(source: str, quiet: bool) -> dict[str, Chunk]:
    documents = read_documents(source, on_skip=skip_note(quiet=quiet))
    return {each.id: each for one in documents for each in chunks_of(one, "sentences")}


def _line(question: Question, chunks: dict[str, Chunk]) -> dict[str, Any]:
    return {
        "keep": True,
        "id": question.id,
        "question": question.text,
        "golden_answers": question.golden_answers,
        "metadata": question.metadata,
        "documents": question.documents,
        "evidence": [chunks[name].text for name in question.metadata["passages"]],
    }


command = Verb(
    "questions",
    _questions,
    params=[
        click.Argument(["corpus"], metavar="DIR|FILE"),
        flag("--count", "Questions that are wanted.", type=click.IntRange(1, 10_000), default=50),
        flag("--seed", "Another number gives other questions.", type=int, default=0),
        *option_flags(*MODEL_FLAGS),
        output_flag("questions, refused"),
        flag("--out", "Write the questions there, a JSON line each.", type=Writes()),
        quiet_flag(),
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
