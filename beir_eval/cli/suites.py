"""``beir-eval suites``: the suites that come with the package, and their files."""

from __future__ import annotations

import tomllib

import click

from beir_eval.experiment.suite import load_suite, shipped_suites, suite_text
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import output
from mcranker.cli.verb import Verb, output_flag, present
from personas.console import names, table


def _suites(ctx: click.Context) -> int:
    name = ctx.params["name"]
    if name is None:
        titles = {**shipped_suites(), **shipped_suites("answers")}
        entries = [{"name": name, "title": title} for name, title in titles.items()]
        made = table([names("name"), ""], titles.items())
        return present(ctx, lambda console: console.print(made), suites=entries)
    load_suite(name)  # a file that cannot be used is an error
    text = suite_text(name)
    if ctx.params["output"] == "json":
        return print_json(suite=tomllib.loads(text))
    with output(None) as write:
        write(text)
    return DONE


command = Verb(
    "suites",
    _suites,
    params=[click.Argument(["name"], required=False), output_flag("suites (or, with NAME, suite)")],
    help="""List the suites that come with the package, or print the file of the suite NAME.

    NAME may also be the path of a TOML file of your own, which is checked. To change a suite, save
    it, edit the file, and give its path to 'beir-eval run'.

    \b
      beir-eval suites
      beir-eval suites table1 > mine.toml
    """,
)
