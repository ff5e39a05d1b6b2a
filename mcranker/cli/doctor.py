"""``mcranker doctor``: what is set up, which model would be used and why, and does it answer."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mcranker import __version__
from mcranker.cli.extras import EXTRAS, absent
from mcranker.cli.failures import DONE, ERROR, failure, print_json
from mcranker.cli.fetching import fetch_models, is_here
from mcranker.cli.invocation import Invocation
from mcranker.cli.options import model_flags
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, output_flag, quiet_flag
from mcranker.errors import LedgerError, MCRankerError, ReplyError
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Message, Question, State, Tag
from mcranker.llm.connect import DEFAULT_LOCAL, better_judges, choose_default, connect
from mcranker.llm.ledger.ledger import default_ledger_path
from mcranker.llm.ledger.upkeep import file_bytes, stats
from mcranker.llm.local.catalogue import find
from mcranker.llm.local.model_files import cache_folder
from mcranker.llm.local.vectors import default_vectors_path, vectors_in
from mcranker.llm.provider import PROVIDERS
from personas.format import counted, file_size, seconds
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["ok", "missing", "failed"]

_SETTINGS = (
    "MCRANKER_MODEL",
    "MCRANKER_BASE_URL",
    "MCRANKER_CACHE",
    "MCRANKER_LEDGER",
    "MCRANKER_BACKOFF",
    "MCRANKER_VECTORS",
    "HF_HUB_OFFLINE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
_COLOURS: Mapping[Status, str] = {"ok": "green", "missing": "yellow", "failed": "bold red"}
_TYPED_PROBE = ChatRequest(
    messages=(),
    tag=Tag("probe"),
    questions=(Question("relevant", "Is the passage relevant?", kind="yes_no", passage="passage"),),
    state=State("Where is Lima?", {"passage": "Lima is the capital of Peru."}),
)
_PROBE = ChatRequest(
    messages=(Message("user", "Reply with the word OK and nothing else."),),
    tag=Tag("probe"),
    max_tokens=64,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        status: ``missing`` for what is not set up, which may be as it should.
        what: the thing.
        detail: what was found, and what to do.
    """

    status: Status
    what: str
    detail: str


def _doctor(ctx: click.Context) -> int:
    ctx.ensure_object(Invocation).doing("looking around")
    given = ctx.params
    as_json = given["output"] == "json"
    findings: list[Finding] = []
    for finding in _findings(ctx):
        findings.append(finding)
        if not as_json:
            _print(finding)
    # The last finding is the one that all others lead to.
    code = DONE if findings[-1].status == "ok" else ERROR
    if as_json:
        last = findings[-1]
        errors = (
            []
            if code == DONE
            else [{"code": last.what, "message": last.detail, "retryable": False}]
        )
        print_json(code, errors, findings=[asdict(each) for each in findings])
    return code


def _findings(ctx: click.Context) -> Iterator[Finding]:
    yield Finding("ok", "mcranker", f"{__version__} on Python {platform.python_version()}")
    yield from _environment(os.environ)
    yield from _extras()
    yield _cache()
    yield _vectors()
    yield _ledger()
    yield from _model(ctx)


def _environment(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Names of variables only; no value is ever shown."""
    keys, urls = dict[str, str](), dict[str, None]()
    for prefix, provider in PROVIDERS.load_all().items():
        if isinstance(provider, Exception):
            yield Finding("failed", f"provider {prefix}", str(provider))
            continue
        keys.setdefault(provider.key_variable, prefix)
        urls[provider.url_variable] = None
    for name, prefix in keys.items():
        if environ.get(name, "").strip():
            yield Finding("ok", name, "is set")
        elif name:
            yield Finding("missing", name, f"set it to use {prefix}:NAME")
    for name in (*_SETTINGS, *filter(None, urls)):
        if environ.get(name, "").strip() or environ.get(name.lower(), "").strip():
            yield Finding("ok", name, "is set")


def _extras() -> Iterator[Finding]:
    for extra, (purpose, _) in EXTRAS.items():
        if missing := absent(extra):
            advice = f"for {purpose}: pip install 'mcranker[{extra}]'"
            yield Finding("missing", f"extra {extra}", f"{advice} (no {', '.join(missing)})")
        else:
            yield Finding("ok", f"extra {extra}", f"{purpose}: installed")


def _cache() -> Finding:
    folder = cache_folder()
    if not folder.is_dir():
        return Finding("missing", "model cache", f"{folder} is made at the first download")
    files = [path for path in folder.rglob("*") if path.is_file()]
    models = [path for path in files if path.suffix.lower() in (".gguf", ".onnx")]
    size = file_size(sum(path.stat().st_size for path in files))
    if not os.access(folder, os.W_OK):
        advice = "you may not write there; set MCRANKER_CACHE to another folder"
        return Finding("failed", "model cache", f"{folder}: {advice}")
    return Finding("ok", "model cache", f"{folder}: {counted(len(models), 'model')}, {size}")


def _vectors() -> Finding:
    path = default_vectors_path()
    if path is None:
        return Finding("missing", "vectors", "MCRANKER_VECTORS turns it off: no vector is kept")
    if not path.exists():
        return Finding("missing", "vectors", f"{path} is made with the first text encoded")
    try:
        count = vectors_in(path)
    except (sqlite3.Error, OSError) as error:
        return Finding("failed", "vectors", f"{path} cannot be read ({error}); delete it")
    return Finding(
        "ok", "vectors", f"{path}: {counted(count, 'vector')}, {file_size(file_bytes(path))}"
    )


def _ledger() -> Finding:
    path = default_ledger_path()
    if path is None:
        return Finding("missing", "ledger", "MCRANKER_LEDGER turns it off: no answer is kept")
    if not path.exists():
        return Finding("missing", "ledger", f"{path} is made with the first answer")
    try:
        answers = sum(share.answers for share in stats(path))
    except LedgerError as error:
        return Finding("failed", "ledger", failure(error).message)
    return Finding(
        "ok", "ledger", f"{path}: {counted(answers, 'answer')}, {file_size(file_bytes(path))}"
    )


def _model(ctx: click.Context) -> Iterator[Finding]:
    model, base_url, call = ctx.params["model"], ctx.params["base_url"], ctx.params["call"]
    name, why = (model, "named by --model") if model else choose_default(os.environ)
    yield Finding("ok", "model", f"{name}: {why}")
    no_file = _absent_file(name)
    if no_file and not call:
        yield Finding("missing", "connection", no_file)
        return
    try:
        if no_file:
            fetch_models([name], quiet=ctx.params["quiet"])
        chat = connect(model, base_url=base_url)
    except MCRankerError as error:
        yield Finding("failed", "connection", failure(error).message)
        return
    offers = chat.capabilities
    listed = [
        words
        for words, there in {
            "JSON schemas": offers.json_schema,
            "log-probabilities": offers.label_logprobs,
            "typed questions": offers.max_questions > 0,
        }.items()
        if there
    ]
    if not offers.prompts:
        limits = "; no chat model, so it takes the library's team"
    else:
        limits = "; weak, so it takes the library's team" if offers.weak else ""
    yield Finding("ok", "connection", f"offers {' and '.join(listed) or 'plain text'}{limits}")
    if name == DEFAULT_LOCAL:
        yield Finding("missing", "better judges", better_judges())
    if call:
        yield run_loop(partial(_answer, chat))


def _absent_file(name: str) -> str:
    """Return advice about a local model whose file is absent; empty if it is here."""
    kind, _, rest = name.partition(":")
    entry = find(rest) if kind == "local" else None
    if entry is None or Path(rest).is_file() or is_here(entry):
        return ""
    return (
        f"{entry.file} ({file_size(entry.size)}) is not here yet: "
        f"mcranker models download {entry.name}"
    )


async def _answer(chat: ChatModel) -> Finding:
    probe = _PROBE if chat.capabilities.prompts else _TYPED_PROBE
    started = time.perf_counter()
    try:
        reply: ChatReply | ReplyError = await chat.complete(probe)
    except ReplyError as error:  # an odd answer is an answer
        reply = error
    except MCRankerError as error:
        return Finding("failed", "answer", failure(error).message)
    finally:
        await chat.aclose()
    took = seconds(time.perf_counter() - started)
    if isinstance(reply, ReplyError):
        return Finding("ok", "answer", f"in {took}, though an odd one: {plain(str(reply), 200)}")
    said = repr(plain(reply.text, 60))
    if reply.answers is not None:
        (answer,) = reply.answers
        if answer.value is None:
            return Finding("failed", "answer", f"in {took}, but none to use: {answer.problem}")
        said = f"yes with probability {answer.value:.2f}"
    tokens = f"{reply.usage.input_tokens} + {reply.usage.output_tokens} tokens"
    return Finding("ok", "answer", f"{said} in {took}, {tokens}")


def _print(finding: Finding) -> None:
    from rich.text import Text

    from personas.console import print_page

    def show(console: Console) -> None:
        line = Text(f"{finding.status:8}", style=_COLOURS[finding.status])
        line.append(f"{finding.what:20}", style="bold")
        line.append(plain(finding.detail), style="default")
        console.print(line, soft_wrap=True)

    print_page(show)


command = Verb(
    "doctor",
    _doctor,
    params=[
        *model_flags(()),
        click.Option(
            ["--call/--no-call"],
            default=True,
            show_default=True,
            help="Send the model one tiny request; fetch it first if it is a local one.",
        ),
        output_flag("findings"),
        quiet_flag(),
    ],
    help="""Check the set-up: what is configured, which model would be used and why, and
    whether it answers.

    Exit code 0 if the model answers, or with --no-call if it could be asked; else 1. Of
    environment variables only names are shown, never values.
    """,
)
