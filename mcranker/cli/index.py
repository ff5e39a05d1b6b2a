"""``mcranker index``: make an index of documents, or add to one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from mcranker.cli.invocation import Invocation, run_loop, say, skip_note
from mcranker.cli.options import option_flags
from mcranker.cli.output import present
from mcranker.cli.progress import Tracker, fetch_models, showing
from mcranker.cli.verb import Verb, flag, output_flag
from mcranker.config import RankerConfig
from mcranker.errors import InputError
from mcranker.llm.connect import DEFAULT_LOCAL
from mcranker.retrieval.chunks import ChunkKind
from mcranker.retrieval.embedders import connect_embedder
from mcranker.retrieval.index import Index
from mcranker.retrieval.index_file import Added
from mcranker.retrieval.readers import Skipped
from personas.format import counted, file_size

if TYPE_CHECKING:
    from mcranker.retrieval.embedders import Embedder

_SHOWN, _LISTED = 20, 10_000  # documents that are left out: on standard error, in JSON


def _index(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    invocation.doing("getting ready; nothing was written")
    out, source = Path(params["out"]).expanduser(), Path(params["source"]).expanduser()
    if not source.exists():  # before there is an index
        raise InputError(f"there is no file or folder {params['source']!r}; give an existing one")
    made: dict[str, Any] = {"embedder": DEFAULT_LOCAL, "chunks": "sentences"}
    if out.is_file():
        with Index.open(out) as there:
            made = there.describe()
    name = params["embedder"] or made["embedder"]
    fetch_models([name], quiet=params["quiet"])
    config = RankerConfig(max_cost=params["max_cost"])
    embedder = connect_embedder(name, base_url=params["base_url"], config=config)
    left_out: list[Skipped] = []
    with Index.create(out, embedder=embedder, chunks=params["chunks"] or made["chunks"]) as index:
        done = run_loop(partial(_added, ctx, index, embedder, left_out))
        about = index.describe()
    if not about["documents"]:
        raise InputError(f"{params['source']!r} holds no document with a text")
    parts = [f"{getattr(done, what):,} {what}" for what in ("added", "replaced", "unchanged")]
    parts += [f"{done.skipped:,} left out"] if done.skipped else []
    sizes = counted(about["documents"], "document"), counted(about["passages"], "passage")
    size = file_size(about["bytes"])
    return present(
        ctx,
        f"documents: {', '.join(parts)}\n{out}: {', '.join(sizes)}, {size}",
        index={**done._asdict(), "new_passages": done.chunks, **about},
        skipped=[each._asdict() for each in left_out],
    )


async def _added(
    ctx: click.Context, index: Index, embedder: Embedder, left_out: list[Skipped]
) -> Added:
    quiet, tracker = ctx.params["quiet"], Tracker("indexing")
    done, note = Added(), skip_note(quiet=quiet)

    def skip(each: Skipped) -> None:
        if len(left_out) < _LISTED:
            left_out.append(each)
        if len(left_out) <= _SHOWN:
            note(each)

    def count(now: Added) -> None:
        nonlocal done
        done = now
        documents = counted(done.added + done.replaced + done.unchanged, "document")
        tracker.stage = f"indexing: {documents}, {counted(done.chunks, 'new passage')}"
        display.update()

    try:
        with showing(ctx, tracker) as display:
            ctx.ensure_object(Invocation).reached = lambda: (
                f"while {tracker.stage}; what was done is kept, and the same command goes on"
            )
            source = ctx.params["source"]
            await index.add(source, on_skip=skip, progress=count, usage=tracker.usage)
    finally:
        await embedder.aclose()
    if done.skipped > _SHOWN and not quiet:
        say(f"and {done.skipped - _SHOWN:,} more are left out; --output json lists them")
    return done


command = Verb(
    "index",
    _index,
    params=[
        click.Argument(["source"], metavar="DIR|FILE"),
        flag(
            "--out",
            "File of the index; one that is there is added to.",
            required=True,
            metavar="INDEX",
        ),
        flag(
            "--chunks",
            "Passages: sentences up to 512 tokens, windows of 2,000 tokens, 150 words, or whole "
            "documents. Without: as the index has them, else sentences.",
            type=click.Choice(get_args(ChunkKind)),
        ),
        flag(
            "--embedder",
            "Makes the vectors: local:NAME, openai:NAME, or embed:NAME with --base-url. Without: "
            f"that of the index, else {DEFAULT_LOCAL}.",
            metavar="NAME",
        ),
        *option_flags("base_url", "max_cost"),
        output_flag("index, skipped"),
    ],
    help="""Make an index of documents, for search and for 'mcranker ask'.

    Reads text, Markdown, HTML, PDF, Office, EPUB, JSON, JSONL, CSV and BEIR folders. What cannot
    be read is reported and left out. The same command again adds new documents, replaces changed
    ones, and goes on where an interrupted one stopped.

    \b
      mcranker index papers/ --out papers.index
      mcranker index corpus.jsonl --out corpus.index --chunks whole
      mcranker index papers/ --out papers.index --embedder openai:text-embedding-3-small
    """,
)
