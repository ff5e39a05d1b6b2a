"""``mcranker options``: the options of rankers, with their values, defaults and meaning."""

from __future__ import annotations

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import print_line
from mcranker.cli.rank import INPUT_KEYS
from mcranker.cli.verb import Verb, output_flag
from mcranker.rag.config import stage_keys
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import Key, keys_of, own_keys, shared_keys

WIDTH = 92


def sections(ranker: str | None) -> dict[str, list[Key]]:
    """Return the options by heading: those of one ranker, or of all."""
    if ranker is not None:
        names = {key.name for key in own_keys(ranker)}
        taken = list(keys_of(ranker).values())
        return {
            f"Options of {ranker} alone": [key for key in taken if key.name in names],
            f"Options that {ranker} shares": [key for key in taken if key.name not in names],
        }
    found = {"Options of all rankers": list((keys_of("mcranker") | shared_keys()).values())}
    found |= {f"Options of {name} alone": own_keys(name) for name in RANKERS.names}
    found["Options of 'mcranker rank' alone"] = list(INPUT_KEYS.values())
    of_stages = stage_keys(of_rankers=False)
    return found | {"Options of pipelines alone": list(of_stages.values())}


def text(ranker: str | None = None) -> str:
    """Return the list as text, for the terminal and the reference."""
    formatter = click.HelpFormatter(width=WIDTH)
    for heading, keys in sections(ranker).items():
        if keys:
            with formatter.section(heading):
                rows = [(f"{key.name}={key.values}", key.text) for key in keys]
                formatter.write_dl(rows, col_max=26)
    return formatter.getvalue().strip()


def _list(ctx: click.Context) -> int:
    ranker = ctx.params["ranker"]
    if ctx.params["output"] == "table":
        print_line(text(ranker))
        return DONE
    keys = [key for found in sections(ranker).values() for key in found]
    rows = [{"key": each.name, "values": each.values, "help": each.text} for each in keys]
    return print_json(DONE, options=rows)


command = Verb(
    "options",
    _list,
    params=[click.Argument(["ranker"], required=False), output_flag("options")],
    help="""List the options of a ranker, or of all, with values, defaults and limits.

    Each is given as -o KEY=VALUE, or in the file of --config as KEY = VALUE.

    \b
      mcranker options rankgpt
      mcranker rank "best masks against covid" --docs passages.jsonl -o top_n=10 -o labels=No,Yes
    """,
)
