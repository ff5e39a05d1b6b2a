"""Quality of a run: nDCG@10 and any other measure that ir-measures knows."""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beir_eval.errors import ExtraMissing, MeasureError
from mcranker.errors import RunError
from mcranker.inputs.grades import HIGHEST_GRADE
from mcranker.logs import safe_logger
from personas.errors import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from mcranker.inputs.trec import Run

_LARGEST = 2**31 - 1  # whole number that the programs behind ir-measures take
_SHOWN = 200  # characters of a name or a foreign message

_log = safe_logger("mcranker.beir_eval.metrics")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of one run.

    Attributes:
        means: measure, as it was asked for -> its value over all judged queries (the mean, or
            the sum for a measure that counts, such as ``NumRet``).
        per_query: measure -> query id -> value, for every judged query, in the order of the
            judgements.
        missing_queries: ids of the judged queries for which the run has no documents; they
            count with the measure's value for an empty list, which is 0 for nDCG.
    """

    means: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    missing_queries: tuple[str, ...]


def evaluate(
    run: Run,
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = ("nDCG@10",),
) -> Evaluation:
    """Compute `measures` for `run`, per query and over all judged queries.

    The order of the run's lists is the ranking; its scores are not looked at, so that ties
    cannot be broken another way. Queries without judgements are left out. nDCG has the grade
    as its gain and log2(rank + 1) as its discount; grades below 0 count as 0.

    Args:
        run: query id -> (document id, score), best first.
        qrels: query id -> document id -> grade; queries with no document are left out.
        measures: names as ir-measures writes them: ``nDCG@10``, ``R@100``, ``AP(rel=2)``, ``RR``.

    Raises:
        MeasureError: no measure is given, one is unknown or lacks a parameter, nothing
            installed computes it, or there are no judgements; a grade is no whole number, or
            beyond `beir_eval.data.datasets.HIGHEST_GRADE`.
        RunError: the run has a document twice for one query.
        ExtraMissing: ir-measures is not installed.
    """
    evaluator = Evaluator(qrels, measures)
    unjudged = sum(query_id not in evaluator.queries for query_id in run)
    if unjudged:
        _log.info("%d queries of the run have no judgements and are left out", unjudged)
    per_query = evaluator.per_query(run)
    return Evaluation(
        means={name: evaluator.mean(name, values) for name, values in per_query.items()},
        per_query=per_query,
        missing_queries=tuple(query_id for query_id in evaluator.queries if not run.get(query_id)),
    )


class Evaluator:
    """Measures many runs by the same judgements; arguments and errors are those of `evaluate`."""

    def __init__(self, qrels: Mapping[str, Mapping[str, int]], measures: Sequence[str]) -> None:
        self._measures = _parse(measures)
        judged = {each: _checked(each, grades) for each, grades in qrels.items() if grades}
        if not judged:
            raise MeasureError("there are no judgements, so there is nothing to measure by")
        # Some of the programs behind ir-measures take only numbers for query ids.
        self._number_of = {query_id: str(number) for number, query_id in enumerate(judged, 1)}
        self._grades = {self._number_of[each]: grades for each, grades in judged.items()}
        with self._foreign_errors():
            self._evaluator = _ir_measures().evaluator(list(self._measures.values()), self._grades)

    @property
    def queries(self) -> Collection[str]:
        """Ids of the judged queries, in the order of the judgements."""
        return self._number_of.keys()

    @property
    def depth(self) -> int | None:
        """Number of a query's first documents that the measures use; None for all."""
        params = [measure.params for measure in self._measures.values()]
        if any("cutoff" not in each or each.get("judged_only") for each in params):
            return None
        return max(int(each["cutoff"]) for each in params)

    def mean(self, name: str, values: Mapping[str, float]) -> float:
        """A measure's value over all judged queries, from those of each."""
        aggregate = self._measures[name].aggregator()
        for value in values.values():
            aggregate.add(value)
        return float(aggregate.result())

    def per_query(self, run: Run) -> dict[str, dict[str, float]]:
        """Measure -> query id -> value, for every judged query."""
        ranked = {
            number: _scores_by_rank(query_id, run[query_id])
            for query_id, number in self._number_of.items()
            if run.get(query_id)
        }
        with self._foreign_errors():
            values = {
                (metric.measure, metric.query_id): float(metric.value)
                for metric in self._evaluator.iter_calc(ranked)
            }
        for measure in self._measures.values():
            for number in self._grades.keys() - ranked.keys() if measure.NAME == "NumRel" else ():
                # What there was to find counts without a list too, as with trec_eval -c.
                relevant = sum(grade > 0 for grade in self._grades[number].values())
                values[measure, number] = float(relevant)
        return {
            name: {
                query_id: values.get((measure, number), float(measure.DEFAULT))
                for query_id, number in self._number_of.items()
            }
            for name, measure in self._measures.items()
        }

    @contextmanager
    def _foreign_errors(self) -> Iterator[None]:
        foreign = (ValueError, TypeError, AssertionError, RuntimeError, subprocess.SubprocessError)
        try:
            yield
        except foreign as failure:
            raise MeasureError(
                f"cannot compute {_short(', '.join(self._measures))}: {_short(str(failure))}"
            ) from failure


def judged_share(measure: str) -> str:
    """The measure of how many of the ranks that `measure` looks at have judged documents."""
    (found,) = _parse([measure]).values()
    cutoff = found.params.get("cutoff")
    return "Judged" if cutoff is None else f"Judged@{cutoff}"


def ceiling(run: Run, qrels: Mapping[str, Mapping[str, int]], measure: str) -> dict[str, float]:
    """Query id -> the measure of the best order of the run's documents, by falling grade."""
    best = {
        query_id: sorted(documents, key=lambda each: -qrels[query_id].get(each[0], 0))
        for query_id, documents in run.items()
        if query_id in qrels
    }
    return Evaluator(qrels, (measure,)).per_query(best)[measure]


def cutoff_of(measure: str) -> int | None:
    """Return the number of ranks a measure uses, e.g. 10 for ``nDCG@10``; None for all."""
    found = re.search(r"@(\d+)$", measure.strip())
    return int(found[1]) if found else None


def measure_names(text: str) -> list[str]:
    """Return the names in a list such as ``nDCG@10,AP(rel=2,judged_only=True)``; each once."""
    # Commas within brackets part a measure's parameters.
    listed = (name.strip() for name in re.findall(r"(?:\([^()]*+\)|[^,])++", text))
    names = list(dict.fromkeys(name for name in listed if name))
    if not names:
        raise MeasureError("no measure is given; name one or more, e.g. 'nDCG@10'")
    return names


def _parse(names: Sequence[str]) -> dict[str, Any]:
    ir_measures = _ir_measures()
    if isinstance(names, str):
        raise MeasureError(f"measures={names!r} is a text; give a list of names: [{names!r}]")
    if not names:
        raise MeasureError("no measure is given; name one or more, e.g. 'nDCG@10'")
    parsed = {}
    for name in names:
        try:
            measure = ir_measures.parse_measure(name.strip())
            measure.validate_params()
        except (ValueError, NameError, AssertionError) as failure:
            raise MeasureError(
                f"measure {_short(name)!r}: {_short(str(failure))}; write it as ir-measures does, "
                "e.g. 'nDCG@10', 'R@100', 'AP(rel=2)'"
            ) from failure
        cutoff = measure.params.get("cutoff", 1)
        # trec_eval's C code ends the process on such a cutoff.
        if cutoff < 1:
            raise MeasureError(f"measure {name!r}: the cutoff {cutoff!r} is below 1")
        for param, value in measure.params.items():
            if isinstance(value, int) and value > _LARGEST:
                raise MeasureError(f"measure {_short(name)!r}: {param} is above {_LARGEST:,}")
        parsed[name] = measure
    return parsed


def _checked(query_id: str, grades: Mapping[str, int]) -> dict[str, int]:
    for doc_id, grade in grades.items():
        if not (hasattr(grade, "__index__") and abs(grade) <= HIGHEST_GRADE):
            raise MeasureError(
                f"query {query_id!r} and document {doc_id!r} have the grade {shown(grade)}; "
                f"give a whole number from {-HIGHEST_GRADE:,} to {HIGHEST_GRADE:,}"
            )
    found = {doc_id: int(grade) for doc_id, grade in grades.items()}
    # trec_eval's C code ends the process over a query whose grades are all below 0.
    return found if max(found.values()) >= 0 else dict.fromkeys(found, 0)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _scores_by_rank(query_id: str, documents: Sequence[tuple[str, float]]) -> dict[str, float]:
    scores = {doc_id: float(len(documents) - place) for place, (doc_id, _) in enumerate(documents)}
    if len(scores) < len(documents):
        raise RunError(f"query {query_id!r}: a document appears twice; a run lists it once")
    return scores


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError as failure:
        raise ExtraMissing("ir-measures", "evaluation") from failure
    return ir_measures
