"""``mcranker index`` and ``mcranker ask``: an index of documents, and answers with sources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from mcranker.cli.flags import Reads, Verb, Writes, dry_run_flag, flag, output_flag, refuse
from mcranker.cli.invocation import Invocation, run_loop, say, skip_note
from mcranker.cli.options import given_pipeline, option_flags, pipeline_flags
from mcranker.cli.output import (
    DONE,
    ERROR,
    MISSING_SCORES,
    Write,
    envelope,
    failure,
    keep,
    output,
    present,
    saying_where,
)
from mcranker.cli.progress import (
    Tracker,
    check_local_models,
    fetch_models,
    in_order,
    live_is_wanted,
    showing,
)
from mcranker.cli.rank import read_queries
from mcranker.cli.results import show_estimate
from mcranker.config import RankerConfig
from mcranker.errors import InputError
from mcranker.estimate import Estimate
from mcranker.inputs.passages import as_query
from mcranker.llm.connect import DEFAULT_LOCAL
from mcranker.rag.config import models_of
from mcranker.rag.result import AnswerDone
from mcranker.retrieval.chunks import ChunkKind
from mcranker.retrieval.embedders import connect_embedder
from mcranker.retrieval.index import Added, Index
from mcranker.retrieval.readers import Skipped
from personas.format import counted, file_size
from personas.ranking.types import Query
from personas.sanitize import json_text

if TYPE_CHECKING:
    from mcranker.rag.pipeline import RAGPipeline
    from mcranker.rag.result import AnsweredQuestion, RAGResult
    from mcranker.retrieval.embedders import Embedder

_SHOWN, _LISTED = 20, 10_000  # documents that are left out: on standard error, in JSON


def _index(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    invocation.doing("getting ready; nothing was written")
    out, source = Path(params["out"]).expanduser(), Path(params["source"]).expanduser()
    if not source.exists():  # before there is an index
        raise InputError(f"there is no file or folder {params['source']!r}; give an existing one")
    made: dict[str, Any] = {"embedder": DEFAULT_LOCAL, "chunks": "sentences"}
    if out.is_file():
        with Index.open(out) as there:
            made = there.describe()
    name = params["embedder"] or made["embedder"]
    fetch_models([name], quiet=params["quiet"])
    config = RankerConfig(max_cost=params["max_cost"])
    embedder = connect_embedder(name, base_url=params["base_url"], config=config)
    left_out: list[Skipped] = []
    with Index.create(out, embedder=embedder, chunks=params["chunks"] or made["chunks"]) as index:
        done = run_loop(partial(_added, ctx, index, embedder, left_out))
        about = index.describe()
    if not about["documents"]:
        raise InputError(f"{params['source']!r} holds no document with a text")
    parts = [f"{getattr(done, what):,} {what}" for what in ("added", "replaced", "unchanged")]
    parts += [f"{done.skipped:,} left out"] if done.skipped else []
    sizes = counted(about["documents"], "document"), counted(about["passages"], "passage")
    size = file_size(about["bytes"])
    return present(
        ctx,
        f"documents: {', '.join(parts)}\n{out}: {', '.join(sizes)}, {size}",
        index={**done._asdict(), "new_passages": done.chunks, **about},
        skipped=[each._asdict() for each in left_out],
    )


async def _added(
    ctx: click.Context, index: Index, embedder: Embedder, left_out: list[Skipped]
) -> Added:
    quiet, tracker = ctx.params["quiet"], Tracker("indexing")
    note = skip_note(quiet=quiet)

    def skip(each: Skipped) -> None:
        if len(left_out) < _LISTED:
            left_out.append(each)
        if len(left_out) <= _SHOWN:
            note(each)

    def count(done: Added) -> None:
        documents = counted(done.added + done.replaced + done.unchanged, "document")
        tracker.stage = f"indexing: {documents}, {counted(done.chunks, 'new passage')}"
        display.update()

    try:
        with showing(ctx, tracker) as display:
            ctx.ensure_object(Invocation).reached = lambda: (
                f"while {tracker.stage}; what was done is kept, and the same command goes on"
            )
            source = ctx.params["source"]
            done = await index.add(source, on_skip=skip, progress=count, usage=tracker.usage)
    finally:
        await embedder.aclose()
    if done.skipped > _SHOWN and not quiet:
        say(f"and {done.skipped - _SHOWN:,} more are left out; --output json lists them")
    return done


index = Verb(
    "index",
    _index,
    params=[
        click.Argument(["source"], metavar="DIR|FILE"),
        flag("--out", "File of the index, new or to add to.", required=True, metavar="INDEX"),
        flag(
            "--chunks",
            "Passages: sentences up to 512 tokens, windows of 2,000 tokens, 150 words, or whole "
            "documents. Without: as the index has them, else sentences.",
            type=click.Choice(get_args(ChunkKind)),
        ),
        flag(
            "--embedder",
            "Makes the vectors: local:NAME, openai:NAME, or embed:NAME with --base-url. Without: "
            f"that of the index, else {DEFAULT_LOCAL}.",
            metavar="NAME",
        ),
        *option_flags("base_url", "max_cost"),
        output_flag("index, skipped"),
    ],
    help="""Make an index of documents, for search and for 'mcranker ask'.

    Reads text, Markdown, HTML, PDF, Office, EPUB, JSON, JSONL, CSV and BEIR folders. What cannot
    be read is reported and left out. The same command again adds new documents, replaces changed
    ones, and goes on where an interrupted one stopped.

    \b
      mcranker index papers/ --out papers.index
      mcranker index corpus.jsonl --out corpus.index --chunks whole
      mcranker index papers/ --out papers.index --embedder openai:text-embedding-3-small
    """,
)


def _ask(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    _check_usage(ctx)
    config, options = given_pipeline(ctx)
    ledger = options.get("ledger", "default") or "none"
    invocation.doing("reading questions")
    many, quiet, docs = params["questions"] is not None, params["quiet"], params["docs"]
    text = params["question"]
    questions = read_queries(params["questions"]) if many else [as_query(text, "question")]
    models = models_of(config, options)
    models += [params["embedder"] or DEFAULT_LOCAL] if docs is not None else []
    with invocation.noting(live_is_wanted(quiet=quiet)):
        invocation.doing("getting ready; nothing was sent")
        if params["dry_run"]:
            check_local_models(models)
        fetch_models(models, quiet=quiet)
        from mcranker.rag.pipeline import RAGPipeline

        if docs is None:
            pipeline = RAGPipeline(params["index"], config, **options)
        else:
            invocation.doing(f"indexing {docs}")
            embedder = params["embedder"]
            pipeline = RAGPipeline.from_documents(docs, config, embedder=embedder, **options)
        if params["dry_run"]:
            invocation.doing("estimating; nothing was sent")
            with pipeline:
                return show_estimate(ctx, sum(map(pipeline.estimate, questions), Estimate()))
    with saying_where(ledger), output(params["out"]) as write:
        if many:
            return run_loop(partial(_answer_many, ctx, pipeline, questions, write))
        result = run_loop(partial(_answer_one, ctx, pipeline, questions[0]))
        invocation.doing("writing the answer")
        code = _write(params, result, write, ledger)
    if params["output"] == "json":
        return code
    if result.kind == "none":
        say(f"error: there is no answer: {result.failure}")
    elif params["report"] is not None and not quiet:
        say(f"wrote {params['report']}")
    elif not quiet:
        say("for a page that shows why, ask again with --report why.html; answers are kept")
    return code


async def _answer_one(ctx: click.Context, pipeline: RAGPipeline, question: Query) -> RAGResult:
    async with pipeline, pipeline.astream(question) as events:
        with showing(ctx, Tracker("starting", unit="")) as display:
            async for event in events:
                display.take(event)
    assert isinstance(event, AnswerDone), "the last event of every answer"
    return event.result


async def _answer_many(
    ctx: click.Context, pipeline: RAGPipeline, questions: list[Query], write: Write
) -> int:
    """Write answers to many questions, a JSON line each; the exit code."""
    lost: list[str] = []
    written, incomplete = 0, False

    def add(found: AnsweredQuestion) -> None:
        nonlocal written, incomplete
        question, result = found.question, found.answer
        if result is None:
            assert found.error is not None
            error = failure(found.error).entry
            line = {"id": question.id, "question": question.conversation, "error": error}
            lost.append(f"{question.id!r}: {error['message']}")
        else:
            line = result.to_dict()
            incomplete |= any(_problems(result))
            if result.kind == "none":
                lost.append(f"{question.id!r}: {result.failure}")
        written += 1
        write(f"{json_text(line)}\n")

    tracker = Tracker("answering", len(questions), unit="questions")
    async with pipeline, pipeline.aanswer_many(questions) as stream:
        await in_order(ctx, stream, add, tracker)
    if missing := len(questions) - written + len(lost):
        say(
            f"error: {missing} of {counted(len(questions), 'question')} not answered; "
            f"the first, {lost[0]}"
        )
        return ERROR
    return MISSING_SCORES if incomplete else DONE


def _write(params: dict[str, Any], result: RAGResult, write: Write, ledger: str) -> int:
    errors = list(_problems(result))
    saved = keep(params["save"], result.save, ledger)
    shown = keep(params["report"], result.to_html, ledger)
    unwritten = [found.entry for found in (saved, shown) if found]
    code = ERROR if unwritten or result.kind == "none" else MISSING_SCORES if errors else DONE
    if params["output"] == "json":
        for each in result.warnings:
            say(f"warning: {each}")
        write(envelope(code, [*errors, *unwritten], answer=result.to_dict()))
    elif params["out"] is None:
        result.show()
    else:
        text = StringIO()
        result.show(file=text)
        write(text.getvalue())
    return code


def _problems(result: RAGResult) -> Iterator[dict[str, Any]]:
    """Yield what went wrong on the way to an answer, as entries of an envelope's ``errors``."""
    missing = len(result.ranking.missing) if result.ranking else 0
    found = [
        ("NoAnswer", result.failure if result.kind == "none" else ""),
        *(
            ("StageFailed", each.failure and f"{each.name}: {each.failure}")
            for each in result.stages
        ),
        ("Deadline", "the deadline came before the answer was complete" * result.partial),
        ("MissingScores", f"{counted(missing, 'score')} missing" if missing else ""),
    ]
    for code, message in found:
        if message:
            yield {"code": code, "message": message, "retryable": True}


def _check_usage(ctx: click.Context) -> None:
    given = {name for name, value in ctx.params.items() if value is not None}
    many, one_file = "questions" in given, " does not go with --questions; use --out"
    need = "give --index INDEX, as 'mcranker index' makes one, or --docs DIR"
    alone = "--embedder goes with --docs; an index keeps its own"
    text = "--output text does not go with --questions: a JSON line each"
    refuse(
        ctx,
        (not given & {"question", "questions"}, "give QUESTION, or --questions FILE"),
        (many and "question" in given, "QUESTION does not go with --questions"),
        (len(given & {"index", "docs"}) != 1, need),
        ("embedder" in given and "docs" not in given, alone),
        *((many and name in given, f"--{name}{one_file}") for name in ("report", "save")),
        (many and ctx.params["output"] == "text", text),
    )


into, out = partial(flag, section="Input"), partial(flag, section="Output")

ask = Verb(
    "ask",
    _ask,
    params=[
        click.Argument(["question"], required=False),
        *pipeline_flags("Input"),
        into(
            "--docs",
            "Documents to index first: a folder, a file or a BEIR folder.",
            type=Reads(folder=True),
            metavar="DIR",
        ),
        into("--embedder", "Model that embeds --docs. Without: local:minilm.", metavar="NAME"),
        into("--questions", "Many questions: JSONL or TSV with an id.", type=Reads()),
        *option_flags(),
        out(
            "--no-answer",
            "Cite the best sentences instead of writing an answer: no model is asked for one.",
            is_flag=True,
        ),
        out(
            "--output",
            "text: the answer with its numbered sources, the default. json: one object with "
            "status, answer and errors. With --questions a JSON line each.",
            type=click.Choice(["text", "json"]),
        ),
        out("--out", "Write the output there instead.", type=Writes()),
        out("--save", "Keep the whole answer as JSON.", type=Writes()),
        out("--report", "Write an HTML page from question to answer.", type=Writes()),
        dry_run_flag(),
    ],
    help="""Answer a question from documents: search, rank, write, and check the citations.

    \b
      mcranker ask "What is NSP?" --docs papers/ --report why.html
      mcranker index papers/ --out papers.index
      mcranker ask "What is NSP?" --index papers.index --preset rebel
      mcranker ask "What is NSP?" --index papers.index --no-answer \\
          --ranker setwise --depth 20
      mcranker ask --questions questions.jsonl --index papers.index --out answers.jsonl

    -o also takes every value of the pipeline as STAGE.KEY=VALUE, such as -o retrieval.documents=20;
    --options lists them. The same command does not ask again for what the ledger has.
    """,
)
