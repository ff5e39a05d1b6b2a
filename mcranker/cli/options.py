"""Flags that choose a ranker and its options: the usual ones by name, all others by ``-o``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from mcranker.cli.failures import as_flags
from mcranker.cli.files import Reads, ledger_files
from mcranker.cli.verb import flag
from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.rankers import RANKERS, Ranker
from mcranker.rankers.keys import (
    NAMED,
    Key,
    check_names,
    keys_of,
    located,
    needed_models,
    read_options,
    read_toml,
    shared_keys,
)

_FIELDS = ("team_size", "scoring", "ensemble", "depth", "max_cost")


@dataclass(frozen=True, slots=True)
class Given:
    """The rankers that a command line chose, with their options."""

    rankers: tuple[str, ...]
    options: Mapping[str, Any]
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranker(self) -> str:
        """The name of the one ranker."""
        if len(self.rankers) != 1:
            raise ConfigError(f"ranker={list(self.rankers)}: name one")
        return self.rankers[0]

    @property
    def ledger(self) -> str:
        """The ledger, as ``--ledger`` takes it."""
        return self.options.get("ledger", "default") or "none"

    @property
    def models(self) -> list[str]:
        """The models that will be asked, the default one included."""
        return needed_models((name, self.options) for name in self.rankers)

    def make(self) -> Ranker:
        """Make the ranker."""
        make: Callable[..., Ranker] = RANKERS.get(self.ranker)
        return make(**self.options)


def option_flags(*names: str, without: Collection[str] = ()) -> list[click.Parameter]:
    """Return the flags with these names, or all, ``--config`` and ``-o`` among them."""
    wanted = names or (*NAMED, "config", "option")
    return [each for each in _flags() if each.name in wanted and each.name not in without]


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
    table, given = _file_options(path), _flag_options(ctx)
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
        name, equals, rest = str(error).partition("=")
        said = f"{name} = {rest}" if equals and name in table else error
        raise ConfigError(f"{path}: {said}") from error
    check_names(pairs, known, what)
    given |= {name: known[name].joined(values) for name, values in pairs.items()}
    options |= read_options(given, known, what)
    mine = {name: options.pop(name) for name in own if name in options}
    # Values that do not go together are an error before anything is read or fetched.
    RankerConfig(**{name: options[name] for name in RankerConfig.model_fields if name in options})
    return Given(rankers, options, mine)


def given_flags(ctx: click.Context) -> list[str]:
    """Return the flags of `option_flags` that were given, as they are written, but ``--config``."""
    names = [*_flag_options(ctx), *(["option"] if ctx.params.get("option") else ())]
    return [f"--{name.replace('_', '-')}" for name in names]


def _tidy(name: str) -> str:
    return name.strip().replace("-", "_")


def _file_options(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    base = Path(path).absolute().parent
    table = {_tidy(name): value for name, value in read_toml(path).items()}
    names = table.get("ranker", "")
    if not isinstance(names, str) and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise ConfigError(f"{path}: ranker = {names!r}: write the name of one")
    return {name: located(name, value, base) for name, value in table.items()}


def _flag_options(ctx: click.Context) -> dict[str, Any]:
    given = {}
    for name in NAMED:
        if (value := ctx.params.get(name)) not in (None, ()):
            given[name] = value[0] if name == "team" and len(value) == 1 else value
    return given


def _flags() -> list[click.Parameter]:
    ranking = partial(flag, section="Ranking")
    return [
        ranking(
            "--ranker",
            "mcranker, the team of personas, which is the default; or "
            f"{', '.join(name for name in RANKERS.names if name != 'mcranker')}.",
            metavar="NAME",
        ),
        ranking(
            "--model",
            "openai:NAME, anthropic:NAME, local:NAME or local:PATH.gguf. Without: MCRANKER_MODEL, "
            "else a key that is set, else a small local model.",
            metavar="NAME",
        ),
        ranking(
            "--base-url",
            "Address of an OpenAI- or Anthropic-compatible server. Keys are not given here: set "
            "OPENAI_API_KEY or ANTHROPIC_API_KEY.",
            metavar="URL",
        ),
        ranking(
            "--team",
            "A saved team or ranking, or a team of the library; none is recruited then, unless "
            "--team-size is larger. Repeated: personas by name.",
            type=Reads(),
            multiple=True,
            metavar="FILE|NAME",
        ),
        *(
            ranking(f"--{name.replace('_', '-')}", as_flags(key.text), metavar=key.values)
            for name in _FIELDS
            for key in [shared_keys()[name]]
        ),
        ranking(
            "--ledger",
            "Keeps every answer, so that none is paid for twice. Without: MCRANKER_LEDGER, else a "
            "file in the user's cache folder.",
            type=Reads(ledger_files),
            metavar="FILE|none",
        ),
        ranking(
            "--config",
            "Options in a TOML file, each as KEY = VALUE; flags and -o override it.",
            type=Reads(),
            metavar="FILE",
        ),
        ranking(
            "-o --option",
            "Any other option; may be repeated. See 'mcranker options' for all.",
            multiple=True,
            metavar="KEY=VALUE",
        ),
    ]
