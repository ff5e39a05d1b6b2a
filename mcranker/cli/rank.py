"""``mcranker rank`` and ``mcranker rank-run``: passages in, passages best first out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import click

from mcranker.cli.flags import Reads, Verb, WholeNumber, Writes, dry_run_flag, flag
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import RANK_KEYS, RUN_KEYS, Given, given_options, option_flags
from mcranker.cli.progress import (
    Tracker,
    check_local_models,
    fetch_models,
    in_order,
    live_is_wanted,
    showing,
    work_off,
    worker_flag,
)
from mcranker.cli.results import Results, show_estimate
from mcranker.errors import BudgetExceeded, InputError, ModelError
from mcranker.events import RankingDone
from mcranker.inputs.documents import ID_KEYS, key_of
from mcranker.inputs.passages import in_conversation
from mcranker.inputs.topics import TopicField, has_headings, has_topics, read_topics
from mcranker.inputs.trec import check_names, read_trec
from mcranker.llm.connect import DEFAULT_LOCAL, default_judge_note
from mcranker.paths import is_folder
from mcranker.rankers import RankedQuery, Ranker
from mcranker.rankers.work_claims import run_name, share_budget, shared_work
from mcranker.ranking import Ranking
from mcranker.retrieval.readers import (
    Format,
    format_of,
    of_entries,
    passages_of,
    read_entries,
    read_text_lines,
)
from mcranker.retrieval.readers import refuse as refuse_document
from personas.format import counted
from personas.io.lines import STDIN, distinct, named
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable

Work = Callable[[], Iterator[tuple[Query, list[Passage]]]]
"""Returns the queries, each with its passages in first-stage order."""

_QUERY_IDS = ("_id", "id", "qid", "query_id")  # BEIR's names before PyTerrier's
_QUERY_TEXTS = ("text", "query", "question")


def _rank(ctx: click.Context) -> int:
    params, texts, source = ctx.params, ctx.params["passages"], ctx.params["docs"]
    if texts and source is not None:
        raise click.UsageError("give passages after the query or with --docs, not both", ctx)
    for text in texts:
        if os.path.exists(text) and not is_folder(text):  # noqa: PTH110
            advice = f"is a file; rank the passages in it with --docs {shlex.quote(text)}"
            raise click.UsageError(f"{text!r} {advice}", ctx)
    given = given_options(ctx, own=RANK_KEYS)
    ctx.ensure_object(Invocation).doing("reading queries and passages")
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
    query_id = given.own.get("query_id") or ("1" if params["output"] == "trec" else "")
    query = Query(params["query"], query_id)
    return _ranked(ctx, given, [query], passages, lambda: iter([(query, passages)]), many=False)


def _rank_run(ctx: click.Context) -> int:
    params, given = ctx.params, given_options(ctx, own=RUN_KEYS)
    ctx.ensure_object(Invocation).doing("reading queries and passages")
    name, source, corpus = params["run"], params["queries"], params["corpus"]
    run = read_trec(name, needed=True)
    queries = read_queries(source, given.own.get("topic_field", "title"))
    known = {query.id for query in queries}
    if strays := [query_id for query_id in run if query_id not in known]:
        say(
            f"warning: {counted(len(strays), 'query', 'queries')} of {name} not in "
            f"{source}, so not ranked; the first: {strays[0]!r}"
        )
    queries = [Query(each.conversation, each.id) for each in queries if each.id in run]
    if not queries:
        raise InputError(
            f"none of the queries of {source} is in {name}; see whether the files belong together"
        )
    wanted = {doc_id for query in queries for doc_id, _ in run[query.id]}
    passages = read_corpus(corpus, wanted)
    if lost := sorted(wanted - passages.keys()):
        raise InputError(
            f"{counted(len(lost), 'document')} of {name} not in {corpus}; "
            f"the first: {lost[0]!r}; give the corpus that the run was made from"
        )

    def work() -> Iterator[tuple[Query, list[Passage]]]:
        for query in queries:
            listed = run[query.id]
            yield query, [replace(passages[doc], score=score) for doc, score in listed]

    return _ranked(ctx, given, queries, passages.values(), work, many=True)


def _ranked(
    ctx: click.Context,
    given: Given,
    queries: list[Query],
    passages: Iterable[Passage],
    work: Work,
    *,
    many: bool,
) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    if params["output"] == "trec":
        check_names((each.id for each in queries), (each.id for each in passages))
    quiet, reasons = params["quiet"], params["reasons"]
    with invocation.noting(live_is_wanted(quiet=quiet)):
        if params["dry_run"]:
            invocation.doing("estimating; nothing was sent")
            check_local_models(given.models)
            with given.make() as ranker:
                estimate = ranker.estimate_many(work(), reasons=reasons)
            return show_estimate(ctx, estimate)
        invocation.doing("getting ready; nothing was sent")
        fetch_models(given.models, quiet=quiet)
        ranker = given.make()
    ranker.check_reasons(reasons)
    if params.get("worker"):
        return run_loop(partial(_work, ctx, ranker, work, queries))
    if not quiet and not given.options.get("model") and given.models == [DEFAULT_LOCAL]:
        say(default_judge_note())
    with Results.open(params, many=many, ledger=given.ledger) as results:
        if many:
            stage = "ranking and asking for reasons" if reasons else "ranking"
            tracker = Tracker(stage, len(queries))
            run_loop(partial(_rank_many, ctx, ranker, work, results, tracker))
        else:
            ranking = run_loop(partial(_rank_one, ctx, ranker, work))
            invocation.doing("writing the report" if params["report"] else "writing the results")
            results.add(RankedQuery(0, ranking.query, ranking))
        code = results.finish(len(queries))
    if not quiet and params["output"] == "table" and not results.unwritten:
        say(_advice(params, many=many))
    return code


def _advice(given: Mapping[str, Any], *, many: bool) -> str:
    if given.get("report") is not None:
        return f"wrote {given['report']}"
    if given["save"] is not None:
        command = f"mcranker inspect {shlex.quote(given['save'])}{' --query ID' * many}"
        return f"for a page that shows why: {command} --html why.html"
    option = "--save FILE" if many else "--report why.html"
    return f"for a page that shows why, rank again with {option}; answers are kept"


async def _rank_one(ctx: click.Context, ranker: Ranker, work: Work) -> Ranking:
    ((query, passages),), reasons = work(), ctx.params["reasons"]
    async with ranker, ranker.astream(query, passages) as events:
        with showing(ctx, Tracker("starting", unit="")) as display:
            async for event in events:
                display.take(event)
            assert isinstance(event, RankingDone), "the last event of every ranking"
            try:
                return await ranker.aexplain(event.ranking, reasons) if reasons else event.ranking
            except (ModelError, BudgetExceeded) as error:
                with display.paused():
                    say(f"warning: there are no reasons: {error}")
                return event.ranking


async def _rank_many(
    ctx: click.Context, ranker: Ranker, work: Work, results: Results, tracker: Tracker
) -> None:
    def usage(ranked: RankedQuery) -> UsageTable | None:
        return ranked.ranking.calls if ranked.ranking else None

    async with ranker, ranker.arank_many(work(), reasons=ctx.params["reasons"]) as stream:
        await in_order(ctx, stream, results.add, tracker, usage)


async def _work(ctx: click.Context, ranker: Ranker, work: Work, queries: list[Query]) -> int:
    run = run_name(ranker.name, ranker.models.names.values(), ranker.config)
    shared = shared_work(
        work(),
        ranker.models.ledger,
        lambda piece: f"{run} {piece[0].id} {piece[0].text} {len(piece[1])}",
    )
    whole = f"{run} {[(query.id, query.text) for query in queries]}"
    share_budget(ranker.models.budget, ranker.models.ledger, whole)
    async with ranker, aclosing(shared), ranker.arank_many(shared) as stream:
        return await work_off(ctx, stream, len(queries))


def read_passages(source: str, format: Format | None = None) -> list[Passage]:  # noqa: A002
    """Return the passages of a source, as `passages_of` reads it, in its order."""
    found = list(distinct(passages_of(source, format), InputError))
    if not found:
        raise InputError(f"{named(source)}: there is no passage in it")
    return found


def read_queries(source: str, topic_field: TopicField = "title") -> list[Query]:
    """The queries of a file with an id and a text each, in its order."""
    name, kind = named(source), format_of(source)
    found = read_text_lines(source, refuse_document, kind)
    lines: Iterator[tuple[str, str]] = (each for each in found if each[1].strip())
    if (first := next(lines, None)) is not None:
        lines = chain([first], lines)
        if has_topics(first[1]) or has_headings(first[1]):
            return read_topics(lines, name, topic_field)
    entries = _queries(read_entries(lines, name, kind))
    queries = list(distinct(of_entries(entries), InputError))
    if empty := [query.id for query in queries if not query.text.strip()]:
        raise InputError(f"{name}: query {empty[0]!r} has no text")
    if not queries:
        raise InputError(f"{name}: there is no query in it")
    return [Query(each.text, each.id, each.metadata.get("messages", ())) for each in queries]


def read_corpus(source: str, wanted: Container[str]) -> dict[str, Passage]:
    """The wanted passages of a corpus, by id; the others are read over and not kept."""
    lines = read_text_lines(source, refuse_document, format_of(source))
    entries = read_entries(lines, named(source), format_of(source))
    found = (each for each in of_entries(_with_ids(entries)) if each[1].id in wanted)
    return {passage.id: passage for passage in distinct(found, InputError)}


def _queries(entries: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Records of queries with the keys of passages; earlier turns of a conversation are kept."""
    for where, entry in entries:
        if not isinstance(entry, Mapping):
            yield where, entry
            continue
        if entry.get("keep") is False:
            continue
        record: dict[str, Any] = {"_id": entry[_key(where, entry, "id", _QUERY_IDS)]}
        if (messages := entry.get("messages")) is None:
            record["text"] = entry[_key(where, entry, "text", _QUERY_TEXTS)]
        else:
            key = key_of(entry, _QUERY_TEXTS)
            try:
                query = in_conversation(messages, None if key is None else Query(entry[key]))
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
            record |= {"text": query.text, "messages": query.turns}
        yield where, record


def _with_ids(entries: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for where, entry in entries:
        if isinstance(entry, Mapping):
            _key(where, entry, "id", ID_KEYS)
        yield where, entry


def _key(where: str, entry: Mapping[str, Any], what: str, keys: tuple[str, ...]) -> str:
    if (key := key_of(entry, keys)) is None:
        raise InputError(f"{where}: the entry has no {what}; put it under one of {', '.join(keys)}")
    return str(key)


into, out = partial(flag, section="Input"), partial(flag, section="Output")


def _output_flags(*own: click.Parameter) -> list[click.Parameter]:
    return [
        out(
            "--output",
            "json: one object with status, ranking (or rankings) and errors. jsonl: one passage a "
            "line. trec: a TREC run.",
            type=click.Choice(["table", "json", "jsonl", "trec"]),
            default="table",
        ),
        out("--out", "Write the output there instead.", type=Writes()),
        out("--top", "Passages listed in a table.", type=WholeNumber(min=1), default=20),
        out("--save", "Keep the whole ranking as JSON; a line a query.", type=Writes()),
        *own,
        out(
            "--reasons",
            "Ask each judge for a sentence and a quote about the first N passages; scores stay as "
            "they are.",
            type=WholeNumber(min=0),
            metavar="N",
            default=0,
        ),
        dry_run_flag(),
    ]


command = Verb(
    "rank",
    _rank,
    params=[
        click.Argument(["query"]),
        click.Argument(["passages"], nargs=-1, metavar="[PASSAGE]..."),
        into(
            "--docs",
            "Passages in first-stage order: a file of records, a text with one a line, a document "
            "or a folder of them; - for standard input.",
            type=Reads(folder=True),
        ),
        *option_flags(),
        *_output_flags(out("--report", "Write an HTML page that shows why.", type=Writes())),
    ],
    help="""Rank passages for a query.

    A team of personas is recruited for the query, each writes weighted criteria and scores
    every passage by them, and the scores become one ranking.

    \b
      mcranker rank "best masks against covid" "N95 masks ..." "Cloth masks ..."
      mcranker rank "best masks against covid" --docs passages.jsonl --output json
      mcranker rank "best masks against covid" --docs passages.jsonl --team clinician \\
          --team "Worried parent" --team-size 4 -o require=virologist
      mcranker rank "best masks against covid" --docs passages.jsonl --ranker setwise -o children=1
    """,
)

rank_run = Verb(
    "rank-run",
    _rank_run,
    params=[
        click.Argument(["run"], type=Reads(), metavar="RUN"),
        into("--queries", "JSONL, TSV or topics, with ids.", type=Reads(), required=True),
        into("--corpus", "The run's passages: JSONL or TSV.", type=Reads(), required=True),
        *option_flags(),
        worker_flag(),
        *_output_flags(),
    ],
    help="""Rank the passages of a TREC run again, for many queries.

    The queries come out in the order of their file. The same command goes on where it was stopped:
    the ledger has every answer.

    \b
      mcranker rank-run bm25.trec --queries queries.jsonl --corpus corpus.jsonl \\
          --output trec --out team.trec
      mcranker rank-run bm25.trec --queries queries.jsonl --corpus corpus.jsonl --save team.jsonl
      mcranker inspect team.jsonl --query q1 --html why.html
    """,
)
