"""``mcranker doctor``: what is set up, which model would be used and why, and does it answer."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from mcranker import __version__
from mcranker.cli.extras import EXTRAS, absent
from mcranker.cli.failures import DONE, ERROR, failure, print_json
from mcranker.cli.fetching import fetch_models, is_here
from mcranker.cli.invocation import Invocation
from mcranker.cli.options import option_flags
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.errors import LedgerError, MCRankerError, ReplyError
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Message, Question, State, Tag
from mcranker.llm.connect import DEFAULT_LOCAL, better_judges, choose_default, connect
from mcranker.llm.ledger.ledger import default_ledger_path, store_of
from mcranker.llm.ledger.sqlite_file import file_bytes
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.local.catalogue import find
from mcranker.llm.local.model_files import cache_folder
from mcranker.llm.provider import PROVIDERS
from mcranker.retrieval.vectors import default_vectors_path, vectors_in
from personas.format import counted, file_size, seconds
from personas.report.query.warnings import Kind, Notice
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

_SETTINGS = (
    "MCRANKER_MODEL",
    "MCRANKER_BASE_URL",
    "MCRANKER_CACHE",
    "MCRANKER_LEDGER",
    "MCRANKER_VECTORS",
    "HF_HUB_OFFLINE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
_LOOK: Mapping[Kind, tuple[str, str]] = {
    "good": ("ok", "green"),
    "note": ("missing", "yellow"),
    "bad": ("failed", "bold red"),
}
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


def _doctor(ctx: click.Context) -> int:
    ctx.ensure_object(Invocation).doing("looking around")
    as_json = ctx.params["output"] == "json"
    findings: list[Notice] = []
    for finding in _findings(ctx):
        findings.append(finding)
        if not as_json:
            _print(finding)
    # The last finding is the one that all others lead to.
    last = findings[-1]
    code = DONE if last.kind == "good" else ERROR
    if as_json:
        error = {"code": last.code, "message": last.sentence, "retryable": False}
        errors = [] if code == DONE else [error]
        print_json(code, errors, findings=[asdict(each) for each in findings])
    return code


def _findings(ctx: click.Context) -> Iterator[Notice]:
    yield Notice("good", f"{__version__} on Python {platform.python_version()}", "mcranker")
    # Names of variables only; no value is ever shown.
    keys, urls = dict[str, str](), dict[str, None]()
    for prefix, provider in PROVIDERS.load_all().items():
        if isinstance(provider, Exception):
            yield Notice("bad", str(provider), f"provider {prefix}")
            continue
        keys.setdefault(provider.key_variable, prefix)
        urls[provider.url_variable] = None
    for name, prefix in keys.items():
        if os.environ.get(name, "").strip():
            yield Notice("good", "is set", name)
        elif name:
            yield _missing(name, f"set it to use {prefix}:NAME")
    for name in (*_SETTINGS, *filter(None, urls)):
        if os.environ.get(name, "").strip() or os.environ.get(name.lower(), "").strip():
            yield Notice("good", "is set", name)
    for extra, (purpose, _) in EXTRAS.items():
        if lost := ", ".join(absent(extra)):
            advice = f"for {purpose}: pip install 'mcranker[{extra}]' (no {lost})"
            yield _missing(f"extra {extra}", advice)
        else:
            yield Notice("good", f"{purpose}: installed", f"extra {extra}")
    yield _cache()
    yield _kept("vectors", "vector", default_vectors_path(), vectors_in)
    ledger = default_ledger_path()
    if isinstance(ledger, str):
        yield _database(ledger)
    else:
        yield _kept("ledger", "answer", ledger, _answers_in)
    yield from _model(ctx)


def _missing(what: str, detail: str) -> Notice:
    return Notice("note", detail, what)


def _cache() -> Notice:
    folder = cache_folder()
    if not folder.is_dir():
        return _missing("model cache", f"{folder} is made at the first download")
    if not os.access(folder, os.W_OK):
        advice = "you may not write there; set MCRANKER_CACHE to another folder"
        return Notice("bad", f"{folder}: {advice}", "model cache")
    files = [path for path in folder.rglob("*") if path.is_file()]
    models = [path for path in files if path.suffix.lower() in (".gguf", ".onnx")]
    size = file_size(sum(path.stat().st_size for path in files))
    return Notice("good", f"{folder}: {counted(len(models), 'model')}, {size}", "model cache")


def _kept(what: str, unit: str, path: Path | None, count: Callable[[Path], int]) -> Notice:
    """Return what a store of kept results holds."""
    if path is None:
        return _missing(what, f"MCRANKER_{what.upper()} turns it off: no {unit} is kept")
    if not path.exists():
        return _missing(what, f"{path} is made with the first {unit}")
    try:
        held = counted(count(path), unit)
    except LedgerError as error:
        return Notice("bad", failure(error).message, what)
    except (sqlite3.Error, OSError, ValueError) as error:
        return Notice("bad", f"{path} cannot be read ({error}); delete it", what)
    size = sum(each.stat().st_size for each in path.rglob("*")) or file_bytes(path)
    return Notice("good", f"{path}: {held}, {file_size(size)}", what)


def _database(url: str) -> Notice:
    """Return what a database holds, or why it cannot be used."""
    try:
        store = store_of(url)
        held = sum(share.answers for share in anyio.run(store.stats))
    except MCRankerError as error:
        return Notice("bad", failure(error).message, "ledger")
    return Notice("good", f"{store.name}: {counted(held, 'answer')}", "ledger")


def _answers_in(path: Path) -> int:
    return sum(share.answers for share in anyio.run(SQLiteStore(path).stats))


def _model(ctx: click.Context) -> Iterator[Notice]:
    model, base_url, call = (ctx.params[name] for name in ("model", "base_url", "call"))
    name, why = (model, "named by --model") if model else choose_default(os.environ)
    yield Notice("good", f"{name}: {why}", "model")
    kind, _, rest = name.partition(":")
    entry = find(rest) if kind == "local" else None
    if entry is not None and not Path(rest).is_file() and not is_here(entry):
        if not call:
            size = file_size(entry.size)
            advice = f"is not here yet: mcranker models download {entry.name}"
            yield _missing("connection", f"{entry.file} ({size}) {advice}")
            return
    else:
        entry = None
    try:
        fetch_models([name] if entry else [], quiet=ctx.params["quiet"])
        chat = connect(model, base_url=base_url)
    except MCRankerError as error:
        yield Notice("bad", failure(error).message, "connection")
        return
    offers = chat.capabilities
    parts = {
        "JSON schemas": offers.json_schema,
        "log-probabilities": offers.label_logprobs,
        "typed questions": offers.max_questions > 0,
    }
    listed = " and ".join(words for words, there in parts.items() if there) or "plain text"
    limits = ""
    limits = limits if offers.prompts else "no chat model"
    limits = limits and f"; {limits}, so it takes the library's team"
    yield Notice("good", f"offers {listed}{limits}", "connection")
    if name == DEFAULT_LOCAL:
        yield _missing("better judges", better_judges())
    if call:
        yield run_loop(partial(_answer, chat))


async def _answer(chat: ChatModel) -> Notice:
    probe = _PROBE if chat.capabilities.prompts else _TYPED_PROBE
    started = time.perf_counter()
    try:
        reply: ChatReply | ReplyError = await chat.complete(probe)
    except ReplyError as error:  # an odd answer is an answer
        reply = error
    except MCRankerError as error:
        return Notice("bad", failure(error).message, "answer")
    finally:
        await chat.aclose()
    took = seconds(time.perf_counter() - started)
    if isinstance(reply, ReplyError):
        return Notice("good", f"in {took}, though an odd one: {plain(str(reply), 200)}", "answer")
    said = repr(plain(reply.text, 60))
    if reply.answers is not None:
        (answer,) = reply.answers
        if answer.value is None:
            return Notice("bad", f"in {took}, but none to use: {answer.problem}", "answer")
        said = f"yes with probability {answer.value:.2f}"
    tokens = f"{reply.usage.input_tokens} + {reply.usage.output_tokens} tokens"
    return Notice("good", f"{said} in {took}, {tokens}", "answer")


def _print(finding: Notice) -> None:
    from rich.text import Text

    from personas.console import print_page

    def show(console: Console) -> None:
        status, colour = _LOOK[finding.kind]
        line = Text(f"{status:8}", style=colour)
        line.append(f"{finding.code:20}", style="bold")
        line.append(plain(finding.sentence), style="default")
        console.print(line, soft_wrap=True)

    print_page(show)


command = Verb(
    "doctor",
    _doctor,
    params=[
        *option_flags("model", "base_url"),
        flag(
            "--call/--no-call",
            "Send the model one tiny request; fetch it first if it is a local one.",
            default=True,
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
