"""``mcranker rank``: passages in, passages best first out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Reads, Writes
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.progress import ProgressDisplay, QueryTracker, Tracker, in_order, live_is_wanted
from mcranker.cli.reading import read_corpus, read_passages, read_queries
from mcranker.cli.results import OUTPUTS, Results, opened
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, quiet_flag
from mcranker.cli.worker import Worker, worker_flag
from mcranker.errors import BudgetExceeded, InputError, ModelError
from mcranker.events import RankingDone
from mcranker.inputs.topics import TopicField
from mcranker.inputs.trec import can_be_named, read_trec
from mcranker.llm.connect import DEFAULT_LOCAL, default_judge_note
from mcranker.paths import is_folder
from mcranker.rankers import RankedQuery, Ranker
from mcranker.rankers.keys import Key
from mcranker.rankers.work_claims import run_name, share_budget, shared_work
from mcranker.ranking import Ranking
from mcranker.retrieval.readers import Format
from personas.format import counted
from personas.io.lines import STDIN
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable

INPUT_KEYS = {
    "format": Key(
        "format",
        Format | None,
        help="Format of --docs, if its suffix does not name it. jsonl, json: objects with text "
        "and perhaps id and title, or strings. csv: a line of headings, then rows. tsv: the same, "
        "or id, tab, text. text: one passage a line.",
    ),
    "topic_field": Key(
        "topic_field",
        TopicField,
        "title",
        help="With --queries in a file of topics: the field to rank for, title, desc "
        "(description, question) or narr (narrative).",
    ),
    "query_id": Key("query_id", help="The query's id in the output; 1 in a TREC run."),
}
"""Options of this verb's input, which have no flags."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The queries, each with its passages; `many` if a run was given."""

    queries: tuple[Query, ...]
    passages: dict[str, Passage]
    run: dict[str, list[tuple[str, float]]]
    many: bool

    def work(self) -> Iterator[tuple[Query, list[Passage]]]:
        for query in self.queries:
            if not self.many:
                yield query, list(self.passages.values())
            else:
                listed = self.run[query.id]
                yield query, [replace(self.passages[doc], score=score) for doc, score in listed]


def _rank(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    _check_usage(ctx)
    given = given_options(ctx, own=INPUT_KEYS)
    many = params["queries"] is not None
    if (key := "query_id" if many else "topic_field") in given.own:
        with_or_without = "without" if many else "with"
        raise click.UsageError(f"-o {key} goes {with_or_without} --queries; leave it out", ctx)
    invocation.doing("reading queries and passages")
    job = _run_job(ctx, given) if many else _single_job(ctx, given)
    names = [("query", query.id) for query in job.queries]
    for what, name in (*names, *(("passage", doc_id) for doc_id in job.passages)):
        if params["output"] == "trec" and not can_be_named(name):
            raise InputError(
                f"the {what} id {name!r} holds white space or a zero byte, which a TREC run cannot "
                "have; rename it, or use --output jsonl"
            )
    quiet, reasons = params["quiet"], params["reasons"]
    live = live_is_wanted(quiet=quiet)
    with invocation.noting(live):
        if params["dry_run"]:
            from mcranker.cli.estimate import check_local_models, show_estimate

            invocation.doing("estimating; nothing was sent")
            check_local_models(given.models)
            with given.make() as ranker:
                estimate = ranker.estimate_many(job.work(), reasons=reasons)
            return show_estimate(ctx, estimate)
        invocation.doing("getting ready; nothing was sent")
        fetch_models(given.models, quiet=quiet)
        ranker = given.make()
    ranker.check_reasons(reasons)
    if params["worker"]:
        worker = Worker(len(job.queries))
        run_loop(partial(_work, ranker, job, worker, invocation, live=live))
        return worker.finish()
    if not quiet and not given.options.get("model") and given.models == [DEFAULT_LOCAL]:
        say(default_judge_note())
    with opened(params, many=many, ledger=given.ledger) as results:
        if many:
            run_loop(
                partial(_rank_many, ranker, job, results, invocation, reasons=reasons, live=live)
            )
        else:
            ranking = run_loop(
                partial(_rank_one, ranker, job, invocation, reasons=reasons, live=live)
            )
            invocation.doing("writing the report" if params["report"] else "writing the results")
            results.add(RankedQuery(0, ranking.query, ranking))
        code = results.finish(len(job.queries))
    if not quiet and params["output"] == "table" and not results.unwritten:
        say(_advice(params, many=many))
    return code


def _advice(given: Mapping[str, Any], *, many: bool) -> str:
    """Say where the page is, or how to get one."""
    if given["report"] is not None:
        return f"the page that shows why is {given['report']}"
    if given["save"] is not None:
        query = " --query ID" if many else ""
        command = f"mcranker inspect {shlex.quote(given['save'])}{query} --html why.html"
        return f"for a page that shows why: {command}"
    option = "--save FILE" if many else "--report why.html"
    return f"for a page that shows why, rank again with {option}; answers are kept"


async def _rank_one(
    ranker: Ranker, job: _Job, invocation: Invocation, *, reasons: int, live: bool
) -> Ranking:
    ((query, passages),) = job.work()
    tracker = QueryTracker.of(ranker, reasons=bool(reasons))
    invocation.reached = lambda: tracker.reached
    async with ranker, ranker.astream(query, passages) as events:
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
            async for event in events:
                tracker.take(event)
                display.update()
            assert isinstance(event, RankingDone), "the last event of every ranking"
            try:
                return await ranker.aexplain(event.ranking, reasons) if reasons else event.ranking
            except (ModelError, BudgetExceeded) as error:
                with display.paused():
                    say(f"warning: there are no reasons: {error}")
                return event.ranking


async def _work(
    ranker: Ranker, job: _Job, worker: Worker, invocation: Invocation, *, live: bool
) -> None:
    run = run_name(ranker.name, ranker.models.names.values(), ranker.config)
    work = shared_work(
        job.work(),
        ranker.models.ledger,
        lambda piece: f"{run} {piece[0].id} {piece[0].text} {len(piece[1])}",
    )
    whole = f"{run} {[(query.id, query.text) for query in job.queries]}"
    share_budget(ranker.models.budget, ranker.models.ledger, whole)
    async with ranker, aclosing(work), ranker.arank_many(work) as stream:
        await worker.take(stream, invocation, live=live)


async def _rank_many(
    ranker: Ranker,
    job: _Job,
    results: Results,
    invocation: Invocation,
    *,
    reasons: int,
    live: bool,
) -> None:
    stage = "ranking and asking for reasons" if reasons else "ranking"
    tracker = Tracker(stage, len(job.queries))

    def usage(ranked: RankedQuery) -> UsageTable | None:
        return ranked.ranking.calls if ranked.ranking else None

    async with ranker, ranker.arank_many(job.work(), reasons=reasons) as stream:
        await in_order(stream, results.add, tracker, invocation, live=live, usage=usage)


def _single_job(ctx: click.Context, given: Given) -> _Job:
    texts, source = ctx.params["passages"], ctx.params["docs"]
    if texts and texts != (STDIN,):
        passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    elif source is None and not texts and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError(
            "there are no passages; give them after the query, with --docs FILE, "
            "or on standard input",
            ctx,
        )
    else:
        passages = read_passages(source or STDIN, given.own.get("format"))
    named = {passage.id: passage for passage in passages}
    query_id = given.own.get("query_id") or ("1" if ctx.params["output"] == "trec" else "")
    return _Job((Query(ctx.params["query"], query_id),), named, {}, many=False)


def _run_job(ctx: click.Context, options: Given) -> _Job:
    given = ctx.params
    run = read_trec(given["run"], needed=True)
    queries = read_queries(given["queries"], options.own.get("topic_field", "title"))
    known = {query.id for query in queries}
    strays = [query_id for query_id in run if query_id not in known]
    if strays:
        say(
            f"warning: {counted(len(strays), 'query', 'queries')} of {given['run']} not in "
            f"{given['queries']}, so not ranked; the first: {strays[0]!r}"
        )
    queries = [Query(each.conversation, each.id) for each in queries if each.id in run]
    if not queries:
        raise InputError(
            f"none of the queries of {given['queries']} is in {given['run']}; "
            "see whether the files belong together"
        )
    wanted = {doc_id for query in queries for doc_id, _ in run[query.id]}
    passages = read_corpus(given["corpus"], wanted)
    lost = sorted(wanted - passages.keys())
    if lost:
        raise InputError(
            f"{counted(len(lost), 'document')} of {given['run']} not in {given['corpus']}; "
            f"the first: {lost[0]!r}; give the corpus that the run was made from"
        )
    return _Job(tuple(queries), passages, run, many=True)


def _check_usage(ctx: click.Context) -> None:
    given = ctx.params
    many, pages = given["queries"] is not None, "'mcranker inspect FILE --query ID --html PAGE'"
    leave = "leave it out"
    wrong = [
        (given["worker"] and not many, "--worker goes with --queries FILE"),
        (
            not many and given["run"] is not None,
            "--run goes with --queries FILE; give that as well",
        ),
        (
            not many and given["corpus"] is not None,
            "--corpus goes with --queries FILE; give that as well",
        ),
        (not many and given["query"] is None, "there is no query; give QUERY, or --queries FILE"),
        (
            given["passages"] and given["docs"] is not None,
            "give passages after the query or with --docs, not both",
        ),
        (many and given["run"] is None, "--queries needs --run FILE as well"),
        (many and given["corpus"] is None, "--queries needs --corpus FILE as well"),
        (many and given["query"] is not None, f"QUERY does not go with --queries; {leave}"),
        (many and given["docs"] is not None, f"--docs does not go with --queries; {leave}"),
        (
            many and given["report"],
            f"--report does not go with --queries; use --save, then {pages}",
        ),
    ]
    for is_wrong, message in wrong:
        if is_wrong:
            raise click.UsageError(message, ctx)
    for text in given["passages"]:
        if not os.path.exists(text) or is_folder(text):  # noqa: PTH110
            continue
        raise click.UsageError(
            f"{text!r} is a file; rank the passages in it with --docs {shlex.quote(text)}", ctx
        )


into, out = partial(flag, section="Input"), partial(flag, section="Output")

command = Verb(
    "rank",
    _rank,
    keys=INPUT_KEYS,
    params=[
        click.Argument(["query"], required=False),
        click.Argument(["passages"], nargs=-1, metavar="[PASSAGE]..."),
        into(
            "--docs",
            "Passages in first-stage order: a file of records, a text with one a line, a document "
            "or a folder of them; - for standard input.",
            type=Reads(folder=True),
        ),
        into("--queries", "Many queries: JSONL, TSV or topics, with an id.", type=Reads()),
        into("--run", "TREC run whose passages are ranked again.", type=Reads()),
        into("--corpus", "Texts of the run's passages (JSONL or TSV).", type=Reads()),
        *option_flags(),
        out(
            "--output",
            "json: one object with status, ranking and errors. jsonl: one passage a line. trec: a "
            "TREC run.",
            type=click.Choice(OUTPUTS),
            default="table",
        ),
        out("--out", "Write the output there instead.", type=Writes()),
        worker_flag(),
        out("--top", "Passages listed in a table.", type=WholeNumber(min=1), default=20),
        out("--save", "Keep the whole ranking as JSON; a line a query.", type=Writes()),
        out("--report", "Write an HTML page that shows why.", type=Writes()),
        out(
            "--reasons",
            "Ask each judge for a sentence and a quote about the first N passages; scores stay as "
            "they are.",
            type=WholeNumber(min=0),
            metavar="N",
            default=0,
        ),
        out(
            "--dry-run",
            "Show calls, tokens and cost instead; nothing is sent, no file is written.",
            is_flag=True,
        ),
        quiet_flag(),
    ],
    help="""Rank passages for a query.

    A team of personas is recruited for the query, each writes weighted criteria and scores
    every passage by them, and the scores become one ranking.

    \b
      mcranker rank "best masks against covid" "N95 masks ..." "Cloth masks ..."
      mcranker rank "best masks against covid" --docs passages.jsonl --output json
      mcranker rank --queries queries.jsonl --run bm25.trec --corpus corpus.jsonl \\
          --output trec --out team.trec
      mcranker rank "best masks against covid" --docs passages.jsonl --team clinician \\
          --team "Worried parent" --team-size 4 -o "forbid=*marketing*"
      mcranker rank "best masks against covid" --docs passages.jsonl --ranker setwise -o sort=bubble
    """,
)
