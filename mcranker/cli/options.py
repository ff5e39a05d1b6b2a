"""Flags that choose a ranker or a pipeline and its options: usual ones by name, all by ``-o``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import click

from mcranker.cli.flags import Reads, flag, listing
from mcranker.cli.output import as_flags, ledger_files, present
from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.inputs.topics import TopicField
from mcranker.rag.config import SHARED, PipelineConfig, Preset, divided, preset_text, stage_keys
from mcranker.rankers import RANKERS, Ranker
from mcranker.rankers.keys import (
    NAMED,
    Key,
    check_names,
    flag_keys,
    keys_of,
    located,
    needed_models,
    own_keys,
    read_options,
    read_toml,
    shared_keys,
)
from mcranker.retrieval.readers import Format

RANK_KEYS = {
    "format": Key(
        "format",
        Format | None,
        help="Format of --docs, if its suffix does not name it. jsonl, json: objects with text "
        "and perhaps id and title, or strings. csv: a line of headings, then rows. tsv: the same, "
        "or id, tab, text. text: one passage a line.",
    ),
    "query_id": Key("query_id", help="The query's id in the output; 1 in a TREC run."),
}
RUN_KEYS = {
    "topic_field": Key(
        "topic_field",
        TopicField,
        "title",
        help="If --queries is a file of topics: the field to rank for, title, desc (description, "
        "question) or narr (narrative).",
    )
}
"""Options of the inputs of 'mcranker rank' and 'mcranker rank-run', which have no flags."""

PRESETS: tuple[str, ...] = get_args(Preset)
DEFAULT = "team"
_WIDTH = 92


@dataclass(frozen=True, slots=True)
class Given:
    """The rankers that a command line chose, with their options."""

    rankers: tuple[str, ...]
    options: Mapping[str, Any]
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranker(self) -> str:
        if len(self.rankers) != 1:
            raise ConfigError(f"ranker={list(self.rankers)}: name one")
        return self.rankers[0]

    @property
    def ledger(self) -> str:
        return self.options.get("ledger", "default") or "none"

    @property
    def models(self) -> list[str]:
        """The models that will be asked, the default one included."""
        return needed_models((name, self.options) for name in self.rankers)

    def make(self) -> Ranker:
        make: Callable[..., Ranker] = RANKERS.get(self.ranker)
        return make(**self.options)


def given_options(
    ctx: click.Context,
    *,
    default: str | None = "mcranker",
    own: Mapping[str, Key] | None = None,
    without: Collection[str] = (),
    what: str = "a suite",
) -> Given:
    """Return the options of the file, the flags and ``-o``; of two that differ the later counts."""
    own, path = own or {}, ctx.params.get("config")
    table, given = _file_options(path), flag_options(ctx)
    pairs: dict[str, list[str]] = {}
    for text in ctx.params.get("option", ()):
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"-o {text!r}: write KEY=VALUE, e.g. -o top_n=10", ctx)
        pairs.setdefault(_tidy(name), []).append(value)
    if unfit := [each for each in (*table, *given, *pairs) if each in without]:
        raise ConfigError(f"{ctx.info_name!r} takes no option {unfit[0]!r} here; leave it out")
    named = given.pop("ranker", table.pop("ranker", default))
    named = pairs.pop("ranker", [named])[-1]
    rankers = (named,) if isinstance(named, str) else tuple(named or ())
    known = {**keys_of(*rankers), **own}
    what = f"the ranker {' or '.join(map(repr, rankers))}" if rankers else what
    try:
        options = read_options(table, known, what)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    check_names(pairs, known, what)
    given |= {name: known[name].joined(values) for name, values in pairs.items()}
    options |= read_options(given, known, what)
    mine = {name: options.pop(name) for name in own if name in options}
    # Values that do not go together are an error before anything is read or fetched.
    RankerConfig(**{name: options[name] for name in RankerConfig.model_fields if name in options})
    return Given(rankers, options, mine)


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


def flag_options(ctx: click.Context) -> dict[str, Any]:
    """Return the options that flags of their own gave."""
    given = {}
    for name in NAMED:
        if (value := ctx.params.get(name)) not in (None, (), False):
            given[name] = value[0] if name == "team" and len(value) == 1 else value
    return given


def _tidy(name: str) -> str:
    return name.strip().replace("-", "_")


def _file_options(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    base = Path(path).absolute().parent
    table = {_tidy(name): value for name, value in read_toml(path).items()}
    names = table.get("ranker", "")
    if not all(isinstance(name, str) for name in (names if isinstance(names, list) else [names])):
        raise ConfigError(f"{path}: ranker = {names!r}: write the name of one")
    return {name: located(name, value, base) for name, value in table.items()}


def options_of(ranker: str = "") -> str:
    """Return the options of a ranker, or of all, as text for the terminal and the reference."""
    formatter = click.HelpFormatter(width=_WIDTH)
    for heading, keys in _sections(ranker).items():
        if keys:
            with formatter.section(heading):
                rows = [(f"{key.name}={key.values}", key.text) for key in keys]
                formatter.write_dl(rows, col_max=26)
    return formatter.getvalue().strip()


def _sections(ranker: str) -> dict[str, Iterable[Key]]:
    if ranker:
        own = own_keys(ranker)
        shared = [key for key in keys_of(ranker).values() if key not in own]
        return {f"Options of {ranker} alone": own, f"Options that {ranker} shares": shared}
    return {
        "Options of all rankers": (keys_of("mcranker") | shared_keys()).values(),
        **{f"Options of {name} alone": own_keys(name) for name in RANKERS.names},
        "Options of 'mcranker rank' alone": RANK_KEYS.values(),
        "Options of 'mcranker rank-run' alone": RUN_KEYS.values(),
        "Options of pipelines alone": stage_keys(of_rankers=False).values(),
    }


def _list_options(ctx: click.Context, ranker: str) -> int:
    keys = chain.from_iterable(_sections(ranker).values())
    rows = [{"key": each.name, "values": each.values, "help": each.text} for each in keys]
    return present(ctx, options_of(ranker), options=rows)


def _list_presets(ctx: click.Context, preset: str) -> int:
    if preset:
        if preset not in PRESETS:
            raise ConfigError(f"there is no preset {preset!r}; presets: {', '.join(PRESETS)}")
        pipeline = PipelineConfig.load(preset).model_dump(mode="json")
        return present(ctx, preset_text(preset).rstrip(), pipeline=pipeline)
    from personas.console import names, table

    found = [{"name": name, "about": PipelineConfig.load(name).about} for name in PRESETS]
    listed = table([names("preset"), ""], [tuple(each.values()) for each in found])
    return present(ctx, lambda console: console.print(listed), presets=found)


def option_flags(*names: str, without: Collection[str] = ()) -> list[click.Parameter]:
    """Return the flags with these names, or all, ``--config`` and ``-o`` among them."""
    wanted = {*(names or (*NAMED, "config", "option"))}
    wanted |= {"list_options"} if "option" in wanted else set()
    return [each for each in _flags() if each.name in wanted and each.name not in without]


def pipeline_flags(section: str) -> list[click.Parameter]:
    """Return the flags for an index and the pipeline over it."""
    chosen = partial(flag, section=section)
    return [
        chosen("--index", "File that 'mcranker index' made.", type=Reads(), metavar="INDEX"),
        chosen(
            "--preset",
            f"Pipeline that ships; --presets lists them. Without: {DEFAULT}.",
            type=click.Choice(PRESETS),
            metavar="NAME",
        ),
        chosen(
            "--pipeline", "Pipeline in a TOML file, as --presets NAME prints one.", type=Reads()
        ),
        listing(
            "--presets",
            "List the presets, or print one as TOML, to be changed and given to --pipeline; its "
            "other values are the defaults that --options lists.",
            _list_presets,
            metavar="NAME",
            section=section,
        ),
    ]


def _flags() -> list[click.Parameter]:
    ranking = partial(flag, section="Ranking")
    others = ", ".join(name for name in RANKERS.names if name != "mcranker")
    files = {"ledger": Reads(ledger_files), "team": Reads()}
    return [
        ranking(
            "--ranker",
            f"mcranker, the team of personas, which is the default; or {others}.",
            metavar="NAME",
        ),
        *(
            ranking(
                f"--{name.replace('_', '-')}",
                as_flags(key.text),
                metavar=key.values,
                type=files.get(name),
                multiple=name == "team",
            )
            if key.kind is not bool
            else ranking(f"--{name}", key.help, is_flag=True)
            for name, key in flag_keys().items()
        ),
        ranking(
            "--config",
            "Options in a TOML file, each as KEY = VALUE; flags and -o override it.",
            type=Reads(),
        ),
        ranking(
            "-o --option",
            "Any other option; may be repeated. --options lists all.",
            multiple=True,
            metavar="KEY=VALUE",
        ),
        listing(
            "--options",
            "List the options of a ranker, or of all, with values, defaults and limits.",
            _list_options,
            metavar="RANKER",
            section="Ranking",
        ),
    ]
