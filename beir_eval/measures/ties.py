"""Effect of the order in which the ranker got the passages on a run's measures.

Passages that a ranker could not tell apart keep the order of the first stage. Three figures say
what that is worth: ties in the worst order, in the best, and drawn by lot, the mean of `DRAWS`
draws, which alone owes nothing to the first stage: tests compare runs by it.

Each draw gives a query's passages to the ensemble in another order: that covers ties of the final
scores and those within a persona's scores (`personas.ensembles.RankTies`). A query's draws depend
on its id and its passages alone, so runs of the same passages share them. The two ends are exact
where only final scores tie, for measures that never fall when a better grade moves up; else they
are the ends of the draws and of the orders by grade.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from beir_eval.experiment.run_folder import Metrics, TieBounds
from beir_eval.measures.metrics import Evaluator, evaluate, judged_share
from personas.ensembles import descending, distinct, find_ensemble

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcranker.inputs.trec import Run
    from personas.ranking.record import RankingRecord

    Places = NDArray[np.intp]
    Numbers = NDArray[np.float64]

DRAWS = 100
"""Orders that are drawn for a query."""

Scored: TypeAlias = Sequence[tuple[str, float | None]]
"""(document id, score), best first; None where there is no score."""


@dataclass(frozen=True, slots=True)
class Tied:
    """A ranked query, and its rankings with the passages in other orders."""

    doc_ids: Sequence[str]
    scores: Sequence[float | None]
    again: Callable[[Places], Numbers] | None = None
    returned: int | None = None

    @classmethod
    def of_scores(cls, scored: Scored) -> Tied:
        """Return a ranking of which only the final scores are known."""
        return cls([doc_id for doc_id, _ in scored], [score for _, score in scored])

    @classmethod
    def of_ranking(
        cls, ranking: RankingRecord, texts: Mapping[str, tuple[str, str]] | None = None
    ) -> Tied:
        """Return a stored ranking."""
        again = None
        if ranking.rule.keeps_order and find_ensemble(ranking.config) is not None:
            again = _ranked_again(ranking, texts)
        scores = [hit.score for hit in ranking.hits]
        for first, last in ranking.undecided:
            scores[first - 1 : last] = [-float(first)] * (last - first + 1)
        return cls([hit.doc_id for hit in ranking.hits], scores, again, len(ranking))

    @property
    def has_ties(self) -> bool:
        """True if the same scores allow another order."""
        return self.again is not None or len(set(self._levels())) < len(self.doc_ids)

    def orders(self, keys: Numbers) -> Places:
        """Places in `doc_ids`, best first, a row for each row of `keys`."""
        import numpy as np

        if self.again is None:
            return np.argsort(np.array(self._levels()) + keys, axis=1, kind="stable")
        scored = np.array([each is not None for each in self.scores])
        known, rest = np.flatnonzero(scored), np.flatnonzero(~scored)
        rows = []
        for row in keys:
            places = known[np.argsort(row[known], kind="stable")]
            rows.append(np.concatenate([places[descending(self.again(places))], rest]))
        return np.array(rows)

    def _levels(self) -> list[int]:
        """A number a passage that rises along the ranking, and stays where scores tie."""
        levels: list[int] = []
        before: float | None = None
        for score in self.scores:
            tied = bool(levels) and score is not None and score == before
            levels.append(levels[-1] if tied else len(levels))
            before = score
        return levels


class TieFigures(NamedTuple):
    """Effect of ties on a run."""

    bounds: dict[str, TieBounds]
    by_lot: dict[str, dict[str, float]]


def measured(
    run: Run,
    tied: Mapping[str, Tied],
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str],
) -> Metrics:
    """The measures of a run, with their ties, and how much of the first one's ranks is judged."""
    names = tuple(dict.fromkeys((*measures, judged_share(measures[0]))))
    evaluation = evaluate(run, qrels, names)
    ties = tie_figures(tied, qrels, names)
    return Metrics(
        measures=tuple(measures),
        means=dict(evaluation.means),
        per_query={name: dict(values) for name, values in evaluation.per_query.items()},
        ties=ties.bounds,
        by_lot=ties.by_lot,
        missing_queries=evaluation.missing_queries,
    )


def tie_bounds(
    rankings: Mapping[str, Scored],
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = ("nDCG@10",),
) -> dict[str, TieBounds]:
    """Means of `measures` over all judged queries, ties at their worst, at their best, and by lot.

    A tie is a row of passages, one after the other in the list, with exactly the same score.
    Passages without a score are in no tie: their order is the first stage's, and stays.

    Args:
        rankings: query id -> (document id, score), best first.
        qrels: query id -> document id -> grade; documents without a grade count as 0.
        measures: names as ir-measures writes them.

    Raises:
        MeasureError, RunError, ExtraMissing: as `beir_eval.evaluate`.
    """
    tied = {query_id: Tied.of_scores(scored) for query_id, scored in rankings.items()}
    return tie_figures(tied, qrels, measures).bounds


def tie_figures(
    rankings: Mapping[str, Tied],
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = ("nDCG@10",),
) -> TieFigures:
    """Means of `measures` over all judged queries, and by lot query by query; see `tie_bounds`."""
    import numpy as np

    evaluator = Evaluator(qrels, measures)
    values = evaluator.per_query(
        {
            query_id: [(each, 0.0) for each in tied.doc_ids[: tied.returned]]
            for query_id, tied in rankings.items()
        }
    )
    orders: dict[str, list[list[int]]] = {}
    for query_id, tied in rankings.items():
        if query_id in evaluator.queries and tied.has_ties:
            grades = np.array([qrels[query_id].get(doc_id, 0) for doc_id in tied.doc_ids])
            ends = np.empty((2, len(grades)))  # keys in the order of the grades, rising and falling
            for row, signed in zip(ends, (grades, -grades), strict=True):
                row[np.argsort(signed, kind="stable")] = np.arange(len(grades)) / len(grades)
            ranked = tied.orders(np.concatenate([ends, _lots(query_id, tied.doc_ids)]))
            orders[query_id] = ranked[:, : tied.returned][:, : evaluator.depth].tolist()
    found = [
        evaluator.per_query(
            {
                query_id: [(rankings[query_id].doc_ids[place], 0.0) for place in drawn[draw]]
                for query_id, drawn in orders.items()
            }
        )
        for draw in range(DRAWS + 2 if orders else 0)
    ]
    bounds: dict[str, TieBounds] = {}
    by_lot: dict[str, dict[str, float]] = {}
    for name, of_all in values.items():
        worst, best, lot = dict(of_all), dict(of_all), dict[str, float]()
        for query_id in orders:
            drawn = [each[name][query_id] for each in found]
            # Where only final scores tie, the two orders by grade are the ends.
            ends_of = drawn[:2] if rankings[query_id].again is None else drawn
            worst[query_id], best[query_id] = min(ends_of), max(ends_of)
            lot[query_id] = math.fsum(drawn[2:]) / DRAWS
        by_lot[name] = lot
        bounds[name] = TieBounds(
            worst=evaluator.mean(name, worst),
            best=evaluator.mean(name, best),
            by_lot=evaluator.mean(name, {**of_all, **lot}),
            sampled=any(rankings[query_id].again is not None for query_id in orders),
        )
    return TieFigures(bounds, by_lot)


def missing_bounds(
    rankings: Iterable[RankingRecord], qrels: Mapping[str, Mapping[str, int]], measure: str
) -> dict[str, tuple[float, float]]:
    """Query id -> lowest and highest value, of the rankings that lack scores or comparisons.

    A missing score may be any from 0 to the highest; where only the order is known, its passage
    may stand anywhere. The ends are those of the orders that put relevant passages last and first.
    """
    orders: list[dict[str, list[tuple[str, float]]]] = [{}, {}]
    for ranking in rankings:
        query_id = ranking.query.id
        failed = ranking.comparisons.failed if ranking.comparisons else 0
        if query_id in qrels and (failed or ranking.missing):
            for best, run in zip((False, True), orders, strict=True):
                ids = _without_gaps(ranking, qrels[query_id], best=best)
                run[query_id] = [(each, 0.0) for each in ids[: len(ranking)]]
    if not orders[0]:
        return {}
    evaluator = Evaluator(qrels, [measure])
    worst, best_case = (evaluator.per_query(run)[measure] for run in orders)
    return {each: (worst[each], best_case[each]) for each in orders[0]}


def _without_gaps(ranking: RankingRecord, grades: Mapping[str, int], *, best: bool) -> list[str]:
    """Ids in the best or the worst order that the missing scores or comparisons allow."""
    import numpy as np

    rule, ensemble = ranking.rule, find_ensemble(ranking.config)
    ids = [hit.doc_id for hit in ranking.hits]
    lost, values = {each.doc_id for each in ranking.missing}, ranking.matrix
    if compared := ranking.comparisons is not None and bool(ranking.comparisons.failed):
        for first, last in ranking.undecided or ((1, len(ids)),):
            lost.update(ids[first - 1 : last])
    is_score = ensemble is not None and not ensemble.asks and rule.top
    if is_score and not compared:
        gap = np.array([each in lost for each in ids])
        up = np.array([(grades.get(each, 0) > 0) == best for each in ids])
        filled = np.where(
            np.isnan(values) & gap[:, None], np.where(up, rule.top, 0.0)[:, None], values
        )
        first_stage = [hit.first_stage_score for hit in ranking.hits]
        final = rule.final(filled, np.arange(len(ids)), first_stage)
        pull = np.where(gap, np.where(up, -1, 1), 0)
        order = np.lexsort((pull, np.where(np.isnan(final), np.inf, -final)))
        return [ids[place] for place in order.tolist()]
    found, sign = [each for each in ids if each not in lost], 1 if best else -1
    for each in sorted(lost, key=lambda doc_id: (-sign * grades.get(doc_id, 0), doc_id)):
        gain = sign * grades.get(each, 0)
        below = (n for n, other in enumerate(found) if sign * grades.get(other, 0) < gain)
        found.insert(next(below, len(found)), each)
    return found


def _lots(query_id: str, doc_ids: Sequence[str]) -> Numbers:
    """Return random keys, a row a draw; a passage has the same ones at any place."""
    import numpy as np

    seed = int.from_bytes(hashlib.sha256(query_id.encode("utf-8", "replace")).digest()[:8])
    drawn = np.random.default_rng(seed).random((DRAWS, len(doc_ids)))
    keys = np.empty_like(drawn)
    keys[:, sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = drawn
    return keys


def _ranked_again(
    ranking: RankingRecord, texts: Mapping[str, tuple[str, str]] | None
) -> Callable[[Places], Numbers]:
    """A function that gives the final scores of a ranking with its passages in another order."""
    hits, rule, values = ranking.hits, ranking.rule, ranking.matrix
    contents = [(texts or {}).get(hit.doc_id, hit.doc_id) for hit in hits]
    # Where a score is unknown, the place in the first stage's true order is used.
    unknown = any(hit.judged and hit.first_stage_score is None for hit in hits)
    first_stage = [
        -float(hit.first_stage_rank) if unknown else hit.first_stage_score or 0.0 for hit in hits
    ]

    def again(places: Places) -> Numbers:
        given = places.tolist()
        rows, group_of = distinct(contents[place] for place in given)
        return rule.final(values[places[rows]], group_of, [first_stage[place] for place in given])

    return again
