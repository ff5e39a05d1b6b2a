"""``beir-eval datasets``: what data sets can be named, and which of them are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Column
from rich.text import Text

from beir_eval.data.catalogue import CATALOGUE
from beir_eval.data.datasets import COLLECTIONS
from beir_eval.data.ir_source import home, is_here
from beir_eval.data.load import load
from mcranker.cli.verb import Verb, output_flag, present
from personas.console import names, numbers, table
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

OTHERS = (
    "Also: any id of ir_datasets, such as beir/fiqa/test or msmarco-passage/dev/small, and any "
    "folder in BEIR format (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv)."
)


def _datasets(ctx: click.Context) -> int:
    packaged = [
        {
            "name": name,
            "title": f"the {name} collection",
            "ir_datasets": None,
            "queries": len(load(name).queries),
            "here": True,
            "path": None,
            "licence": None,
        }
        for name in COLLECTIONS
    ]
    named = [
        {
            **{name: getattr(entry, name) for name in ("name", "title", "ir_datasets", "queries")},
            "here": is_here(entry),
            "path": str(home() / entry.files) if entry.files else None,
            "licence": entry.licence or None,
        }
        for entry in CATALOGUE.values()
    ]
    records = packaged + named
    return present(ctx, lambda console: _show(console, records), datasets=records)


def _show(console: Console, records: list[dict[str, Any]]) -> None:
    here, origin = Column("here", no_wrap=True), Column("from", overflow="fold")
    rows = (
        (
            *(record["name"], record["title"], f"{record['queries']:,}"),
            *("yes" if record["here"] else "no", _origin(record)),
        )
        for record in records
    )
    console.print(table([names("name"), "title", *numbers("queries"), here, origin], rows))
    for record in records:
        if record["licence"] and not record["here"]:
            place = f"; put them at {plain(record['path'])}" if record["path"] else ""
            line = f"{record['name']}: {record['licence']}{place}"
            console.print(Text(line), soft_wrap=True)  # addresses stay whole
    console.print(Text(f"\n{OTHERS}"))


def _origin(record: dict[str, Any]) -> str:
    if record["ir_datasets"]:
        return f"{record['ir_datasets']}{' (licensed)' if record['licence'] else ''}"
    return "a folder of yours" if record["licence"] else "the package"


command = Verb(
    "datasets",
    _datasets,
    params=[output_flag("datasets")],
    help="""List the data sets that can be named.

    Those of ir_datasets are downloaded when they are first used, to ~/.ir_datasets or the folder
    of IR_DATASETS_HOME; some are given out under a licence only. Nothing is downloaded here.
    """,
)
