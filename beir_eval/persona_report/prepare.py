"""One run made ready for a report: which queries have pages, and what their pages are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import RANKINGS, Ranked, index_rankings, judged_by_team
from beir_eval.experiment.run_folder import Metrics, RunFolder
from beir_eval.persona_report.line_index import index_passages
from beir_eval.persona_report.notes import dataset_line, run_notes, run_settings
from beir_eval.persona_report.pages import Chunk, OtherPlan, QueryPlan, RunPlan
from beir_eval.persona_report.sources import Source
from personas.ensembles import highest_score

_CHUNK = 16
"""Queries that a worker takes at a time."""
_MEASURE = "nDCG@10"
_NO_REASON = "The run does not say why."


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """A query without a ranking; the values are NDCG@10, None where they are not known."""

    query_id: str
    text: str
    reason: str
    judged: bool
    first_stage_ndcg: float | None
    other_ndcg: float | None


@dataclass(frozen=True, slots=True)
class ReportInput:
    """One run.

    Attributes:
        source: the run, its data, and what it is compared with.
        plan: what is the same for all its queries.
        queries: ids of those with a page, in the order of the data set.
        failed: those without, in the same order.
        ranked: where their rankings are.
        other_ranked: where those of the other run are; None if there is none.
        grades: query id -> document id -> judgement.
        dataset: what was ranked, in a few words.
        settings: choices that shape scores, by name.
        notes: what a reader must know.
    """

    source: Source
    plan: RunPlan
    queries: tuple[str, ...]
    failed: tuple[FailedQuery, ...]
    ranked: Ranked
    other_ranked: Ranked | None
    grades: Mapping[str, Mapping[str, int]]
    dataset: str
    settings: Mapping[str, str]
    notes: tuple[str, ...]

    def chunks(self, number: int) -> Iterator[Chunk]:
        """All queries with a page, 16 at a time; one empty chunk if there is none.

        Args:
            number: of the run.
        """
        others = self.other_ranked.offsets if self.other_ranked else {}
        for start in range(0, max(len(self.queries), 1), _CHUNK):
            yield Chunk(
                number,
                self.plan,
                tuple(
                    QueryPlan(
                        place,
                        self.ranked.offsets[query_id],
                        others.get(query_id),
                        self.grades.get(query_id),
                    )
                    for place, query_id in enumerate(
                        self.queries[start : start + _CHUNK], start=start + 1
                    )
                ),
            )


def ranked_queries(source: Source) -> Ranked:
    """Where the rankings of a run are.

    Raises:
        RunFolderError: they cannot be read; names the line.
    """
    return index_rankings(source.run.path / RANKINGS, finished=source.run.manifest.finished)


class ReportInputs:
    """Makes runs ready, and indexes the texts of what several of them have ranked once."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._indexes: dict[Path, Path] = {}

    def prepare(self, source: Source, ranked: Ranked, folder: Path) -> ReportInput:
        """The run, whose pages go to `folder`.

        Raises:
            RunFolderError: a file cannot be read, or the rankings are of other data.
            OSError: the index of texts cannot be written.
        """
        texts, grades = source.data.queries(), source.data.qrels()
        strangers = ranked.offsets.keys() - texts.keys()
        if strangers:
            raise RunFolderError(
                f"{source.run.path / RANKINGS}: ranks query {min(strangers)!r}, which "
                f"{source.data.path} does not hold; the folders do not belong together"
            )
        queries = tuple(query_id for query_id in texts if query_id in ranked.offsets)
        config, other = source.run.manifest.config, source.other
        other_ranked = index_rankings(other.path / RANKINGS, finished=True) if other else None
        passages = source.data.path / "passages.jsonl"
        return ReportInput(
            source=source,
            plan=RunPlan(
                folder=folder,
                title=source.title,
                queries=len(queries),
                rankings=source.run.path / RANKINGS,
                passages=passages,
                index=self._index(passages),
                other=_other_plan(other),
            ),
            queries=queries,
            failed=_failed(source, texts, grades, ranked),
            ranked=ranked,
            other_ranked=other_ranked,
            grades=grades,
            dataset=dataset_line(source.data.manifest),
            settings=run_settings(config, team=judged_by_team(source.run.path / RANKINGS)),
            notes=run_notes(
                source,
                ranked=len(queries),
                queries=len(texts),
                unjudged=sum(not grades.get(query_id) for query_id in queries),
                other_lacks=sum(query_id not in other_ranked.offsets for query_id in queries)
                if other_ranked
                else 0,
                torn=ranked.torn,
            ),
        )

    def _index(self, passages: Path) -> Path:
        key = passages.resolve()
        if key not in self._indexes:
            index = self._scratch / f"passages-{len(self._indexes)}"
            index_passages(passages, index)
            self._indexes[key] = index
        return self._indexes[key]


def _other_plan(other: RunFolder | None) -> OtherPlan | None:
    if other is None:
        return None
    manifest = other.manifest
    return OtherPlan(other.path / RANKINGS, manifest.label, highest_score(manifest.config))


def _failed(
    source: Source,
    texts: Mapping[str, str],
    grades: Mapping[str, Mapping[str, int]],
    ranked: Ranked,
) -> tuple[FailedQuery, ...]:
    """The queries that were tried in vain; an unfinished run does not tell them yet."""
    without = [query_id for query_id in texts if query_id not in ranked.offsets]
    if not (without and source.run.manifest.finished):
        return ()
    reasons = source.run.metrics().failed
    first_stage = _values(source.data.metrics())
    other = _values(source.other.metrics()) if source.other else {}
    return tuple(
        FailedQuery(
            query_id,
            texts[query_id],
            reasons.get(query_id) or _NO_REASON,
            bool(grades.get(query_id)),
            first_stage.get(query_id),
            other.get(query_id),
        )
        for query_id in without
    )


def _values(metrics: Metrics) -> Mapping[str, float]:
    return metrics.per_query.get(_MEASURE, {})
