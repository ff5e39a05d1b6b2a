"""From the rankings of a run to its TREC run, its measures, and what it took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from beir_eval.experiment.run_folder import Metrics, ScoreCounts, Taken
from beir_eval.measures.metrics import evaluate
from beir_eval.measures.ties import tie_bounds
from mcranker.ranking import used_by
from mcranker.types import UsageTable
from personas.ensembles import find_ensemble
from personas.inspection.stored import ASSESSOR, StoredHit, StoredRanking

LONGEST_REASON = 120


@dataclass(slots=True)
class Outcome:
    """Takes rankings one by one and sums them up; keeps ids and scores, no texts.

    Attributes:
        run: query id -> (document id, score), best first. A passage without a score of its own
            has the highest that it could have got, or one below all others.
    """

    run: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    _scored: dict[str, list[tuple[str, float | None]]] = field(default_factory=dict)
    _asked: int = 0
    _missing: int = 0
    _skipped: int = 0
    _reasons: Counter[str] = field(default_factory=Counter)
    _used: UsageTable = field(default_factory=UsageTable)

    def take(self, ranking: StoredRanking) -> None:
        """Count a ranking; texts may be left out."""
        query_id, hits = ranking.query.id, ranking.best_first
        self._scored[query_id] = [(hit.doc_id, hit.score) for hit in hits]
        self.run[query_id] = _with_numbers(hits)
        ensemble = find_ensemble(ranking.config)
        assessed = ensemble is not None and ensemble.asks
        for hit in hits:
            missing = hit.missing
            self._missing += len(missing)
            self._skipped += len(hit.skipped)
            given = sum(score is not None for score in hit.scores.values())
            # The assessor's score is the final one and stands with no persona.
            given += assessed and hit.score is not None and ASSESSOR not in missing
            self._asked += given + len(missing)
            self._reasons.update(_in_short(reason) for reason in missing.values())
        for row in (*ranking.usage.by_stage, *ranking.usage.reused):
            self._used.add(*used_by(row))

    def metrics(
        self,
        qrels: Mapping[str, Mapping[str, int]],
        measures: Sequence[str],
        failed: Mapping[str, str],
    ) -> Metrics:
        """The measures over all judged queries, and the sums.

        Args:
            qrels: judgements of the queries that were to be ranked.
            measures: names as ir-measures writes them.
            failed: query id -> why it was not ranked.
        """
        evaluation = evaluate(self.run, qrels, measures)
        return Metrics(
            measures=tuple(measures),
            means=dict(evaluation.means),
            per_query={name: dict(values) for name, values in evaluation.per_query.items()},
            ties=dict(tie_bounds(self._scored, qrels, measures)),
            missing_queries=evaluation.missing_queries,
            failed=dict(failed),
            scores=ScoreCounts(
                asked=self._asked,
                missing=self._missing,
                skipped=self._skipped,
                reasons=dict(sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))),
                unreadable=sum(usage.unreadable for usage in self._used.values()),
            ),
            taken=self._taken(),
        )

    def _taken(self) -> Taken:
        from mcranker.llm.chat import Usage
        from mcranker.llm.prices import cost

        sorted_rows = [(key, self._used[key]) for key in sorted(self._used)]
        total = sum((usage for _, usage in sorted_rows), start=Usage())
        # Priced together, so that it makes no difference which answers were there already.
        costs = [cost(model, usage) for (_, _, model), usage in sorted_rows]
        known = [each for each in costs if each is not None]
        return Taken(
            calls=total.calls,
            input_tokens=total.input_tokens,
            cached_input_tokens=total.cached_input_tokens,
            output_tokens=total.output_tokens,
            # The order of the answers must not show in the last digits.
            seconds=round(total.seconds, 3),
            cost=round(math.fsum(known), 9) if len(known) == len(costs) else None,
        )


def _with_numbers(hits: Iterable[StoredHit]) -> list[tuple[str, float]]:
    numbered: list[tuple[str, float]] = []
    for hit in hits:
        score = hit.score if hit.score is not None else hit.at_most
        if score is None:
            score = min([0.0, *(before for _, before in numbered[-1:])]) - 1.0
        numbered.append((hit.doc_id, score))
    return numbered


def _in_short(reason: str) -> str:
    """The reason without the model's own words, so that equal reasons count together."""
    return reason.partition(" The answer:")[0][:LONGEST_REASON]
