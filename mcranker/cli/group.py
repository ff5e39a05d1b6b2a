"""The commands `mcranker` and `personas`: find the verb, and end every run in a proper way.

Packages add verbs under the entry point groups ``mcranker.commands`` and ``personas.commands``: an
entry point is named like the verb and names a `LazyVerb`, or a `click.Command`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import click

from mcranker import __version__
from mcranker.cli.invocation import Interrupted, Invocation, debug_option, say, speak_as
from mcranker.cli.output import BROKEN_PIPE, DONE, USAGE, envelope, failure
from mcranker.logs import WeakJudgeWarning
from personas.sanitize import shown

EXIT_CODES = (
    "Exit codes: 0 done, 1 error, 2 bad usage, 3 done with scores missing, 130 interrupted, "
    "143 stopped by SIGTERM (129: SIGHUP), 141 output closed by its reader, such as head."
)


class LazyVerb(NamedTuple):
    """A verb that is imported when it is used, so that help is quick."""

    #: has the `click.Command` as its ``command``, or under the name behind a colon
    module: str
    #: the line about it in the help
    help: str

    def load(self) -> click.Command:
        module, _, name = self.module.partition(":")
        command = getattr(import_module(module), name or "command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module!r} is no click command")
        return command


VERBS = {
    "demo": LazyVerb("mcranker.cli.demo", "Show a team at work, from a recording."),
    "rank": LazyVerb("mcranker.cli.rank", "Rank passages for a query."),
    "rank-run": LazyVerb("mcranker.cli.rank:rank_run", "Rank a run's passages for many queries."),
    "ask": LazyVerb("mcranker.cli.documents:ask", "Answer a question from an index, with sources."),
    "recruit": LazyVerb("mcranker.cli.teams:recruit", "Recruit a team that writes its criteria."),
    "index": LazyVerb("mcranker.cli.documents:index", "Make an index of documents, or add to one."),
    "serve": LazyVerb("mcranker.cli.serve", "Serve rankers over HTTP, as others do, or by MCP."),
    "models": LazyVerb("mcranker.cli.models", "List, download and check models."),
    "ledger": LazyVerb("mcranker.cli.ledger", "Inspect, copy, prune and verify the answer cache."),
}

PERSONAS = {
    "list": LazyVerb("mcranker.cli.teams:members", "List the personas and teams of the library."),
    "show": LazyVerb("mcranker.cli.teams:show", "Show personas, rubrics and teams, or check them."),
}


class Verbs(click.Group):
    """A group that knows its verbs' names and imports them when they are used."""

    def __init__(
        self, program: str, verbs: dict[str, LazyVerb], *, added: str = "", **rest: Any
    ) -> None:
        super().__init__(
            name=program,
            params=[debug_option()],
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            **rest,
        )
        click.version_option(__version__, prog_name=program, message="%(prog)s %(version)s")(self)
        self.program = program
        self._verbs = verbs
        self._group = added

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._verbs, *self._added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in (names := self.list_commands(ctx)):
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=names, ctx=ctx)
        ctx.ensure_object(Invocation).reached = f"in '{self.program} {cmd_name}'".__str__
        verb = self._verbs.get(cmd_name) or _lazy(self._added()[cmd_name])
        try:
            return verb.load()
        except (ImportError, AttributeError, TypeError) as error:
            raise click.ClickException(
                f"the verb {cmd_name!r} cannot be loaded from {verb.module!r}: {error}; "
                "install what it needs, or remove the package that adds it"
            ) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        added = {name: _lazy(entry) for name, entry in self._added().items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in (self._verbs | added).items()])

    def _added(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in sorted(entry_points(group=self._group))}

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:  # help is printed here
            raise _PipeClosed from error

    def invoke(self, ctx: click.Context) -> Any:
        invocation = ctx.ensure_object(Invocation)
        try:
            with invocation.logging(), warnings.catch_warnings():
                # Verbs that rank say it in the command's own way.
                warnings.simplefilter("ignore", WeakJudgeWarning)
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise invocation.interruption from error
        except BrokenPipeError as error:
            raise _PipeClosed from error

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        _mend_streams()
        given = list(sys.argv[1:] if args is None else args)
        speak_as(self.program)
        # Even if the command line cannot be parsed.
        asked = ("--output", "json") in pairwise(given) or "--output=json" in given
        invocation = Invocation(as_json=asked)
        extra |= {"standalone_mode": False, "obj": invocation}
        with invocation.interrupts:
            code = self._code(given, invocation, *rest, **extra)
            _leave_unwritten()
        sys.exit(code)

    def run(self) -> NoReturn:
        """Run `main` as the whole process."""
        try:
            self.main(prog_name=self.program)
        finally:
            # The interpreter takes its time to end; Ctrl-C need not say where that was stopped.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # Python ends by a signal, whatever the exit code, once an interrupt has come out of a
            # text that was evaluated, as many are while modules are imported. This forgets it.
            eval("None")  # noqa: S307

    def _code(self, given: list[str], invocation: Invocation, *rest: Any, **extra: Any) -> int:
        try:
            code = super().main(given, *rest, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            with contextlib.suppress(OSError):
                click.echo(error.format_message(), err=True)
            code = USAGE
        except (_PipeClosed, BrokenPipeError):
            code = BROKEN_PIPE
        except (KeyboardInterrupt, click.Abort):  # outside of a verb
            code = _report(invocation.interruption, invocation)
        except Exception as error:  # noqa: BLE001 - the supervisor reports whatever it was
            code = _report(error, invocation)
        return code if isinstance(code, int) else DONE


cli = Verbs(
    "mcranker",
    VERBS,
    added="mcranker.commands",
    help="Rank passages with a team of LLM personas, and see why each ranks where it does.\n\n"
    "API keys are taken from the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY. Without "
    "--model, MCRANKER_MODEL decides, else a key that is set, else a small model runs here.",
    epilog=EXIT_CODES,
)

personas = Verbs(
    "personas",
    PERSONAS,
    added="personas.commands",
    help="See and check personas, rubrics and teams: the library's, and those in files.",
    epilog=EXIT_CODES,
)

main, main_of_personas = cli.run, personas.run


class _PipeClosed(Exception):
    """The output has no reader any more; click would turn the plain error into exit code 1."""


def _lazy(entry: EntryPoint) -> LazyVerb:
    """Return an added verb, or one whose help says why it cannot be used."""
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        return LazyVerb(entry.value, f"Cannot be loaded from {entry.value!r}: {error}.")
    if isinstance(found, LazyVerb):
        return found
    text = found.get_short_help_str(200) if isinstance(found, click.Command) else "No command."
    return LazyVerb(entry.value, text)


def _report(error: Exception, invocation: Invocation) -> int:
    found = failure(error)
    if invocation.debug and not isinstance(error, Interrupted):
        import traceback

        with contextlib.suppress(OSError):
            click.echo(shown("".join(traceback.format_exception(error))), nl=False, err=True)
    say(found.message if isinstance(error, Interrupted) else f"error: {found.message}")
    if invocation.as_json:
        with contextlib.suppress(OSError):
            click.echo(envelope(found.exit_code, [found.entry]).encode(), nl=False)
            sys.stdout.flush()
    return found.exit_code


def _mend_streams() -> None:
    """Open the standard streams that are closed (``>&-``), before a file gets their number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # What is printed to a closed standard output is an error; a message may be lost.
            number = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            mode = "w" if name == "stdout" else "r+"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _leave_unwritten() -> None:
    """Discard unwritten output, or the interpreter complains of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
