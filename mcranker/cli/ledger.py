"""``mcranker ledger``: the contents of the file of kept answers, and its upkeep."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import click

from mcranker.cli.invocation import say
from mcranker.cli.output import (
    DONE,
    ERROR,
    Failure,
    ledger_files,
    output,
    present,
    print_json,
    print_line,
)
from mcranker.cli.verb import Reads, RealNumber, Verb, Writes, flag, output_flag, refuse
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
    wanted = [name for name in ("check", "export", "copy", "remove") if given[name]]
    chosen = [name for name in _CONDITIONS if given[name] not in (None, False)]
    refuse(
        ctx,
        (len(wanted) > 1, f"{' and '.join(f'--{name}' for name in wanted)} do not go together"),
        (
            given["remove"] and (not chosen or ("everything" in chosen and len(chosen) > 1)),
            "say which answers to remove, or --all for all of them",
        ),
        (not given["remove"] and (chosen or given["dry_run"]), "conditions go with --remove"),
    )
    place = given["ledger"] or default_ledger_path()
    if place is None:
        raise click.UsageError("MCRANKER_LEDGER says to keep no ledger; name one by --ledger", ctx)
    verbs = {"check": _check, "export": _export, "copy": _copy, "remove": _remove}
    return verbs.get(wanted[0] if wanted else "", _show)(ctx, store_of(place))


def _show(ctx: click.Context, store: LedgerStore) -> int:
    from rich.table import Column
    from rich.text import Text

    from personas.console import numbers, table
    from personas.sanitize import plain

    shares, size = anyio.run(_sums, store)
    costs = [share.cost for share in shares if share.cost is not None]
    oldest = min((share.oldest for share in shares), default=None)
    newest = max((share.newest for share in shares), default=None)
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
        "answers": sum(share.answers for share in shares),
        "unusable": sum(share.unusable for share in shares),
        "cost": math.fsum(costs) if len(costs) == len(shares) else None,
        "oldest": oldest and oldest.isoformat(),
        "newest": newest and newest.isoformat(),
        "by_model_and_stage": rows,
    }

    def show(console: Console) -> None:
        console.print(Text(plain(record["path"])), soft_wrap=True)
        parts = [counted(record["answers"], "answer"), file_size(size), dollars(record["cost"])]
        if oldest and newest:
            parts.append(f"{oldest:%Y-%m-%d} to {newest:%Y-%m-%d}")
        console.print(Text(", ".join(parts)))
        columns = [Column("model", style="cyan"), Column("stage", no_wrap=True)]
        columns += numbers("answers", "unusable", "tokens in", "cached", "out", "cost")
        texts = (
            (
                *(row["model"], row["stage"]),
                *(f"{row[name]:,}" for name in ("answers", "unusable", *counts)),
                "?" if row["cost"] is None else dollars(row["cost"]),
            )
            for row in rows
        )
        if rows:
            console.print(table(columns, texts))

    return present(ctx, show, ledger=record)


async def _sums(store: LedgerStore) -> tuple[list[Share], int]:
    return await store.stats(), await store.size()


def _copy(ctx: click.Context, source: LedgerStore) -> int:
    from mcranker.llm.ledger.ledger import store_of

    copied, there, lost = anyio.run(_copied, source, store_of(ctx.params["copy"]))
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


def _export(ctx: click.Context, store: LedgerStore) -> int:
    saved, lost, rest = anyio.run(_exported, store, ctx.params["export"])
    errors = []
    if lost or rest:
        errors.append(
            Failure(
                "LedgerError",
                f"the ledger {store.name!r} is damaged: {counted(saved, 'answer')} saved, "
                f"{lost:,} lost{rest}",
            )
        )
        say(f"error: {errors[0].message}")
    code = ERROR if errors else DONE
    if ctx.params["output"] == "json":
        print_json(code, [each.entry for each in errors], saved=saved, damaged=lost)
    return code


async def _exported(store: LedgerStore, out: str) -> tuple[int, int, str]:
    """Return how many answers were written, how many are damaged, and why the rest is lost."""
    answers = store.iterate()
    answer = await anext(answers, None)  # an error comes before anything is written
    saved = lost = 0
    rest = ""
    with output(out) as write:
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
    return saved, lost, rest


def _remove(ctx: click.Context, store: LedgerStore) -> int:
    from mcranker.llm.ledger.store import Selection

    dry_run = ctx.params["dry_run"]
    which = {name: ctx.params[name] for name in _CONDITIONS[:-1]}
    removed = anyio.run(partial(store.prune, Selection(**which), dry_run=dry_run))
    if ctx.params["output"] == "json":
        return print_json(removed=removed, dry_run=dry_run)
    print_line(f"{counted(removed, 'answer')} {'would be removed' if dry_run else 'removed'}")
    return DONE


def _check(ctx: click.Context, store: LedgerStore) -> int:
    answers, problems = anyio.run(store.verify)
    advice = (
        f"the ledger {store.name!r} is damaged; damaged answers are asked for again when they "
        "are needed; if the file itself is damaged, save the rest with 'mcranker ledger --export "
        "FILE' or SQLite's .recover, and move it away"
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
        flag(
            "--check",
            "Check that the file and every answer is whole; exit code 1 if not.",
            is_flag=True,
        ),
        flag(
            "--export",
            "Write every answer as one JSON object a line, in the order in which they came; "
            "damaged ones are left out, and the exit code is 1.",
            type=Writes(),
            metavar="FILE",
        ),
        flag(
            "--copy",
            "Copy all answers into another ledger, which keeps what it has; the same command goes "
            "on after a stop.",
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
            "--older-than",
            "Answers that came more than this many days ago.",
            type=RealNumber(min=0),
            metavar="DAYS",
        ),
        chosen(
            "--model",
            "Answers by this model, e.g. openai:gpt-5-mini.",
            metavar="NAME",
        ),
        chosen(
            "--stage",
            "Answers of this stage.",
            type=click.Choice(STAGES),
        ),
        chosen(
            "--unusable",
            "Answers that could not be read.",
            is_flag=True,
        ),
        chosen("--all everything", "All answers.", is_flag=True),
        chosen("--dry-run", "Only count them.", is_flag=True),
    ],
    help="""See, save, thin out and check the answers that are kept.

    Every answer of a model is kept in one file or database, the ledger, so that the same question
    is not paid for twice. Without an option: how many there are, by model and stage, and what they
    took. Only a ranking makes a ledger.

    \b
      mcranker ledger
      mcranker ledger --remove --stage score --older-than 30
      mcranker ledger --ledger ledger.sqlite --copy postgresql://me@db.example.org/ledger
    """,
)
