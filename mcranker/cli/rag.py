"""``mcranker rag``: the presets of pipelines; and the flags that choose a pipeline."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, print_line
from mcranker.cli.options import Given, given_options
from mcranker.cli.verb import Verb, flag, output_flag, present
from mcranker.errors import ConfigError
from mcranker.rag.config import PipelineConfig, Preset, preset_text
from mcranker.rag.keys import SHARED, divided, stage_keys

PRESETS: tuple[str, ...] = get_args(Preset)
DEFAULT = "team"


def pipeline_flags(section: str) -> list[click.Parameter]:
    """Return the flags for an index and the pipeline over it."""
    chosen = partial(flag, section=section)
    return [
        chosen("--index", "File that 'mcranker index' made.", type=Reads(), metavar="INDEX"),
        chosen(
            "--preset",
            f"Pipeline that ships; see 'mcranker rag presets'. Without: {DEFAULT}.",
            type=click.Choice(PRESETS),
            metavar="NAME",
        ),
        chosen(
            "--pipeline",
            "Pipeline in a TOML file, as 'mcranker rag show' prints one.",
            type=Reads(),
            metavar="FILE",
        ),
    ]


def given_pipeline(
    ctx: click.Context, given: Given | None = None
) -> tuple[PipelineConfig, dict[str, Any]]:
    """Return the pipeline that flags and ``-o`` choose, and the options of `RAGPipeline`."""
    preset, file = ctx.params["preset"], ctx.params["pipeline"]
    if preset and file:
        raise click.UsageError(
            "--preset does not go with --pipeline; write preset = NAME in the file", ctx
        )
    config = PipelineConfig.load(file or preset or DEFAULT)
    ranker = ctx.params["ranker"] or config.rerank.ranker
    alone = given is None
    if given is None:
        given = given_options(ctx, default=ranker, own=stage_keys(), what="a pipeline")
        ranker = given.ranker if given.rankers else None
    ranker = given.own.get("rerank.ranker", ranker)
    options = dict(given.options)
    if ranker not in given.rankers:
        options = {name: options[name] for name in SHARED if name in options}
        if alone and (others := given.options.keys() - options):
            raise ConfigError(f"{min(others)} is an option of a ranker; name one with --ranker")
    values = {**options, **given.own, "rerank.ranker": ranker}
    if ctx.params.get("no_answer"):
        values["answer.style"] = "extract"
    own, changes = divided(values)
    return PipelineConfig.load(config, **changes), own


def _show(ctx: click.Context) -> int:
    name = ctx.params["preset"]
    if ctx.params["output"] == "json":
        return print_json(pipeline=PipelineConfig.load(name).model_dump(mode="json"))
    print_line(preset_text(name).rstrip())
    return DONE


def _presets(ctx: click.Context) -> int:
    from personas.console import names, table

    found = [{"name": name, "about": PipelineConfig.load(name).about} for name in PRESETS]
    rows = [tuple(each.values()) for each in found]
    listed = table([names("preset"), ""], rows)
    return present(ctx, lambda console: console.print(listed), presets=found)


command = click.Group(
    "rag",
    help="See the pipelines of 'mcranker ask': how a question is searched, ranked and answered.",
    commands=[
        Verb(
            "show",
            _show,
            params=[
                click.Argument(
                    ["preset"], type=click.Choice(PRESETS), default=DEFAULT, metavar="[PRESET]"
                ),
                output_flag("pipeline", forms=("toml", "json")),
            ],
            help="""Print a preset as TOML, to be changed and given to --pipeline.

    Values that it does not name are the defaults in 'mcranker options'.

    \b
      mcranker rag show rebel > mine.toml
      mcranker ask "What is NSP?" --index papers.index --pipeline mine.toml
    """,
        ),
        Verb("presets", _presets, params=[output_flag("presets")], help="List the presets."),
    ],
)
