"""``mcranker ask``: a question in, an answer with its sources out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, ERROR, MISSING_SCORES, envelope, failure
from mcranker.cli.files import Reads, Write, Writes, output, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.progress import ProgressDisplay, QueryTracker, Tracker, live_is_wanted
from mcranker.cli.rag import given_pipeline, pipeline_flags
from mcranker.cli.reading import read_queries
from mcranker.cli.results import keep
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, quiet_flag
from mcranker.estimate import Estimate
from mcranker.rag.events import AnswerDone, StageDone, StageStarted
from mcranker.rag.keys import SHARED, stage_keys
from mcranker.rankers import FATAL_ERRORS, RANKERS
from mcranker.rankers.keys import keys_of, shared_keys
from personas.format import counted
from personas.ranking.types import Query
from personas.report.query.warnings import problems
from personas.sanitize import json_text

if TYPE_CHECKING:
    from mcranker.rag.pipeline import AnsweredQuestion, RAGPipeline
    from mcranker.rag.result import RAGResult

_STAGES = {
    "query": "writing queries",
    "retrieval": "searching",
    "rerank": "ranking",
    "context": "choosing passages",
    "answer": "writing the answer",
    "citations": "checking citations",
}


def _ask(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    from mcranker.rag.pipeline import RAGPipeline

    many, quiet = params["questions"] is not None, params["quiet"]
    _check_usage(ctx, many=many)
    rankers = keys_of(*RANKERS.names)
    own = {name: key for name, key in rankers.items() if name not in SHARED} | stage_keys()
    others = shared_keys().keys() - SHARED
    given = given_options(ctx, default=None, own=own, without=others, what="a pipeline")
    config, options = given_pipeline(ctx, given, "".join(given.rankers))
    invocation.doing("reading questions")
    questions = read_queries(params["questions"]) if many else [Query(params["question"])]
    live = live_is_wanted(quiet=quiet)
    with invocation.noting(live):
        invocation.doing("getting ready; nothing was sent")
        if params["index"] is not None:
            pipeline = RAGPipeline(params["index"], config, **options)
        else:
            invocation.doing(f"indexing {params['docs']}")
            pipeline = RAGPipeline.from_documents(
                params["docs"], config, embedder=params["embedder"], **options
            )
        if params["dry_run"]:
            from mcranker.cli.estimate import show_estimate

            invocation.doing("estimating; nothing was sent")
            with pipeline:
                return show_estimate(ctx, sum(map(pipeline.estimate, questions), Estimate()))
    with saying_where(given.ledger), output(params["out"]) as write:
        if many:
            answers = _Answers(write, len(questions))
            run_loop(partial(_answer_many, pipeline, questions, answers, invocation, live=live))
            return answers.finish()
        result = run_loop(partial(_answer_one, pipeline, questions[0], invocation, live=live))
        invocation.doing("writing the answer")
        return _written(params, result, write, given.ledger)


async def _answer_one(
    pipeline: RAGPipeline, question: Query, invocation: Invocation, *, live: bool
) -> RAGResult:
    tracker = QueryTracker("getting ready")
    invocation.reached = lambda: tracker.reached
    async with pipeline, pipeline.astream(question) as events:
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
            async for event in events:
                if isinstance(event, StageStarted):
                    tracker.enter(_STAGES[event.name])
                elif not isinstance(event, StageDone | AnswerDone):
                    tracker.take(event)
                display.update()
    assert isinstance(event, AnswerDone), "the last event of every answer"
    return event.result


async def _answer_many(
    pipeline: RAGPipeline,
    questions: list[Query],
    answers: _Answers,
    invocation: Invocation,
    *,
    live: bool,
) -> None:
    tracker = Tracker("answering", len(questions), unit="questions")
    whole = counted(len(questions), "question")
    invocation.reached = lambda: f"after {tracker.done:,} of {whole}"
    early: dict[int, AnsweredQuestion] = {}
    with ProgressDisplay(tracker, wanted=live) as display:
        async with pipeline, pipeline.aanswer_many(questions) as stream:
            with invocation.held():
                async for answered in stream:
                    tracker.count()
                    display.update()
                    early[answered.place] = answered
                    while answers.taken in early:
                        with display.paused():
                            answers.add(early.pop(answers.taken))
                    if isinstance(answered.error, FATAL_ERRORS):
                        break
    for _, answered in sorted(early.items()):
        answers.add(answered)


@dataclasses.dataclass(slots=True)
class _Answers:
    """Writes answers to many questions, a JSON line each, in their order."""

    write: Write
    total: int
    taken: int = 0
    failed: int = 0
    first: str = ""
    code: int = DONE

    def add(self, answered: AnsweredQuestion) -> None:
        """Write one answer, or the error in its place."""
        self.taken += 1
        question, result = answered.question, answered.answer
        if result is None:
            assert answered.error is not None
            entry = failure(answered.error).entry
            line = {"id": question.id, "question": question.text, "error": entry}
            self._failed(question, entry["message"])
        else:
            line = result.to_dict()
            if result.kind == "none":
                self._failed(question, result.failure)
            elif any(_problems(result)):
                self.code = MISSING_SCORES
        self.write(f"{json_text(line)}\n")

    def _failed(self, question: Query, why: str) -> None:
        self.failed += 1
        self.first = self.first or f"{question.id!r}: {why}"

    def finish(self) -> int:
        """Report what failed on standard error; return the exit code."""
        if lost := self.failed + self.total - self.taken:
            questions = counted(self.total, "question")
            say(f"error: {lost} of {questions} not answered; the first, {self.first}")
            return ERROR
        return self.code


def _written(params: Mapping[str, Any], result: RAGResult, write: Write, ledger: str) -> int:
    """Write an answer as it is wanted; return the exit code."""
    errors = list(_problems(result))
    files: list[tuple[str | None, Callable[[str], object]]] = [
        (params["save"], result.save),
        (params["report"], result.to_html),
    ]
    unwritten = [entry for name, how in files if (entry := keep(name, how, ledger))]
    code = ERROR if unwritten or result.kind == "none" else MISSING_SCORES if errors else DONE
    if params["output"] == "json":
        for each in (*result.warnings, *(entry["message"] for entry in errors)):
            say(f"warning: {each}")
        write(envelope(code, [*errors, *unwritten], answer=result.to_dict()))
        return code
    if params["out"] is None:
        result.show()
    else:
        text = StringIO()
        result.show(file=text)
        write(text.getvalue())
    if result.kind == "none":
        say(f"error: there is no answer: {result.failure}")
    elif not params["quiet"]:
        report = params["report"]
        where = f"is {report}" if report else "comes with --report why.html; answers are kept"
        say(f"the page that shows why {where}")
    return code


def _problems(result: RAGResult) -> Iterator[dict[str, Any]]:
    """Yield what went wrong on the way to an answer, as entries of an envelope's ``errors``."""
    found = [("NoAnswer", result.failure)] if result.kind == "none" else []
    found += [
        ("StageFailed", f"{each.name}: {each.failure}") for each in result.stages if each.failure
    ]
    if result.partial:
        found.append(("Deadline", "the deadline came before the answer was complete"))
    if ranking := result.ranking:
        found += [(each.code, each.sentence) for each in problems(ranking) if each.code]
        if missing := len(ranking.missing):
            found.append(("MissingScores", f"{counted(missing, 'score')} missing"))
    for code, message in found:
        yield {"code": code, "message": message, "retryable": True}


def _check_usage(ctx: click.Context, *, many: bool) -> None:
    given = ctx.params
    wrong = [
        (not many and given["question"] is None, "give QUESTION, or --questions FILE"),
        (many and given["question"] is not None, "QUESTION does not go with --questions"),
        (
            (given["index"] is None) == (given["docs"] is None),
            "give --index INDEX or --docs DIR, one of them",
        ),
        (
            given["embedder"] is not None and given["docs"] is None,
            "--embedder goes with --docs; an index keeps its own",
        ),
    ]
    wrong += [
        (many and given[name] is not None, f"--{name} does not go with --questions; use --out")
        for name in ("report", "save", "output")
    ]
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
            type=Reads(),
            metavar="DIR",
        ),
        into("--embedder", "Model that embeds --docs. Without: local:minilm.", metavar="NAME"),
        into("--questions", "Many questions: JSONL or TSV with an id.", type=Reads()),
        *option_flags(without=("config",)),
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
    'mcranker rag show' prints them. The same command does not ask again for what the ledger has.
    """,
)
