"""Sums over the answers of a pipeline: quality by judge, beside calls, tokens, cost and time."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from beir_eval.answers.judges import Judgement, judge_of
from beir_eval.answers.judges import failed as no_answer
from beir_eval.measures.values import Values
from mcranker.rag.result import RAGResult
from personas.format import counted
from personas.report.warnings import Notice


class JudgeMetrics(BaseModel):
    """A judge's values."""

    model_config = ConfigDict(frozen=True)

    mean: float | None
    run_means: tuple[float | None, ...]
    questions: dict[str, float]
    values: int
    missing: int = 0
    undefined: int = 0
    reasons: dict[str, int] = {}
    # Question -> why it has no answer; it counts with the lowest value.
    failed: dict[str, str] = {}
    # Question -> lowest and highest value that missing ones could give.
    open: dict[str, tuple[float, float]] = {}

    def as_values(self, judge: str, model: str = "", *, own: bool = False) -> Values:
        """The values, as they are averaged, compared and shown; `model` is what the judge asks."""
        found = judge_of(judge)
        return Values(
            self.questions,
            judge,
            open=self.open,
            failed=self.failed,
            undefined=self.undefined,
            missing=self.missing,
            asked=self.values + self.missing,
            unit="values",
            judge=model if found.asks else "",
            own=own and found.asks,
            scale=found.scale,
            runs=tuple(each for each in self.run_means if each is not None),
        )

    @property
    def run_spread(self) -> float | None:
        """Standard deviation (n - 1) of the means of runs; None for fewer than two."""
        means = [each for each in self.run_means if each is not None]
        return statistics.stdev(means) if len(means) > 1 else None


class AnswerMetrics(BaseModel):
    """The sums of a pipeline over all questions and runs."""

    model_config = ConfigDict(frozen=True)

    judges: dict[str, JudgeMetrics]
    questions: int
    runs: int
    answers: int
    failed: dict[str, str] = {}
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    seconds: float | None = None
    characters_per_second: float | None = None
    abstained: int = 0
    without: dict[str, int] = {}
    writers: tuple[str, ...] = ()


def metrics_of(
    runs: Sequence[Sequence[tuple[RAGResult, Mapping[str, Judgement]]]],
    judges: Iterable[str],
    failed: Mapping[str, str],
    questions: int,
) -> AnswerMetrics:
    """Sum up answers and judgements of all runs."""
    answers = [answer for run in runs for answer, _ in run]
    # A vector that is there already is no call, so those of retrieval depend on what ran before.
    stages = [stage for answer in answers for stage in answer.stages if stage.name != "retrieval"]
    costs = [each for stage in stages for each in (stage.cost, stage.reused_cost)]
    timed = [
        (len(answer.text), sum(stage.seconds for stage in answer.stages))
        for answer in answers
        if not any(stage.reused for stage in answer.stages)
    ]
    seconds = math.fsum(taken for _, taken in timed)
    whole = _with_failed(runs, judges := [*judges], failed)
    return AnswerMetrics(
        judges={name: judge_metrics(whole, name) for name in judges},
        questions=questions,
        runs=len(runs),
        answers=len(answers),
        failed=dict(failed),
        calls=sum(stage.calls + stage.reused for stage in stages),
        input_tokens=sum(stage.input_tokens + stage.reused_tokens[0] for stage in stages),
        output_tokens=sum(stage.output_tokens + stage.reused_tokens[1] for stage in stages),
        cost=None if None in costs else math.fsum(each or 0 for each in costs),
        seconds=statistics.median(taken for _, taken in timed) if timed else None,
        characters_per_second=sum(size for size, _ in timed) / seconds if seconds else None,
        abstained=sum(answer.kind == "abstained" for answer in answers),
        without=dict(Counter(name for answer in answers for name in answer.without)),
        writers=tuple(sorted({name for answer in answers for name in answer.models.values()})),
    )


def _with_failed(
    runs: Sequence[Sequence[tuple[RAGResult, Mapping[str, Judgement]]]],
    judges: Sequence[str],
    failed: Mapping[str, str],
) -> list[list[tuple[str, Mapping[str, Judgement]]]]:
    """Question and judgements of each run, and of its answers that failed."""
    found = [[(answer.id, judged) for answer, judged in run] for run in runs]
    for where, why in failed.items():  # "run 1, q2"
        run, _, question = where.partition(", ")
        lowest = {name: no_answer(judge_of(name).scale, why) for name in judges}
        found[int(run.removeprefix("run ")) - 1].append((question, lowest))
    return found


def judge_metrics(
    runs: Iterable[Iterable[tuple[str, Mapping[str, Judgement]]]], judge: str
) -> JudgeMetrics:
    """Sum up a judge's values; what is missing is counted and never a value."""
    scale = judge_of(judge).scale
    of_question: dict[str, list[float]] = {}
    # Lowest and highest value by question, of all that have or could have one.
    ends: dict[str, list[tuple[float, float]]] = {}
    open_, failed = set[str](), dict[str, str]()
    means: list[float | None] = []
    lacking: list[Judgement] = []
    for run in runs:
        values = []
        for question, judgements in run:
            found = judgements.get(judge, Judgement(None, "it was not judged"))
            if found.value is None:
                lacking.append(found)
            else:
                values.append(found.value)
                of_question.setdefault(question, []).append(found.value)
                if found.why:
                    failed[question] = found.why
            if found.undefined:
                continue
            if found.value is None or found.why:
                open_.add(question)
                ends.setdefault(question, []).append(scale)
            else:
                ends.setdefault(question, []).append((found.value, found.value))
        means.append(statistics.fmean(values) if values else None)
    questions = {each: statistics.fmean(found) for each, found in of_question.items()}
    undefined = sum(each.undefined for each in lacking)
    reasons = Counter(each.why.partition(" The answer:")[0][:200] for each in lacking)
    return JudgeMetrics(
        mean=statistics.fmean(questions.values()) if questions else None,
        run_means=tuple(means),
        questions=questions,
        values=sum(map(len, of_question.values())),
        missing=len(lacking) - undefined,
        undefined=undefined,
        reasons=dict(reasons.most_common()),
        failed=failed,
        open={
            each: (
                statistics.fmean(low for low, _ in ends[each]),
                statistics.fmean(high for _, high in ends[each]),
            )
            for each in ends
            if each in open_
        },
    )


def grid_row(point: Mapping[str, Any], metrics: AnswerMetrics) -> dict[str, Any]:
    """A point of a grid as a row of a table: its levels, and each judge's mean."""
    return {**point, **{name: judge.mean for name, judge in metrics.judges.items()}}


def suite_cautions(rows: Mapping[str, AnswerMetrics]) -> list[Notice]:
    """Cautions about a suite besides its values, by label."""
    found = []
    for label, of in rows.items():
        for stage, count in of.without.items():
            answers = f"{counted(count, 'answer')} of {of.answers:,}"
            said = f"{label}: {answers} went on without {stage}, which failed; run it again."
            found.append(Notice("bad", said))
    if any(of.runs == 1 for of in rows.values()):
        said = "One run: how much answers vary from run to run is not known."
        found.append(Notice("warn", said))
    return found
