"""One run of a report: what its pages are made of, and its survey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import RANKINGS, Ranked, index_rankings
from beir_eval.persona_report.pages import Chunk, QueryPlan, RunPlan
from beir_eval.persona_report.sources import Source
from beir_eval.report.warnings import conditions, program_note
from personas.report.formats import value
from personas.report.site import ReportFooter
from personas.survey.model import Difference, QueryFigures, Survey
from personas.survey.query import MOST_NAME, MOST_TEXT, QueryFindings, cut
from personas.survey.surveyor import Surveyor

CHUNK = 16
"""Queries that a worker takes at a time."""
MEASURE = "nDCG@10"

_OF_TEAMS = ("team_size", "recruiting", "criteria", "ensemble")
_SETTINGS = (
    *("preset", "team_size", "recruiting", "criteria", "scoring", "scale", "labels", "ensemble"),
    *("missing_policy", "depth", "first_stage_weight", "prompts"),
)


class RunReport:
    """The report of one run in the making."""

    def __init__(
        self, source: Source, ranked: Ranked, folder: Path, index: Path, footer: ReportFooter
    ) -> None:
        """Read the queries and judgements of a run, whose pages go to `folder`."""
        self._ranked, self.surveyor = ranked, Surveyor()
        self._texts, self._grades = source.data.queries(), source.data.qrels()
        if strangers := self._ranked.offsets.keys() - self._texts.keys():
            raise RunFolderError(
                f"{source.run.path / RANKINGS}: ranks query {min(strangers)!r}, which "
                f"{source.data.path} does not hold; the folders do not belong together"
            )
        self._queries = [each for each in self._texts if each in self._ranked.offsets]
        self.left = len(self._queries)
        self._others: Mapping[str, int] = {}
        if source.other is not None:
            self._others = index_rankings(source.other.path / RANKINGS, finished=True).offsets
        self.plan = RunPlan(source, folder, len(self._queries), index, footer)

    def chunks(self, number: int) -> Iterator[Chunk]:
        """All queries with a page, 16 at a time; one empty chunk if there is none."""
        plans = [
            QueryPlan(
                place, self._ranked.offsets[each], self._others.get(each), self._grades.get(each)
            )
            for place, each in enumerate(self._queries, start=1)
        ]
        for start in range(0, max(len(plans), 1), CHUNK):
            yield Chunk(number, self.plan, tuple(plans[start : start + CHUNK]))

    def survey(self, differences: tuple[Difference, ...]) -> Survey:
        """The survey of all queries; failed ones come last."""
        source, data = self.plan.source, self.plan.source.data.manifest
        config = source.run.manifest.config
        self._add_failed()
        split = "" if data.split == "test" else f" ({data.split})"
        return replace(
            self.surveyor.finish(),
            title=source.title,
            dataset=f"{data.dataset}{split}: {conditions(data, None)}",
            collection=data.dataset,
            first_stage=data.first_stage.name,
            other=source.other.manifest.label if source.other else "",
            models=source.run.manifest.models,
            # Choices that shape scores, but those that are empty.
            settings={
                name.replace("_", " "): value(config[name])
                for name in _SETTINGS
                if config.get(name) not in (None, "", [], (), 0.0)
                and (source.team or name not in _OF_TEAMS)
                and not (name == "scale" and config.get("labels"))
            },
            notes=tuple(self._notes()),
            differences=differences,
        )

    def _add_failed(self) -> None:
        """Add the queries that were tried in vain; an unfinished run does not name them yet."""
        source = self.plan.source
        failed = [each for each in self._texts if each not in self._ranked.offsets]
        if not failed or not source.run.manifest.finished:
            return
        reasons = source.run.metrics().failed
        first_stage = source.data.metrics().per_query.get(MEASURE, {})
        other = source.other.metrics().per_query.get(MEASURE, {}) if source.other else {}
        for place, query_id in enumerate(failed, start=len(self._queries) + 1):
            figures = QueryFigures(
                place=place,
                query_id=cut(query_id, MOST_NAME),
                query=cut(self._texts[query_id], MOST_TEXT),
                ndcg=0.0 if self._grades.get(query_id) else None,
                first_stage_ndcg=first_stage.get(query_id),
                other_ndcg=other.get(query_id),
                error=cut(reasons.get(query_id) or "The run does not say why.", MOST_TEXT),
            )
            self.surveyor.add(QueryFindings(figures))

    def _notes(self) -> Iterator[str]:
        """Notes for readers of the report, a sentence or two each."""
        source, ranked = self.plan.source, len(self._queries)
        if not source.run.manifest.finished:
            torn = " The last ranking was not written to its end and is left out."
            yield (
                f"The run is not finished: {ranked:,} of {len(self._texts):,} queries have been "
                "ranked, and this report is about them alone." + torn * self._ranked.torn
            )
        if unjudged := sum(not self._grades.get(each) for each in self._queries):
            yield (
                f"{unjudged:,} of {ranked:,} ranked queries have no judgements; nDCG@10 leaves "
                "them out."
            )
        lacks = sum(each not in self._others for each in self._queries)
        if source.other is not None and lacks:
            yield (
                f"{source.other.manifest.label} has not ranked {lacks:,} of these queries; they "
                "count 0 for it."
            )
        yield from program_note(source.run.manifest.models.values())
