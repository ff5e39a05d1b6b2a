"""``mcranker rag``: the presets of pipelines; and the flags that choose a pipeline."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, print_line
from mcranker.cli.options import Given
from mcranker.cli.verb import Verb, flag, output_flag, present
from mcranker.rag.config import PipelineConfig, Preset, preset_text
from mcranker.rag.keys import SHARED, divided

PRESETS: tuple[str, ...] = get_args(Preset)
DEFAULT = "team"


def pipeline_flags(section: str) -> list[click.Parameter]:
    """Return the flags for an index and the pipeline over it."""
    chosen = partial(flag, section=section)
    return [
        chosen("--index", "Folder that 'mcranker index' made.", type=Reads(), metavar="INDEX"),
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
    ctx: click.Context, given: Given, ranker: str | None
) -> tuple[PipelineConfig, dict[str, Any]]:
    """Return the pipeline that flags and ``-o`` choose, and the options of `RAGPipeline`.

    Args:
        ctx: of a verb with `pipeline_flags`.
        given: its options; those of a ranker are for the pipeline's, if it is the same one.
        ranker: the pipeline's, if it was named.

    Raises:
        click.UsageError: both a preset and a file are given.
        ConfigError: as `PipelineConfig.load`.
    """
    preset, file = ctx.params["preset"], ctx.params["pipeline"]
    if preset and file:
        raise click.UsageError(
            "--preset does not go with --pipeline; write preset = NAME in the file", ctx
        )
    shared = {name: value for name, value in given.options.items() if name in SHARED}
    own, changes = divided({**shared, **given.own})
    rerank = changes.setdefault("rerank", {})
    if ranker:
        rerank["ranker"] = ranker
    if ctx.params.get("no_answer"):
        changes.setdefault("answer", {})["style"] = "extract"
    load = partial(PipelineConfig.load, file or preset or DEFAULT)
    config = load(**changes)
    more = {name: value for name, value in given.options.items() if name not in SHARED}
    if more and config.rerank.ranker in given.rankers:
        rerank["options"] = {**more, **rerank.get("options", {})}
        config = load(**changes)
    return config, own


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
                click.Argument(["preset"], type=click.Choice(PRESETS)),
                output_flag("pipeline", forms=("toml", "json")),
            ],
            help="""Print a preset as TOML, to be changed and given to --pipeline.

    \b
      mcranker rag show rebel > mine.toml
      mcranker ask "What is NSP?" --index papers.index --pipeline mine.toml
    """,
        ),
        Verb("presets", _presets, params=[output_flag("presets")], help="List the presets."),
    ],
)
