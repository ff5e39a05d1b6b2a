"""``mcranker ledger``: what the file of kept answers holds, and its upkeep."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, ERROR, Failure, print_json
from mcranker.cli.files import Reads, Writes, ledger_files, print_line
from mcranker.cli.files import output as opened_output
from mcranker.cli.invocation import say
from mcranker.cli.number_types import RealNumber
from mcranker.cli.verb import Verb, output_flag
from personas.format import counted, dollars, file_size

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.llm.ledger.upkeep import Share

_SHOWN_PROBLEMS = 10


def _stats(ctx: click.Context) -> int:
    from mcranker.llm.ledger.upkeep import file_bytes, stats

    path = _path(ctx)
    shares = stats(path)
    size = file_bytes(path)
    if ctx.params["output"] == "json":
        return print_json(ledger=_record(path, size, shares))
    from personas.console import print_page

    print_page(lambda console: _show(console, path, size, shares))
    return DONE


def _export(ctx: click.Context) -> int:
    from mcranker.llm.ledger.upkeep import Export

    out = ctx.params["out"]
    path = _path(ctx)
    export = Export(path)
    answers = iter(export)
    first = next(answers, None)  # an error comes before anything is written
    with opened_output(out) as write:
        if first is not None:
            write(json.dumps(first) + "\n")
        for answer in answers:
            write(json.dumps(answer) + "\n")
    if not (export.lost or export.perhaps_more):
        return DONE
    least = "at least " if export.perhaps_more else ""
    say(
        f"error: the ledger {str(path)!r} is damaged: {counted(export.saved, 'answer')} saved, "
        f"{least}{export.lost:,} lost"
    )
    return ERROR


def _prune(ctx: click.Context) -> int:
    from mcranker.llm.ledger.upkeep import Selection, prune

    dry_run = ctx.params["dry_run"]
    which = {name: ctx.params[name] for name in ("older_than", "model", "stage", "unusable")}
    chosen = any(value not in (None, False) for value in which.values())
    if chosen == ctx.params["everything"]:
        raise click.UsageError("say which answers to remove, or --all for all of them", ctx)
    removed = prune(_path(ctx), Selection(**which), dry_run=dry_run)
    if ctx.params["output"] == "json":
        return print_json(removed=removed, dry_run=dry_run)
    done = "would be removed" if dry_run else "removed"
    print_line(f"{counted(removed, 'answer')} {done}")
    return DONE


def _verify(ctx: click.Context) -> int:
    from mcranker.llm.ledger.upkeep import verify

    path = _path(ctx)
    answers, problems = verify(path)
    advice = (
        f"the ledger {str(path)!r} is damaged; damaged answers are asked for again when they are "
        "needed; if the file itself is damaged, save the rest with 'mcranker ledger export' and "
        "move it away"
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


def _path(ctx: click.Context) -> Path:
    from mcranker.llm.ledger.ledger import default_ledger_path

    named = ctx.params["ledger"]
    path = Path(named).expanduser() if named else default_ledger_path()
    if path is None:
        raise click.UsageError("MCRANKER_LEDGER says to keep no ledger; name one by --ledger", ctx)
    return path


def _record(path: Path, size: int, shares: list[Share]) -> dict[str, Any]:
    return {
        "path": str(path),
        "bytes": size,
        "answers": sum(share.answers for share in shares),
        "unusable": sum(share.unusable for share in shares),
        "cost": _total_cost(shares),
        "oldest": min((share.oldest.isoformat() for share in shares), default=None),
        "newest": max((share.newest.isoformat() for share in shares), default=None),
        "by_model_and_stage": [
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
        ],
    }


def _total_cost(shares: list[Share]) -> float | None:
    costs = [share.cost for share in shares]
    known = [each for each in costs if each is not None]
    return math.fsum(known) if len(known) == len(costs) else None


def _show(console: Console, path: Path, size: int, shares: list[Share]) -> None:
    from rich.table import Column
    from rich.text import Text

    from personas.console import numbers, table
    from personas.sanitize import plain

    console.print(Text(plain(str(path))), soft_wrap=True)
    answers = sum(share.answers for share in shares)
    total = _total_cost(shares)
    parts = [counted(answers, "answer"), file_size(size), dollars(total)]
    if shares:
        oldest = min(share.oldest for share in shares)
        newest = max(share.newest for share in shares)
        parts.append(f"{oldest:%Y-%m-%d} to {newest:%Y-%m-%d}")
    console.print(Text(", ".join(parts)))
    if not shares:
        return
    columns = numbers("answers", "unusable", "tokens in", "cached", "out", "cost")
    rows = (
        (
            share.model,
            share.stage,
            f"{share.answers:,}",
            f"{share.unusable:,}" if share.unusable else "",
            f"{share.usage.input_tokens:,}",
            f"{share.usage.cached_input_tokens:,}",
            f"{share.usage.output_tokens:,}",
            "?" if share.cost is None else dollars(share.cost),
        )
        for share in shares
    )
    console.print(
        table([Column("model", style="cyan"), Column("stage", no_wrap=True), *columns], rows)
    )


_LEDGER = click.Option(
    ["--ledger"],
    type=Reads("*", files=ledger_files),
    metavar="FILE",
    help="The ledger. Without: MCRANKER_LEDGER, else the file in the user's cache folder.",
)

command = click.Group(
    "ledger",
    help="""See, save, thin out and check the answers that are kept.

    Every answer of a model is kept in one file, the ledger, so that the same question is not
    paid for twice. None of these verbs makes a ledger; a ranking does.
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
                click.Option(
                    ["--out"],
                    type=Writes(),
                    help="Write to FILE instead of standard output.",
                ),
            ],
            help="Write every answer as one JSON object a line, in the order in which they came."
            "\n\nDamaged answers are left out, and the exit code is 1. All that can be read of a "
            "damaged file is written; where SQLite reads nothing of it, what the command .recover "
            "of a sqlite3 program on the PATH finds.",
        ),
        Verb(
            "prune",
            _prune,
            params=[
                _LEDGER,
                click.Option(
                    ["--older-than"],
                    type=RealNumber(min=0),
                    metavar="DAYS",
                    help="Answers that came more than so many days ago.",
                ),
                click.Option(
                    ["--model"],
                    metavar="NAME",
                    help="Answers by this model, such as openai:gpt-5-mini.",
                ),
                click.Option(
                    ["--stage"],
                    type=click.Choice(
                        ["recruit", "criteria", "score", "assess", "explain", "probe"]
                    ),
                    help="Answers of this stage.",
                ),
                click.Option(["--unusable"], is_flag=True, help="Answers that could not be read."),
                click.Option(["--all", "everything"], is_flag=True, help="All answers."),
                click.Option(["--dry-run"], is_flag=True, help="Only say how many it would be."),
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
