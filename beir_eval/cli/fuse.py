"""``beir-eval fuse``: one TREC run made of several."""

from __future__ import annotations

import os
import sys

import click

from beir_eval.cli.flags import count_flag
from beir_eval.measures.fusion import METHODS, NORMS, fuse, needs_ranx
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, Writes, print_line
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.trec import check_name, read_trec, write_trec
from personas.format import counted


def _fuse(ctx: click.Context) -> int:
    given = ctx.params
    if len(given["runs"]) < 2:
        raise click.UsageError("fusion takes two or more runs", ctx)
    weights, listed = None, given["weights"]
    if listed is not None:
        weights = [_number(ctx, "--weights", listed, part) for part in listed.split(",")]
    params = {}
    for text in given["param"]:
        name, _, number = text.partition("=")
        params[name.strip()] = _number(ctx, "--param", text, number)
    tag = given["tag"] or given["method"]
    check_name(tag, "the tag")
    runs = [read_trec(path) for path in given["runs"]]
    if not given["quiet"] and needs_ranx(given["method"], given["norm"]):
        say("ranx starts, which takes some 10 seconds")
    # To compile what is used once takes far longer than to run it. numba reads this when it is
    # imported, and breaks if it changes after that.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    options = {name: given[name] for name in ("method", "norm", "depth")}
    fused = fuse(runs, weights=weights, params=params, **options)
    write_trec(fused, given["out"], tag)
    partial = [query_id for query_id in fused if any(query_id not in run for run in runs)]
    documents = sum(map(len, fused.values()))
    if given["output"] == "json":
        counts = {"queries": len(fused), "documents": documents, "partial_queries": partial}
        return print_json(fusion={"out": given["out"], **counts})
    queries = counted(len(fused), "query", "queries")
    print_line(f"{given['out']}: {queries}, {counted(documents, 'document')}")
    if partial:
        say(f"{counted(len(partial), 'query', 'queries')} not in every run, e.g. {partial[0]!r}")
    return DONE


def _number(ctx: click.Context, option: str, given: str, number: str) -> float:
    try:
        return float(number)
    except ValueError as failure:
        example = "0.3,0.7" if option == "--weights" else "k=60"
        raise click.UsageError(
            f"{option} {given!r}: {number!r} is no number; write e.g. {example}", ctx
        ) from failure


def _list_of_methods() -> str:
    lines = []
    for name, method in METHODS.items():
        needs = ["--weights"] if method.weighted else []
        needs += [
            f"--param {key}" + ("" if param.default is None else f" (default {param.default:g})")
            for key, param in method.params.items()
        ]
        lines.append(f"{name:13}{method.about}" + (f"; {', '.join(needs)}" if needs else ""))
    return "\n".join(f"    {line}" for line in lines)


command = Verb(
    "fuse",
    _fuse,
    params=[
        click.Argument(["runs"], type=Reads(), nargs=-1, required=True, metavar="RUN RUN..."),
        flag("--out", "Write the fused run here.", type=Writes(), required=True),
        flag(
            "--method",
            "How scores or ranks become one score; see above.",
            type=click.Choice(list(METHODS)),
            default="rrf",
            metavar="NAME",
        ),
        flag(
            "--norm",
            "How the scores of a query are made comparable; without effect for methods that go by "
            "rank.",
            type=click.Choice(NORMS),
            default="min-max",
        ),
        flag(
            "--weights",
            "A weight for each run, in their order, for the methods that take them.",
            metavar="X,X,...",
        ),
        flag(
            "--param",
            "A number that the method takes, e.g. k=60. May be given several times.",
            multiple=True,
            metavar="NAME=X",
        ),
        count_flag("depth", None, "Documents to keep for each query. Without: all."),
        flag("--tag", "Last column of the file. Without: the method.", metavar="NAME"),
        quiet_flag(),
        output_flag("fusion"),
    ],
    help=f"""Make one TREC run of several, e.g. of a ranker's and BM25's.

    rrf needs no more than this program, nor does wsum with --norm min-max or none; the others
    are by ranx.

    A query that only some of the runs have is fused as if the others had found nothing.

    The methods, with what they give a document; "sum" and the like go over the runs:

    \b
{_list_of_methods()}
    """,
)
