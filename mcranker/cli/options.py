"""Flags: one for each field of `RankerConfig`, and those that choose models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from click.core import ParameterSource

from mcranker.cli.failures import as_flags
from mcranker.cli.files import Reads, database_files, ledger_files
from mcranker.cli.number_types import RealNumber, WholeNumber
from mcranker.cli.verb import GroupedOption
from mcranker.config import LARGEST, WEAK_MODEL_DEFAULTS, RankerConfig
from mcranker.models import MODEL_OPTIONS, ROLES
from mcranker.rankers import RANKERS, Ranker
from personas.registry import Registry

METHOD, MODELS = "Method", "Models"

_ROLES = {
    "recruiter": "Recruits the personas, instead of --model.",
    "criteria": "Writes the criteria, instead of --model; a strong one helps a weak scorer.",
    "scoring": "Scores the passages, instead of --model.",
    "assessor": "Combines the scores with --ensemble assessor, instead of --model; with --ranker "
    "rankgpt, puts the first passages in order again.",
}
_NAMES = {"require": "NAME", "forbid": "NAME|PATTERN"}
"""Fields whose flags are repeated, since a persona's name may hold a comma."""

_METAVARS = {**_NAMES, "prompts": "NAME|FOLDER"}

_UNIONS = (UnionType, Union)  # of a literal and None it is the latter

_NUMBERS: Mapping[type, type[WholeNumber] | type[RealNumber]] = {
    int: WholeNumber,
    float: RealNumber,
}


class _OrNone(click.ParamType[Any]):
    """A value of another type, or the word ``none``."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.inner = inner
        self.name = f"{inner.name}|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        return self.inner.convert(value, param, ctx)


class _Listed(click.ParamType[Any]):
    """Texts with commas between them."""

    name = "texts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",")) if value else ()
        return tuple(value)


class _ListedFiles(_Listed, Reads):
    """Names and files with commas between them."""


class _Numbers(click.ParamType[Any]):
    """Numbers with commas between them."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        try:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(float(part) for part in parts)
        except ValueError:
            self.fail(f"{value!r}: give numbers with commas between them, e.g. 0.7,0.3", param, ctx)


def config_flags(fields: Iterable[str] | None = None) -> list[click.Parameter]:
    """A flag for each field of `RankerConfig`, or for those named, in the order of the class."""
    wanted = RankerConfig.model_fields if fields is None else set(fields)
    return [_flag(name) for name in RankerConfig.model_fields if name in wanted]


def given_config(ctx: click.Context) -> RankerConfig:
    """The configuration of the flags that were given; all others stay unset, not at defaults.

    Raises:
        ConfigError: a value is impossible, or two do not go together.
    """
    return RankerConfig(
        **{name: ctx.params[name] for name in RankerConfig.model_fields if _is_given(ctx, name)}
    )


def model_flags(roles: Iterable[str]) -> list[click.Parameter]:
    """``--model``, one flag for each of the roles, and ``--base-url``."""
    return [
        GroupedOption(
            ["--model"],
            type=Reads(files=_model_files),
            metavar="NAME",
            section=MODELS,
            help="openai:NAME, anthropic:NAME, local:NAME or local:PATH.gguf, for all roles. "
            "Without: MCRANKER_MODEL, else a key that is set, else a small local model.",
        ),
        *(
            GroupedOption(
                [f"--{role}-model"],
                type=Reads(files=_model_files),
                metavar="NAME",
                section=MODELS,
                help=_ROLES[role],
            )
            for role in roles
        ),
        GroupedOption(
            ["--base-url"],
            metavar="URL",
            section=MODELS,
            help="Address of an OpenAI- or Anthropic-compatible server. Keys are not given "
            "here: set OPENAI_API_KEY or ANTHROPIC_API_KEY.",
        ),
    ]


def ledger_flag() -> click.Parameter:
    """``--ledger``."""
    return GroupedOption(
        ["--ledger"],
        type=Reads("*", files=ledger_files),
        metavar="FILE|none",
        section=MODELS,
        help="Keeps every answer, so that none is paid for twice. Without: MCRANKER_LEDGER, else "
        "a file in the user's cache folder.",
    )


def team_flag(text: str) -> click.Parameter:
    """Return ``--team``: None if absent, a text if given once, else a tuple of texts."""

    def unwrapped(
        ctx: click.Context, param: click.Parameter, names: tuple[str, ...]
    ) -> str | tuple[str, ...] | None:
        return names[0] if len(names) == 1 else names or None

    return GroupedOption(
        ["--team"],
        type=Reads(),
        multiple=True,
        callback=unwrapped,
        metavar="FILE|NAME",
        section=METHOD,
        help=f"{text} Repeated: personas by name, of the library or any others.",
    )


def with_criteria_flag() -> click.Parameter:
    """``--with-criteria``."""
    return GroupedOption(
        ["--with-criteria"],
        is_flag=True,
        section=METHOD,
        help="Put a team's criteria into the prompt of --ranker direct.",
    )


COMPARISON_OPTIONS = (
    *("window", "step", "passes", "shuffles", "likelihood", "reranked", "ranks", "children"),
    *("sort", "variant", "drop_below"),
)
"""Options of the rankers that show a model several passages at once."""


def given_options(params: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the options that were given; switches that are off were not."""
    return {
        name: params[name]
        for name in names
        if params.get(name) is not None and params[name] is not False
    }


def comparison_flags() -> list[click.Parameter]:
    """Flags of `COMPARISON_OPTIONS`; those that are not given are left to the ranker."""
    helps = {
        "window": "With --ranker rankgpt or tournament: passages that one call puts in order (20 "
        "or 10); with --ranker rebel: passages that one call scores (10).",
        "step": "With --ranker rankgpt: passages by which the window moves on (10).",
        "passes": "With --ranker rankgpt: how often the window goes over all passages (1).",
        "shuffles": "With --ranker rankgpt: orders in which each window is shown, of which what "
        "they agree on counts (1).",
        "reranked": "With --ranker rankgpt: first passages that --assessor-model puts in order "
        "again (30).",
        "ranks": "With --ranker setwise, pairwise or tournament: first ranks that are sorted out "
        "(10).",
        "children": "With --ranker setwise: passages compared with the one above them (3).",
    }
    numbers = [
        GroupedOption(
            [f"--{name}"], type=WholeNumber(min=1), metavar="N", section=METHOD, help=text
        )
        for name, text in helps.items()
    ]
    return [
        *numbers,
        GroupedOption(
            ["--likelihood"],
            is_flag=True,
            section=METHOD,
            help="With --ranker rankgpt: order a window by its letters' probabilities, in one "
            "token of reply.",
        ),
        GroupedOption(
            ["--sort"],
            type=click.Choice(["heap", "bubble", "sliding", "all_pairs"]),
            section=METHOD,
            help="With --ranker setwise: heap or bubble (heap); with --ranker pairwise: sliding, "
            "heap or all_pairs (sliding).",
        ),
        GroupedOption(
            ["--variant"],
            type=click.Choice(["one_turn", "two_turn", "two_turn_relevance"]),
            section=METHOD,
            help="With --ranker rebel: score by five fixed properties (one_turn), by those that a "
            "first call infers from the query, or by relevance as that call explains it.",
        ),
        GroupedOption(
            ["--drop-below"],
            type=WholeNumber(min=0, max=10),
            metavar="N",
            section=METHOD,
            help="With --ranker rebel: relevance below which a passage is dropped, 0 to 10 (3).",
        ),
    ]


FUSION_OPTIONS = ("members", "method", "weights")
"""Options of the ranker that fuses others."""


def fusion_flags() -> list[click.Parameter]:
    """Flags of `FUSION_OPTIONS`; those that are not given are left to the ranker."""
    return [
        GroupedOption(
            ["--members"],
            type=_ListedFiles(),
            metavar="NAME,FILE,...",
            section=METHOD,
            help="With --ranker fused: rankers by name, bm25 for the first stage, and files of "
            "TREC runs.",
        ),
        GroupedOption(
            ["--method"],
            type=click.Choice(("rrf", "interpolate")),
            section=METHOD,
            help="With --ranker fused: by rank, 1 / (60 + rank), or by score, from 0 to 1 (rrf).",
        ),
        GroupedOption(
            ["--weights"],
            type=_Numbers(),
            metavar="X,X,...",
            section=METHOD,
            help="With --ranker fused: a weight for each of the members (1 each).",
        ),
    ]


def given_ledger(ctx: click.Context) -> str | None:
    """Return the value of ``--ledger`` in the form rankers take."""
    given: str | None = ctx.params.get("ledger")
    return "default" if given is None else None if given.lower() == "none" else given


def model_names(ctx: click.Context) -> list[str]:
    """Return the models of the flags, with the default's name where one is needed."""
    from mcranker.llm.connect import choose_default

    if "ranker" in ctx.params and not RANKERS.get(ctx.params["ranker"]).asks_models(ctx.params):
        return []
    specs = [ctx.params.get(f"{role}_model") or ctx.params["model"] for role in ROLES]
    return list(dict.fromkeys(spec or choose_default(os.environ)[0] for spec in specs))


def make_ranker(ctx: click.Context, name: str) -> Ranker:
    """Return the ranker of that name, configured by the flags.

    Raises:
        click.UsageError: a flag was given that this ranker does not take.
        MCRankerError, PersonasError: as the ranker's class says.
    """
    make: Callable[..., Ranker] = RANKERS.get(name)
    takes = RANKERS.get(name).takes()
    names = (
        *(*MODEL_OPTIONS, "base_url", "team", "with_criteria"),
        *(*COMPARISON_OPTIONS, *FUSION_OPTIONS),
    )
    options = given_options(ctx.params, names)
    for option in options:
        if option not in takes:
            flag = option.replace("_", "-")
            raise click.UsageError(f"--{flag} does not go with --ranker {name}; leave it out", ctx)
    return make(config=given_config(ctx), ledger=given_ledger(ctx), **options)


def ranker_flag(default: str | None = "mcranker") -> click.Parameter:
    """``--ranker``."""
    return GroupedOption(
        ["--ranker"],
        type=click.Choice(RANKERS.names),
        default=default,
        show_default=default is not None,
        section=METHOD,
        help="The team of personas, or another ranker (docs/rankers.md).",
    )


def _weak_model_note() -> str:
    settings = ", ".join(
        f"--{name.replace('_', '-')} {','.join(value) if isinstance(value, tuple) else value}"
        for name, value in WEAK_MODEL_DEFAULTS.items()
    )
    return f"With a model marked weak (see 'mcranker models') the defaults are: {settings}."


WEAK_MODEL_NOTE = _weak_model_note()
"""Note on weak models for the help."""


def _model_files(spec: str | None) -> Iterator[str]:
    """The file of a local model, and the vectors that are kept of what encoders read."""
    from mcranker.llm.local.vectors import default_vectors_path

    if spec is not None:
        yield spec.removeprefix("local:")
    if vectors := default_vectors_path():
        yield from database_files(vectors)


def _is_given(ctx: click.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _flag(name: str) -> GroupedOption:
    field = RankerConfig.model_fields[name]
    flag = name.replace("_", "-")
    kind, default = field.annotation, field.default
    is_switch = kind is bool
    shown: bool | str = default not in ((), "")
    if isinstance(default, str) and default != default.strip():
        shown = repr(default)
    return GroupedOption(
        [f"--{flag}/--no-{flag}" if is_switch else f"--{flag}", name],
        type=_flag_type(name),
        default=default,
        show_default="none" if default is None else shown,
        multiple=name in _NAMES,
        metavar=None if is_switch else _METAVARS.get(name) or _metavar(kind),
        help=as_flags(field.description or "") + (" May be repeated." if name in _NAMES else ""),
        section=METHOD,
    )


def _flag_type(name: str) -> click.ParamType[Any] | None:
    """The type of a value; None for a switch."""
    field = RankerConfig.model_fields[name]
    if field.annotation is bool:
        return None
    if name == "prompts":
        return Reads("*.txt")
    if named := [each for each in field.metadata if isinstance(each, Registry)]:
        return click.Choice(named[0].names)
    return click.STRING if name in _NAMES else _param_type(field.annotation, field.metadata)


def _metavar(kind: Any) -> str | None:
    """A letter for a number; None for what click names well by itself."""
    if get_origin(kind) in _UNIONS:
        (inner,) = _not_none(kind)
        return f"{_metavar(inner) or '|'.join(get_args(inner))}|none"
    if get_origin(kind) is tuple:
        return "TEXT,TEXT,..."
    return {int: "N", float: "X"}.get(kind)


def _param_type(kind: Any, metadata: list[Any]) -> click.ParamType[Any]:
    if get_origin(kind) is Literal:
        return click.Choice(list(get_args(kind)))
    if get_origin(kind) in _UNIONS:
        (inner,) = _not_none(kind)
        return _OrNone(_param_type(inner, metadata))
    if get_origin(kind) is tuple:
        return _Listed()
    if kind in _NUMBERS:
        low = next((each.ge for each in metadata if hasattr(each, "ge")), None)
        high = next((each.le for each in metadata if hasattr(each, "le")), None)
        # The limits of 64 bits need no mention.
        low, high = (None if each in (-LARGEST, LARGEST) else each for each in (low, high))
        return _NUMBERS[kind](min=low, max=high)
    return click.STRING


def _not_none(union: Any) -> tuple[Any, ...]:
    return tuple(each for each in get_args(union) if each is not NoneType)
