"""``mcranker rank``: passages in, passages best first out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Reads, Writes
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.options import (
    WEAK_MODEL_NOTE,
    comparison_flags,
    config_flags,
    fusion_flags,
    ledger_flag,
    make_ranker,
    model_flags,
    model_names,
    ranker_flag,
    team_flag,
    with_criteria_flag,
)
from mcranker.cli.progress import Live, QueryTracker, RunTracker, live_is_wanted
from mcranker.cli.reading import FORMATS, read_corpus, read_passages, read_queries
from mcranker.cli.results import OUTPUTS, Destinations, Results, opened
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import GroupedOption, Verb, quiet_flag
from mcranker.errors import BudgetExceeded, InputError, ModelError
from mcranker.events import RankingDone
from mcranker.llm.connect import DEFAULT_LOCAL, default_judge_note
from mcranker.models import ROLES
from mcranker.paths import is_file
from mcranker.rankers import FATAL_ERRORS, RankedQuery, Ranker
from mcranker.ranking import Ranking
from mcranker.topics import TOPIC_FIELDS
from mcranker.trec import can_be_named, read_trec
from personas.files import FORMATS as TEAM_FORMATS
from personas.format import counted
from personas.io.lines import STDIN
from personas.ranking.types import Passage, Query

INPUT, OUTPUT = "Input", "Output"
_INSTEAD = {
    "report": "use --save FILE, and then 'mcranker inspect FILE --query ID --html PAGE'",
    "save_team": "each query may have a team of its own; use --save FILE",
}
"""Advice for many queries."""


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
    given = ctx.params
    invocation = ctx.ensure_object(Invocation)
    wanted = Destinations(
        output=given["output"],
        out=given["out"],
        save=given["save"],
        report=given["report"],
        save_team=given["save_team"],
        top=given["top"],
        many=given["queries"] is not None,
        ledger=given["ledger"],
    )
    _check_usage(ctx)
    invocation.doing("reading queries and passages")
    job = _run_job(ctx) if wanted.many else _single_job(ctx)
    if wanted.output == "trec":
        _check_trec_ids(job)
    quiet = given["quiet"]
    with invocation.noting(live_is_wanted(quiet=quiet)):
        if given["dry_run"]:
            invocation.doing("estimating; nothing was sent")
            return _dry_run(ctx, job)
        invocation.doing("getting ready; nothing was sent")
        fetch_models(model_names(ctx), quiet=quiet)
        ranker = make_ranker(ctx, given["ranker"])
    if wanted.save_team is not None:
        _check_team(ctx, ranker)
    reasons = given["reasons"]
    ranker.check_reasons(reasons)
    if not quiet and not given["model"] and model_names(ctx) == [DEFAULT_LOCAL]:
        say(default_judge_note())
    with opened(wanted) as results:
        live = live_is_wanted(quiet=quiet)
        if wanted.many:
            run_loop(
                partial(_rank_many, ranker, job, results, invocation, reasons=reasons, live=live)
            )
        else:
            ranking = run_loop(
                partial(_rank_one, ranker, job, invocation, reasons=reasons, live=live)
            )
            invocation.doing("writing the report" if wanted.report else "writing the results")
            results.add(ranking)
        code = results.finish(len(job.queries))
    if not quiet and wanted.output == "table" and not results.unwritten:
        _say_where(wanted)
    return code


def _check_team(ctx: click.Context, ranker: Ranker) -> None:
    if not (ranker.plan.members or ranker.plan.recruits):
        raise click.UsageError(
            f"--save-team: --ranker {ctx.params['ranker']} has no team; leave it out", ctx
        )


def _say_where(wanted: Destinations) -> None:
    """Say where the page is, or how to get one."""
    if wanted.report is not None:
        say(f"the page that shows why is {wanted.report}")
    elif wanted.save is not None:
        query = " --query ID" if wanted.many else ""
        saved = shlex.quote(wanted.save)
        say(f"for a page that shows why: mcranker inspect {saved}{query} --html why.html")
    else:
        flag = "--save FILE" if wanted.many else "--report why.html"
        say(f"for a page that shows why, rank again with {flag}; answers are kept")
    if wanted.save_team is not None:
        say(f"the team is {wanted.save_team}; edit it and rank again with --team")


def _dry_run(ctx: click.Context, job: _Job) -> int:
    from mcranker.cli.estimate import check_local_models, show_estimate

    check_local_models(model_names(ctx))
    with make_ranker(ctx, ctx.params["ranker"]) as ranker:
        return show_estimate(
            ranker.estimate_many(job.work(), reasons=ctx.params["reasons"]), ctx.params["output"]
        )


async def _rank_one(
    ranker: Ranker, job: _Job, invocation: Invocation, *, reasons: int, live: bool
) -> Ranking:
    ((query, passages),) = job.work()
    tracker = QueryTracker.of(ranker, reasons=bool(reasons))
    invocation.reached = lambda: tracker.reached
    async with ranker, ranker.astream(query, passages) as events:
        with Live(tracker, wanted=live) as display, invocation.held():
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
    tracker = RunTracker(len(job.queries), stage=stage)
    invocation.reached = lambda: tracker.reached
    early: dict[int, RankedQuery] = {}
    place = 0
    with Live(tracker, wanted=live) as display:
        async with ranker, ranker.arank_many(job.work(), reasons=reasons) as stream:
            with invocation.held():
                async for ranked in stream:
                    tracker.take(ranked.ranking.calls if ranked.ranking else None)
                    display.update()
                    early[ranked.place] = ranked
                    while place in early:
                        with display.paused():
                            _take(results, early.pop(place))
                        place += 1
                    if isinstance(ranked.error, FATAL_ERRORS):
                        break
    invocation.doing("writing the results")
    for _, ranked in sorted(early.items()):
        _take(results, ranked)


def _take(results: Results, ranked: RankedQuery) -> None:
    if ranked.ranking is None:
        results.add_failed(ranked)
    else:
        results.add(ranked.ranking)


def _single_job(ctx: click.Context) -> _Job:
    given = ctx.params
    query_id = given["query_id"] or ("1" if given["output"] == "trec" else "")
    passages = _given_passages(ctx)
    named = {passage.id: passage for passage in passages}
    return _Job((Query(given["query"], query_id),), named, {}, many=False)


def _given_passages(ctx: click.Context) -> list[Passage]:
    texts, source, form = ctx.params["passages"], ctx.params["docs"], ctx.params["format"]
    if texts and texts != (STDIN,):
        return [Passage(str(place), text) for place, text in enumerate(texts)]
    if source is None and not texts and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError(
            "there are no passages; give them after the query, with --docs FILE, "
            "or on standard input",
            ctx,
        )
    return read_passages(source or STDIN, form)


def _run_job(ctx: click.Context) -> _Job:
    given = ctx.params
    run = read_trec(given["run"], needed=True)
    queries = read_queries(given["queries"], given["topic_field"])
    known = {query.id for query in queries}
    strays = [query_id for query_id in run if query_id not in known]
    if strays:
        say(
            f"warning: {counted(len(strays), 'query', 'queries')} of {given['run']} not in "
            f"{given['queries']}, so not ranked; the first: {strays[0]!r}"
        )
    queries = [query for query in queries if query.id in run]
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
    alone = {
        "query": "QUERY",
        "docs": "--docs",
        "query_id": "--query-id",
        "report": "--report",
        "save_team": "--save-team",
    }
    team = given["save_team"]
    if team is not None and Path(team).suffix.lower() not in TEAM_FORMATS:
        raise click.UsageError(
            f"--save-team {team!r}: the name must end in .yaml, .yml or .json", ctx
        )
    if given["queries"] is not None:
        for name in ("run", "corpus"):
            if given[name] is None:
                raise click.UsageError(f"--queries needs --{name} FILE as well", ctx)
        for name, flag in alone.items():
            if given[name] is not None:
                instead = _INSTEAD.get(name, "leave it out")
                raise click.UsageError(f"{flag} does not go with --queries; {instead}", ctx)
        return
    if ctx.get_parameter_source("topic_field") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--topic-field goes with --queries FILE; give that as well", ctx)
    for name in ("run", "corpus"):
        if given[name] is not None:
            raise click.UsageError(f"--{name} goes with --queries FILE; give that as well", ctx)
    if given["query"] is None:
        raise click.UsageError("there is no query; give QUERY, or --queries FILE for many", ctx)
    if given["passages"] and given["docs"] is not None:
        raise click.UsageError("give passages after the query or with --docs, not both", ctx)
    for text in given["passages"]:
        if is_file(text):
            raise click.UsageError(
                f"{text!r} is a file; rank the passages in it with --docs {shlex.quote(text)}", ctx
            )


def _check_trec_ids(job: _Job) -> None:
    names = [("query", query.id) for query in job.queries]
    names += [("passage", doc_id) for doc_id in job.passages]
    for what, name in names:
        if not can_be_named(name):
            raise InputError(
                f"the {what} id {name!r} holds white space or a zero byte, which a TREC run cannot "
                "have; rename it, or use --output jsonl"
            )


def _flags() -> list[click.Parameter]:
    into, out = partial(GroupedOption, section=INPUT), partial(GroupedOption, section=OUTPUT)
    return [
        click.Argument(["query"], required=False),
        click.Argument(["passages"], nargs=-1, metavar="[PASSAGE]..."),
        into(["--docs"], type=Reads(), help="Passages in first-stage order; - for standard input."),
        into(
            ["--format"],
            type=click.Choice(FORMATS),
            help="Format of --docs, where the suffix does not say it. jsonl, json: objects "
            "with text and perhaps id and title, or strings. tsv: id, tab, text. text: one "
            "passage a line.",
        ),
        into(["--query-id"], metavar="ID", help='Names the query in the output ("1" in a run).'),
        into(
            ["--queries"],
            type=Reads(),
            help="Many queries, with --run and --corpus: JSONL, TSV or CSV with id (qid) and text "
            "(query), or TREC topics in SGML or XML.",
        ),
        into(
            ["--topic-field"],
            type=click.Choice(TOPIC_FIELDS),
            default="title",
            show_default=True,
            help="The field of TREC topics that is the query: title (or query), desc (description, "
            "question) or narr (narrative).",
        ),
        into(["--run"], type=Reads(), help="TREC run whose passages are ranked again."),
        into(["--corpus"], type=Reads(), help="Texts of the run's passages (JSONL or TSV)."),
        out(
            ["--output"],
            type=click.Choice(OUTPUTS),
            default="table",
            show_default=True,
            help="json: one object with status, ranking and errors. jsonl: one passage a line. "
            "trec: a TREC run.",
        ),
        out(["--out"], type=Writes(), help="Write the output there instead."),
        out(
            ["--top"],
            type=WholeNumber(min=1),
            default=20,
            show_default=True,
            help="Passages listed in a table.",
        ),
        out(
            ["--reasons"],
            type=WholeNumber(min=0),
            metavar="N",
            default=0,
            help="Then ask each judge why it gave the first N passages what it gave them: a "
            "sentence and a quote each, about ten passages a call. Scores stay as they are.",
        ),
        out(["--save"], type=Writes(), help="Keep the whole ranking as JSON; a line a query."),
        out(
            ["--save-team"],
            type=Writes(),
            help="Keep the team as .yaml or .json, to be edited and given to --team.",
        ),
        out(["--report"], type=Writes(), help="Write an HTML page that shows why."),
        out(
            ["--dry-run"],
            is_flag=True,
            help="Show calls, tokens and cost instead (a table, or --output json); nothing is "
            "sent, no file is written.",
        ),
        ranker_flag(),
        with_criteria_flag(),
        *comparison_flags(),
        *fusion_flags(),
        team_flag(
            "A saved team, a saved ranking for the team that judged it, or a team of the library; "
            "none is recruited, unless --team-size is larger."
        ),
        *config_flags(),
        *model_flags(ROLES),
        ledger_flag(),
        quiet_flag(),
    ]


command = Verb(
    "rank",
    _rank,
    params=_flags(),
    help="""Rank passages for a query.

    A team of personas is recruited for the query, each writes weighted criteria and scores
    every passage by them, and the scores become one ranking.

    \b
      mcranker rank "best masks against covid" "N95 masks ..." "Cloth masks ..."
      mcranker rank "best masks against covid" --docs passages.jsonl --output json
      mcranker rank --queries queries.jsonl --run bm25.trec --corpus corpus.jsonl \\
          --output trec --out team.trec
      mcranker rank "best masks against covid" --docs passages.jsonl --team clinician \\
          --team "Worried parent" --team-size 4 --forbid "*marketing*"
    """,
    epilog=WEAK_MODEL_NOTE,
)
