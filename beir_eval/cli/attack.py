"""``beir-eval attack``: how far rankers resist the texts that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from beir_eval.attacks.rankers import DEFENCES, AttackResult, Campaign
from beir_eval.attacks.texts import Attacks, load_attacks, targets_of
from beir_eval.cli.flags import count_flag, dataset_argument, names_flag, split_flag
from beir_eval.errors import SettingError
from beir_eval.experiment.cell import Plan
from beir_eval.experiment.run import Experiment
from beir_eval.experiment.suite import DatasetSpec, Suite
from beir_eval.experiment.suite_form import hint
from mcranker.cli.flags import Reads, Verb, Writes, dry_run_flag, flag, output_flag
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, MISSING_SCORES, Failure, output, present, saying_where
from mcranker.cli.progress import Tracker, check_local_models, fetch_models, showing
from mcranker.cli.results import show_estimates
from mcranker.estimate import Estimate
from mcranker.llm.limits.budget import Budget
from personas.console import numbers, table
from personas.format import counted, optional, signed
from personas.sanitize import json_text, plain

_NOTE = (
    "rise: ranks over the clean passage, mean over queries; net: over the passage with harmless "
    "words; top 10, 3: trials that came in from below, of those below; gain: of relevance, 0 to 1; "
    "relevant: came to 0.5 against people's grade 0; answers: of the model and the ledger."
)


def _attack(ctx: click.Context) -> int:
    given = ctx.params
    ctx.ensure_object(Invocation).doing("getting ready; nothing was sent")
    attacks = load_attacks(given["attacks_file"], given["attacks"])
    for name in given["defences"]:
        if name not in DEFENCES:
            raise SettingError(f"there is no defence {name!r}; {hint(name, DEFENCES)}")
    options = given_options(ctx, default="mcranker")
    shared = {**options.options}
    budget = Budget(**{key: shared.pop(key, None) for key in ("max_calls", "max_cost")})
    data = DatasetSpec(given["dataset"], given["split"])
    plan = Plan("", (data,), depth=given["passages"])
    prepared = Experiment(Suite("", "", "", (), ()), plan).prepared(data)
    targets = targets_of(prepared, given["queries"], given["seed"])
    campaign = Campaign(targets, attacks, shared, given["seed"], budget)
    behind = dict.fromkeys(["none", *given["defences"]])
    pairs = [(name, each) for name in options.rankers for each in behind]
    if given["dry_run"]:
        check_local_models(options.models)
        return _dry_run(ctx, campaign, pairs)
    fetch_models(options.models, quiet=given["quiet"])
    with saying_where(options.ledger):
        found = run_loop(partial(_all, ctx, campaign, pairs))
        if given["out"] is not None:
            rows = ({**each.names, **row} for each in found for row in each.rows)
            with output(given["out"]) as write:
                write("".join(f"{json_text(row)}\n" for row in rows))
    return _show(ctx, attacks, prepared.qrels, found)


async def _all(
    ctx: click.Context, campaign: Campaign, pairs: Sequence[tuple[str, str]]
) -> list[AttackResult]:
    tracker = Tracker("attacking", unit="lists")
    with showing(ctx, tracker) as display:

        def note(what: str, count: int) -> None:
            if what:
                tracker.stage, tracker.total, tracker.done = what, count, 0
            else:
                tracker.count()
            display.update()

        return [await campaign.run(*pair, note) for pair in pairs]


def _dry_run(ctx: click.Context, campaign: Campaign, pairs: Sequence[tuple[str, str]]) -> int:
    async def estimates() -> list[Estimate | None]:
        return [await campaign.estimate(*pair) for pair in pairs]

    found = zip(pairs, run_loop(estimates), strict=True)
    rows = [({"ranker": name, "defence": of}, each) for (name, of), each in found if each]
    note = "A defence that does not go with a ranker is left out."
    return show_estimates(ctx, ["ranker", "defence"], rows, note)


def _show(
    ctx: click.Context,
    attacks: Attacks,
    qrels: Mapping[str, Mapping[str, int]],
    found: list[AttackResult],
) -> int:
    without = {each.ranker: each for each in found if each.defence == "none"}
    left_out = [each for each in found if each.left_out]
    results: dict[str, Any] = {
        "figures": [row for each in found for row in each.figures()],
        "drift": [each.drift(without[each.ranker], qrels) for each in found],
        "left_out": [f"left out: {x.ranker}, {x.defence}: {x.left_out}" for x in left_out],
    }
    said = []
    if missing := sum(row["missing"] for row in results["figures"]):
        said.append(f"{counted(missing, 'trial')} with a missing reply; counted, and in no mean")
    if failed := [why for each in found for why in each.failed]:
        said.append(f"{counted(len(failed), 'list')} not ranked, the first: {failed[0]}")
    errors = [Failure("MissingScores", "; ".join(said))] if said else []

    def show(console: Console) -> None:
        _tables(console, attacks.classes, results)
        for line in [*results["left_out"], *(f"warning: {each.message}" for each in errors)]:
            say(line)

    code = MISSING_SCORES if errors else DONE
    return present(ctx, show, code, [each.entry for each in errors], **results)


def _tables(console: Console, classes: Mapping[int, str], results: Mapping[str, Any]) -> None:
    risen = ("trials", "rise", "95%", "net", "top 10", "top 3", "gain", "relevant", "missing")
    for key, rows in groupby(results["figures"], key=itemgetter("ranker", "model", "defence")):
        of_classes = (
            (
                *(f"{row['class']} {classes[row['class']]}", f"{row['trials']:,}"),
                *_mean(row["rise"], 1),
                _mean(row["net_rise"], 1)[0],
                *(_share(row[name]) for name in ("top10", "top3")),
                _mean(row["relevance"], 2)[0],
                *(_share(row["called_relevant"]), f"{row['missing']:,}"),
            )
            for row in rows
        )
        console.print(Text(plain(", ".join(key))))
        console.print(table(["class", *numbers(*risen)], of_classes))
    clean = ("nDCG@10", "change", "95%", "moved", "answers", "failed")
    of_defences = (
        (
            *(row["ranker"], row["defence"], optional(row["ndcg"]["mean"], 3)),
            *_mean(row["change"], 3),
            *(optional(row["moved"]["mean"], 1), f"{row['answers']:,}", f"{row['failed']:,}"),
        )
        for row in results["drift"]
        if not row["left_out"]
    )
    console.print(Text("Nothing attacked:"))
    console.print(table(["ranker", "defence", *numbers(*clean)], of_defences))
    console.print(Text(_NOTE))


def _mean(figure: dict[str, Any], places: int) -> tuple[str, str]:
    mean, low, high = (
        "" if figure[name] is None else signed(figure[name], places)
        for name in ("mean", "low", "high")
    )
    return mean, f"{low} to {high}" if low else ""


def _share(figure: dict[str, Any]) -> str:
    """The trials for which it holds, of those for which it can."""
    return f"{figure['sum']:.0f}/{figure['count']}" if figure["count"] else ""


command = Verb(
    "attack",
    _attack,
    params=[
        dataset_argument("NAME|FOLDER"),
        names_flag("--ranker", "Rankers; --options lists them.", "mcranker"),
        count_flag("queries", 20, "Queries, drawn by the seed."),
        flag("--seed", "Draws queries, passages and texts.", type=int, default=0),
        count_flag("depth passages", 20, "Passages a query that BM25 hands over."),
        split_flag(),
        names_flag("--attacks", "Ids, or numbers of classes; all without.", metavar="ID|N,..."),
        flag("--attacks-file", "Attacks of your own, in TOML.", type=Reads()),
        names_flag("--defences", f"Some of {', '.join(DEFENCES)}, each beside none.", "none"),
        *option_flags(without=("ranker", "depth")),
        output_flag("figures, drift, left_out"),
        flag("--out", "Write each trial there, a JSON line each.", type=Writes()),
        dry_run_flag(),
    ],
    help="""Measure how far rankers resist the texts they read.

    \b
      beir-eval attack scifact --ranker mcranker,direct --queries 20 --seed 7
      beir-eval attack ./my_folder --attacks 3,12,end_marker --defences erase_and_check,guard
      beir-eval attack mini --attacks 18 --ranker rankgpt --model openai:NAME --out attacks.jsonl

    Of each query one passage that is not relevant is attacked, in each way by itself, and ranked
    among the others; the same passage with as many harmless words shows what any text does. 19
    classes of attacks. The same command asks nothing again that the ledger has.
    docs/security.md explains the figures.
    """,
)
