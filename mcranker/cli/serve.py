"""``mcranker serve``: rankers as a service, for clients of other rerankers or by MCP."""

from __future__ import annotations

import importlib.util
import logging
from functools import partial
from typing import TYPE_CHECKING

import click

from mcranker.cli.flags import Verb, WholeNumber, flag, refuse
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import (
    flag_options,
    given_options,
    given_pipeline,
    option_flags,
    pipeline_flags,
)
from mcranker.cli.output import DONE, print_line
from mcranker.cli.progress import fetch_models
from mcranker.errors import ConfigError
from mcranker.logs import safe_logger
from mcranker.rankers.keys import needed_models, read_toml
from personas.format import counted

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from mcranker.serve.settings import Settings

_SERVICE = ("starlette", "uvicorn", "prometheus_client")
PACKAGES = {"serve": _SERVICE, "mcp": ("mcp", *_SERVICE)}
"""Extra -> the packages that it takes."""


def _serve(ctx: click.Context) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    by_mcp = given["mcp"] is not None
    refuse(
        ctx,
        *(
            (
                by_mcp and given[name] is not None and given[name] is not False,
                f"--{name.replace('_', '-')} does not go with --mcp",
            )
            for name in ("allow_no_keys", "check", "new_key", "unscored", "fail_open")
        ),
    )
    if given["new_key"]:
        return _make_key()
    settings = _settings(ctx)
    if by_mcp:
        return _serve_mcp(ctx, settings)
    from mcranker.serve.app import create_app
    from mcranker.serve.server import address_of, check_exposure, listen, serve

    check_exposure(settings, allow_no_keys=given["allow_no_keys"])
    _fetch(settings, quiet=given["quiet"])
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


def _serve_mcp(ctx: click.Context, settings: Settings) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    by_http = given["mcp"] == "http"
    if by_http and not settings.loopback:
        raise ConfigError(
            f"host={settings.host!r} can be reached from other machines, and the MCP server asks "
            "for no key; use host='127.0.0.1', with a proxy before it that does"
        )
    _fetch(settings, quiet=given["quiet"])
    # The SDK would write all logs to standard error, besides the command itself.
    logging.getLogger().addHandler(logging.NullHandler())

    async def main() -> None:
        from mcranker.serve.mcp import mcp_server

        with invocation.noting(not given["quiet"]):
            async with mcp_server(settings) as server:
                invocation.doing("serving")
                if by_http:
                    await _serve_http(server, settings, quiet=given["quiet"])
                else:
                    await server.run_stdio_async()

    run_loop(main)
    return DONE


async def _serve_http(server: MCPServer, settings: Settings, *, quiet: bool) -> None:
    from mcranker.serve.server import address_of, listen, serve

    app = server.streamable_http_app()
    app.state.drain = app.state.give_up = int  # the session manager cancels what is under way
    # Clients keep streams open for as long as there is a server.
    limits = settings.limits.model_copy(update={"stop": 0})
    briefly = settings.model_copy(update={"limits": limits})
    with listen(settings) as bound:
        at = f"serving MCP at {address_of(bound)}/mcp"
        await serve(app, briefly, bound, started=lambda: None if quiet else say(at))


def _fetch(settings: Settings, *, quiet: bool) -> None:
    names = needed_models((each.ranker, each.options) for each in settings.rankers)
    fetch_models(names, quiet=quiet)


def _settings(ctx: click.Context) -> Settings:
    params = ctx.params
    _check_installed("serve" if params["mcp"] is None else "mcp")
    ctx.ensure_object(Invocation).doing("getting ready; nothing was sent")
    from mcranker.rag.config import stage_keys
    from mcranker.rankers import RANKERS
    from mcranker.serve import settings as made

    if params["config"] is not None and made.TABLES & read_toml(params["config"]).keys():
        own = ("option", "unscored", "fail_open", "index", "preset", "pipeline")
        if given := [*flag_options(ctx), *(name for name in own if params[name] not in (None, ()))]:
            raise click.UsageError(
                f"--{given[0].replace('_', '-')} does not go with the tables of --config; "
                "write it in the file",
                ctx,
            )
        settings = made.load_settings(params["config"])
    else:
        index, answer = params["index"], None
        lost = index is None and (params["preset"] or params["pipeline"])
        refuse(ctx, (lost, "a pipeline needs documents; give --index as well"))
        chosen = given_options(ctx, own=stage_keys() if index else None)
        if index is not None:
            pipeline, options = given_pipeline(ctx, chosen)
            answer = made.AnswerSettings(index=index, pipeline=pipeline, options=options)
        # All who reach this machine's loopback may try another team in the playground.
        free = ("team",) if RANKERS.get(chosen.ranker).takes_team else ()
        ranker = made.RankerSettings(
            name=chosen.ranker,
            ranker=chosen.ranker,
            options=dict(chosen.options),
            names=("*",),
            per_request=free,
            unscored=params["unscored"] or "falling",
            fail_open=params["fail_open"],
        )
        settings = made.Settings(rankers=(ranker,), answer=answer)
    changed = {name: params[name] for name in ("host", "port") if params[name] is not None}
    return settings.model_copy(update=changed)


def _check_installed(extra: str) -> None:
    if missing := [each for each in PACKAGES[extra] if importlib.util.find_spec(each) is None]:
        needed, server = ", ".join(missing), {"mcp": "the MCP server"}.get(extra, "the service")
        raise ConfigError(f"{server} needs {needed}; run: pip install 'mcranker[{extra}]'")


def _make_key() -> int:
    _check_installed("serve")
    from mcranker.serve.settings import hash_key, new_key

    key = new_key()
    print_line(key)
    say(f"for the file, under [keys]: NAME = {hash_key(key)!r}; the key is not shown again")
    return DONE


served = partial(flag, section="Service")

command = Verb(
    "serve",
    _serve,
    params=[
        served(
            "--host",
            "Listen there; addresses that other machines can reach need keys. Without: the file's, "
            "else 127.0.0.1.",
            metavar="ADDRESS",
        ),
        served(
            "--port",
            "Without: the file's, else 8080; 0 for one that is free.",
            type=WholeNumber(min=0, max=65_535),
            metavar="N",
        ),
        served(
            "--mcp",
            "Serve by the Model Context Protocol instead: on standard input and output, for "
            "clients that start the server, or over HTTP to this machine alone.",
            type=click.Choice(["stdio", "http"]),
        ),
        served(
            "--allow-no-keys",
            "Let other machines use the service without a key; something else guards it.",
            is_flag=True,
        ),
        served("--check", "Only check the configuration: make the rankers, and end.", is_flag=True),
        served("--new-key", "Print a new API key, and its hash for the file.", is_flag=True),
        served(
            "--unscored",
            "What clients get for documents that no judge scored, and from rankers that compare: "
            "numbers that fall with the rank (falling, the default), null, or an error.",
            type=click.Choice(["falling", "null", "error"]),
        ),
        served(
            "--fail-open",
            "When the model is down or late, keep the input order: the first document gets this "
            "score, 0 to 1, the others less. Without: an error, or 0.01 falling where it is late.",
            type=click.FloatRange(0, 1),
            metavar="LEVEL",
        ),
        *pipeline_flags("Answers"),
        *option_flags(),
    ],
    help="""Serve rankers over HTTP, in the dialects of reranking clients, or by MCP.

    /v2/rerank and /v1/rerank for clients of Cohere, Jina, vLLM, Voyage, Pinecone and others, TEI's
    /rerank, NVIDIA's /v1/ranking, and /v1/rank with everything that a ranking holds. With --index
    also /v1/answer: questions, answered from the index with checked citations.

    \b
      mcranker serve --model openai:gpt-5-mini
      mcranker serve --config serve.toml --port 9000
      mcranker serve --index papers.index --preset rebel
      mcranker serve --mcp stdio --model openai:gpt-5-mini
      mcranker serve --new-key

    Tools of MCP: rank, estimate, explain, and with --index answer. A client
    that starts the server by itself, such as an editor or a chat program, is given the command
    with --mcp stdio.

    Ctrl-C and SIGTERM end it once the rankings under way are done; exit code 0. A second Ctrl-C
    cancels them, and their clients get a 503.

    --config also takes a file with tables for rankers, limits and keys, see docs/serve.md. Without
    such tables there is one ranker, which serves every model name; clients may choose its team.
    """,
)
