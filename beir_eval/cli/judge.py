"""``beir-eval judge``: a model as the judge of a collection, and its agreement with people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from beir_eval.cli.flags import choice_flag, count_flag, is_given, print_lines, split_flag
from beir_eval.data.datasets import BY_MODEL, MARK, Dataset
from beir_eval.data.load import load
from beir_eval.errors import SettingError
from beir_eval.judging.agreement import FEWEST_SYSTEMS, agreement, grade_mapping, system_order
from beir_eval.judging.judge import (
    JUDGES,
    UNFIT,
    Judged,
    Pairs,
    System,
    judge_pairs,
    judged_pairs,
    make_judge,
    pooled,
    read_systems,
    work_of,
)
from beir_eval.report.tables import interval, measure_text
from mcranker.cli.flags import Reads, Verb, WholeNumber, Writes, dry_run_flag, flag, output_flag
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.output import DONE, MISSING_SCORES, Failure, present, saying_where
from mcranker.cli.progress import Tracker, check_local_models, fetch_models, live_is_wanted, showing
from mcranker.cli.results import show_estimate
from mcranker.rankers import RankedQuery
from personas.console import table
from personas.format import counted
from personas.ranking.types import judge_note


def _judge(ctx: click.Context) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    options, mapping = _options(ctx), _mapping(ctx)
    invocation.doing("reading; nothing was sent")
    with invocation.noting(live_is_wanted(quiet=given["quiet"])):
        dataset = load(given["dataset"], split=given["split"], judged_only=False)
        if given["check"]:
            if dataset.by_model:
                said = BY_MODEL.format(dataset.by_model)
                raise SettingError(f"split {dataset.split!r}: {said}; name the --split of people's")
            mapping = grade_mapping(dataset.qrels, mapping)
        systems = read_systems(given["runs"])
        pairs = _pairs(ctx, dataset, systems)
        if given["dry_run"]:
            check_local_models(options.models)
            with make_judge(given["judge"], **options.options) as judge:
                return show_estimate(ctx, judge.estimate_many(work_of(dataset, pairs)))
        fetch_models(options.models, quiet=given["quiet"])
    with saying_where(options.ledger):
        judged = run_loop(partial(_all, ctx, dataset, pairs, systems, options.options))
        if given["out"]:
            judged.write(given["out"])
    reasons = judged.reasons
    record: dict[str, Any] = {"judge": judged.judge, "model": judged.models["scoring"]}
    record |= {"pairs": sum(map(len, pairs.values())), "missing": sum(reasons.values())}
    record |= {"reasons": reasons, "same_model": judged.own}
    both, seed = (dataset.qrels, judged.qrels), given["seed"]
    if given["check"] and any(
        judged.qrels.get(each, {}).keys() & grades.keys() for each, grades in dataset.qrels.items()
    ):
        found = agreement(*both, mapping=mapping, relevant=given["relevant"], seed=seed)
        record["agreement"] = asdict(found)
        if len(systems) > 1 and given["sample"] is None:
            order = system_order(systems, *both, depth=min(10, given["passages"]), seed=seed)
            record["systems"] = asdict(order)
    record["warnings"] = [*_warnings(record, judged, systems)]
    code, errors = DONE, []
    if reasons:
        why = f"{counted(record['missing'], 'pair')} without a grade, e.g. {next(iter(reasons))}"
        code, errors = MISSING_SCORES, [Failure("MissingScores", why, retryable=True).entry]
    page = partial(_show, record=record, out=given["out"])
    return present(ctx, page, code, errors, judging=record)


def _options(ctx: click.Context) -> Given:
    given, out = ctx.params, ctx.params["out"]
    if not (out or given["check"] or given["dry_run"]):
        raise click.UsageError("give --out FILE to write grades, --check to compare, or both", ctx)
    if not (given["check"] or given["runs"]):
        raise click.UsageError("give runs whose documents are judged", ctx)
    if out and Path(out).exists() and not Path(f"{out}{MARK}").exists():
        raise click.UsageError(
            f"--out {out!r} would replace people's judgements; name another", ctx
        )
    for name in ("sample", "map", "relevant"):
        if is_given(ctx, name) and not given["check"]:
            raise click.UsageError(f"--{name} goes with --check; give both", ctx)
    if given["judge"] == "team":
        return given_options(ctx, without={*UNFIT, "ranker"})
    without = {*UNFIT, "ranker", "team", "with_criteria", "instruction"}
    return given_options(ctx, default="direct", without=without)


def _mapping(ctx: click.Context) -> dict[int, int] | None:
    text = ctx.params["map"]
    try:
        pairs = [each.split(":") for each in text.split(",")] if text else []
        return {int(theirs): int(ours) for theirs, ours in pairs} or None
    except ValueError as failure:
        raise click.UsageError(f"--map {text!r}: write e.g. 0:0,1:2,2:3", ctx) from failure


def _pairs(ctx: click.Context, dataset: Dataset, systems: list[System]) -> Pairs:
    """The pairs that the runs found and people have judged."""
    given, pairs = ctx.params, pooled(systems, ctx.params["passages"])
    if strange := [each for each in pairs if each not in dataset.queries]:
        queries = counted(len(strange), "query is", "queries are")
        raise click.UsageError(f"{queries} not in {dataset.name}, e.g. {strange[0]!r}", ctx)
    if not given["check"]:
        return pairs
    check = judged_pairs(dataset.qrels, given["sample"], seed=given["seed"])
    # Of a sample the order of systems is not compared, which takes all that they found.
    if not given["out"] and given["sample"] is not None:
        return check
    return {
        each: list(dict.fromkeys([*pairs.get(each, ()), *check.get(each, ())]))
        for each in {**pairs, **check}
    }


async def _all(
    ctx: click.Context,
    dataset: Dataset,
    pairs: Pairs,
    systems: list[System],
    options: Mapping[str, Any],
) -> Judged:
    given, tracker = ctx.params, Tracker("judging", len(pairs))
    async with make_judge(given["judge"], **options) as judge:
        with showing(ctx, tracker, "{}; run it again to go on") as display:

            def done(ranked: RankedQuery) -> None:
                tracker.count(ranked.ranking.calls if ranked.ranking else None)
                display.update()

            more = {"systems": systems, "same_model": given["same_model"], "done": done}
            return await judge_pairs(judge, dataset, pairs, **more)


def _warnings(record: dict[str, Any], judged: Judged, systems: list[System]) -> Iterator[str]:
    model, count = record["model"], len(systems)
    if note := judge_note(judged.weak_judge, model):
        yield f"A weak judge, whose grades do not replace people's. {note}"
    if judged.own:
        yield f"{model} judged runs that it made itself: {', '.join(judged.own)}"
    if unknown := ", ".join(each.label for each in systems if each.models is None):
        yield f"see that {model} made none of these runs, whose models are not known: {unknown}"
    if "systems" in record and count < FEWEST_SYSTEMS:
        yield f"{count} systems: with fewer than {FEWEST_SYSTEMS}, Kendall's tau says little"


def _show(console: Console, record: Mapping[str, Any], out: str | None) -> None:
    judge, missing = f"{record['judge']} by {record['model']}", record["missing"]
    lines = [f"{judge}: {counted(record['pairs'], 'pair')}, {missing:,} without a grade"]
    reasons = [*record["reasons"].items()][:3]
    lines += [f"  {counted(count, 'pair')}: {why}" for why, count in reasons]
    if out is not None:
        lines.append(f"{out}: {counted(record['pairs'] - missing, 'judgement')}")
    figures = []
    if found := record.get("agreement"):
        mapped = ", ".join(f"{theirs} as {ours}" for theirs, ours in found["mapping"].items())
        lowest = f"{found['relevant']} or more, the judge's 2 or more"
        lines.append(f"People's {mapped}. Relevant is {lowest}.")
        pairs = f"{found['pairs']:,} pairs of {found['queries']:,} queries"
        names = ("kappa", "weighted_kappa", "binary_kappa", "false_positives", "recall")
        figures += [(each.replace("_", " "), found[each], pairs) for each in names]
    print_lines(console, lines)
    if found:
        grades = [(str(grade), *map(str, row)) for grade, row in found["confusion"].items()]
        console.print(table(["people's grade", *(f"judge's {each}" for each in range(4))], grades))
    if order := record.get("systems"):
        means = order["means"].items()
        systems = [(label, f"{people:.4f}", f"{judge:.4f}") for label, (people, judge) in means]
        console.print(table([order["measure"], "by people", "by the judge"], systems))
        figures.append(("Kendall's tau-b", order["tau"], counted(len(systems), "system")))
    rows = []
    for name, figure, of in figures:
        value, ends = figure["value"], figure["interval"]
        span = "" if ends is None else interval(**ends)
        rows.append((name, "not defined" if value is None else measure_text(value), span, of))
    if rows:
        console.print(table(["agreement", "value", "95% interval", "of"], rows))
    for each in record["warnings"]:
        say(f"warning: {each}")


command = Verb(
    "judge",
    _judge,
    params=[
        click.Argument(["dataset"], metavar="DATASET"),
        click.Argument(["runs"], type=Reads(), nargs=-1, metavar="[RUN...]"),
        choice_flag("judge", "One prompt in the manner of UMBRELA, or a team of personas.", JUDGES),
        flag("--out", "Write the model's judgements.", type=Writes()),
        flag("--check", "Judge what people have judged too, and compare.", is_flag=True),
        count_flag("depth passages", 10, "Documents of each run and query that are judged."),
        count_flag("sample", None, "Compare about N pairs, of each grade its share."),
        flag("--seed", "Of the sample and of the intervals.", type=WholeNumber(min=0), default=0),
        flag("--map", "People's grades as 0 to 3 (in proportion).", metavar="0:0,1:2,..."),
        count_flag("relevant", 1, "People's lowest grade that counts as relevant."),
        split_flag(),
        flag("--same-model", "Judge runs that the judge's model made itself.", is_flag=True),
        dry_run_flag(),
        *option_flags(without=("ranker", "depth", "ensemble")),
        output_flag("judging"),
    ],
    help="""Let a model judge passages from 0 to 3, and see how it agrees with people.

    DATASET is as for 'beir-eval retrieve'. RUN is a run folder of 'beir-eval run', a folder that
    holds some, or a TREC file.

    \b
      beir-eval judge scifact runs/ bm25.trec --model openai:NAME --check
      beir-eval judge ./mine bm25.trec --model openai:NAME --out mine/qrels/model.tsv

    The first documents of the runs are judged. OUT has the model's grades and nothing of
    people's; OUT.judge.json beside it says what gave them. A pair whose grade could not be read is
    left out. The same command goes on where it was stopped.
    """,
)
