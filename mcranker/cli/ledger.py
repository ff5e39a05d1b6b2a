"""``mcranker ledger``: the contents of the file of kept answers, and its upkeep."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import click

from mcranker.cli.failures import DONE, ERROR, Failure, print_json
from mcranker.cli.files import Reads, Writes, ledger_files, print_line
from mcranker.cli.files import output as opened_output
from mcranker.cli.invocation import say
from mcranker.cli.number_types import RealNumber
from mcranker.cli.verb import Verb, flag, output_flag, present
from mcranker.errors import LedgerError
from personas.format import counted, dollars, file_size

if TYPE_CHECKING:
    from mcranker.llm.ledger.store import LedgerStore, Share

STAGES = (
    *("recruit", "criteria", "score", "assess", "explain"),
    *("transform", "embed", "answer", "support", "probe"),
)
_SHOWN_PROBLEMS = 10


def _stats(ctx: click.Context) -> int:
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    from personas.console import numbers, table
    from personas.sanitize import plain

    store = _store(ctx)
    shares, size, wasted = anyio.run(_sums, store)
    costs = [share.cost for share in shares if share.cost is not None]
    oldest = min((share.oldest for share in shares), default=None)
    newest = max((share.newest for share in shares), default=None)
    rows: list[dict[str, Any]] = [
        {
            "model": share.model,
            "stage": share.stage,
            "answers": share.answers,
            "unusable": share.unusable,
            "input_tokens": share.usage.input_tokens,
            "cached_input_tokens": share.usage.cached_input_tokens,
            "output_tokens": share.usage.output_tokens,
            "seconds": share.usage.seconds,
            "cost": share.cost,
        }
        for share in shares
    ]
    record: dict[str, Any] = {
        "path": store.name,
        "bytes": size,
        "answers": sum(share.answers for share in shares),
        "unusable": sum(share.unusable for share in shares),
        **({} if wasted is None else {"paid_twice": wasted}),
        "cost": math.fsum(costs) if len(costs) == len(shares) else None,
        "oldest": oldest and oldest.isoformat(),
        "newest": newest and newest.isoformat(),
        "by_model_and_stage": rows,
    }

    def show(console: Console) -> None:
        console.print(Text(plain(record["path"])), soft_wrap=True)
        parts = [counted(record["answers"], "answer"), file_size(record["bytes"])]
        parts.append(dollars(record["cost"]))
        if wasted:
            parts.append(f"{counted(wasted, 'answer')} paid for twice")
        if oldest and newest:
            parts.append(f"{oldest:%Y-%m-%d} to {newest:%Y-%m-%d}")
        console.print(Text(", ".join(parts)))
        columns = [Column("model", style="cyan"), Column("stage", no_wrap=True)]
        columns += numbers("answers", "unusable", "tokens in", "cached", "out", "cost")
        counts = ("answers", "unusable", "input_tokens", "cached_input_tokens", "output_tokens")
        texts = (
            (
                row["model"],
                row["stage"],
                *(f"{row[name]:,}" for name in counts),
                "?" if row["cost"] is None else dollars(row["cost"]),
            )
            for row in rows
        )
        if rows:
            console.print(table(columns, texts))

    return present(ctx, show, ledger=record)


async def _sums(store: LedgerStore) -> tuple[list[Share], int, int | None]:
    from mcranker.llm.ledger.postgres_store import PostgresStore

    wasted = await store.wasted() if isinstance(store, PostgresStore) else None
    return await store.stats(), await store.size(), wasted


def _copy(ctx: click.Context) -> int:
    from mcranker.llm.ledger.ledger import store_of

    source, target = (store_of(ctx.params[each]) for each in ("source", "target"))
    copied, there, lost = anyio.run(_copied, source, target)
    if ctx.params["output"] == "json":
        print_json(copied=copied, there=there, damaged=lost)
    else:
        print_line(f"{counted(copied, 'answer')} copied; {there:,} were there already")
    if lost:
        say(f"error: {counted(lost, 'answer')} of {source.name!r} damaged and not copied")
    return ERROR if lost else DONE


async def _copied(source: LedgerStore, target: LedgerStore) -> tuple[int, int, int]:
    """Return how many answers were copied, were there already, and are damaged."""
    from mcranker.llm.ledger.store import MOST_KEYS, NewAnswer

    read = there = lost = 0
    waiting: list[NewAnswer] = []
    unusable: list[bytes] = []

    async def send() -> None:
        nonlocal there
        there += len(await target.complete_many(waiting))
        for key in unusable:
            await target.mark_unusable(key)
        waiting.clear()
        unusable.clear()

    try:
        async for each in source.iterate():
            read += 1
            if each.reply is None:
                lost += 1
                continue
            created = int(each.created.timestamp())
            waiting.append(NewAnswer(each.key, each.reply, each.model, each.stage, created))
            unusable += [each.key] * each.unusable
            if len(waiting) == MOST_KEYS:
                await send()
        await send()
    finally:
        await target.aclose()
    return read - lost - there, there, lost


def _export(ctx: click.Context) -> int:
    return anyio.run(_exported, _store(ctx), ctx.params["out"])


async def _exported(store: LedgerStore, out: str | None) -> int:
    answers = store.iterate()
    answer = await anext(answers, None)  # an error comes before anything is written
    saved = lost = 0
    rest = ""
    with opened_output(out) as write:
        while answer is not None:
            if answer.reply is None:
                lost += 1
            else:
                saved += 1
                write(json.dumps(answer.to_dict()) + "\n")
            try:
                answer = await anext(answers, None)
            except LedgerError as error:  # those before the damage are saved
                answer, rest = None, f", and the rest cannot be read: {error}"
    if not lost and not rest:
        return DONE
    say(
        f"error: the ledger {store.name!r} is damaged: {counted(saved, 'answer')} saved, "
        f"{lost:,} lost{rest}"
    )
    return ERROR


def _prune(ctx: click.Context) -> int:
    from mcranker.llm.ledger.store import Selection

    dry_run = ctx.params["dry_run"]
    which = {name: ctx.params[name] for name in ("older_than", "model", "stage", "unusable")}
    chosen = any(value not in (None, False) for value in which.values())
    if chosen == ctx.params["everything"]:
        raise click.UsageError("say which answers to remove, or --all for all of them", ctx)
    removed = anyio.run(partial(_store(ctx).prune, Selection(**which), dry_run=dry_run))
    if ctx.params["output"] == "json":
        return print_json(removed=removed, dry_run=dry_run)
    done = "would be removed" if dry_run else "removed"
    print_line(f"{counted(removed, 'answer')} {done}")
    return DONE


def _verify(ctx: click.Context) -> int:
    store = _store(ctx)
    answers, problems = anyio.run(store.verify)
    advice = (
        f"the ledger {store.name!r} is damaged; damaged answers are asked for again when they "
        "are needed; if the file itself is damaged, save the rest with 'mcranker ledger export' "
        "or SQLite's .recover, and move it away"
    )
    code = ERROR if problems else DONE
    if ctx.params["output"] == "json":
        errors = [Failure("LedgerError", advice).entry] if problems else []
        print_json(code, errors, answers=answers, problems=problems)
    else:
        for problem in problems[:_SHOWN_PROBLEMS]:
            say(problem)
        if len(problems) > _SHOWN_PROBLEMS:
            say(f"and {len(problems) - _SHOWN_PROBLEMS:,} more; --output json lists all")
        if not problems:
            print_line(f"{counted(answers, 'answer')}, all whole")
    if problems:
        say(f"error: {advice}")
    return code


def _store(ctx: click.Context) -> LedgerStore:
    from mcranker.llm.ledger.ledger import default_ledger_path, store_of

    place = ctx.params["ledger"] or default_ledger_path()
    if place is None:
        raise click.UsageError("MCRANKER_LEDGER says to keep no ledger; name one by --ledger", ctx)
    return store_of(place)


_LEDGER = flag(
    "--ledger",
    "The ledger. Without: MCRANKER_LEDGER, else the file in the user's cache folder.",
    type=Reads(ledger_files),
    metavar="FILE|URL",
)

command = click.Group(
    "ledger",
    help="""See, save, thin out and check the answers that are kept.

    Every answer of a model is kept in one file or database, the ledger, so that the same question
    is not paid for twice. None of these verbs makes a ledger; a ranking does.
    """,
    commands=[
        Verb(
            "stats",
            _stats,
            params=[_LEDGER, output_flag("ledger")],
            help="Show how many answers there are, by model and stage, and what they took.",
        ),
        Verb(
            "export",
            _export,
            params=[
                _LEDGER,
                flag("--out", "Write to FILE instead of standard output.", type=Writes()),
            ],
            help="Write every answer as one JSON object a line, in the order in which they came."
            "\n\nDamaged answers are left out, and the exit code is 1. If the file itself is "
            "damaged, the answers before the damage are written; the command .recover of the "
            "sqlite3 program may find more.",
        ),
        Verb(
            "copy",
            _copy,
            params=[
                click.Argument(["source"], metavar="FROM"),
                click.Argument(["target"], metavar="TO"),
                output_flag("copied, there, damaged"),
            ],
            help="""Copy all answers of a ledger into another, which keeps what it has.

            \b
              mcranker ledger copy ledger.sqlite postgresql://me@db.example.org/ledger

            Each is a file or the URL of a PostgreSQL database. The same command goes on after a
            stop.
            """,
        ),
        Verb(
            "prune",
            _prune,
            params=[
                _LEDGER,
                flag(
                    "--older-than",
                    "Answers that came more than this many days ago.",
                    type=RealNumber(min=0),
                    metavar="DAYS",
                ),
                flag("--model", "Answers by this model, e.g. openai:gpt-5-mini.", metavar="NAME"),
                flag("--stage", "Answers of this stage.", type=click.Choice(STAGES)),
                flag("--unusable", "Answers that could not be read.", is_flag=True),
                flag("--all everything", "All answers.", is_flag=True),
                flag("--dry-run", "Only count them.", is_flag=True),
                output_flag("removed, dry_run"),
            ],
            help="""Remove answers, so that these questions are asked again, and make the file
            smaller.

            Several conditions together remove what fulfils all of them.
            """,
        ),
        Verb(
            "verify",
            _verify,
            params=[_LEDGER, output_flag("answers, problems")],
            help="Check that the file and every answer in it is whole; exit code 1 if not.",
        ),
    ],
)
