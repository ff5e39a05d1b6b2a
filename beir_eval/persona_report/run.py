"""One run of a report: what its pages are made of, and its survey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import RANKINGS, Ranked, index_rankings, judged_by_team
from beir_eval.persona_report.pages import Chunk, QueryPlan, RunPlan
from beir_eval.persona_report.sources import Source
from beir_eval.report.warnings import conditions, program_note
from personas.ensembles import highest_score
from personas.report.site import Made

if TYPE_CHECKING:
    from personas.survey.model import Difference, Survey
    from personas.survey.query import QueryFindings

CHUNK = 16
"""Queries that a worker takes at a time."""
MEASURE = "nDCG@10"

_OF_TEAMS = ("team_size", "recruiting", "criteria", "ensemble")
_SETTINGS = (
    *("preset", "team_size", "recruiting", "criteria", "scoring", "scale", "labels", "ensemble"),
    *("missing", "top_k", "depth", "first_stage_weight", "prompts"),
)


class RunReport:
    """The report of one run in the making.

    Attributes:
        source: the run, its data, and the run compared with.
        plan: its files.
    """

    def __init__(
        self, source: Source, ranked: Ranked, folder: Path, index: Path, made: Made
    ) -> None:
        """Read the queries and judgements of a run, whose pages go to `folder`.

        Raises:
            RunFolderError: a file cannot be read, or the rankings are of other data.
        """
        from personas.survey.surveyor import Surveyor

        self.source, other = source, source.other
        self._ranked, self._surveyor, self._surveyed = ranked, Surveyor(), 0
        self._texts, self._grades = source.data.queries(), source.data.qrels()
        strangers = ranked.offsets.keys() - self._texts.keys()
        if strangers:
            raise RunFolderError(
                f"{source.run.path / RANKINGS}: ranks query {min(strangers)!r}, which "
                f"{source.data.path} does not hold; the folders do not belong together"
            )
        self._queries = [each for each in self._texts if each in ranked.offsets]
        self._others: Mapping[str, int] = {}
        if other is not None:
            self._others = index_rankings(other.path / RANKINGS, finished=True).offsets
        self.plan = RunPlan(
            folder=folder,
            title=source.title,
            queries=len(self._queries),
            rankings=source.run.path / RANKINGS,
            passages=source.data.path / "passages.jsonl",
            index=index,
            other=other.path / RANKINGS if other else None,
            other_name=other.manifest.label if other else "",
            other_top=highest_score(other.manifest.config) if other else None,
            made=made,
        )

    def chunks(self, number: int) -> Iterator[Chunk]:
        """All queries with a page, 16 at a time; one empty chunk if there is none.

        Args:
            number: of the run.
        """
        plans = [
            QueryPlan(
                place,
                self._ranked.offsets[query_id],
                self._others.get(query_id),
                self._grades.get(query_id),
            )
            for place, query_id in enumerate(self._queries, start=1)
        ]
        for start in range(0, max(len(plans), 1), CHUNK):
            yield Chunk(number, self.plan, tuple(plans[start : start + CHUNK]))

    def add(self, findings: Iterable[QueryFindings]) -> bool:
        """Add what was found in some queries, and return True once all have been added."""
        for each in findings:
            self._surveyor.add(each)
            self._surveyed += 1
        return self._surveyed == len(self._queries)

    def survey(self, differences: tuple[Difference, ...]) -> Survey:
        """The survey of all queries; failed ones come last.

        Raises:
            RunFolderError: the metrics of a run cannot be read.
        """
        source, data = self.source, self.source.data.manifest
        self._add_failed()
        split = "" if data.split == "test" else f" ({data.split})"
        found = self._surveyor.finish(
            title=source.title,
            dataset=f"{data.dataset}{split}: {conditions(data, None)}",
            first_stage=data.first_stage.name,
            other=self.plan.other_name,
            models=source.run.manifest.models,
            settings=_settings(source.run.manifest.config, team=judged_by_team(self.plan.rankings)),
            notes=self._notes(),
        )
        return replace(found, collection=data.dataset, differences=differences)

    def _add_failed(self) -> None:
        """Add the queries that were tried in vain; an unfinished run does not name them yet."""
        failed = [each for each in self._texts if each not in self._ranked.offsets]
        if not failed or not self.source.run.manifest.finished:
            return

        source, other = self.source, {}
        reasons = source.run.metrics().failed
        first_stage = source.data.metrics().per_query.get(MEASURE, {})
        if source.other is not None:
            other = source.other.metrics().per_query.get(MEASURE, {})
        for place, query_id in enumerate(failed, start=len(self._queries) + 1):
            self._surveyor.fail(
                place,
                query_id,
                self._texts[query_id],
                reasons.get(query_id) or "The run does not say why.",
                judged=bool(self._grades.get(query_id)),
                first_stage_ndcg=first_stage.get(query_id),
                other_ndcg=other.get(query_id),
            )

    def _notes(self) -> Iterator[str]:
        """Notes for readers of the report, a sentence or two each."""
        manifest, other, ranked = self.source.run.manifest, self.source.other, len(self._queries)
        if not manifest.finished:
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
        if other is not None and lacks:
            yield (
                f"{other.manifest.label} has not ranked {lacks:,} of these queries; they count 0 "
                "for it."
            )
        if manifest.weak_judge == "small":
            yield (
                "The scoring model is marked weak: other defaults than the paper's were in effect."
            )
        yield from program_note(manifest.models.values())


def _settings(config: Mapping[str, Any], *, team: bool) -> dict[str, str]:
    """The choices that shape scores, as text; those that are empty are left out."""
    from personas.report.formats import value

    return {
        name.replace("_", " "): value(config[name])
        for name in _SETTINGS
        if config.get(name) not in (None, "", [], (), 0.0)
        and (team or name not in _OF_TEAMS)
        and not (name == "scale" and config.get("labels"))
    }
