"""``mcranker serve``: rankers as an HTTP service for the clients of other rerankers."""

from __future__ import annotations

import importlib.util
import logging
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from mcranker.cli.failures import DONE
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.options import given_flags, given_options, option_flags
from mcranker.cli.rag import given_pipeline, pipeline_flags
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, quiet_flag
from mcranker.errors import ConfigError
from mcranker.logs import safe_logger
from mcranker.rankers.keys import needed_models, read_toml
from personas.format import counted

if TYPE_CHECKING:
    from mcranker.serve.settings import Settings

_SERVICE = ("starlette", "uvicorn", "prometheus_client")
PACKAGES = {"serve": _SERVICE, "mcp": ("mcp", *_SERVICE)}
"""Extra -> the packages that it takes."""


def _serve(ctx: click.Context) -> int:
    given = ctx.params
    if given["new_key"] or given["hash_key"]:
        return _make_key(ctx)
    settings = given_settings(ctx, "serve", "the service")
    from mcranker.serve.app import create_app
    from mcranker.serve.server import address_of, check_exposure, listen, serve

    invocation = ctx.ensure_object(Invocation)
    check_exposure(settings, allow_no_keys=given["allow_no_keys"])
    fetch_models(named_models(settings), quiet=given["quiet"])
    app = create_app(settings)
    if given["check"]:
        return DONE
    bound = listen(settings)

    def started() -> None:
        invocation.doing("serving")
        if not given["quiet"]:
            names = ", ".join(each.name for each in settings.rankers)
            say(f"serving {names} at {address_of(bound)}")
            for line in app.state.described:
                say(line)
            safe_logger("mcranker.serve.access").setLevel(logging.INFO)

    with bound:
        given_up = run_loop(partial(serve, app, settings, bound, started=started))
    if given_up:
        say(f"stopped; {counted(given_up, 'request')} cancelled")
    elif not given["quiet"]:
        say("stopped; what was under way is finished")
    return DONE


def given_settings(ctx: click.Context, extra: str, server: str) -> Settings:
    """Return the service that the file, or the flags, describe; it needs an extra."""
    _check_installed(extra, server)
    ctx.ensure_object(Invocation).doing("getting ready; nothing was sent")
    from mcranker.rag.keys import stage_keys
    from mcranker.rankers import RANKERS
    from mcranker.serve.settings import (
        TABLES,
        AnswerSettings,
        RankerSettings,
        Settings,
        load_settings,
    )

    params = ctx.params
    answer = None
    unscored = {"unscored": value} if (value := params.get("unscored")) else {}
    if params["config"] is not None and TABLES & read_toml(params["config"]).keys():
        own = [name for name in ("index", "preset", "pipeline") if params[name] is not None]
        if flags := [*given_flags(ctx), *(f"--{name}" for name in (*unscored, *own))]:
            raise click.UsageError(
                f"{flags[0]} does not go with the tables of --config; write it in the file", ctx
            )
        settings = load_settings(params["config"])
    else:
        index = params["index"]
        if index is None and (params["preset"] or params["pipeline"]):
            raise click.UsageError("a pipeline needs documents; give --index as well", ctx)
        given = given_options(ctx, own=stage_keys() if index else None)
        if index is not None:
            answer = AnswerSettings(index, *given_pipeline(ctx, given))
        # All who reach this machine's loopback may try another team in the playground.
        chosen = ("team",) if "team" in RANKERS.get(given.ranker).takes() else ()
        ranker = RankerSettings(
            given.ranker, given.ranker, given.options, ("*",), chosen, **unscored
        )
        settings = Settings(rankers=(ranker,), answer=answer)
    changed = {name: params[name] for name in ("host", "port") if params[name] is not None}
    return replace(settings, **changed)


def named_models(settings: Settings) -> list[str]:
    """Return the models of the rankers, with the default's name where one is needed."""
    return needed_models((each.ranker, each.options) for each in settings.rankers)


def address_flags(section: str, host: str, port: str = "") -> list[click.Option]:
    """Return --host and --port with the beginnings of their help."""
    free = "Without: the file's, else 8080; 0 for one that is free."
    number = WholeNumber(min=0, max=65_535)
    return [
        flag(
            "--host",
            f"{host} Without: the file's, else 127.0.0.1.",
            metavar="ADDRESS",
            section=section,
        ),
        flag("--port", f"{port}{free}", type=number, metavar="N", section=section),
    ]


def _check_installed(extra: str, server: str) -> None:
    missing = [each for each in PACKAGES[extra] if importlib.util.find_spec(each) is None]
    if missing:
        needed = ", ".join(missing)
        raise ConfigError(f"{server} needs {needed}; run: pip install 'mcranker[{extra}]'")


def _make_key(ctx: click.Context) -> int:
    _check_installed("serve", "the service")
    from mcranker.serve.settings import hash_key, new_key

    if ctx.params["new_key"]:
        key = new_key()
        print_line(key)
        say(f"for the file, under [keys]: NAME = {hash_key(key)!r}; the key is not shown again")
        return DONE
    if sys.stdin.isatty():
        key = click.prompt("key", hide_input=True, err=True)
    else:
        # No longer than any key that is taken, with its line end.
        key = sys.stdin.readline(2_000).rstrip("\r\n")
    print_line(hash_key(key))
    return DONE


served = partial(flag, section="Service")

command = Verb(
    "serve",
    _serve,
    params=[
        *address_flags(
            "Service", "Listen there; addresses that other machines can reach need keys."
        ),
        served(
            "--allow-no-keys",
            "Let other machines use the service without a key; something else guards it.",
            is_flag=True,
        ),
        served("--check", "Only check the configuration: make the rankers, and end.", is_flag=True),
        flag(
            "--new-key",
            "Print a new API key to standard output, and its hash, for the file, to standard "
            "error.",
            is_flag=True,
            section="Keys",
        ),
        flag(
            "--hash-key",
            "Read an API key from standard input, and print its hash.",
            is_flag=True,
            section="Keys",
        ),
        served(
            "--unscored",
            "What clients get for documents that no judge scored, and from rankers that compare: "
            "numbers that fall with the rank (falling, the default), null, or an error.",
            type=click.Choice(["falling", "null", "error"]),
        ),
        *pipeline_flags("Answers"),
        *option_flags(),
        quiet_flag(),
    ],
    help="""Serve rankers over HTTP, in the dialects of reranking clients.

    /v2/rerank and /v1/rerank for clients of Cohere, Jina, vLLM, Voyage, Pinecone and others, TEI's
    /rerank, NVIDIA's /v1/ranking, and /v1/rank with everything that a ranking holds. With --index
    also /v1/answer: questions, answered from the index with checked citations.

    \b
      mcranker serve --model openai:gpt-5-mini
      mcranker serve --config serve.toml --port 9000
      mcranker serve --index papers.index --preset rebel
      mcranker serve --new-key

    Ctrl-C and SIGTERM end it once the rankings under way are done; exit code 0. A second Ctrl-C
    cancels them, and their clients get a 503.

    --config also takes a file with tables for rankers, limits and keys, see docs/serve.md. Without
    such tables there is one ranker, which serves every model name.
    """,
)
