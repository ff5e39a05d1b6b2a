"""``mcranker ledger``: the contents of the file of kept answers, and its upkeep."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import click

from mcranker.cli.flags import Reads, Verb, flag, output_flag, refuse
from mcranker.cli.invocation import say
from mcranker.cli.output import ERROR, Failure, ledger_files, present, print_json
from mcranker.errors import LedgerError
from personas.format import counted, dollars, file_size

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.llm.ledger.store import LedgerStore, Share

STAGES = (
    *("recruit", "criteria", "score", "assess", "explain"),
    *("transform", "embed", "answer", "support", "probe"),
)
_SHOWN_PROBLEMS = 10
_CONDITIONS = ("older_than", "model", "stage", "unusable", "everything")


def _ledger(ctx: click.Context) -> int:
    from mcranker.llm.ledger.ledger import default_ledger_path, store_of

    given = ctx.params
    verbs = {"check": _check, "copy": _copy, "remove": _remove}
    wanted = [name for name in verbs if given[name]]
    chosen = [name for name in _CONDITIONS if given[name] not in (None, False)]
    refuse(
        ctx,
        (len(wanted) > 1, f"{' and '.join(f'--{name}' for name in wanted)} do not go together"),
        (
            given["remove"] and (not chosen or ("everything" in chosen and len(chosen) > 1)),
            "say which answers to remove, or --all for all of them",
        ),
        (not given["remove"] and (chosen or given["dry_run"]), "conditions go with --remove"),
        (math.isnan(given["older_than"] or 0), "--older-than nan: give a number of days"),
    )
    place = given["ledger"] or default_ledger_path()
    if place is None:
        raise click.UsageError("MCRANKER_LEDGER says to keep no ledger; name one by --ledger", ctx)
    store = store_of(place)
    return verbs[wanted[0]](ctx, store) if wanted else _show(ctx, store)


def _show(ctx: click.Context, store: LedgerStore) -> int:
    from rich.text import Text

    from personas.console import names, numbers, table
    from personas.sanitize import plain

    shares, size = anyio.run(_sums, store)
    dates = [min(x.oldest for x in shares), max(x.newest for x in shares)] if shares else []
    costs = [share.cost for share in shares if share.cost is not None]
    counts = ("input_tokens", "cached_input_tokens", "output_tokens")
    rows: list[dict[str, Any]] = [
        {
            **{name: getattr(share, name) for name in ("model", "stage", "answers", "unusable")},
            **{name: getattr(share.usage, name) for name in (*counts, "seconds")},
            "cost": share.cost,
        }
        for share in shares
    ]
    record: dict[str, Any] = {
        "path": store.name,
        "bytes": size,
        **{name: sum(row[name] for row in rows) for name in ("answers", "unusable")},
        "cost": math.fsum(costs) if len(costs) == len(shares) else None,
        **dict.fromkeys(("oldest", "newest")),
        **{k: v.isoformat() for k, v in zip(("oldest", "newest"), dates, strict=False)},
        "by_model_and_stage": rows,
    }

    def show(console: Console) -> None:
        console.print(Text(plain(record["path"])), soft_wrap=True)
        parts = [counted(record["answers"], "answer"), file_size(size), dollars(record["cost"])]
        parts += [" to ".join(f"{each:%Y-%m-%d}" for each in dates)] if dates else []
        console.print(Text(", ".join(parts)))
        figures = numbers("answers", "unusable", "tokens in", "cached", "out", "cost")
        texts = (
            (
                *(row["model"], row["stage"]),
                *(f"{row[name]:,}" for name in ("answers", "unusable", *counts)),
                "?" if row["cost"] is None else dollars(row["cost"]),
            )
            for row in rows
        )
        if rows:
            console.print(table([names("model"), names("stage"), *figures], texts))

    return present(ctx, show, ledger=record)


async def _sums(store: LedgerStore) -> tuple[list[Share], int]:
    return await store.stats(), await store.size()


def _copy(ctx: click.Context, source: LedgerStore) -> int:
    from mcranker.llm.ledger.ledger import store_of

    copied, there, lost, rest = anyio.run(_copied, source, store_of(ctx.params["copy"]))
    message = (
        f"the ledger {source.name!r} is damaged: {counted(copied + there, 'answer')} copied or "
        f"there already, {lost:,} lost{rest}"
    )
    said = f"{counted(copied, 'answer')} copied; {there:,} were there already"
    found: dict[str, Any] = {"copied": copied, "there": there, "damaged": lost}
    if not (lost or rest):
        return present(ctx, said, **found)
    say(f"error: {message}")
    return present(ctx, said, ERROR, [Failure("LedgerError", message).entry], **found)


async def _copied(source: LedgerStore, target: LedgerStore) -> tuple[int, int, int, str]:
    """Copy; how many were copied, there already, and damaged, and why the rest is lost."""
    from mcranker.llm.ledger.store import MOST_KEYS, NewAnswer

    read = there = lost = 0
    rest = ""
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
        answers = source.iterate()
        answer = await anext(answers, None)  # an error comes before anything is written
        while answer is not None:
            if answer.reply is None:
                lost += 1
            else:
                read += 1
                about = (answer.model, answer.stage, int(answer.created.timestamp()))
                waiting.append(NewAnswer(answer.key, answer.reply, *about))
                unusable += [answer.key] * answer.unusable
            if len(waiting) == MOST_KEYS:
                await send()
            try:
                answer = await anext(answers, None)
            except LedgerError as error:  # those before the damage are copied
                answer, rest = None, f", and the rest cannot be read: {error}"
        await send()
    finally:
        await target.aclose()
    return read - there, there, lost, rest


def _remove(ctx: click.Context, store: LedgerStore) -> int:
    from mcranker.llm.ledger.store import Selection

    dry_run = ctx.params["dry_run"]
    which = {name: ctx.params[name] for name in _CONDITIONS[:-1]}
    removed = anyio.run(partial(store.prune, Selection(**which), dry_run=dry_run))
    said = f"{counted(removed, 'answer')} {'would be removed' if dry_run else 'removed'}"
    return present(ctx, said, removed=removed, dry_run=dry_run)


def _check(ctx: click.Context, store: LedgerStore) -> int:
    answers, problems = anyio.run(store.verify)
    if not problems:
        said = f"{counted(answers, 'answer')}, all whole"
        return present(ctx, said, answers=answers, problems=problems)
    for problem in problems[:_SHOWN_PROBLEMS]:
        say(problem)
    if (more := len(problems) - _SHOWN_PROBLEMS) > 0:
        say(f"and {more:,} more; --output json lists all")
    advice = (
        f"the ledger {store.name!r} is damaged; damaged answers are asked for again when they "
        "are needed; if the file itself is damaged, save the rest with 'mcranker ledger --copy "
        "FILE' or SQLite's .recover, and move it away"
    )
    say(f"error: {advice}")
    if ctx.params["output"] == "json":
        errors = [Failure("LedgerError", advice).entry]
        print_json(ERROR, errors, answers=answers, problems=problems)
    return ERROR


chosen = partial(flag, section="Answers to remove")

command = Verb(
    "ledger",
    _ledger,
    params=[
        flag(
            "--ledger",
            "The ledger. Without: MCRANKER_LEDGER, else the file in the user's cache folder.",
            type=Reads(ledger_files),
            metavar="FILE|URL",
        ),
        flag("--check", "Check that all is whole; exit code 1 if not.", is_flag=True),
        flag(
            "--copy",
            "Copy all answers into another ledger, which keeps what it has; the same command goes "
            "on after a stop. Damaged answers are left out, and the exit code is 1.",
            metavar="FILE|URL",
        ),
        flag(
            "--remove",
            "Remove the answers that fulfil all conditions, so that these questions are asked "
            "again, and make the file smaller.",
            is_flag=True,
        ),
        output_flag("what was found or done"),
        chosen(
            "--older-than", "Answers of more days ago.", type=click.FloatRange(0), metavar="DAYS"
        ),
        chosen("--model", "Answers by this model, e.g. openai:gpt-5-mini.", metavar="NAME"),
        chosen("--stage", "Answers of this stage.", type=click.Choice(STAGES)),
        chosen("--unusable", "Answers that could not be read.", is_flag=True),
        chosen("--all everything", "All answers.", is_flag=True),
        chosen("--dry-run", "Only count them.", is_flag=True),
    ],
    help="""Inspect, copy, prune and verify the answer cache.

    Every answer of a model is kept in one file or database, the ledger, so that the same question
    is not paid for twice. Without an option: how many there are, by model and stage, and what they
    took. Only a ranking makes a ledger.

    \b
      mcranker ledger
      mcranker ledger --remove --stage score --older-than 30
      mcranker ledger --ledger ledger.sqlite --copy postgresql://me@db.example.org/ledger
    """,
)
