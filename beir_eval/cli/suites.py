"""``beir-eval suites``: the suites that come with the package, and their content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import output as opened_output
from mcranker.cli.verb import Verb, output_flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from beir_eval.experiment.run_folder import SuiteNote
    from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite


def _suites(ctx: click.Context) -> int:
    name, as_toml, output = (ctx.params[each] for each in ("name", "as_toml", "output"))
    if as_toml and name is None:
        raise click.UsageError("--toml needs the name of a suite", ctx)
    if as_toml and output == "json":
        raise click.UsageError("--toml and --output json do not go together; choose one", ctx)
    if name is None:
        return _list(as_json=output == "json")
    if as_toml:
        from beir_eval.experiment.suite import suite_text

        with opened_output(None) as write:
            write(suite_text(name))
        return DONE
    return _show(name, as_json=output == "json")


def _list(*, as_json: bool) -> int:
    from beir_eval.experiment.suite import shipped_suites

    suites = shipped_suites()
    if as_json:
        entries = [{"name": name, "title": title} for name, title in suites.items()]
        return print_json(suites=entries)
    from personas.console import print_page

    print_page(lambda console: _list_page(console, suites))
    return DONE


def _show(name: str, *, as_json: bool) -> int:
    from beir_eval.experiment.suite import load_suite

    suite = load_suite(name)
    if as_json:
        return print_json(suite=_record(suite))
    from personas.console import print_page

    print_page(lambda console: _page(console, suite))
    return DONE


def _note(spec: RankerSpec) -> SuiteNote:
    assert spec.note is not None, "a ranker of a suite has its place there"
    return spec.note


def _record(suite: Suite) -> dict[str, Any]:
    from beir_eval.experiment.run_folder import shown_options

    first = _note(suite.rankers[0])
    return {
        "name": suite.name,
        "title": suite.title,
        "description": suite.description,
        "datasets": [
            {"name": each.name, "split": each.split, "about": each.about} for each in suite.datasets
        ],
        "depth": suite.depth,
        "baseline": first.baseline,
        "paper_table": first.paper_table,
        "paper_rows": list(first.not_run),
        "models": dict(suite.models),
        "figure": None if suite.figure is None else suite.figure.model_dump(),
        "rankers": [
            {
                "label": each.label,
                "ranker": each.ranker,
                "options": shown_options(each.options),
                "run": each.run or None,
                "paper_row": note.paper_row,
                "x": note.x,
                "series": note.series,
            }
            for each, note in zip(suite.rankers, map(_note, suite.rankers), strict=True)
        ],
    }


def _list_page(console: Console, suites: Mapping[str, str]) -> None:
    from personas.console import names, table

    console.print(table([names("name"), ""], suites.items()))
    console.print(
        "'beir-eval suites NAME' shows one, 'beir-eval run NAME' runs it.",
        style="dim",
        highlight=False,
    )


def _page(console: Console, suite: Suite) -> None:
    from rich.table import Column
    from rich.text import Text

    from personas.console import table
    from personas.sanitize import plain

    console.print(Text(plain(suite.title), style="bold"))
    if suite.description:
        console.print(Text(plain(suite.description)))
    console.print()
    for heading, words in _lines(suite):
        console.print(
            Text(f"{plain(heading)}: ", style="dim").append(plain(words), style="not dim")
        )
    rows = ((each.label, each.ranker, _options(each)) for each in suite.rankers)
    console.print(table([Column("label", style="cyan"), "ranker", "options"], rows))


def _lines(suite: Suite) -> list[tuple[str, str]]:
    first = _note(suite.rankers[0])
    lines = [
        ("data sets", ", ".join(map(_dataset, suite.datasets))),
        ("depth", f"{suite.depth} passages a query"),
        ("compared with", first.baseline or "the first stage"),
        *((f"model {name}", model) for name, model in suite.models.items()),
    ]
    if first.paper_table is not None:
        lines.append(("paper's numbers", first.paper_table))
    if first.not_run:
        lines.append(("shown, not run", ", ".join(first.not_run)))
    if suite.figure is not None:
        lines.append(("figure", f"{suite.figure.title} ({suite.figure.kind})"))
    return lines


def _dataset(spec: DatasetSpec) -> str:
    return spec.name if spec.split == "test" else f"{spec.name} ({spec.split})"


def _options(spec: RankerSpec) -> str:
    from beir_eval.experiment.run_folder import shown_options

    if spec.run:
        return spec.run
    return ", ".join(
        f"{name}={_value(value)}" for name, value in shown_options(spec.options).items()
    )


def _value(value: Any) -> str:
    """Return a value in TOML's form, but texts without quotes."""
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "none"
        case list():
            return f"[{', '.join(map(_value, value))}]"
    return str(value)


command = Verb(
    "suites",
    _suites,
    params=[
        click.Argument(["name"], required=False),
        click.Option(
            ["--toml", "as_toml"],
            is_flag=True,
            help="Print the suite's file, to be saved, edited and run.",
        ),
        output_flag("suites (or, with NAME, suite)"),
    ],
    help="""List the suites that come with the package, or show what the suite NAME holds.

    NAME may also be the path of a TOML file of your own, which is checked. To change a suite,
    save it by --toml, edit the file, and give its path to 'beir-eval run'.
    """,
)
