"""Flags that several verbs share."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Column
from rich.text import Text

from mcranker.cli.flags import Reads, WholeNumber, Writes, flag, listing
from mcranker.cli.output import present
from mcranker.paths import is_file, is_folder
from personas.console import names, numbers, table
from personas.sanitize import plain

_OTHERS = (
    "Also: any id of ir_datasets, such as beir/fiqa/test or msmarco-passage/dev/small, and any "
    "folder in BEIR format (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv). Those of ir_datasets "
    "are downloaded when they are first used, to ~/.ir_datasets or the folder of IR_DATASETS_HOME."
)


ENGINES = ("bm25s", "pyserini")
WHAT = "What is run"


def is_given(ctx: click.Context, name: str) -> bool:
    """True if the option is on the command line, and not only its default."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def names_flag(
    name: str, text: str, default: str = "", metavar: str = "NAME,NAME,..."
) -> click.Parameter:
    """A list with commas: a tuple of names, each once."""

    def names(_ctx: click.Context, _param: click.Parameter, given: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.strip() for each in given.split(",") if each.strip()))

    return flag(name, text, default=default, callback=names, metavar=metavar)


def print_lines(console: Console, lines: Iterable[str], style: str = "") -> None:
    """Print lines that no terminal's width breaks: paths and addresses stay whole."""
    for line in lines:
        console.print(Text(plain(line)), style=style, soft_wrap=True)


def count_flag(name: str, default: int | None, text: str) -> click.Parameter:
    """``--name N``, a whole number from 1; `text` is its help."""
    return flag(f"--{name}", text, type=WholeNumber(min=1), default=default, metavar="N")


def choice_flag(name: str, text: str, choices: Sequence[str], **rest: Any) -> click.Parameter:
    """``--name``, one of `choices`; the first without."""
    kind = click.Choice(choices)
    return flag(f"--{name}", text, type=kind, default=choices[0], **rest)


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


def split_flag(text: str = "Which judgements.") -> click.Parameter:
    """``--split``."""
    return flag("--split", text, default="test", metavar="NAME")


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


def listing_flags() -> list[click.Parameter]:
    """``--suites [NAME]`` and ``--datasets``."""
    suites = (
        "List the suites that come with the package, or print the file of one; a file of your own "
        "is checked."
    )
    datasets = "List the data sets that can be named, and which are here."
    return [
        listing("--suites", suites, _suites, metavar="NAME|FILE", section=WHAT),
        listing("--datasets", datasets, _datasets, section=WHAT),
    ]


def _suites(ctx: click.Context, name: str) -> int:
    from beir_eval.experiment.suite import load_suite, shipped_suites, suite_text

    if not name:
        titles = {**shipped_suites(), **shipped_suites("answers")}
        entries = [{"name": name, "title": title} for name, title in titles.items()]
        made = table([names("name"), ""], titles.items())
        return present(ctx, lambda console: console.print(made), suites=entries)
    load_suite(name)  # a file that cannot be used is an error
    text = suite_text(name)
    return present(ctx, text.rstrip("\n"), suite=tomllib.loads(text))


def _datasets(ctx: click.Context, _: str) -> int:
    from beir_eval.data.catalogue import CATALOGUE
    from beir_eval.data.datasets import COLLECTIONS
    from beir_eval.data.ir_source import home, is_here
    from beir_eval.data.load import load

    records: list[dict[str, Any]] = [
        {"name": name, "title": f"the {name} collection", "queries": len(load(name).queries)}
        | {"ir_datasets": None, "here": True, "path": None, "licence": None}
        for name in COLLECTIONS
    ]
    for entry in CATALOGUE.values():
        keys = ("name", "title", "ir_datasets", "queries")
        record = {key: getattr(entry, key) for key in keys} | {"here": is_here(entry)}
        record["path"] = str(home() / entry.files) if entry.files else None
        records.append(record | {"licence": entry.licence or None})

    def show(console: Console) -> None:
        rows = []
        for each in records:
            here = "yes" if each["here"] else "no"
            kept = each["ir_datasets"] or ("a folder" if each["licence"] else "the package")
            rows.append((each["name"], each["title"], f"{each['queries']:,}", here, kept))
        source = Column("from", overflow="fold")
        columns: list[Column | str] = [names("name"), "title", *numbers("queries"), "here"]
        console.print(table([*columns, source], rows))
        absent = (each for each in records if each["licence"] and not each["here"])
        print_lines(console, (f"{each['name']}: {each['licence']}" for each in absent))
        console.print(Text(_OTHERS))

    return present(ctx, show, datasets=records)
