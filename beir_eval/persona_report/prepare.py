"""One run made ready for a report: which queries have pages, and what their pages are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import RANKINGS, Ranked, index_rankings, judged_by_team
from beir_eval.experiment.run_folder import DataManifest, Metrics, RunFolder
from beir_eval.persona_report.line_index import index_passages
from beir_eval.persona_report.pages import Chunk, OtherPlan, QueryPlan, RunPlan
from beir_eval.persona_report.sources import Source
from beir_eval.report.notes import conditions, program_note
from personas.ensembles import highest_score
from personas.report.site import Made

_CHUNK = 16
"""Queries that a worker takes at a time."""
_MEASURE = "nDCG@10"
_NO_REASON = "The run does not say why."


_SETTINGS = (
    "preset",
    "team_size",
    "recruiting",
    "criteria",
    "scoring",
    "scale",
    "labels",
    "ensemble",
    "missing",
    "top_k",
    "depth",
    "first_stage_weight",
    "prompts",
)
_OF_TEAMS = frozenset({"team_size", "recruiting", "criteria", "ensemble"})


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """A query without a ranking; the values are nDCG@10, None where they are not known."""

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

    def prepare(self, source: Source, ranked: Ranked, folder: Path, made: Made) -> ReportInput:
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
                made=made,
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


def dataset_line(data: DataManifest) -> str:
    """What was ranked: ``scifact: 20 of 300 queries, top 100 by BM25 (bm25s, k1 0.9, b 0.4)``."""
    split = "" if data.split == "test" else f" ({data.split})"
    return f"{data.dataset}{split}: {conditions(data, None)}"


def run_settings(config: Mapping[str, Any], *, team: bool) -> dict[str, str]:
    """The choices that shape scores, as text; those that are empty are left out."""
    from personas.report.formats import value

    return {
        name.replace("_", " "): value(config[name])
        for name in _SETTINGS
        if config.get(name) not in (None, "", [], (), 0.0)
        and (team or name not in _OF_TEAMS)
        and not (name == "scale" and config.get("labels"))
    }


def run_notes(
    source: Source, *, ranked: int, queries: int, unjudged: int, other_lacks: int, torn: bool
) -> tuple[str, ...]:
    """What a reader of the report must know, a sentence or two each.

    Args:
        source: the run.
        ranked: queries with a ranking.
        queries: of the data set.
        unjudged: ranked queries without judgements.
        other_lacks: ranked queries that the run compared with has not ranked.
        torn: whether the last ranking was not written to its end.
    """
    manifest, notes = source.run.manifest, []
    if not manifest.finished:
        last = " The last ranking was not written to its end and is left out." if torn else ""
        notes.append(
            f"The run is not finished: {ranked:,} of {queries:,} queries have been ranked, and "
            f"this report is about them alone.{last}"
        )
    if unjudged:
        notes.append(
            f"{unjudged:,} of {ranked:,} ranked queries have no judgements; nDCG@10 leaves them "
            "out."
        )
    if source.other is not None and other_lacks:
        notes.append(
            f"{source.other.manifest.label} has not ranked {other_lacks:,} of these queries; "
            "they count 0 for it."
        )
    if manifest.weak_judge == "small":
        notes.append(
            "The scoring model is marked weak: other defaults than the paper's were in effect."
        )
    return (*notes, *program_note(manifest.models.values()))
