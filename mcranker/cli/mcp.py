"""``mcranker mcp``: rankers as tools of language models' clients."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mcranker.cli.failures import DONE
from mcranker.cli.fetching import fetch_models
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import option_flags
from mcranker.cli.rag import pipeline_flags
from mcranker.cli.serve import address_flags, given_settings, named_models
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, quiet_flag
from mcranker.errors import ConfigError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from mcranker.serve.settings import Settings

TRANSPORT = "Transport"


def _mcp(ctx: click.Context) -> int:
    given = ctx.params
    settings = given_settings(ctx, "mcp", "the MCP server")
    invocation = ctx.ensure_object(Invocation)
    if given["http"] and not settings.loopback:
        raise ConfigError(
            f"host={settings.host!r} can be reached from other machines, and the MCP server asks "
            "for no key; use host='127.0.0.1', with a proxy before it that does"
        )
    fetch_models(named_models(settings), quiet=given["quiet"])

    # The SDK would write all logs to standard error, besides the command itself.
    logging.getLogger().addHandler(logging.NullHandler())

    async def main() -> None:
        from mcranker.serve.mcp import mcp_server

        with invocation.noting(not given["quiet"]):
            async with mcp_server(settings) as server:
                invocation.doing("serving")
                if given["http"]:
                    await _serve_http(server, settings, quiet=given["quiet"])
                else:
                    await server.run_stdio_async()

    run_loop(main)
    return DONE


async def _serve_http(server: MCPServer, settings: Settings, *, quiet: bool) -> None:
    from mcranker.serve.server import address_of, listen, serve

    app = server.streamable_http_app()
    # The session manager cancels what is under way.
    app.state.drain = app.state.give_up = int
    # Clients keep streams open for as long as there is a server.
    briefly = replace(settings, limits=settings.limits.model_copy(update={"stop": 0}))
    with listen(settings) as bound:

        def started() -> None:
            if not quiet:
                say(f"serving MCP at {address_of(bound)}/mcp")

        await serve(app, briefly, bound, started=started)


command = Verb(
    "mcp",
    _mcp,
    params=[
        flag(
            "--http",
            "Serve streamable HTTP, to this machine alone. Without: standard input and output, for "
            "clients that start the server.",
            is_flag=True,
            section=TRANSPORT,
        ),
        *address_flags(
            TRANSPORT, "With --http: 127.0.0.1, localhost or ::1.", port="With --http. "
        ),
        *pipeline_flags("Answers"),
        *option_flags(),
        quiet_flag(),
    ],
    help="""Serve rankers to language models' clients, by the Model Context Protocol.

    Tools: rank, estimate, explain, compare, recruit_team, and with --index answer. A client that
    starts the server by itself, such as an editor or a chat program, is given the first of these
    commands.

    \b
      mcranker mcp --model openai:gpt-5-mini
      mcranker mcp --http --port 9000

    --config also takes the file of 'mcranker serve' with tables for rankers and limits. Without
    such tables there is one ranker, whose team clients may choose.
    """,
)
