"""``beir-eval run`` of a suite of pipelines."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Column
from rich.text import Text

from beir_eval.answers.judges import judge_of
from beir_eval.answers.metrics import METRICS, AnswerMetrics, grid_row, suite_cautions
from beir_eval.answers.questions import read_questions
from beir_eval.answers.run import AnswerPlan, AnswersResult, estimate_answers, run_answers
from beir_eval.answers.suite import AnswerSuite, load_answer_suite
from beir_eval.cli.anova import show_anova
from beir_eval.errors import SettingError
from beir_eval.experiment.suite import chosen
from beir_eval.experiment.suite_form import folder_name
from beir_eval.files import read_form
from beir_eval.measures.anova import Anova, anova
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import given_options
from mcranker.cli.output import (
    DONE,
    ERROR,
    MISSING_SCORES,
    Failure,
    as_flags,
    failure,
    print_json,
    print_line,
    saying_where,
)
from mcranker.cli.progress import ProgressDisplay, Tracker, fetch_models, live_is_wanted
from mcranker.cli.results import cost_text, show_estimates
from mcranker.llm.connect import choose_default
from mcranker.rag.config import SHARED, models_of, stage_keys
from mcranker.rankers.keys import shared_keys
from personas.console import numbers, print_page, table
from personas.format import counted
from personas.io.atomic import check_place, write_whole

if TYPE_CHECKING:
    from rich.console import Console


GRID = "grid.csv"
_OF_JUDGES = ["max_calls", "max_cost", "concurrency", "timeout", "requests_per_minute", "prompts"]
_OF_RANKERS = ["datasets", "split", "ranker", "label", "queries", "passages", "use", "worker"]


def run_pipelines(ctx: click.Context) -> int:
    """Run a suite of pipelines with the flags of ``beir-eval run``; return the exit code."""
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    for name in _OF_RANKERS:
        if params.get(name):
            flag = "depth" if name == "passages" else name.removesuffix("s")
            raise click.UsageError(f"--{flag} does not go with a suite of pipelines", ctx)
    if params["docs"] and params["index_folder"]:
        raise click.UsageError("--docs and --index do not go together; leave one out", ctx)
    others = shared_keys().keys() - set(SHARED)
    given = given_options(
        ctx, default=None, own=stage_keys(), without=others, what="a suite of pipelines"
    )
    options = {**given.options, **given.own}
    ledger = options.pop("ledger", "default")
    suite = load_answer_suite(params["suite"], changes=options)
    changes = {name: params[name] for name in ("judge_model", "runs", "limit") if params[name]}
    if not (suite.form.judge_model or params["judge_model"]):
        changes["judge_model"] = options.get("model") or choose_default(os.environ)[0]
    suite = replace(suite, form=(form := suite.form.model_copy(update=changes)))
    specs = chosen(suite.pipelines, params["only"], suite.name)
    if not (path := params["questions"] or form.questions):
        raise SettingError(f"suite {suite.name!r} names no questions; give --questions FILE")
    documents, index = params["docs"], params["index_folder"]
    if not (documents or index):
        documents, index = form.documents, form.index
    plan = AnswerPlan(
        out=Path(params["out"] or Path("runs") / suite.name),
        questions=read_questions(path)[: form.limit],
        documents=documents or "",
        index=index or "",
        ledger=ledger,
        base_url=form.judge_base_url or options.get("base_url"),
        limits={name: options[name] for name in _OF_JUDGES if options.get(name) is not None},
    )
    if not plan.documents and not plan.index:
        raise SettingError(f"suite {suite.name!r} names no documents; give --docs or --index")
    models = [name for spec in specs for name in models_of(spec.config, spec.options)]
    if any(judge_of(name).asks for name in form.judges):
        models.append(form.judge_model)
    quiet = params["quiet"]
    with invocation.noting(live_is_wanted(quiet=quiet)), saying_where(ledger):
        if params["dry_run"]:
            estimates = run_loop(partial(estimate_answers, suite, plan, specs))
            rows = [({"label": label}, each) for label, each in estimates]
            return show_estimates(ctx, ["pipeline"], rows, "Of all runs, with their judges.")
        fetch_models(list(dict.fromkeys(models)), quiet=quiet)
        plan.out.mkdir(parents=True, exist_ok=True)
        check_place(plan.out / "probe")
        results = run_loop(partial(_all, suite, plan, specs, invocation, quiet))
    return _show(ctx, suite, plan, results)


async def _all(
    suite: AnswerSuite,
    plan: AnswerPlan,
    specs: Sequence[Any],
    invocation: Invocation,
    quiet: bool,
) -> list[AnswersResult]:
    tracker = Tracker("getting ready", 0, unit="questions")
    invocation.reached = lambda: f"during {tracker.stage}, {tracker.reached}; run it again to go on"
    with ProgressDisplay(tracker, wanted=live_is_wanted(quiet=quiet)) as display, invocation.held():

        def note(what: str, count: int) -> None:
            if what:
                tracker.stage, tracker.total, tracker.done = what, count, 0
            else:
                tracker.count()
            display.update()

        return [each async for each in run_answers(suite, plan, specs, note)]


def _show(
    ctx: click.Context, suite: AnswerSuite, plan: AnswerPlan, results: list[AnswersResult]
) -> int:
    code, errors = _outcome(results)
    finished = [(each.spec.label, each.metrics) for each in results if each.metrics]
    judge = next((each.judge for each in results), "")
    warned = [sentence for _, sentence in suite_cautions(finished, judge)] if finished else []
    found, rows = None, [*_grid(suite, plan)]
    if rows:
        write_whole(plan.out / GRID, _as_csv(rows))
        if suite.form.anova.formula and len(rows) == sum(bool(x.point) for x in suite.pipelines):
            try:
                found = anova(rows, suite.form.anova.formula)
            except SettingError as refused:  # the answers are there all the same
                warned.append(f"no analysis of variance: {refused}")
    if ctx.params["output"] == "json":
        listed = [
            {
                "label": each.spec.label,
                "calls": each.calls,
                "metrics": each.metrics.model_dump(mode="json") if each.metrics else None,
            }
            for each in results
        ]
        analysed = {} if found is None else {"anova": found.to_dict()}
        return print_json(
            code, [each.entry for each in errors], results=listed, warnings=warned, **analysed
        )
    print_page(lambda console: _show_table(console, suite, results, found))
    for each in warned:
        say(f"warning: {each}")
    for error in errors:
        say(f"{'warning' if code == MISSING_SCORES else 'error'}: {error.message}")
    print_line(f"Answers and judgements are in {plan.out}")
    return code


def _grid(suite: AnswerSuite, plan: AnswerPlan) -> Iterator[dict[str, Any]]:
    """Yield the rows of all points that are finished, now or by a former command like this."""
    asked = suite.form.judges, suite.form.runs, len(plan.questions)
    for spec in suite.pipelines:
        if spec.point and (path := plan.out / folder_name(spec.label) / METRICS).exists():
            of = read_form(path, AnswerMetrics)
            if ([*of.judges], of.runs, of.questions) == asked:
                yield grid_row(spec.point, of)


def _outcome(results: list[AnswersResult]) -> tuple[int, list[Failure]]:
    code, errors = DONE, []
    for each in results:
        label = each.spec.label
        if each.stopped is not None:
            code, found = ERROR, failure(each.stopped)
            errors.append(replace(found, message=f"{label}: stopped: {found.message}"))
        if each.metrics is None:
            continue
        if each.metrics.failed:
            code = ERROR
            where, why = next(iter(each.metrics.failed.items()))
            message = f"{label}: {counted(len(each.metrics.failed), 'answer')} failed; the first, "
            message += f"{where}: {as_flags(why)}; run it again to try them again"
            errors.append(Failure("AnswersFailed", message, retryable=True))
        for name, judge in each.metrics.judges.items():
            if judge.missing:
                code = code or MISSING_SCORES
                why = next(iter(judge.reasons))
                message = f"{label}: {name}: {counted(judge.missing, 'value')} missing"
                message += f", e.g. {as_flags(why)}"
                errors.append(Failure("MissingScores", message))
    return code, errors


def _show_table(
    console: Console, suite: AnswerSuite, results: list[AnswersResult], found: Anova | None
) -> None:
    rows = []
    for each in results:
        if each.metrics is None:
            rows.append((each.spec.label, *("stopped" for _ in suite.form.judges), *("-",) * 5))
            continue
        metrics, cells = each.metrics, []
        for name in suite.form.judges:
            judge = metrics.judges[name]
            mean = "-" if judge.mean is None else f"{judge.mean:.3f}"
            spread = "" if judge.run_spread is None else f" ± {judge.run_spread:.3f}"
            theirs = each.spec.theirs.get(name)
            lacking = f", {judge.undefined:,} undefined" if judge.undefined else ""
            cells.append(mean + spread + ("" if theirs is None else f" ({theirs:g})") + lacking)
        missing = sum(judge.missing for judge in metrics.judges.values())
        rows.append(
            (
                *(each.spec.label, *cells, f"{missing:,}", f"{metrics.calls:,}"),
                *(f"{metrics.input_tokens + metrics.output_tokens:,}", cost_text(metrics.cost)),
                "-" if metrics.seconds is None else f"{metrics.seconds:.2f}",
            )
        )
    judges = (each.replace("_", " ") for each in suite.form.judges)
    headings = numbers(*judges, "missing", "calls", "tokens", "cost", "seconds")
    narrow = [replace(each, no_wrap=False) for each in headings]
    console.print(table([Column("pipeline", min_width=8, overflow="fold"), *narrow], rows))
    console.print(Text("±: standard deviation of the runs' means. Missing values are in no mean."))
    if any(each.spec.theirs for each in results):
        console.print(Text("In brackets: the paper's value, of its own models and judges."))
    if found is not None:
        show_anova(console, found)
        if ours := [each.name for each in suite.form.factors if each.ours]:
            line = f"Levels of {', '.join(ours)} are not in the paper; they are ours."
            console.print(Text(line))


def _as_csv(rows: list[dict[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
