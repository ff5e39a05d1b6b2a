"""Flags that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.flags import OTHER, Reads, WholeNumber, Writes, flag, listing
from mcranker.cli.output import DONE, present, print_json, print_line
from mcranker.paths import is_file, is_folder

if TYPE_CHECKING:
    from rich.console import Console

_OTHERS = (
    "Also: any id of ir_datasets, such as beir/fiqa/test or msmarco-passage/dev/small, and any "
    "folder in BEIR format (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv). Those of ir_datasets "
    "are downloaded when they are first used, to ~/.ir_datasets or the folder of IR_DATASETS_HOME."
)


def count_flag(name: str, default: int | None, text: str) -> click.Parameter:
    """``--name N``, a whole number from 1; `text` is its help."""
    return flag(f"--{name}", text, type=WholeNumber(min=1), default=default, metavar="N")


def html_flag() -> click.Parameter:
    """``--html``."""
    return flag("--html", "Write an HTML page instead.", type=Writes())


def dataset_argument(metavar: str = "DATASET") -> click.Argument:
    """The data set, by name or folder; no output replaces its documents, queries or judgements."""

    def files(text: str | None) -> list[str]:
        folder = Path(text or "\0")
        if not is_folder(folder):
            return [str(folder)] if is_file(folder) else []
        names = ["corpus.jsonl", "corpus.jsonl.gz", "queries.jsonl", "queries.jsonl.gz"]
        return [str(each) for each in (*map(folder.joinpath, names), *folder.glob("qrels/*"))]

    return click.Argument(["dataset"], type=Reads(files), metavar=metavar)


def measures_flag(default: str = "nDCG@10") -> click.Parameter:
    """``--measures``."""
    text = "As ir-measures writes them: nDCG@10, R@100, AP(rel=2), RR. The first heads the tables."
    return flag("--measures", text, default=default, metavar="NAME,NAME,...")


def no_cache_flag() -> click.Parameter:
    """``--no-cache``."""
    text = "Neither take nor keep indexes and first-stage runs in the cache folder."
    return flag("--no-cache", text, is_flag=True)


def qrels_flag(more: str = "") -> click.Parameter:
    """``--qrels``."""
    text = "Judgements: query, document and grade as BEIR writes them, or TREC's 4 columns."
    return flag("--qrels", f"{text}{more}", type=Reads())


def judgement_flags() -> list[click.Parameter]:
    """``--qrels``, or ``--dataset`` with ``--split``."""
    text = "Take the judgements of this data set; see 'beir-eval run --datasets'."
    return [
        qrels_flag(),
        flag("--dataset", text, metavar="NAME|FOLDER"),
        flag("--split", "Which judgements of --dataset.", default="test", metavar="NAME"),
    ]


def suites_flag(section: str = OTHER) -> click.Option:
    """``--suites [NAME]``."""
    return listing(
        "--suites",
        "List the suites that come with the package, or print the file of one, to be changed and "
        "given as SUITE; a file of your own is checked.",
        _suites,
        metavar="NAME|FILE",
        section=section,
    )


def datasets_flag(section: str = OTHER) -> click.Option:
    """``--datasets``."""
    text = "List the data sets that can be named, and which are here."
    return listing("--datasets", text, _datasets, section=section)


def _suites(ctx: click.Context, name: str) -> int:
    import tomllib

    from beir_eval.experiment.suite import load_suite, shipped_suites, suite_text
    from personas.console import names, table

    if not name:
        titles = {**shipped_suites(), **shipped_suites("answers")}
        entries = [{"name": name, "title": title} for name, title in titles.items()]
        made = table([names("name"), ""], titles.items())
        return present(ctx, lambda console: console.print(made), suites=entries)
    load_suite(name)  # a file that cannot be used is an error
    if ctx.params["output"] == "json":
        return print_json(suite=tomllib.loads(suite_text(name)))
    print_line(suite_text(name).rstrip("\n"))
    return DONE


def _datasets(ctx: click.Context, _: str) -> int:
    from rich.table import Column
    from rich.text import Text

    from beir_eval.data.catalogue import CATALOGUE
    from beir_eval.data.datasets import COLLECTIONS
    from beir_eval.data.ir_source import home, is_here
    from beir_eval.data.load import load
    from personas.console import names, numbers, table

    records: list[dict[str, Any]] = [
        {"name": name, "title": f"the {name} collection", "queries": len(load(name).queries)}
        | {"ir_datasets": None, "here": True, "path": None, "licence": None}
        for name in COLLECTIONS
    ]
    records += [
        {
            **{name: getattr(entry, name) for name in ("name", "title", "ir_datasets", "queries")},
            "here": is_here(entry),
            "path": str(home() / entry.files) if entry.files else None,
            "licence": entry.licence or None,
        }
        for entry in CATALOGUE.values()
    ]

    def show(console: Console) -> None:
        rows = (
            (
                *(each["name"], each["title"], f"{each['queries']:,}"),
                "yes" if each["here"] else "no",
                each["ir_datasets"] or ("a folder" if each["licence"] else "the package"),
            )
            for each in records
        )
        source = Column("from", overflow="fold")
        made = table([names("name"), "title", *numbers("queries"), "here", source], rows)
        console.print(made)
        for each in records:
            if each["licence"] and not each["here"]:  # addresses stay whole
                console.print(Text(f"{each['name']}: {each['licence']}"), soft_wrap=True)
        console.print(Text(_OTHERS))

    return present(ctx, show, datasets=records)
