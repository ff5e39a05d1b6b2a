"""``mcranker ask``: a question in, an answer with its sources out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, ERROR, MISSING_SCORES, envelope, failure
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Reads, Write, Writes, output, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import option_flags
from mcranker.cli.progress import ProgressDisplay, QueryTracker, Tracker, in_order, live_is_wanted
from mcranker.cli.rag import given_pipeline, pipeline_flags
from mcranker.cli.reading import read_queries
from mcranker.cli.results import keep
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, quiet_flag
from mcranker.cli.worker import Worker, worker_flag
from mcranker.estimate import Estimate
from mcranker.inputs.passages import as_query
from mcranker.llm.connect import DEFAULT_LOCAL
from mcranker.rag.events import AnswerDone
from mcranker.rag.keys import SHARED, models_of
from mcranker.rankers.work_claims import share_budget, shared_work
from personas.format import counted
from personas.ranking.types import Query
from personas.sanitize import json_text

if TYPE_CHECKING:
    from mcranker.rag.pipeline import AnsweredQuestion, RAGPipeline
    from mcranker.rag.result import RAGResult


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
            from mcranker.cli.estimate import check_local_models, show_estimate

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
    if params["worker"]:
        worker = Worker(len(questions), noun="question", plural="questions")
        run_loop(partial(_work, ctx, pipeline, questions, worker))
        return worker.finish()
    with saying_where(ledger), output(params["out"]) as write:
        if many:
            lines = _Lines(write)
            run_loop(partial(_answer_many, ctx, pipeline, questions, lines))
            return lines.finish(len(questions))
        result = run_loop(partial(_answer_one, ctx, pipeline, questions[0]))
        invocation.doing("writing the answer")
        code = _write(params, result, write, ledger)
    if params["output"] == "json":
        return code
    if result.kind == "none":
        say(f"error: there is no answer: {result.failure}")
    elif not quiet:
        how = "for a page that shows why, ask again with --report why.html; answers are kept"
        report = params["report"]
        say(how if report is None else f"the page that shows why is {report}")
    return code


async def _answer_one(ctx: click.Context, pipeline: RAGPipeline, question: Query) -> RAGResult:
    invocation, tracker = ctx.ensure_object(Invocation), QueryTracker("getting ready")
    invocation.reached = lambda: tracker.reached
    live = live_is_wanted(quiet=ctx.params["quiet"])
    async with pipeline, pipeline.astream(question) as events:
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
            async for event in events:
                tracker.take(event)
                display.update()
    assert isinstance(event, AnswerDone), "the last event of every answer"
    return event.result


async def _answer_many(
    ctx: click.Context, pipeline: RAGPipeline, questions: list[Query], lines: _Lines
) -> None:
    tracker = Tracker("answering", len(questions), unit="questions")
    live = live_is_wanted(quiet=ctx.params["quiet"])
    async with pipeline, pipeline.aanswer_many(questions) as stream:
        await in_order(stream, lines.add, tracker, ctx.ensure_object(Invocation), live=live)


async def _work(
    ctx: click.Context, pipeline: RAGPipeline, questions: list[Query], worker: Worker
) -> None:
    names = [chat.name for chat in pipeline.models.values()]
    names += [] if pipeline.ranker is None else pipeline.ranker.models.names.values()
    run = f"{sorted(set(names))} {pipeline.config.model_dump_json()}"
    work = shared_work(questions, pipeline.ledger, lambda each: f"{run} {each}")
    whole = f"{run} {questions}"
    share_budget(pipeline.budget, pipeline.ledger, whole)
    live = live_is_wanted(quiet=ctx.params["quiet"])
    async with pipeline, aclosing(work), pipeline.aanswer_many(work) as stream:
        await worker.take(stream, ctx.ensure_object(Invocation), live=live)


@dataclass(slots=True)
class _Lines:
    """Writes answers to many questions, a JSON line each."""

    write: Write
    answered: int = 0
    incomplete: bool = False
    first_error: str = ""

    def add(self, found: AnsweredQuestion) -> None:
        """Write one answer, or the error in its place."""
        question, result = found.question, found.answer
        if result is None:
            assert found.error is not None
            error = failure(found.error).entry
            line = {"id": question.id, "question": question.conversation, "error": error}
            why = error["message"]
        else:
            line = result.to_dict()
            why = result.failure if result.kind == "none" else ""
            self.incomplete |= any(_problems(result))
        if why:
            self.first_error = self.first_error or f"{question.id!r}: {why}"
        else:
            self.answered += 1
        self.write(f"{json_text(line)}\n")

    def finish(self, total: int) -> int:
        """Report on standard error how many of `total` questions failed; return the exit code."""
        if lost := total - self.answered:
            questions = counted(total, "question")
            say(f"error: {lost} of {questions} not answered; the first, {self.first_error}")
            return ERROR
        return MISSING_SCORES if self.incomplete else DONE


def _write(params: dict[str, Any], result: RAGResult, write: Write, ledger: str) -> int:
    """Write an answer and its files; return the exit code."""
    errors = list(_problems(result))
    saved = keep(params["save"], result.save, ledger)
    shown = keep(params["report"], result.to_html, ledger)
    unwritten = [entry for entry in (saved, shown) if entry]
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
    found = [("NoAnswer", result.failure)] if result.kind == "none" else []
    found += [
        ("StageFailed", f"{each.name}: {each.failure}") for each in result.stages if each.failure
    ]
    if result.partial:
        found.append(("Deadline", "the deadline came before the answer was complete"))
    if result.ranking and (missing := len(result.ranking.missing)):
        found.append(("MissingScores", f"{counted(missing, 'score')} missing"))
    for code, message in found:
        yield {"code": code, "message": message, "retryable": True}


def _check_usage(ctx: click.Context) -> None:
    given = {name for name, value in ctx.params.items() if value is not None}
    many = "questions" in given
    wrong = [
        (not given & {"question", "questions"}, "give QUESTION, or --questions FILE"),
        (many and "question" in given, "QUESTION does not go with --questions"),
        (
            len(given & {"index", "docs"}) != 1,
            "give --index INDEX, as 'mcranker index' makes one, or --docs DIR",
        ),
        (
            "embedder" in given and "docs" not in given,
            "--embedder goes with --docs; an index keeps its own",
        ),
    ]
    wrong += [(ctx.params["worker"] and not many, "--worker goes with --questions FILE")]
    wrong += [
        (many and name in given, f"--{name} does not go with --questions; use --out")
        for name in ("report", "save")
    ]
    text = ctx.params["output"] == "text"
    wrong += [(many and text, "--output text does not go with --questions: a JSON line each")]
    for is_wrong, message in wrong:
        if is_wrong:
            raise click.UsageError(message, ctx)


into, out = partial(flag, section="Input"), partial(flag, section="Output")

command = Verb(
    "ask",
    _ask,
    keys=SHARED,
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
        worker_flag(),
        out("--save", "Keep the whole answer as JSON.", type=Writes()),
        out("--report", "Write an HTML page from question to answer.", type=Writes()),
        out(
            "--dry-run",
            "Show calls, tokens and cost instead; nothing is sent, no file is written.",
            is_flag=True,
        ),
        quiet_flag(),
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
    'mcranker options' lists them. The same command does not ask again for what the ledger has.
    """,
)
