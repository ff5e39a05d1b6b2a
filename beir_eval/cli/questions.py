"""``beir-eval questions``: questions with answers, written from a user's documents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from beir_eval.answers.generation import Generated, QuestionWriter
from beir_eval.answers.judging import asking_of
from beir_eval.answers.questions import Question
from beir_eval.cli.judge_answers import OPTIONS
from mcranker.cli.failures import DONE, ERROR, failure, print_json
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Writes, output, print_line, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.progress import ProgressDisplay, Tracker, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.config import RankerConfig
from mcranker.errors import InputError
from mcranker.models import Layers
from mcranker.rag.keys import default_writer
from mcranker.rankers.keys import shared_keys
from mcranker.retrieval.chunks import Chunk, chunks_of
from mcranker.retrieval.readers import Skipped, read_documents
from personas.format import counted
from personas.ranking.usage import UsageTable
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
    others = shared_keys().keys() - set(OPTIONS)
    given = given_options(ctx, default=None, without=others, what="a writer of questions")
    options = {"model": default_writer(), **given.options}
    chunks = _chunks(params["corpus"], params["quiet"])
    fetch_models([options["model"]], quiet=params["quiet"])
    with saying_where(given.ledger), output(params["out"]) as write:
        made = run_loop(partial(_all, ctx, chunks, options))
        if not made.questions:  # a file that is there stays as it is
            raise made.stopped or InputError(f"no question was written: {'; '.join(_said(made))}")
        lines = [f"{json_text(_line(each, chunks))}\n" for each in made.questions]
        if params["output"] != "json" or params["out"] is not None:
            write("".join(lines))
    count, code, errors = len(made.questions), DONE, []
    said = [*_said(made)]
    if count < params["count"]:
        code = ERROR
        errors.append(failure(made.stopped or InputError("add documents, or name a larger model")))
        wanted = f"{count:,} of {counted(params['count'], 'question')} written"
        said.append(f"error: {wanted}. {errors[0].message}")
    if params["output"] == "json":
        listed = [_line(each, chunks) for each in made.questions]
        entries = [each.entry for each in errors]
        return print_json(code, entries, questions=listed, refused=dict(made.refused))
    for each in said:
        say(each)
    if params["out"] is not None:
        print_line(f"{counted(count, 'question')} in {params['out']}; read them before use")
    return code


def _said(made: Generated) -> Iterator[str]:
    """Yield how many questions were refused for which reason."""
    for why, number in made.refused.items():
        more = f", e.g. {made.faults[0]}" if why == "failed" and made.faults else ""
        yield f"{counted(number, 'question')} refused: {why}{more}"


def _chunks(source: str, quiet: bool) -> dict[str, Chunk]:
    def skip(each: Skipped) -> None:
        if not quiet:
            say(f"left out: {each.path}: {each.reason}")

    documents = read_documents(source, on_skip=skip)
    return {each.id: each for one in documents for each in chunks_of(one, "sentences")}


def _line(question: Question, chunks: dict[str, Chunk]) -> dict[str, Any]:
    evidence = [chunks[name].text for name in question.metadata["passages"]]
    return {
        "keep": True,
        "id": question.id,
        "question": question.text,
        "golden_answers": question.golden_answers,
        "metadata": question.metadata,
        "documents": question.documents,
        "evidence": evidence,
    }


async def _all(ctx: click.Context, chunks: dict[str, Chunk], options: dict[str, Any]) -> Generated:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    model, base_url = options.pop("model"), options.pop("base_url", None)
    ledger = options.pop("ledger", "default")
    layers = Layers(RankerConfig(**options), ledger)
    asking = asking_of(layers, model, UsageTable(), base_url=base_url, api_key=None)
    writer = QuestionWriter(asking, list(chunks.values()), seed=params["seed"])
    tracker, made = Tracker("writing", params["count"], unit="questions"), Generated()
    invocation.reached = lambda: f"after {counted(len(made.questions), 'question')}"
    live = live_is_wanted(quiet=params["quiet"])
    try:
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
            async for made in writer.many(params["count"]):
                tracker.done = len(made.questions)
                display.update()
    finally:
        await asking.model.aclose()
        if layers.ledger is not None:
            await layers.ledger.aclose()
    return made


command = Verb(
    "questions",
    _questions,
    keys=OPTIONS,
    params=[
        click.Argument(["corpus"], metavar="DIR|FILE"),
        flag("--count", "Questions that are wanted.", type=click.IntRange(1, 10_000), default=50),
        flag("--seed", "Another number gives other questions.", type=int, default=0),
        *option_flags(*OPTIONS),
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
