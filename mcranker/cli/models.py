"""``mcranker models``: providers, the catalogue of the local engine, downloads, and a check."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from mcranker.cli.flags import Verb, flag, output_flag, refuse
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import option_flags
from mcranker.cli.output import DONE, ERROR, failure, present
from mcranker.cli.progress import fetch_models, is_here
from mcranker.errors import MCRankerError, ReplyError
from mcranker.llm.chat import ChatModel, ChatRequest, Message, Question, State, Tag
from mcranker.llm.connect import DEFAULT_LOCAL, better_judges, choose_default, connect
from mcranker.llm.ledger.ledger import default_ledger_path, store_of
from mcranker.llm.provider import PROVIDERS
from personas.format import counted, file_size
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

_PROBE = ChatRequest(
    messages=(Message("user", "Reply with the word OK and nothing else."),),
    tag=Tag("probe"),
    max_tokens=64,
)
_TYPED_PROBE = ChatRequest(
    messages=(),
    tag=Tag("probe"),
    questions=(Question("relevant", "Is the passage relevant?", kind="yes_no", passage="passage"),),
    state=State("Where is Lima?", {"passage": "Lima is the capital of Peru."}),
)


def _models(ctx: click.Context) -> int:
    given, check = ctx.params, ctx.params["check"]
    refuse(
        ctx,
        (check and given["download"], "--check and --download do not go together"),
        (given["model"] is not None and not check, "--model goes with --check"),
        (given["base_url"] is not None and not check, "--base-url goes with --check"),
    )
    if given["download"]:
        return _download(ctx)
    return (_check if check else _list)(ctx)


def _download(ctx: click.Context) -> int:
    from mcranker.llm.local.catalogue import find, not_found
    from mcranker.llm.local.model_files import download

    name = ctx.params["download"]
    entry = find(name.removeprefix("local:"))
    if entry is None:
        raise not_found(name)
    ctx.ensure_object(Invocation).doing(f"fetching {entry.name}; nothing of it was kept")
    if not ctx.params["quiet"]:
        say(f"fetching {entry.name} ({file_size(entry.size)})")
    path = str(download(entry))
    return present(ctx, path, path=path)


def _check(ctx: click.Context) -> int:
    ctx.ensure_object(Invocation).doing("asking the model")
    found = list(_findings(ctx))

    def show(console: Console) -> None:
        for what, well, said in found:
            console.print(f"{'ok' if well else 'failed':8}{what:8}{plain(said)}", markup=False)

    failed = [said for _, well, said in found if not well]
    errors = [{"code": "check", "message": said, "retryable": False} for said in failed]
    checks = [dict(zip(("check", "ok", "said"), each, strict=True)) for each in found]
    return present(ctx, show, ERROR if failed else DONE, errors, checks=checks)


def _findings(ctx: click.Context) -> Iterator[tuple[str, bool, str]]:
    """Yield what was checked, whether it is well, and why. No value of a variable is shown."""
    model, base_url = ctx.params["model"], ctx.params["base_url"]
    name, why = (model, "named by --model") if model else choose_default(os.environ)
    note = f". {better_judges()}" if name == DEFAULT_LOCAL else ""
    yield "model", True, f"{name}: {why}{note}"
    provider = PROVIDERS.load_all().get(name.partition(":")[0])
    if key := getattr(provider, "key_variable", ""):  # none of one that cannot be loaded
        there = bool(os.environ.get(key, "").strip())
        yield "key", there or base_url is not None, f"{key} is {'' if there else 'not '}set"
    try:
        yield "ledger", True, run_loop(_ledger)
    except MCRankerError as error:
        yield "ledger", False, failure(error).message
    try:
        fetch_models([name], quiet=ctx.params["quiet"])
        chat = connect(model, base_url=base_url)  # names a key or an extra that is missing
        yield "answer", True, run_loop(partial(_answer, chat))
    except MCRankerError as error:
        yield "answer", False, failure(error).message


async def _ledger() -> str:
    place = default_ledger_path()
    if place is None:
        return "MCRANKER_LEDGER turns it off"
    if not isinstance(place, str) and not place.exists():
        return f"{place} is made with the first answer"
    store = store_of(place)
    return f"{store.name}: {counted(sum(each.answers for each in await store.stats()), 'answer')}"


async def _answer(chat: ChatModel) -> str:
    try:
        reply = await chat.complete(_PROBE if chat.capabilities.prompts else _TYPED_PROBE)
    except ReplyError as error:  # an odd answer is an answer
        return f"an odd one: {error}"
    finally:
        await chat.aclose()
    if reply.answers is None:
        return repr(plain(reply.text, 60))
    (answer,) = reply.answers
    if answer.value is None:
        raise MCRankerError(f"none to use: {answer.problem}")
    return f"yes with probability {answer.value:.2f}"


def _list(ctx: click.Context) -> int:
    from mcranker.llm.local.catalogue import catalogue
    from personas.console import names, numbers, table

    shipped = [(each, is_here(each)) for each in catalogue()]
    records = [{**each.model_dump(mode="json"), "downloaded": here} for each, here in shipped]
    rows = [
        (
            *(each.name, file_size(each.size), each.licence),
            *("chat" if each.tokenizer is None else "encoder", "yes" * here, each.note),
        )
        for each, here in shipped
    ]
    providers = [
        {"prefix": prefix, "key_variable": "", "note": str(each)}
        if isinstance(each, Exception)
        else {"prefix": prefix, "key_variable": each.key_variable, "note": each.note}
        for prefix, each in PROVIDERS.load_all().items()
    ]

    def show(console: Console) -> None:
        named = [(f"{x['prefix']}:NAME", x["key_variable"], x["note"]) for x in providers]
        console.print(table([names("model"), names("key"), ""], named))
        headings = [names("name"), *numbers("size"), names("licence")]
        console.print(table([*headings, "kind", "here", ""], rows))

    return present(ctx, show, models=records, providers=providers)


command = Verb(
    "models",
    _models,
    params=[
        *option_flags("model", "base_url"),
        flag(
            "--check",
            "Instead, check key and ledger, and send one tiny request to the model that would be "
            "used; a local one is fetched first.",
            is_flag=True,
        ),
        flag(
            "--download",
            "Instead, fetch a model of the list into the cache folder, and check it.",
            metavar="NAME",
        ),
        output_flag("models, checks or path"),
    ],
    help="""List the providers of models and the models that local:NAME can name, or download one.

    Use one with --model PREFIX:NAME; any other GGUF file with --model local:PATH.gguf. An
    encoder cannot invent a team and takes the library's.

    \b
      mcranker models
      mcranker models --check --model openai:gpt-5-mini
      mcranker models --download smollm2-135m
    """,
)
